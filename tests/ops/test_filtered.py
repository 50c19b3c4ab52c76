"""Products in f64 whose error bounds decide the result: against fractions, on borders between two results too."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from minihlo.ops.policy import Policy
from minihlo.ops.products import filtered
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle


def want(x: np.ndarray, y: np.ndarray, element: str) -> np.ndarray:
    def exact(row: list[float], column: list[float]) -> Fraction:
        return sum((Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)), Fraction(0))

    fmt, columns = oracle.FORMATS[element], y.T.tolist()
    return np.array([[oracle.encode(fmt, exact(row, column)) for column in columns] for row in x.tolist()])


def codes(found: np.ndarray) -> np.ndarray:
    return found.view(f"u{found.itemsize}")


def numbers(rng: np.random.Generator, shape: tuple[int, ...], bits: int, spread: int) -> np.ndarray:
    whole = rng.integers(-(1 << bits) + 1, 1 << bits, shape).astype(np.float64)
    return np.ldexp(whole, rng.integers(-spread, spread + 1, shape))


@pytest.mark.parametrize("element", ["f32", "bf16", "f16", "f8E4M3FN"])
@pytest.mark.parametrize(("bits", "spread"), [(28, 0), (28, 20), (3, 2), (3, 30), (1, 60)])
def test_against_fractions(element: str, bits: int, spread: int) -> None:
    rng = np.random.default_rng(bits * 100 + spread)
    x, y = numbers(rng, (9, 40), bits, spread), numbers(rng, (40, 7), bits, spread)
    if element in ("f16", "f8E4M3FN"):
        x, y = x / np.abs(x).max(), y / 2.0 ** np.frexp(np.abs(y).max())[1]
        x = np.ldexp(np.rint(np.ldexp(x, 20)), -20)
    found = filtered.product(x[None], y[None], ELEMENT_TYPES[element], Policy())
    if found is not None:
        assert (codes(found[0]) == want(x, y, element)).all()
    else:
        assert spread in (30, 60)  # too many sums of large spread


@pytest.mark.parametrize("tiny", [2.0**-90, -(2.0**-90), 0.0, 2.0**-200])
@pytest.mark.parametrize("odd", [0, 1])
def test_borders_between_two_results(tiny: float, odd: int) -> None:
    """A sum midway between two numbers of f32, and one just off: no sum in f64 tells them apart."""
    x = np.ones((1, 5))
    y = np.array([[1.0 + odd * 2.0**-23, 2.0**-24, tiny, 3.0, -3.0]]).T
    found = filtered.product(x[None], y[None], ELEMENT_TYPES["f32"], Policy())
    assert found is not None
    assert codes(found[0]).tolist() == want(x, y, "f32").tolist()


def test_many_sums_on_borders_are_exact() -> None:
    """Numbers of few bits: most sums are midway, and the units of rows and columns show that f64 is exact."""
    rng = np.random.default_rng(3)
    x = np.ones((64, 8))
    x[:, 1] = 2.0**-24
    y = np.zeros((8, 32))
    y[:2] = rng.choice([1.0, 2.0, 4.0], 32)
    found = filtered.product(x[None], y[None], ELEMENT_TYPES["f32"], Policy())
    assert found is not None
    assert (codes(found[0]) == want(x, y, "f32")).all()


def test_zeros_and_cancellation() -> None:
    x, y = np.array([[1.0, -1.0], [0.0, 0.0], [1.0, 2.0**-140]]), np.array([[2.0, 3.0], [2.0, 1.0]])
    found = filtered.product(x[None], y[None], ELEMENT_TYPES["f32"], Policy())
    assert found is not None
    assert (codes(found[0]) == want(x, y, "f32")).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_left_to_others(value: float) -> None:
    x = np.ones((1, 2, 3))
    x[0, 1, 2] = value
    assert filtered.product(x, np.ones((1, 3, 2)), ELEMENT_TYPES["f32"], Policy()) is None
    assert filtered.product(np.ones((1, 0, 3)), np.ones((1, 3, 2)), ELEMENT_TYPES["f32"], Policy()) is None
