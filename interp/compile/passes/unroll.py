"""The pass that unrolls short loops with a small constant number of iterations.

A loop is unrolled if its iterations depend on each other and its body is short. What depends only on the number of the
iteration is then a constant, and the rest is fused across iterations. Loops whose iterations run side by side
(`turns.py`), scans over codes, and loops with sums of products, over which nothing is fused, are left as they are.

JAX lowers random bits for CPUs to such a loop: 5 turns of 50 operations, which mostly prepare what the next one does.
Measured against the loop: 200 random numbers 55 µs and 124 µs, 20,000 0.31 ms and 0.38, 10**6 of
`jax.random.uniform` 14 ms and 32; planning takes 14 ms more.
"""

from __future__ import annotations

from typing import Any

from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ...program import BARRIER, CONSTANT, Operation, Region, Value
from .find_scans import scan_of
from .loops import KernelOf, Loop, has_products
from .rewriting import Values, deep_copy_of, size_of, with_operations, with_regions


def unroll(region: Region, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf) -> Region:
    """A region, valid and with its constants known, in which short loops are written out; itself where there are none.

    The copies of operations are not bound yet.
    """
    return _Unroller(constants, policy, kernel_of).region(region)


class _Unroller:
    def __init__(self, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf) -> None:
        self._constants, self._policy, self._kernel_of = constants, policy, kernel_of
        self._room = tuning().unroll_total

    def region(self, region: Region) -> Region:
        operations: list[Operation] = []
        for operation in region.operations:
            operation = with_regions(operation, map(self.region, operation.regions))
            count = self._turns(operation)
            operations += self._written_out(operation, count) if count else [operation]
        return with_operations(region, operations)

    def _turns(self, operation: Operation) -> int:
        """The number of turns of a loop that is to be written out, 0 of any other operation."""
        if operation.name != "stablehlo.while":
            return 0
        turn = operation.regions[1]
        size = size_of(turn)
        if size is None or 2 * size > min(tuning().unroll_ops, self._room):
            return 0
        loop = Loop(operation, self._constants, self._policy, self._kernel_of)
        if not loop.read() or not loop.states or loop.count > tuning().unroll_turns:
            return 0
        if loop.count >= tuning().recurrence_products and has_products(turn, tuning().number_elements):
            return 0
        grown = loop.count * size
        if grown > min(tuning().unroll_ops, self._room) or scan_of(operation, self._constants) is not None:
            return 0
        self._room -= grown
        return loop.count

    def _written_out(self, loop: Operation, count: int) -> list[Operation]:
        operations: list[Operation] = []
        turn, carried = loop.regions[1], loop.operands
        made = {r for o in turn.operations if o.name != CONSTANT for r in o.results}
        handed_on = list(zip(turn.returns, loop.results, strict=True))
        for index in range(count):
            values: Values = dict(zip(turn.arguments, carried, strict=True))
            if index == count - 1:  # what the last turn makes has the names of the loop's results
                for returned, result in tuple(handed_on):
                    if returned in made and returned not in values:
                        values[returned] = result
                        handed_on.remove((returned, result))
            for operation in turn.operations:
                if operation.name == BARRIER and len(operation.results) == 1 and operation.results[0] not in values:
                    (operand,) = operation.operands
                    values[operation.results[0]] = values.get(operand, operand)
                else:
                    operations.append(deep_copy_of(operation, values))
            carried = tuple(values.get(v, v) for v in turn.returns)
        for returned, result in handed_on:
            source = (carried[turn.returns.index(returned)],)
            operations.append(Operation(BARRIER, source, (result,), {}, (), loop.location))
        return operations
