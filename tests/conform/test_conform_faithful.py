"""Functions have to be faithful: a neighbour of the exact value, and that value itself where it is a number."""

import itertools
from collections.abc import Callable

import mpmath
import numpy as np
import pytest

from minihlo.interp.conform.result import ACCURACY, FAIL, PASS
from minihlo.interp.judging import functions as faithful
from minihlo.interp.oracle.exact import evaluate
from minihlo.interp.oracle.formats import FORMATS

from ..thinned import thinned
from .conform_planted import results

EXACT: dict[str, Callable] = {
    "cosine": mpmath.cos,
    "exponential": mpmath.exp,
    "log": mpmath.log,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sine": mpmath.sin,
    "tanh": mpmath.tanh,
    "power": lambda x, y: x**y,
    "atan2": mpmath.atan2,
}


@pytest.mark.parametrize("op", EXACT)
@pytest.mark.parametrize("element", ["f4E2M1FN", "f8E3M4", "f8E4M3FN"])
def test_on_which_side_the_exact_value_lies(op: str, element: str) -> None:
    """mpmath, at 1500 bits, against every code (of pairs, some), where it has a finite value that is no open point."""
    fmt, random = FORMATS[element], np.random.default_rng(1)
    codes = np.arange(1 << fmt.bits).astype(fmt.code_dtype)
    pairs = (codes,) if op not in ("power", "atan2") else (random.choice(codes, 400), random.choice(codes, 400))
    numbers = [fmt.decode(c) for c in pairs]
    # mpmath has no -0; a negative base may have a complex power; log and rsqrt are of positive numbers.
    wanted = np.logical_and.reduce([np.isfinite(x) & ~((x == 0) & np.signbit(x)) for x in numbers])
    wanted &= numbers[0] > 0 if op in ("power", "log", "rsqrt") else True
    wanted &= (numbers[0] != 0) | (numbers[-1] != 0) if op == "atan2" else True
    pairs, numbers = tuple(p[wanted] for p in pairs), [x[wanted] for x in numbers]
    right, left_open = evaluate(op, fmt, *numbers)
    found = faithful.sides_of_function(op, element, pairs, right)
    tried = 0
    with mpmath.workprec(1500):
        for i in np.flatnonzero(left_open == 0):
            number = float(fmt.decode(right[i : i + 1])[0])
            exact = EXACT[op](*(mpmath.mpf(float(x[i])) for x in numbers))
            assert found[i] == mpmath.sign(exact - number), (op, [float(x[i]) for x in numbers], number)
            tried += 1
    assert tried > 5


def test_what_is_faithful() -> None:
    element, one = "f8E4M3FN", 0x38
    codes = np.array([one - 1, one, one + 1, one + 2, 0x7F], np.uint8)
    right = np.full(5, one, np.uint8)
    for side, good in ((0, [0, 1, 0, 0, 0]), (1, [0, 1, 1, 0, 0]), (-1, [1, 1, 0, 0, 0])):
        assert faithful.is_faithful(element, codes, right, np.full(5, side, np.int8)).tolist() == list(map(bool, good))
    # 448 is the largest number; the NaN after it is what comes next, below -448 as well.
    largest = np.array([0x7E, 0xFE], np.uint8)
    nan = np.array([0x7F, 0xFF], np.uint8)
    assert faithful.is_faithful(element, nan, largest, np.array([1, -1], np.int8)).all()
    assert not faithful.is_faithful(element, nan, largest, np.array([-1, 1], np.int8)).any()
    # Overflow: NaN is right, and the largest number is a neighbour where the exact value is before the next number.
    assert faithful.is_faithful(element, largest, nan, np.array([-1, 1], np.int8)).all()
    assert not faithful.is_faithful(element, largest, nan, np.zeros(2, np.int8)).any()


@pytest.mark.parametrize(
    ("element", "op", "by"),
    thinned(
        itertools.product(
            ("f8E4M3FN", "f8E5M2", "f8E3M4", "f6E2M3FN", "f4E2M1FN", "bf16"), ("exponential", "cosine"), (1, -1)
        ),
        lambda element, op, by: (op, by) == ("exponential", 1) or element in ("f8E4M3FN", "f4E2M1FN"),
    ),
)
def test_always_one_code_off_is_wrong(op: str, element: str, by: int) -> None:
    """exp(0) = 1.125: the next number, where the exact one is at hand."""
    fmt = FORMATS[element]

    def off(_operation, _arrays, codes: np.ndarray) -> np.ndarray:
        ordinary = (fmt.decode(codes) > 0) & (codes < fmt.max_code)
        return np.where(ordinary, codes.astype(np.int64) + by, codes).astype(codes.dtype)

    (found,) = results(f"{op}.{element}", off, only=["array"])
    assert found.verdict == FAIL
    assert "0x" in found.command


def test_neighbours_of_irrational_results() -> None:
    """All results rounded to the other neighbour; those that are exact stay."""
    fmt = FORMATS["f8E4M3FN"]

    def other(_operation, arrays, codes: np.ndarray) -> np.ndarray:
        exact, number = np.exp(fmt.decode(np.ravel(arrays[0]))), fmt.decode(codes)
        inside = (codes < fmt.max_code) & (number > 0) & (exact != number) & (exact < fmt.max)
        return np.where(inside, np.where(exact > number, codes + 1, codes - 1), codes).astype(codes.dtype)

    (found,) = results("exponential.f8E4M3FN", other, only=["array"])
    assert found.verdict == ACCURACY
    assert found.counts[ACCURACY] > 50
    assert found.worst_ulp == 1


def test_integer_rounding_may_be_the_backends() -> None:
    """ONNX rounds to nearest even where StableHLO truncates, in types of 2 and 4 bits; ties away are wrong by both."""

    def rounded(way) -> list[int]:
        def convert(_operation, arrays, codes: np.ndarray) -> np.ndarray:
            numbers = FORMATS["f8E4M3FN"].decode(arrays[0])
            fits = (numbers >= -8) & (numbers < 7.5)
            return np.where(fits, way(np.where(fits, numbers, 0)).astype(np.int64) & 15, codes).astype(np.uint8)

        names = ("planted", "onnxruntime", "onnx")
        return [results("convert.f8E4M3FN.i4", convert, name=n, only=["array"])[0].counts.get(FAIL, 0) for n in names]

    assert rounded(np.trunc) == [0, 0, 0]
    stablehlo, *onnx = rounded(np.rint)
    assert (stablehlo > 10, onnx) == (True, [0, 0])
    away = rounded(lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x))
    assert away[0] > 10
    assert away[1:] == [8, 8]  # 0.5, 2.5, 4.5 and 6.5, of both signs


def test_the_specification_of_onnx_is_told() -> None:
    def away(_operation, arrays, codes: np.ndarray) -> np.ndarray:
        numbers = FORMATS["f8E5M2"].decode(arrays[0])
        fits = np.abs(numbers) < 7
        rounded = np.copysign(np.floor(np.abs(np.where(fits, numbers, 0)) + 0.5), numbers)
        return np.where(fits, rounded.astype(np.int64) & 15, codes).astype(np.uint8)

    (found,) = results("convert.f8E5M2.i4", away, name="onnxruntime", only=["array"])
    assert found.diagnosis == "rounded to the nearest integer, ties away from zero, and not ties to even"
    assert found.verdict != PASS
