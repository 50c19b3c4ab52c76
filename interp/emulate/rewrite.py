"""Rewrites a program into one that computes the same minifloats with integers and tables.

Minifloats are carried as their codes, `ui8`, and quantized types as their storage. Each operation goes one of these
ways, the first that fits:

1. a rule of its own, declared by `emulates` for its name;
2. elementwise operations, and fused groups of them: a lookup in a table that the exact arithmetic fills;
3. operations without minifloats stay as they are; so do those that only move elements, on codes;
4. all others are refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.op import Call, OpError, lookup
from ...ops.policy import ACCUMULATIONS, Policy
from ...ops.programs.control import is_known_composite
from ...ops.random_stream import RandomStream
from ...ops.traits import RegionSemantics
from ...ops.types import ElementType, TensorType, TupleType, Type
from ..bind import Binder
from ..errors import UnsupportedError
from ..passes.fuse import fuse
from ..passes.inline import called_once, inline
from ..passes.rewriting import all_operations
from ..program import BARRIER, CONSTANT, Operation, Region, Value
from ..settings import Settings
from .rules import align, attributes_of, carrier, constant_of, full_name, has_emulated, is_emulated, rules
from .source import Source
from .tensor import UI8, UI32, UI64, Tensor, constant, fill, fill_by_name, insert, type_of

#: The attributes that name composites and custom calls.
_NAMED = {"stablehlo.composite": "name", "stablehlo.custom_call": "call_target_name"}


class Emulation:
    """The rewriting of one program under a policy; `dots` says how exact sums of products are formed.

    `"auto"`: by dots of bytes where a type has few bits, else in f32 or f64; `"int8"`: by bytes alone; `"f64"`: not so.
    """

    def __init__(self, source: Source, policy: Policy, dots: str = "auto") -> None:
        self.rules, self.refused = rules()
        self.source, self.policy, self.program, self.dots = source, policy, source.program, dots
        #: How many roundings came before, under stochastic rounding.
        self.roundings: int | Tensor = 0
        #: The draws of the next rounding, where they are some of those of another one.
        self.drawn: Tensor | None = None
        self._values: dict[Value, Any] = {}
        self._remembered: dict[Operation, Any] = {}
        self.binder = Binder(self.program, policy, Settings(), RandomStream(), self._refuse_call)
        self.once = called_once(self.program)
        self.pending: list[str] = []
        self.seen: set[str] = set()
        #: The functions that take and return how many roundings came before.
        self.numbered: set[str] = set()

    def number(self) -> Tensor:
        """Return how many roundings came before, a scalar of ui64."""
        return self.roundings if isinstance(self.roundings, Tensor) else constant(self.roundings, UI64)

    def carried(self, t: Type, old: ir.Type) -> ir.Type:
        """Return the type of MLIR that values of a type are carried as; `old` is what it was."""
        if not is_emulated(t):
            return old
        if isinstance(t, TupleType):
            kinds = [self.carried(e, ir.TupleType(old).get_type(i)) for i, e in enumerate(t.elements)]
            return ir.TupleType.get_tuple(kinds)
        assert isinstance(t, TensorType)
        tensor = ir.RankedTensorType(old)
        return ir.RankedTensorType.get(list(tensor.shape), ir.Type.parse(carrier(t.element).name), tensor.encoding)

    def _refuse_call(self, name: str, operation: Operation) -> Callable[..., tuple[Any, ...]]:
        raise UnsupportedError(f"{operation.location}: {operation.name}: expected no call here, got one of @{name}")

    # -- regions and operations ----------------------------------------------------------------------------------------

    def apply(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        """Write the operations of a region here, on the arguments given, and return its results.

        A region on scalars whose operations are elementwise takes arrays too; its results may be scalars then, where
        they depend on no argument.
        """
        self._values.update(zip(region.arguments, arguments, strict=True))
        for operation in region.operations:
            results = self.emit(operation, [self._values[v] for v in operation.operands])
            self._values.update(zip(operation.results, results, strict=True))
        return [self._values[v] for v in region.returns]

    def emit(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Write one operation on the operands given, and return its results."""
        source = self.source.mlir(operation)
        with source.location if source is not None else contextlib.nullcontext():
            try:
                return self.write(operation, operands)
            except OpError as error:
                raise UnsupportedError(f"{operation.location}: {operation.name}: {error}") from None

    def write(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Write an operation that need not be one of the program; raises OpError."""
        name, record = operation.name, lookup(operation.name)
        is_call = record is not None and record.traits.is_call
        if name == CONSTANT:
            self.binder.note(operation)
            return [self._constant(operation)]
        rule = self.rules.get(full_name(str(operation.attributes.get(_NAMED.get(name, "")))))
        if rule is not None:
            _check_static(operation)
            found = rule(self, operation, operands)
            return self._call(operation, operands) if found is None else found
        if is_call and not is_known_composite(operation.attributes):
            return self._call(operation, operands)
        if self.changes(operation) or name.startswith("minihlo."):
            _check_static(operation)
            found = self.rules["minihlo.quantized"](self, operation, operands)
            if found:
                return found
            rule = self.rules.get(name)
            if rule is not None:
                return rule(self, operation, operands)
            if name in self.refused:
                raise OpError(self.refused[name])
            if record is not None and record.is_elementwise and record.values == "numbers":
                return self.rules["minihlo.elementwise"](self, operation, operands)
            moves = record is not None and record.values == "codes"
            runs_regions = record is not None and record.traits.regions is not RegionSemantics.ELEMENTS
            if not moves and not runs_regions:
                types = ", ".join(str(v.type) for v in operation.operands)
                raise OpError(f"expected an operation that is emulated, got one on {types or 'no operands'}")
        return self.copy(operation, operands)

    def rewritten(
        self,
        operation: Operation,
        operands: Sequence[Tensor],
        body: Region | str | None = None,
        elements: Sequence[ElementType] = (),
    ) -> list[Tensor]:
        """Copy an operation on operands of other types, with results of the types given, or else of the operands'.

        Its body is a region on scalars, or the operation of a name on two of them.
        """
        source = self.mlir(operation)
        elements = elements or [x.element for x in operands[: len(source.results)]]
        shapes = [ir.RankedTensorType(r.type).shape for r in source.results]
        types = [type_of(t, shape) for t, shape in zip(elements, shapes, strict=True)]
        op = insert(source.name, types, [x.value for x in operands], attributes_of(source), 0 if body is None else 1)
        if isinstance(body, str):
            fill_by_name(op.regions[0], body, elements[0])
        elif body is not None:
            self.fill_with(op.regions[0], body)
        return [Tensor.of(r) for r in op.results]

    def fill_with(self, target: ir.Region, region: Region) -> None:
        """Write a region on scalars into an empty one, on codes."""
        types = [type_of(carrier(v.type.element), ()) for v in region.arguments if isinstance(v.type, TensorType)]

        fill(target, types, lambda *values: [r.value for r in self.apply(region, [Tensor.of(v) for v in values])])

    def copy(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        """Copy an operation, on codes where it has minifloats."""
        record = lookup(operation.name)
        if operation.name == BARRIER and self.source.mlir(operation) is None:
            return operands
        source = self.mlir(operation)
        if record is not None and record.is_elementwise:
            operands = align(operands)
            if self.policy.rounding == "stochastic":
                self.rules["minihlo.roundings"](self, operation, operands)
        types = self._types_of_results(operation, source)
        if record is not None and record.is_elementwise and operands and isinstance(operands[-1], Tensor):
            shape = list(operands[-1].shape)
            types = [ir.RankedTensorType.get(shape, ir.RankedTensorType(t).element_type) for t in types]
        values, regions = [unwrap(v) for v in operands], operation.regions
        runs = record.traits.regions if record is not None and self.policy.rounding == "stochastic" else None
        number = [self.number()] if runs in (RegionSemantics.LOOP, RegionSemantics.ONE) else []
        values += [n.value for n in number if runs is RegionSemantics.LOOP]
        types += [n.value.type for n in number]
        op = ir.Operation.create(operation.name, types, values, attributes_of(source), regions=len(regions))
        self._rewrite_regions(regions, source.regions, op, runs)
        for name in record.calls if record is not None else ():
            self._need(operation.attributes.get(name))
        results = list(op.results)
        self.roundings = Tensor.of(results.pop()) if number else self.roundings
        return [wrap(r, v.type) for r, v in zip(results, operation.results, strict=True)]

    def _rewrite_regions(
        self, regions: Sequence[Region], before: Sequence[ir.Region], op: ir.Operation, runs: RegionSemantics | None
    ) -> None:
        """Fill the regions of a copy; with `runs`, loops carry the number of roundings, and branches return it."""
        first, is_loop = self.roundings, runs is RegionSemantics.LOOP
        for region, old, target in zip(regions, before, op.regions, strict=True):
            block = old.blocks[0]
            takes = [self.carried(v.type, a.type) for v, a in zip(region.arguments, block.arguments, strict=True)]
            takes += [type_of(UI64, ())] * is_loop
            inner = target.blocks.append(*takes, arg_locs=[ir.Location.unknown()] * len(takes))
            end = list(block.operations)[-1].operation.name
            with ir.InsertionPoint(inner):
                values = list(inner.arguments)
                self.roundings = Tensor.of(values.pop()) if is_loop else first
                given, number = [wrap(a, v.type) for a, v in zip(values, region.arguments, strict=True)], self.roundings
                results = [unwrap(v) for v in self.apply(region, given)]
                if runs is RegionSemantics.ONE or (is_loop and region is regions[-1]):
                    results.append(self.number().value)
                elif self.roundings is not number:  # a condition, or a region that is run for each element
                    raise OpError("expected no stochastic rounding in a region, got one")
                insert(end, [], results)
        self.roundings = first

    def _call(self, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
        source, record = self.mlir(operation), lookup(operation.name)
        assert record is not None
        name = str(operation.attributes[record.calls[0]])
        if not self.changes(operation) and operation.name != "func.call" and not self._uses_emulated(name, set()):
            return self.copy(operation, operands)
        number = [self.number()] if self.policy.rounding == "stochastic" else []
        if number and name not in self.numbered and name in self.seen:
            raise OpError(f"expected no stochastic rounding in a function that is part of the interface, got @{name}")
        self.numbered.update([name] if number else ())
        self._need(name)
        types = [*self._types_of_results(operation, source), *(n.value.type for n in number)]
        callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
        results = list(insert("func.call", types, [unwrap(v) for v in (*operands, *number)], callee).results)
        self.roundings = Tensor.of(results.pop()) if number else self.roundings
        return [wrap(r, v.type) for r, v in zip(results, operation.results, strict=True)]

    def _types_of_results(self, operation: Operation, source: ir.Operation) -> list[ir.Type]:
        return [self.carried(r.type, o.type) for r, o in zip(operation.results, source.results, strict=True)]

    def _uses_emulated(self, name: str, seen: set[str]) -> bool:
        """Return whether a function, or one that it calls, has minifloats."""
        function = self.program.functions.get(name)
        if function is None or function.body is None or name in seen:
            return False
        seen.add(name)
        for operation in all_operations(function.body):
            record = lookup(operation.name)
            names = [str(operation.attributes.get(a)) for a in (record.calls if record else ())]
            if self.changes(operation) or any(self._uses_emulated(n, seen) for n in names):
                return True
        return False

    def _need(self, names: Any) -> None:
        """Note functions that the program calls: a name, or a list of names."""
        for name in (names,) if isinstance(names, str) else names or ():
            if isinstance(name, str) and name not in self.seen and name in self.program.functions:
                self.seen.add(name)
                self.pending.append(name)

    def changes(self, operation: Operation) -> bool:
        """Return whether an operation is emulated: it has minifloats or quantized types, or an accumulator that the
        policy names sums its products of floats of 16 bits, or the policy rounds its conversion as no device does.
        """
        record, chosen = lookup(operation.name), self.policy.accumulate
        if operation.name == "stablehlo.convert" and not has_emulated(operation):
            values = (*operation.operands, *operation.results)
            source, target = (v.type.element for v in values if isinstance(v.type, TensorType))
            is_plain = self.policy.rounding == "nearest_even" and self.policy.overflow == "ieee"
            return not is_plain and source.name in ("f32", "f64") and target.is_float and target.bits < source.bits
        if has_emulated(operation) or chosen in ACCUMULATIONS or record is None:
            return has_emulated(operation)
        types = [v.type for v in operation.operands[:2]]
        is_short = all(isinstance(t, TensorType) and t.element.is_float and t.element.bits <= 16 for t in types)
        return is_short and (record.traits.terms is not None or record.name.endswith("einsum"))

    # -- for rules -----------------------------------------------------------------------------------------------------

    def mlir(self, operation: Operation) -> ir.Operation:
        """Return the operation of MLIR that an operation was read from; raises OpError for one that a pass inserted."""
        source = self.source.mlir(operation)
        if source is None:
            raise OpError("expected an operation of the program, got one that a pass inserted")
        return source

    def call(self, operation: Operation) -> Call:
        """Return the use of an operation as its declaration takes it; raises OpError where it is not valid."""
        operands, results = (tuple([v.type for v in values]) for values in (operation.operands, operation.results))
        bodies = tuple([self.binder.body(r) for r in operation.regions])
        return Call(operation.name, operands, results, operation.attributes, bodies, self.policy, RandomStream())

    def prepare(self, region: Region) -> Region:
        """Return a region on elements as `apply` takes it: without calls, and with groups as tables."""
        region = inline(self.program, region)
        return region if self.policy.rounding == "stochastic" else fuse(region)

    def remember(self, operation: Operation, compute: Callable[[], Any]) -> Any:
        """Return what was computed for an operation, which may be written several times."""
        if operation not in self._remembered:
            self._remembered[operation] = compute()
        return self._remembered[operation]

    def look(self, entries: np.ndarray, element: ElementType, codes: Tensor) -> Tensor:
        """Return the entries of a table at codes, or other indices; as ui8 for minifloats."""
        entries = entries.astype(element.dtype)
        if element.is_minifloat:
            entries, element = entries.view(np.uint8), UI8
        return constant(entries, element).take(codes.to(UI32))

    def _constant(self, operation: Operation) -> Tensor:
        """Write a constant; codes of a minifloat."""
        (result,) = operation.results
        value, source = operation.attributes.get("value"), self.source.mlir(operation)
        t = result.type
        assert isinstance(t, TensorType)
        if not is_emulated(t) and source is not None and source.name == CONSTANT:
            return Tensor.of(source.clone().operation.results[0])
        if not isinstance(value, np.ndarray):
            raise OpError("expected a constant of known elements")
        if value.size and not any(value.strides[d] for d in range(value.ndim) if value.shape[d] > 1):
            return constant_of(value.reshape(-1)[0], t.element, value.shape)
        return constant_of(value, t.element)


def wrap(value: ir.Value, t: Type) -> Any:
    """Return a value as rules take it: a tensor of known sizes as a `Tensor`."""
    if not isinstance(t, TensorType) or not t.is_static:
        return value
    tensor = ir.RankedTensorType(value.type)
    return Tensor(value, carrier(t.element), tuple(tensor.shape))


def unwrap(value: Any) -> ir.Value:
    return value.value if isinstance(value, Tensor) else value


def _check_static(operation: Operation) -> None:
    for v in (*operation.operands, *operation.results):
        if isinstance(v.type, TensorType) and not v.type.is_static:
            raise OpError(f"expected known sizes, got {v.type} (give the types of the arguments)")
