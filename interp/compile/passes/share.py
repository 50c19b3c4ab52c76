"""The pass that computes once what a function computes several times from the same values.

The rule. An operation that depends on its operands alone is left out where an earlier one of its region has the same
name, attributes and operands; constants are the same where their bits are. Programs rely on it: an optimizer that is
mapped over its parameters computes its bias correction for each of them. What stands behind an `optimization_barrier`
is never the same as what stands before it, and bodies of reductions and the like stay as they are written.

Measured: an update of 200 parameters by Adam, with `1 - b ** t` for each, 16.8 ms and 12.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.kernel import Regions
from ....ops.registry import lookup
from ...program import CONSTANT, Operation, Region, Value
from ..group import Attributes

_BARRIER = "stablehlo.optimization_barrier"


def share(region: Region, constants: dict[Value, Any]) -> Region:
    """A region with its constants known, in which nothing is computed twice; the same one where nothing was."""
    return _Sharer(constants).region(region)


class _Sharer:
    def __init__(self, constants: dict[Value, Any]) -> None:
        self._constants = constants
        self._same: dict[Value, Value] = {}  # what is left out, and the results that stand for it
        self._keys: dict[Value, Hashable] = {}

    def region(self, region: Region) -> Region:
        made: dict[Hashable, Operation] = {}
        operations: list[Operation] = []
        for operation in region.operations:
            operands = tuple([self._same.get(v, v) for v in operation.operands])
            regions = operation.regions
            record = lookup(operation.name)
            if regions and record is not None and record.facts.regions is not Regions.ELEMENTS:
                regions = tuple([self.region(r) for r in regions])
            elif record is not None and record.is_pure and operation.name not in (CONSTANT, _BARRIER) and not regions:
                types = tuple([v.type for v in operation.results])
                key = operation.name, Attributes(operation.attributes), tuple(map(self._key, operands)), types
                earlier = made.setdefault(key, operation)
                if earlier is not operation:
                    self._same.update(zip(operation.results, earlier.results, strict=True))
                    continue
            is_new = any(
                x is not y
                for x, y in zip((*operands, *regions), (*operation.operands, *operation.regions), strict=True)
            )
            if is_new:
                origin = operation.origin or operation
                operation = dataclasses.replace(operation, operands=operands, regions=regions, origin=origin)
            operations.append(operation)
        returns = tuple([self._same.get(v, v) for v in region.returns])
        is_same = len(operations) == len(region.operations) and all(
            x is y for x, y in zip(operations, region.operations, strict=True)
        )
        return region if is_same and returns == region.returns else Region(region.arguments, operations, returns)

    def _key(self, value: Value) -> Hashable:
        """The value, or the bits of a small constant."""
        if value not in self._constants:
            return value
        if value not in self._keys:
            array = self._constants[value]
            is_small = isinstance(array, np.ndarray | np.generic) and array.nbytes <= tuning().share_bytes
            self._keys[value] = (value.type, array.tobytes()) if is_small else value
        return self._keys[value]
