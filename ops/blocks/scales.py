"""The scale of a block, from the largest magnitude in it. Every step is exact, and the scale is rounded once.

With `amax` the largest magnitude of a block, `largest` the largest element and `emax` its exponent:

| rule | scale |
|---|---|
| floor | the power of two 2**(floor(log2(amax)) - emax): the rule of OCP MX 1.0, section 6.3 |
| ceil | 2**(ceil(log2(amax)) - emax) |
| even | as floor, of amax rounded to the element's mantissa bits, ties away from zero |
| rceil | amax / largest, rounded up to the scale's format: nothing is beyond the largest element |
| nearest | amax / largest, rounded to nearest even; to a power of two, ties to the larger |

Where there is a scale for the whole tensor, `amax` is divided by it first. A scale is never below the smallest positive
number of its format. One beyond the largest is NaN in f8E8M0FNU and f32, and the largest in f8E4M3FN and f8E5M3FNU. A
block with NaN or an infinity has the scale NaN.
"""

from __future__ import annotations

import math

import numpy as np

from ..minifloat.codec import decode, round_number
from ..minifloat.formats import FORMATS, Format
from ..policy import Policy
from .formats import BlockFormat

RULES = ("floor", "ceil", "even", "rceil", "nearest")

_F32, _F64 = FORMATS["f32"], FORMATS["f64"]
#: Bits of a divisor in `quotient`: two f32 significand and f8E4M3FN's, or an element's.
_DIVISOR_BITS = 28
_FAR = 960


def quotient(x: np.ndarray, divisor: np.ndarray | float) -> np.ndarray:
    """`x / divisor` for f64 and positive divisors of at most 28 significant bits, rounded to odd to 34 bits or more.

    Rounding the result once more, to a format of at most 32 significant bits, gives what rounding the exact quotient
    would. Infinities and NaN stay what they are.
    """
    finite = np.isfinite(x)
    mantissa, exponent = np.frexp(np.where(finite, np.abs(x), 0.0))
    divisor_mantissa, divisor_exponent = np.frexp(divisor)
    dividend = (mantissa * 2.0**53).astype(np.int64) << 9
    whole, rest = np.divmod(dividend, (divisor_mantissa * 2.0**_DIVISOR_BITS).astype(np.int64))
    # A quotient beyond f64 becomes a number that is as far beyond every format.
    scale = np.clip(exponent - divisor_exponent + (_DIVISOR_BITS - 62), -_FAR, _FAR)
    result = np.ldexp((whole | (rest != 0)).astype(np.float64), scale)
    return np.where(finite, np.copysign(result, x), x)


def tensor_scale(amax: float, fmt: BlockFormat) -> np.float32:
    """The scale of a whole tensor whose largest finite magnitude is `amax`, rounded to nearest even in f32.

    It brings the largest scale of a block to the largest number of its format. 1 for a tensor of zeros; never below the
    smallest positive or beyond the largest number of f32.
    """
    if amax == 0:
        return np.float32(1)
    codes = _encode(quotient(np.array([amax]), fmt.largest * fmt.scale_format.largest), _F32, "nearest_even")
    return np.clip(codes, np.uint32(1), np.uint32(_F32.max_code)).view(np.float32)[0]


def block_scales(
    amax: np.ndarray, fmt: BlockFormat, rule: str, of_tensor: np.ndarray | float | None = None
) -> np.ndarray:
    """The scales of blocks, as codes of the scale's format.

    amax: the largest magnitude of each block, f64, exact or rounded to odd to 34 bits or more; NaN of a block that
        holds NaN or an infinity.
    """
    scale_format = fmt.scale_format
    powers = rule in ("floor", "ceil", "even")
    if fmt.has_power_scale or powers:
        a = amax if of_tensor is None else quotient(amax, of_tensor)
        exponent = _exponent(a, fmt, rule)
        if fmt.has_power_scale:
            return _power_codes(exponent, a, scale_format)
        codes = _encode(np.where(a > 0, np.ldexp(1.0, np.clip(exponent, -1000, 1000)), a), scale_format, "nearest_even")
    else:
        divisor = fmt.largest if of_tensor is None else fmt.largest * of_tensor
        codes = _encode(quotient(amax, divisor), scale_format, "up" if rule == "rceil" else "nearest_even")
    codes = np.where(codes > scale_format.max_code, scale_format.nan_code or 0, np.maximum(codes, 1))
    if fmt.zero_scale is not None:
        codes = np.where(amax == 0, _encode(np.array([fmt.zero_scale]), scale_format, "nearest_even"), codes)
    return codes.astype(scale_format.code_dtype)


def decode_f64(codes: np.ndarray | int, fmt: Format) -> np.ndarray:
    """The values of codes of a format of at most 32 bits, as f64."""
    numbers = decode(np.asarray(codes), fmt)
    values = np.ldexp(numbers.significand.astype(np.float64), numbers.exponent)
    values = np.where(numbers.is_infinite, np.inf, np.where(numbers.is_nan, np.nan, values))
    return np.where(numbers.sign, -values, values)


def thresholds(fmt: BlockFormat, rule: str) -> tuple[int, list[float]]:
    """The rule for the exponent of a power-of-two scale from amax = mantissa * 2**exponent, the mantissa from 1/2 to 1.

    It is exponent plus the first value, and one more for each of the others that the mantissa reaches.
    """
    mantissa, exponent = math.frexp(fmt.largest)
    match rule:
        case "floor":
            return -exponent, []
        case "ceil":
            return -exponent, [math.nextafter(0.5, 1)]
        case "even":  # where rounding carries into the next power of two
            return -exponent, [1 - 2.0 ** -(fmt.mantissa_bits + 2)]
        case "rceil":
            return -exponent, [math.nextafter(mantissa, 1)]
        case "nearest":  # the quotient amax / largest reaches 3/4, and 3/2, of a power of two
            return -exponent - 1, [0.75 * mantissa, 1.5 * mantissa]
    raise ValueError(f"scale: expected one of {', '.join(RULES)}, got {rule!r}")


def _exponent(a: np.ndarray, fmt: BlockFormat, rule: str) -> np.ndarray:
    """The exponent of the power of two that a rule gives for f64."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(a), a, 0.0))
    offset, reached = thresholds(fmt, rule)
    return sum((mantissa >= t for t in reached), exponent + offset)


def _power_codes(exponent: np.ndarray, a: np.ndarray, fmt: Format) -> np.ndarray:
    """Powers of two as codes of a format that has nothing else: its smallest for zero, NaN beyond its largest."""
    codes = np.where(a == 0, 0, np.maximum(exponent - fmt.min_exponent, 0))
    nan = np.isnan(a) | (codes > fmt.max_code)
    return np.where(nan, fmt.nan_code or 0, codes).astype(fmt.code_dtype)


def _encode(x: np.ndarray, fmt: Format, rounding: str) -> np.ndarray:
    """Non-negative f64 as codes, rounded once; beyond the largest a minifloat saturates, f32 becomes infinite."""
    numbers = decode(x.view(np.uint64), _F64)
    overflow = "saturate" if fmt.is_minifloat else "ieee"
    return round_number(numbers, fmt, Policy(rounding=rounding, overflow=overflow))
