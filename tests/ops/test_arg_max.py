"""Reductions of several operands, argmax and its like: each gives what its body gives step by step."""

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo import interp

from ..thinned import thinned

RNG = np.random.default_rng(11)
BF16, F8 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
Tuple = tuple[Any, ...]


def first_largest(p: Tuple, q: Tuple) -> Tuple:
    """As `jnp.argmax` has it: NaN before all numbers, the smaller index of equal ones."""
    keep = (p[0] > q[0]) | (p[0] != p[0])
    return keep, keep | ((p[0] == q[0]) & (p[1] < q[1]))


def last_smallest(p: Tuple, q: Tuple) -> Tuple:
    """Of equal numbers the later one, whatever goes with it; NaN before all numbers."""
    return ((p[0] < q[0]) | (p[0] != p[0]),) * 2


def without_nan(p: Tuple, q: Tuple) -> Tuple:
    """The first of the largest; NaN only where there is nothing else."""
    return ((p[0] >= q[0]) | (q[0] != q[0]),) * 2


def by_the_second(p: Tuple, q: Tuple) -> Tuple:
    """The key is the second of three operands; of equal ones the larger third."""
    return ((p[1] > q[1]) | (p[1] != p[1]) | ((p[1] == q[1]) & (p[2] >= q[2])),) * 3


def body_of(keeps: Callable[[Tuple, Tuple], Tuple]) -> Callable[[Tuple, Tuple], Tuple]:
    """The body that keeps operands of the first tuple where the function says so."""
    return lambda p, q: tuple(jnp.where(k, x, y) for k, x, y in zip(keeps(p, q), p, q, strict=True))


def plain(keeps: Callable[[Tuple, Tuple], Tuple], inits: Sequence[Any], rows: Sequence[np.ndarray]) -> Tuple:
    """Step by step along the first axis, on numpy's numbers."""
    with np.errstate(all="ignore"):
        total = tuple(np.full(r.shape[1:], i, r.dtype) for i, r in zip(inits, rows, strict=True))
        for q in zip(*rows, strict=True):
            total = tuple(np.where(k, x, y) for k, x, y in zip(keeps(total, q), total, q, strict=True))
    return total


def numbers(kind: str, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    x = RNG.standard_normal(shape) * 4
    if kind == "ties":
        x = np.round(x)
    elif kind == "zeros":
        x = np.where(RNG.random(shape) < 0.5, 0.0, -0.0)
    elif kind == "NaN":
        x = np.where(RNG.random(shape) < 0.1, np.nan, x)
    elif kind == "all NaN":
        x = np.full(shape, np.nan)
    elif kind == "infinities":
        x = np.where(RNG.random(shape) < 0.3, np.inf, -np.inf)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


KINDS = ("plain", "ties", "zeros", "NaN", "all NaN", "infinities")
SHAPES = ((1, 3), (2, 5), (40, 1), (40, 6), (700, 3), (3, 700), (9, 70))


@pytest.mark.parametrize(
    ("keeps", "kind", "dtype"),
    thinned(
        itertools.product(
            (first_largest, last_smallest, without_nan), KINDS, (np.float32, BF16, np.float16, F8, np.int16, np.bool_)
        ),
        lambda keeps, kind, dtype: dtype is np.float32 or (keeps is first_largest and kind in ("ties", "NaN")),
    ),
)
def test_a_number_with_its_index(keeps: Any, kind: str, dtype: Any) -> None:
    for shape in SHAPES:
        x, index = numbers(kind, dtype, shape), np.broadcast_to(np.arange(shape[0], dtype=np.int32)[:, None], shape)
        inits = np.asarray(0, dtype), np.int32(-1)
        result = interp.jit(lambda x, i, inits=inits: lax.reduce((x, i), inits, body_of(keeps), (0,)))(x, index)
        for got, wanted in zip(result, plain(keeps, inits, (x, index)), strict=True):
            assert same(np.asarray(got), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_may_be_any_operand(kind: str) -> None:
    for shape in SHAPES:
        rows = RNG.integers(0, 99, shape, np.int32), numbers(kind, BF16, shape), RNG.integers(-3, 3, shape, np.int8)
        inits = np.int32(7), BF16(-2), np.int8(0)
        result = interp.jit(lambda *r, i=inits: lax.reduce(r, i, body_of(by_the_second), (0,)))(*rows)
        for got, wanted in zip(result, plain(by_the_second, inits, rows), strict=True):
            assert same(np.asarray(got), wanted)


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    """Equal bits, or NaN in both."""
    nan = got != got
    return bool(np.array_equal(nan, wanted != wanted)) and got[~nan].tobytes() == wanted[~nan].tobytes()


@pytest.mark.parametrize("shape", [(3, 7, 2), (3, 0, 2), (0, 7, 2), (4, 1100, 3)])
def test_accumulators_that_do_not_mix(shape: tuple[int, ...]) -> None:
    """A sum in order, a product of minifloats in order, and a maximum, in one body."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal(shape).astype(np.float32)
    y = rng.choice(np.array([0.5, 1, 2, 1.25, -1]), shape).astype(F8)
    inits = np.float32(0.5), F8(1), np.float32(-7)

    def run(*rows: Any) -> Any:
        return lax.reduce(rows, inits, lambda p, q: (p[0] + q[0], q[1] * p[1], jnp.maximum(p[2], q[2])), (1,))

    total, product, largest = (np.full((shape[0], shape[2]), i, i.dtype) for i in inits)
    for i in range(shape[1]):
        total, product, largest = total + x[:, i], product * y[:, i], np.maximum(largest, x[:, i])
    for got, wanted in zip(interp.jit(run)(x, y, x), (total, product, largest), strict=True):
        assert np.asarray(got).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.ge])
def test_selecting_bodies_run_in_order(compare: Callable[[Any, Any], Any]) -> None:
    """The larger value, and the index of the one or the other as another comparison says."""
    x, at = (RNG.integers(0, 9, (30, 5)).astype(dtype) for dtype in (np.float32, np.int32))
    inits = np.float32(3), np.int32(4)

    def keeps(p: Tuple, q: Tuple) -> Tuple:
        return p[1] > q[1], compare(p[0], q[0])

    result = interp.jit(lambda *rows: lax.reduce(rows, inits, body_of(keeps), (0,)))(x, at)
    for got, wanted in zip(result, plain(keeps, inits, (x, at)), strict=True):
        assert np.asarray(got).tobytes() == wanted.tobytes()
