"""The minifloats of a product, as whole numbers times one power of two."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from ..cast import codes_of
from ..engine.compiled import kernels
from ..engine.lookup import Table
from ..engine.speed import tuning
from ..engine.tiles import digits
from ..engine.words import Split, split
from ..minifloat.codec import decode
from ..minifloat.formats import Format, Nan
from ..minifloat.number import FINITE


@dataclasses.dataclass(frozen=True)
class Operand:
    """The codes of an operand, whose finite numbers are multiples of 2**low, at most `largest` times it."""

    codes: np.ndarray
    format: Format
    low: int
    largest: int
    has_special: bool  #: infinities or NaN

    @staticmethod
    def of(x: np.ndarray, fmt: Format) -> Operand:
        codes = codes_of(x, fmt)
        if not codes.size:
            return Operand(codes, fmt, 0, 0, False)
        magnitude = codes & np.uint8(fmt.sign_bit - 1) if fmt.is_signed else codes
        top = int(magnitude.max())
        has_special = top > fmt.max_code
        if has_special:
            top = int(magnitude.max(initial=0, where=magnitude <= fmt.max_code))
        if fmt.nan is Nan.NEGATIVE_ZERO:
            has_special = bool((codes == fmt.sign_bit).any())
        # Subtracting one makes zero the largest code, so that the minimum is that of the others.
        bottom = int((magnitude - np.uint8(1)).min()) + 1 if fmt.has_zero else int(magnitude.min())
        if bottom > fmt.max_code:
            return Operand(codes, fmt, 0, 0, has_special)
        exponents, largest = _facts(fmt)
        low = exponents[bottom]
        return Operand(codes, fmt, low, largest[top] << (exponents[top] - low), has_special)

    def at(self, codes: np.ndarray) -> Operand:
        """A part of the operand."""
        return self if codes is self.codes else dataclasses.replace(self, codes=codes)

    @property
    def spread(self) -> int:
        """How many different exponents the numbers' last bits may have."""
        return max(self.largest.bit_length() - self.format.precision + 1, 1)

    def digits(self, count: int) -> tuple[np.ndarray, int]:
        """So many digits of each code's number in units of 2**low, as tiles take them; of infinities and NaN zero."""
        return _digits(self.format, self.low, count), count

    def split(self, shift: int) -> Split:
        """Each code's number in units of 2**low, as words; of infinities and NaN zero."""
        return _split(self.format, self.low, shift)

    def values(self, dtype: type, first: int | None = None, count: int = 1) -> np.ndarray:
        """Numbers; zero for infinities, NaN, and where the last bit's exponent is not one of `count` from `first`."""
        if dtype is np.float64 and (self.codes.size <= tuning().lookup_wide or kernels(self.codes.size) is not None):
            return as_laid(_values(self.format, first, count, True).at, self.codes)
        # All numbers of 8 bits are numbers of f32, two of which are looked up as quickly as one of f64.
        return as_laid(_values(self.format, first, count).at, self.codes).astype(dtype, copy=False)


def all_values(codes: np.ndarray, fmt: Format, dtype: type) -> np.ndarray:
    """The numbers of a format as f64 or f32, with infinities and NaN, as they lie in memory."""
    return as_laid(_all_values(fmt, dtype).at, codes)


@functools.cache
def reach_of(fmt: Format) -> int:
    """The largest number of a format over the smallest, of which all are multiples."""
    exponents, largest = _facts(fmt)
    return max(s << (e - min(exponents)) for e, s in zip(exponents, largest, strict=True))


def as_laid(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """An elementwise function with the last two dimensions of its result as they lie in memory in `x`."""
    return function(x.swapaxes(-1, -2)).swapaxes(-1, -2) if x.strides[-1] > x.strides[-2] else function(x)


@functools.cache
def _facts(fmt: Format) -> tuple[list[int], list[int]]:
    """For each magnitude: the exponent of its last bit and its significand."""
    numbers = decode(np.arange(fmt.max_code + 1), fmt)
    return numbers.exponent.tolist(), numbers.significand.tolist()


@functools.cache
def _all_values(fmt: Format, dtype: type) -> Table:
    x = decode(np.arange(256) & ((1 << fmt.bits) - 1), fmt)
    sizes = np.where(x.is_nan, np.nan, np.where(x.is_infinite, np.inf, np.ldexp(x.significand, x.exponent)))
    return Table(np.where(x.sign, -sizes, sizes).astype(dtype))


@functools.lru_cache(64)
def _values(fmt: Format, first: int | None, count: int, is_wide: bool = False) -> Table:
    """The table of `Operand.values`, indexed by code: of f32, or of f64."""
    x = decode(np.arange(256) & ((1 << fmt.bits) - 1), fmt)
    inside = x.kind == FINITE
    if first is not None:
        inside &= (x.exponent >= first) & (x.exponent < first + count)
    significand = np.where(inside, np.where(x.sign, -x.significand, x.significand), 0)
    return Table(np.ldexp(significand, x.exponent).astype(np.float64 if is_wide else np.float32))


@functools.lru_cache(256)
def _digits(fmt: Format, low: int, count: int) -> np.ndarray:
    """The rows of `Operand.digits`, indexed by code; of numbers that need more digits, zero."""
    return digits(_integers(fmt, low), count)


@functools.lru_cache(256)
def _split(fmt: Format, low: int, shift: int) -> Split:
    """The words of `Operand.split`."""
    return split(_integers(fmt, low), shift)


def _integers(fmt: Format, low: int) -> np.ndarray:
    """Each code's number in units of 2**low; zero for what is no multiple of it, and for what has more than 40 bits."""
    x = decode(np.arange(256) & ((1 << fmt.bits) - 1), fmt)
    shift = x.exponent - low
    # No number that an operand has is cut off.
    inside = (x.kind == FINITE) & (shift >= 0) & (shift < 40)
    whole = np.where(inside, x.significand, 0) << np.where(inside, shift, 0)
    return np.where(x.sign, -whole, whole)
