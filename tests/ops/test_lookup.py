"""Lookups of joined codes give what the table has for each pair, however the parts lie."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo.ops.cast import code_table
from minihlo.ops.engine import amortised, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune

EVERY = np.arange(256, dtype=np.uint8)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("few", [0, 1 << 20])
def test_pairs_of_codes(few: int, dtype: type, tune: Tune) -> None:
    tune(lookup_few=few)
    rng = np.random.default_rng(0)
    entries = rng.integers(0, 256, 1 << 16).astype(dtype)
    table = lookup.Table(entries)
    codes = rng.integers(0, 256, (2, 7, 256), np.uint8)
    pairs = [
        (codes, codes[::-1]),
        (codes, codes[0]),
        (codes, codes[..., :1]),
        (EVERY, codes[..., :1]),
        (codes[..., :1], EVERY),
        (EVERY[::-1], codes[..., :1]),
        (EVERY[None, None], codes[0, :, :1]),
        (EVERY, np.broadcast_to(codes[..., :1], codes.shape)),
        (np.broadcast_to(EVERY, codes.shape), codes[..., :1]),
        (EVERY, EVERY[3:4]),
        (EVERY[7:8].reshape(()), EVERY[3:4].reshape(())),
    ]
    for high, low in pairs:
        wanted = entries[high.astype(int) * 256 + low]
        actual = table.at_joined((high, low), (8, 8))
        assert isinstance(actual, np.ndarray)  # of rank 0 too
        assert (actual.shape, actual.dtype) == (wanted.shape, wanted.dtype)
        assert (actual == wanted).all()
    narrow = lookup.Table(entries[: 1 << 12])
    assert (
        narrow.at_joined((EVERY[:16], codes[..., :1]), (4, 8)) == entries[EVERY[:16].astype(int) * 256 + codes[..., :1]]
    ).all()


@pytest.mark.parametrize("few", [0, 1 << 20])
def test_an_array_of_rank_0(few: int, tune: Tune) -> None:
    tune(lookup_few=few)
    table = lookup.Table(EVERY[::-1].copy())
    actual = table.at(np.array(3, np.uint8))
    assert isinstance(actual, np.ndarray)
    assert (actual.shape, int(actual)) == ((), 252)


def test_tables_of_casts_do_not_depend_on_the_seed_or_on_sums() -> None:
    """So that runs with many seeds do not each keep tables of their own."""
    source, target = ELEMENT_TYPES["f16"], ELEMENT_TYPES["f8E4M3FN"]
    table = code_table(source, target, Policy())
    assert all(code_table(source, target, Policy(seed=n)) is table for n in range(1, 5))
    assert code_table(source, target, Policy(accumulate="f32")) is table
    assert code_table(source, target, Policy(rounding="up")).tobytes() != table.tobytes()


def test_tables_of_casts_count_in_the_cache_and_are_made_again() -> None:
    source, target = ELEMENT_TYPES["bf16"], ELEMENT_TYPES["f8E5M2"]
    first = code_table(source, target, Policy())
    amortised.SHARED.clear()
    again = code_table(source, target, Policy())
    assert again is not first
    assert again.tobytes() == first.tobytes()
