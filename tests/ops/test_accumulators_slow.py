"""Every unit, and records of every kind, against a second implementation in fractions."""

import itertools
from typing import Any

import numpy as np
import pytest

from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.accumulators.units import UNITS
from minihlo.ops.minifloat.formats import FORMATS

from ..thinned import rotated, thinned
from .slow_accumulator import Slow

F32 = np.dtype(np.float32)


def numbers(codes: np.ndarray, name: str) -> np.ndarray:
    """Codes of a type as f64."""
    fmt = FORMATS["f32" if name == "tf32" else name]
    codes = codes.astype(fmt.code_dtype)
    if name == "tf32":
        codes &= np.uint32(0xFFFFE000)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return codes.view(fmt.dtype).astype(np.float64)


def operands(rng: np.random.Generator, name: str, shape: tuple[int, int], kind: int) -> np.ndarray:
    """Codes: any at all, finite ones of any exponent, near to each other, subnormal, of the largest, or small."""
    fmt = FORMATS["f32" if name == "tf32" else name]
    mantissa = fmt.mantissa_bits
    fields = fmt.max_code >> mantissa
    sign = rng.integers(0, 2, shape) * fmt.sign_bit
    fraction = rng.integers(0, 1 << mantissa, shape)
    if kind == 0:
        return rng.integers(0, 1 << fmt.bits, shape)
    if kind == 1:
        field = rng.integers(0, fields + 1, shape)
    elif kind == 2:
        middle = (fields + 1) // 2
        field = np.clip(rng.integers(middle - 3, middle + 4, shape), 0, fields)
    elif kind == 3:
        field = rng.integers(0, 2, shape) * rng.integers(0, 3, shape) % (fields + 1)
    elif kind == 4:
        field = np.maximum(fields - rng.integers(0, 2, shape), 0)
    else:
        field = np.clip(rng.integers(0, 3, shape) * (fields // 3) + rng.integers(0, 2, shape), 0, fields)
    magnitude = np.minimum((field << mantissa) + fraction, fmt.max_code)
    magnitude[rng.random(shape) < 0.1] = 0
    codes = magnitude | sign
    # FNUZ: the code of -0 is NaN
    return np.where((codes == fmt.sign_bit) & (not fmt.has_negative_zero), 0, codes)


def starts(rng: np.random.Generator, count: int, kind: int) -> np.ndarray:
    """Values of c of all magnitudes, with zeros of both signs, subnormals, infinities and NaN."""
    codes = rng.integers(0, 1 << 32, count, np.uint32)
    found = codes.view(np.float32).copy()
    usual = (rng.standard_normal(count) * 2.0 ** rng.integers(-30, 20, count)).astype(np.float32)
    found = np.where(rng.random(count) < (0.2 if kind else 0.5), found, usual)
    found[rng.random(count) < 0.2] = 0
    found[rng.random(count) < 0.05] = -0.0
    with np.errstate(invalid="ignore"):
        found[rng.random(count) < 0.05] *= np.float32(2.0**-130)
    found[rng.random(count) < 0.03] = np.inf
    found[rng.random(count) < 0.03] = -np.inf
    found[rng.random(count) < 0.03] = np.nan
    return found


def check(record: Accumulator, a_type: str, b_type: str, count: int, seed: int, scale: tuple[str, int] | None) -> None:
    rng = np.random.default_rng(seed)
    slow = Slow(record, a_type, b_type)
    for kind in range(6):
        length = int(rng.choice([1, 3, max(record.step, 1), 2 * max(record.step, 8) + 1, 70]))
        if kind == 2:
            length = 2 * max(record.step, 16)
        some = -(-count // 6)
        a, b = (operands(rng, t, (some, length), kind) for t in (a_type, b_type))
        c = starts(rng, some, kind)
        extra: dict[str, Any] = {}
        scales: tuple[Any, Any] = (None, None)
        if scale is not None:
            blocks = -(-length // scale[1])
            fmt = FORMATS[scale[0]]
            codes = [rng.integers(0, 256, (some, blocks)).astype(np.uint8) for _ in range(2)]
            if fmt.name == "f8E8M0FNU":  # most of them such that sums are finite
                codes = [np.where(rng.random(v.shape) < 0.9, v % 16 + 119, v).astype(np.uint8) for v in codes]
            extra = {"a_scales": codes[0], "b_scales": codes[1], "scale_type": scale[0], "block": scale[1]}
            scales = (numbers(codes[0], scale[0]), numbers(codes[1], scale[0]))
        names = [FORMATS["f32" if t == "tf32" else t].code_dtype for t in (a_type, b_type)]
        got = dots(record, a.astype(names[0]), b.astype(names[1]), a_type, b_type, c, **extra)
        xs, ys = numbers(a, a_type), numbers(b, b_type)
        for i in range(some):
            form = (FORMATS[scale[0]].mantissa_bits, FORMATS[scale[0]].bias) if scale else (0, 127)
            s = [None if v is None else v[i].tolist() for v in scales]
            wanted = slow.dot(xs[i].tolist(), ys[i].tolist(), float(c[i]), s[0], s[1], form, scale[1] if scale else 32)
            right = np.array(wanted, got.dtype)
            same = (np.isnan(right) and np.isnan(got[i])) or right.tobytes() == got[i].tobytes()
            assert same, (
                f"{record.to_text()}\na {xs[i].tolist()}\nb {ys[i].tolist()}\nc {c[i]!r} scales {s}\n"
                f"expected {wanted!r}, got {got[i]!r}"
            )


def cases() -> list[Any]:
    """Each record of a unit once, with the pairs of types and the scales it is for, and how many these are.

    The first and the last of these are in every run.
    """
    found = {}
    for unit in UNITS:
        pairs = list(itertools.product(unit.operands, repeat=2) if unit.mixed else [(t, t) for t in unit.operands])
        scales = unit.scales or (None,)
        for (a, b), scale in itertools.product(pairs, scales):
            name = f"{unit.chips[0]}.{unit.instruction}-{a}-{b}-{unit.result}" + (
                f"-{scale[0]}-{scale[1]}" if scale else ""
            )
            several = len(pairs) * len(scales)
            ends = (pairs[0], scales[0]), (pairs[-1], scales[-1])
            marks = [] if ((a, b), scale) in ends else [pytest.mark.exhaustive]
            key = unit.record, a, b, scale
            if key not in found or (found[key].marks and not marks):
                found[key] = pytest.param(*key, several, id=name, marks=marks)
    return list(found.values())


@pytest.mark.parametrize(("record", "a", "b", "scale", "several"), cases())
def test_a_unit_agrees_with_fractions(
    record: Accumulator, a: str, b: str, scale: tuple[str, int] | None, several: int
) -> None:
    check(record, a, b, max(150 // several, 40), 1, scale)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("record", "a", "b", "scale", "several"), cases())
def test_a_unit_agrees_with_fractions_on_10_000_dots(
    record: Accumulator, a: str, b: str, scale: tuple[str, int] | None, several: int
) -> None:
    """So many for all types of the unit together."""
    check(record, a, b, 10_000 // several, 2, scale)


RECORDS = [
    "step=0,keep=exact",
    "step=1",
    "step=1,rounding=toward_zero",
    "step=3,rounding=down",
    "step=5,rounding=up,keep=f16",
    "step=4,keep=bf16,outer=16",
    "step=4,keep=f64",
    "step=2,keep=f64,rounding=toward_zero",
    "step=8,bits=10,normalise=yes,drop=floor,keep=f32:9",
    "step=8,bits=10,drop=sticky,keep=f32,least=-20",
    "step=8,bits=12,drop=nearest_even,keep=f16,overflow=largest,nan=ones",
    "step=8,take=1of4,bits=20,keep=bf16,overflow=nan",
    "step=8,take=4of8,bits=20,c=after,group=32,keep=f32:13,rounding=toward_zero",
    "step=4,bits=20,c=after,group=8,outer=32,flush=operands+c+results",
    "step=0,tree=yes,c=after",
    "step=8,tree=yes,c=after,keep=f16,rounding=down,flush=results",
    "step=6,tree=yes,c=after,keep=f64",
    "step=8,bits=24,even_odd=yes,c=after,join=sticky,keep=f16",
    "step=8,bits=24,c=joined,sum_bits=20,c_bits=12,c_reach=15,join=zero,rounding=toward_zero",
    "step=4,bits=24,even_odd=yes,c=joined,sum_bits=28,c_bits=24,join=nearest_even,product_limit=20",
    "step=0,bits=15,keep=f32:20",
    "step=16,bits=0,keep=f32",
    "step=16,bits=43,keep=f64:40",
]


TYPES = [("f8E4M3FN", "f8E5M2"), ("f16", "f16"), ("bf16", "f4E2M1FN"), ("f8E4M3FNUZ", "f6E3M2FN")]


@pytest.mark.parametrize(
    ("text", "types"),
    thinned(itertools.product(RECORDS, TYPES), lambda text, types: (RECORDS.index(text) + TYPES.index(types)) % 2 == 0),
)
def test_a_record_agrees_with_fractions(text: str, types: tuple[str, str]) -> None:
    check(Accumulator.from_text(text), *types, 30, 3, None)


@pytest.mark.parametrize("text", rotated(RECORDS, every=2))
def test_positions_that_are_zero_in_all_dots(text: str) -> None:
    """Steps of zeros are left out where they change nothing: whole runs of them, before, between and after others."""
    record, name, count, k = Accumulator.from_text(text), "f8E5M2", 8, 70
    slow, rng = Slow(record, name, name), np.random.default_rng(4)
    for kind in range(6):
        a, b = (operands(rng, name, (count, k), kind).astype(np.uint8) for _ in range(2))
        for side in (a, b):
            for _ in range(rng.integers(0, 4)):
                first = rng.integers(0, k)
                side[:, first : first + rng.integers(1, 40)] = 0
        c = starts(rng, count, kind) if kind % 2 else None
        got = dots(record, a, b, name, name, c)
        for i, (x, y) in enumerate(zip(numbers(a, name).tolist(), numbers(b, name).tolist(), strict=True)):
            wanted = np.array(slow.dot(x, y, 0.0 if c is None else float(c[i])), got.dtype)
            same = (np.isnan(wanted) and np.isnan(got[i])) or wanted.tobytes() == got[i].tobytes()
            assert same, f"{text}\na {x}\nb {y}\nc {c if c is None else c[i]!r}\nexpected {wanted!r}, got {got[i]!r}"


def test_the_second_implementation_is_not_the_first() -> None:
    """It finds gross faults: another number of bits, a step too short, another rounding."""
    record = Accumulator.from_text("step=16,bits=13,keep=f32:13,rounding=toward_zero,least=-133")
    for wrong in ("bits=14,keep=f32:14,step=16,rounding=toward_zero", "bits=13,keep=f32:13,step=8,rounding=toward_zero",
                  "step=16,bits=13,keep=f32:13"):  # fmt: skip
        rng = np.random.default_rng(0)
        a, b = (operands(rng, "f8E4M3FN", (200, 32), 2).astype(np.uint8) for _ in range(2))
        got = dots(Accumulator.from_text(wrong), a, b, "f8E4M3FN", "f8E4M3FN").astype(np.float64)
        slow = Slow(record, "f8E4M3FN", "f8E4M3FN")
        wanted = [
            slow.dot(numbers(a[i], "f8E4M3FN").tolist(), numbers(b[i], "f8E4M3FN").tolist()) for i in range(len(a))
        ]
        assert (got != np.array(wanted)).any()
