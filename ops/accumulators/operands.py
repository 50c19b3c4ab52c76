"""Operands of an accumulator: the values of codes, and the exponents that their products are aligned by."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from ..minifloat.codec import decode
from ..minifloat.formats import FORMATS, Format
from ..minifloat.number import FINITE
from .forms import exponent
from .record import Accumulator

#: The exponent of what no term is aligned to: zeros, infinities and NaN.
ABSENT = -4000
#: The last bits of f32, which a matrix instruction does not read as tf32.
_TF32_CUT = 13


@dataclasses.dataclass(frozen=True)
class Operand:
    """Numbers with the axis of the sum first."""

    values: np.ndarray  #: f64; infinities and NaN as they are
    exponents: np.ndarray  #: int16; `ABSENT` for zeros, infinities and NaN

    def __getitem__(self, index: object) -> Operand:
        return Operand(self.values[index], self.exponents[index])  # type: ignore[index]


def operand(x: np.ndarray, name: str, record: Accumulator) -> Operand:
    """The operand of an array of codes or of numbers of a format of up to 32 bits, or of `tf32`, in the same shape.

    Raises:
        ValueError: The type is not one.
    """
    return _read(x, name, "operands" in record.flush)


def scale(x: Operand, scales: np.ndarray, name: str, block: int, record: Accumulator) -> Operand:
    """The operand with the scale of each `block` of its first axis, codes or numbers of a format, the axis first too.

    The sign of a scale counts for nothing.

    Raises:
        ValueError: There are not as many scales as blocks.
    """
    length = x.values.shape[0]
    count = -(-length // block)
    if scales.shape[0] != count:
        raise ValueError(f"expected {count} scales for {length} elements in blocks of {block}, got {scales.shape[0]}")
    each = _read(scales, name, False)
    value, shift = (v.repeat(block, 0)[:length] for v in (np.abs(each.values), each.exponents))
    if record.inner > 1:  # the products of a block are added before they are scaled
        found = np.broadcast_to(shift, np.broadcast_shapes(shift.shape, x.values.shape))
    else:
        found = np.maximum(x.exponents, -20000) + shift
    return Operand(x.values * value, found)


def _read(x: np.ndarray, name: str, is_flushed: bool) -> Operand:
    fmt = FORMATS.get("f32" if name == "tf32" else name)
    if fmt is None or fmt.bits > 32:
        raise ValueError(f"expected operands of a float type of up to 32 bits, or tf32, got {name}")
    codes = x if x.dtype == fmt.code_dtype else x.view(fmt.code_dtype)
    if fmt.bits <= 16:
        values, exponents = _table(fmt, is_flushed)
        if fmt.bits < 8:
            codes = codes & np.uint8((1 << fmt.bits) - 1)
        return Operand(values[codes], exponents[codes])
    numbers = codes.view(np.float32)
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = (tf32(numbers) if name == "tf32" else numbers).astype(np.float64)
    found = np.maximum(exponent(values), 1 - fmt.bias)
    if is_flushed:
        values[np.abs(values) < 2.0 ** (1 - fmt.bias)] = 0
    found[(values == 0) | ~np.isfinite(values)] = ABSENT
    return Operand(values, found.astype(np.int16))


def tf32(x: np.ndarray) -> np.ndarray:
    """f32 as instructions of tf32 read it."""
    return (x.view(np.uint32) & np.uint32(0xFFFFFFFF << _TF32_CUT & 0xFFFFFFFF)).view(np.float32)


def with_unit_scales(x: Operand) -> Operand:
    """The operand with scales of 1, for a record that adds products before they are scaled."""
    return Operand(x.values, np.zeros_like(x.exponents))


@functools.cache
def _table(fmt: Format, is_flushed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The value and the exponent of every code of a format of up to 16 bits."""
    x = decode(np.arange(1 << (8 * fmt.code_dtype.itemsize)) & ((1 << fmt.bits) - 1), fmt)
    is_number = (x.kind == FINITE) & (x.significand != 0)
    if is_flushed and fmt.has_subnormals:
        is_number &= x.significand >> fmt.mantissa_bits != 0
    magnitude = np.where(is_number, np.ldexp(x.significand.astype(np.float64), x.exponent), 0.0)
    magnitude[x.is_infinite] = np.inf
    magnitude[x.is_nan] = np.nan
    values = np.where(x.sign, -magnitude, magnitude)
    # All significands of a format stand at one place, so a subnormal has the least exponent by itself.
    exponents = np.where(is_number, x.exponent + (fmt.mantissa_bits if fmt.has_subnormals else 0), ABSENT)
    return values, exponents.astype(np.int16)
