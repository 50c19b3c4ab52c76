"""Random loops give the same bits with every optimization as without, that is, with one call for each operation."""

from __future__ import annotations

import jax
import pytest

from minihlo import interp
from minihlo.ops.engine.speed import NAMES

from ..thinned import thinned
from .random_loops import KINDS, random_loop
from .test_recurrences import codes


def check(seed: int) -> None:
    loop = random_loop(seed)
    lowered = jax.jit(loop.function, keep_unused=True).lower(loop.states, loop.rows)
    arguments = jax.tree.leaves((loop.states, loop.rows))
    texts = lowered.as_text()
    expected, found = (interp.load(texts, without=w)(*arguments) for w in (",".join(NAMES), ""))
    for i, (x, y) in enumerate(zip(*map(_listed, (expected, found)), strict=True)):
        assert x.dtype == y.dtype, f"seed {seed}, {loop.kind}, result {i}"
        assert codes(x) == codes(y), f"seed {seed}, {loop.kind}, result {i}"


def _listed(results: object) -> list:
    return list(results) if isinstance(results, tuple | list) else [results]


@pytest.mark.parametrize("start", thinned(range(0, 60, 6), lambda start: start < 36))
def test_random_loops_give_the_bits_of_single_operations(start: int) -> None:
    for seed in range(start, start + 6):
        check(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(1000, 1800, 100))
def test_many_random_loops_give_the_bits_of_single_operations(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)


def test_there_are_loops_of_every_kind() -> None:
    assert {random_loop(seed).kind for seed in range(60)} == set(KINDS)
