"""Operands of conversions: numbers of the target, midpoints, their neighbours, and the ends of both types."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from ...oracle.formats import ALL_MINIFLOATS, FORMATS, INTEGERS, Format, code_dtype

#: Steps of f64 beside a boundary: the next numbers, numbers that f32 (29 bits less) rounds to it, and ties of f32.
_OF_F64 = (-(1 << 30), -(1 << 28), -3, -1, 0, 1, 3, 1 << 28, 1 << 30)


@functools.cache
def boundaries(target: str) -> np.ndarray:
    """The non-negative numbers of a minifloat, the midpoints of neighbours, and numbers beyond the largest."""
    fmt = FORMATS[target]
    own = fmt.decode(np.arange(fmt.max_code + 1))
    own = np.append(own, 2 * own[-1] - own[-2] if fmt.has_zero else 2 * own[-1])
    if fmt.has_zero:
        return np.concatenate([own, (own[1:] + own[:-1]) / 2])
    return np.concatenate([[0.0, 2.0**-128, 2.0**-149, 2.0**-150], own, (own[1:] + own[:-1]) / 2])


def near(source: str, target: str, is_full: bool) -> np.ndarray:
    """The codes of a type of more than 16 bits at and near which a conversion to another type changes its result.

    For targets of 16 bits and more there are a few in each binade; with `is_full`, all of them for targets of 16 bits.
    """
    if source in FORMATS:
        return _floats(FORMATS[source], target, is_full)
    width, is_signed = INTEGERS[source]
    low, high = _limits(source)
    codes = {low, low + 1, high - 1, high}
    if target in ALL_MINIFLOATS:
        codes |= _integers_at(boundaries(target))
    elif target in FORMATS:
        codes |= _integers_by_binades(FORMATS[target], width, is_full)
    else:
        codes |= _integers_at_powers(target)
    codes |= {-n for n in codes}
    kept = sorted(n for n in codes if low <= n <= high)
    return np.array([n & ((1 << width) - 1) for n in kept], np.uint64).astype(code_dtype(source))


def _limits(element: str) -> tuple[int, int]:
    width, is_signed = INTEGERS.get(element, (1, False))
    return (-1 << (width - 1), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)


def _floats(fmt: Format, target: str, is_full: bool) -> np.ndarray:
    """Codes of both signs, including zeros, infinities and NaN with several payloads."""
    goal, beside = FORMATS.get(target), _OF_F64 if fmt.bits == 64 else (-1, 0, 1)
    if target in ALL_MINIFLOATS:
        chosen = _beside(fmt, np.abs(boundaries(target)), beside)
    elif goal is None:
        chosen = _beside(fmt, _with_fractions(target), (-1, 0, 1))
    elif goal.mantissa_bits >= fmt.mantissa_bits:  # all of them fit
        chosen = _notable_codes(fmt, False)
    else:
        numbers, ties = _numbers_and_ties(goal, is_full)
        # Numbers that f32 rounds to the midpoint are as far from it as one step, or as half a step of f32.
        at_ties = (-(1 << 28), -1, 0, 1, 1 << 28) if fmt.bits == 64 else (-1, 0, 1)
        chosen = np.concatenate([_beside(fmt, numbers, (-1, 0, 1)), _beside(fmt, ties, at_ties)])
    nan = fmt.max_code + 1 + np.array([1, 1 << (fmt.mantissa_bits - 1), (1 << fmt.mantissa_bits) - 1])
    ends = np.array([0, 1, (1 << fmt.mantissa_bits) - 1, 1 << fmt.mantissa_bits, fmt.max_code, fmt.max_code + 1])
    both = np.unique(np.concatenate([chosen, ends, nan])).astype(np.uint64)
    return np.concatenate([both, both | np.uint64(fmt.sign_bit)]).astype(fmt.code_dtype)


def _beside(fmt: Format, numbers: np.ndarray, steps: tuple[int, ...]) -> np.ndarray:
    """The codes of those numbers that a wide format has, and of their neighbours some steps away; without sign."""
    with np.errstate(over="ignore"):
        kept = np.unique(numbers).astype(f"f{fmt.bits // 8}")
    codes = kept[np.isfinite(kept)].view(fmt.code_dtype).astype(np.int64)
    codes_ = np.unique((codes[:, None] + np.array(steps)).ravel())
    return codes_[(codes_ >= 0) & (codes_ <= fmt.max_code + 1)]


def _patterns(fmt: Format, is_full: bool) -> list[int]:
    """Mantissas: the first and the last ones, the middle, alternating bits, and some random ones."""
    n = 1 << fmt.mantissa_bits
    if is_full and fmt.bits <= 16:
        return list(range(n))
    edges = {0, 1, 2, 3, n // 2 - 1, n // 2, n // 2 + 1, n - 3, n - 2, n - 1, n // 3, 2 * n // 3}
    return sorted(edges | {(k * 0x9E3779B97F4A7C15 >> (64 - fmt.mantissa_bits)) % n for k in range(1, 13)})


def _notable_codes(fmt: Format, is_full: bool) -> np.ndarray:
    """Codes of non-negative numbers: some of each exponent, or all."""
    fields = np.arange((fmt.max_code >> fmt.mantissa_bits) + 1, dtype=np.int64) << fmt.mantissa_bits
    codes = (fields[:, None] | np.array(_patterns(fmt, is_full), np.int64)).ravel()
    return codes[codes <= fmt.max_code]


def _numbers_and_ties(fmt: Format, is_full: bool) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a format of at most 32 bits, and the midpoint of each and the next, beyond the largest too."""
    codes = _notable_codes(fmt, is_full)
    own = fmt.decode(codes)
    beyond = 2 * fmt.max - fmt.decode(np.array([fmt.max_code - 1]))[0]
    following = np.where(codes == fmt.max_code, beyond, fmt.decode(np.minimum(codes + 1, fmt.max_code)))
    return np.append(own, beyond), (own + following) / 2


