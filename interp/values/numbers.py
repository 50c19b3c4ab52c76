"""Numbers between formats, for Python: cast, scale."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...ops.cast import cast as cast_array
from ...ops.draws import Draws
from ...ops.minifloat.codec import decode, to_fraction
from ...ops.policy import Policy
from ...ops.random_stream import first_draws
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, element_type, named_type
from ..errors import InputError
from ..system import host_floats, memory
from . import npy
from .values import refuse_mask, to_numpy


@host_floats.in_default
def cast(x: Any, format: str, *, overflow: str = "ieee", rounding: str = "nearest_even", seed: int = 0) -> np.ndarray:
    """Convert an array to another element type. Each element is rounded once, from its exact value.

    Args:
        x: An array of any real dtype (integers, bool and those of ml_dtypes too), a number, or nested lists of numbers.
        format: The element type as MLIR names it, such as `"f8E4M3FN"` or `"i4"`, or as numpy and ml_dtypes do:
            `"float8_e4m3fn"`.
        overflow: What a number beyond the range becomes. `"ieee"`: infinity if the format has one, else NaN, else the
            largest number. `"saturate"`: the largest number, for infinities too. `"onnx"`: the saturating tables in
            ONNX's documentation of float8 and float4.
        rounding: `"nearest_even"`, `"toward_zero"`, `"up"`, `"down"`, `"nearest_away"` (IEEE 754-2019, section 4.3) or
            `"stochastic"`.
        seed: The seed of stochastic rounding. The same seed gives the same result on every machine.

    Returns:
        A new array of the same shape, of the dtype of `format` in numpy or ml_dtypes. Conversions to integers truncate
        and stop at the ends of the range; NaN becomes 0.

    Raises:
        InputError: `format` or an option is unknown, or `x` is not an array of real numbers.
    """
    target = element_of(format)
    try:
        policy = Policy(overflow=overflow, rounding=rounding, seed=seed)
    except ValueError as error:
        raise InputError(str(error)) from None
    array, source = real_array(x)
    memory.check(array.size * target.dtype.itemsize, f"the result of casting to {target}")
    with np.errstate(all="ignore"):
        result = convert(array, source, target, policy, first_draws(policy))
    return np.array(result)


def convert(
    x: np.ndarray, source: ElementType, target: ElementType, policy: Policy, draws: Draws | None = None
) -> np.ndarray:
    """`x` in another real type. Integers stop at the ends of the range, where stablehlo.convert lets them wrap."""
    if source.is_integer and target.is_integer:
        wide = x.astype(np.uint64 if source.kind is Kind.UNSIGNED else np.int64)
        (least, most), (low, high) = source.range, target.range
        x, source = np.clip(wide, max(low, least), min(high, most)), ELEMENT_TYPES["ui64" if least == 0 else "i64"]
    return cast_array(x, source, target, policy, draws)


@host_floats.in_default
def scale(x: Any, format: str, *, power_of_two: bool = False) -> float:
    """Compute the factor that brings the largest magnitude of an array to the largest number of a format.

    This is per-tensor scaling as in FP8 Formats for Deep Learning (arXiv 2209.05433): multiply by the factor before a
    cast, and divide by it after.

    Args:
        x: An array of any shape and real dtype. NaN and infinities are left out.
        format: A floating-point type as MLIR names it, such as `"f8E4M3FN"`.
        power_of_two: Round the factor down to a power of two. Multiplying then changes exponents only, and nothing
            overflows.

    Returns:
        max(format) / max|x|, rounded to a float, and 1.0 if all elements are zero or there is none. A factor beyond the
        range of floats is the largest or the smallest positive float.

    Raises:
        InputError: `format` is not a floating-point type, or `x` is not an array of real numbers.
    """
    target = element_of(format)
    if not target.is_float:
        raise InputError(f"expected a floating-point type, got {target}")
    array, source = real_array(x)
    largest = _largest_magnitude(array, source)
    if not largest:
        return 1.0
    top = to_fraction(decode(np.array(target.format.max_code, target.format.code_dtype), target.format))
    factor = top / largest
    if power_of_two:
        exponent = factor.numerator.bit_length() - factor.denominator.bit_length()
        exponent -= Fraction(2) ** exponent > factor
        return math.ldexp(1.0, min(max(exponent, -1074), 1023))
    smallest, huge = Fraction(math.ulp(0.0)), Fraction(np.finfo(np.float64).max.item())
    return float(min(max(factor, smallest), huge))


def element_of(name: Any) -> ElementType:
    """The real element type of a name. Raises InputError."""
    try:
        element = named_type(str(name))
    except ValueError as error:
        raise InputError(str(error)) from None
    if element.is_complex:
        raise InputError(f"expected a real type, got {element}")
    return element


def real_array(x: Any) -> tuple[np.ndarray, ElementType]:
    """What a caller passes as an array of real numbers, and its element type. Raises InputError."""
    refuse_mask(x, "the array")
    array = to_numpy(x)
    element = npy.stored_element(array.dtype)
    if element is None:
        raise InputError(f"expected an array of real numbers, got {_other(array)}")
    if element.is_complex:
        raise InputError(f"expected a real type, got {element} (cast the real and imaginary parts)")
    return npy.as_element(array, element, "the array"), element


def _other(array: np.ndarray) -> str:
    """What an array holds that is of no element type."""
    if array.dtype != object:
        return f"dtype {array.dtype}"
    values = array.reshape(-1).tolist()
    if any(isinstance(v, int) and not -(1 << 63) <= v < 1 << 64 for v in values):
        return "an integer beyond 64 bits (from -2^63 to 2^64-1)"
    others = [type(v).__name__ for v in values if not isinstance(v, int | float)]
    return f"an element of type {others[0]}" if others else "Python objects (give the array a dtype)"


def _largest_magnitude(array: np.ndarray, element: ElementType) -> Fraction:
    """max|x| over the finite elements, exactly; 0 where there is none."""
    if not array.size:
        return Fraction(0)
    if not element.is_float:
        wide = array.astype(np.int64 if element.bits < 64 else array.dtype)
        return Fraction(max(abs(int(wide.min())), abs(int(wide.max()))))
    wide = cast_array(array, element, element_type("f64"), Policy())
    finite = np.abs(wide[np.isfinite(wide)])
    return Fraction(float(finite.max())) if finite.size else Fraction(0)
