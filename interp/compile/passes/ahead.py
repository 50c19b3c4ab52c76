"""Finds recurrences whose turns read and write windows of one array at places that are known before the turns.

The rule. A turn takes windows of the array, by slices whose starts are rows or constants, and ends with one update of
it, or one scatter of a window. What lies between can be done for many turns at once (`batching.py`). Then
`executors/ahead.py` makes turns together that do not need each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import Call, lookup, traits_of
from ....ops.traits import RegionSemantics
from ....ops.types import ELEMENT_TYPES, QuantizedType, TensorType
from ...program import CONSTANT, Operation, Region, Value
from ..executors.ahead import Ahead, Place, Start
from ..uses import uses_of
from .fusible import element_of, shape_of
from .loops import SCATTER, SLICE, UPDATE

#: Makes a region of one turn one of so many, all of whose arguments have a row for each; None where there is none.
Batched = Callable[[int, Region], Region | None]


def read_ahead(
    turn: Region, count: int, constants: Mapping[Value, Any], batched: Batched
) -> tuple[Ahead, list[Region]] | None:
    """What `count` turns of a recurrence with one state read and write, and the regions for many; None of others.

    The arguments of `turn` are the state and rows.
    """
    found = _Turn(turn, constants)
    if count < tuning().ahead_turns or not found.read():
        return None
    one = found.between()
    widths = [w for w in tuning().ahead_widths if w <= count] or [count]
    regions = [region for w in widths if (region := batched(w, one)) is not None]
    if len(regions) < len(widths):
        return None
    assert found.write is not None
    windows = [shape_of(v) for v in one.arguments[: len(one.arguments) - len(found.taken)]]
    ahead = Ahead([p for _, p in found.reads], windows, found.write, found.updates, found.taken, widths)
    return ahead, regions


class _Turn:
    """A turn that may be such a one."""

    def __init__(self, turn: Region, constants: Mapping[Value, Any]) -> None:
        self._turn, self._constants = turn, constants
        self._state, *self._rows = turn.arguments
        self.reads: list[tuple[Value, Place]] = []
        self.write: Place | None = None
        self.updates = False  #: whether the window that is written is read too, as a scatter with a body does
        self.taken: list[int] = []

    def read(self) -> bool:
        """Find the windows; False where the turn is not such a one."""
        uses, t = uses_of(self._turn), self._state.type
        if not isinstance(t, TensorType) or isinstance(t.element, QuantizedType) or t.size < tuning().ahead_elements:
            return False
        users, changed = uses.get(self._state, []), self._turn.returns[0]
        last = next((o for o in users if o is not None and o.results == (changed,)), None)
        if last is None or uses.get(changed) != [None]:
            return False
        if any(traits_of(o.name).regions is not RegionSemantics.ELEMENTS for o in self._turn.operations if o.regions):
            return False
        for user in users:
            if user is last:
                continue
            place = None if user is None else self._read_of(user)
            if user is None or place is None:
                return False
            self.reads.append((user.results[0], place))
        self._last = last
        self.write = self._write_of(last)
        if self.write is None:
            return False
        sizes = [place.fixed.size for place in (*(p for _, p in self.reads), self.write)]
        return min(sizes) > 0 and sum(sizes) <= tuning().ahead_window

    def between(self) -> Region:
        """What a turn does with windows and rows: gives what is written, and the other results."""
        windows, users, update = [v for v, _ in self.reads], {self._last}, self._last.operands[1]
        made = {v for v, _ in self.reads}
        operations = [o for o in self._turn.operations if o not in users and o.results[0] not in made]
        if self._last.name == SCATTER:
            update = self._last.operands[2]
            if self.updates:
                before = Value(update.type)
                windows.append(before)
                update = self._combined(before, update, operations)
        used = {v for o in operations for v in o.operands} | {update, *self._turn.returns[1:]}
        self.taken = [i for i, row in enumerate(self._rows) if row in used]
        arguments = (*windows, *(self._rows[i] for i in self.taken))
        return Region(arguments, operations, (update, *self._turn.returns[1:]))

    def _combined(self, before: Value, update: Value, operations: list[Operation]) -> Value:
        """Put in what the body of the scatter makes of a window, element by element."""
        body, shape = self._last.regions[0], shape_of(update)
        values = dict(zip(body.arguments, (before, update), strict=True))
        for operation in body.operations:
            (result,) = operation.results
            if result in self._constants:
                continue
            values[result] = Value(TensorType(shape, element_of(result)))
            operands = tuple([values.get(v, v) for v in operation.operands])
            operations.append(
                Operation(operation.name, operands, (values[result],), operation.attributes, (), operation.location)
            )
        return values.get(body.returns[0], body.returns[0])

    # -- windows -------------------------------------------------------------------------------------------------------

    def _read_of(self, operation: Operation) -> Place | None:
        """The window that an operation takes of the state; None if it is something else."""
        if operation.name == SLICE and operation.operands.count(self._state) == 1:
            return self._window(operation.operands[1:], shape_of(operation.results[0]))
        record = lookup(operation.name)
        if record is None or len(operation.operands) != 1 or operation.regions:
            return None
        (result,) = operation.results
        if not record.traits.moves or math.prod(shape_of(result)) > tuning().ahead_window:
            return None
        # Where each element comes from, the kernel itself says of the positions.
        types = [TensorType(shape_of(v), ELEMENT_TYPES["i64"]) for v in (self._state, result)]
        kernel = record.function(Call(operation.name, (types[0],), (types[1],), operation.attributes))
        shape = shape_of(self._state)
        return Place(np.asarray(kernel(np.arange(math.prod(shape)).reshape(shape))).reshape(-1))

    def _window(self, indices: Sequence[Value], window: Sequence[int]) -> Place | None:
        """The place of a window whose first indices in all dimensions are given."""
        shape, starts, offset = shape_of(self._state), list[Start](), 0
        steps = _steps(shape)
        for index, n, size, step in zip(indices, shape, window, steps, strict=True):
            if n == size:
                continue
            if index in self._constants:
                offset += int(np.clip(np.asarray(self._constants[index]), 0, n - size)) * step
            elif index in self._rows:
                starts.append(Start(self._rows.index(index), 0, n - size, step))
            else:
                return None
        return Place(offset + _offsets(window, steps), starts)

    def _write_of(self, operation: Operation) -> Place | None:
        """The window that the last operation changes; None if it is something else."""
        if operation.operands.count(self._state) != 1 or operation.operands[0] is not self._state:
            return None
        if operation.name == UPDATE:
            return self._window(operation.operands[2:], shape_of(operation.operands[1]))
        return self._scattered(operation) if operation.name == SCATTER and len(operation.operands) == 3 else None

    def _scattered(self, operation: Operation) -> Place | None:
        """The window of a scatter that has one: all of some dimensions, at an index of each of the others."""
        _, indices, update = operation.operands
        (body,), shape, numbers = (
            operation.regions,
            shape_of(self._state),
            operation.attributes["scatter_dimension_numbers"],
        )
        lists = {
            name: [int(d) for d in np.ravel(numbers.get(name, ()))]
            for name in ("inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims")
        }
        mapped = lists["scatter_dims_to_operand_dims"]
        window = [n for d, n in enumerate(shape) if d not in mapped]
        is_whole = sorted(mapped) == sorted(lists["inserted_window_dims"]) and not lists["input_batching_dims"]
        if not is_whole or shape_of(update) != tuple(window) or shape_of(indices) != (len(mapped),):
            return None
        elements = {element_of(v) for v in (*body.arguments, *body.returns, update, self._state)}
        if len(elements) != 1 or indices not in self._rows:
            return None
        self.updates = body.returns != (body.arguments[1],)
        if self.updates and not all(_is_elementwise(o) for o in body.operations):
            return None
        steps, row = _steps(shape), self._rows.index(indices)
        starts = [Start(row, column, shape[d] - 1, steps[d]) for column, d in enumerate(mapped)]
        sizes = [1 if d in mapped else n for d, n in enumerate(shape)]
        return Place(_offsets(sizes, steps), starts, drops=True)


def _is_elementwise(operation: Operation) -> bool:
    record = lookup(operation.name)
    is_constant = operation.name == CONSTANT
    return is_constant or (record is not None and record.is_elementwise and len(operation.results) == 1)


def _steps(shape: Sequence[int]) -> list[int]:
    """How many elements lie between neighbours of each dimension."""
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def _offsets(sizes: Sequence[int], steps: Sequence[int]) -> np.ndarray:
    """The flat indices of a window at the start of an array, in row-major order."""
    offsets = np.zeros((1,) * len(sizes), np.int64)
    for d, (size, step) in enumerate(zip(sizes, steps, strict=True)):
        offsets = offsets + (np.arange(size) * step).reshape([-1 if i == d else 1 for i in range(len(sizes))])
    return offsets.reshape(-1)
