"""The core of all comparisons: equality, distances, and identifiers that link tables whatever their sentences are."""

import dataclasses
import re

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.judging import open_points as choices
from minihlo.interp.judging.diagnosis import NONE, Results, by_faults
from minihlo.interp.judging.equality import distance, equal_codes, equal_values
from minihlo.interp.judging.faults import FAULTS, faults_of
from minihlo.interp.judging.open_points import IDENTIFIERS, OF_OPERATIONS, row
from minihlo.interp.oracle import rounding
from minihlo.interp.oracle.case import OpCase
from minihlo.interp.oracle.exact import evaluate
from minihlo.interp.oracle.formats import FORMATS, MINIFLOATS, all_codes
from minihlo.ops.minifloat.open_points import OPEN_POINTS
from tests.conform.conform_planted import results

#: The marks of the oracle: numbers under names in capitals, but for the names of roundings.
MARKS = {v for k, v in vars(rounding).items() if k.isupper() and isinstance(v, int)}
KEBAB = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*")


@pytest.mark.parametrize("element", MINIFLOATS)
def test_equal_codes_of_all_pairs(element: str) -> None:
    """By the numbers of ml_dtypes: equal with the same sign, or both NaN."""
    codes = all_codes(element)
    dtype = getattr(ml_dtypes, _NAMES[element])
    numbers = codes.view(dtype).astype(np.float64)
    x, y = np.meshgrid(codes, codes, indexing="ij")
    a, b = np.meshgrid(numbers, numbers, indexing="ij")
    wanted = ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    assert (equal_codes(element, x, y) == wanted).all()
    typed = codes.view(dtype)
    for i, code in enumerate(codes):
        assert (equal_values(typed, np.full(len(codes), code, codes.dtype).view(dtype)) == wanted[:, i]).all()


_NAMES = {
    "f4E2M1FN": "float4_e2m1fn",
    "f6E2M3FN": "float6_e2m3fn",
    "f6E3M2FN": "float6_e3m2fn",
    "f8E3M4": "float8_e3m4",
    "f8E4M3": "float8_e4m3",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E4M3B11FNUZ": "float8_e4m3b11fnuz",
    "f8E5M2": "float8_e5m2",
    "f8E5M2FNUZ": "float8_e5m2fnuz",
    "f8E8M0FNU": "float8_e8m0fnu",
}


def test_equal_values_of_other_types() -> None:
    nan = np.array([0x7FC00000, 0xFFC00001, 0x80000000], np.uint32).view(np.float32)
    assert equal_values(nan, nan[[1, 0, 2]]).tolist() == [True, True, True]
    assert equal_values(np.float32([0.0]), np.float32([-0.0])).tolist() == [False]
    parts = np.array([complex(np.nan, 1), complex(np.nan, -0.0), 1j], np.complex64)
    assert equal_values(parts, np.array([complex(np.nan, 1), complex(np.nan, 0.0), 1j], np.complex64)).tolist() == [
        True,
        False,
        True,
    ]
    assert equal_values(np.array([1, 2]), np.array([1, 3])).tolist() == [True, False]
    assert equal_codes("i8", np.array([0xFF], np.uint8), np.array([0xFF], np.uint8)).tolist() == [True]
    assert equal_values(np.float32([]), np.float32([])).shape == (0,)
    assert equal_values(np.array(1.0), np.array(1.0)).shape == ()


def test_distances() -> None:
    far = np.array([np.finfo(np.float64).max, -np.inf, np.nan, np.nan, -0.0])
    other = np.array([np.inf, np.inf, np.nan, 1.0, 5e-324])
    actual = distance(far, other)
    assert actual[[0, 1, 2, 4]].tolist() == [1.0, float(2 * 0x7FF0000000000000), 0.0, 1.0]
    assert np.isnan(actual[3])
    small = np.array([0x00, 0x81, 0x7E], np.uint8).view(ml_dtypes.float8_e4m3fn)
    assert distance(small, small[[1, 0, 0]]).tolist() == [1, 1, 0x7E]
    assert distance(np.uint64([0, 2**64 - 1]), np.uint64([2**64 - 1, 2**64 - 1])).tolist() == [2.0**64, 0]
    assert distance(np.int64([-(2**63)]), np.int64([2**63 - 1])).tolist() == [2.0**64]
    assert distance(np.array([1 + 1j], np.complex64), np.array([1 + 2j], np.complex64)).tolist() == [1 << 23]
    assert distance(np.array([True, False]), np.array([True, True])).tolist() == [0, 1]


