"""Verdicts on single results: what is equal, near, open or wrong, and the choices of a backend."""

import numpy as np
import pytest

from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.result import ACCURACY, DIVERGENT, FAIL, PASS
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.conform.verdicts.judge import judge
from minihlo.interp.judging import open_points as choices
from minihlo.interp.judging.record import OF_GRADES
from minihlo.interp.oracle import rounding
from minihlo.interp.oracle.expected import Expected, convert
from minihlo.interp.oracle.formats import code_dtype


def verdicts(result: str, got: list[int], right: list[int], left_open: int = 0, limit: int = 0) -> list[str]:
    kind = code_dtype(result)
    wanted = Expected(np.array(right, kind), np.full(len(right), left_open, np.uint8))
    judged = judge(result, np.array(got, kind), wanted, limit)
    return [OF_GRADES[v] for v in judged.verdicts]


def test_nan_is_nan_and_zeros_differ() -> None:
    assert verdicts("f8E5M2", [0x7D, 0xFF, 0x80, 0x7C], [0x7E, 0x7E, 0x00, 0x7E]) == [PASS, PASS, FAIL, FAIL]


def test_ulp_counts_steps() -> None:
    kind = np.uint8
    judged = judge(
        "f8E4M3FN",
        np.array([0x39, 0x81, 0x7F, 0x80, 0x00], kind),
        Expected(np.array([0x38, 0x01, 0x7E, 0x00, 0x7F], kind), np.zeros(5, np.uint8)),
        4,
    )
    # From 1 to the next; from -2^-9 to 2^-9 over zero; NaN where the largest number is right; the sign of zero.
    assert judged.distances[:4].tolist() == [1, 2, 1, 0]
    assert [OF_GRADES[v] for v in judged.verdicts] == [ACCURACY, FAIL, ACCURACY, ACCURACY, FAIL]
    assert judged.errors[:2].tolist() == [1, -2]


@pytest.mark.parametrize(
    ("result", "right", "near", "far"),
    [
        ("f8E5M2", 0x3C, [0x3B, 0x3D], [0x3A, 0x3E, 0x40]),  # 1: 1.25, and not 1.5 or twice as much
        ("f8E4M3FN", 0x38, [0x36, 0x3A], [0x35, 0x3B, 0x3C]),
        ("f8E3M4", 0x30, [0x2C, 0x34], [0x2B, 0x35]),
        ("f16", 0x3C00, [0x3BFC, 0x3C04], [0x3BFB, 0x3C05]),
        ("f8E4M3FN", 0x02, [0x01, 0x03], [0x00, 0x80, 0x81]),  # flushed to zero
        ("f8E4M3FN", 0x01, [0x00, 0x02], [0x81]),
        ("f8E4M3", 0x76, [0x75, 0x77], [0x78]),  # two steps from infinity
        ("f8E4M3", 0x77, [0x78], [0x7F]),
        ("f4E2M1FN", 0x4, [0x3, 0x5], [0x2, 0x6]),
    ],
)
def test_accuracy_is_near(result: str, right: int, near: list[int], far: list[int]) -> None:
    assert verdicts(result, near, [right] * len(near), limit=4) == [ACCURACY] * len(near)
    assert verdicts(result, far, [right] * len(far), limit=4) == [FAIL] * len(far)
    assert verdicts(result, near, [right] * len(near)) == [FAIL] * len(near)


def test_what_is_open_is_divergent() -> None:
    # Beyond the largest number f8E4M3FN may saturate; half of 2^-127 may be NaN; a negative number may not be 2^127.
    assert verdicts("f8E4M3FN", [0x7E, 0x7E], [0x7F, 0x7F], rounding.OVERFLOW) == [DIVERGENT, DIVERGENT]
    assert verdicts("f8E4M3FN", [0xFE], [0x7F], rounding.OVERFLOW) == [FAIL]
    assert verdicts("f8E8M0FNU", [0xFF, 0x05], [0x00, 0x00], rounding.SMALL) == [DIVERGENT, FAIL]
    assert verdicts("f8E8M0FNU", [0xFE], [0xFF], rounding.NEGATIVE) == [FAIL]
    assert verdicts("f4E2M1FN", [0x0, 0x7, 0x3], [0x8] * 3, rounding.FROM_NAN) == [DIVERGENT, DIVERGENT, FAIL]


def test_saturating_now_and_then_is_wrong() -> None:
    got = [0x7F] * 9 + [0x7E]
    assert verdicts("f8E4M3FN", got, [0x7F] * 10, rounding.OVERFLOW) == [PASS] * 9 + [FAIL]


def test_a_rule_of_the_backend_is_what_its_results_are_held_to() -> None:
    # It saturates; NaN, which would be right too, is not what it means, and the report says what would be.
    wanted = Expected(np.full(10, 0x7F, np.uint8), np.full(10, rounding.OVERFLOW, np.uint8))
    judged = judge("f8E4M3FN", np.array([0x7E] * 9 + [0x7F], np.uint8), wanted)
    assert [OF_GRADES[v] for v in judged.verdicts] == [DIVERGENT] * 9 + [FAIL]
    assert judged.right.tolist() == [0x7E] * 10
    assert (judged.errors[9], judged.distances[9]) == (1, 1)
    assert judged.choices == {rounding.OVERFLOW: {"largest": 9, "nan": 1}}


