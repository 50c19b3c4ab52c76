"""Planted faults: each is found, and what is said of it is right, or nothing is."""

import re
from typing import Any

import numpy as np
import pytest

from minihlo.interp.conform.result import FAIL, PASS

from .conform_planted import Fault, results
from .conform_planted_faults import (
    E5M2,
    as_format,
    at,
    flips,
    flush_operands,
    flush_results,
    of_codes,
    one_call_in,
    right_of,
    rounded_to_integers,
    rounding,
    saturated,
    through_f16,
    toward_zero,
    where_operand,
    without_a_product,
    wrapped_integers,
)

EVEN = "and not to nearest even"
LANE = "only in lane 15 of 16: at places i with i mod 16 = 15"
SHARE_1, SHARE_50 = (rf"intermittent: in 4 runs {p}\.\d% of the results are wrong.*" for p in ("(0|1)", "(49|50)"))

#: A name, the case, the fault, all that may be said (a pattern, or nothing), and the forms, if not of arrays.
FAULTS: list[tuple[Any, ...]] = [
    (
        "nothing is finite",
        "is_finite.f8E4M3FN",
        lambda o, a, c: np.zeros_like(c),
        "every result is false, whatever the operands",
    ),
    ("flush out", "multiply.f8E4M3FN", flush_results, "results that are subnormal are flushed to zero"),
    ("flush in", "multiply.f8E5M2", flush_operands, "operands that are subnormal are flushed to zero"),
    ("flush out of f32", "convert.f32.f8E5M2", flush_results, "results that are subnormal are flushed to zero"),
    ("toward zero", "convert.f32.f8E4M3FN", toward_zero, f"results are rounded toward zero, {EVEN}"),
    (
        "ties away",
        "convert.f16.f8E4M3FN",
        rounding(lambda low, high: high, lambda x: x),
        f"results are rounded with ties away from zero, {EVEN}",
    ),
    (
        "ties to odd",
        "add.f8E4M3FN",
        rounding(lambda low, high: np.where(low % 2, low, high), lambda x, y: x + y),
        f"results are rounded with ties to odd, {EVEN}",
    ),
    (
        "ties toward zero",
        "multiply.f8E5M2",
        rounding(lambda low, high: low, lambda x, y: x * y),
        f"results are rounded with ties toward zero, {EVEN}",
    ),
    (
        "negatives saturate",
        "multiply.f8E4M3FN",
        saturated(-1, 0xFE),
        "results below the lowest number become the lowest number",
    ),
    (
        "positives saturate",
        "multiply.f8E5M2",
        saturated(1, 0x7B),
        "results above the largest number become the largest number",
    ),
    ("FNUZ for FN", "convert.f8E4M3FN.f32", as_format("f8E4M3FNUZ"), "f8E4M3FN is taken for f8E4M3FNUZ"),
    (
        "FN for FNUZ",
        "convert.f8E4M3FNUZ.f32",
        as_format("f8E4M3FN"),
        "f8E4M3FNUZ is taken for f8E4M3FN|the format's exponent bias is taken for one smaller.*",
    ),
    (
        "one code too large",
        "add.f8E4M3FN",
        of_codes(lambda c: np.where((c & 0x7F) < 0x7E, c + 1, c)),
        "each is one ULP too large",
    ),
    ("one code", "negate.f8E4M3FN", where_operand(0x25, 0xA6), r"only where the operand is 0x25 \(.*\)"),
    ("-0 stays", "abs.f8E4M3FN", where_operand(0x80, 0x80), r"only where the operand is 0x80 \(-0\)"),
    (
        "-0 is lost",
        "negate.f8E5M2",
        where_operand(0x00, 0x00),
        r"only where the operand is 0x00 \(0\)|the sign of results that are zero is lost",
    ),
    (
        "-0 is lost in products",
        "multiply.f8E5M2",
        of_codes(lambda c: np.where(c == 0x80, 0, c)),
        "the sign of results that are zero is lost",
    ),
    (
        "NaN is the largest number",
        "add.f8E4M3FN",
        of_codes(lambda c: np.where((c & 0x7F) == 0x7F, c - 1, c)),
        "in all failures an operand is NaN",
    ),
    (
        "NaN code of the other",
        "add.f8E4M3FNUZ",
        of_codes(lambda c: np.where(c == 0x80, 0x7F, c)),
        "in all failures an operand is NaN",
    ),
    (
        "zero is NaN",
        "subtract.f8E4M3FNUZ",
        of_codes(lambda c: np.where(c == 0, 0x80, c)),
        "all wrong results (are NaN|should be zero)",
    ),
    ("a lane", "add.f8E4M3FN", at(lambda n: slice(15, None, 16)), LANE, "array", "size-64", "size-1000"),
    (
        "a lane of a function",
        "tanh.f8E5M2",
        at(lambda n: slice(15, None, 16), lambda c: c ^ 4),
        LANE,
        "size-64",
        "size-1000",
    ),
    ("a lane of conversions", "convert.f32.f8E4M3FN", at(lambda n: slice(15, None, 16)), LANE, "array", "size-1000"),
    (
        "the last partial vector",
        "add.f8E4M3FN",
        at(lambda n: slice(n - n % 16, n)),
        "only the last partial vector, if vectors have 16 or 32 elements",
        "array",
        "size-7",
        "size-64",
        "size-1000",
    ),
    (
        "the last element",
        "multiply.f8E5M2",
        at(lambda n: slice(n - 1, n)),
        "only the last element of the arrays of 7, 64, 1000",
        "size-1",
        "size-7",
        "size-64",
        "size-1000",
    ),
    (
        "from 512 on",
        "add.f8E4M3FN",
        at(lambda n: slice(512, n)),
        "only from element 512 on",
        "array",
        "size-64",
        "size-1000",
    ),
    ("1 % now and then", "add.f8E4M3FN", flips(0.01), SHARE_1),
    ("50 % now and then", "convert.f32.f8E5M2", flips(0.5), SHARE_50),
    (
        "whole calls now and then",
        "multiply.f8E4M3FN",
        one_call_in(3),
        r"intermittent: in [12] of 4 runs \d+\.\d% of the results are wrong",
    ),
    ("truncation of the wrong width", "convert.f8E4M3FN.i8", wrapped_integers, ""),
    (
        "rounded to integers",
        "convert.f8E5M2.i8",
        rounded_to_integers,
        "rounded to the nearest integer, ties to even, and not toward zero",
    ),
    ("rounded twice", "convert.i32.f8E5M2", through_f16, "the result is rounded twice, to f16 first"),
    (
        "operands swapped",
        "subtract.f8E4M3FN",
        lambda o, a, c: right_of(o, np.broadcast_arrays(*a)[::-1]),
        "the operands are swapped|only the sign is wrong",
    ),
    (
        "compared as codes",
        "compare_LT.f8E4M3FN",
        lambda o, a, c: np.asarray(a[0] < a[1]),
        "in all failures an operand is negative|",
    ),
    (
        "products without a term",
        "dot_general.f8E4M3FN.f32",
        without_a_product,
        "the last term is left out",
        "length-64",
    ),
    ("products are zero", "dot_general.f8E5M2", lambda o, a, c: np.zeros_like(c), "every result is zero", "length-64"),
    ("a column off", "dot_general.f8E4M3FN", at(lambda n: slice(3, None, 8)), "", "length-64"),
    ("convolutions off by one place", "convolution.f8E4M3FN.f32", lambda o, a, c: np.roll(c, 1, 1), "", "length-8"),
    (
        "convolutions of zero",
        "convolution.f8E4M3FN",
        lambda o, a, c: np.zeros_like(c),
        "every result is zero",
        "length-8",
    ),
    (
        "sums that start from one",
        "reduce_add.f8E5M2",
        lambda o, a, c: right_of(o, [np.append(a[0], np.full((len(a[0]), 1), 0x3C, np.uint8), 1)]),
        "",
        "length-3",
        "length-8",
    ),
    (
        "the smallest of a few",
        "reduce_minimum.f8E4M3FN",
        lambda o, a, c: right_of(o, [a[0][:, :-1]]),
        "",
        "length-3",
        "length-8",
    ),
    ("sums now and then", "reduce_add.f8E4M3FN", flips(0.5), "intermittent: .*", "length-64"),
    ("products of the other sign", "reduce_multiply.f8E5M2", of_codes(lambda c: c ^ 0x80), "", "length-8"),
    (
        "subnormal numbers are equal",
        "sort.f8E5M2",
        lambda o, a, c: _sorted(a[0], 2.0**-14),
        "numbers of one sign and of sizes from .* count as equal|numbers from .* count as equal",
        "length-64",
    ),
    ("descending", "sort.f8E4M3FN", lambda o, a, c: c[:, ::-1], "in descending order", "length-8"),
    (
        "by codes",
        "sort.f8E4M3FN",
        lambda o, a, c: np.sort(a[0], axis=1),
        "the codes are sorted as unsigned integers",
        "length-64",
    ),
]


