"""Addends of unreduced values: how they are made of a value, and added up.

An unreduced value is the sum of addends: along some axes of a mesh each device has one of its own. Or it is the largest
or smallest of them: then each may be the value itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.processes.sharded import Axis, Mesh, Sharding
from ....ops.types import ElementType, TensorType
from ...errors import ProgramError
from ...program import Location, Operation, Region, Value

ADD = "stablehlo.add"
#: The op that a sharding's reduction stands for.
_COMBINING = {"sum": ADD, "max": "stablehlo.maximum", "min": "stablehlo.minimum"}


@dataclasses.dataclass(frozen=True)
class Form:
    """The axes of a mesh, in its order, along which a value is unreduced: none for a plain value."""

    mesh: Mesh = dataclasses.field(default_factory=lambda: Mesh(()))
    names: tuple[str, ...] = ()
    combining: str = ADD  #: the op that makes the value of its addends

    @property
    def places(self) -> list[dict[str, int]]:
        """Where along the axes each addend is, in order."""
        lengths = [self.mesh.length(Axis(name)) for name in self.names]
        return [dict(zip(self.names, map(int, at), strict=True)) for at in np.ndindex(*lengths)]

    def of(self, names: Iterable[str]) -> Form:
        """The form with these axes of the mesh."""
        wanted = set(names)
        names = tuple(n for n, _ in self.mesh.axes if n in wanted)
        return dataclasses.replace(self, names=names) if wanted else PLAIN

    def is_like(self, other: Form) -> bool:
        """Whether both have the same mesh, and addends of the same kind."""
        return (self.mesh, self.combining) == (other.mesh, other.combining)


PLAIN = Form()


@dataclasses.dataclass(frozen=True)
class Sum:
    """A value as its addends, in the order of the places of the form; a plain value is the only one."""

    form: Form
    addends: tuple[Value, ...]


def form_of(known: Sharding | None) -> Form:
    """The form that a sharding asks for."""
    if known is None or not known.unreduced:
        return PLAIN
    return Form(known.mesh, known.unreduced, _COMBINING[known.reduction])


def union(forms: Iterable[Form]) -> Form:
    """The form of the axes of all; of the first mesh, where there are several."""
    result = PLAIN
    for form in forms:
        if not result.names:
            result = form
        elif form.is_like(result):
            result = result.of((*result.names, *form.names))
    return result


def combining_of(operation: Operation) -> str | None:
    """The only op of the one body of an op; None where there are several."""
    bodies = [r.operations for r in operation.regions]
    return bodies[0][0].name if len(bodies) == 1 and len(bodies[0]) == 1 else None


class Emitter:
    """Ops that are written one after the other."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        #: The op that gives a value, and the shardings of its operands.
        self.sources: dict[Value, tuple[Operation, Sequence[Sharding | None]]] = {}
        #: Of addends that are parts of a value: the value.
        self.wholes: dict[tuple[Value, ...], Value] = {}

    def convert(self, value: Sum, form: Form, known: Sharding | None, at: Location) -> Sum:
        """The value in another form. `known` is how it lies on devices."""
        if value.form == form:
            return value
        common = value.form.of(set(value.form.names) & set(form.names)) if value.form.is_like(form) else PLAIN
        value = self._added(value, common, at)
        if common == form:
            return value
        if not common.names:
            return Sum(form, self._split(value.addends[0], form, known, at))
        extra = form.of(set(form.names) - set(common.names))
        rows = [dict(zip(_keys(extra), self._split(v, extra, known, at), strict=True)) for v in value.addends]
        by_place = dict(zip(_keys(common), rows, strict=True))
        return Sum(form, tuple(by_place[_key(place, common)][_key(place, extra)] for place in form.places))

    def _added(self, value: Sum, form: Form, at: Location) -> Sum:
        """The value with the addends added up that differ along other axes than those of the form."""
        if value.form == form:
            return value
        if not form.names and value.addends in self.wholes:
            return Sum(form, (self.wholes[value.addends],))
        totals: dict[tuple[int, ...], Value] = {}
        for place, addend in zip(value.form.places, value.addends, strict=True):
            key = _key(place, form)
            if key in totals:
                combining = value.form.combining.removeprefix("stablehlo.")
                addend = self.emit(combining, (totals[key], addend), addend.type, at)
            totals[key] = addend
        return Sum(form, tuple(totals[key] for key in _keys(form)))

    # -- a value as a sum ----------------------------------------------------------------------------------------------

    def _split(self, value: Value, form: Form, known: Sharding | None, at: Location) -> tuple[Value, ...]:
        """Addends of a value that has been one."""
        if not isinstance(value.type, TensorType) or not value.type.is_static:
            raise ProgramError(f"{at}: expected a tensor of known sizes to be unreduced, got {value.type}")
        if value in self.sources and (combining_of(self.sources[value][0]) or ADD) == form.combining:
            addends = self._split_sum(*self.sources[value], form)
            if addends is not None:
                return addends
        if form.combining != ADD:
            return (value,) * len(form.places)
        shape = _shape(value)
        cuts = known.dims if known is not None and known.mesh == form.mesh else ((),) * len(shape)
        addends = self._distributed(form, cuts, shape, at, value.type, lambda w: self._only(value, w, at))
        self.wholes[addends] = value
        return addends

    def _split_sum(
        self, operation: Operation, shardings: Sequence[Sharding | None], form: Form
    ) -> tuple[Value, ...] | None:
        """The sums that devices form of their parts of the operands. None if no summed dimension is cut.

        The first sum starts from the op's initial value, if there is one, and others from zeros.
        """
        dims, start = _summed_dimensions(operation)
        operands, at = list(operation.operands), operation.location
        cuts = tuple(_axes(form, *[(shardings[i], d) for i, d in dim]) for dim in dims)
        shape = [_shape(operands[i])[d] for (i, d), *_ in dims]
        counts = Sharding(form.mesh, cuts).parts(form.names)
        if not any(cuts) or any(n % count for n, count in zip(shape, counts, strict=True)):
            return None

        def part(limits: Sequence[tuple[int, int]]) -> Value:
            slices: list[dict[int, tuple[int, int]]] = [{} for _ in operands]
            for dim, limit in zip(dims, limits, strict=True):
                for i, d in dim:
                    slices[i][d] = limit
            sliced = tuple(self._slice(v, s, at) for v, s in zip(operands, slices, strict=True))
            if start is not None and form.combining == ADD:
                operands[start] = self._zeros(operands[start].type, at)
            result = Value(operation.results[0].type)
            regions = tuple(copied(r) for r in operation.regions)
            self.operations.append(dataclasses.replace(operation, operands=sliced, results=(result,), regions=regions))
            return result

        return self._distributed(form, cuts, shape, at, operation.results[0].type, part)

    def _distributed(
        self, form: Form, cuts: Sequence[tuple[Axis, ...]], shape: Sequence[Any], at: Location, t: Any, part: Any
    ) -> tuple[Value, ...]:
        """What `part` gives for the part of a shape that is at each place; zeros where another place has the same."""
        lying = Sharding(form.mesh, tuple(cuts))
        counts = lying.parts(form.names)
        if any(n % count for n, count in zip(shape, counts, strict=True)):
            lying = Sharding(form.mesh, ((),) * len(shape))
            counts = lying.parts(form.names)
        addends: list[Value] = []
        done: set[tuple[int, ...]] = set()
        zeros: Value | None = None
        for place in form.places:
            number = lying.part(form.mesh.device(place), form.names)
            if number not in done or form.combining != ADD:
                done.add(number)
                sizes = [n // count for n, count in zip(shape, counts, strict=True)]
                addends.append(part([(i * n, (i + 1) * n) for i, n in zip(number, sizes, strict=True)]))
            else:
                zeros = zeros or self._zeros(t, at)
                addends.append(zeros)
        return tuple(addends)

    def _only(self, value: Value, where: Sequence[tuple[int, int]], at: Location) -> Value:
        """The value with zeros outside of a part of it."""
        shape = _shape(value)
        if all(w == (0, n) for w, n in zip(where, shape, strict=True)):
            return value
        inner = self._slice(value, dict(enumerate(where)), at)
        padding = {
            "edge_padding_low": tuple(start for start, _ in where),
            "edge_padding_high": tuple(n - end for (_, end), n in zip(where, shape, strict=True)),
            "interior_padding": (0,) * len(shape),
        }
        zero = self._zeros(TensorType((), _element(value)), at)
        return self.emit("pad", (inner, zero), value.type, at, padding)

    # -- ops -----------------------------------------------------------------------------------------------------------

    def emit(
        self, name: str, operands: Sequence[Value], t: Any, at: Location, attributes: Mapping[str, Any] | None = None
    ) -> Value:
        """Add an op and return its result."""
        result = Value(t)
        self.operations.append(
            Operation(f"stablehlo.{name}", tuple(operands), (result,), dict(attributes or {}), (), at)
        )
        return result

    def _slice(self, value: Value, where: Mapping[int, tuple[int, int]], at: Location) -> Value:
        shape = _shape(value)
        limits = [where.get(d, (0, n)) for d, n in enumerate(shape)]
        if all(w == (0, n) for w, n in zip(limits, shape, strict=True)):
            return value
        attributes = {
            "start_indices": tuple(start for start, _ in limits),
            "limit_indices": tuple(end for _, end in limits),
            "strides": (1,) * len(limits),
        }
        t = TensorType(tuple(end - start for start, end in limits), _element(value))
        return self.emit("slice", (value,), t, at, attributes)

    def _zeros(self, t: Any, at: Location) -> Value:
        scalar = TensorType((), t.element)
        zero = self.emit("constant", (), scalar, at, {"value": np.zeros((), t.element.dtype)})
        return self.emit("broadcast_in_dim", (zero,), t, at, {"broadcast_dimensions": ()}) if t.shape else zero


def _summed_dimensions(operation: Operation) -> tuple[list[list[tuple[int, int]]], int | None]:
    """The dimensions over which an op sums, and the operand with which the sum starts, if there is one.

    A dimension is a list of operands that have it, each with the number of the dimension.
    """
    attributes, others = operation.attributes, operation.operands[1:]
    if operation.name == "stablehlo.reduce":
        return [[(0, int(d))] for d in attributes["dimensions"]], 1
    if operation.name == "stablehlo.dot_general":
        numbers = attributes["dot_dimension_numbers"]
        lhs, rhs = (map(int, numbers[f"{side}_contracting_dimensions"]) for side in ("lhs", "rhs"))
        return [[(0, i), (1, j)] for i, j in zip(lhs, rhs, strict=True)], None
    numbers, (indices, updates) = attributes["scatter_dimension_numbers"], others
    windows = {int(d) for d in numbers.get("update_window_dims", ())}
    batching = {int(d) for d in numbers.get("scatter_indices_batching_dims", ())}
    rows = [d for d in range(len(_shape(indices))) if d != int(numbers.get("index_vector_dim", 0))]
    columns = [d for d in range(len(_shape(updates))) if d not in windows]
    return [[(1, row), (2, c)] for row, c in zip(rows, columns, strict=True) if row not in batching], 0


_SUMS = ("stablehlo.dot_general", "stablehlo.reduce", "stablehlo.scatter")


def is_splittable(operation: Operation) -> bool:
    """Whether the result of an op can become the sum, or extreme, of what devices compute of parts of its operands."""
    if operation.name not in _SUMS or len(operation.results) != 1:
        return False
    return not operation.regions or combining_of(operation) in _COMBINING.values()


def copied(region: Region) -> Region:
    """A copy of a body that has no regions."""
    values = {v: Value(v.type) for v in (*region.arguments, *(r for o in region.operations for r in o.results))}
    operations = [
        dataclasses.replace(
            o, operands=tuple(values[v] for v in o.operands), results=tuple(values[v] for v in o.results)
        )
        for o in region.operations
    ]
    return Region(tuple(values[v] for v in region.arguments), operations, tuple(values[v] for v in region.returns))


def _axes(form: Form, *places: tuple[Sharding | None, int]) -> tuple[Axis, ...]:
    """The axes of the first of these dimensions that is cut along an axis of the form; none where none is."""
    for known, dim in places:
        if known is not None and known.mesh == form.mesh and any(a.name in form.names for a in known.dims[dim]):
            return known.dims[dim]
    return ()


def _shape(value: Value) -> tuple[int, ...]:
    """The sizes of a tensor, which are known."""
    assert isinstance(value.type, TensorType)
    return tuple(n for n in value.type.shape if n is not None)


def _element(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def _key(place: Mapping[str, int], form: Form) -> tuple[int, ...]:
    return tuple(place[name] for name in form.names)


def _keys(form: Form) -> list[tuple[int, ...]]:
    return [_key(place, form) for place in form.places]
