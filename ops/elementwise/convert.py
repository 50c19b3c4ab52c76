"""Conversions of numbers between element types, and to fewer bits within one."""

from __future__ import annotations

import functools

import numpy as np

from ..cast import cast, codes_of
from ..minifloat.codec import round_number
from ..minifloat.formats import Format, Nan
from ..minifloat.number import FINITE, INFINITE, Number
from ..op import CORRECTLY_ROUNDED, Call, op
from ..policy import Policy
from ..require import identity, require, require_shape
from ..tables import Tabulated, index_bits
from ..traits import LINEAR, Run
from ..types import ElementType, Kind


@op(
    "convert",
    "any foreign",
    values="numbers",
    accuracy=CORRECTLY_ROUNDED,
    operands=1,
    is_elementwise=True,
    traits=LINEAR,
)
def convert(call: Call) -> Run:
    """The numbers in another element type: integers wrap, floats are rounded once, or truncated to integers.

    Complex to real takes the real part, to i1 whether it is not zero. What the specification leaves open (NaN and what
    an integer type cannot hold) is as `ops.cast.cast` says. (C1) The shape stays.
    """
    old, new = call.tensor(), call.result()
    require_shape(call, old.shape)
    source, target, policy, random = old.element, new.element, call.policy, call.random
    if source == target:
        return identity
    is_exact = target.is_float and source.bits <= target.format.precision
    is_plain = is_exact or (policy.rounding == "nearest_even" and policy.overflow == "ieee")
    if is_plain and (source.is_integer or source.kind is Kind.BOOL) and target.bits >= 32:
        return lambda x: x.astype(target.dtype)
    if policy.rounding == "stochastic":
        return lambda x: np.asarray(cast(x, source, target, policy, random.draws(policy)))
    # Of other conversions numpy's own take less time than a lookup.
    if call.tables and index_bits(source) <= 8 and (source.is_float or (target.is_float and target.bits < 32)):
        return _table(source, target, policy.for_elements())
    return lambda x: np.asarray(cast(x, source, target, policy))


@functools.cache
def _table(source: ElementType, target: ElementType, policy: Policy) -> Tabulated:
    def compute(x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(cast(x, source, target, policy))

    return Tabulated(compute, [source], target.dtype)


@op(
    "reduce_precision",
    "float",
    values="numbers",
    accuracy=CORRECTLY_ROUNDED,
    operands=1,
    is_elementwise=True,
    traits=LINEAR,
)
def reduce_precision(call: Call) -> Run:
    """The nearest number of fewer mantissa bits (ties to even codes), infinite or zero where fewer exponent bits end.

    An exponent of as many bits as the type's own changes nothing; of fewer, what is smaller than its smallest normal
    number becomes zero. NaN stays as it is; where no mantissa bit is left to distinguish it from infinity, it becomes
    that (as in the reference interpreter). In a type without infinity or zero, these are what `convert` makes of them.
    (C1) The operand and the result have one type. (C2) 1 <= exponent_bits. (C3) 0 <= mantissa_bits.
    """
    t, result = call.tensor(), call.result()
    require(result.element == t.element and result.admits(t.shape), f"expected a result of {t}, got {result}")
    exponent_bits, mantissa_bits = int(call.attribute("exponent_bits")), int(call.attribute("mantissa_bits"))
    require(exponent_bits >= 1, f"exponent_bits is {exponent_bits} (expected at least 1)")
    require(mantissa_bits >= 0, f"mantissa_bits is {mantissa_bits} (expected at least 0)")
    kernel = _reduction(t.element.format, exponent_bits, mantissa_bits, call.policy.overflow)
    few = call.tables and index_bits(t.element) <= 8
    return Tabulated(kernel, [t.element], t.element.dtype) if few else kernel


def _reduction(fmt: Format, exponent_bits: int, mantissa_bits: int, overflow: str) -> Run:
    # An infinity is an overflow that the op itself asks for: only a type without one lets the policy choose.
    policy = Policy(overflow="ieee" if fmt.has_infinity else overflow)
    zero = np.zeros(4, np.int64)
    ends = Number(np.array([INFINITE, INFINITE, FINITE, FINITE], np.uint8), np.array([False, True] * 2), zero, zero)
    infinity, minus_infinity, plus_zero, minus_zero = round_number(ends, fmt, policy)

    bits = fmt.code_dtype.type
    sign_bit = bits(fmt.sign_bit)
    drop = max(fmt.mantissa_bits - mantissa_bits, 0)
    most, least = fmt.max_code, int(fmt.has_zero)  # the codes of the largest and the smallest number that stays
    if exponent_bits < fmt.exponent_bits:
        reach = (1 << (exponent_bits - 1)) - 1
        most = min(most, ((fmt.bias + reach + 1) << fmt.mantissa_bits) - 1)
        least = (fmt.bias - reach + 1) << fmt.mantissa_bits
    lost = mantissa_bits == 0 and fmt.has_infinity  # nothing distinguishes NaN from infinity
    nan_from = fmt.max_code + int(fmt.has_infinity) + 1

    def kernel(x: np.ndarray) -> np.ndarray:
        code = codes_of(x, fmt)
        negative, size = code & sign_bit != 0, code & ~sign_bit
        is_nan = code == sign_bit if fmt.nan is Nan.NEGATIVE_ZERO else size >= nan_from
        if drop:
            # Adding this carries into the bits that stay, and from there into the exponent, where it rounds up.
            size = (size + (((1 << (drop - 1)) - 1) + ((size >> drop) & 1))) >> drop << drop
        result = np.where(negative, size | sign_bit, size)
        result = np.where(size > most, np.where(negative, minus_infinity, infinity), result)
        result = np.where(size < least, np.where(negative, minus_zero, plus_zero), result)
        result = np.where(is_nan, infinity if lost else code, result)
        return result.view(fmt.dtype)

    return kernel
