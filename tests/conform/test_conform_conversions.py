"""Conversions between wide types as the tester asks them: its operands, its expected codes and its verdicts."""

import random
from fractions import Fraction

import numpy as np
import pytest

from minihlo.interp.conform.cases import cases, data
from minihlo.interp.conform.cases.case import WIDE as WIDE_COLUMN
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.picture_data import picture_data
from minihlo.interp.conform.result import DIVERGENT, FAIL, PASS
from minihlo.interp.conform.verdicts.judge import judge
from minihlo.interp.judging.record import OF_GRADES
from minihlo.interp.oracle.expected import as_exact, expected
from minihlo.interp.oracle.formats import FORMATS, INTEGERS, code_dtype, integers
from minihlo.interp.oracle.rounding import Exact, encode

from .. import oracle

FLOATS = ("f64", "f32", "bf16", "f16")
WIDE = (*FLOATS, *INTEGERS, "i1")


def convert(source: str, target: str) -> Case:
    return Case("convert", (source,), target)


def test_every_pair_of_wide_types_is_asked() -> None:
    asked = {(c.operands[0], c.result) for c in cases.cases(1) if c.op == "convert"}
    assert asked >= {(s, t) for s in WIDE for t in WIDE if s != t}
    assert {c.column for c in cases.cases(1) if c.op == "convert" and set(c.operands + (c.result,)) <= set(WIDE)} == {
        WIDE_COLUMN
    }


def value(code: int, element: str) -> oracle.Value:
    if element in oracle.FORMATS:
        return oracle.decode(oracle.FORMATS[element], code)
    width, is_signed = INTEGERS.get(element, (1, False))
    return Fraction(code - (1 << width) if is_signed and code >> (width - 1) else code)


def right(code: int, source: str, target: str) -> int:
    """By the oracle of the tests; of an integer beyond an integer type its lowest bits."""
    number = value(code, source)
    if target in oracle.FORMATS:
        return oracle.encode(oracle.FORMATS[target], number)
    if target == "i1":
        return int(number != 0)
    width, is_signed = INTEGERS[target]
    if source not in oracle.FORMATS:
        return int(number) & ((1 << width) - 1)
    return oracle.to_integer(number, width, is_signed) & ((1 << width) - 1)


@pytest.mark.parametrize("source", WIDE)
def test_expected_codes_are_those_of_the_other_oracle(source: str) -> None:
    for target in WIDE:
        if target == source:
            continue
        case = convert(source, target)
        codes = data.operands(case, "array", 1, 0)[0]
        places = random.Random(case.signature).sample(range(len(codes)), min(len(codes), 150))
        found = expected(case, (codes[places],)).codes
        fmt = oracle.FORMATS.get(target)
        for code, got in zip(codes[places], found, strict=True):
            wanted = right(int(code), source, target)
            assert oracle.same(fmt, int(got), wanted) if fmt else int(got) == wanted, (case.signature, hex(code))


def through(case: Case, name: str) -> np.ndarray:
    """How many results differ where the operands are rounded to a format in between."""
    codes = data.operands(case, "array", 1, 0)
    wide, target = FORMATS[name], FORMATS[case.result]
    between = wide.decode(encode(wide, as_exact(codes[0], case.operands[0]))[0])
    twice, once = encode(target, Exact.of(between))[0], expected(case, codes).codes
    return np.flatnonzero((twice != once) & ~target.is_nan(once))


@pytest.mark.parametrize(
    ("source", "target", "between"),
    [
        *((s, "bf16", "f32") for s in ("f64", "i32", "i64", "ui32", "ui64")),
        *((s, "f32", "f64") for s in ("i64", "ui64")),
        ("f64", "f16", "f32"),
        ("f64", "bf16", "f16"),
        ("f32", "f16", "bf16"),
    ],
)
def test_operands_tell_two_roundings_from_one(source: str, target: str, between: str) -> None:
    assert len(through(convert(source, target), between)) > 100


@pytest.mark.parametrize("source", ["i64", "ui64", "i32"])
def test_integers_in_the_range_of_f16_fit_f32(source: str) -> None:
    """So that nothing is rounded twice: no operand can tell."""
    assert not len(through(convert(source, "f16"), "f32"))


