"""Makes the rows that a loop writes, and reads again a few turns later, values that it carries.

The rule. Each turn writes the next row of an array, as `a.at[i].set(…)` does, and reads rows at fixed distances from
it. A row that no turn has written yet is one of the array before the loop. A row that was written a few turns before is
handed on by as many states. Then no turn reads the array that turns write to, and other passes take the loop apart.

Measured, ms: `a[i] = 0.9 * a[i - 1] + a[i]` for 30,000 numbers 2, and 300 as a loop that writes in place;
`a[i] = 2 * a[i] + 1` 0.03.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.types import TensorType
from ...program import BARRIER, Operation, Region, Value
from ..uses import captures, uses_of
from .fusible import shape_of
from .loops import SCATTER, SLICE, UPDATE, Loop, Rows


def forwarded(loop: Loop, constants: dict[Value, Any]) -> tuple[list[Operation], Operation] | None:
    """Operations and a loop after them, which reads no array that it writes to; None where there is no such array."""
    turn, loop_uses = loop.turn, uses_of(loop.turn)
    instead: dict[Operation, list[Operation]] = {}
    before: list[Operation] = []
    carried: list[tuple[Value, Value, Value]] = []  # the value before the loop, that in a turn, and that after it
    for place, (argument, returned) in enumerate(zip(turn.arguments, turn.returns, strict=True)):
        write = loop.made.get(returned)
        uses = loop_uses.get(argument, [])
        if write is None or len(uses) < 2 or uses[-1] is not write or loop_uses.get(returned) != [None]:
            continue
        ops = _as_update(write, loop, constants) if write.name == SCATTER else [write]
        if not ops or ops[-1].name != UPDATE or argument in ops[-1].operands[1:] or ops[-1].operands[0] is not argument:
            continue
        update = ops[-1]
        window = shape_of(update.operands[1])
        written = loop.rows(update, 2, window)
        distances = [_distance(o, argument, written, window, loop) for o in uses[:-1] if o is not None]
        if (
            written is None
            or len(distances) != len(uses) - 1
            or any(d is None or d > tuning().forward_turns for d in distances)
        ):
            continue
        initial = loop.operation.operands[place]
        if write is not update:
            instead[write] = ops
        rows: list[Value] = []  # by the distance, from 1 on
        latest = update.operands[1]
        for distance in range(1, max(d for d in distances if d is not None) + 1):
            row = Value(latest.type)
            before.append(_row_before(initial, written, distance, window, write))
            first = before[-1].results[0]
            carried.append((first, row, rows[-1] if rows else latest))
            rows.append(row)
        whole = Value(argument.type)
        if any(d is not None and d <= 0 for d in distances):
            carried.append((initial, whole, whole))
        for read, distance in zip(uses[:-1], distances, strict=True):
            assert read is not None
            assert distance is not None
            if distance > 0:
                instead[read] = [Operation(BARRIER, (rows[distance - 1],), read.results, {}, (), read.location)]
            else:
                operands = (whole, *read.operands[1:])
                instead[read] = [Operation(SLICE, operands, read.results, read.attributes, (), read.location)]
    if not carried:
        return None
    operations = [new for o in turn.operations for new in instead.get(o, [o])]
    outer, inner, after = ([c[i] for c in carried] for i in range(3))
    condition, source = loop.operation.regions[0], loop.operation.origin or loop.operation
    regions = (
        Region((*condition.arguments, *(Value(v.type) for v in inner)), condition.operations, condition.returns),
        Region((*turn.arguments, *inner), operations, (*turn.returns, *after)),
    )
    operands = (*loop.operation.operands, *outer)
    results = (*loop.operation.results, *(Value(v.type) for v in inner))
    new = dataclasses.replace(loop.operation, operands=operands, results=results, regions=regions, origin=source)
    return before, new


def _distance(
    read: Operation, argument: Value, written: Rows | None, window: tuple[int, ...], loop: Loop
) -> int | None:
    """How many turns before its own a slice reads what was written; 0 and less where that was not written yet."""
    if read.name != SLICE or read.operands[0] is not argument or argument in read.operands[1:] or written is None:
        return None
    sizes = tuple(np.ravel(read.attributes["slice_sizes"]).tolist())
    rows = loop.rows(read, 1, sizes)
    if rows is None or sizes != window or abs(rows.step) != 1:
        return None
    if (rows.dimension, rows.step, rows.fixed) != (written.dimension, written.step, written.fixed):
        return None
    return (written.first - rows.first) * rows.step


def _row_before(array: Value, written: Rows, distance: int, window: tuple[int, ...], like: Operation) -> Operation:
    """Gives the row that is so many turns before the first one that is written."""
    assert isinstance(array.type, TensorType)
    starts = np.array(written.fixed)
    starts[written.dimension] = written.first - distance * written.step
    attributes = {"start_indices": starts, "limit_indices": starts + window, "strides": np.ones_like(starts)}
    row = Value(TensorType(window, array.type.element))
    return Operation("stablehlo.slice", (array,), (row,), attributes, (), like.location)


def _as_update(write: Operation, loop: Loop, constants: dict[Value, Any]) -> list[Operation] | None:
    """A scatter that writes one row, in bounds in every turn, as an update of a slice; None of other scatters."""
    if len(write.operands) != 3 or captures(write.regions[0]):
        return None
    array, indices, update = write.operands
    numbers, body = write.attributes["scatter_dimension_numbers"], write.regions[0]
    dropped = [int(d) for d in np.ravel(numbers.get("inserted_window_dims", ()))]
    mapped = [int(d) for d in np.ravel(numbers.get("scatter_dims_to_operand_dims", ()))]
    made, shape = loop.made.get(indices), shape_of(array)
    is_one = len(dropped) == 1 and mapped == dropped and shape_of(indices) == (1,)
    if not is_one or made is None or body.returns != (body.arguments[1],) or array.type.element != update.type.element:  # type: ignore[union-attr]
        return None
    (d,) = dropped
    if made.name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape") or shape_of(made.operands[0]):
        return None
    index, rest = made.operands[0], shape[:d] + shape[d + 1 :]
    places = loop.of_turns(index)
    if places is None or shape_of(update) != rest or places.min() < 0 or places.max() >= shape[d]:
        return None
    zero = Value(index.type)
    constants[zero] = np.zeros((), index.type.element.dtype)  # type: ignore[union-attr]
    window = Value(TensorType((*shape[:d], 1, *shape[d + 1 :]), update.type.element))  # type: ignore[union-attr]
    starts = [index if i == d else zero for i in range(len(shape))]
    return [
        Operation("stablehlo.reshape", (update,), (window,), {}, (), write.location),
        Operation(UPDATE, (array, window, *starts), write.results, {}, (), write.location),
    ]
