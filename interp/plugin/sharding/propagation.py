"""Where the results of a program lie, as far as it does not say: shardings, followed from op to op.

Any choice is right, since a sharding changes no value. This one follows tensors forward, from the arguments and from
what the program says on the way, as long as dimensions keep their sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ....ops.op import lookup
from ....ops.processes.sharded import Axis, Sharding
from ....ops.types import TensorType, Type
from ...parse import sharding
from ...parse.attributes import Opaque
from ...program import Function, Operation, Program, Region, Value

#: Ops that say how their operand is to lie.
CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")

#: The shardings of values, as far as they are known.
Known = dict[Value, Sharding | None]
Shape = tuple[int | None, ...]
#: Takes an op and the shardings of its operands; None for a value inside of a manual computation.
Observer = Callable[[Operation, list[Sharding | None] | None], None]


def propagate(program: Program, function: Function, observe: Observer | None = None) -> list[Sharding | None]:
    """Return the shardings of a function's results, followed from op to op.

    Args:
        program: The program, with the meshes that shardings name.
        function: A function of it, whose arguments have the attribute `sdy.sharding` where their sharding is known.
        observe: Is called with each custom call on the way, and the shardings of its operands.

    Returns:
        For each result its sharding; None where nothing is known of it.

    Raises:
        ProgramError: A sharding cannot be read.
    """
    attributes = function.attributes.get("arg_attrs") or ({},) * len(function.argument_types)
    shardings = [
        next(iter(sharding.shardings(a["sdy.sharding"].text, program)), None)
        if a and isinstance(a.get("sdy.sharding"), Opaque)
        else None
        for a in attributes
    ]
    results = Propagation(program, observe).function(function, shardings)
    return [fitting(s, t) for s, t in zip(results, function.result_types, strict=True)]


def refined(declared: Sharding | None, known: Sharding | None, t: Type) -> Sharding | None:
    """What is said, with its open dimensions cut as they are known to be, as far as they can be."""
    if declared is None or known is None or not isinstance(t, TensorType):
        return declared or known
    mesh = declared.mesh if declared.mesh.axes else known.mesh
    if mesh != known.mesh:
        return declared
    used = {a.name for dim in declared.dims for a in dim} | set(declared.unreduced)
    dims = list(declared.dims)
    for i, axes in enumerate(known.dims):
        count = Sharding(mesh, (axes,)).parts()[0]
        size = t.shape[i]
        if i in declared.opened and not dims[i] and not used & {a.name for a in axes} and size and size % count == 0:
            dims[i] = axes
            used |= {a.name for a in axes}
    return dataclasses.replace(declared, mesh=mesh, dims=tuple(dims), opened=frozenset())


def fitting(known: Sharding | None, t: Type) -> Sharding | None:
    """A sharding without the cuts that do not give equal parts."""
    if known is None or not isinstance(t, TensorType):
        return known
    counts = known.parts()
    dims = [dim if n and n % count == 0 else () for dim, n, count in zip(known.dims, t.shape, counts, strict=True)]
    return dataclasses.replace(known, dims=tuple(dims))


class Propagation:
    """Follows shardings through a program."""

    def __init__(self, program: Program, observe: Observer | None = None) -> None:
        self._program, self._observe = program, observe
        self._depth = self._manual_depth = 0

    def function(self, function: Function, arguments: Iterable[Sharding | None]) -> list[Sharding | None]:
        """The shardings of a function's results, as far as they follow from those of its arguments."""
        if function.body is None or self._depth > 8:
            return [None] * len(function.result_types)
        self._depth += 1
        results = self._region(function.body, dict(zip(function.body.arguments, arguments, strict=False)))
        self._depth -= 1
        return results

    def _region(self, region: Region, known: Known) -> list[Sharding | None]:
        for operation in region.operations:
            results = self.operation(operation, known)
            known.update(zip(operation.results, results, strict=False))
        return [known.get(v) for v in region.returns]

    def operation(self, operation: Operation, known: Known) -> list[Sharding | None]:
        """The shardings of the results of an op, as far as they are known; perhaps too few of them."""
        name = operation.name
        operands = [known.get(v) for v in operation.operands]
        if name in CONSTRAINTS:
            text = operation.attributes.get("sharding")
            if not isinstance(text, Opaque):
                return operands[:1]
            return [refined(sharding.shardings(text.text, self._program)[0], operands[0], operation.results[0].type)]
        if name == "sdy.manual_computation":
            return self._manual(operation, operands)
        if name == "func.call":
            callee = self._program.functions.get(str(operation.attributes.get("callee")))
            return self.function(callee, operands) if callee else []
        if name == "stablehlo.while" and operation.regions:
            body = operation.regions[1]
            after = self._region(body, {**known, **dict(zip(body.arguments, operands, strict=False))})
            return [a or b for a, b in zip(operands, after, strict=True)]
        if name == "stablehlo.case" and operation.regions:
            results, *_ = [self._region(region, dict(known)) for region in operation.regions]
            return results
        if name == "stablehlo.custom_call" and self._observe is not None:
            self._observe(operation, None if self._manual_depth else operands)
        if not any(s is not None and s.mesh.axes for s in operands):
            return []
        return [self._result(operation, v.type, operands) for v in operation.results]

    def _manual(self, operation: Operation, operands: list[Sharding | None]) -> list[Sharding | None]:
        """Along axes that are not manual results lie as the body has them."""
        attributes = sharding.resolve_shardings(operation.attributes, self._program)
        manual, (body,) = set(attributes["manual_axes"]), operation.regions
        inner: list[Sharding | None] = [
            Sharding(s.mesh, tuple(tuple(a for a in dim if a.name not in manual) for dim in s.dims)) if s else None
            for s in operands
        ]
        self._manual_depth += 1
        returned = self._region(body, dict(zip(body.arguments, inner, strict=True)))
        self._manual_depth -= 1
        return [
            dataclasses.replace(out, dims=tuple(a + b for a, b in zip(out.dims, inner_result.dims, strict=True)))
            if inner_result is not None and inner_result.mesh.axes == out.mesh.axes
            else out
            for out, inner_result in zip(attributes["out_shardings"], returned, strict=True)
        ]

    def _result(self, operation: Operation, t: Type, operands: list[Sharding | None]) -> Sharding | None:
        """Each dimension is cut as in the first operand that cuts it; no axis is used twice."""
        if not isinstance(t, TensorType):
            return None
        mesh = next(s.mesh for s in operands if s is not None and s.mesh.axes)
        dims: list[tuple[Axis, ...]] = [()] * len(t.shape)
        candidates = [
            (to, known.dims[d])
            for i, (value, known) in enumerate(zip(operation.operands, operands, strict=True))
            if known is not None and known.mesh == mesh and isinstance(value.type, TensorType)
            for d, to in _dimension_map(operation, i, value.type.shape, t.shape)
        ]
        used: set[str] = set()
        for to, axes in sorted(candidates, key=lambda c: c[0]):
            size, count = t.shape[to], Sharding(mesh, (axes,)).parts()[0]
            names = {a.name for a in axes}
            if axes and not dims[to] and not used & names and size and size % count == 0:
                dims[to] = axes
                used |= names
        return Sharding(mesh, tuple(dims)) if any(dims) else None


