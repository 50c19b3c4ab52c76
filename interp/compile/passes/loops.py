"""Reads while loops that count from a constant to a constant: their number of turns, and what they carry."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.batch import shifted
from ....ops.engine.speed import tuning
from ....ops.op import OpError, lookup, traits_of
from ....ops.policy import Policy
from ....ops.traits import Kernel
from ....ops.types import TensorType, Type
from ...program import Operation, Region, Value
from ..group import Attributes
from ..uses import captures, uses_of
from .batching import Batcher
from .fusible import shape_of

SLICE, UPDATE = "stablehlo.dynamic_slice", "stablehlo.dynamic_update_slice"
SCATTER = "stablehlo.scatter"
#: Gives the kernel of an elementwise op by its name, attributes and types.
KernelOf = Callable[[str, Attributes, tuple[Type, ...]], Kernel]


def has_products(turn: Region, least: int = 0) -> bool:
    """Whether a turn has sums of products of arrays of more than so many elements: nothing is fused over them."""
    products = (o for o in turn.operations if traits_of(o.name).terms is not None)
    return any(math.prod(n or 0 for n in v.shape or ()) > least for o in products for v in (*o.operands, *o.results))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Where the windows of all turns lie: in turn t at row `first + step * t` of a dimension, and at fixed places."""

    dimension: int
    first: int
    step: int
    fixed: tuple[int, ...]  #: the starts in all dimensions; 0 in that one

    def least(self, count: int) -> int:
        return min(self.first, self.first + self.step * (count - 1))


#: The operation that changes a carried array, and which row if it writes one.
Update = tuple[Operation, Rows | None]


