"""Codes to exact numbers and back: the one place where rounding happens."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..draws import FRACTION_BITS, Draws
from ..policy import Policy
from .formats import Format, Nan
from .number import CANCELLED, FINITE, INFINITE, NAN, WORK_BITS, Number, finite

_NEAREST = ("nearest_even", "nearest_away", "stochastic")

#: A positive result up to 2**this rounds to zero in f32 too. ml_dtypes computes f8E8M0FNU through f32, so there it
#: becomes zero, which f8E8M0FNU lacks, hence NaN; what is larger becomes at least the smallest number.
_E8M0_VANISHES = -150


def bit_length(x: np.ndarray) -> np.ndarray:
    """Bits of each non-negative int64, 0 for zero, as int64: Python's int.bit_length for arrays."""
    for step in (1, 2, 4, 8, 16, 32):  # set every bit below the highest
        x = x | (x >> step)
    return np.bitwise_count(x).astype(np.int64)


def decode(codes: np.ndarray, fmt: Format) -> Number:
    """The numbers that `codes` (unsigned integers) stand for, exactly. Any shape; never fails."""
    codes = np.asarray(codes).astype(np.int64)
    magnitude = codes & ~fmt.sign_bit if fmt.is_signed and fmt.bits < 64 else codes & (2**63 - 1)
    sign = codes != magnitude
    field = magnitude >> fmt.mantissa_bits
    mantissa = magnitude & ((1 << fmt.mantissa_bits) - 1)
    if fmt.has_subnormals:
        significand = np.where(field == 0, mantissa, mantissa | (1 << fmt.mantissa_bits))
        exponent = fmt.min_exponent + np.maximum(field - 1, 0)
    else:
        significand = np.ones_like(codes)
        exponent = fmt.min_exponent + field
    kind = np.full(codes.shape, FINITE, np.uint8)
    beyond = magnitude > fmt.max_code + int(fmt.has_infinity)
    # The NaN of the FNUZ formats is a negative one, as in ml_dtypes.
    kind[codes == fmt.sign_bit if fmt.nan is Nan.NEGATIVE_ZERO else beyond] = NAN
    if fmt.has_infinity:
        kind[magnitude == fmt.infinity_code] = INFINITE
    return Number(kind, sign, significand, exponent)


def round_number(x: Number, fmt: Format, policy: Policy, draws: Draws | None = None) -> np.ndarray:
    """The codes of `x` in `fmt`, rounded once as `policy` says; unsigned integers of `fmt.code_dtype`.

    `draws` are those of stochastic rounding. Where the format leaves a result open, `open_points.py` says what
    is given and why.
    Raises ValueError where stochastic rounding is given no draws.
    """
    kept, cut, rest, quantum = _cut(x, fmt)
    if policy.rounding != "stochastic":
        half = np.int64(1) << (np.clip(cut, 1, 63) - 1)
        up = (cut > 0) & rounds_up(policy.rounding, kept, rest, half, x.sign)
    elif draws is None:
        raise ValueError("stochastic rounding needs draws")
    else:
        up = draws.round_up(_fraction(cut, rest))
    return _encode(x, kept + up, quantum, fmt, policy)


def neighbours(x: Number, fmt: Format, policy: Policy) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What stochastic rounding chooses from: the codes with the magnitude cut off and rounded up, and the fraction.

    The fraction is that of the distance between them, in units of 2**-62, and cut off there; 0 where both are the same.
    """
    kept, cut, rest, quantum = _cut(x, fmt)
    low, high = (_encode(x, kept + up, quantum, fmt, policy) for up in (0, cut > 0))
    return low, high, np.where(low == high, 0, _fraction(cut, rest))


def _fraction(cut: np.ndarray, rest: np.ndarray) -> np.ndarray:
    return np.where(
        cut <= FRACTION_BITS,
        rest << np.clip(FRACTION_BITS - cut, 0, FRACTION_BITS),
        rest >> np.clip(cut - FRACTION_BITS, 0, 63),
    )


def _encode(x: Number, rounded: np.ndarray, quantum: np.ndarray, fmt: Format, policy: Policy) -> np.ndarray:
    """The codes of numbers whose significands are rounded, in units of 2**quantum."""
    field = quantum - fmt.min_exponent
    infinite = too_big = x.kind == INFINITE
    if fmt.bits == 64:  # whose fields fill an int64: a larger one would wrap around
        last = (fmt.max_code >> fmt.mantissa_bits) - 1
        too_big = too_big | (field > last)
        field = np.minimum(field, last)
    # A carry out of the significand moves into the exponent field by itself; so does the hidden bit.
    code = (field << fmt.mantissa_bits) + rounded - int(not fmt.has_zero)
    sign = x.sign
    if policy.rounding == "down":  # IEEE 754 section 6.3: x - x is -0 when rounding down
        sign = sign | (x.is_zero & (x.exponent == CANCELLED))
    is_nan = x.kind == NAN
    if not fmt.is_signed:
        is_nan = is_nan | (sign & ((x.kind == INFINITE) | (x.significand != 0)))
    if not fmt.has_zero:
        power_of_two = x.significand & (x.significand - 1) == 0
        vanishes = bit_length(x.significand) + x.exponent - power_of_two <= _E8M0_VANISHES
        code = np.maximum(code, 0)
        is_nan = is_nan | ((x.kind == FINITE) & ((x.significand == 0) | vanishes))
    too_big = too_big | (code > fmt.max_code)
    if too_big.any():
        code = np.where(too_big, _overflow(infinite, sign, fmt, policy), code)
    return _with_sign(np.where(is_nan, -1, code), sign, fmt, policy).astype(fmt.code_dtype)


def _cut(x: Number, fmt: Format) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The significand in units of 2**quantum, how many bits are cut off to get there, what they are, and quantum."""
    significand, exponent = x.significand, x.exponent
    quantum = np.maximum(bit_length(significand) + exponent - fmt.precision, fmt.min_exponent)
    quantum = np.where(significand == 0, fmt.min_exponent, quantum)
    shift = quantum - exponent
    # A shift of 63 already leaves nothing but a remainder below one half, as does any longer one; how much is left of
    # that as a fraction depends on the shift.
    cut = np.clip(shift, 0, FRACTION_BITS + 63)
    at_most = np.minimum(cut, 63)
    kept = significand >> at_most
    rest = significand - (kept << at_most)
    return kept << np.clip(-shift, 0, 62), cut, rest, quantum


