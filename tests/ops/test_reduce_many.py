"""reduce on many elements: in their order, as on few."""

import functools
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .. import oracle
from ..run_op import codes, from_codes
from ..thinned import TYPICAL, thinned
from .test_reduce import MINIFLOATS, reduce


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def walked(x: np.ndarray, init: int, step: Callable[[int, int], int]) -> list[int]:
    """Each column of codes folded by a step on codes, which is asked once for each pair."""
    step = functools.cache(step)
    return [functools.reduce(step, column, init) for column in x.T.tolist()]


@pytest.mark.parametrize(
    ("along", "t", "op"),
    thinned(
        itertools.product((0, 1), MINIFLOATS, ("maximum", "minimum", "add")),
        lambda along, t, op: t.name in TYPICAL and (along == 0 or op == "add"),
    ),
    ids=str,
)
def test_many_minifloats(along: int, t: ElementType, op: str) -> None:
    """With NaN of every code; the host's own arithmetic on pairs says nothing of the way there."""
    shape, rng = ((300, 230), (30, 2300))[along], np.random.default_rng(3)
    x = rng.integers(0, 1 << t.bits, shape, np.uint8)
    x[:, :7] = np.arange(7)  # columns without NaN
    x = x if along == 0 else np.ascontiguousarray(x.T)
    fmt = oracle.FORMATS[t.name]

    def step(a: int, b: int) -> int:
        values = oracle.decode(fmt, a), oracle.decode(fmt, b)
        return oracle.encode(fmt, oracle.BINARY[op](*values))

    actual = reduce(x.view(t.dtype), from_codes(3, t), op, (along,), t.name)
    wanted = walked(x if along == 0 else x.T, 3, step)
    assert all(oracle.same(fmt, a, b) for a, b in zip(codes(actual).tolist(), wanted, strict=True))


@pytest.mark.parametrize("t", thinned(MINIFLOATS, lambda t: t.name in TYPICAL), ids=str)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_the_first_of_several_nan(op: str, t: ElementType) -> None:
    x = np.random.default_rng(4).integers(0, 1 << t.bits, (120, 41), np.uint8)
    few = [reduce(x[:, [i]].view(t.dtype), from_codes(1, t), op, (0,), t.name).tobytes() for i in range(41)]
    assert reduce(x.view(t.dtype), from_codes(1, t), op, (0,), t.name).tobytes() == b"".join(few)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 9, 16, 17, 63, 128, 129, 257, 300, 2100])
@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "f16"])
def test_wide_sums_are_taken_in_order(t: str, along: int, width: int) -> None:
    dtype = ELEMENT_TYPES[t].dtype
    x = np.random.default_rng(width).standard_normal((311, width)).astype(dtype)
    wanted = np.full(width, 0.5, dtype)
    for row in x:
        wanted = (wanted + row).astype(dtype)
    x = x if along == 0 else np.ascontiguousarray(x.T)
    assert reduce(x, 0.5, "add", (along,), t).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("op", "of_zeros"), [("maximum", 0.0), ("minimum", -0.0)])
def test_wide_extremes_tell_zeros_and_nan_apart(op: str, of_zeros: float) -> None:
    nan, other = np.array([0x7FC00001, 0xFFC00002], np.uint32).view(np.float32)
    x = np.full((40, 300), -0.0, np.float32)
    x[::2] = 0.0
    x[7, 0], x[9, 0], x[5, 1] = nan, other, other
    actual = reduce(x, -0.0 if op == "maximum" else 0.0, op, (0,), "f32")
    assert actual[:2].view(np.uint32).tolist() == [0x7FC00001, 0xFFC00002]
    assert np.signbit(actual[2:]).all() == np.signbit(of_zeros)
    assert not actual[2:].any()
