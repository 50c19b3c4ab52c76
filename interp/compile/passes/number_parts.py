"""Rewrites the operations of a region on arrays of a few elements as operations on single numbers (`numbers.py`)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.kernel import Regions
from ....ops.reductions.folds import PAIRS_FROM
from ....ops.registry import Call, Op, lookup
from ....ops.types import ELEMENT_TYPES, TensorType, Type
from ...program import BARRIER, Operation, Region, Value
from ..group import NUMBER, PACK, UNPACK, Attributes
from ..uses import captures
from .fusible import element_of, elements_of, shape_of
from .number_places import element_window, place_of
from .number_work import Unfit, Work, count_of, is_small

_I32, _PLACES = TensorType((), ELEMENT_TYPES["i32"]), ELEMENT_TYPES["i64"]


class Part:
    """Builds the operations on numbers of one region.

    `outer` is the `Part` of the enclosing region; None for the region that contains the loop.
    """

    def __init__(self, work: Work, outer: Part | None) -> None:
        self._work, self._outer = work, outer
        self.operations: list[Operation] = []
        self._numbers: dict[Value, tuple[Value, ...]] = {}  # values of which each element is a number
        self._arrays: set[Value] = set()  # those of them that exist as arrays too
        self._made: dict[Any, Value] = {}  # the results of operations on numbers, so that each is computed once
        self._own: set[Value] = set()  # values of the region that were not rewritten
        self._free: set[int] = set()  # the ids of operations that may be removed if unused

    # -- values --------------------------------------------------------------------------------------------------------

    def numbers(self, value: Value) -> tuple[Value, ...]:
        """The elements of a value of a few elements, as numbers."""
        part: Part = self
        while value not in part._numbers and value not in part._own and part._outer is not None:
            part = part._outer
        if value not in part._numbers:
            part._numbers[value] = part._elements(value)
        return part._numbers[value]

    def _elements(self, value: Value) -> tuple[Value, ...]:
        """Take apart an array that was not rewritten: of this region, or from outside the loop."""
        shape, constants = shape_of(value), self._work.constants
        if not shape:
            return (value,)
        t = TensorType((), element_of(value))
        elements = tuple([Value(t) for _ in range(math.prod(shape))])
        if value in constants:
            array = np.asarray(constants[value]).reshape(-1)
            for i, element in enumerate(elements):
                constants[element] = array[i, ...]
        else:
            self._put(UNPACK, (value,), elements, {"type": value.type})
        self._arrays.add(value)
        return elements

    def array(self, value: Value) -> None:
        """Make a value available as an array, by packing its numbers if necessary."""
        part: Part | None = self
        while part is not None:
            if value in part._arrays or value in part._own:
                return
            numbers = part._numbers.get(value)
            if numbers == (value,):
                return
            if numbers is not None:
                self._arrays.add(value)
                self._put(PACK, numbers, (value,), {"type": value.type})
                return
            part = part._outer

    # -- operations ----------------------------------------------------------------------------------------------------

    def take(self, operation: Operation) -> None:
        """Add the operations that replace an operation of the region."""
        record, values = lookup(operation.name), (*operation.operands, *operation.results)
        if operation.name in (UNPACK, PACK):
            return self._packing(operation)
        if operation.name == BARRIER and all(is_small(v.type) for v in values):
            self._numbers.update(zip(operation.results, map(self.numbers, operation.operands), strict=True))
            return None
        if record is not None and all(is_small(v.type) for v in values):
            if operation.results and operation.results[0] in self._work.constants and not operation.regions:
                self.operations.append(operation)
                return None
            if len(operation.results) == 1 and self._elementwise(operation, record):
                return None
            if record.facts.moves and self._moved(operation, record):
                return None
            if record.facts.starts is not None:
                return self._window(operation, record.facts.starts)
            if operation.name == "stablehlo.reduce" and self._reduced(operation):
                return None
            if operation.name == "stablehlo.scatter" and self._scattered(operation):
                return None
        if record is not None and record.facts.regions in (Regions.LOOP, Regions.ONE):
            return self.control(operation)
        return self.whole(operation)

    def whole(self, operation: Operation) -> None:
        """Add an operation unchanged; its operands become arrays."""
        for value in dict.fromkeys(
            (*operation.operands, *(v for r in operation.regions for v in captures(r, self._work.captured)))
        ):
            self.array(value)
        self.operations.append(operation)
        self._own.update(operation.results)

    def _elementwise(self, operation: Operation, record: Op) -> bool:
        (result,), elements = operation.results, elements_of(operation)
        shape = shape_of(result)
        if not record.is_elementwise or any(shape_of(v) not in (shape, ()) for v in operation.operands):
            return False
        is_near = record.accuracy.is_near
        # A function of f64 of the host can depend on the neighbours of an element, as its loop takes several at once.
        if (is_near and any(e.name == "f64" for e in elements)) or not self._work.has_expression(operation):
            return False
        operands = [self.numbers(v) for v in operation.operands]
        columns = [o * math.prod(shape) if len(o) == 1 else o for o in operands]
        self._numbers[result] = tuple(
            [self._number(operation, row, element_of(result)) for row in zip(*columns, strict=True)]
        )
        now = tuning()
        if shape:
            is_slow = is_near or any(e.name == "f16" for e in elements)
            self._work.saved += now.array_function_cost if is_slow else now.array_cost
            self.spend(math.prod(shape), result.type, is_near)
        return True

    def spend(self, count: float, t: Type | None = None, is_near: bool = False) -> None:
        """Add the cost of `count` operations on numbers of a type."""
        now, is_whole = tuning(), isinstance(t, TensorType) and t.element.is_integer and t.element.bits > 1
        cost = now.number_function_cost if is_near else now.number_integer_cost if is_whole else now.number_cost
        self._work.spend(cost * count, not is_near)

    def _number(self, like: Operation, operands: tuple[Value, ...], element: Any) -> Value:
        """The result of an operation on single numbers; the same value if it has been computed before."""
        key = like.name, element, Attributes(like.attributes), operands  # only its result has a conversion's type
        if key not in self._made:
            result = self._made[key] = Value(TensorType((), element))
            self._append(Operation(like.name, operands, (result,), like.attributes, (), like.location))
        return self._made[key]

    def _append(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._free.add(id(operation))
        self._work.count()

    def _put(
        self, name: str, operands: Iterable[Value], results: tuple[Value, ...], attributes: dict[str, Any]
    ) -> None:
        """Add an operation that this pass introduces: `UNPACK`, `PACK` or `NUMBER`."""
        source = self._work.source
        self._append(Operation(name, tuple(operands), results, attributes, (), source.location, source))
        if name != NUMBER and self._outer is not None:
            self._work.spend(tuning().pack_cost, is_number=False)

    def expression(self, text: str, operands: Sequence[Value], t: Type) -> Value:
        """A number computed by an expression, in which `{0}` and so on stand for the operands."""
        result = Value(t)
        self._put(NUMBER, operands, (result,), {"text": text})
        return result

    def _moved(self, operation: Operation, record: Op) -> bool:
        """Rewrite an operation that only moves elements.

        Its kernel is run on the positions of the elements, which tells where each result comes from.
        """
        (result,) = operation.results
        numbers = [self.numbers(v) for v in operation.operands]
        starts = np.cumsum([0, *map(len, numbers)])
        types = [TensorType(shape_of(v), _PLACES) for v in (*operation.operands, result)]
        kernel = record.function(Call(operation.name, tuple(types[:-1]), (types[-1],), operation.attributes))
        places = [
            np.arange(start, start + len(n)).reshape(shape_of(v))
            for start, n, v in zip(starts, numbers, operation.operands, strict=False)
        ]
        every = [n for some in numbers for n in some]
        self._numbers[result] = tuple([every[i] for i in np.asarray(kernel(*places)).reshape(-1).tolist()])
        self._work.saved += tuning().array_cost
        return True

    def _packing(self, operation: Operation) -> None:
        """Rewrite an `UNPACK` or `PACK` that an inner loop has introduced."""
        if operation.name == PACK and is_small(operation.results[0].type):
            self._numbers[operation.results[0]] = tuple([self.numbers(v)[0] for v in operation.operands])
            return None
        (operand,) = operation.operands[:1]
        if operation.name == UNPACK and is_small(operand.type):
            for result, number in zip(operation.results, self.numbers(operand), strict=True):
                self._numbers[result] = (number,)
            return None
        return self.whole(operation)

    def _window(self, operation: Operation, first: int) -> None:
        """Rewrite a dynamic slice (`first` is 1), or a dynamic update (2)."""
        (result,), source, starts = operation.results, operation.operands[0], operation.operands[first:]
        window = shape_of(result if first == 1 else operation.operands[1])
        numbers, text, used, offsets = self.numbers(source), *place_of(shape_of(source), window)
        self._work.saved += 2 * tuning().array_cost
        if not used:
            self._numbers[result] = numbers if first == 1 else self.numbers(operation.operands[1])
            return None
        place = self.expression(text, [self.numbers(starts[d])[0] for d in used], _I32)
        t, many = TensorType((), element_of(result)), ", ".join(f"{{{i + 1}}}" for i in range(len(numbers)))
        if first == 1:
            self._numbers[result] = tuple(
                [self.expression(f"({many},)[{{0}} + {o}]", (place, *numbers), t) for o in offsets]
            )
            return self.spend(2 + len(offsets) * (1 + len(numbers) / 4))
        updated = list(numbers)
        for offset, new in zip(offsets, self.numbers(operation.operands[1]), strict=True):
            for i in range(offset, len(updated)):
                text = f"{{0}} if {{1}} == {i - offset} else {{2}}"
                updated[i] = self.expression(text, (new, place, updated[i]), t)
        self._numbers[result] = tuple(updated)
        return self.spend(2 + len(offsets) * len(updated))

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _reduced(self, operation: Operation) -> bool:
        """Rewrite a short reduction as steps in the order that `reduce` promises. False where it stays."""
        (body,), count = operation.regions, len(operation.operands) // 2
        arrays, inits = operation.operands[:count], operation.operands[count:]
        shape, dimensions = shape_of(arrays[0]), sorted(np.ravel(operation.attributes["dimensions"]).tolist())
        steps = math.prod(shape[d] for d in dimensions)
        wanted = [element_of(v) for v in body.arguments]
        if [element_of(v) for v in operation.operands] != [*wanted[count:], *wanted[:count]]:
            return False
        if steps >= PAIRS_FROM or not self.is_simple(body):
            return False
        order = [*dimensions, *(d for d in range(len(shape)) if d not in dimensions)]
        places = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(steps, -1)
        numbers, totals = [self.numbers(v) for v in arrays], [list(self.numbers(v)) * places.shape[1] for v in inits]
        for row in places.tolist():
            for column, place in enumerate(row):
                found = self.applied(body, (*(t[column] for t in totals), *(n[place] for n in numbers)))
                for total, value in zip(totals, found, strict=True):
                    total[column] = value
        self._numbers.update(zip(operation.results, map(tuple, totals), strict=True))
        self._work.saved += tuning().array_fold_cost * len(body.operations)
        return True

    def applied(self, body: Region, values: Sequence[Value]) -> list[Value]:
        """Inline a body of operations on numbers. Returns its results."""
        inner = dict(zip(body.arguments, values, strict=True))
        for operation in body.operations:
            if operation.results[0] in self._work.constants:
                continue
            operands = tuple([inner.get(v) or self.numbers(v)[0] for v in operation.operands])
            inner[operation.results[0]] = self._number(operation, operands, element_of(operation.results[0]))
            self.spend(1, operation.results[0].type, lookup(operation.name).accuracy.is_near)  # type: ignore[union-attr]
        return [inner.get(v) or self.numbers(v)[0] for v in body.returns]

    def is_simple(self, body: Region) -> bool:
        """Whether every operation of a body has an expression of single numbers."""
        return all(map(self._is_simple, body.operations))

    def _is_simple(self, operation: Operation) -> bool:
        """Whether an operation of a body has an expression of single numbers."""
        record, values = lookup(operation.name), (*operation.operands, *operation.results)
        if record is None or operation.regions or len(operation.results) != 1:
            return False
        if not all(is_small(v.type) and not shape_of(v) for v in values):
            return False
        if operation.results[0] in self._work.constants:
            return True
        is_f64 = record.accuracy.is_near and any(e.name == "f64" for e in elements_of(operation))
        return not is_f64 and self._work.has_expression(operation)

    def _scattered(self, operation: Operation) -> bool:
        """Rewrite a scatter of one window. False where it stays."""
        (body,), source = operation.regions, operation.operands[0]
        window = element_window(operation)
        if window is None or not self.is_simple(body):
            return False
        numbers, indices, new = list(self.numbers(source)), *map(self.numbers, operation.operands[1:])
        place = self.expression(window.text, indices, _I32)
        for update, targets in zip(new, window.targets, strict=True):
            for at, target in enumerate(targets):
                (combined,) = self.applied(body, (numbers[target], update))
                operands = combined, place, numbers[target]
                numbers[target] = self.expression(f"{{0}} if {{1}} == {at} else {{2}}", operands, combined.type)
        self._numbers[operation.results[0]] = tuple(numbers)
        self.spend(2 + sum(map(len, window.targets)))
        self._work.saved += tuning().array_scatter_cost
        return True

    # -- loops and branches --------------------------------------------------------------------------------------------

    def control(self, operation: Operation) -> None:
        """Rewrite a loop or branch to carry and return numbers. Raises Unfit where types differ within it."""
        types = [v.type for v in operation.results]
        for region in operation.regions:
            taken, given = ([v.type for v in values] for values in (region.arguments, region.returns))
            is_condition = bool(taken) and region is operation.regions[0]
            if (taken and taken != types) or (given != types and not is_condition):
                raise Unfit  # a size that is known here and not there
        operands = self.flat(operation.operands)
        regions = tuple([self.inner(r, r.arguments) for r in operation.regions])
        results = [self._named(v) for v in operation.results]
        flat = tuple([v for some in results for v in some])
        self.operations.append(
            Operation(operation.name, tuple(operands), flat, operation.attributes, regions, operation.location)
        )
        self._own.update(flat)
        if self._outer is None:
            for value in operation.results:
                self.array(value)

    def recurrence(self, operation: Operation) -> None:
        """Rewrite the iteration of a recurrence as one of numbers."""
        (turn, *chunked), origin = operation.regions, operation.origin or operation
        width = operation.attributes["states"]
        taken = tuple([count_of(v) for v in (*turn.arguments, *turn.returns[width:])])
        attributes = {**operation.attributes, "numbers": taken}
        regions = (self.inner(turn, turn.arguments), *chunked)
        self.operations.append(dataclasses.replace(operation, regions=regions, attributes=attributes, origin=origin))

    def inner(self, region: Region, arguments: Sequence[Value]) -> Region:
        """A region of numbers: a small argument or result becomes as many numbers as it has elements."""
        part = Part(self._work, self)
        taken = [v for value in arguments for v in part._named(value)]
        for operation in region.operations:
            part.take(operation)
        returns = part.flat(region.returns)
        return Region(tuple(taken), part.live(returns), tuple(returns))

    def live(self, returns: Iterable[Value]) -> list[Operation]:
        """The operations without those on numbers whose results are not used."""
        needed, kept = set(returns), list[Operation]()
        for operation in reversed(self.operations):
            if id(operation) not in self._free or not needed.isdisjoint(operation.results):
                needed.update(operation.operands, *(captures(r, self._work.captured) for r in operation.regions))
                kept.append(operation)
        return kept[::-1]

    def _named(self, value: Value) -> tuple[Value, ...]:
        """New values for the elements of a small tensor; the value itself where it is a scalar or not small."""
        if is_small(value.type) and shape_of(value):
            t = TensorType((), element_of(value))
            self._numbers[value] = tuple([Value(t) for _ in range(math.prod(shape_of(value)))])
            return self._numbers[value]
        self._own.add(value)
        return (value,)

    def flat(self, values: Iterable[Value]) -> list[Value]:
        """The values, with each small tensor replaced by its elements."""
        flat: list[Value] = []
        for value in values:
            if is_small(value.type):
                flat += self.numbers(value)
            else:
                self.array(value)
                flat.append(value)
        return flat
