"""The pass that writes loops over a few elements as loops over single numbers.

The rule. In the turn of a loop every tensor of a few elements becomes as many single numbers, and every operation on
it as many operations on these. What only moves elements costs nothing then, and Python computes with a number in a
tenth of the time of a call of numpy; loops of numbers alone are compiled (`compiled_loops.py`). Operations that have no
expression for single numbers, such as products of matrices, take and give arrays as before. A loop becomes one of
numbers if that is less work by the estimates in `tuning.py`. Sums are in the order in which `reduce` promises them.

Measured with numpy alone, ms, as arrays and as numbers: 200 steps of the Lorenz system 1.9 and 0.2; 200 turns of
Metropolis' algorithm with two draws each 8.1 and 3.4.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ....ops.policy import Policy
from ...program import Operation, Region, Value
from ..executors.recurrence import running_fold
from ..group import RECURRENCE
from .find_scans import scan_of
from .loops import KernelOf
from .number_parts import Part
from .number_work import Unfit, Work


def single_numbers(
    region: Region, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, compiles: bool
) -> Region:
    """A region, valid and with its constants known, in which loops over a few elements compute with single numbers.

    The operations that it puts in: `UNPACK` gives the elements of an array, `PACK` an array of elements, and `NUMBER`,
    with an expression, a number. A recurrence with an attribute `numbers` has a turn of numbers: so many for each
    state, row and result, 0 where that is as it is. The new
    operations are not bound yet; `constants` gets those that they need.
    """
    return _Numbers(Work(constants, policy, kernel_of, compiles)).region(region)


class _Numbers:
    def __init__(self, work: Work) -> None:
        self._work = work

    def region(self, region: Region) -> Region:
        """A region whose loops have been made loops of numbers where that pays, inner ones first."""
        operations: list[Operation] = []
        for operation in region.operations:
            regions = tuple([self.region(r) for r in operation.regions])
            if any(new is not old for new, old in zip(regions, operation.regions, strict=True)):
                operation = dataclasses.replace(operation, regions=regions, origin=operation.origin or operation)
            operations += self._instead(operation) or [operation]
        same = len(operations) == len(region.operations) and all(map(_is, operations, region.operations))
        return region if same else Region(region.arguments, operations, region.returns)

    def _instead(self, operation: Operation) -> list[Operation] | None:
        """What stands for a loop; None where it stays."""
        if operation.name == RECURRENCE:
            if running_fold(operation.regions[0], self._work.policy) is not None:
                return None
        elif operation.name != "stablehlo.while" or scan_of(operation, self._work.constants) is not None:
            return None
        self._work.begin(operation)
        outer = Part(self._work, None)
        try:
            if operation.name == RECURRENCE:
                outer.recurrence(operation)
            else:
                outer.control(operation)
        except Unfit:
            return None
        return outer.operations if self._work.pays() else None


def _is(x: object, y: object) -> bool:
    return x is y