def test_ties_go_one_way() -> None:
    # Of 3 between 2 and 4, 6 between 4 and 8, 12: up, down or to the even code, but not as it comes.
    right = [0x81, 0x82, 0x83]
    assert verdicts("f8E8M0FNU", [0x81, 0x82, 0x83], right, rounding.TIE) == [PASS] * 3
    assert verdicts("f8E8M0FNU", [0x80, 0x81, 0x82], right, rounding.TIE) == [DIVERGENT] * 3
    assert verdicts("f8E8M0FNU", [0x80, 0x82, 0x82], right, rounding.TIE) == [DIVERGENT, PASS, DIVERGENT]
    assert verdicts("f8E8M0FNU", [0x80, 0x82, 0x83], right, rounding.TIE) == [FAIL, PASS, PASS]


def test_nan_stands_at_one_end_of_the_total_order() -> None:
    def compared(got: list[bool]) -> list[str]:
        wanted = Expected(np.array([True, False, True]), np.full(3, rounding.NAN_ORDER, np.uint8))
        return [OF_GRADES[v] for v in judge("i1", np.array(got), wanted).verdicts]

    assert compared([True, False, True]) == [PASS] * 3
    assert compared([False, True, False]) == [DIVERGENT] * 3
    assert FAIL in compared([False, False, False])  # which is what a quiet comparison gives


def test_a_sort_may_put_nan_first() -> None:
    part = RowPart(Case("sort", ("f8E4M3FNUZ",), "f8E4M3FNUZ"), "length-8", (np.array([[1, 0x80, 0xC0]], np.uint8),))

    def sorted_as(row: list[int]) -> list[str]:
        got = np.array(row, np.uint8)
        return [OF_GRADES[v] for v in judge("f8E4M3FNUZ", got, part.with_nan_first(got)).verdicts]

    assert sorted_as([0xC0, 0x01, 0x80]) == [PASS] * 3
    assert sorted_as([0x80, 0xC0, 0x01]) == [DIVERGENT] * 3
    assert FAIL in sorted_as([0x80, 0x01, 0xC0])


def test_negative_numbers_lose_their_sign_by_a_rule() -> None:
    def converted_to(got: list[int]) -> list[str]:
        wanted = convert(np.array([0xFF, 0xFE, 0xFC, 0xF8, 0xF0], np.uint8), "i8", "f8E8M0FNU")  # -1, -2, -4 …
        judged = judge("f8E8M0FNU", np.array(got, np.uint8), wanted)
        return [OF_GRADES[v] for v in judged.verdicts]

    assert converted_to([0x7F, 0x80, 0x81, 0x82, 0x83]) == [DIVERGENT] * 5
    assert converted_to([0xFF, 0x80, 0x81, 0x82, 0x83]) == [FAIL, *[DIVERGENT] * 4]
    assert converted_to([0xFF, 0xFF, 0xFF, 0x82, 0xFF]) == [PASS, PASS, PASS, FAIL, PASS]


def test_choices_of_negative_overflow() -> None:
    numbers = np.array([-1.0, -2.0, -4.0, -8.0, -16.0, -32.0, -3e38, -1e-45], np.float32)
    wanted = convert(numbers.view(np.uint32), "f32", "f8E8M0FNU")
    for beyond in (0xFE, 0xFF):
        for small in (0x00, 0xFF):
            got = np.array([0x7F, 0x80, 0x81, 0x82, 0x83, 0x84, beyond, small], np.uint8)
            assert FAIL not in [OF_GRADES[v] for v in judge("f8E8M0FNU", got, wanted).verdicts]


def test_the_sign_of_an_exact_zero_is_no_matter_of_accuracy() -> None:
    def judged(op: str, operands: list[int], got: list[int]) -> list[str]:
        case = Case(op, ("f8E4M3FN",), "f8E4M3FN")
        found, _ = Part(case, "array", (np.array(operands, np.uint8),)).judge(np.array(got, np.uint8), 4, False)
        return [OF_GRADES[v] for v in found.verdicts]

    assert judged("abs", [0x80, 0xFE], [0x80, 0x7D]) == [FAIL, FAIL]
    assert judged("sine", [0x80, 0x38], [0x00, 0x36]) == [FAIL, ACCURACY]
    assert judged("exponential", [0xFE], [0x80]) == [ACCURACY]  # of what is small, and not zero


def test_known_choices_are_named() -> None:
    assert choices.sentence(rounding.FROM_NAN, "f4E2M1FN", {"largest": 3}) == (
        "NaN converted to a format without NaN: the largest number, as ONNX documents"
    )
    told = choices.sentence(rounding.INFINITE, "f4E2M1FN", {"largest": 1})
    assert told.endswith("the largest number, as minihlo, ml_dtypes, XLA CPU")


def test_conversions_to_integers_beyond_the_type_are_open() -> None:
    found = convert(np.array([0x7C, 0x7E, 0x58, 0xD8], np.uint8), "f8E5M2", "i8")  # inf, NaN, 128, -128
    assert found.codes.tolist() == [127, 0, 127, 128]
    assert (found.left_open == rounding.NOT_AN_INTEGER).tolist() == [True, True, True, False]
