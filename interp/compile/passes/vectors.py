"""The pass that finds recurrences over small vectors that can be compiled as a whole (`vectors/build.py`).

The attribute `vectors` says what their turns do, and what they share with the outside become operands behind the rows.
Such a recurrence stays one in all other ways: until it is compiled, and where code has to stop, it runs as it does
without.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ....ops.policy import Policy
from ...program import Operation, Region, Value
from ..executors.recurrence import running_fold
from ..group import RECURRENCE
from ..vectors.build import vectors_of
from .affine import affine_turns_of
from .loops import KernelOf
from .rewriting import with_operations, with_regions


def small_vectors(region: Region, constants: Mapping[Value, Any], policy: Policy, kernel_of: KernelOf) -> Region:
    """A region whose recurrences over small vectors have the attribute `vectors`; the same where there are none."""
    operations: list[Operation] = []
    for operation in region.operations:
        operation = with_regions(operation, [small_vectors(r, constants, policy, kernel_of) for r in operation.regions])
        if operation.name == RECURRENCE:
            operation = _marked(operation, constants, policy, kernel_of)
        operations.append(operation)
    return with_operations(region, operations)


def _marked(operation: Operation, constants: Mapping[Value, Any], policy: Policy, kernel_of: KernelOf) -> Operation:
    turn = operation.regions[0]
    if running_fold(turn, policy) is not None or affine_turns_of(operation, constants, policy) is not None:
        return operation
    found = vectors_of(turn, operation.attributes["states"], constants, policy, kernel_of)
    if found is None:
        return operation
    attributes = {**operation.attributes, "vectors": found}
    return dataclasses.replace(operation, operands=(*operation.operands, *found.shared), attributes=attributes)
