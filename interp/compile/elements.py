"""Writes slices and scatters of single elements, in loops, as Python's own indexing.

The rule. In loops and branches a slice of one element that is only reshaped to a number is that number; a slice of a
few elements that is only taken apart is these numbers. A scatter of one number to a place that is given by numbers is
an assignment, if the place is within the array. What makes a vector of these numbers is not computed then.

Measured with numpy alone, 64 turns of `a[i, j] = sin(a[i, j]) + a[j, i]`: 1.6 ms by kernels, 0.1 so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap

import numpy as np

from ...ops.op import lookup
from ...ops.types import Kind, TensorType, Type
from ..program import Operation, Region, Value
from . import scalars
from .group import PACK, SPREAD, UNPACK
from .indexing import fitting, own_array
from .source.compilable import element_text
from .source.lines import Compiled
from .uses import captures, uses_of
from .writer import Writer

_SCATTER, _RESHAPE, _SLICE = "stablehlo.scatter", "stablehlo.reshape", "stablehlo.slice"
_REPEATS = (_RESHAPE, "stablehlo.broadcast_in_dim", SPREAD)


@dataclasses.dataclass
class Elements:
    """What of a region is indexing of single elements.

    reads: for each slice the reshape that takes its element, or what takes it apart.
    writes: for each scatter the numbers that are its index, in the order of dimensions, or the vector that it is.
    updates: for each update of a slice the number that it puts there.
    left_out: the operations that nothing else needs.
    """

    reads: dict[Operation, Operation] = dataclasses.field(default_factory=dict)
    writes: dict[Operation, Sequence[Value]] = dataclasses.field(default_factory=dict)
    updates: dict[Operation, Value] = dataclasses.field(default_factory=dict)
    left_out: set[Operation] = dataclasses.field(default_factory=set)


def elements_in(region: Region) -> Elements:
    """The reads and writes of single elements in a region."""
    found = Elements()
    if not any(o.name in (_SCATTER, _SLICE) or _starts(o) is not None for o in region.operations):
        return found
    uses, made = uses_of(region), {r: o for o in region.operations for r in o.results}
    for operation in region.operations:
        if operation.name == _SCATTER:
            index, between = _index_of(operation, made)
            if index is not None:
                found.writes[operation] = index
                for o in between:  # from the scatter back
                    users = {u for r in o.results for u in uses.get(r, [])}
                    if users <= {operation, *found.left_out}:
                        found.left_out.add(o)
        elif _starts(operation) == 2:
            source = made.get(operation.operands[1])
            if source is not None and source.name in _REPEATS and _is_update(operation, source):
                found.updates[operation] = source.operands[0]
                if uses.get(source.results[0]) == [operation]:
                    found.left_out.add(source)
        elif operation.name == UNPACK or (operation.name == _RESHAPE and not operation.results[0].shape):
            source = made.get(operation.operands[0])
            if source is not None and _is_read(source) and uses.get(source.results[0]) == [operation]:
                found.reads[source] = operation  # it is read there: the array may be written over before the reshape
                found.left_out.add(operation)
    return found


def _starts(operation: Operation) -> int | None:
    """The first operand that says where a window is: 1 of an op that takes one, 2 of one that changes it; else None."""
    record = lookup(operation.name)
    return None if record is None else record.traits.starts


def _is_update(operation: Operation, source: Operation) -> bool:
    """Whether a window is one element, and all of it a number that another op makes an array of."""
    t, window = operation.operands[0].type, operation.operands[1].type
    if not isinstance(t, TensorType) or not isinstance(window, TensorType) or not t.shape:
        return False
    return t.is_static and window.size == 1 and source.operands[0].shape == () and _is_indexed(t)


def _is_read(operation: Operation) -> bool:
    """Whether an operation is a slice whose elements can be read one by one; what uses it says how many it has."""
    source, t = operation.operands[0].type, operation.results[0].type
    if not isinstance(source, TensorType) or not isinstance(t, TensorType):
        return False
    if _starts(operation) != 1 and operation.name != _SLICE:
        return False
    return source.is_static and bool(source.shape) and _is_indexed(t)


def _is_indexed(t: Type) -> bool:
    """Whether numpy's indexing gives elements as single numbers are held (`scalars.py`)."""
    if not isinstance(t, TensorType) or scalars.form(TensorType((), t.element)) is None:
        return False
    return t.element.kind is Kind.BOOL or (t.element.bits >= 8 and not t.element.is_minifloat)