def rounds_up(rounding: str, kept: np.ndarray, rest: np.ndarray, half: np.ndarray, negative: np.ndarray) -> np.ndarray:
    """Whether a magnitude `kept` grows by one when `rest`, in units that make one half `half`, is cut off it.

    Raises ValueError for a rounding that is not known.
    """
    match rounding:
        case "nearest_even":
            return (rest > half) | ((rest == half) & (kept & 1 == 1))
        case "nearest_away":
            return rest >= half
        case "toward_zero":
            return np.zeros(rest.shape, bool)
        case "up":
            return (rest != 0) & ~negative
        case "down":
            return (rest != 0) & negative
    raise ValueError(f"unknown rounding {rounding!r}")


def _overflow(infinite: np.ndarray, sign: np.ndarray, fmt: Format, policy: Policy) -> np.ndarray:
    """The magnitude code, or -1 for NaN, of what is beyond the largest number."""
    beyond = fmt.max_code + 1 if fmt.has_infinity else -1 if fmt.nan is not Nan.NONE else fmt.max_code
    if policy.overflow == "saturate" or (policy.overflow == "satfinite" and fmt.is_minifloat):
        return np.full(infinite.shape, fmt.max_code)
    if policy.overflow == "onnx":
        return np.where(infinite & (fmt.nan is Nan.NEGATIVE_ZERO), -1, fmt.max_code)
    if policy.rounding in _NEAREST:
        away = np.ones(infinite.shape, bool)
    else:  # IEEE 754 section 7.4: a directed rounding stops at the largest number when it points inwards
        away = infinite | (~sign if policy.rounding == "up" else sign & (policy.rounding == "down"))
    return np.where(away, beyond, fmt.max_code)


def _with_sign(code: np.ndarray, sign: np.ndarray, fmt: Format, policy: Policy) -> np.ndarray:
    """Magnitude codes (-1 is NaN) with their signs set."""
    is_nan = code < 0
    nan_code = fmt.nan_code or 0
    # ONNX has no FP6.
    if fmt.nan is Nan.NONE and (policy.overflow, fmt.bits) in (("onnx", 4), ("satfinite", 4), ("satfinite", 6)):
        return np.where(is_nan, fmt.max_code, code | sign * fmt.sign_bit)
    if fmt.nan is Nan.NONE:  # ml_dtypes: NaN is -0, and -NaN is +0
        return np.where(is_nan, ~sign * fmt.sign_bit, code | sign * fmt.sign_bit)
    if fmt.nan in (Nan.NEGATIVE_ZERO, Nan.LAST):
        signed = code + (sign & (code > 0)) * fmt.sign_bit
        return np.where(is_nan, nan_code, signed)
    sign_bit = np.uint64(fmt.sign_bit)  # of f64 it does not fit int64
    return np.where(is_nan, nan_code, code).astype(np.uint64) | sign * sign_bit


def exact(value: Fraction | int) -> Number:
    """One number as a 0-d array; a value of more than WORK_BITS significant bits is rounded to odd there."""
    value = Fraction(value)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length() - WORK_BITS
    scaled = magnitude / Fraction(2) ** exponent
    significand = scaled.numerator // scaled.denominator | (scaled.denominator != 1)
    return finite(np.array(value < 0), np.array(significand, np.int64), np.array(exponent, np.int64))


def to_fraction(x: Number) -> Fraction:
    """The value of a 0-d finite number. Raises ValueError for infinities and NaN."""
    if int(x.kind) != FINITE:
        raise ValueError("only finite numbers are fractions")
    return Fraction(-int(x.significand) if x.sign else int(x.significand)) * Fraction(2) ** int(x.exponent)
