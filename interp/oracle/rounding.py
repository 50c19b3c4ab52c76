"""Rounds exact numbers to codes, and marks results that a format leaves open."""

from __future__ import annotations

import dataclasses

import numpy as np

from .formats import Format


@dataclasses.dataclass(frozen=True)
class Exact:
    """Exact results: `value` in f64, and if the exact number differs, the side of it (-1, 1) on which it lies.

    With a side, `value` need not be the nearest f64; no number and no tie of a format of up to 32 bits, and
    none of f64, lies between the two.
    """

    value: np.ndarray
    side: np.ndarray

    @classmethod
    def of(cls, value: np.ndarray) -> Exact:
        """Numbers that f64 represents exactly."""
        value = np.asarray(value, np.float64)
        return cls(value, np.zeros(value.shape, np.int8))

    def at(self, where: np.ndarray) -> Exact:
        """The results at some indices."""
        return Exact(self.value[where], self.side[where])


#: The open point of a result, in a byte; 0 is none.
OVERFLOW = 1  #: beyond the largest number
INFINITE = 2  #: infinite
INVALID = 3  #: NaN in a format without it
NEGATIVE = 4  #: negative in a format without sign
ZERO = 5  #: zero in a format without it
SMALL = 6  #: below the smallest number in a format without zero
TIE = 7  #: midway between two numbers, in a format of one significant bit
FROM_NAN = 8  #: as INVALID, in a conversion
FROM_NEGATIVE_NAN = 9  #: as INVALID, in a conversion of NaN with its sign set
ZEROS = 10  #: the larger or smaller of +0 and -0
NAN_ORDER = 11  #: the rank of a NaN without sign in the total order
NOT_AN_INTEGER = 12  #: beyond an integer type, or NaN
WRAPPED = 14  #: an integer beyond the integer type it is converted to
ABOVE = 13  #: above the largest number and rounding to it, in a format of one significant bit

#: Roundings; "even" is the rule, the others occur in faulty backends.
EVEN, AWAY, TOWARD_ZERO, UP, DOWN = "even", "away", "toward zero", "up", "down"
TIES_TO_ODD, TIES_TOWARD_ZERO = "ties to odd", "ties toward zero"


def encode(fmt: Format, exact: Exact, rounding: str = EVEN) -> tuple[np.ndarray, np.ndarray]:
    """Rounds exact numbers to codes, and marks the open point of each."""
    value, side = exact.value, exact.side
    if fmt.bits == 64:  # and the nearest one, as only conversions come here
        canonical = np.where(np.isnan(value), np.copysign(np.nan, value), value)
        return canonical.view(np.uint64), np.zeros(value.shape, np.uint8)
    vanished = (value == 0) & (side != 0)  # f64 underflowed
    value = np.where(vanished, np.copysign(5e-324, side), value)
    negative = np.signbit(value)
    size = np.abs(value)
    outward = np.where(vanished, 0, np.where(negative, -side, side))
    finite = np.isfinite(value)
    if not fmt.has_zero:
        codes, left_open = _without_zero(fmt, np.where(finite, size, 1.0), outward, negative, rounding)
    else:
        codes = _round(fmt, np.where(finite, size, 0.0), outward, negative, rounding)
        left_open = np.where(codes > fmt.max_code, np.uint8(OVERFLOW), np.uint8(0))
    overflow = (codes > fmt.max_code) | np.isinf(value)
    left_open = np.where(np.isinf(value), np.uint8(INFINITE), left_open)
    codes = np.where(overflow, _beyond(fmt), codes)
    codes = np.where(negative & ((codes != 0) | (fmt.nan != "sign")), codes | fmt.sign_bit, codes)
    nan = np.isnan(value)
    if not fmt.is_signed:
        left_open = np.where(negative & (value < 0), np.uint8(NEGATIVE), left_open)
        nan |= value < 0
    if fmt.nan == "sign":
        nan |= overflow
    if fmt.nan_code is None:  # NaN becomes -0, and NaN with its sign set +0
        codes = np.where(nan, np.where(negative, 0, fmt.sign_bit), codes)
        left_open = np.where(nan, np.uint8(INVALID), left_open)
    else:
        codes = np.where(nan, fmt.nan_code, codes)
        left_open = np.where(np.isnan(value), np.uint8(0), left_open)
    if not fmt.is_minifloat:
        left_open = np.zeros(codes.shape, np.uint8)
    return codes.astype(fmt.code_dtype), left_open.astype(np.uint8)


