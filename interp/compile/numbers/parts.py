"""Rewrites the operations of a region on arrays of a few elements as operations on single numbers."""

from __future__ import annotations

import dataclasses

from ....ops.op import lookup
from ....ops.traits import RegionSemantics
from ...program import BARRIER, Operation, Region
from ..group import PACK, UNPACK
from ..uses import captures
from . import steps
from .values import Numbers
from .work import Unfit, Work, count_of, is_small


class Part:
    """Rewrites one region.

    `outer` is the `Part` of the enclosing region; None for the region that contains the loop.
    """

    def __init__(self, work: Work, outer: Part | None) -> None:
        self._work, self._is_outermost = work, outer is None
        self._numbers = Numbers(work, None if outer is None else outer._numbers)

    @property
    def operations(self) -> list[Operation]:
        """The operations of the new region."""
        return self._numbers.operations

    def take(self, operation: Operation) -> None:
        """Add the operations that replace an operation of the region."""
        numbers, record = self._numbers, lookup(operation.name)
        values = (*operation.operands, *operation.results)
        if operation.name in (UNPACK, PACK):
            return self._packing(operation)
        if operation.name == BARRIER and all(is_small(v.type) for v in values):
            for result, operand in zip(operation.results, operation.operands, strict=True):
                numbers.assign(result, numbers.of(operand))
            return None
        if record is not None and all(is_small(v.type) for v in values):
            if operation.results and operation.results[0] in self._work.constants and not operation.regions:
                numbers.operations.append(operation)
                return None
            if len(operation.results) == 1 and steps.elementwise(numbers, operation, record):
                return None
            if record.traits.moves and steps.moved(numbers, operation, record):
                return None
            if record.traits.starts is not None:
                return steps.window(numbers, operation, record.traits.starts)
            if operation.name == "stablehlo.reduce" and steps.reduced(numbers, operation):
                return None
            if operation.name == "stablehlo.scatter" and steps.scattered(numbers, operation):
                return None
            if record.traits.terms is not None and steps.multiplied(numbers, operation):
                return None
        if record is not None and record.traits.regions in (RegionSemantics.LOOP, RegionSemantics.ONE):
            return self.control(operation)
        return self._whole(operation)

    def _whole(self, operation: Operation) -> None:
        """Add an operation unchanged; its operands become arrays."""
        numbers = self._numbers
        captured = [v for r in operation.regions for v in captures(r, self._work.captured)]
        for value in dict.fromkeys((*operation.operands, *captured)):
            numbers.array(value)
        numbers.operations.append(operation)
        numbers.keep(operation.results)

    def _packing(self, operation: Operation) -> None:
        """Rewrite an `UNPACK` or `PACK` that an inner loop has introduced."""
        numbers = self._numbers
        if operation.name == PACK and is_small(operation.results[0].type):
            numbers.assign(operation.results[0], tuple([numbers.of(v)[0] for v in operation.operands]))
            return None
        (operand,) = operation.operands[:1]
        if operation.name == UNPACK and is_small(operand.type):
            for result, number in zip(operation.results, numbers.of(operand), strict=True):
                numbers.assign(result, (number,))
            return None
        return self._whole(operation)

    # -- loops and branches --------------------------------------------------------------------------------------------

    def control(self, operation: Operation) -> None:
        """Rewrite a loop or branch to carry and return numbers. Raises Unfit where types differ within it."""
        numbers, types = self._numbers, [v.type for v in operation.results]
        for region in operation.regions:
            taken, given = ([v.type for v in values] for values in (region.arguments, region.returns))
            is_condition = bool(taken) and region is operation.regions[0]
            if (taken and taken != types) or (given != types and not is_condition):
                raise Unfit  # a size that is known here and not there
        operands = numbers.flat(operation.operands)
        regions = tuple([self._inner(r) for r in operation.regions])
        results = [numbers.named(v) for v in operation.results]
        flat = tuple([v for some in results for v in some])
        numbers.operations.append(
            Operation(operation.name, tuple(operands), flat, operation.attributes, regions, operation.location)
        )
        numbers.keep(flat)
        if self._is_outermost:
            for value in operation.results:
                numbers.array(value)

    def recurrence(self, operation: Operation) -> None:
        """Rewrite the iteration of a recurrence as one of numbers."""
        (turn, *chunked), origin = operation.regions, operation.origin or operation
        width = operation.attributes["states"]
        taken = tuple([count_of(v) for v in (*turn.arguments, *turn.returns[width:])])
        attributes = {**operation.attributes, "numbers": taken}
        regions = (self._inner(turn), *chunked)
        operation = dataclasses.replace(operation, regions=regions, attributes=attributes, origin=origin)
        self._numbers.operations.append(operation)

    def _inner(self, region: Region) -> Region:
        """A region of numbers: a small argument or result becomes as many numbers as it has elements."""
        part = Part(self._work, self)
        numbers = part._numbers
        taken = [v for value in region.arguments for v in numbers.named(value)]
        for operation in region.operations:
            part.take(operation)
        returns = numbers.flat(region.returns)
        return Region(tuple(taken), numbers.live(returns), tuple(returns))