def _sorted(rows: np.ndarray, least: float) -> np.ndarray:
    """By numbers, of which those below a size are zero; NaN by its sign at the ends."""
    value = E5M2.decode(rows)
    key = np.where(np.abs(value) < least, 0.0, value)
    key = np.where(np.isnan(value), np.where(np.signbit(value), -np.inf, np.inf), key)
    ends = np.where(np.isnan(value), np.where(np.signbit(value), -1, 1), 0)
    return np.take_along_axis(rows, np.lexsort((key, ends), axis=1), axis=1)


@pytest.mark.parametrize("row", FAULTS, ids=lambda f: f[0])
def test_a_planted_fault(row: tuple[Any, ...]) -> None:
    _, case, fault, said, *forms = row
    found = results(case, fault, only=forms or ("array",))
    failing = [r for r in found if r.verdict == FAIL]
    assert failing, [(r.form, r.verdict, r.counts) for r in found]
    for result in failing:
        told = result.diagnosis.removesuffix("; only in the whole array")
        assert not told or re.fullmatch(said, told), (result.form, told)
    if said and not said.endswith("|"):
        assert any(r.diagnosis for r in failing)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            lambda o, a, c: np.where(c & 0x7F > 0x7C, 0, c),
            "accumulated in f8E5M2 in order, but for sums that may overflow, or of infinities or NaN",
        ),
        (lambda o, a, c: c ^ 1, "no known way to form sums explains the results .* comes nearest."),
    ],
    ids=["NaN becomes zero", "the last bit is turned"],
)
def test_partial_explanations_are_not_given(fault: Fault, said: str) -> None:
    (result,) = results("reduce_add.f8E5M2", fault, only=("length-8",))
    assert result.verdict == FAIL
    assert re.fullmatch(said, result.model)


def test_without_a_fault_nothing_is_said() -> None:
    for case in {f[1] for f in FAULTS}:
        found = results(case, lambda _operation, _arrays, codes: codes, only=("array", "size-64", "length-64"))
        assert {r.verdict for r in found} <= {PASS}, case
