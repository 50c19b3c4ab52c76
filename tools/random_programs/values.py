"""Random numbers of every element type, with the ones that break things among them."""

from __future__ import annotations

import numpy as np

from minihlo.ops.types import ElementType, Kind

#: "any": special values, small numbers and random bits; "small": integers whose sums and products are mostly exact;
#: "tame": finite numbers around 1; "positive": such above 0.
MOODS = ("any", "small", "tame", "positive")


def random_array(rng: np.random.Generator, shape: tuple[int, ...], t: ElementType, mood: str = "any") -> np.ndarray:
    if t.kind is Kind.BOOL:
        return rng.random(shape) < 0.5
    if t.is_complex:
        x = np.empty(shape, t.dtype)
        x.real, x.imag = (random_array(rng, shape, t.part, mood) for _ in range(2))
        return x
    return _integers(rng, shape, t, mood) if t.is_integer else _floats(rng, shape, t, mood)


def _integers(rng: np.random.Generator, shape: tuple[int, ...], t: ElementType, mood: str) -> np.ndarray:
    low = -(1 << (t.bits - 1)) if t.kind is Kind.SIGNED else 0
    high = low + (1 << t.bits) - 1
    small = rng.integers(max(low, -3, 1 if mood == "positive" else low), min(high, 3), shape, endpoint=True)
    if mood == "any":
        special = rng.choice(np.array([low, high, 0, 1, high - 1, low + 1], object), shape)
        wide = rng.integers(low, high, shape, endpoint=True, dtype=np.int64 if low else np.uint64).astype(object)
        small = np.choose(rng.integers(0, 3, shape), [small.astype(object), special, wide])
    return np.asarray(small, object).astype("i8" if low else "u8").astype(_storable(t)).astype(t.dtype)


def _storable(t: ElementType) -> str:
    return ("i" if t.kind is Kind.SIGNED else "u") + str(max(t.bits // 8, 1))


def _floats(rng: np.random.Generator, shape: tuple[int, ...], t: ElementType, mood: str) -> np.ndarray:
    small = rng.integers(1 if mood == "positive" or not t.format.is_signed else -3, 4, shape).astype(np.float32)
    if mood == "small":
        return small.astype(t.dtype)
    normal = rng.standard_normal(shape)
    if mood == "positive" or not t.format.is_signed:
        normal = np.abs(normal) + 0.25
    if mood != "any":
        return np.where(rng.random(shape) < 0.3, small, normal).astype(np.float32).astype(t.dtype)
    scaled = normal * np.exp2(rng.integers(-6, 7, shape))
    numbers = np.where(rng.random(shape) < 0.4, small, scaled).astype(np.float32).astype(t.dtype)
    bits = rng.integers(0, 1 << t.bits, shape, dtype=np.uint64)
    chosen = np.where(rng.random(shape) < 0.5, rng.choice(_special_codes(t), shape), bits)
    chosen = np.asarray(chosen.astype(f"u{t.dtype.itemsize}")).view(t.dtype)
    return np.asarray(np.where(rng.random(shape) < (0.4 if t.bits <= 16 else 0.25), chosen, numbers))


def _special_codes(t: ElementType) -> np.ndarray:
    f = t.format
    one_up = 1 << f.mantissa_bits
    result = [0, 1, one_up - 1, one_up, f.max_code, f.max_code - 1, (1 << t.bits) - 1, (1 << (t.bits - 1)) - 1]
    result += [c for c in (f.infinity_code, f.nan_code) if c is not None]
    if f.is_signed:
        sign = 1 << (t.bits - 1)
        result += [c ^ sign for c in result] + [sign | c for c in (0, one_up)]
    return np.array(sorted(set(result)), np.uint64)