def _index_of(
    scatter: Operation, made: Mapping[Value, Operation]
) -> tuple[Sequence[Value] | None, Sequence[Operation]]:
    """The numbers that are the index of a scatter of one number, and the operations that make a vector of them."""
    if len(scatter.operands) != 3 or captures(scatter.regions[0]):
        return None, ()
    (array, indices, update), numbers = scatter.operands, scatter.attributes["scatter_dimension_numbers"]
    t, rank = array.type, len(array.shape or ())
    mapped = np.ravel(numbers.get("scatter_dims_to_operand_dims", ())).astype(int).tolist()
    if not isinstance(t, TensorType) or not t.is_static or not _is_indexed(t) or sorted(mapped) != [*range(rank)]:
        return None, ()
    if not rank or update.shape != () or indices.shape != (rank,) or update.type.element != t.element:  # type: ignore[union-attr]
        return None, ()
    body = scatter.regions[0]
    if not all(v.shape == () and v.type.element == t.element for v in (*body.arguments, *body.returns)):  # type: ignore[union-attr]
        return None, ()
    if not _is_indexed(indices.type):
        return None, ()
    between, parts = list[Operation](), [indices]
    source = made.get(indices)
    if source is not None and source.name == PACK:
        index = [source.operands[mapped.index(d)] for d in range(rank)]
        return (index, [source]) if all(map(scalars.form, (v.type for v in index))) else ([indices], ())
    if rank > 1 and source is not None and source.name == "stablehlo.concatenate" and len(source.operands) == rank:
        between, parts = [source], list(source.operands)
    elif rank > 1:
        return [indices], ()
    index: list[Value] = [indices] * rank
    for d, part in zip(mapped, parts, strict=True):
        source = made.get(part)
        if source is None or source.name not in _REPEATS or source.operands[0].shape != ():
            return [indices], ()
        if scalars.form(source.operands[0].type) is None:
            return [indices], ()
        between.append(source)
        index[d] = source.operands[0]
    return index, between


def write_read(operation: Operation, taking: Operation, writer: Writer) -> None:
    """Write the numbers that `taking` takes of a slice."""
    array, *starts = operation.operands
    t, window = array.type, operation.results[0].type
    assert isinstance(t, TensorType)
    assert isinstance(window, TensorType)
    sizes = [n or 0 for n in window.shape]
    steps = [1] * len(sizes)
    if operation.name == _SLICE:
        places = [str(i) for i in np.ravel(operation.attributes["start_indices"]).tolist()]
        steps = np.ravel(operation.attributes["strides"]).tolist()
    else:
        places = _places(t, sizes, starts, writer, operation)
    held = writer.use(array)
    names = [writer.define_plain(v) for v in taking.results]
    if len(names) == 1:
        return _read(names[0], t, held, places, writer, operation)
    index = ", ".join(starmap(_range, zip(places, sizes, steps, strict=True)))
    taken = "ravel()" if t.element.is_float else "ravel().tolist()"
    each = [
        ", ".join(f"{at} + {i * step}" for at, i, step in zip(places, where, steps, strict=True))
        for where in np.ndindex(*sizes)
    ]
    texts = [f"{name} = {element_text(f'{held}[{at}]', t)}" for name, at in zip(names, each, strict=True)]
    uses = (held, *(p for p in places if not p.isdecimal()))
    compiled = Compiled(tuple((0, text) for text in texts))
    return writer.line(f"{', '.join(names)}, = {held}[{index}].{taken}", operation, names, uses, compiled=compiled)


