"""Which cases of a test are in every run; the others are exhaustive tests."""

import itertools
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


def rotated(*axes: Iterable[Any], every: int | None = None) -> list[Any]:
    """All combinations of the values of axes, of which one in `every`, twice the shortest length, is in every run."""
    lists = [list(enumerate(axis)) for axis in axes]
    every = every or 2 * min(map(len, lists))
    parameters = []
    for combination in itertools.product(*lists):
        marks = [pytest.mark.exhaustive] * (sum(i for i, _ in combination) % every > 0)
        parameters.append(pytest.param(*(value for _, value in combination), marks=marks))
    return parameters
