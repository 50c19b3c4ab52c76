"""Messages between processes: a header in JSON, and the bytes of arrays. They are data: nothing in them runs.

A message is the length of the header (8 bytes, lowest first), the header in UTF-8, and the memory of each array.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import ml_dtypes
import numpy as np

#: Returns the next bytes of a pipe, as many as requested. Raises EOFError if it ends before.
Read = Callable[[int], bytearray]

_LENGTH = struct.Struct("<Q")
#: The longest header, far more than the results of many cases have.
_MOST = 1 << 30
#: Kinds of numpy's types whose bytes are numbers; those of ml_dtypes are of the kind V, with names of their own.
_NUMBERS = "biufc"


class MessageError(ValueError):
    """Bytes that are no message, or a value that no message can have."""


def write(stream: IO[bytes], head: Any, arrays: Iterable[np.ndarray] = ()) -> None:
    """Write a message of JSON and arrays of numbers. Raises MessageError for other arrays, before anything is written.

    Arrays arrive with their strides.
    """
    views = [_view(a) for a in arrays]
    text = json.dumps([head, [facts for facts, _ in views]]).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    for _, memory in views:
        stream.write(memory.data)
    stream.flush()


def read(exactly: Read) -> tuple[Any, list[np.ndarray]]:
    """Return the header and the arrays of the next message. Raises EOFError, and MessageError for what is none."""
    (length,) = _LENGTH.unpack(exactly(_LENGTH.size))
    if length > _MOST:
        raise MessageError(f"expected a message with a header of up to {_MOST:,} bytes, got {length:,}")
    try:
        head, facts = json.loads(exactly(length).decode())
        arrays = list(_arrays(facts, exactly))
    except (ValueError, TypeError, RecursionError, OverflowError) as error:
        raise MessageError(f"expected a message, got other data: {error}") from None
    return head, arrays


def from_stream(stream: IO[bytes]) -> Read:
    """Return the function that reads a buffered stream."""

    def exactly(size: int) -> bytearray:
        data = bytearray(size)
        if stream.readinto(data) < size:  # pyright: ignore[reportAttributeAccessIssue]
            raise EOFError
        return data

    return exactly


def _view(array: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Return the type, the shape, the place, the strides and the size of an array, and its memory as bytes.

    An array that is a part of another one, or lies in another order, is sent with the whole memory.
    """
    if array.dtype.byteorder not in "=|" or array.dtype.kind not in _NUMBERS:
        array = _numbers(array)
    base = array.base
    memory, start, strides = array, 0, None
    if array.size and isinstance(base, np.ndarray) and base.flags.c_contiguous:
        first, origin = (x.__array_interface__["data"][0] for x in (array, base))
        if not (array.flags.c_contiguous and first == origin):
            memory, start, strides = base, first - origin, array.strides
    memory = np.ascontiguousarray(memory).reshape(-1).view(np.uint8)
    return [array.dtype.name, array.shape, start, strides, memory.size], memory


def _numbers(array: np.ndarray) -> np.ndarray:
    """Return an array with numbers in this machine's order of bytes. Raises MessageError if they are no numbers."""
    native = array.dtype.newbyteorder("=")
    if not _is_number(native):
        raise MessageError(f"expected arrays of numbers, got one of {array.dtype}")
    return array.astype(native, copy=False)


def _is_number(dtype: np.dtype) -> bool:
    return dtype.kind in _NUMBERS or (dtype.kind == "V" and dtype.names is None and hasattr(ml_dtypes, dtype.name))


def _arrays(facts: Any, exactly: Read) -> Iterator[np.ndarray]:
    for name, shape, start, strides, size in facts:
        dtype = np.dtype(name)
        if not _is_number(dtype):
            raise MessageError(f"expected arrays of numbers, got one of {dtype}")
        yield np.ndarray(tuple(shape), dtype, exactly(size), start, strides)  # which checks all of them
