"""Emulates a whole program: text, bytecode or a module in, a module or its text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from ...ops.policy import Policy
from ...ops.types import ElementType, TensorType, Type
from ..errors import UnsupportedError
from ..parse.parser import text_of
from ..parse.reader import Locator
from ..parse.rewriting import list_operations
from ..passes.cse import eliminate_common_subexpressions
from ..passes.dce import eliminate_dead_code
from ..passes.fold_constants import fold_constants
from ..passes.fuse import fuse
from ..passes.inline import inline
from ..planner import find_function
from ..program import Function, Region
from .rewrite import Emulation, unwrap, wrap
from .rules import attributes_of, of_codes, to_codes
from .source import Source
from .tensor import UI8, UI64, Tensor, insert, type_of


class _Whole(Emulation):
    """The rewriting of a whole program."""

    def module(self, entries: Sequence[str], codes: bool = False) -> ir.Module:
        """Return the rewritten module: the functions named, and those that they call.

        Args:
            entries: The functions whose types stay as they are.
            codes: Whether these take and give codes instead.
        """
        context = self.source.module.context
        with context, ir.Location.unknown():
            module = ir.Module.create()
            for name, attribute in attributes_of(self.source.module.operation).items():
                module.operation.attributes[name] = attribute
            with ir.InsertionPoint(module.body):
                for op in self.source.module.body.operations:
                    if op.operation.name.endswith(".mesh"):
                        op.operation.clone()
                self.pending = list(entries)
                self.seen = set(entries)
                while self.pending:
                    name = self.pending.pop(0)
                    self._function(self.program.functions[name], name in entries and not codes)
        return module

    def _function(self, function: Function, has_boundary: bool) -> None:
        """Write a function; with `has_boundary` its arguments and results have the types of the program."""
        source = self.source.functions[function.name]
        attributes = attributes_of(source)
        kind: Any = ir.FunctionType(ir.TypeAttr(attributes["function_type"]).value)
        takes, gives = (
            [
                old if has_boundary and _has_codes(t) else self.carried(t, old)
                for t, old in zip(types, given, strict=True)
            ]
            for types, given in ((function.argument_types, kind.inputs), (function.result_types, kind.results))
        )
        number = [type_of(UI64, ())] if function.name in self.numbered else []
        takes, gives = takes + number, gives + number
        for name in {"arg_attrs", "res_attrs"} & attributes.keys() if number else ():
            attributes[name] = ir.ArrayAttr.get([*ir.ArrayAttr(attributes[name]), ir.DictAttr.get({})])
        attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(takes, gives))
        op = ir.Operation.create("func.func", attributes=attributes, regions=1)
        if function.body is None:
            return
        region = self._apply_passes(function)

        def body(*values: ir.Value) -> list[ir.Value]:
            self.roundings = Tensor.of(values[-1]) if number else 0
            pairs = zip(values, function.argument_types, strict=not number)
            results = self.apply(region, [self._enter(v, t, function, has_boundary) for v, t in pairs])
            pairs = zip(results, function.result_types, strict=True)
            left = [self._leave(r, t, function, has_boundary) for r, t in pairs]
            return [*left, self.number().value] if number else left

        unknown = ir.Location.unknown()
        block = op.regions[0].blocks.append(*takes, arg_locs=[unknown] * len(takes))
        with ir.InsertionPoint(block):
            insert("func.return", [], body(*block.arguments))

    def _apply_passes(self, function: Function) -> Region:
        assert function.body is not None
        region = inline(self.program, function.body, self.once)
        if self.policy.rounding == "stochastic":  # draws belong to roundings in the order of the program
            return region
        region = fold_constants(region, self.binder.kernel)
        return fuse(eliminate_dead_code(eliminate_common_subexpressions(region)))

    def _enter(self, value: ir.Value, t: Type, function: Function, has_boundary: bool) -> Any:
        """Return an argument as it is carried."""
        if not has_boundary or not _has_codes(t):
            return wrap(value, t)
        element, tensor = _boundary_element(t, function), ir.RankedTensorType(value.type)
        if not tensor.has_static_shape:
            raise UnsupportedError(f"{function.location}: @{function.name}: expected arguments of known sizes, got {t}")
        return to_codes(Tensor(value, element, tuple(tensor.shape)))

    def _leave(self, value: Any, t: Type, function: Function, has_boundary: bool) -> ir.Value:
        """Return a result in its own type."""
        if not has_boundary or not _has_codes(t):
            return unwrap(value)
        return of_codes(value, _boundary_element(t, function)).value


def _has_codes(t: Type) -> bool:
    """Return whether values of a type are minifloats, whose bits are codes."""
    return isinstance(t, TensorType) and t.element.is_minifloat


def _boundary_element(t: Type, function: Function) -> ElementType:
    """Return the element type of an argument or result of the program, which has its bits as an integer."""
    assert isinstance(t, TensorType)
    if t.element.bits != 6 and t.element.has_dtype:
        return t.element
    raise UnsupportedError(
        f"{function.location}: @{function.name}: {t}: expected a type of four or eight bits at the boundary of the "
        f"program, and of StableHLO (take and give codes instead)"
    )


def emulate_module(
    module: ir.Module, policy: Policy | None = None, *, codes: bool = False, dots: str = "auto", file: str = "<module>"
) -> ir.Module:
    """Return a module that computes the results of another with integers, tables and exact products.

    Args:
        module: The program, which is not changed; the result is in its context.
        policy: What the implementation may choose.
        codes: Whether arguments and results of minifloats are codes, `ui8`, instead.
        dots: How exact sums of products are formed, as `Emulation` says.
        file: The name of the program in messages.

    Raises:
        UnsupportedError: An operation on minifloats is not emulated; with the place.
        ProgramError: The program is not valid.
    """
    return _emulate(Source(module, Locator(file), file), policy, codes, dots)


def emulate_text(
    source: str | bytes,
    policy: Policy | None = None,
    *,
    codes: bool = False,
    dots: str = "auto",
    file: str = "<string>",
) -> str:
    """Return the text of the module that `emulate_module` gives for a program in text, bytecode or an artifact."""
    return text_of(_emulate(Source.of_text(source, file), policy, codes, dots))


def _emulate(source: Source, policy: Policy | None, codes: bool, dots: str) -> ir.Module:
    program = source.program
    public = [f.name for f in program.functions.values() if f.is_public] or [find_function(program).name]
    module = _Whole(source, policy or Policy(), dots).module(public, codes)
    with source.module.context:
        _mask_conversions(module)
        try:
            PassManager.parse("builtin.module(cse)").run(module.operation)  # what rules write twice, or for nothing
        except ir.MLIRError as error:
            raise Locator("<emulated>").error(error.error_diagnostics, "the emulated program is not valid") from None
    return module


def _mask_conversions(module: ir.Module) -> None:
    """Write conversions of bytes to four bits and back as masks: some compilers store only whole bytes of four bits."""
    for op in list_operations(module.operation, "stablehlo.convert"):
        owner = op.operands[0].owner
        if not isinstance(owner, ir.Block) and (inner := owner.operation).name == op.name:
            given, short, found = (Tensor.of(v) for v in (inner.operands[0], inner.results[0], op.results[0]))
            if (given.element, short.element.name, found.element) == (UI8, "ui4", UI8):
                with ir.InsertionPoint(op), ir.Location.unknown():
                    op.results[0].replace_all_uses_with((given & 15).value)
