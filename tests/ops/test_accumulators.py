"""Accumulators: records as text and JSON, the table of units, and sums that are worked out by hand."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.accumulators import chips, units
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots

H100 = units.find("h100", "f8E4M3FN", "f8E4M3FN").record


@pytest.mark.parametrize("record", sorted({u.record for u in units.UNITS}, key=repr))
def test_a_record_survives_text_and_json(record: Accumulator) -> None:
    assert Accumulator.from_text(record.to_text()) == record
    assert Accumulator.from_text(record.to_text().replace(",", "; ")) == record
    assert Accumulator.from_json(record.to_json()) == record
    assert hash(Accumulator.from_text(record.to_text())) == hash(record)


def test_a_record_as_text() -> None:
    assert H100.to_text() == "step=32,bits=13,keep=f32:13,rounding=toward_zero,least=-133,nan=ones"
    assert Accumulator.from_text("step=0,keep=exact") == Accumulator(0, keep="exact")
    assert Accumulator.from_text("step=4,tree=yes,c=after,flush=results+operands").flush == ("operands", "results")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "accumulator: expected name=value"),
        ("step", "expected name=value with a name of step, take, bits"),
        ("steps=3", "expected name=value with a name of step"),
        ("step=3,step=4", "step: expected one value, got a second, '4'"),
        ("step=-1", "step: expected an integer from 0 to 1048576, got -1"),
        ("step=x", "step: expected an integer from 0 to 1048576, got 'x'"),
        ("bits=46", "bits: expected an integer from 0 to 45 or exact, got 46"),
        ("step=1024,bits=45", "bits: expected at most 39 for a step of 1024, got 45"),
        ("keep=f8", "keep: expected exact, or f32, f16, bf16 or f64"),
        ("keep=f32:24", "keep: expected exact"),
        ("keep=exact", "keep: expected step=0, bits=exact"),
        ("drop=odd", "drop: expected one of zero, floor, sticky, nearest_even, got 'odd'"),
        ("take=3of4", "take: expected consecutive, or NofM"),
        ("take=2of4,step=3", "take: expected a step that 2 divides, got 3"),
        ("c=before", "c: expected one of aligned, after, joined, got 'before'"),
        ("step=4,c=after,group=6", "group: expected a multiple of the 4 products"),
        ("step=4,outer=6", "outer: expected a multiple of the 4 products"),
        ("step=4,group=4", "group: expected c=after, got c=aligned"),
        ("tree=yes", "tree: expected c=after"),
        ("tree=maybe", "tree: expected yes or no, got 'maybe'"),
        ("flush=inputs", "flush: expected one of operands, c, results, got 'inputs'"),
        ("c=joined,bits=24", "sum_bits, c_bits: expected numbers with c=joined"),
        ("c_bits=3", "sum_bits, c_bits, c_reach: expected c=joined, got c=aligned"),
        ("even_odd=yes,bits=24", "even_odd: expected c=after or c=joined"),
    ],
)
def test_a_record_that_is_not_valid_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        Accumulator.from_text(text)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["[1]", "{", '{"steps": 1}', '{"step": true}', '{"step": 1.5}', '{"flush": "c"}'])
def test_json_that_is_not_a_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected .*, got"):
        Accumulator.from_json(text)


@pytest.mark.parametrize(
    ("name", "lhs", "rhs", "result", "instruction", "step", "bits"),
    [
        ("v100", "f16", "f16", "f32", "mma", 4, 23),
        ("a100", "tf32", "tf32", "f32", "mma", 4, 24),
        ("h100", "f8E4M3FN", "f8E5M2", "f32", "wgmma", 32, 13),
        ("hopper.wgmma", "f16", "f16", "f32", "wgmma", 16, 25),
        ("h100", "f8E5M2", "f8E5M2", "f16", "mma", 16, 25),
        ("b200", "f8E5M2", "f8E4M3FN", "f32", "mma", 32, 25),
        ("mi300x", "f8E5M2FNUZ", "f8E4M3FNUZ", "f32", "mfma", 16, 24),
    ],
)
def test_a_unit_is_found_by_name_and_types(
    name: str, lhs: str, rhs: str, result: str, instruction: str, step: int, bits: int
) -> None:
    unit = units.find(name, lhs, rhs, result)
    assert (unit.instruction, unit.record.step, unit.record.bits) == (instruction, step, bits)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("h300", "f16", "f16"), "unit: expected a chip or its instruction"),
        (("h100.tcgen05", "f16", "f16"), "unit: expected an instruction of h100 (mma, wgmma), got 'h100.tcgen05'"),
        (("a100", "f8E5M2", "f8E5M2"), "a100: expected operands of f16 into f16, f16 or bf16 into f32, tf32 into f32"),
        (("h100", "f16", "bf16"), "got f16 and bf16 into f32"),
    ],
)
def test_what_is_no_unit_is_refused(arguments: tuple[str, str, str], message: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        units.find(*arguments)
    assert message in str(caught.value)


def test_every_row_says_what_it_rests_on() -> None:
    for unit in units.UNITS:
        assert unit.basis in (units.MEASURED, units.TWO, units.ONE)
        assert unit.sources
        assert set(unit.sources) <= set(chips.SOURCES)
        assert set(unit.chips) <= set(chips.CHIPS)
        assert (unit.basis == units.ONE) <= (len(unit.sources) == 1)


def dot(record: Accumulator, a: list[float], b: list[float], c: float | None = None, name: str = "f8E4M3FN") -> float:
    dtype = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f16": np.float16, "f32": np.float32}[name]
    start = None if c is None else np.array(c)
    return float(dots(record, np.array(a, dtype), np.array(b, dtype), name, name, start))


def test_alignment_cuts_at_the_bits_that_are_kept() -> None:
    # 448 * 256 has exponent 8 + 8 = 16: what is below 2**(16 - 13) = 8 is cut off, each product by itself.
    assert dot(H100, [448, 2.5], [256, 3]) == 448 * 256
    assert dot(H100, [448, 5, 5], [256, 3, 3]) == 448 * 256 + 8 + 8
    assert dot(H100, [448, -5], [256, 3]) == 448 * 256 - 8  # toward zero
    floor = dataclasses.replace(H100, drop="floor")
    assert dot(floor, [448, -5], [256, 3]) == 448 * 256 - 16
    sticky = dataclasses.replace(H100, drop="sticky", keep="f32")
    assert dot(sticky, [448, 5], [256, 3]) == 448 * 256 + 8 + 4
    nearest = dataclasses.replace(H100, drop="nearest_even", keep="f32")
    assert dot(nearest, [448, 5], [256, 3]) == 448 * 256 + 16


def test_a_product_is_not_normalised_unless_the_record_says_so() -> None:
    # 1.75 * 1.75 = 3.0625 has exponent 0 as a product, 1 once it is normalised. 2**-13 is one unit, or half of one.
    assert dot(H100, [1.75, 2**-6], [1.75, 2**-7]) == 3.0625 + 2**-13 - 2**-13 % 2**-12  # the form keeps 13 bits
    wide = dataclasses.replace(H100, keep="f32")
    assert dot(wide, [1.75, 2**-6], [1.75, 2**-7]) == 3.0625 + 2**-13
    assert dot(dataclasses.replace(wide, normalise=True), [1.75, 2**-6], [1.75, 2**-7]) == 3.0625


def test_the_second_step_takes_the_first_ones_sum() -> None:
    record = Accumulator(2, bits=4, keep="f16", rounding="toward_zero")
    assert dot(record, [16, 16, 1, 1], [1, 1, 1, 1], name="f16") == 32  # 1 is below 2**(5 - 4)
    assert dot(record, [1, 1, 16, 16], [1, 1, 1, 1], name="f16") == 34
    assert dot(dataclasses.replace(record, take="1of2"), [16, 1, 16, 1], [1] * 4, name="f16") == 32
    assert dot(dataclasses.replace(record, c="after"), [16, 16, 1, 1], [1] * 4, name="f16") == 34
    assert dot(dataclasses.replace(record, outer=2), [16, 16, 1, 1], [1] * 4, name="f16") == 34
    assert dot(dataclasses.replace(record, step=0), [16, 16, 1, 1], [1] * 4, name="f16") == 34


def test_exact_and_f32_in_order_are_records_too() -> None:
    exact = Accumulator(0, keep="exact")
    assert dot(exact, [2**15, 2**-14, -(2**15)], [2**15, 2**-14, 2**15], name="f16") == 2.0**-28
    in_order = Accumulator(1)
    a, b = [1.0, 2.0**-12, 2.0**-12], [1.0, 2.0**-12, 2.0**-12]
    assert dot(in_order, a, b, name="f16") == 1  # each is half an ulp: to even
    assert dot(Accumulator(0, tree=True, c="after"), a, b, name="f16") == 1 + 2.0**-23


def test_special_values() -> None:
    nan, inf = float("nan"), float("inf")
    record = units.find("h100", "f16", "f16").record
    assert np.isnan(dot(record, [inf, 0], [0, 1], name="f16"))
    assert np.isnan(dot(record, [inf, -inf], [1, 1], name="f16"))
    assert dot(record, [inf, 1], [-1, 1], name="f16") == -inf
    assert np.isnan(dot(record, [1], [1], nan, name="f16"))
    code = dots(record, np.array([nan], np.float16), np.ones(1, np.float16), "f16", "f16").view(np.uint32)
    assert code == 0x7FFFFFFF
    zero = dots(record, np.array([-0.0], np.float16), np.ones(1, np.float16), "f16", "f16", np.array(-0.0))
    assert zero.view(np.uint32) == 0
    assert dot(record, [65504], [65504], 3.4028234663852886e38, name="f16") == 3.4028234663852886e38
    largest = dataclasses.replace(record, keep="f16")
    assert dot(largest, [256], [256], name="f16") == inf
    assert dot(dataclasses.replace(largest, overflow="largest"), [-256], [256], name="f16") == -65504
    assert np.isnan(dot(dataclasses.replace(largest, overflow="nan"), [256], [256], name="f16"))


def test_shapes() -> None:
    a = np.ones((3, 1, 40), np.float16)
    assert dots(H100, a, np.ones((5, 40), np.float16), "f16", "f16").shape == (3, 5)
    assert dots(H100, np.ones(0, np.float16), np.ones(0, np.float16), "f16", "f16", np.array(3.0)) == 3
    assert dots(H100, np.ones((0, 4), np.float16), np.ones(4, np.float16), "f16", "f16").shape == (0,)
    with pytest.raises(ValueError, match="equal last axes, got shapes"):
        dots(H100, a, np.ones(3, np.float16), "f16", "f16")
    with pytest.raises(ValueError, match="up to 32 bits, or tf32, got f64"):
        dots(H100, np.ones(3), np.ones(3), "f64", "f64")


def test_a_subnormal_c_that_is_flushed_keeps_its_sign() -> None:
    record = Accumulator(2, tree=True, c="after", keep="f32", flush=("c", "results"))
    tiny = np.array([-(2.0**-70), -(2.0**-80)], np.float32), np.full(2, 2.0**-80, np.float32)
    for c in (-0.0, -(2.0**-140)):  # both products are -0, and so are their sum and c
        result = dots(record, *tiny, "f32", "f32", np.array(c))
        assert result == 0
        assert np.signbit(result)


@pytest.mark.parametrize("code", [0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize(
    "text",
    [
        "step=4,bits=20,keep=f16",
        "step=4,keep=bf16",
        "step=4,bits=9,keep=f32:3",
        "step=2,tree=yes,c=after,keep=f16",
        "step=1,rounding=up,keep=f16,overflow=largest",
    ],
)
def test_nan_stays_nan_whatever_its_bits_are(text: str, code: int) -> None:
    """NVIDIA's own NaN is 0x7FFFFFFF."""
    record, zeros = Accumulator.from_text(text), np.zeros((1, 4), np.float32)
    nan = np.array([code], np.uint32).view(np.float32)
    assert np.isnan(dots(record, zeros, zeros, "f32", "f32", nan)).all()
    assert np.isnan(dots(record, zeros, np.full((1, 4), nan), "f32", "f32")).all()
