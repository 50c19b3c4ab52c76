"""Where the results of a program lie, as far as it does not say: shardings, followed from op to op.

Any choice is right, since a sharding changes no value. This one follows tensors forward, from the arguments and from
what the program says on the way, as long as dimensions keep their sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ....ops.op import lookup
from ....ops.processes.sharded import Axis, Mesh, Sharding
from ....ops.types import TensorType, Type
from ...parse import sharding
from ...parse.attributes import Opaque
from ...program import Function, Operation, Program, Region, Value

#: Ops that say how their operand is to lie.
CONSTRAINTS = ("sdy.sharding_constraint", "sdy.reshard")

#: The shardings of values, as far as they are known.
Known = dict[Value, Sharding | None]
_Dims = tuple[tuple[Axis, ...], ...]


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
    return Sharding(mesh, tuple(dims), declared.unreduced)


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
        if not isinstance(t, TensorType):
            return None
        mesh = next(s.mesh for s in operands if s is not None and s.mesh.axes)
        candidates = [
            dims
            for value, s in zip(operation.operands, operands, strict=True)
            if s is not None and s.mesh == mesh and isinstance(value.type, TensorType)
            for dims in [_through(operation, operation.operands.index(value), value.type, t, s.dims)]
            if dims is not None
        ]
        return _merged(mesh, t, candidates)


def _merged(mesh: Mesh, t: TensorType, candidates: list[_Dims]) -> Sharding | None:
    """Each dimension as the first candidate that cuts it says; no axis twice."""
    used: set[str] = set()
    merged: list[tuple[Axis, ...]] = []
    for i, size in enumerate(t.shape):
        chosen: tuple[Axis, ...] = ()
        for dims in candidates:
            axes = dims[i]
            count = Sharding(mesh, (axes,)).parts()[0]
            if axes and not used & {a.name for a in axes} and size and size % count == 0:
                chosen = axes
                break
        used |= {a.name for a in chosen}
        merged.append(chosen)
    return Sharding(mesh, tuple(merged)) if any(merged) else None


def _through(operation: Operation, index: int, source: TensorType, to: TensorType, dims: _Dims) -> _Dims | None:
    """The dimensions of the result as one operand's sharding cuts them; None where they have nothing to do with it."""
    name, attributes = operation.name.removeprefix("stablehlo."), operation.attributes
    none: list[tuple[Axis, ...]] = [()] * len(to.shape)
    if name == "transpose":
        return tuple(dims[int(d)] for d in attributes["permutation"])
    if name == "broadcast_in_dim":
        for i, d in enumerate(attributes["broadcast_dimensions"]):
            if source.shape[i] == to.shape[int(d)]:
                none[int(d)] = dims[i]
        return tuple(none)
    if name == "reduce":
        gone = {int(d) for d in attributes["dimensions"]}
        kept = [d for i, d in enumerate(dims) if i not in gone]
        return tuple(kept) if len(kept) == len(to.shape) else None
    if name == "dot_general":
        return _through_dot(attributes["dot_dimension_numbers"], index, to, dims)
    if name == "gather":
        return _through_gather(attributes, index, source, to, dims)
    if name == "reshape":
        return _through_reshape(source, to, dims)
    record = lookup(operation.name)
    if len(source.shape) != len(to.shape) or (record is None and source.shape != to.shape):
        return None
    return tuple(d if m == n else () for d, m, n in zip(dims, source.shape, to.shape, strict=True))


def _through_dot(numbers: dict[str, tuple[int, ...]], index: int, to: TensorType, dims: _Dims) -> _Dims:
    side = ("lhs", "rhs")[index] if index < 2 else "lhs"
    batch = [int(d) for d in numbers[f"{side}_batching_dimensions"]]
    gone = {*batch, *(int(d) for d in numbers[f"{side}_contracting_dimensions"])}
    free = [d for i, d in enumerate(dims) if i not in gone]
    others = len(to.shape) - len(batch) - len(free)
    rest = [*free, *[()] * others] if side == "lhs" else [*[()] * others, *free]
    return tuple([dims[d] for d in batch] + rest)


def _through_gather(attributes: dict[str, Any], index: int, source: TensorType, to: TensorType, dims: _Dims) -> _Dims:
    """Whole dimensions of the operand keep their cuts; so do those of the indices."""
    numbers = attributes["dimension_numbers"]
    offsets = [int(d) for d in numbers.get("offset_dims", ())]
    dimensions: list[tuple[Axis, ...]] = [()] * len(to.shape)
    if index == 0:
        gone = {int(d) for n in ("collapsed_slice_dims", "operand_batching_dims") for d in numbers.get(n, ())}
        sizes = [int(n) for n in attributes["slice_sizes"]]
        kept = [d for d in range(len(source.shape)) if d not in gone]
        for d, at in zip(kept, offsets, strict=True):
            dimensions[at] = dims[d] if sizes[d] == source.shape[d] else ()
    else:
        vector = int(numbers.get("index_vector_dim", 0))
        rows = [d for i, d in enumerate(dims) if i != vector]
        for axes, at in zip(rows, [i for i in range(len(to.shape)) if i not in offsets], strict=True):
            dimensions[at] = axes
    return tuple(dimensions)


def _through_reshape(source: TensorType, to: TensorType, dims: _Dims) -> _Dims:
    """Dimensions that are the same from the left, then from the right."""
    dimensions: list[tuple[Axis, ...]] = [()] * len(to.shape)
    m, n = len(source.shape), len(to.shape)
    i = 0
    while i < min(m, n) and source.shape[i] == to.shape[i]:
        dimensions[i] = dims[i]
        i += 1
    j = 1
    while j <= min(m, n) - i and source.shape[m - j] == to.shape[n - j]:
        dimensions[n - j] = dims[m - j]
        j += 1
    if i < min(m, n) and not dimensions[i] and dims[i]:  # split or merged: the outermost part keeps the cut
        dimensions[i] = dims[i]
    return tuple(dimensions)