def test_identifiers_are_words_with_hyphens_and_stand_once() -> None:
    for identifier in (*FAULTS, *OF_OPERATIONS, *(p.identifier for p in OPEN_POINTS), *IDENTIFIERS.values()):
        assert KEBAB.fullmatch(identifier), identifier
    assert len({p.identifier for p in OPEN_POINTS}) == len(OPEN_POINTS)
    assert len({f.identifier for f in FAULTS.values()}) == len(FAULTS) > 90
    for known in choices.CHOICES.values():
        assert len({c.identifier for c in known}) == len(known)


def test_open_points_have_choices() -> None:
    assert set(IDENTIFIERS) == MARKS == set(choices.CHOICES)
    formats = {p.identifier for p in OPEN_POINTS}
    assert set(IDENTIFIERS.values()) <= formats | set(OF_OPERATIONS)


def test_a_reworded_open_point_stays_linked() -> None:
    reworded = [dataclasses.replace(p, question=f"point {i}", ours="-") for i, p in enumerate(OPEN_POINTS)]
    for before, after in zip(OPEN_POINTS, reworded, strict=True):
        for element in before.formats:
            assert row(before.identifier, element, reworded) is after
    i = next(i for i, p in enumerate(OPEN_POINTS) if p.identifier == "nan-converted")
    said = choices.sentence(rounding.FROM_NAN, "f4E2M1FN", {"largest": 3}, reworded)
    assert said == f"point {i}: the largest number, as ONNX documents"


def test_a_reworded_fault_is_still_named_by_its_identifier() -> None:
    case = OpCase("add", ("f8E4M3FN",) * 2, "f8E4M3FN")
    x, y = (g.ravel() for g in np.meshgrid(all_codes("f8E4M3FN"), all_codes("f8E4M3FN"), indexing="ij"))
    fmt = FORMATS["f8E4M3FN"]
    right, left_open = evaluate("add", fmt, fmt.decode(x), fmt.decode(y))
    got = evaluate("add", fmt, fmt.decode(x), fmt.decode(y), rounding=rounding.TOWARD_ZERO)[0]
    failing = np.flatnonzero((got != right) & (left_open == 0))
    given = Results(case, (x, y), got, right, left_open)
    others = np.flatnonzero(got == right)
    faults = [dataclasses.replace(f, sentence=f"fault {i}") for i, f in enumerate(faults_of(case))]
    for known in (list(faults_of(case)), faults):
        why = by_faults(known, given, failing, others)
        assert why.causes == ("rounded-toward-zero",)
        assert why in [f.diagnosis(case.result) for f in known if f.identifier == "rounded-toward-zero"]
    wrong = dataclasses.replace(given, got=got ^ (np.arange(len(got)) == failing[0]).astype(np.uint8))
    assert by_faults(faults, wrong, failing, others, whole=True) == NONE


def test_reports_carry_identifiers() -> None:
    def zero_is_smallest(_operation, _arrays, codes: np.ndarray) -> np.ndarray:
        return np.where(codes == 0xFF, 0, codes).astype(np.uint8)

    (actual,) = results("convert.f8E4M3FN.f8E8M0FNU", zero_is_smallest, only=["array"])
    assert actual.open_points["zero-result"] == {"smallest": 2}  # of +0 and of -0
    assert actual.choices
    (wrong,) = results("negate.f8E4M3FN", lambda _operation, arrays, _codes: arrays[0], only=["array"])
    assert wrong.causes == ["first-operand"]
