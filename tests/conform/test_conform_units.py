"""Sums as units of chips, or given records, form them are named."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minihlo.interp.backends import backend
from minihlo.interp.conform.result import DIVERGENT, FAIL, PASS
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import Exact
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots

from ..thinned import rotated
from .products_planted import Backend, Codes, Sums, record, run, verdicts

HOPPER = Accumulator(32, bits=13, keep="f32:13", rounding="toward_zero", least=-133, nan="ones")


def aligned(step: int, bits: int, kept: int) -> Sums:
    """A unit of NVIDIA's a second time, in Python's fractions, from the published description: products and the sum so
    far are cut off below so many bits of the largest exponent, added, and cut off to so many bits.
    """

    def exponent(value: Fraction) -> int:
        found = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
        return found if abs(value) >= Fraction(2) ** found else found - 1

    def cut(value: Fraction, unit: Fraction) -> Fraction:
        whole = abs(value) // unit
        return unit * (whole if value >= 0 else -whole)

    def factor(value: float, fmt: Any) -> tuple[Fraction, int]:
        exact = Fraction(value)
        return exact, max(exponent(exact), fmt.min_exponent) if exact else 0

    def one(x: Sequence[float], y: Sequence[float], formats: Sequence[Any]) -> float:
        total = Fraction(0)
        for first in range(0, len(x), step):
            of = [(Fraction(total), exponent(total))] if total else []
            for a, b in zip(x[first : first + step], y[first : first + step], strict=True):
                (p, e), (q, f) = factor(a, formats[0]), factor(b, formats[1])
                of += [(p * q, e + f)] if p * q else []
            if not of:
                continue
            unit = Fraction(2) ** (max(e for _, e in of) - bits)
            total = sum((cut(v, unit) for v, _ in of), Fraction(0))
            total = cut(total, Fraction(2) ** (exponent(total) - kept)) if total else total
        return float(total)

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        formats = [FORMATS[t] for t in types]
        a, b = (f.decode(c) for f, c in zip(formats, (x, y), strict=True))
        with np.errstate(all="ignore"):
            special = (a * b).sum(axis=1)
        found = [
            s if not np.isfinite(s) else one(p, q, formats)
            for s, p, q in zip(special.tolist(), a.tolist(), b.tolist(), strict=True)
        ]
        return Exact.of(np.array(found))

    return sums


def promoted(count: int) -> Sums:
    """Sums of so many products as Hopper forms them, which are added up in f32."""

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        total = np.zeros(len(x), np.float32)
        with np.errstate(all="ignore"):
            for first in range(0, x.shape[1], count):
                some = slice(first, first + count)
                total += dots(HOPPER, x[:, some], y[:, some], *types)
        return Exact.of(total.astype(np.float64))

    return sums


_CDNA3 = Accumulator(
    16, bits=24, even_odd=True, c="joined", sum_bits=31, c_bits=24, c_reach=25, join="floor", product_limit=128
)
UNITS: dict[str, tuple[Sums, str, str]] = {
    "Hopper": (aligned(32, 13, 13), "dot_general.f8E4M3FN.f32", "h100.wgmma"),
    "Hopper, mixed": (aligned(32, 13, 13), "dot_general.f8E4M3FN.f8E5M2.f32", "h100.wgmma"),
    "Hopper, convolution": (aligned(32, 13, 13), "convolution.f8E5M2.f32", "h100.wgmma"),
    "Hopper, into f8": (record(HOPPER), "dot_general.f8E4M3FN", "h100.wgmma"),
    "Hopper, f16": (aligned(16, 25, 23), "dot_general.f16.f32", "h100.mma"),
    "Volta, into f16, with sums that round to -0": (
        record(Accumulator(4, bits=23, keep="f16", least=-19, nan="ones")), "dot_general.f16", "v100.mma",
    ),
    "Ada": (aligned(16, 13, 13), "dot_general.f8E5M2.f32", "ada.mma"),
    "Ampere, bf16 into bf16": (
        record(Accumulator(8, bits=24, keep="f32", rounding="toward_zero", least=-132, nan="ones")),
        "dot_general.bf16",
        "a100.mma",
    ),
    "Blackwell": (
        record(Accumulator(32, bits=25, c="after", keep="f32", rounding="toward_zero", least=-133, nan="ones")),
        "dot_general.f8E4M3FN.f32",
        "b200.mma",
    ),
    "CDNA3": (record(_CDNA3), "dot_general.f8E4M3FNUZ.f32", "cdna3.mfma"),
    "blocks of 128 in f32": (
        promoted(128), "dot_general.f8E4M3FN.f32", "h100.wgmma, h200.wgmma, in f32 after every 128 products"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", rotated(UNITS, every=2))
def test_a_unit_is_told_by_name(name: str) -> None:
    sums, signature, told = UNITS[name]
    only = ("length-8", "length-64", "transposed") if "blocks" not in name else ("length-1000",)
    found = run(Backend(sums), signature, only)
    assert set(verdicts(found).values()) <= {PASS, DIVERGENT}, [(r.form, r.model) for r in found]
    models = {r.model for r in found if r.verdict == DIVERGENT}
    assert models
    assert all(told in m for m in models), models
    assert all(r.accumulator and r.accumulator.record for r in found if r.verdict == DIVERGENT)


def test_a_record_that_is_given_explains() -> None:
    given = Accumulator(12, bits=9, keep="f32:11", rounding="toward_zero")
    signature = "dot_general.f8E4M3FN.f32"
    forms = ("length-8", "length-64", "transposed")
    found = run(Backend(record(given)), signature, forms, accumulators=(given.to_text(),))
    assert {r.verdict for r in found} <= {PASS, DIVERGENT}
    assert {r.model for r in found if r.verdict == DIVERGENT} == {f"summed as the given record: {given.to_text()}"}
    assert FAIL in verdicts(run(Backend(record(given)), signature, ("length-64", "transposed"))).values()


def test_two_shapes_that_need_different_records_are_told() -> None:
    wide, narrow = Accumulator(32, bits=25, keep="f32", rounding="toward_zero"), HOPPER

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        record = narrow if x.shape[1] >= 64 else wide
        return Exact.of(dots(record, x, y, *types).astype(np.float64))

    found = {r.form: r for r in run(Backend(sums), "dot_general.f8E5M2.f32")}
    assert found["length-1000"].verdict == found["transposed"].verdict == DIVERGENT
    assert "other shapes need another record" in found["length-1000"].model
    assert "h100.wgmma" in found["length-1000"].model.partition(";")[0]
    assert "h100.wgmma" in found["transposed"].model.partition(";")[2]


def test_xla_on_cpus_rounds_sums_of_f8_twice() -> None:
    """To f16 and then to the format, which was measured on dense operands: never PASS, and no fault of sums."""
    made = backend("jax:cpu")
    try:
        found = run(made, "dot_general.f8E4M3FN", ("length-64",))
    finally:
        made.close()
    assert [(r.verdict, r.model) for r in found] == [(DIVERGENT, "exact, then rounded to f16")]