def _beyond(fmt: Format) -> int:
    """The code of an overflow: infinity, else NaN, else the largest number."""
    if fmt.has_infinity:
        return fmt.max_code + 1
    return fmt.max_code if fmt.nan_code is None else fmt.nan_code


def _round(fmt: Format, size: np.ndarray, outward: np.ndarray, negative: np.ndarray, rounding: str) -> np.ndarray:
    """Codes without sign, beyond the largest if the number is; `outward` is the side of `size` on which it lies."""
    exponent = np.where(size == 0, fmt.min_exponent, np.maximum(np.frexp(size)[1] - 1, fmt.min_exponent))
    steps = np.ldexp(size, fmt.mantissa_bits - exponent)  # in units of the last place
    whole = np.floor(steps)
    rest = steps - whole
    count = whole.astype(np.int64)
    ties = {EVEN: count & 1 == 1, AWAY: True, TIES_TO_ODD: count & 1 == 0, TIES_TOWARD_ZERO: False}
    if rounding in ties:
        at_tie = ties[rounding]
        count += (rest > 0.5) | ((rest == 0.5) & ((outward > 0) | ((outward == 0) & at_tie)))
    else:
        is_inexact = (rest > 0) | (outward != 0)
        count -= (rest == 0) & (outward < 0)
        count += is_inexact & {TOWARD_ZERO: np.zeros_like(negative), UP: ~negative, DOWN: negative}[rounding]
    return ((exponent + fmt.bias - 1).astype(np.int64) << fmt.mantissa_bits) + count


def _without_zero(
    fmt: Format, size: np.ndarray, outward: np.ndarray, negative: np.ndarray, rounding: str
) -> tuple[np.ndarray, np.ndarray]:
    """Rounds to a format of exponents alone: ties go to the larger; underflow becomes the smallest, or NaN in the
    end."""
    mantissa, exponent = np.frexp(np.where(size == 0, 1.0, size))  # a mantissa from 0.5 to 1
    exponent = exponent.astype(np.int64) - 1
    tie = (mantissa == 0.75) & (outward == 0)
    above = (mantissa > 0.75) | ((mantissa == 0.75) & (outward >= 0))
    if rounding in (TOWARD_ZERO, UP, DOWN):
        above = ((mantissa > 0.5) | (outward > 0)) & (rounding == UP)
    below = (mantissa == 0.5) & (outward < 0)  # just below a power of two
    codes = exponent + above + fmt.bias
    left_open = np.where(tie, np.uint8(TIE), np.uint8(0))
    small = (exponent < fmt.min_exponent) | (below & (exponent == fmt.min_exponent))
    # As numbers that are zero in f32, where 2^-149 is the smallest and numbers above 2^-150 round to it.
    vanishes = (exponent < -150) | ((exponent == -150) & (mantissa == 0.5) & (outward <= 0))
    codes = np.where(small, np.where(vanishes, fmt.ones, 0), codes)
    left_open = np.where(small, np.uint8(SMALL), left_open)
    left_open = np.where((codes > fmt.max_code) & ~small, np.uint8(OVERFLOW), left_open)
    above_largest = (size > fmt.max) | ((size == fmt.max) & (outward > 0))
    left_open = np.where((codes == fmt.max_code) & above_largest, np.uint8(ABOVE), left_open)
    codes = np.where(size == 0, fmt.ones, codes)
    left_open = np.where(size == 0, np.uint8(ZERO), left_open)
    return codes, np.where(negative & (size != 0), np.uint8(NEGATIVE), left_open)