def _range(start: str, size: int, step: int) -> str:
    """The index of so many elements of a dimension."""
    if start.isdecimal():
        first = int(start)
        return f"{first}:{first + (size - 1) * step + 1}" + (f":{step}" if step > 1 else "")
    return f"{start}:{start} + {size}"


def write_update(operation: Operation, number: Value, writer: Writer, is_spare: bool) -> None:
    """Write the update of one element; `is_spare` says that nothing needs the array afterwards."""
    array, _, *starts = operation.operands
    assert isinstance(array.type, TensorType)
    new = writer.use_plain(number)
    places = _places(array.type, [1] * len(array.type.shape), starts, writer, operation)
    result = own_array(operation, writer.use(array), writer, is_spare)
    text = f"{result}[{', '.join(places)}] = {new}"
    writer.line(text, operation, (), (result, new, *places), compiled=Compiled(((0, text),)))


def _places(
    t: TensorType, sizes: Sequence[int], starts: Sequence[Value], writer: Writer, operation: Operation
) -> list[str]:
    """The names of the indices of the first element of a window."""
    return [
        "0" if n == size else fitting(start, n - size, writer, operation)  # type: ignore[operator]
        for start, n, size in zip(starts, t.shape, sizes, strict=True)
    ]


def _read(name: str, t: TensorType, held: str, places: Sequence[str], writer: Writer, operation: Operation) -> None:
    """Write the assignment of an element of an array to a name."""
    index = ", ".join(places)
    text = f"{held}[{index}]" if t.element.is_float else f"{held}.item({index})"
    compiled = Compiled(((0, f"{name} = {element_text(f'{held}[{index}]', t)}"),))
    writer.line(f"{name} = {text}", operation, (name,), (held, *places), compiled=compiled)


def write_write(
    operation: Operation, index: Sequence[Value], writer: Writer, is_spare: bool, body: Callable[[Region], None]
) -> None:
    """Write a scatter of one number; `is_spare` says that nothing needs the array afterwards."""
    array, _, update = operation.operands
    region, held = operation.regions[0], writer.use(array)
    assert isinstance(array.type, TensorType)
    new = writer.use_plain(update)
    is_apart = index[0].shape == ()
    names = [writer.use_plain(v) for v in index] if is_apart else _taken_apart(operation, index[0], writer)
    result = own_array(operation, held, writer, is_spare)
    tests = []
    for name, n in zip(names, array.type.shape, strict=True):
        low, high = writer.range(name)
        tests += [f"0 <= {name}"] * (low < 0) + [f"{name} < {n}"] * (high >= n)  # type: ignore[operator]
    place = ", ".join(names)
    with writer.together(), writer.block(f"if {' and '.join(tests) or 'True'}:", operation, names):
        if region.returns[0] is not region.arguments[1]:
            before = writer.define_plain(region.arguments[0])
            _read(before, array.type, result, names, writer, operation)
            writer.let(region.arguments[1], new, True)
            body(region)
            new = writer.use_plain(region.returns[0])
        text = f"{result}[{place}] = {new}"
        writer.line(text, operation, (), (result, new, *names), compiled=Compiled(((0, text),)))


def _taken_apart(operation: Operation, index: Value, writer: Writer) -> list[str]:
    """The names of the numbers of a vector that is an index, in the order of dimensions."""
    mapped = np.ravel(operation.attributes["scatter_dimension_numbers"]["scatter_dims_to_operand_dims"]).tolist()
    element, vector = index.type.element, writer.use(index)  # type: ignore[union-attr]
    names = [writer.define_plain(Value(TensorType((), element))) for _ in mapped]
    text = f"{', '.join(names)}, = {vector}.tolist()"
    compiled = tuple((0, f"{name} = int64({vector}[{i}])") for i, name in enumerate(names))
    writer.line(text, operation, names, (vector,), compiled=Compiled(compiled))
    return [names[mapped.index(d)] for d in range(len(mapped))]