class Loop:
    """A while loop that may be one over independent turns."""

    def __init__(self, operation: Operation, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf) -> None:
        self.operation, self.constants, self.policy, self._kernel_of = operation, constants, policy, kernel_of
        self._condition, self.turn = operation.regions
        self.made = {r: o for o in self.turn.operations for r in o.results}
        self._known: dict[Value, np.ndarray | None] = {}
        self.count = 0
        self.arrays: dict[int, Update] = {}  #: by its place, what each turn does to an array that it does not read
        self.states: list[int] = []  #: the places of what else turns hand on

    def read(self) -> bool:
        """Find the number of turns and what is carried; False where the loop is not one that counts."""
        if not all(isinstance(v.type, TensorType) and v.type.is_static for v in self.operation.operands):
            return False
        self.count = self.turns() or 0
        if self.count:
            self._find_carried()
        return self.count > 0

    # -- what is carried -----------------------------------------------------------------------------------------------

    def turns(self) -> int | None:
        """The number of turns, None of a loop that does not count; finds the numbers that count."""
        compares = [o for o in self._condition.operations if not all(r in self.constants for r in o.results)]
        if len(compares) != 1 or compares[0].results != self._condition.returns:
            return None
        (compare,) = compares
        if compare.name != "stablehlo.compare" or compare.attributes.get("comparison_direction") != "LT":
            return None
        number, limit = compare.operands
        arguments, operands = self.turn.arguments, self.operation.operands
        if number not in self._condition.arguments:
            return None
        counter = self._condition.arguments.index(number)
        end, start = self._number(limit), self._number(operands[counter])
        if end is None or start is None or self._added(counter) != 1:
            return None
        count = end - start
        if not 2 <= count <= tuning().turns_most:
            return None
        for i, argument in enumerate(arguments):
            by, first = self._added(i), self._number(operands[i])
            if by and first is not None:
                dtype = argument.type.element.dtype  # type: ignore[union-attr]
                with np.errstate(all="ignore"):
                    self._known[argument] = (first + by * np.arange(count, dtype=np.int64)).astype(dtype)
        return count if arguments[counter] in self._known else None

    def _number(self, value: Value) -> int | None:
        """A constant integer."""
        t, array = value.type, self.constants.get(value)
        if array is None or not isinstance(t, TensorType) or t.shape != () or not t.element.is_integer:
            return None
        return int(np.asarray(array)) if t.element.bits >= 8 else None

    def _added(self, index: int) -> int:
        """What each turn adds to a carried integer, 0 if it does something else."""
        argument, made = self.turn.arguments[index], self.made.get(self.turn.returns[index])
        if made is None or made.name != "stablehlo.add" or argument not in made.operands:
            return 0
        x, y = made.operands
        return self._number(y if x is argument else x) or 0

    def _find_carried(self) -> None:
        """Find the update of each carried array that turns only write to, and what else is carried."""
        uses = uses_of(self.turn)
        for i, (argument, returned) in enumerate(zip(self.turn.arguments, self.turn.returns, strict=True)):
            if argument is returned or argument in self._known:
                continue
            made = self.made.get(returned)
            is_update = made is not None and made.operands[:1] == (argument,) and argument not in made.operands[1:]
            if made is None or not is_update or uses.get(argument) != [made] or uses.get(returned) != [None]:
                self.states.append(i)
                continue
            if made.name == SCATTER and len(made.operands) == 3 and not captures(made.regions[0]):
                self.arrays[i] = made, None
                continue
            rows = self.rows(made, 2, shape_of(made.operands[1])) if made.name == UPDATE else None
            if rows is None or abs(rows.step) != 1:
                self.states.append(i)
            else:
                self.arrays[i] = made, rows

    def name_again(self, batcher: Batcher) -> None:
        """Let what stays the same in all turns be known by the name that it has in a turn."""
        used = {v for o in self.turn.operations for v in (*o.operands, *(c for r in o.regions for c in captures(r)))}
        used.update(r for a, r in zip(self.turn.arguments, self.turn.returns, strict=True) if a is not r)
        loop = self.operation
        for argument, returned, operand in zip(self.turn.arguments, self.turn.returns, loop.operands, strict=True):
            if argument is returned and operand in self.constants:
                self.constants[argument] = self.constants[operand]
            elif argument is returned and argument in used:
                batcher.put("optimization_barrier", [operand], argument, {}, loop)

    # -- places that depend on the iteration --------------------------------------------------------------------------

    def of_turns(self, value: Value) -> np.ndarray | None:
        """The values of a scalar in all iterations, if it depends on the loop counters only; else None."""
        if value not in self._known:
            self._known[value] = None
            self._known[value] = self._computed(value)
        return self._known[value]

    def _computed(self, value: Value) -> np.ndarray | None:
        t, constant = value.type, self.constants.get(value)
        if not isinstance(t, TensorType) or t.shape != () or t.element.is_float or t.element.is_complex:
            return None
        if constant is not None:
            return np.broadcast_to(np.asarray(constant), self.count)
        made = self.made.get(value)
        record = None if made is None else lookup(made.name)
        if made is None or record is None or not record.is_elementwise or len(made.results) != 1:
            return None
        operands = [self.of_turns(v) for v in made.operands]
        if any(v is None for v in operands):
            return None
        types = tuple([TensorType((self.count,), v.type.element) for v in (*made.operands, *made.results)])  # type: ignore[union-attr]
        try:
            kernel = self._kernel_of(made.name, Attributes(made.attributes), types)
            with np.errstate(all="ignore"):
                return np.asarray(kernel(*operands))
        except OpError:
            return None

    def rows(self, operation: Operation, first: int, sizes: Sequence[int]) -> Rows | None:
        """Where the windows of a slice or update lie in all turns, if they are rows of one dimension."""
        starts, shape = operation.operands[first:], shape_of(operation.operands[0])
        found: tuple[int, int, int] | None = None
        fixed = []
        for d, (start, size, n) in enumerate(zip(starts, sizes, shape, strict=True)):
            places = np.zeros(1, np.int64) if n == size else self.of_turns(start)
            if places is None:
                return None
            places = np.clip(places, 0, n - size).astype(np.int64)
            fixed.append(int(places[0]))
            if (places == places[0]).all():
                continue
            step = int(places[1] - places[0])
            if found is not None or size != 1 or step == 0 or (np.diff(places) != step).any():
                return None
            found, fixed[-1] = (d, int(places[0]), step), 0
        return None if found is None else Rows(*found, tuple(fixed))

    # -- operations ----------------------------------------------------------------------------------------------------

    def needed(self, values: Sequence[Value]) -> set[Operation]:
        """The operations of a turn that some values depend on."""
        wanted, needed = set(values), set[Operation]()
        for operation in reversed(self.turn.operations):
            record = lookup(operation.name)
            if not wanted.isdisjoint(operation.results) or record is None or record.has_effects:
                needed.add(operation)
                wanted.update(operation.operands, *map(captures, operation.regions))
        return needed

    def is_stacked(self, value: Value, batcher: Batcher) -> bool:
        """Whether a value has a row for each turn; numbers that count get one."""
        if not batcher.is_stacked(value) and value not in self.constants:
            known = self.of_turns(value)
            if known is not None:
                batcher.stack(value, batcher.constant(np.array(known), value.type.element.name))  # type: ignore[union-attr]
        return batcher.is_stacked(value)

    def take(self, operation: Operation, batcher: Batcher) -> bool:
        """Put in what stands for an operation of all turns; False where there is no such thing."""
        for value in (*operation.operands, *(v for r in operation.regions for v in captures(r))):
            self.is_stacked(value, batcher)
        if all(self.of_turns(r) is not None for r in operation.results):
            return True
        if operation.name == SLICE and not batcher.is_stacked(operation.operands[0]):
            sizes = np.ravel(operation.attributes["slice_sizes"]).tolist()
            rows = self.rows(operation, 1, sizes)
            if rows is not None:
                self._take_rows(operation, rows, sizes, batcher)
                return True
        return batcher.take(operation)

    def _take_rows(self, operation: Operation, rows: Rows, sizes: list[int], batcher: Batcher) -> None:
        """Rows of an array that is the same in all turns, one for each turn."""
        (source, *_), count, d = operation.operands, self.count, rows.dimension
        t = operation.results[0].type
        assert isinstance(t, TensorType)
        starts = [*rows.fixed]
        starts[d] = rows.least(count)
        limits = [start + size for start, size in zip(starts, sizes, strict=True)]
        limits[d] = starts[d] + abs(rows.step) * (count - 1) + 1
        strides = [1] * len(sizes)
        strides[d] = abs(rows.step)
        shape = [*sizes]
        shape[d] = count
        if (starts, limits, strides) != ([0] * len(sizes), list(shape_of(source)), [1] * len(sizes)):
            places = {"start_indices": starts, "limit_indices": limits, "strides": strides}
            attributes = {name: np.array(value, np.int64) for name, value in places.items()}
            source = batcher.put("slice", [source], TensorType(tuple(shape), t.element), attributes, operation)
        if rows.step < 0:
            assert isinstance(source.type, TensorType)
            source = batcher.put("reverse", [source], source.type, {"dimensions": np.array([d])}, operation)
        if d > 0:
            order = [d, *(i for i in range(len(shape)) if i != d)]
            moved = TensorType(tuple([shape[i] for i in order]), t.element)
            source = batcher.put("transpose", [source], moved, {"permutation": np.array(order)}, operation)
        result = batcher.put("reshape", [source], TensorType((count, *sizes), t.element), {}, operation)
        batcher.stack(operation.results[0], result)

    @staticmethod
    def memory(operation: Operation) -> int:
        """The bytes of what an operation gives, if that is not computed with what comes after."""
        record = lookup(operation.name)
        if record is not None and (record.is_elementwise or record.traits.scalar is not None):
            return 0
        return sum(r.type.nbytes for r in operation.results if isinstance(r.type, TensorType))

    # -- results -------------------------------------------------------------------------------------------------------

    def finish(self, batcher: Batcher) -> None:
        """Put in what gives the results of the loop, but those of the states."""
        loop = self.operation
        for i, (operand, result, argument) in enumerate(
            zip(loop.operands, loop.results, self.turn.arguments, strict=True)
        ):
            if i in self.states:
                continue
            update, rows = self.arrays.get(i, (None, None))
            if update is not None and rows is None:
                self._put_scatter(result, operand, update, batcher)
            elif update is not None and rows is not None:
                self._put_array(result, operand, update, rows, batcher)
            elif argument in self._known and self.turn.returns[i] is not argument:
                last = self._known[argument]
                assert last is not None
                with np.errstate(all="ignore"):
                    value = np.asarray(last[-1] + (last[1] - last[0]), last.dtype)
                self.constants[result] = value
                batcher.put("constant", [], result, {"value": value}, loop)
            else:
                batcher.put("optimization_barrier", [operand], result, {}, loop)

    def _put_scatter(self, result: Value, before: Value, update: Operation, batcher: Batcher) -> None:
        """The array that the turns have scattered into one after the other: the same updates in the same order."""
        indices, updates = (batcher.stacked(v) for v in update.operands[1:])
        numbers = dict(update.attributes["scatter_dimension_numbers"])
        for name in ("update_window_dims", "scatter_indices_batching_dims"):
            numbers[name] = shifted(numbers.get(name, ()))
        numbers["index_vector_dim"] = int(numbers.get("index_vector_dim", 0)) + 1
        attributes = {**update.attributes, "scatter_dimension_numbers": numbers}
        attributes["unique_indices"] = attributes["indices_are_sorted"] = False
        operands = (before, indices, updates)
        batcher.operations.append(
            Operation(update.name, operands, (result,), attributes, update.regions, update.location)
        )

    def _put_array(self, result: Value, before: Value, update: Operation, rows: Rows, batcher: Batcher) -> None:
        """The array in which each turn has written its row."""
        window, d, count = shape_of(update.operands[1]), rows.dimension, self.count
        assert isinstance(result.type, TensorType)
        element, shape = result.type.element, list(window)
        shape[d] = count
        value = batcher.stacked(update.operands[1])
        leading = [count, *(n for i, n in enumerate(window) if i != d)]
        steps: list[tuple[str, list[int], dict[str, Any]]] = [("reshape", leading, {})]
        if d > 0:
            order = [*range(1, d + 1), 0, *range(d + 1, len(shape))]
            steps.append(("transpose", shape, {"permutation": np.array(order)}))
        if rows.step < 0:
            steps.append(("reverse", shape, {"dimensions": np.array([d])}))
        is_whole = tuple(shape) == result.type.shape
        for name, sizes, attributes in steps[:-1] if is_whole else steps:
            value = batcher.put(name, [value], TensorType(tuple(sizes), element), attributes, update)
        if is_whole:
            name, _, attributes = steps[-1]
            batcher.put(name, [value], result, attributes, update)
            return
        starts = [*rows.fixed]
        starts[d] = rows.least(count)
        places = [batcher.constant(np.asarray(start, np.int64), "i64") for start in starts]
        batcher.put("dynamic_update_slice", [before, value, *places], result, {}, update)
