"""A program together with the MLIR it was read from, from which single ops are cut out as programs."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import textwrap
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _stablehlo
from jaxlib.mlir._mlir_libs._mlirHlo import register_mhlo_passes
from jaxlib.mlir.passmanager import PassManager

from ...ops.op import lookup
from ...ops.policy import Policy
from ...ops.types import QuantizedType, TensorType, TupleType, Type
from .. import transport
from ..errors import ProgramError, UnsupportedError
from ..parse import parser
from ..parse.containers import native
from ..parse.reader import Locator, Reader
from ..parse.rewriting import list_operations, replace_operands, symbol_of
from ..parse.syntax import NEWER
from ..passes.rewriting import captures as region_captures
from ..passes.rewriting import used_values
from ..planner import Plan, find_function, plan
from ..program import CONSTANT, Function, Location, Operation, Program, Region, Value
from ..system.isolate import quiet_native_stderr
from .mlir import drop_shardings, inline_calls

_MAIN, _ALONE = "main", "one op"
#: The numbers of processes, of which programs that are compared meet no others.
_COUNTS = {"mhlo.num_replicas", "mhlo.num_partitions"}


class _Recorder(Reader):
    """A reader that remembers the MLIR of each op and value."""

    def __init__(self, module: ir.Module, places: Locator) -> None:
        super().__init__(module, places)
        self.operations: dict[Operation, ir.Operation] = {}
        self.values: dict[Value, ir.Value] = {}
        self.constants: dict[Value, Operation] = {}  #: those computed from constants alone too

    def read_operation(self, op: ir.Operation) -> list[Operation]:
        made = super().read_operation(op)
        if len(made) != 1:
            raise self.unsupported(op, "expected StableHLO's own control flow, got another, which only `run` takes")
        self.operations[made[0]] = op
        record = lookup(made[0].name)
        is_known = made[0].name == CONSTANT or (record is not None and record.is_pure and not record.traits.is_call)
        if is_known and not made[0].regions and all(v in self.constants for v in made[0].operands):
            self.constants.update(dict.fromkeys(made[0].results, made[0]))
        return made

    def define(self, op: ir.Operation, value: ir.Value) -> Value:
        made = super().define(op, value)
        self.values[made] = value
        return made

    def program(self, file: str) -> Program:
        program = super().program(file)
        for function in program.functions.values():
            for operation in function.body.operations if function.body else ():
                if operation not in self.operations:
                    raise UnsupportedError(
                        f"{operation.location}: expected StableHLO's own control flow and shardings, got "
                        "others, which only `run` takes"
                    )
        return program


class Source:
    """A program and its MLIR."""

    def __init__(self, module: ir.Module, places: Locator, file: str, function: str | None = None) -> None:
        """`function` is the one to run, as `planner.find_function` finds it. Raises ProgramError."""
        self._places = places
        self.module, self.file = module, file
        self._reader = _Recorder(module, places)
        self._plans: dict[tuple[Operation, Policy], Plan] = {}
        self.program = self._reader.program(file)
        self.function = find_function(self.program, function)
        if self.function.body is None:
            raise ProgramError(f"{self.function.location}: @{self.function.name} has no body")

    @classmethod
    def of_text(cls, text: str | bytes, file: str, first_line: int = 1, function: str | None = None) -> Source:
        """Reads a program from text or bytecode; tuples that it takes or gives become their elements.

        Raises ProgramError if it cannot be read.
        """
        source = cls(parser.module(text, file, first_line), Locator(file, first_line - 1), file, function)
        types = (*source.function.argument_types, *source.function.result_types)
        return source._expand_tuples() if any(isinstance(t, TupleType) for t in types) else source

    def refine(self, types: Sequence[Type]) -> Source:
        """The program for arguments of these types, if its own leave sizes open, as JAX refines what it has exported.

        Raises ProgramError where it cannot be refined, or where the sizes do not fit the program.
        """
        if all(t.is_static for t in self.function.argument_types if isinstance(t, TensorType)):
            return self
        _stablehlo.register_stablehlo_passes()
        known = f"stablehlo-refine-arguments{{types={','.join(map(str, types))}}}"
        passes = f"builtin.module({known},func.func(shape-legalize-to-stablehlo,stablehlo-legalize-composite-to-call))"
        changed = self._copy_changed(lambda m: PassManager.parse(passes).run(m.operation))
        bytecode = io.BytesIO()
        changed.module.operation.write_bytecode(bytecode)
        try:
            with quiet_native_stderr():
                refined = native("refine_polymorphic_shapes")(bytecode.getvalue(), True, False, True)
        except Exception as error:  # of several classes, as versions have it
            line = str(error).partition("\n")[0]  # the lines after it are a call stack
            raise ProgramError(f"{self.file}: @{self.function.name}: {line}") from None
        with self.module.context:
            return Source(ir.Module.parse(refined), self._places, self.file, self.function.name)

    def _expand_tuples(self) -> Source:
        register_mhlo_passes()
        passes = (
            "symbol-dce",
            "stablehlo-legalize-to-hlo",
            f"expand-hlo-tuples{{entry-function={self.function.name}}}",
            "hlo-legalize-to-stablehlo",
        )

        def expand(module: ir.Module) -> None:
            for op in list_operations(module.operation, "func.func"):
                if symbol_of(op) != self.function.name:  # others may have what these passes do not know
                    op.attributes["sym_visibility"] = ir.StringAttr.get("private")
            PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)

        return self._copy_changed(expand)

    def inline(self) -> Source:
        """The program with the functions that it calls inlined."""
        return self._copy_changed(lambda m: inline_calls(m, self.function.name, self._places))

    def _copy_changed(self, change: Callable[[ir.Module], None]) -> Source:
        """A changed copy; the locations of its ops are the same."""
        with self.module.context, ir.Location.unknown():
            text: Any = self.module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
            module = ir.Module.parse(text)
            try:
                change(module)
            except ir.MLIRError as error:
                raise self._places.error(error.error_diagnostics, "the program cannot be prepared") from None
        return Source(module, self._places, self.file, self.function.name)

    def places(self, operation: Operation) -> tuple[str, list[Location]]:
        """JAX's name for the location of an op, and the lines of its call stack, innermost first."""
        return self._places.stack(self._reader.operations[operation].location)

    def names(self) -> list[str]:
        """JAX's names for the arguments of the function, such as `params['w']`; empty if there are none."""
        assert self.function.body is not None
        return [self._places.stack(self._reader.values[v].location)[0] for v in self.function.body.arguments]

    # -- one op as a program -------------------------------------------------------------------------------------------

    def plan(self, operation: Operation, policy: Policy) -> Plan:
        """The plan for an op alone, given its `inputs`, made once. Raises ProgramError if it is not supported."""
        if (operation, policy) in self._plans:
            return self._plans[operation, policy]
        arguments = inputs(operation)
        body = Region(arguments, [operation], operation.results)
        takes, gives = (tuple(v.type for v in values) for values in (arguments, operation.results))
        function = Function(_ALONE, True, takes, gives, body, operation.location)
        program = dataclasses.replace(self.program, functions=self.program.functions | {_ALONE: function})
        self._plans[operation, policy] = plan(program, _ALONE, policy)
        return self._plans[operation, policy]

    def passed(self, operation: Operation) -> tuple[Value, ...]:
        """The `inputs` of an op that are arguments of its program: not the constants that its regions use."""
        captured = captures(operation)
        constants = self._reader.constants
        return tuple(v for v in inputs(operation) if v not in captured or v not in constants)

    def select(self, operation: Operation, values: Sequence[Any]) -> list[Any]:
        """The values of `passed`, from those of `inputs`."""
        passed = set(self.passed(operation))
        return [x for v, x in zip(inputs(operation), values, strict=True) if v in passed]

    def text(self, operation: Operation, *, packed: bool) -> str:
        """An op alone as a program for a backend, given its `inputs`; `packed`, these and the results are in transport
        form.

        All types are tensors (see `is_movable`). Constants that its regions use are in the program (see `passed`).
        """
        return self._text([operation], operation.results, set(self.passed(operation)), packed)

    def part(
        self, operations: Sequence[Operation], wanted: Sequence[Value], *, packed: bool
    ) -> tuple[str, list[Value]]:
        """Some ops of the function's top level, in order, as a program that gives the values `wanted`.

        Returns its text, and the values that are its arguments. Constants are in the program.
        """
        made = {v for o in operations for v in o.results}
        used = dict.fromkeys(v for o in operations for v in inputs(o) if v not in made)
        makers = self._reader.constants
        passed = [v for v in used if v not in makers or makers[v].name != CONSTANT]
        return self._text(operations, wanted, set(passed), packed), passed

    def _text(
        self, operations: Sequence[Operation], wanted: Sequence[Value], passed: Collection[Value], packed: bool,
        is_whole: bool = False,
    ) -> str:  # fmt: skip
        """Some ops as a program; as the whole program it has all arguments, and the attributes of its module."""
        made = {v for o in operations for v in o.results}
        names_functions = is_whole
        used = (v for o in operations for v in inputs(o) if v not in made)
        needed = dict.fromkeys([*(passed if is_whole else ()), *used])
        with self.module.context, ir.Location.unknown():
            module = ir.Module.create()
            for name in set(self.module.operation.attributes) - _COUNTS if is_whole else ():
                module.operation.attributes[name] = self.module.operation.attributes[name]
            with ir.InsertionPoint(module.body):
                function = ir.Operation.create("func.func", regions=1, attributes=_signature([], []))
            block = function.regions[0].blocks.append()
            with ir.InsertionPoint(block):
                given = {self._reader.values[v]: _argument(block, v.type, packed) for v in needed if v in passed}
                for operation in (*self._constants(v for v in needed if v not in passed), *operations):
                    old = self._reader.operations[operation]
                    clone: Any = old.clone()
                    if not is_whole:
                        drop_shardings(clone)
                    replace_operands(clone, given)
                    given.update(zip(old.results, clone.results, strict=True))
                    names_functions = names_functions or "@" in str(clone)
                results: list[ir.Value] = []
                for v in wanted:
                    value = given[self._reader.values[v]]
                    results += transport.send(value, _tensor(v.type)) if packed else [value]
                ir.Operation.create("func.return", operands=results)
            attributes = _signature([a.type for a in block.arguments], [r.type for r in results])
            function.attributes["function_type"] = attributes["function_type"]
            if names_functions:
                self._add_functions(module)
            text = parser.text_of(module)
        if text.startswith("module {\n"):
            text = textwrap.dedent(text.partition("\n")[2].rpartition("}")[0])
        return text.replace(f'"{NEWER}', '"')

    def _constants(self, values: Iterable[Value]) -> list[Operation]:
        """The ops that give some constants, in the program's order."""
        made, waiting = set[Operation](), list(values)
        while waiting:
            operation = self._reader.constants[waiting.pop()]
            if operation not in made:
                made.add(operation)
                waiting += operation.operands
        return [o for o in dict.fromkeys(self._reader.constants.values()) if o in made]

    def instrument(self, wanted: Sequence[Value]) -> str:
        """The whole program for a backend, with arguments, results and some values of its top level in transport
        form."""
        assert self.function.body is not None
        operations = [o for o in self.function.body.operations if not o.name.startswith("check.")]  # others lack these
        return self._text(operations, wanted, self.function.body.arguments, True, is_whole=True)

    def _add_functions(self, module: ir.Module) -> None:
        """Adds the functions that the op calls."""
        with ir.InsertionPoint(module.body):
            for op in self.module.body.operations:
                name: Any = op.attributes.get("sym_name", None)
                if name is not None and name.value != _MAIN:
                    clone: Any = op.operation.clone()
                    if op.operation.name == "func.func":
                        clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
        _drop_unused_functions(module.operation)


