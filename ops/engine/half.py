"""Arrays of f16 and bf16 as f32 and back, and f32 rounded to their numbers, to nearest even.

numpy converts f16 element by element. Here the bits of f16 are shifted to where f32 has its exponent and fraction, and
a multiplication by a power of two accounts for the other bias. f32 is rounded by an addition: next to 2**13 times the
power of two in a number, f32 has as many bits left as f16 keeps, and of subnormal numbers as many as there are above
the smallest one. bf16 is left to ml_dtypes, which takes many at a time.

Measured on a busy machine, ns an element on one thread: f16 to f32 0.95 by numpy, 0.35 so, in programs with two
operands 3.8 by a table of all codes; f32 to f16 1.9 to 2.7, and 1.2; there and back 3.3 to 4.1, and 0.8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from ..types import ElementType
from .blocks import array_to_fill, empty
from .compiled import kernels
from .speed import tuning

_F16, _F32 = np.dtype(np.float16), np.dtype(np.float32)
_SIZE, _EXPONENT, _SIGN = np.uint32(0x7FFFFFFF), np.uint32(0x7F800000), np.uint32(0x80000000)
#: The smallest normal number of f16 as f32; 2**15, below which none is rounded to infinity; 2**16, where that stands.
_NORMAL, _LARGE, _END = 0x38800000, np.uint32(0x47000000), np.uint32(0x47800000)
#: What is left of f16 that has been shifted below the sign of f32, and what that is to be multiplied by.
_SHIFTED, _BIAS = np.int32(-0x70002000), np.float32(2.0**112)
_INFINITY, _MINUS_INFINITY = np.int16(0x7C00), np.uint16(0xFC00)
#: The upper half of the smallest normal number of f16 as f32, and how far from there 2**16 is, where infinity stands;
#: the difference of the biases as it remains in the last bits of a code.
_LEAST, _ENDS, _BIASES = np.uint16(_NORMAL >> 16), np.uint16(30 << 7), np.uint16(0xC000)
_UP, _MIDDLE = np.float32(2.0**13), np.float32(1.5 * 2.0**13)


def widen(x: np.ndarray) -> np.ndarray:
    """f16 or bf16 as f32, in an array of its own. NaN keep their bits."""
    compiled = _compiled(x.size)
    if compiled is None and (x.dtype != _F16 or x.size < tuning().half_many):
        return x.astype(np.float32)
    if not x.flags.c_contiguous:
        if x.flags.f_contiguous:
            return widen(x.T).T
        x = np.ascontiguousarray(x)
    result = empty(x.shape, _F32)
    codes, numbers, step = x.view(np.int16).reshape(-1), result.reshape(-1), tuning().half_block
    if compiled is not None:
        compiled[0](codes.view(np.uint16), x.dtype == _F16, numbers.view(np.uint32))
        return result
    for i in range(0, x.size, step):
        _decode(codes[i : i + step], numbers[i : i + step])
    return result


def narrow(x: np.ndarray, dtype: np.dtype, out: np.ndarray | None = None) -> np.ndarray:
    """f32 as f16 or bf16, each rounded once to nearest even, as `astype` does; in `out`, if that is given."""
    compiled = _compiled(x.size)
    if compiled is None and (dtype != _F16 or x.size < tuning().half_many):
        if out is None:
            return x.astype(dtype)
        out[...] = x
        return out
    if not x.flags.c_contiguous:
        if x.flags.f_contiguous:
            return narrow(x.T, dtype).T
        x = np.ascontiguousarray(x)
    result = array_to_fill(out, x.shape, dtype)
    numbers, codes, step = x.reshape(-1), result.view(np.uint16).reshape(-1), tuning().half_block
    if compiled is not None:
        compiled[1](numbers.view(np.uint32), dtype == _F16, codes)
        return result
    for i in range(0, x.size, step):
        _encode(numbers[i : i + step], codes[i : i + step])
    return result


def rounded(x: np.ndarray, element: ElementType) -> np.ndarray:
    """f32 rounded to the numbers of f16 or bf16, and held as f32: `widen(narrow(x))`."""
    if element.dtype != _F16 or x.size < tuning().half_many:
        return widen(narrow(x, element.dtype))
    if not x.flags.c_contiguous:
        return rounded(x.T, element).T if x.flags.f_contiguous else rounded(np.ascontiguousarray(x), element)
    result = empty(x.shape, _F32)
    numbers, into, step = x.reshape(-1), result.reshape(-1), tuning().half_block
    for i in range(0, x.size, step):
        _round(numbers[i : i + step], into[i : i + step])
    return result


def _compiled(size: int) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """What does both in a twentieth of the time, if it is there for so many elements."""
    found = kernels(size)
    return None if found is None else found.halves


def _decode(codes: np.ndarray, into: np.ndarray) -> None:
    bits = into.view(np.int32)
    np.copyto(bits, codes)  # the sign fills the upper half
    bits <<= 13
    bits &= _SHIFTED
    into *= _BIAS
    if codes.max() >= _INFINITY or codes.view(np.uint16).max() >= _MINUS_INFINITY:
        special = np.flatnonzero((codes & _INFINITY) == _INFINITY)
        into[special] = codes[special].view(_F16)


def _encode(x: np.ndarray, codes: np.ndarray) -> None:
    """f32 as the codes of f16, by its two halves as integers of 16 bits, of which processors take many at a time."""
    bits = x.view(np.uint32)
    low, high = np.empty(len(x), np.uint16), np.empty(len(x), np.uint16)
    np.copyto(low, bits, casting="unsafe")
    np.copyto(high, bits >> 16, casting="unsafe")
    place = high & np.uint16(0x7FFF)
    place -= _LEAST
    special = None
    if place.max() >= _ENDS:
        is_special = place >= _ENDS
        if np.count_nonzero(is_special) > len(x) >> 4:
            return _encode_any(x, codes)
        special = np.flatnonzero(is_special)
    # The last six bits of the exponent and the first ten of the fraction; the other thirteen say how to round.
    np.multiply(high, np.uint16(8), out=codes)
    np.right_shift(low, 13, out=place)
    codes |= place
    low &= np.uint16(0x1FFF)
    np.bitwise_and(codes, np.uint16(1), out=place)
    low += place
    low += np.uint16(0xFFF)
    low >>= 13
    codes += low
    high &= np.uint16(0x8000)
    high -= _BIASES
    codes += high
    if special is not None:
        codes[special] = x[special].astype(_F16).view(np.uint16)
    return None


def _encode_any(x: np.ndarray, codes: np.ndarray) -> None:
    """The same where many numbers are zero, subnormal or too large."""
    bits = x.view(np.uint32)
    size = bits & _SIZE
    at_most = size.max()
    if at_most > _END:
        if at_most > _EXPONENT and np.count_nonzero(size > _EXPONENT) > len(x) >> 3:
            codes[:] = x.astype(_F16).view(np.uint16)
            return
        size = np.minimum(size, _END)
    power = size & _EXPONENT
    np.maximum(power, _normals(len(x)), out=power)
    total = power.view(np.float32) * _UP
    total += size.view(np.float32)
    # The last bits of the sum count the steps of the number, 2**10 of them up to a power of two.
    np.copyto(codes, total.view(np.uint32), casting="unsafe")
    word = np.empty(len(x), np.uint16)
    power >>= 13
    np.copyto(word, power, casting="unsafe")
    codes += word
    codes -= np.uint16((_NORMAL >> 13) & 0xFFFF)
    np.right_shift(bits, 16, out=power)
    np.copyto(word, power, casting="unsafe")
    word &= np.uint16(0x8000)
    codes |= word
    if at_most > _EXPONENT:
        nan = np.flatnonzero(np.isnan(x))
        codes[nan] = x[nan].astype(_F16).view(np.uint16)


def _round(x: np.ndarray, into: np.ndarray) -> None:
    bits = x.view(np.uint32)
    power = bits & _EXPONENT
    is_large = power.max() >= _LARGE
    large = np.flatnonzero(power >= _LARGE) if is_large else ()
    if len(large) > len(x) >> 3:
        into[:] = x.astype(_F16)
        return
    np.maximum(power, _normals(len(x)), out=power)
    middle = power.view(np.float32)
    middle *= _MIDDLE
    np.add(x, middle, out=into)
    into -= middle
    if into.view(np.uint32).min() == 0:  # zeros that have lost their signs
        np.bitwise_and(bits, _SIGN, out=power)
        into.view(np.uint32)[:] |= power
    if is_large:
        into[large] = x[large].astype(_F16)


def _normals(count: int) -> np.ndarray:
    return _kept_normals(max(tuning().half_block, tuning().half_many, count))[:count]


@functools.lru_cache(4)
def _kept_normals(count: int) -> np.ndarray:
    """One number many times: numpy takes three times as long for the maximum with a single one."""
    return np.full(count, _NORMAL, np.uint32)
