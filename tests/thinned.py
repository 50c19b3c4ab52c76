"""Which cases of a test are in every run; the others are exhaustive tests."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

#: Minifloats that stand for the others: with infinities, with one NaN of each kind, without a zero, and without NaN.
TYPICAL = ("f8E5M2", "f8E4M3FN", "f8E4M3FNUZ", "f8E8M0FNU", "f4E2M1FN")


def thinned(cases: Iterable[Any], is_kept: Callable[..., bool]) -> list[Any]:
    """All cases as parameters, of which those that are not kept are exhaustive tests. A tuple is several parameters."""
    parameters = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        marks = [] if is_kept(*values) else [pytest.mark.exhaustive]
        parameters.append(pytest.param(*values, marks=marks))
    return parameters
