"""Dense constants as MLIR prints them -> numpy arrays, exact to the bit."""

from __future__ import annotations

import re

import numpy as np

from ..ops.types import ElementType, Kind, TensorType

#: numpy refuses arrays, also views of one element, of more bytes than this.
_MOST_BYTES = np.iinfo(np.intp).max


def holds(element: ElementType) -> bool:
    """True where numpy reads a dense attribute of this element type by itself, through the buffer protocol."""
    return element.kind is not Kind.COMPLEX and element.dtype.kind in "biuf" and element.dtype.isbuiltin == 1


def dimensions(t: TensorType) -> tuple[int, ...]:
    """The shape of a constant, which has no dimension of unknown size."""
    if not t.is_static:
        raise ValueError(f"{t} has a dimension of unknown size")
    return tuple(n for n in t.shape if n is not None)


def broadcast(one: np.ndarray, t: TensorType) -> np.ndarray:
    """A read-only array of type `t` whose elements are all `one`; takes the memory of one element."""
    if t.nbytes > _MOST_BYTES:
        raise ValueError(f"{t.nbytes} bytes are more than any machine can address")
    return np.broadcast_to(one.reshape(()), dimensions(t))


def array_of_text(body: str, t: TensorType) -> np.ndarray:
    """The array printed as `dense<body> : t`: one literal for all elements, nested lists, or a string of hex."""
    if t.size == 0:
        array = np.empty(dimensions(t), t.element.dtype)
    elif body.startswith('"0x'):
        array = _array_of_hex(body[3:-1], t)
    else:
        literals = _parts(body) if t.element.is_complex else re.split(r"[\s,\[\]]+", body.strip("[] \n"))
        array = _array_of_literals(literals, t.element.part)
        if t.element.is_complex:
            array = array.view(t.element.dtype)
        array = broadcast(array, t) if array.size == 1 else array.reshape(dimensions(t))
    array.flags.writeable = False
    return array


def _array_of_hex(digits: str, t: TensorType) -> np.ndarray:
    """The elements' bytes, little-endian; i1 are packed eight a byte, others take a whole number of bytes each."""
    data = bytes.fromhex(digits)
    if t.element.kind is Kind.BOOL:
        return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=t.size).astype(bool)
    array = np.frombuffer(data, t.element.dtype.newbyteorder("<") if holds(t.element) else t.element.dtype)
    if t.element.bits < 8 and t.element.kind is Kind.SIGNED:  # the high bits of a byte may be anything
        array = _narrow(array.view(np.uint8), t.element)
    return array.astype(t.element.dtype, copy=False).reshape(dimensions(t))


def _parts(body: str) -> list[str]:
    """The literals of `(re, im)` pairs, in order."""
    return re.findall(r"[^\s,()\[\]]+", body)


def _array_of_literals(literals: list[str], element: ElementType) -> np.ndarray:
    """One element for each literal: `true`, `-3`, `1.5e-3`, or `0x7F`, which is a bit pattern where it is a float."""
    if element.kind is Kind.BOOL:
        return np.array([x == "true" for x in literals])
    if element.is_integer:
        values = np.array([int(x, 0) for x in literals], "u8" if element.kind is Kind.UNSIGNED else "i8")
        return _narrow(values, element)
    # MLIR prints as many digits as it takes to read the same code back, so the decimal is so near to one code
    # that no rounding on the way, by float64 or by ml_dtypes, leads to another.
    array = np.array([0.0 if "0x" in x else float(x) for x in literals]).astype(element.dtype)
    codes = array.view(element.format.code_dtype)
    for i, x in enumerate(literals):
        if "0x" in x:
            codes[i] = int(x, 16)
    return array


def _narrow(values: np.ndarray, element: ElementType) -> np.ndarray:
    """Integers as `element`, going by way of the eight-bit type that ml_dtypes converts from without loss."""
    if element.bits >= 8:
        return values.astype(element.dtype)
    low = (values.astype(np.uint8) & ((1 << element.bits) - 1)).astype(np.uint8)
    if element.kind is Kind.SIGNED:
        sign = 1 << (element.bits - 1)
        return ((low ^ sign).astype(np.int8) - sign).astype(element.dtype)
    return low.astype(element.dtype)
