"""Folds whose initial value is no identity: the specification leaves open how often it is taken.

The schedule of a `reduce` has the elements "interspersed with an implementation-defined amount of init_values".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.types import TensorType
from ...program import Operation
from ..grades import OPEN, WRONG, GradedResult, Note
from ..wide import sole_op_name
from .exact_sums import ExactSums, between

_FOLDS = ("stablehlo.reduce", "stablehlo.reduce_window")
_ADD, _MULTIPLY = "stablehlo.add", "stablehlo.multiply"
#: More initial values than these are not tried.
_MOST = 64
NOTE = Note("initial-values", "how often the initial value is taken, which the specification leaves open")


def are_open(operation: Operation) -> bool:
    """Whether an op adds or multiplies from an initial value, which may be taken another number of times."""
    return (
        operation.name in _FOLDS
        and len(operation.results) == 1
        and sole_op_name(operation.regions[0]) in (_ADD, _MULTIPLY)
    )


def permit(
    operation: Operation, operands: Sequence[np.ndarray], theirs: np.ndarray, ours: np.ndarray, graded: GradedResult
) -> None:
    """Grades the elements that are folds with another number of initial values as OPEN; ours take one."""
    t = operation.operands[0].type
    init = operands[-1].reshape(-1)[:1]
    is_sum = sole_op_name(operation.regions[0]) == _ADD
    if not isinstance(t, TensorType) or not init.size or not (t.element.is_integer or t.element.is_float):
        return
    first = float(init[0])
    if not np.isfinite(first) or first == (0 if is_sum else 1):
        return
    most = min(max(operands[0].size // max(ours.size, 1), 1) + 1, _MOST)
    # Without an inverse no initial value can be taken away.
    for count in [*([-1] if is_sum else []), *range(1, most + 1)]:
        if not (graded.grades == WRONG).any():
            return
        if t.element.is_integer:
            again = ours.copy()
            for _ in range(abs(count)):
                again = again * init if not is_sum else again + init if count > 0 else again - init
            graded.set(theirs == again.astype(theirs.dtype), OPEN, NOTE)
        elif (sums := ExactSums.of(operation, operands)) is not None and sums.exact.shape == theirs.shape:
            with np.errstate(all="ignore"):
                exact = sums.exact + count * first if is_sum else sums.exact * first**count
                sizes = sums.sizes + abs(count * first) if is_sum else np.abs(exact)
            sums.exact, sums.sizes = exact, sizes
            bits = 52 if t.element.bits == 64 else 24
            graded.set(between(theirs, exact, sums.slack(bits)), OPEN, NOTE)
