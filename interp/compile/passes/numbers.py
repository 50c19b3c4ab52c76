"""The pass that scalarizes loops: loops over tensors of a few elements become loops over single numbers.

In the body of such a loop every tensor of a few elements is replaced by its elements, and every operation on it by
operations on these. An operation that only moves elements then costs nothing. Python computes with a number in a tenth
of the time of a call of numpy, and a loop of numbers alone is compiled (`compiled_loops/`). Operations without an
expression of single numbers, such as products of matrices, take and return arrays as before. A loop is rewritten if
the estimates in `tuning` say that it gets faster. Sums are formed in the order that `reduce` promises.

Measured with numpy alone, ms, as arrays and as numbers: 200 steps of the Lorenz system 1.9 and 0.2; 200 turns of
Metropolis' algorithm with two draws each 8.1 and 3.4.
"""

from __future__ import annotations

from typing import Any

from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ...program import Operation, Region, Value
from ..executors.recurrence import running_fold
from ..group import RECURRENCE
from ..numbers.parts import Part
from ..numbers.work import Unfit, Work
from .find_scans import scan_of
from .loops import KernelOf
from .rewriting import with_operations, with_regions


def single_numbers(
    region: Region, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, compiles: bool
) -> Region:
    """Scalarize the loops of a region, which is valid and has its constants known.

    The pass introduces three operations: `UNPACK` gives the elements of an array, `PACK` makes an array of elements,
    and `NUMBER` computes a number by an expression. In a recurrence that is rewritten the attribute `numbers` has the
    number of elements of each state, row and result, 0 where it remains an array. The new operations are not bound
    yet. `constants` is extended by the constants that they need.
    """
    return _Numbers(Work(constants, policy, kernel_of, compiles)).region(region)[0]


class _Numbers:
    def __init__(self, work: Work) -> None:
        self._work = work

    def region(self, region: Region) -> tuple[Region, int]:
        """The region with its loops rewritten where that pays, inner loops first; and how deep its regions are nested.

        An enclosing loop is looked at with all that is in it, so loops of deeper nests stay as they are: else planning
        would take the square of the depth.
        """
        operations: list[Operation] = []
        deepest = 0
        for operation in region.operations:
            inner = [self.region(r) for r in operation.regions]
            depth = max([d + 1 for _, d in inner], default=0)
            operation = with_regions(operation, [r for r, _ in inner])
            instead = self._instead(operation) if 0 < depth <= tuning().number_depth else None
            operations += instead or [operation]
            deepest = max(deepest, depth)
        return with_operations(region, operations), deepest

    def _instead(self, operation: Operation) -> list[Operation] | None:
        """The operations that replace a loop; None where it stays."""
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