def is_movable(operation: Operation) -> bool:
    """Whether the operands and results of an op can be passed to a backend: tensors of known sizes, not quantized."""
    return bool(operation.results) and all(is_movable_type(v.type) for v in (*inputs(operation), *operation.results))


def is_movable_type(t: Type) -> bool:
    """Whether values of a type can be passed to a backend."""
    return isinstance(t, TensorType) and t.is_static and not isinstance(t.element, QuantizedType)


def _drop_unused_functions(module: ir.Operation) -> None:
    with contextlib.suppress(ir.MLIRError):  # unregistered ops may use any of them
        PassManager.parse("builtin.module(symbol-dce)").run(module)


def _tensor(t: Type) -> TensorType:
    assert isinstance(t, TensorType)
    return t


def _argument(block: ir.Block, t: Type, packed: bool) -> ir.Value:
    """A value of type `t` that is, or is made of, new arguments of a block."""
    unknown = ir.Location.unknown()
    if not packed:
        return block.add_argument(transport.tensor(_tensor(t), _tensor(t).element), unknown)
    arguments = [block.add_argument(p, unknown) for p in transport.parameter_types(_tensor(t))]
    return transport.receive(arguments, _tensor(t))


def _signature(arguments: list[ir.Type], results: list[ir.Type]) -> dict[str, ir.Attribute]:
    kind = ir.FunctionType.get(arguments, results)
    return {"sym_name": ir.StringAttr.get(_MAIN), "function_type": ir.TypeAttr.get(kind)}


def inputs(operation: Operation) -> tuple[Value, ...]:
    """The values that an op and its regions use, each once: its operands first."""
    return tuple(dict.fromkeys(used_values(operation)))


def close(operation: Operation, values: Sequence[Any]) -> Operation:
    """The op with what its regions use from outside as constants in them; `values` are those of its `inputs`."""
    used = captures(operation)
    constants = [
        Operation(CONSTANT, (), (v,), {"value": np.asarray(x)}, (), operation.location)
        for v, x in zip(inputs(operation), values, strict=True)
        if v in used
    ]
    regions = tuple(Region(r.arguments, [*constants, *r.operations], r.returns) for r in operation.regions)
    operands = tuple(Value(v.type) for v in operation.operands)  # of which some may be used in regions too
    return dataclasses.replace(operation, operands=operands, regions=regions) if used else operation


def captures(operation: Operation) -> set[Value]:
    """The values that the regions of an op use from outside."""
    return {v for region in operation.regions for v in region_captures(region)}
