"""f64 is rounded once to minifloats, by the table of its upper bits as without it."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo.ops.engine import amortised, cast
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES

from .conftest import Tune

F64 = ELEMENT_TYPES["f64"]
POLICIES = [Policy(), Policy(rounding="toward_zero"), Policy(rounding="up", overflow="saturate")]


def numbers(target: str) -> np.ndarray:
    """All of f64's kinds, the format's own numbers and what lies between them, and the neighbours of these."""
    rng = np.random.default_rng(1)
    anything = rng.integers(0, 1 << 64, 3000, np.uint64).view(np.float64)
    element = ELEMENT_TYPES[target]
    own = np.arange(1 << element.bits).astype(np.uint8).view(element.dtype).astype(np.float64)
    own = np.sort(own[np.isfinite(own)])
    between = np.concatenate([own, (own[1:] + own[:-1]) / 2])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 1e300, 1e-300])
    near = [np.nextafter(between, way) for way in (-np.inf, np.inf)]
    return np.concatenate([anything, between, *near, special])


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("target", [t.name for t in ELEMENT_TYPES.values() if t.is_minifloat])
def test_f64_by_its_upper_bits(target: str, policy: Policy, tune: Tune) -> None:
    x, element = numbers(target), ELEMENT_TYPES[target]
    amortised.SHARED.clear()
    tune(cast_worth=1 << 40)
    wanted = cast.cast(x, F64, element, policy)
    tune(cast_worth=0)
    actual = cast.cast(x, F64, element, policy)
    differs = np.flatnonzero(actual.view(np.uint8) != wanted.view(np.uint8))
    assert not len(differs), x[differs[:3]]