def _with_fractions(target: str) -> np.ndarray:
    """Numbers to truncate to integers: at the ends of the type and at powers of two, with and without a fraction."""
    low, high = _limits(target)
    whole = {0, 3, 5, 6, 7} | {n + d for n in (-low, high) for d in (-1, 0, 1, 2)}
    whole |= {(1 << k) + d for k in range(66) for d in (-2, -1, 0, 1, 2)}
    numbers = np.array(sorted(abs(n) for n in whole), np.float64)
    return np.abs(np.concatenate([numbers + rest for rest in (0.0, 0.25, 0.5, 0.75, -0.5)]))


def _integers_at(numbers: np.ndarray) -> set[int]:
    """Integers beside the boundaries of a minifloat, and beside ties of f32 and f64, where double rounding shows."""
    integers = {int(n) + d for n in numbers if n <= 2.0**64 for d in (-1, 0, 1, 2)}
    return integers | {((3 << k) // 2) + d for k in range(25, 64) for d in (-1, 0, 1)}


def _integers_by_binades(fmt: Format, width: int, is_full: bool) -> set[int]:
    """Numbers and midpoints of a wide format, and integers that f32 and f64 round to midpoints."""
    integers: set[int] = set()
    for bits, pattern in itertools.product(range(width), _patterns(fmt, is_full)):
        shift = bits - fmt.mantissa_bits
        if shift <= 0:
            integers.add(1 << bits | pattern >> -shift)
            continue
        number = (1 << fmt.mantissa_bits | pattern) << shift
        some = {0, 1, 1 << max(0, bits - 25), 1 << max(0, bits - 54)}
        integers |= {n + d for n in (number, number + (1 << shift >> 1)) for s in some for d in (-s, s)}
    return integers


def _integers_at_powers(target: str) -> set[int]:
    low, high = _limits(target)
    integers = {n + d for n in (low, high) for d in (-2, -1, 0, 1, 2)}
    integers |= {(1 << k) + d for k in range(65) for d in (-2, -1, 0, 1, 2)}
    return integers | {0x5555555555555555 >> k for k in range(64)}
