"""Floats whose operations are exact, or round in a way that is chosen: `ops.accumulators.forms` on tensors."""

from __future__ import annotations

import numpy as np

from ...ops.minifloat.formats import Format
from ...ops.types import ElementType
from . import rounding
from .rounding import Exact, code_type
from .tensor import F32, F64, I32, I64, Tensor, constant, where


def power(e: Tensor, compute: ElementType) -> Tensor:
    """Return 2**e for integers that are exponents of normal numbers."""
    fmt, wide = compute.format, I32 if compute == F32 else I64
    return ((e + fmt.bias).to(wide) << fmt.mantissa_bits).bits(compute)


def exponent(x: Tensor) -> Tensor:
    """Return floor(log2(|x|)) of normal numbers, less than all of these for zero."""
    fmt = x.element.format
    return ((x.bits(code_type(fmt)) >> fmt.mantissa_bits).to(I32) & (2 * fmt.bias + 1)) - fmt.bias


def is_finite(x: Tensor) -> Tensor:
    return abs(x) <= float(np.finfo(x.element.dtype).max)


def to_integers(x: Tensor, drop: str) -> Tensor:
    """Return numbers as integers of the same sign, as `drop` says; in halves for `sticky`."""
    names = {"floor": "floor", "down": "floor", "up": "ceil", "nearest_even": "round_nearest_even"}
    if drop in names:
        return x.elementwise(names[drop], x)
    whole = where(x < 0, x.elementwise("ceil", x), x.elementwise("floor", x))
    if drop != "sticky":
        return whole
    return whole + where(whole.equals(x), 0, where(x < 0, constant(-0.5, x.element), 0.5))


def unsigned_zero(x: Tensor) -> Tensor:
    """Return +0 for -0: compilers take a sum of +0 and another number for that."""
    return where(x.equals(0), 0, x)


def add_to_odd(x: Tensor, y: Tensor) -> Tensor:
    """Return sums rounded to odd in f64, to be rounded again."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)  # exact (Knuth's two-sum)
    inexact = error.differs(0) & is_finite(total)
    bits = total.bits(I64) - (inexact & (error < 0).equals(total > 0)).to(I64)
    return (bits | inexact.to(I64)).bits(F64)


def of_exact(x: Exact) -> Tensor:
    """Return numbers rounded to odd in f64, in which none is subnormal."""
    x = rounding.to_odd(x, F64.format.precision)
    value = x.significand.bits(I64).to(F64) * power(x.exponent, F64)
    return where(x.sign, -value, value)


def round_to_form(x: Tensor, form: Format, rounding: str, overflow: str) -> Tensor:
    """Return numbers rounded to a form, in their type. A result that rounds to zero keeps its sign."""
    fmt = x.element.format
    cut = fmt.mantissa_bits - form.mantissa_bits
    if cut <= 0:
        return x
    bits, unit, least = x.bits(code_type(fmt)), 1 << cut, form.min_exponent
    if rounding == "nearest_even":
        bits = bits + ((bits >> cut) & 1) + (unit // 2 - 1)
    elif rounding != "toward_zero":  # away from zero where the direction is the number's own
        away = ~(x < 0) if rounding == "up" else x < 0
        bits = bits + away.to(bits.element) * (unit - 1)
    found = (bits & ((1 << fmt.bits) - unit)).bits(x.element)
    if form.bias < fmt.bias:
        tiny = abs(x) < 2.0 ** (least + form.mantissa_bits)
        found = where(tiny, to_integers(x * 2.0**-least, rounding.replace("toward_", "")) * 2.0**least, found)
    largest = (2 - 2.0**-form.mantissa_bits) * 2.0**form.bias
    beyond = constant({"infinity": np.inf, "largest": largest, "nan": np.nan}[overflow], x.element)
    found = where(abs(found) > largest, where(x < 0, -beyond.broadcast(x.shape), beyond), found)
    return where(is_finite(x), found, x)
