"""The pass that eliminates common subexpressions.

The rule: an operation that depends on its operands alone is left out where an earlier one has the same name,
attributes, bodies, operands and result types; constants are the same where their bits are. An `optimization_barrier`
gives new values, and bodies of reductions and the like stay as they are written.
"""

from __future__ import annotations

import dataclasses
from collections import ChainMap
from collections.abc import Hashable

import numpy as np

from ...ops.op import lookup
from ...ops.traits import RegionSemantics
from ..program import BARRIER, CONSTANT, Operation, Region, Value
from .keys import key_of_attributes, key_of_region
from .rewriting import is_same, substitute_operands, with_operations

#: The most bytes of constants that are compared with each other: a limit of time.
MOST_BYTES = 1 << 10


def eliminate_common_subexpressions(region: Region) -> Region:
    """Return a region in which nothing is computed twice; the same object where nothing was."""
    return _Eliminator({}, {}, ChainMap()).region(region)


class _Eliminator:
    """The state of one region; results of the regions around it hold in it too."""

    def __init__(
        self, twins: dict[Value, Value], constants: dict[Value, Hashable], seen: ChainMap[Hashable, tuple[Value, ...]]
    ) -> None:
        self._twins = twins  # the values that are left out, and those that stand for them
        self._constants, self._seen = constants, seen

    def region(self, region: Region) -> Region:
        operations = [new for operation in region.operations if (new := self._operation(operation)) is not None]
        returns = tuple([self._twins.get(v, v) for v in region.returns])
        if is_same(returns, region.returns):
            return with_operations(region, operations)
        return Region(region.arguments, operations, returns)

    def _operation(self, operation: Operation) -> Operation | None:
        if operation.name == CONSTANT:
            value = operation.attributes.get("value")
            if isinstance(value, np.ndarray) and value.nbytes <= MOST_BYTES:
                (result,) = operation.results
                self._constants[result] = result.type, value.tobytes()
            return operation
        record = lookup(operation.name)
        if record is not None and record.traits.regions is not RegionSemantics.ELEMENTS:
            inner = (_Eliminator(self._twins, self._constants, self._seen.new_child()) for _ in operation.regions)
            regions = tuple([e.region(r) for e, r in zip(inner, operation.regions, strict=True)])
            if not is_same(regions, operation.regions):
                origin = operation.origin or operation
                operation = dataclasses.replace(operation, regions=regions, origin=origin)
            return substitute_operands(operation, self._twins)
        operation = substitute_operands(operation, self._twins)
        if record is None or not record.is_pure or record.traits.is_call or operation.name == BARRIER:
            return operation
        key = self._key(operation)
        if key is None or key not in self._seen:
            if key is not None:
                self._seen[key] = operation.results
            return operation
        self._twins.update(zip(operation.results, self._seen[key], strict=True))
        return None

    def _key(self, operation: Operation) -> Hashable | None:
        bodies = [key_of_region(r, self._key_of_value) for r in operation.regions]
        if not operation.results or any(body is None for body in bodies):
            return None
        operands = tuple(map(self._key_of_value, operation.operands))
        types = tuple([v.type for v in operation.results])
        return operation.name, key_of_attributes(operation.attributes), operands, types, tuple(bodies)

    def _key_of_value(self, value: Value) -> Hashable:
        """Return the value itself, or the bits of a small constant."""
        return self._constants.get(value, value)
