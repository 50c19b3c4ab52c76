"""What failing results are said to have in common."""

import math
from collections.abc import Callable

import numpy as np

from minihlo.interp.conform.cases import data
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.cases.forms import SIZES
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.result import FAIL, CaseResult
from minihlo.interp.conform.verdicts import diagnosis
from minihlo.interp.conform.verdicts.forms import across_forms
from minihlo.interp.conform.verdicts.judge import Judgement
from minihlo.interp.conform.verdicts.outcome import add_diagnosis as explained_by
from minihlo.interp.judging.diagnosis import Diagnosis, of_tail
from minihlo.interp.oracle.formats import FORMATS


def test_failures_at_the_end_by_chance() -> None:
    def part(form: str, failing: list[int]) -> tuple[Part, Judgement, np.ndarray]:
        n = SIZES[form]
        codes = np.resize(np.arange(0x30, 0x50, dtype=np.uint8), n)
        made = Part(Case("negate", ("f8E4M3FN",), "f8E4M3FN"), form, (codes,))
        got = made.expected.codes.copy()
        got[failing] ^= 1
        return made, made.judge(got, 4, False)[0], got

    assert diagnosis.explain(*part("size-7", [6])).sentence != "only the last element of the array"
    assert diagnosis.explain(*part("size-64", [63])).sentence == "only the last element of the array"
    told = [("array", Diagnosis("the operand is", ("one-operand",))), ("size-64", of_tail(1))]
    cases = [
        explained_by(CaseResult("a", form, "a", [], "", "", "", FAIL, counts={FAIL: 5 - 4 * i}), why)
        for i, (form, why) in enumerate(told)
    ]
    assert [c.diagnosis for c in across_forms(cases)] == ["the operand is"] * 2


def explained(op: str, operands: tuple[str, ...], result: str, fault: Callable[[list[float], int], int]) -> str:
    """What is said of a backend whose results are right but for a fault, which gets the numbers and the right code."""
    case = Case(op, operands, result)
    part = Part(case, "array", data.operands(case, "array", 1, 0))
    numbers = [FORMATS[t].decode(x) for t, x in zip(operands, part.arrays, strict=True)]
    pairs = zip(zip(*(x.tolist() for x in numbers), strict=True), part.expected.codes.tolist(), strict=True)
    return said(part, np.array([fault(list(x), code) for x, code in pairs]).astype(part.expected.codes.dtype))


def test_a_nan_that_is_read_as_a_number() -> None:
    def read(numbers: list[float], code: int) -> int:
        is_negative_nan = math.isnan(numbers[0]) and math.copysign(1, numbers[0]) < 0
        return int(np.float32(-480).view(np.uint32)) if is_negative_nan else code

    told = explained("convert", ("f8E4M3FN",), "f32", read)
    assert told == "NaN with its sign set is read as a number, the one beyond the largest"


def test_lost_subnormals() -> None:
    def lost(numbers: list[float], code: int) -> int:
        return code & 0x80 if code & 0x7F == 4 and abs(numbers[0] / numbers[1]) < 2.0**-14 else code

    told = explained("divide", ("f8E5M2",) * 2, "f8E5M2", lost)
    assert told == "subnormal results that round up to the smallest normal number become zero"


def test_dropped_sign_beside_another_fault() -> None:
    def toward_zero(numbers: list[float], code: int) -> int:
        size = abs(numbers[0])
        return 127 + math.frexp(size)[1] - 1 if 0 < size < math.inf else code

    told = explained("convert", ("f8E4M3FN",), "f8E8M0FNU", toward_zero)
    assert told == "the sign is dropped, as the format has none, and the rest is rounded toward zero"


def test_integers_that_are_rounded() -> None:
    ways = {
        "to the nearest integer, ties to even": round,
        "to the nearest integer, ties away from zero": lambda x: math.trunc(x + math.copysign(0.5, x)),
        "down": math.floor,
        "up": math.ceil,
    }
    for words, way in ways.items():
        for element, mask in (("i8", 255), ("ui4", 15)):

            def rounded(numbers: list[float], code: int, way=way, mask: int = mask) -> int:
                low, high = (-128, 127) if mask == 255 else (0, 15)
                return way(numbers[0]) & mask if low - 1 < numbers[0] < high + 1 else code

            told = explained("convert", ("f8E4M3FN",), element, rounded)
            assert told == f"rounded {words}, and not toward zero"


def test_a_format_that_is_taken_for_another() -> None:
    part, codes = converted_to_f32("f8E4M3")
    as_finite = FORMATS["f8E4M3FN"].decode(codes).astype(np.float32)
    assert said(part, as_finite.view(np.uint32)) == "f8E4M3 is taken for f8E4M3FN"
    part, codes = converted_to_f32("f8E5M2")
    as_other = FORMATS["f8E4M3FNUZ"].decode(codes).astype(np.float32)
    assert said(part, as_other.view(np.uint32)) == "f8E5M2 is taken for f8E4M3FNUZ"


def test_exponents_read_as_signed() -> None:
    """0x80 is NaN, 0x81 the largest negative number, 0x00 and 0x01 the smallest ones."""
    order = np.array([*range(0x80), -999, *range(-1, -0x80, -1)], np.float64)  # the places of codes among numbers
    order[0x80] = np.nan
    case = Case("compare", ("f8E8M0FNU",) * 2, "i1", (("comparison_direction", "LT"), ("compare_type", "FLOAT")))
    part = Part(case, "array", data.operands(case, "array", 1, 0))
    told = said(part, order[part.arrays[0]] < order[part.arrays[1]])
    assert told == "f8E8M0FNU is taken for a format with a sign, 7 bits of exponent with bias 128, and 0x80 for NaN"


def converted_to_f32(element: str) -> tuple[Part, np.ndarray]:
    case = Case("convert", (element,), "f32")
    part = Part(case, "array", data.operands(case, "array", 1, 0))
    return part, part.arrays[0]


def said(part: Part, got: np.ndarray) -> str:
    """What is said of a backend's results."""
    return diagnosis.explain(part, part.judge(got, 0, False)[0], got).sentence
