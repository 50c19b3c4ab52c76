"""Ops on the bits and the parts of a value: shifts, counts, bit casts, complex parts, abs and is_finite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cast import cast, wrap
from ..minifloat import arithmetic
from ..minifloat.number import FINITE
from ..op import EXACT_BUT_COMPLEX, Call, Run, op
from ..policy import Policy
from ..require import identity, require, require_same_types, require_shape
from ..traits import LINEAR, OpTraits
from ..types import ELEMENT_TYPES, ElementType, Kind
from .elementwise import declare_test
from .float_kernels import Function, float_kernel


def unsigned(x: np.ndarray, element: ElementType) -> np.ndarray:
    """The codes of integers, as unsigned integers of numpy's."""
    codes = x.view(f"u{element.dtype.itemsize}")
    return codes if element.bits >= 8 else codes & ((1 << element.bits) - 1)


def signed(x: np.ndarray, element: ElementType) -> np.ndarray:
    """The codes of integers, of unsigned ones too, read in two's complement."""
    if element.bits >= 8:
        return x.view(f"i{element.dtype.itemsize}")
    spare = 8 - element.bits
    return (x.view(np.uint8) << spare).view(np.int8) >> spare


def _integers(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Integers of numpy's, in or out of range, as `element`."""
    return x.astype(element.dtype, copy=False) if element.bits >= 8 else np.asarray(wrap(x, element))


def _shift(call: Call, read: Callable, shift: np.ufunc) -> Run:
    require_same_types(call)
    element = call.tensor().element
    # numpy gives what is left of all bits shifted out, 0 or the sign, for shifts by the width or more; and takes a
    # negative amount as a large unsigned one.
    if element.bits < 8:
        return lambda x, y: _integers(shift(read(x, element), read(y, element)), element)
    view, dtype = read(np.zeros(0, element.dtype), element).dtype, element.dtype
    return shift if view == dtype else lambda x, y: shift(x.view(view), y.view(view)).view(dtype)


def _declare_shift(name: str, read: Callable | None, shift: np.ufunc, doc: str) -> None:
    def bind(call: Call) -> Run:
        own = signed if call.tensor().element.kind is Kind.SIGNED else unsigned
        return _shift(call, read or own, shift)

    bind.__doc__ = f"{doc}\n\n    (C1) The operands and the result have one type.\n"
    op(name, "integer", values="numbers", operands=2, is_elementwise=True)(bind)


_LOGICAL = "by an unsigned amount, zeros moved in; by the width or more, 0."
_declare_shift("shift_left", None, np.left_shift, f"Bits moved up {_LOGICAL}")  # either reading gives the same bits
_declare_shift("shift_right_logical", unsigned, np.right_shift, f"Bits moved down {_LOGICAL}")
_ARITHMETIC = "Bits moved down by an unsigned amount, copies of the top bit moved in, in unsigned types too."
_declare_shift("shift_right_arithmetic", signed, np.right_shift, _ARITHMETIC)


@op("popcnt", "integer", values="numbers", operands=1, is_elementwise=True)
def popcnt(call: Call) -> Run:
    """How many bits are set; where the type cannot hold that many, modulo its range.

    (C1) The operand and the result have one type.
    """
    require_same_types(call)
    element = call.tensor().element
    return lambda x: _integers(np.bitwise_count(unsigned(x, element)), element)


@op("count_leading_zeros", "integer", values="numbers", operands=1, is_elementwise=True)
def count_leading_zeros(call: Call) -> Run:
    """How many bits are zero above the highest one set; where the type cannot hold that many, modulo its range.

    (C1) The operand and the result have one type.
    """
    require_same_types(call)
    element = call.tensor().element
    steps = [1 << i for i in range(element.bits.bit_length() - 1)]

    def kernel(x: np.ndarray) -> np.ndarray:
        codes = unsigned(x, element)
        for step in steps:  # set every bit below the highest
            codes = codes | (codes >> step)
        return _integers(element.bits - np.bitwise_count(codes), element)

    return kernel


@op("bitcast_convert", "any foreign", operands=1, traits=OpTraits(is_pure=True, keeps_bits=True))
def bitcast_convert(call: Call) -> Run:
    """The same bits read as another type; the last dimension splits or joins elements, the lowest bits first.

    (C1) The bits fill the result: the shape stays, or gains or loses a last dimension as long as the widths' ratio.
    (C2) Both types are complex, or neither.
    """
    old, new = call.tensor(), call.result()
    source, target = old.element, new.element
    fits = source.is_complex == target.is_complex
    require(fits, f"expected both or neither type to be complex, got {source} and {target}")
    if source.bits == target.bits:
        require_shape(call, old.shape)
        dtype = target.dtype
        return lambda x: x.view(dtype)
    ratio = max(source.bits, target.bits) // min(source.bits, target.bits)
    whole = ratio * min(source.bits, target.bits) == max(source.bits, target.bits)
    require(whole, f"expected types of which one is a whole number of the others, got {source} and {target}")
    if source.bits > target.bits:
        require_shape(call, (*old.shape, ratio))
        return lambda x: _split(np.asarray(x), source, target, ratio)
    fits = old.shape and old.shape[-1] in (ratio, None)
    require(fits, f"expected a last dimension of {ratio} to make {target}, got {old}")
    require_shape(call, old.shape[:-1])
    return lambda x: _join(x, source, target)


def _split(x: np.ndarray, source: ElementType, target: ElementType, ratio: int) -> np.ndarray:
    shape = (*x.shape, ratio)
    x = np.ascontiguousarray(x).reshape((*x.shape, 1))
    if target.bits >= 8:
        return x.view(target.dtype)
    data = x.view(np.uint8)  # every byte holds several elements; or, of a type below eight bits, its only byte does
    pieces = data[..., None] >> np.arange(0, min(source.bits, 8), target.bits, dtype=np.uint8)
    pieces &= (1 << target.bits) - 1
    return pieces.reshape(shape).view(target.dtype)


def _join(x: np.ndarray, source: ElementType, target: ElementType) -> np.ndarray:
    shape = x.shape[:-1]
    x = np.ascontiguousarray(x)
    if source.bits < 8:
        places = np.arange(0, min(target.bits, 8), source.bits, dtype=np.uint8)
        pieces = x.view(np.uint8) & ((1 << source.bits) - 1)
        x = np.bitwise_or.reduce(pieces.reshape((*shape, max(target.bits // 8, 1), len(places))) << places, axis=-1)
    return x.view(target.dtype).reshape(shape)


def _require_part(call: Call) -> None:
    t = call.tensor()
    fits = call.result().element == t.element.part
    require(fits, f"expected a result of {t.element.part}, got {call.result().element}")
    require_shape(call, t.shape)


@op("real", "float complex", operands=1, is_elementwise=True, traits=LINEAR)
def real(call: Call) -> Run:
    """The real part; of a real number itself.

    (C1) The shape stays. (C2) The result has the type of the parts.
    """
    _require_part(call)
    return (lambda x: x.real) if call.tensor().element.is_complex else identity


@op("imag", "float complex", operands=1, is_elementwise=True, traits=LINEAR)
def imag(call: Call) -> Run:
    """The imaginary part; of a real number 0.

    (C1) The shape stays. (C2) The result has the type of the parts.
    """
    _require_part(call)
    element = call.tensor().element
    if element.is_complex:
        return lambda x: x.imag
    zero = np.asarray(cast(np.zeros((), np.int32), ELEMENT_TYPES["i32"], element, Policy()))
    return lambda x: np.broadcast_to(zero, x.shape)


@op("complex", "f32 f64", operands=2, traits=OpTraits(linear=range))
def complex_(call: Call) -> Run:
    """The complex number of two parts.

    (C1) The parts have one type. (C2) The shape stays. (C3) The result's parts have that type.
    """
    part, result = call.tensor(), call.result()
    require(part == call.tensor(1), f"the parts have types {part} and {call.tensor(1)} (expected the same)")
    is_right = result.element.is_complex and result.element.part == part.element
    require(is_right, f"expected a result of complex<{part.element}>, got {result.element}")
    require_shape(call, part.shape)
    dtype = result.element.dtype

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        z = np.empty(x.shape, dtype)
        z.real, z.imag = x, y
        return z

    return kernel


_ABSOLUTE = Function(arithmetic.absolute, np.abs, 1, is_basic=True)


@op("abs", "signed float complex", values="numbers", accuracy=EXACT_BUT_COMPLEX, operands=1, is_elementwise=True)
def abs_(call: Call) -> Run:
    """The absolute value; of the smallest integer itself, of NaN with its sign cleared, of a complex number its length.

    (C1) The shape stays. (C2) The result has the operand's type, or that of its parts.
    """
    element = call.tensor().element
    _require_part(call)
    if element.is_float:
        return float_kernel(_ABSOLUTE, element, call)
    if element.is_complex:
        dtype = element.part.dtype
        return lambda x: np.abs(x.astype(np.complex128)).astype(dtype)
    return np.abs if element.bits >= 8 else lambda x: _integers(np.abs(signed(x, element)), element)


_FINITE_DOC = "Whether the number is neither infinite nor NaN.\n\n    (C1) The shape stays.\n"
declare_test("is_finite", _FINITE_DOC, lambda x: x.kind == FINITE, np.isfinite)