@pytest.mark.parametrize(("source", "target"), [(s, t) for s in ("f64", "f32") for t in FLOATS if s != t])
def test_operands_stand_at_every_kind_of_boundary(source: str, target: str) -> None:
    fmt, goal = FORMATS[source], FORMATS[target]
    codes = data.operands(convert(source, target), "array", 1, 0)[0]
    numbers = fmt.decode(codes)
    for sign in (1.0, -1.0):
        assert ((numbers == 0) & (np.signbit(numbers) == (sign < 0))).any()
        assert (numbers == sign * np.inf).any()
        assert (np.isnan(numbers) & (np.signbit(numbers) == (sign < 0))).any()
        wanted = [goal.max, 2.0**goal.min_exponent] if goal.bits <= fmt.bits else [fmt.max]
        if goal.bits < fmt.bits:
            step = goal.max - float(goal.decode(np.array([goal.max_code - 1]))[0])
            least = float(goal.decode(np.array([1]))[0])
            wanted += [goal.max + step / 2, least, least / 2, least * 1.5]
            kind = np.dtype(f"f{fmt.bits // 8}").type
            wanted += [float(np.nextafter(kind(x), kind(y))) for x in wanted for y in (0.0, kind(fmt.max))]
            wanted += [goal.max + step] if goal.max + step < fmt.max else []
        missing = [w for w in wanted if not (numbers == sign * w).any()]
        assert not missing


@pytest.mark.parametrize("target", INTEGERS)
def test_fractions_stand_at_the_ends_of_integers(target: str) -> None:
    width, is_signed = INTEGERS[target]
    low, high = (-(2.0 ** (width - 1)), 2.0 ** (width - 1) - 1) if is_signed else (0.0, 2.0**width - 1)
    numbers = FORMATS["f64"].decode(data.operands(convert("f64", target), "array", 1, 0)[0])
    below = np.nextafter(high + 1, 0)
    for wanted in (low, low - 0.5, high, below, high + 1, -0.5, 0.5, 1.75, np.inf, -np.inf):
        assert (numbers == wanted).any(), wanted
    assert np.isnan(numbers).any()


def test_integer_overflow_of_conversions() -> None:
    codes = np.array([300, -129, 200, 127, -128], np.int64).view(np.uint64)
    found = expected(convert("i64", "i8"), (codes,))
    assert integers(found.codes, "i8").tolist() == [44, 127, -56, 127, -128]

    def verdicts(got: list[int]) -> list[str]:
        judged = judge("i8", np.array(got, np.int8).view(np.uint8), found)
        return [OF_GRADES[v] for v in judged.verdicts]

    assert verdicts([44, 127, -56, 127, -128]) == [PASS] * 5
    assert verdicts([127, -128, 127, 127, -128]) == [DIVERGENT] * 3 + [PASS] * 2
    assert verdicts([0, 1, 2, -128, 127]) == [FAIL] * 5


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", INTEGERS)
def test_integer_overflow(source: str, target: str) -> None:
    if source == target:
        return
    width, is_signed = INTEGERS[target]
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
    codes = data.operands(convert(source, target), "array", 1, 0)[0]
    found = expected(convert(source, target), (codes,))
    fits = [low <= int(value(int(c), source)) <= high for c in codes]
    assert (found.left_open == 0).tolist() == fits


def test_what_is_one_step_off_in_f64_is_wrong_by_one_step() -> None:
    case = convert("f32", "f64")
    codes = np.array([0x3F800001, 0x7F7FFFFF, 0xC0490FDB], np.uint32)
    part = Part(case, "array", (codes,))
    judged, _ = part.judge(part.expected.codes + np.array([1, -1, 1], np.int64).view(np.uint64), 0, False)
    assert judged.distances.tolist() == [1, 1, 1]
    assert judged.errors.tolist() == [1, -1, -1]
    assert code_dtype("f64") == np.uint64


def test_a_curve_of_booleans_is_of_integers() -> None:
    """So that its report can be read again."""
    part = Part(convert("i1", "f16"), "array", (np.array([False, True]),))
    judged, _ = part.judge(np.array([0x3C00, 0x3C00], np.uint16), 0, False)
    assert [type(c) for c in picture_data(part, judged)["curve"].codes] == [int, int]
