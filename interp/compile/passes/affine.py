"""The pass that finds recurrences of one integer that are affine in it, whose turns can be composed in any order.

The rule. A turn is affine over a ring if the new state is a linear map of the old one and something that does not
depend on it: checksums and generators that shift and combine bits, sums of products with wrapping integers, with
bitwise operations among them, and remainders of such sums by a constant. See `affine_turns.py` for the rings and
`executors/composition.py` for what becomes of it. Compiled code makes turns one after the other more quickly, once
it is there; until then they are composed too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..affine_turns import Affine, step_of
from ..bit_windows import are_few, windows
from ..executors.recurrence import running_fold
from ..group import RECURRENCE
from ..vectorise import function_of
from .rewriting import with_operations, with_regions


def affine_recurrences(region: Region, constants: Mapping[Value, Any], policy: Policy) -> Region:
    """A region whose affine recurrences have the attribute `affine`; the same object where there are none."""
    operations: list[Operation] = []
    for operation in region.operations:
        operation = with_regions(operation, [affine_recurrences(r, constants, policy) for r in operation.regions])
        affine = affine_turns_of(operation, constants, policy) if operation.name == RECURRENCE else None
        if affine is not None:
            attributes = {**operation.attributes, "affine": affine}
            operation = dataclasses.replace(operation, attributes=attributes, regions=operation.regions[:1])
        operations.append(operation)
    return with_operations(region, operations)


def affine_turns_of(operation: Operation, constants: Mapping[Value, Any], policy: Policy) -> Affine | None:
    """What is known of a recurrence that is affine and long enough; else None."""
    turn, count = operation.regions[0], operation.attributes["count"]
    if operation.attributes["states"] != 1 or "numbers" in operation.attributes:
        return None
    t = turn.arguments[0].type
    if not isinstance(t, TensorType) or t.shape != () or not t.element.is_integer or t.element.bits < 8:
        return None
    if count * (1 + len(turn.operations)) < tuning().composed_ops or running_fold(turn, policy) is not None:
        return None
    found, made = step_of(turn, constants), function_of(turn, constants)
    if found is None or made is None:
        return None
    has_rows = any(p.row is not None for p in found.patterns)  # whose numbers are known when it runs
    if not has_rows and not are_few(windows(found.patterns, t.element.bits), found.varies):
        return None
    state = turn.arguments[0], turn.returns[0]
    kept = tuple([state.index(v) if v in state else None for v in turn.returns[1:]])
    return Affine(found, t.element.bits, made[0], kept, constants)
