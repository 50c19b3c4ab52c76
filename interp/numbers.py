"""Numbers between formats, for Python: cast, scale, pack, unpack."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ..ops.minifloat.cast import cast as cast_array
from ..ops.minifloat.codec import decode, to_fraction
from ..ops.policy import Policy
from ..ops.types import ElementType, Kind, TensorType, element_type, type_of_dtype
from . import memory, npy
from .errors import InputError


def cast(x: Any, format: str, *, overflow: str = "ieee", rounding: str = "nearest_even", seed: int = 0) -> np.ndarray:
    """`x` converted to the element type `format` (an MLIR name such as `f8E4M3FN`), rounded once from its exact values.

    x: an array of any real type (ml_dtypes' too, integers, bool), a number, or nested lists of numbers.
    overflow: `ieee` (infinity if the format has one, else NaN, else the largest number), `saturate` (the largest
        number, for infinities too), `onnx` (the saturating tables of the ONNX float8 and float4 pages).
    rounding: `nearest_even`, `toward_zero`, `up`, `down`, `nearest_away` or `stochastic`, which takes its bits from a
        Philox generator started with `seed`: the same seed gives the same result on every machine.

    Returns a new array of numpy's or ml_dtypes' type. Conversions to integers truncate and stop at the ends of the
    range; NaN becomes 0. Raises InputError for an unknown format or option, or what is not an array of real numbers.
    """
    target = _element(format)
    try:
        policy = Policy(overflow=overflow, rounding=rounding, seed=seed)
    except ValueError as error:
        raise InputError(str(error)) from None
    array, source = _real_array(x)
    memory.check(array.size * target.dtype.itemsize, f"the result of casting to {target}")
    rng = np.random.Generator(np.random.Philox(seed)) if rounding == "stochastic" else None
    with np.errstate(all="ignore"):
        result = cast_array(array, source, target, policy, rng)
    return np.array(result)


def scale(x: Any, format: str, *, power_of_two: bool = False) -> float:
    """The factor that brings the largest magnitude of `x` to the largest number of `format`: max(format) / max|x|.

    Multiply by it before a cast and divide after: per-tensor scaling as in FP8 Formats for Deep Learning (arXiv
    2209.05433). The quotient is rounded to a float; with `power_of_two` it is rounded down to a power of two,
    so that multiplying changes exponents only and nothing overflows.

    NaN and infinities in `x` do not count: no factor brings them into range. Where nothing but zeros is left, or
    nothing at all, the factor is 1. A factor beyond the range of floats is the largest or the smallest one.
    """
    target = _element(format)
    if not target.is_float:
        raise InputError(f"{target} is not a float type, which scaling is for")
    array, source = _real_array(x)
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


def pack(codes: Any, format: str) -> bytes:
    """Elements of a type of up to eight bits without the unused bits between them: ceil(N * bits / 8) bytes.

    codes: unsigned codes (uint8), or an array of the type itself (ml_dtypes); of any shape, in row-major order. For
        signed integer types int8 values will do too.

    The elements are one little-endian stream of bits: two 4-bit elements share a byte, the first in the low four bits;
    four 6-bit elements share three bytes. Bits left over at the end are zero. Raises InputError for codes out of range.
    """
    element = _packable(format)
    flat = _codes(codes, element).ravel()
    if element.bits == 8:
        return flat.tobytes()
    bits = np.unpackbits(flat[:, None], axis=1, count=element.bits, bitorder="little")
    return np.packbits(bits, bitorder="little").tobytes()


def unpack(data: bytes | bytearray | memoryview | np.ndarray, format: str, shape: int | tuple[int, ...]) -> np.ndarray:
    """The codes that `pack` packed, as uint8 of the given shape; `.view` with ml_dtypes' type makes them numbers.

    Raises InputError where the number of bytes is not that of `shape`.
    """
    element = _packable(format)
    dims = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    if any(isinstance(d, bool) or not isinstance(d, int | np.integer) or d < 0 for d in dims):
        raise InputError(f"{shape!r} is not a shape (integers of at least 0)")
    dims = tuple(int(d) for d in dims)
    memory.check_type(TensorType(dims, element))
    size = math.prod(dims)
    try:
        raw = np.frombuffer(bytes(data) if isinstance(data, bytearray | memoryview) else data, np.uint8)
    except (TypeError, ValueError):
        raise InputError(f"a {type(data).__name__} is not packed bytes") from None
    needed = -(-size * element.bits // 8)
    if len(raw) != needed:
        raise InputError(f"{size} elements of {element} take {needed} bytes, not {len(raw)}")
    if element.bits == 8:
        return raw.reshape(dims).copy()
    bits = np.unpackbits(raw, count=size * element.bits, bitorder="little").reshape(size, element.bits)
    return np.packbits(bits, axis=1, bitorder="little").reshape(dims)


def _element(name: Any) -> ElementType:
    try:
        element = element_type(str(name))
    except ValueError as error:
        raise InputError(str(error)) from None
    if element.is_complex:
        raise InputError(f"{element} is not a real type")
    return element


def _packable(name: Any) -> ElementType:
    element = _element(name)
    if element.bits > 8:
        raise InputError(f"{element} has {element.bits} bits; packing is for types of up to eight")
    return element


def _real_array(x: Any) -> tuple[np.ndarray, ElementType]:
    try:
        array = np.asarray(x)
    except Exception as error:  # whatever a foreign __array__ raises
        raise InputError(f"not an array: {' '.join(str(error).split())[:200]}") from None
    element = npy.named_element(array.dtype)  # what np.load gives of our files
    if element is None:
        try:
            element = type_of_dtype(array.dtype.newbyteorder("="))
        except ValueError:
            raise InputError(f"arrays of numpy's {array.dtype} are not supported") from None
    if element.is_complex:
        raise InputError(f"{element} is not a real type (cast the real and imaginary parts)")
    return npy.as_element(array, element, "the array"), element


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


def _codes(codes: Any, element: ElementType) -> np.ndarray:
    array = np.asarray(codes)
    mask = (1 << element.bits) - 1
    if array.dtype == element.dtype or npy.named_element(array.dtype) == element:
        array = npy.as_element(array, element, "the array")
        return array.view(np.uint8) & np.uint8(mask)
    if not array.size:  # an empty list is an array of f64
        return array.astype(np.uint8)
    if array.dtype.kind not in "iu":
        raise InputError(f"codes of {element} are unsigned integers, or an array of its own type, not {array.dtype}")
    low = -(1 << (element.bits - 1)) if element.kind is Kind.SIGNED else 0
    if int(array.min()) < low or int(array.max()) > mask:
        wrong = array[(array < low) | (array > mask)].flat[0]
        raise InputError(f"{wrong} is not a code of {element} ({low} to {mask})")
    return array.astype(np.uint8) & np.uint8(mask)
