"""The float formats once more, for the oracle: decoding, rounding and signs, in integers and fractions.

Written from the formats' definitions, and shares no line with the package. A value is a Fraction where it is finite;
-0, the infinities and NaN are Python floats.
"""

import dataclasses
import functools
import math
from fractions import Fraction

Value = Fraction | float

INF, NAN, NEGATIVE_NAN, NEGATIVE_ZERO = math.inf, math.nan, -math.nan, -0.0
ZERO, ONE = Fraction(0), Fraction(1)


@dataclasses.dataclass(frozen=True)
class Format:
    """The facts of one format, as the table of the design document lists them."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    nan: str  #: which codes are NaN: none, ieee, ones (all ones), sign (the sign bit alone), last
    has_infinity: bool = False
    is_signed: bool = True

    @functools.cached_property
    def bits(self) -> int:
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @functools.cached_property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1) if self.is_signed else 0

    @functools.cached_property
    def ones(self) -> int:
        """The code with all exponent and mantissa bits set."""
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @functools.cached_property
    def max_code(self) -> int:
        """The code of the largest finite number: the last that is neither infinity nor NaN."""
        return self.ones - {"ieee": 1 << self.mantissa_bits, "ones": 1, "last": 1}.get(self.nan, 0)

    @functools.cached_property
    def max(self) -> Fraction:
        return Fraction(decode(self, self.max_code))


FORMATS = {
    f.name: f
    for f in (
        Format("f4E2M1FN", 2, 1, 1, "none"),
        Format("f6E2M3FN", 2, 3, 1, "none"),
        Format("f6E3M2FN", 3, 2, 3, "none"),
        Format("f8E3M4", 3, 4, 3, "ieee", has_infinity=True),
        Format("f8E4M3", 4, 3, 7, "ieee", has_infinity=True),
        Format("f8E4M3FN", 4, 3, 7, "ones"),
        Format("f8E4M3FNUZ", 4, 3, 8, "sign"),
        Format("f8E4M3B11FNUZ", 4, 3, 11, "sign"),
        Format("f8E5M2", 5, 2, 15, "ieee", has_infinity=True),
        Format("f8E5M2FNUZ", 5, 2, 16, "sign"),
        Format("f8E8M0FNU", 8, 0, 127, "last", is_signed=False),
        Format("f16", 5, 10, 15, "ieee", has_infinity=True),
        Format("bf16", 8, 7, 127, "ieee", has_infinity=True),
        Format("f32", 8, 23, 127, "ieee", has_infinity=True),
        Format("f64", 11, 52, 1023, "ieee", has_infinity=True),
    )
}
MINIFLOATS = tuple(f.name for f in FORMATS.values() if f.bits <= 8)
#: With the format that is not StableHLO's, and only converted.
ALL_FORMATS = {**FORMATS, "f8E5M3FNU": Format("f8E5M3FNU", 5, 3, 15, "last", is_signed=False)}


def decode(fmt: Format, code: int) -> Value:
    """The value of a code."""
    negative = bool(code & fmt.sign_bit)
    field, mantissa = (code & fmt.ones) >> fmt.mantissa_bits, code & ((1 << fmt.mantissa_bits) - 1)
    last_field = field == (1 << fmt.exponent_bits) - 1
    if is_nan_code(fmt, code):
        return NEGATIVE_NAN if negative else NAN
    if fmt.has_infinity and last_field:
        return -INF if negative else INF
    if fmt.name == "f8E8M0FNU":  # a bare exponent: no zero, no subnormals
        return scaled(1, code - 127)
    whole, field = (mantissa, 1) if field == 0 else (mantissa | 1 << fmt.mantissa_bits, field)
    value = scaled(whole, field - fmt.bias - fmt.mantissa_bits)
    return negate(value) if negative else value


def scaled(integer: int, power: int) -> Fraction:
    """integer * 2**power."""
    return Fraction(integer << power) if power >= 0 else Fraction(integer, 1 << -power)


def is_nan_code(fmt: Format, code: int) -> bool:
    """Whether a code is a NaN."""
    if fmt.nan == "ieee":
        return (code & fmt.ones) > fmt.ones - (1 << fmt.mantissa_bits) + 1
    if fmt.nan == "ones":
        return (code & fmt.ones) == fmt.ones
    return (fmt.nan == "sign" and code == fmt.sign_bit) or (fmt.nan == "last" and code == fmt.ones)


def same(fmt: Format, a: int, b: int) -> bool:
    """Whether two codes are the same result: equal, or both NaN."""
    return a == b or (is_nan_code(fmt, a) and is_nan_code(fmt, b))


def encode(fmt: Format, value: Value, rounding: str = "nearest_even", overflow: str = "ieee") -> int:
    """The code a value rounds to."""
    if isinstance(value, Fraction):
        return encode_ratio(fmt, value.numerator, value.denominator, rounding, overflow)
    negative = math.copysign(1, value) < 0
    if math.isnan(value):
        return _nan(fmt, negative, overflow)
    return _infinite(fmt, negative, overflow) if math.isinf(value) else _zero(fmt, negative)


def encode_ratio(
    fmt: Format, numerator: int, denominator: int, rounding: str = "nearest_even", overflow: str = "ieee"
) -> int:
    """The code the number numerator / denominator rounds to; the denominator is positive."""
    negative, n, d = numerator < 0, abs(numerator), denominator
    if n == 0:
        return _zero(fmt, False)
    exponent = n.bit_length() - d.bit_length()  # of the leading bit: 2**exponent <= n / d < 2**(exponent + 1)
    if (n < d << exponent) if exponent >= 0 else (n << -exponent < d):
        exponent -= 1
    if fmt.name == "f8E8M0FNU":
        return _encode_e8m0(fmt, negative, n, d, exponent, rounding, overflow)
    if negative and not fmt.is_signed:
        return fmt.ones
    exponent = max(exponent, 1 - fmt.bias)
    step = exponent - fmt.mantissa_bits  # the neighbours are multiples of 2**step
    d_shifted = d << step if step > 0 else d
    quotient, rest = divmod(n << -step if step < 0 else n, d_shifted)
    if _goes_up(rounding, negative, quotient, rest, d_shifted):
        quotient += 1
    code = ((exponent + fmt.bias - 1) << fmt.mantissa_bits) + quotient
    if code > fmt.max_code:
        towards_zero = rounding == "toward_zero" or rounding == ("up" if negative else "down")
        if towards_zero:  # IEEE 754, 7.4: what is rounded towards zero does not become infinite
            return fmt.max_code | (fmt.sign_bit if negative else 0)
        return _infinite(fmt, negative, "saturate" if overflow == "onnx" else overflow)
    if code == 0:
        return _zero(fmt, negative)
    return code | (fmt.sign_bit if negative else 0)


def _goes_up(rounding: str, negative: bool, quotient: int, rest: int, whole: int) -> bool:
    match rounding:
        case "nearest_even":
            return 2 * rest > whole or (2 * rest == whole and quotient % 2 == 1)
        case "nearest_away":
            return 2 * rest >= whole
        case "up" | "down":
            return rest > 0 and negative == (rounding == "down")
        case "toward_zero":
            return False
    raise ValueError(rounding)


def _encode_e8m0(fmt: Format, negative: bool, n: int, d: int, exponent: int, rounding: str, overflow: str) -> int:
    if negative:
        return fmt.ones
    scale = 1 << abs(exponent)
    low, high = (n, d * scale) if exponent >= 0 else (n * scale, d)  # low / high in [1, 2)
    if rounding in ("nearest_even", "nearest_away"):
        rounded = exponent + (2 * low >= 3 * high)  # ties to the larger
    else:
        rounded = exponent + (rounding == "up" and low != high)
    if exponent < -127:  # vanishes where it vanishes in f32
        return fmt.ones if exponent < -150 or (exponent == -150 and low == high) else 0
    if rounded > 127:
        return (
            0xFE
            if rounding in ("toward_zero", "down")
            else _infinite(fmt, False, overflow and ("saturate" if overflow == "onnx" else overflow))
        )
    return rounded + 127


def _zero(fmt: Format, negative: bool) -> int:
    if fmt.name == "f8E8M0FNU":
        return fmt.ones
    return fmt.sign_bit if negative and fmt.nan != "sign" else 0


def _infinite(fmt: Format, negative: bool, overflow: str) -> int:
    sign = fmt.sign_bit if negative else 0
    if not fmt.is_signed and negative:
        return fmt.ones
    saturates = overflow == "saturate" or (overflow == "satfinite" and fmt.bits <= 8)
    if saturates or (overflow == "onnx" and fmt.nan != "sign") or fmt.nan == "none":
        return fmt.max_code | sign
    return fmt.ones - (1 << fmt.mantissa_bits) + 1 | sign if fmt.has_infinity else _nan(fmt, negative, "ieee")


def _nan(fmt: Format, negative: bool, overflow: str) -> int:
    if fmt.nan == "none":  # as ml_dtypes converts them
        if overflow == "satfinite" or (overflow == "onnx" and fmt.name == "f4E2M1FN"):
            return fmt.max_code
        return 0 if negative else fmt.sign_bit
    if fmt.nan == "sign":
        return fmt.sign_bit
    quiet = fmt.ones - ((1 << (fmt.mantissa_bits - 1)) - 1 if fmt.nan == "ieee" else 0)
    return quiet | (fmt.sign_bit if negative else 0)


def negate(x: Value) -> Value:
    """-x."""
    return -0.0 if isinstance(x, Fraction) and x == 0 else ZERO if is_negative_zero(x) else -x


def is_negative_zero(x: Value) -> bool:
    """Whether it is -0."""
    return isinstance(x, float) and x == 0


def is_negative(x: Value) -> bool:
    """Whether the sign is set, of -0 as well."""
    return math.copysign(1, x) < 0 if isinstance(x, float) else x < 0


def signed(x: Value, negative: bool) -> Value:
    """A magnitude with a sign."""
    return negate(x) if negative else x


def magnitude(x: Value) -> Value:
    """Without its sign."""
    return negate(x) if is_negative(x) else x


def is_finite(x: Value) -> bool:
    """Neither infinite nor NaN."""
    return isinstance(x, Fraction) or x == 0