def _dimension_map(operation: Operation, index: int, source: Shape, to: Shape) -> list[tuple[int, int]]:
    """Pairs of a dimension of an operand and the dimension of the result that has the same elements."""
    name, attributes = operation.name.removeprefix("stablehlo."), operation.attributes
    if name == "transpose":
        return [(int(d), i) for i, d in enumerate(attributes["permutation"])]
    if name == "reshape":
        return _dimensions_of_reshape(source, to)
    if name == "broadcast_in_dim":
        pairs = [(i, int(d)) for i, d in enumerate(attributes["broadcast_dimensions"])]
    elif name == "reduce":
        left = _without(source, attributes["dimensions"])
        pairs = list(zip(left, range(len(to)), strict=True)) if len(left) == len(to) else []
    elif name == "dot_general":
        numbers, side = attributes["dot_dimension_numbers"], ("lhs", "rhs")[index]
        batch = [int(d) for d in numbers[f"{side}_batching_dimensions"]]
        free = _without(source, (*batch, *numbers[f"{side}_contracting_dimensions"]))
        first = len(batch) if side == "lhs" else len(to) - len(free)
        pairs = [*zip(batch, range(len(batch)), strict=True), *zip(free, range(first, first + len(free)), strict=True)]
    elif name == "gather":
        numbers = attributes["dimension_numbers"]
        offsets = [int(d) for d in numbers.get("offset_dims", ())]
        if index == 0:
            gone = [d for n in ("collapsed_slice_dims", "operand_batching_dims") for d in numbers.get(n, ())]
            pairs = list(zip(_without(source, gone), offsets, strict=True))
        else:
            rows = _without(source, [numbers.get("index_vector_dim", 0)])
            pairs = list(zip(rows, _without(to, offsets), strict=True))
    else:
        is_like = len(source) == len(to) and (lookup(operation.name) is not None or source == to)
        pairs = [(i, i) for i in range(len(to))] if is_like else []
    return [(i, j) for i, j in pairs if source[i] == to[j]]


def _without(shape: Shape, dims: Iterable[Any]) -> list[int]:
    """The other dimensions of a shape."""
    gone = set(map(int, dims))
    return [d for d in range(len(shape)) if d not in gone]


def _dimensions_of_reshape(source: Shape, to: Shape) -> list[tuple[int, int]]:
    """Dimensions that are the same from the left, then from the right; and the first one of those in between.

    That one is the outermost part of a dimension that is split, or of dimensions that are merged, so it keeps its cut.
    """
    m, n, i, j = len(source), len(to), 0, 1
    while i < min(m, n) and source[i] == to[i]:
        i += 1
    while j <= min(m, n) - i and source[m - j] == to[n - j]:
        j += 1
    pairs = [*((d, d) for d in range(i)), *((m - d, n - d) for d in range(1, j))]
    return [*pairs, (i, i)] if i < min(m, n) else pairs
