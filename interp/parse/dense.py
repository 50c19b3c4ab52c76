"""Dense constants as MLIR prints them -> numpy arrays, exact to the bit."""

from __future__ import annotations

import re

import numpy as np

from ...ops.cast import wrap
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from .literals import array_of_literals

_BETWEEN = re.compile(r"[\s\[\]]*,[\s\[\]]*")

#: numpy refuses arrays, also views of one element, of more bytes than this.
_MOST_BYTES = np.iinfo(np.intp).max


def holds(element: ElementType) -> bool:
    """True where numpy reads a dense attribute of this element type by itself, through the buffer protocol."""
    dtype = element.dtype
    return not element.is_complex and dtype.kind in "biuf" and dtype.isbuiltin == 1 and element.has_dtype


def dimensions(t: TensorType) -> tuple[int, ...]:
    """The shape of a constant, which has no dimension of unknown size. Raises ValueError for one that has."""
    if not t.is_static:
        raise ValueError(f"{t} has a dimension of unknown size")
    return tuple(n for n in t.shape if n is not None)


def broadcast(one: np.ndarray, t: TensorType) -> np.ndarray:
    """A read-only array of type `t` whose elements are all `one`; takes the memory of one element.

    Raises ValueError where no machine could address it.
    """
    if t.nbytes > _MOST_BYTES:
        raise ValueError(f"{t.nbytes} bytes are more than any machine can address")
    return np.broadcast_to(one.reshape(()), dimensions(t))


def array_of_text(body: str, t: TensorType) -> np.ndarray:
    """Return the array that is printed as `dense<body> : t`.

    Args:
        body: One literal for all elements, nested lists of literals, or a string of hexadecimal digits.
        t: The type, of known sizes.

    Returns:
        An array of the shape of `t` and the dtype that stores its element type, exact to the bit.

    Raises:
        ValueError: The body is not of that type.
    """
    if t.size == 0:
        array = np.empty(dimensions(t), t.element.dtype)
    elif body.startswith('"0x'):
        array = _array_of_raw(bytes.fromhex(body[3:-1]), t)
    else:
        # Of complex numbers those of the `(re, im)` pairs, in order.
        is_pairs = t.element.is_complex
        literals = re.findall(r"[^\s,()\[\]]+", body) if is_pairs else _BETWEEN.split(body.strip("[] \n"))
        # Bits above an i4 may be set: MLIR prints nothing for 0xC0, and 16 for 0x10 as an ui4.
        kind = {Kind.SIGNED: "i64", Kind.UNSIGNED: "ui64"}.get(t.element.kind)
        array = array_of_literals([x or "0" for x in literals], ELEMENT_TYPES[kind] if kind else t.element)
        array = wrap(array, t.element) if kind else array
        array = broadcast(array, t) if array.size == 1 else array.reshape(dimensions(t))
    array.flags.writeable = False
    return array


def array_of_bytes(data: bytes, t: TensorType, what: str) -> np.ndarray:
    """The array whose bytes these are; a type below eight bits takes a byte an element.

    Raises ValueError where the length is not that of `t`, or a byte is no code: a signed integer may be kept as its
    bits alone, or with its sign in the bits above.
    """
    if len(data) != t.nbytes:
        each = " (each element takes a byte)" if t.element.bits < 8 else ""
        raise ValueError(f"{what}: expected {t.nbytes} byte{'s' * (t.nbytes != 1)} for {t}, got {len(data)}{each}")
    element = t.element
    if element.bits < 8:
        codes = np.frombuffer(data, np.uint8)
        wrong = codes >> element.bits != 0
        if element.kind is Kind.SIGNED:
            wrong &= codes < 256 - (1 << (element.bits - 1))
        if wrong.any():
            at, last = int(wrong.argmax()), (1 << element.bits) - 1
            raise ValueError(
                f"{what}: expected codes of {element} (0x00 to 0x{last:02X}), got 0x{codes[at]:02X} at byte {at}"
            )
    array = _array_of_raw(data, t)
    array.flags.writeable = False
    return array


def _array_of_raw(data: bytes, t: TensorType) -> np.ndarray:
    """The elements' bytes, little-endian. The bits above a type of less than eight bits do not count."""
    element = t.element
    if element.bits < 8:
        codes = np.frombuffer(data, np.uint8)
        if element.is_integer:
            array = wrap(codes, element)
        elif element.kind is Kind.BOOL:
            array = codes != 0
        else:
            array = (codes & ((1 << element.bits) - 1)).astype(np.uint8).view(element.dtype)
    else:
        array = np.frombuffer(data, element.dtype.newbyteorder("<") if holds(element) else element.dtype)
        array = array.astype(element.dtype, copy=False)
    return array.reshape(dimensions(t))
