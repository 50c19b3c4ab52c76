"""Numbers to codes by integer operations: one rounding, in any format, mode and overflow.

The rules are those of `ops.minifloat.codec.round_number`, which computes the same on arrays. What is given where a
format leaves a result open, `ops.minifloat.open_points` says. No operation here rounds in floating point, but
for one sum of normal numbers, so that devices which flush subnormals or contract operations give equal bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ...ops.draws import FRACTION_BITS
from ...ops.minifloat.formats import Format, Nan
from ...ops.policy import Policy
from ...ops.types import ElementType, Kind
from .tensor import F32, I1, I32, I64, UI8, UI16, UI32, UI64, Tensor, constant, where

#: A positive result up to 2**this is NaN in f8E8M0FNU; see `ops.minifloat.codec`.
_E8M0_VANISHES = -150
_SMALL = -125  # numbers from 2**_SMALL on have halves that are normal in f32
WORD = 32  # bits of a word of an exact sum
_NEAREST = ("nearest_even", "nearest_away", "stochastic")


@dataclasses.dataclass(frozen=True)
class Exact:
    """Numbers: (-1)**sign * significand * 2**exponent, of one shape.

    Attributes:
        sign: i1.
        significand: ui32 below 2**30, or ui64 below 2**62.
        exponent: i32.
        is_nan: i1.
        is_infinite: i1.
    """

    sign: Tensor
    significand: Tensor
    exponent: Tensor
    is_nan: Tensor
    is_infinite: Tensor

    @classmethod
    def finite(cls, sign: Tensor, significand: Tensor, exponent: Tensor) -> Exact:
        """Return numbers none of which is infinite or NaN."""
        never = constant(False, I1, sign.shape)
        return cls(sign, significand, exponent, never, never)


def code_type(fmt: Format) -> ElementType:
    """Return the type of the codes of a format: the narrowest that holds them."""
    return next(t for t in (UI8, UI16, UI32, UI64) if fmt.bits <= t.bits)


def round_number(x: Exact, fmt: Format, policy: Policy, draws: Tensor | None = None) -> Tensor:
    """Return the codes of numbers, rounded once. `draws` are those of stochastic rounding, 62 bits as ui64."""
    width = x.significand.element
    length = (width.bits - x.significand.count_leading_zeros()).to(I32)
    quantum = (length + x.exponent - fmt.precision).at_least(fmt.min_exponent)
    quantum = where(x.significand.equals(0), fmt.min_exponent, quantum)
    cut = quantum - x.exponent  # bits, or a shift to the left
    at, left = (shift.at_least(0).at_most(width.bits - 1).to(width) for shift in (cut, -cut))
    retained = x.significand >> at
    up = _rounds_up(policy.rounding, retained, x.significand - (retained << at), at, cut, x.sign, draws)
    target = UI64 if fmt.bits == 64 else UI32
    field = (quantum - fmt.min_exponent).at_most((fmt.max_code >> fmt.mantissa_bits) + 1).to(target)
    code = (field << fmt.mantissa_bits) + (retained << left).to(target) + up.to(target)
    found = _finish(x, code if fmt.has_zero else code.at_least(1) - 1, fmt, policy)
    if fmt.has_zero:
        return found
    # Zero, negative numbers, and what underflows in f32 too, are NaN in the format that has no zero.
    is_power = (x.significand & (x.significand - 1)).equals(0)
    top = length + x.exponent - is_power.to(I32)
    is_nan = (x.significand.equals(0) | x.sign) | (top <= _E8M0_VANISHES)
    return where(where(x.is_infinite, x.sign, is_nan), fmt.nan_code or 0, found)


def exact_of_float(x: Tensor) -> Exact:
    """Return the numbers of f32 or f64."""
    source = x.element.format
    return exact_of_bits(x.bits(code_type(source)), source)


def exact_of_bits(bits: Tensor, fmt: Format) -> Exact:
    """Return the numbers of the bits of a float type of at least 16."""
    bits = bits.to(UI64 if fmt.bits == 64 else UI32)
    magnitude, infinity = bits & (fmt.sign_bit - 1), fmt.infinity_code or 0
    field = magnitude >> fmt.mantissa_bits
    significand = (magnitude & ((1 << fmt.mantissa_bits) - 1)) | (
        field.differs(0).to(bits.element) << fmt.mantissa_bits
    )
    exponent = field.to(I32).at_least(1) + (fmt.min_exponent - 1)
    return Exact(
        (bits >> (fmt.bits - 1)).differs(0), significand, exponent, magnitude > infinity, magnitude.equals(infinity)
    )


def normal(x: Exact) -> tuple[Tensor, Tensor]:
    """Return significands of 62 bits, or 0, and the exponents of their units."""
    wide = x.significand.to(UI64)
    shift = wide.count_leading_zeros().at_most(63)
    return (wide << shift) >> 2, x.exponent - shift.to(I32) + 2


def to_odd(x: Exact, bits: int) -> Exact:
    """Return numbers of so many bits, the last of which is set where others were cut off."""
    significand, exponent = normal(x)
    cut = 62 - bits
    short = significand >> cut
    odd = short | (short << cut).differs(significand).to(UI64)
    return dataclasses.replace(x, significand=odd, exponent=exponent + cut)


def exact_of_integer(x: Tensor) -> Exact:
    """Return the numbers of integers or booleans; those beyond 62 bits are rounded to odd there."""
    is_signed, is_long = x.element.kind is Kind.SIGNED, x.element.bits >= 32
    wide = x.to((I64 if is_long else I32) if is_signed else (UI64 if is_long else UI32))
    sign, magnitude = wide < 0, where(wide < 0, -wide, wide).bits(UI64 if is_long else UI32)
    if x.element.bits < 62:
        return Exact.finite(sign, magnitude, constant(0, I32, x.shape))
    cut = (magnitude >> 62).differs(0).to(UI64) << 1
    short = magnitude >> cut
    return Exact.finite(sign, short | (short << cut).differs(magnitude).to(UI64), cut.to(I32))


def are_nan(codes: Any, fmt: Format) -> Any:
    """Return whether codes, a tensor or an array, are NaN of a format that is not f8E8M0FNU."""
    if fmt.nan is Nan.NEGATIVE_ZERO:
        return (codes ^ fmt.sign_bit) < 1
    return (codes & (fmt.sign_bit - 1)) > (fmt.max_code + int(fmt.has_infinity))


def decode_f32(codes: Tensor, fmt: Format) -> Tensor:
    """Return the numbers of codes in f32, which no operation on the way to them rounds or makes subnormal."""
    target = F32.format
    cut = target.mantissa_bits - fmt.mantissa_bits
    wide = codes.to(UI32)
    magnitude, sign = wide & (fmt.sign_bit - 1), (wide & fmt.sign_bit) << (target.bits - fmt.bits)
    rebias = (fmt.min_exponent + fmt.mantissa_bits) - (target.min_exponent + target.mantissa_bits)
    normal = (magnitude << cut) + (rebias << target.mantissa_bits)
    least = constant(2.0 ** (fmt.min_exponent + fmt.mantissa_bits), F32, codes.shape)
    subnormal = ((magnitude << cut) + least.bits(UI32)).bits(F32) - least
    bits = where(magnitude < (1 << fmt.mantissa_bits), subnormal.bits(UI32), normal)
    if fmt.has_infinity:  # whose field of the exponent, and that of NaN, is full in both formats
        full = (magnitude << cut) | (target.infinity_code or 0)
        return (where(magnitude < (fmt.infinity_code or 0), bits, full) | sign).bits(F32)
    if fmt.nan is not Nan.NONE:
        bits = where(are_nan(wide, fmt), target.nan_code or 0, bits)
    return (bits | sign).bits(F32)


def round_float(x: Tensor, fmt: Format, policy: Policy, draws: Tensor | None = None) -> Tensor:
    """Return the codes of f32 or f64 in a narrower format, rounded once."""
    number, source = exact_of_float(x), x.element.format
    if source.name == "f32" and policy.rounding == "nearest_even" and fmt.has_zero and fmt.min_exponent > _SMALL:
        return _round_f32(x, number, fmt, policy)
    return round_number(number, fmt, policy, draws)


def _round_f32(x: Tensor, number: Exact, fmt: Format, policy: Policy) -> Tensor:
    """Return the codes of f32, rounded to nearest even.

    Bits of normal results are rounded by an addition of integers. A sum of f32 rounds subnormal results: that of the
    magnitude and a power of two whose last place is theirs. A magnitude of no exponent is zero there, as it should be.
    """
    source = F32.format
    magnitude, cut = x.bits(UI32) & (source.sign_bit - 1), source.mantissa_bits - fmt.mantissa_bits
    least = fmt.min_exponent + fmt.mantissa_bits  # the exponent of the smallest normal number
    bias = -source.min_exponent - source.mantissa_bits + 1
    half = ((magnitude >> cut) & 1) + ((1 << (cut - 1)) - 1)
    normal = ((magnitude + half) >> cut) - ((least + bias - 1) << fmt.mantissa_bits)
    power = constant(2.0 ** (fmt.min_exponent + source.mantissa_bits), F32, x.shape)
    subnormal = (magnitude.bits(F32) + power).bits(UI32) - power.bits(UI32)
    code = where(magnitude < ((least + bias) << source.mantissa_bits), subnormal, normal)
    return _finish(number, code, fmt, policy)


def _finish(x: Exact, code: Tensor, fmt: Format, policy: Policy) -> Tensor:
    """Return codes from those of magnitudes, which may be beyond the largest number, and the signs and NaN of `x`."""
    too_big = (code > fmt.max_code) | x.is_infinite
    beyond, beyond_is_nan = _overflow(x, fmt, policy)
    is_nan = x.is_nan | (too_big & beyond_is_nan)
    if fmt.has_zero and not fmt.is_signed:
        is_nan = is_nan | (x.sign & x.significand.differs(0))
    return _with_sign(where(too_big, beyond, code), x.sign, is_nan, fmt, policy).to(code_type(fmt))


def _rounds_up(
    rounding: str, retained: Tensor, rest: Tensor, at: Tensor, cut: Tensor, negative: Tensor, draws: Tensor | None
) -> Tensor:
    """Return whether magnitudes grow by one, as i1; `rest` was cut off, at the bit `at`."""
    if rounding == "toward_zero":
        return rest < 0
    if rounding == "up":
        return rest.differs(0) & ~negative
    if rounding == "down":
        return rest.differs(0) & negative
    if rounding == "stochastic":
        if draws is None:
            raise ValueError("stochastic rounding needs draws, got none")
        wide = rest.to(UI64)
        left = wide << (FRACTION_BITS - cut).at_least(0).at_most(63).to(UI64)
        right = wide >> (cut - FRACTION_BITS).at_least(0).at_most(63).to(UI64)
        return draws < where(cut <= FRACTION_BITS, left, right)
    unit = constant(1, rest.element).broadcast(rest.shape) << at
    return (rest << 1) >= unit if rounding == "nearest_away" else ((rest << 1) | (retained & 1)) > unit


def _overflow(x: Exact, fmt: Format, policy: Policy) -> tuple[Tensor | int, Tensor]:
    """Return the magnitude code of what is beyond the largest number, and where it is NaN."""
    never = constant(False, I1, x.sign.shape)
    if policy.overflow == "saturate" or (policy.overflow == "satfinite" and fmt.is_minifloat):
        return fmt.max_code, never
    if policy.overflow == "onnx":
        return fmt.max_code, x.is_infinite if fmt.nan is Nan.NEGATIVE_ZERO else never
    is_nan = constant(not fmt.has_infinity and fmt.nan is not Nan.NONE, I1, x.sign.shape)
    beyond = fmt.max_code + int(fmt.has_infinity)
    if policy.rounding in _NEAREST:
        return beyond, is_nan
    # IEEE 754 section 7.4: a directed rounding stops at the largest number where it points inwards.
    away = {"up": ~x.sign, "down": x.sign}.get(policy.rounding, never) | x.is_infinite
    return where(away, constant(beyond, UI64 if fmt.bits == 64 else UI32), fmt.max_code), away & is_nan


def _with_sign(code: Tensor, sign: Tensor, is_nan: Tensor, fmt: Format, policy: Policy) -> Tensor:
    """Return codes of magnitudes with their signs, and the code of NaN."""
    signs, nan = sign.to(code.element) * fmt.sign_bit, fmt.nan_code or 0
    if fmt.nan in (Nan.NEGATIVE_ZERO, Nan.LAST):
        return where(is_nan, nan, where(code.equals(0), 0, code | signs) if fmt.is_signed else code)
    if fmt.nan is not Nan.NONE:
        return where(is_nan, signs | nan, code | signs)
    if (policy.overflow, fmt.bits) in (("onnx", 4), ("satfinite", 4), ("satfinite", 6)):
        return where(is_nan, fmt.max_code, code | signs)
    return where(is_nan, (~sign).to(code.element) * fmt.sign_bit, code | signs)


# -- sums in words -----------------------------------------------------------------------------------------------------


def exact_of_words(words: Sequence[Tensor], low: int) -> Exact:
    """Return sums in words of 32 bits, the least first: their leading 62 bits, the last set where there are others."""
    words = _carry(words)
    sign = words[-1] < 0
    words = _carry([where(sign, -word, word) for word in words])
    m, rest, exponent = constant(0, UI64, sign.shape), sign & ~sign, constant(low, I32, sign.shape)
    for i, word in reversed(list(enumerate(words))):
        taken = (m.count_leading_zeros().at_least(2) - 2).at_most(WORD)
        left = WORD - taken
        more = word.bits(UI64) >> left
        m, rest = (m << taken) | more, rest | (more << left).differs(word.bits(UI64))
        exponent = where(taken.equals(0), exponent, left.to(I32) + (low + WORD * i))
    return Exact.finite(sign, m | rest.to(UI64), exponent)


def _carry(words: Sequence[Tensor]) -> list[Tensor]:
    """Return words of 32 bits each, and the last with the sign."""
    result, carry = [], None
    for word in words[:-1]:
        word = word if carry is None else word + carry
        result.append(word & ((1 << WORD) - 1))
        carry = word >> WORD
    return [*result, words[-1] if carry is None else words[-1] + carry]


def add_to_words(words: Sequence[Tensor], low: int, x: Exact) -> list[Tensor]:
    """Return sums in words, in units of 2**low, with numbers added, of at most 62 bits and larger units."""
    offset, m, sign, found = x.exponent - low, x.significand.to(UI64), -(x.sign.to(I64)), []
    for i, word in enumerate(words):
        right = WORD * i - offset
        piece = m >> right.at_least(0).at_most(63).to(UI64)
        piece = (piece << (-right).at_least(0).at_most(63).to(UI64)) & ((1 << WORD) - 1)
        found.append(word + ((piece.bits(I64) ^ sign) - sign))
    return found
