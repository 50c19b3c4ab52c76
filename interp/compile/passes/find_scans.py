"""The pass that finds the loops that are scans over codes; `executors/scan.py` says what they are and runs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.op import lookup
from ....ops.types import Kind, TensorType, Type
from ...program import BARRIER, Operation, Region, Value
from ..executors.scan import MOST, Place, Scan, Stack
from ..group import SCAN
from ..leaf import width
from ..vectorise import function_of
from .fusible import is_fusible, only, shape_of, spread_of
from .rewriting import with_operations, with_regions


def find_scans(region: Region, constants: Mapping[Value, Any]) -> Region:
    """A region, valid and with its constants known, in which a scan comes before each loop that is one.

    `SCAN`, with a `Scan`, takes the array of the rows and what the loop carries, and gives what is carried after all
    turns, or all of it as it was: the loop stands behind it and makes the turns that are left. The body of a loop is
    read op by op, so this comes before ops are fused.
    """
    operations: list[Operation] = []
    for operation in region.operations:
        new = with_regions(operation, [find_scans(r, constants) for r in operation.regions])
        recognised = scan_of(operation, constants) if operation.name == "stablehlo.while" else None
        if recognised is not None:
            scan, source = recognised
            carried = tuple([Value(v.type) for v in operation.operands])
            origin, operands = operation.origin or operation, (source, *operation.operands)
            operations.append(
                Operation(SCAN, operands, carried, {"scan": scan, "origins": ()}, (), operation.location, origin)
            )
            new = dataclasses.replace(new, operands=carried, origin=origin)
        operations.append(new)
    return with_operations(region, operations)


def scan_of(operation: Operation, constants: Mapping[Value, Any]) -> tuple[Scan, Value] | None:
    """The scan that a while loop is, and the array whose rows it takes; None of any other loop."""
    regions = operation.regions
    values = [*operation.operands, *operation.results, *(v for r in regions for v in (*r.arguments, *r.returns))]
    if not all(isinstance(v.type, TensorType) and v.type.is_static for v in values):
        return None
    if not any(shape_of(v) and _is_byte(v) for v in operation.operands):
        return None
    return _Reader(operation, constants).scan()


class _Reader:
    """Reads a loop's regions, the ops of a turn from first to last."""

    def __init__(self, operation: Operation, constants: Mapping[Value, Any]) -> None:
        self._constants, self._location = constants, operation.location
        self._condition, self._turn = operation.regions
        self._operands = operation.operands
        self._position = {v: i for i, v in enumerate(self._turn.arguments)}
        self._made = {r: o for o in self._turn.operations for r in o.results}
        self._places: dict[Value, Place] = {
            v: (i, 1, 0) for i, v in enumerate(self._turn.arguments) if _is_index(v.type)
        }
        self._source: Value | None = None
        self._row: Place | None = None
        self._scalars: dict[Value, Value] = {}
        self._step: list[Operation] = []

    def scan(self) -> tuple[Scan, Value] | None:
        end = self._end()
        if end is None or not all(map(_is_plain, self._turn.operations)):
            return None
        for made in self._turn.operations:
            self._read_place(made)
        counts: dict[int, tuple[int, int]] = {}  # what is added in each turn, and the least number of the type
        updates: list[tuple[int, Operation]] = []
        states: list[int] = []
        for i, (argument, returned) in enumerate(zip(self._turn.arguments, self._turn.returns, strict=True)):
            made, place = self._made.get(returned), self._places.get(returned)
            if argument is returned:
                continue
            if place is not None and place[:2] == (i, 1):
                counts[i] = place[2], 0 if argument.type.element.kind is Kind.UNSIGNED else -MOST  # type: ignore[union-attr]
            elif made is not None and made.name == _UPDATE and made.operands[0] is argument:
                updates.append((i, made))
            else:
                states.append(i)
        if len(states) != 1 or counts.get(end[0], (0, 0))[0] != 1:
            return None
        return self._with_state(states[0], counts, end, updates)

    def _with_state(
        self,
        position: int,
        counts: Mapping[int, tuple[int, int]],
        end: tuple[int, int],
        updates: Sequence[tuple[int, Operation]],
    ) -> tuple[Scan, Value] | None:
        state = self._turn.arguments[position]
        if not (_is_byte(state) and shape_of(state)):
            return None
        assert isinstance(state.type, TensorType)
        arguments = [self._named(state)]
        for made in self._turn.operations:
            self._read_elements(made, state.type)
        if self._source is None or self._row is None:
            return None
        arguments.append(self._scalars[self._source])
        results, stacks = [self._scalars.get(self._turn.returns[position])], []
        for i, made in updates:
            row, result = self._row_of(made, made.operands[1]), self._scalars.get(made.operands[1])
            if row is None:
                return None
            results = results if result in results else [*results, result]
            stacks.append(Stack(i, row, results.index(result)))
        returns = tuple(r for r in results if r is not None)
        if len(returns) < len(results):
            return None
        step_and_origins = function_of(Region(tuple(arguments), self._step, returns), self._constants)
        assert isinstance(self._source.type, TensorType)
        if step_and_origins is None:
            return None
        step, _ = step_and_origins
        source = self._source.type
        scan = Scan(tuple(counts.items()), *end, position, state.type, source, self._row, tuple(stacks), step)
        place = self._position.get(self._source)  # it may be carried, always the same
        return scan, self._source if place is None else self._operands[place]

    # -- counts and places -------------------------------------------------------------------------------------------

    def _end(self) -> tuple[int, int] | None:
        """Which carried number is compared with what, in a loop that goes on while it is less."""
        compares = [o for o in self._condition.operations if not all(r in self._constants for r in o.results)]
        if len(compares) != 1 or compares[0].results != self._condition.returns or not _is_less(compares[0]):
            return None
        number, limit = compares[0].operands[0], self._number(compares[0].operands[1])
        arguments = self._condition.arguments
        return (arguments.index(number), limit) if number in arguments and limit is not None else None

    def _read_place(self, made: Operation) -> None:
        """Find whether an op gives a number that depends on a single carried one."""
        if len(made.results) != 1 or not _is_index(made.results[0].type):
            return
        places, numbers = [self._places.get(v) for v in made.operands], [self._number(v) for v in made.operands]
        match made.name, places, numbers:
            case "stablehlo.convert", [place], _ if place and made.operands[0].type == made.results[0].type:
                moved = place
            case "stablehlo.add", [(i, by, start), None], [_, int(n)]:
                moved = i, by, start + n
            case "stablehlo.add", [None, (i, by, start)], [int(n), _]:
                moved = i, by, start + n
            case "stablehlo.subtract", [(i, by, start), None], [_, int(n)]:
                moved = i, by, start - n
            case "stablehlo.subtract", [None, (i, by, start)], [int(n), _]:
                moved = i, -by, n - start
            case "stablehlo.select", [_, _, place], _ if place and self._is_negative(made.operands[0], place):
                moved = place  # and counted from the end below zero: whether these are rows is seen when it runs
            case _:
                return
        self._places[made.results[0]] = moved

    def _is_negative(self, value: Value, place: Place) -> bool:
        """Whether a value is the comparison of a place with zero."""
        made = self._made.get(value)
        if made is None or not _is_less(made):
            return False
        return self._places.get(made.operands[0]) == place and self._number(made.operands[1]) == 0

    def _number(self, value: Value) -> int | None:
        """A constant integer."""
        array = self._constants.get(value)
        return None if array is None or not _is_index(value.type) else int(np.asarray(array))

    def _row_of(self, made: Operation, window: Value) -> Place | None:
        """Where the window of a dynamic_slice or dynamic_update_slice begins, if it is a row of its operand."""
        whole, part = shape_of(made.operands[0]), shape_of(window)
        if not whole or part != (1, *whole[1:]):
            return None
        return self._places.get(made.operands[1 if made.name == _SLICE else 2])

    # -- elements ----------------------------------------------------------------------------------------------------

    def _read_elements(self, made: Operation, state: TensorType) -> None:
        """Find what stands for each element of an op's result in the step, if it has as many as the state."""
        if made.name == BARRIER:
            for value, result in zip(made.operands, made.results, strict=True):
                if (same := self._scalar(value)) is not None:
                    self._scalars[result] = same
            return
        if len(made.results) != 1 or made.results[0] in self._constants:
            return
        (result,) = made.results
        t, record, axes = result.type, lookup(made.name), spread_of(made)
        if not isinstance(t, TensorType) or not t.is_static or t.size != state.size:
            return
        if made.name == _SLICE:
            self._read_row(made)
        elif axes is not None:
            kept = [a for a in axes if a is not None]
            source = made.operands[0]
            is_same = source.type.size in (1, t.size) and kept == sorted(kept)  # type: ignore[union-attr]
            if is_same and (same := self._scalar(source)) is not None:
                self._scalars[result] = same
        elif record is not None and is_fusible(made, record):
            operands = [s for v in made.operands if (s := self._scalar(v)) is not None]
            if len(operands) == len(made.operands):
                named = (self._named(result),)
                self._step.append(Operation(made.name, tuple(operands), named, made.attributes, (), made.location))

    def _read_row(self, made: Operation) -> None:
        """Rows are taken of one array that stays the same, and in each turn one of them."""
        source, row = made.operands[0], self._row_of(made, made.results[0])
        is_carried = source in self._position
        if source in self._made or row is None or not _is_byte(source):
            return
        if is_carried and self._turn.returns[self._position[source]] is not source:
            return
        if self._source is None:
            self._source, self._row = source, row
            self._named(source)
        if (self._source, self._row) == (source, row):
            self._scalars[made.results[0]] = self._scalars[source]

    def _named(self, value: Value) -> Value:
        assert isinstance(value.type, TensorType)
        scalar = self._scalars[value] = Value(TensorType((), value.type.element))
        return scalar

    def _scalar(self, value: Value) -> Value | None:
        """What stands for each element of a value: constants do if they are the same number everywhere."""
        if value in self._scalars or value not in self._constants or not isinstance(value.type, TensorType):
            return self._scalars.get(value)
        number = only(np.asarray(self._constants[value]))
        if number is None:
            return None
        result = self._named(value)
        self._step.append(Operation("stablehlo.constant", (), (result,), {"value": number}, (), self._location))
        return result


_SLICE, _UPDATE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"


def _is_plain(operation: Operation) -> bool:
    record = lookup(operation.name)
    return record is not None and not record.has_effects and not operation.regions


def _is_less(operation: Operation) -> bool:
    return operation.name == "stablehlo.compare" and operation.attributes.get("comparison_direction") == "LT"


def _is_index(t: Type) -> bool:
    """Whether a value is a number of a type that holds the number of any row."""
    return isinstance(t, TensorType) and t.shape == () and t.element.is_integer and t.element.bits >= 32


def _is_byte(value: Value) -> bool:
    t = value.type
    return isinstance(t, TensorType) and t.is_static and t.size > 0 and (width(t.element) or 99) <= 8
