"""The elements of the values of a region as single numbers, and the operations that compute them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.types import TensorType, Type
from ...program import Operation, Value
from ..group import NUMBER, PACK, UNPACK, Attributes
from ..passes.fusible import element_of, shape_of
from ..uses import captures
from .work import Work, is_small


class Numbers:
    """The numbers of one region, and its new operations; `outer` has those of the enclosing region, if there is one."""

    def __init__(self, work: Work, outer: Numbers | None) -> None:
        self.work, self.outer = work, outer
        self.operations: list[Operation] = []
        self._numbers: dict[Value, tuple[Value, ...]] = {}  # values of which each element is a number
        self._arrays: set[Value] = set()  # those of them that exist as arrays too
        self._sources: dict[tuple[Value, ...], Value] = {}  # the arrays of which numbers are all elements, in order
        self._made: dict[Any, Value] = {}  # the results of operations on numbers, so that each is computed once
        self._own: set[Value] = set()  # values of the region that were not rewritten
        self._free: set[int] = set()  # the ids of operations that may be removed if unused

    def of(self, value: Value) -> tuple[Value, ...]:
        """The elements of a value of a few elements, as numbers."""
        part: Numbers = self
        while value not in part._numbers and value not in part._own and part.outer is not None:
            part = part.outer
        if value not in part._numbers:
            part._numbers[value] = part._elements(value)
        return part._numbers[value]

    def _elements(self, value: Value) -> tuple[Value, ...]:
        """Take apart an array that was not rewritten: of this region, or from outside the loop."""
        shape, constants = shape_of(value), self.work.constants
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
            self._sources[elements] = value
        self._arrays.add(value)
        return elements

    def array(self, value: Value) -> None:
        """Make a value available as an array, by packing its numbers if necessary."""
        part: Numbers | None = self
        while part is not None:
            if value in part._arrays or value in part._own:
                return
            numbers = part._numbers.get(value)
            if numbers == (value,):
                return
            if numbers is not None:
                self._arrays.add(value)
                source = self._sources.get(numbers)
                if source is None:
                    self._put(PACK, numbers, (value,), {"type": value.type})
                else:  # it has been taken apart only to be put together again
                    location = self.work.source.location
                    self._append(Operation("stablehlo.reshape", (source,), (value,), {}, (), location))
                return
            part = part.outer

    def assign(self, value: Value, elements: tuple[Value, ...]) -> None:
        """Say which numbers are the elements of a value."""
        self._numbers[value] = elements

    def keep(self, values: Iterable[Value]) -> None:
        """Say that values of the region are as they were."""
        self._own.update(values)

    def named(self, value: Value) -> tuple[Value, ...]:
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
                flat += self.of(value)
            else:
                self.array(value)
                flat.append(value)
        return flat

    # -- operations ----------------------------------------------------------------------------------------------------

    def number(self, like: Operation, operands: tuple[Value, ...], element: Any) -> Value:
        """The result of an operation on single numbers; the same value if it has been computed before."""
        key = like.name, element, Attributes(like.attributes), operands  # only its result has a conversion's type
        if key not in self._made:
            result = self._made[key] = Value(TensorType((), element))
            known = self.work.folded(like, operands, element)
            if known is not None:
                self.work.constants[result] = known
                return result
            self._append(Operation(like.name, operands, (result,), like.attributes, (), like.location))
        return self._made[key]

    def expression(self, text: str, operands: Sequence[Value], t: Type) -> Value:
        """A number computed by an expression, in which `{0}` and so on stand for the operands."""
        result = Value(t)
        self._put(NUMBER, operands, (result,), {"text": text})
        return result

    def _put(
        self, name: str, operands: Iterable[Value], results: tuple[Value, ...], attributes: dict[str, Any]
    ) -> None:
        """Add an operation that this pass introduces: `UNPACK`, `PACK` or `NUMBER`."""
        source = self.work.source
        self._append(Operation(name, tuple(operands), results, attributes, (), source.location, source))
        if name != NUMBER and self.outer is not None:
            self.work.spend(tuning().pack_cost, is_number=False)

    def _append(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._free.add(id(operation))
        self.work.count()

    def spend(self, count: float, t: Type | None = None, is_near: bool = False) -> None:
        """Add the cost of `count` operations on numbers of a type."""
        now, is_whole = tuning(), isinstance(t, TensorType) and t.element.is_integer and t.element.bits > 1
        cost = now.number_function_cost if is_near else now.number_integer_cost if is_whole else now.number_cost
        self.work.spend(cost * count, not is_near)

    def live(self, returns: Iterable[Value]) -> list[Operation]:
        """The operations without those on numbers whose results are not used."""
        needed, kept = set(returns), list[Operation]()
        for operation in reversed(self.operations):
            if id(operation) not in self._free or not needed.isdisjoint(operation.results):
                needed.update(operation.operands, *(captures(r, self.work.captured) for r in operation.regions))
                kept.append(operation)
        return kept[::-1]
