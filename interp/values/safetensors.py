"""Tensors in .safetensors files: `weights.safetensors:NAME`, or the file alone where it has one tensor.

A file is the length of its header (eight bytes), the header (JSON: of each tensor the type, the shape and where its
bytes lie), and the bytes, little-endian and row by row. Elements of fewer than eight bits are packed as `interp.pack`
packs them.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.cast import array_of
from ...ops.close import hint
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..errors import InputError, escape
from ..system import memory
from .bits import pack_bits, unpack_bits
from .npy import write_file

_SUFFIX = ".safetensors"
_METADATA = "__metadata__"  #: the entry that is no tensor
_MOST_HEADER = 100_000_000  #: bytes, as the library has it

#: The names of element types in the header.
_NAMES = {
    "BOOL": "i1", "U8": "ui8", "I8": "i8", "U16": "ui16", "I16": "i16", "U32": "ui32", "I32": "i32", "U64": "ui64",
    "I64": "i64", "F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64", "C64": "complex<f32>", "F4": "f4E2M1FN",
    "F6_E2M3": "f6E2M3FN", "F6_E3M2": "f6E3M2FN", "F8_E5M2": "f8E5M2", "F8_E4M3": "f8E4M3FN", "F8_E8M0": "f8E8M0FNU",
    "F8_E4M3FNUZ": "f8E4M3FNUZ", "F8_E5M2FNUZ": "f8E5M2FNUZ",
}  # fmt: skip
_HEADER_NAMES = {ours: theirs for theirs, ours in _NAMES.items()}


def is_path(text: str) -> bool:
    """Whether a text names such a file, or a tensor in one."""
    return text.endswith(_SUFFIX) or f"{_SUFFIX}:" in text


def split_path(text: str) -> tuple[str, str]:
    """Return the file and the name of the tensor, empty where none is given."""
    file, _, name = text.partition(f"{_SUFFIX}:")
    return (f"{file}{_SUFFIX}", name) if name or text.endswith(":") else (text, "")


def load(text: str) -> tuple[np.ndarray, TensorType]:
    """Read a tensor.

    Args:
        text: `FILE.safetensors:NAME`, or the file alone.

    Raises:
        InputError: There is no such file or tensor, or it is damaged, or of a type that is not known.
        ResourceError: It is too large to hold.
    """
    path, name = split_path(text)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise InputError(f"{path}: expected a regular file, got a pipe, device or folder")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, _MOST_HEADER):
                raise InputError(f"{path}: expected a .safetensors file, got another length of its header")
            tensors = _header(file.read(length), path)
            if not name and len(tensors) == 1:
                (name,) = tensors
            if name not in tensors:
                known = ", ".join(list(tensors)[:20]) + (", …" if len(tensors) > 20 else "")
                wrong = f"no tensor {name}{hint(name, tensors)}" if name else f"no name of {known}"
                raise InputError(f"{path}: expected FILE.safetensors:NAME, got {escape(wrong)}")
            t, begin, end = _entry(tensors[name], path, name)
            memory.check_type(t)
            needed = -(-math.prod(t.shape) * _bits(t.element) // 8)  # type: ignore[arg-type]
            if end - begin != needed or not begin >= 0 or end > size - 8 - length:
                raise InputError(
                    f"{path}: {escape(name)}: expected {needed} bytes within the file, got {begin} to {end}"
                )
            file.seek(8 + length + begin)
            return _decode(file.read(needed), t), t
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None


def _header(text: bytes, path: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise InputError(f"{path}: expected a .safetensors file, got a header that is no JSON object")
    return {name: entry for name, entry in header.items() if name != _METADATA}


def _entry(entry: Any, path: str, name: str) -> tuple[TensorType, int, int]:
    """The type of a tensor, and where its bytes begin and end."""
    try:
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        numbers = [*shape, begin, end]
    except (KeyError, TypeError, ValueError):
        dtype = begin = end = numbers = None
    if numbers is None or not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 62 for n in numbers):
        raise InputError(f"{path}: {escape(name)}: expected dtype, shape and data_offsets, got another entry")
    element = ELEMENT_TYPES.get(_NAMES.get(str(dtype), ""))
    if element is None:
        raise InputError(f"{path}: {escape(name)}: expected one of {', '.join(_NAMES)}, got {escape(str(dtype))[:40]}")
    return TensorType(tuple(numbers[:-2]), element), numbers[-2], numbers[-1]


def _decode(data: bytes, t: TensorType) -> np.ndarray:
    shape: Any = t.shape
    element = t.element
    if element.bits == 1:
        return np.frombuffer(data, np.uint8).reshape(shape) != 0
    if element.bits < 8:
        codes = unpack_bits(np.frombuffer(data, np.uint8).reshape(1, -1), element.bits, math.prod(shape))
        return array_of(codes.reshape(shape), element.format)
    dtype = element.dtype.newbyteorder("<") if element.dtype.isbuiltin == 1 else element.dtype
    return np.frombuffer(data, dtype).reshape(shape).astype(element.dtype)


def _bits(element: ElementType) -> int:
    return 8 if element.name == "i1" else element.bits  # a boolean is a byte


def require_storable(t: TensorType, name: str, what: str) -> None:
    """Raise InputError where such files cannot hold a tensor of a type and name."""
    element = t.element
    if element.name not in _HEADER_NAMES:
        raise InputError(f"{what}: expected an element type of .safetensors files, got {element} (.npy files keep it)")
    if t.is_static and t.size * _bits(element) % 8:
        raise InputError(f"{what}: expected elements that fill whole bytes, got {t} (.npy files keep it)")
    if name == _METADATA:
        raise InputError(f"{what}: expected the name of a tensor, got {name}")


def save(path: str, tensors: Mapping[str, tuple[np.ndarray, ElementType]]) -> None:
    """Write a file of tensors with their names.

    Raises:
        OutputError: It cannot be written. Nothing is left behind.
        InputError: Such files cannot hold one of them.
    """
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    # As the library writes them: the widest elements first, so that each begins at a multiple of its width.
    for name, (array, element) in sorted(tensors.items(), key=lambda item: (-item[1][1].bits, item[0])):
        require_storable(TensorType(np.shape(array), element), name, f"{path}:{name}")
        parts.append(_encode(np.asarray(array), element))
        shape, end = list(np.shape(array)), at + len(parts[-1])
        header[name] = {"dtype": _HEADER_NAMES[element.name], "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    write_file(path, lambda file: file.write(b"".join([len(text).to_bytes(8, "little"), text, *parts])))


def _encode(array: np.ndarray, element: ElementType) -> bytes:
    if 1 < element.bits < 8:
        return pack_bits(array.view(np.uint8).reshape(1, -1), element.bits).tobytes()
    if element.dtype.isbuiltin == 1:
        array = array.astype(element.dtype.newbyteorder("<"))
    return array.tobytes()
