"""Integers are rounded once to floats, and floats cut to integers, few and many at a time."""

import math
from fractions import Fraction

import numpy as np
import pytest

from minihlo.ops import cast
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle


def integers(name: str) -> list[int]:
    """The ends of the type, and what lies near powers of two and halfway between numbers of fewer bits."""
    bits, is_signed = int(name.lstrip("ui")), name.startswith("i")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    near = {least, least + 1, most, most - 1, 0}
    for power in range(bits + 1):
        for below in (2, 3, 4, 8, 9, 11, 12, 24, 25):
            half = (1 << power) + (1 << max(power - below, 0))
            near |= {sign * (half + step) for step in (-1, 0, 1) for sign in (1, -1)}
    return sorted(n for n in near if least <= n <= most)


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f8E5M2", "f8E4M3FN"])
@pytest.mark.parametrize("source", ["i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_integers_are_rounded_once(source: str, target: str) -> None:
    numbers, fmt = integers(source), oracle.FORMATS[target]
    old, new = ELEMENT_TYPES[source], ELEMENT_TYPES[target]
    for rounding in ("nearest_even", "toward_zero", "up", "down"):
        x = np.resize(np.array(numbers, old.dtype), 150_000)  # in blocks, and by what takes many at a time
        with np.errstate(over="ignore"):
            actual = cast.cast(x, old, new, Policy(rounding=rounding)).view(f"u{new.dtype.itemsize}")[: len(numbers)]
        wanted = [oracle.encode(fmt, Fraction(n), rounding) for n in numbers]
        assert actual.tolist() == wanted, rounding


@pytest.mark.parametrize("target", ["i4", "ui4", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_cut_to_the_nearest_integer_of_the_type(dtype: type, target: str) -> None:
    near = np.array(integers(target), np.float64).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf)), near + dtype(0.5)])
    x = np.concatenate([x, np.array([np.nan, np.inf, -np.inf, -0.0, -0.5, 1e30, -1e30], dtype)])
    new, every = ELEMENT_TYPES[target], integers(target)
    source = ELEMENT_TYPES[f"f{8 * x.itemsize}"]
    wanted = [0 if math.isnan(v) else min(max(v, every[0]), every[-1]) for v in x.tolist()]
    actual = cast.cast(np.resize(x, 150_000), source, new, Policy())[: len(x)]
    assert [int(v) for v in actual] == [int(v) for v in wanted]


def test_many_f16_are_converted_as_by_numpy() -> None:
    """All f16, and all f32 that differ before the bits that decide a tie, with something behind these and nothing."""
    f16, f32 = ELEMENT_TYPES["f16"], ELEMENT_TYPES["f32"]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = cast.cast(halves, f16, f32, Policy())
    assert np.array_equal(wide.view(np.uint32), halves.astype(np.float32).view(np.uint32))
    for behind in (0, 1, 0x7FF):
        x = (np.arange(1 << 21, dtype=np.uint32) << 11 | behind).view(np.float32)
        with np.errstate(all="ignore"):
            wanted = x.astype(np.float16)
        assert np.array_equal(cast.cast(x, f32, f16, Policy()).view(np.uint16), wanted.view(np.uint16))
