"""Long sums by blocks, held against numpy's running sums, which add one element after the other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.ops.engine import compiled
from minihlo.ops.engine.native import code, ordered_sums

from ..conftest import Tune

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")

TYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
HELD = {"f32": np.float32, "f64": np.float64, "bf16": np.float32, "f16": np.float32}
LENGTHS = (0, 1, 127, 128, 129, 500, 1024, 3000)

#: Elements of each kind, by a generator and how many. Few bits make many of them halfway between two sums.
ROWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "positive": lambda rng, n: rng.random(n),
    "negative": lambda rng, n: -rng.random(n) * 10,
    "drifting": lambda rng, n: rng.standard_normal(n) + 0.3,
    "whole": lambda rng, n: rng.integers(-5, 6, n),
    "small whole": lambda rng, n: rng.integers(0, 3, n),
    "halves": lambda rng, n: rng.integers(-3, 4, n) * 0.5,
    "eighths": lambda rng, n: rng.integers(-40, 41, n) * 0.125,
    "sparse": lambda rng, n: rng.standard_normal(n) * (rng.random(n) < 0.05),
    "zeros": lambda rng, n: np.zeros(n),
    "of both signs of zero": lambda rng, n: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "of all sizes": lambda rng, n: rng.standard_normal(n) * np.exp2(rng.integers(-12, 13, n)),
    "tiny": lambda rng, n: rng.standard_normal(n) * 2.0**-24,
    "one large": lambda rng, n: np.where(np.arange(n) == n // 2, 3e4, rng.standard_normal(n)),
    "back and forth": lambda rng, n: np.where(np.arange(n) % 2, 1.0, -1.0) * (1 + rng.random(n) * 0.01),
}
STARTS = (0.0, -0.0, 1.0, -1.0, 2.0, 0.999, 255.0, 256.0, 257.0, -2047.0, 2048.0, 3.1, 2.0**-14, 2.0**24, 2.0**24 - 1)


def _add(source: str, target: str, start: Any, row: np.ndarray) -> np.ndarray | None:
    """The sum by the code, None where it is NaN."""
    if not ordered_sums.address(source, target):
        pytest.skip("LLVM does not take the code here")
    total = np.array(start, HELD[target])
    stopped = code.compiled(ordered_sums.text(source, target), 3)(row.ctypes.data, total.ctypes.data, len(row))
    with np.errstate(over="ignore"):
        return None if stopped else total.astype(TYPES[target])


def _expected(start: Any, row: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.add.accumulate(np.concatenate((np.reshape(start, 1), row)))[-1]


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("element", TYPES)
def test_sums_have_the_bits_of_one_addition_after_the_other(element, kind):
    dtype, rng = TYPES[element], np.random.default_rng(len(kind))
    with np.errstate(over="ignore"):
        starts = np.array(STARTS).astype(dtype)
    for first in starts:
        for n in LENGTHS:
            row = ROWS[kind](rng, n).astype(dtype)
            total = _add(element, element, HELD[element](first), row)
            assert total is not None
            assert total.tobytes() == _expected(first, row).tobytes(), (first, n)


@pytest.mark.parametrize("element", TYPES)
def test_sums_around_powers_of_two(element):
    """Starts next to each power of two, and elements of less than a unit, of which many are halfway."""
    dtype, rng = TYPES[element], np.random.default_rng(1)
    fraction = {"f32": 23, "f64": 52, "bf16": 7, "f16": 10}[element]
    for exponent in (-3, 0, 5):
        unit = 2.0 ** (exponent - fraction)
        for turn in range(60):
            start = np.array(2.0**exponent + unit * rng.integers(-4, 5)) * (-1) ** turn
            row = unit * rng.integers(-6, 7, 400) * rng.choice([0.25, 0.5, 1.0])
            row, first = row.astype(dtype), start.astype(dtype)
            total = _add(element, element, HELD[element](first), row)
            assert total is not None
            assert total.tobytes() == _expected(first, row).tobytes(), (exponent, turn)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_sums_that_touch_a_power_of_two(element):
    """Most elements are zero: blocks reach 2**e and go on with parts of a unit, which is half as large below it."""
    dtype, rng = TYPES[element], np.random.default_rng(2)
    unit = 2.0 ** -(23 if element == "f32" else 52)
    parts = unit * np.array([1.0, -1.0, 0.3, -0.3, 0.5, -0.5, -0.2])
    for turn in range(2000):
        first = np.array(1 + unit * rng.integers(0, 4)).astype(dtype)
        row = np.zeros(256, dtype)
        row[rng.integers(0, 256, 6)] = rng.choice(parts, 6)
        total = _add(element, element, first, row)
        assert total is not None
        assert total.tobytes() == _expected(first, row).tobytes(), turn


@pytest.mark.parametrize("element", TYPES)
def test_infinities_and_overflow(element):
    dtype = TYPES[element]
    largest = float(ml_dtypes.finfo(dtype).max)
    for special, at in ((np.inf, 0), (-np.inf, 700), (largest, 300), (-largest, 999)):
        row = np.full(1000, 0.5 if abs(special) == np.inf else special / 16).astype(dtype)
        row[at] = special
        with np.errstate(all="ignore"):
            expected = _expected(np.zeros(1, dtype), row)
        total = _add(element, element, 0.0, row)
        assert total is not None
        assert total.tobytes() == expected.tobytes()


@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001])
@pytest.mark.parametrize("element", TYPES)
def test_a_sum_that_is_nan_is_left_to_others(element, bits):
    with np.errstate(invalid="ignore"):
        nan = np.array(bits, np.uint32).view(np.float32).astype(TYPES[element])
    for at in (0, 200, 999):
        row = np.ones(1000, TYPES[element])
        row[at] = nan
        assert _add(element, element, 3.0, row) is None
    row = np.ones(1000, TYPES[element])
    row[300], row[301] = np.inf, -np.inf
    assert _add(element, element, 3.0, row) is None


@pytest.mark.parametrize("source", ["bf16", "f16"])
def test_halves_are_summed_in_f32(source):
    row = np.random.default_rng(0).standard_normal(5000).astype(TYPES[source])
    total = _add(source, "f32", 1.5, row)
    assert total is not None
    assert total == _expected(np.float32(1.5), row.astype(np.float32))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[str]:
    """Everything is compiled at once; for which sums code was asked."""
    tune(compiled_from=1, compiled_worth=0, fast_few=1, fast_from=1, fuse_many=0, fuse_many_compiled=1, fast_alone=0)
    tune(ordered_from=128, ordered_worth=0, ordered_halves_worth=0)
    of: list[str] = []
    for name in ("adding", "address"):
        real = getattr(ordered_sums, name)
        monkeypatch.setattr(ordered_sums, name, lambda *of_what, real=real: (of.append(of_what[-1]), real(*of_what))[1])
    return of


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("element", TYPES)
def test_reductions_are_added_by_blocks(asked: list[str], element: str, columns: int) -> None:
    x = np.random.default_rng(3).standard_normal((columns, 3000)).astype(TYPES[element])
    with jax.enable_x64(True):
        got = interp.jit(lambda v: lax.reduce(v, jnp.array(0, v.dtype), lax.add, (1,)))(x)
    zero = np.zeros(1, x.dtype)
    assert np.asarray(got).tobytes() == np.stack([_expected(zero, row) for row in x]).tobytes()
    assert element in asked


@pytest.mark.parametrize("rows", [1, 3, 11])
@pytest.mark.parametrize("source", ["f32", "bf16"])
def test_fused_sums_are_added_by_blocks(asked: list[str], source: str, rows: int) -> None:
    """Sums of a converted array, and of what is computed from it."""
    x = np.random.default_rng(4).standard_normal((rows, 1500)).astype(TYPES[source])
    zero, wide = np.zeros(1, np.float32), x.astype(np.float32)
    total, squares = interp.jit(lambda v: (v.astype(jnp.float32).sum(1), jnp.square(v.astype(jnp.float32) - 2).sum(1)))(
        x
    )
    assert np.asarray(total).tolist() == [_expected(zero, row) for row in wide]
    assert np.asarray(squares).tolist() == [_expected(zero, np.square(row - 2)) for row in wide]
    assert "f32" in asked


@pytest.mark.parametrize("source", ["bf16", "f16"])
def test_sums_of_nothing_but_converted_rows(asked: list[str], source: str) -> None:
    x = np.random.default_rng(6).standard_normal((3, 1500)).astype(TYPES[source])
    total = interp.jit(lambda v: v.astype(jnp.float32).sum(1))(x)
    expected = [_expected(np.zeros(1, np.float32), row) for row in x.astype(np.float32)]
    assert np.asarray(total).tolist() == expected
    assert "f32" in asked


def test_the_sum_of_a_row_that_other_ops_use(asked: list[str]) -> None:
    x = np.random.default_rng(5).standard_normal((2, 700)).astype(np.float32)
    got = interp.jit(lambda v: v / jnp.abs(v).sum(1, keepdims=True))(x)
    totals = [_expected(np.zeros(1, np.float32), row) for row in np.abs(x)]
    assert np.asarray(got).tobytes() == (x / np.stack(totals)[:, None]).tobytes()
    assert "f32" in asked
