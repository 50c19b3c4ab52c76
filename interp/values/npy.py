"""Tensors as .npy files that keep the element types numpy has no name for.

numpy writes an array of an ml_dtypes type as raw bytes (`V1`): which of nine FP8 formats it was is lost. Here it is
written as unsigned codes in a structured type of one field that has the MLIR name:

    codes = np.load("y.npy")["f8E4M3FN"]                      # uint8
    y = np.load("y.npy").view(ml_dtypes.float8_e4m3fn)        # the numbers

i2 and i4 are stored as int8 values the same way. Types that numpy has are written as numpy does; quantized types are
written as the integers that store them.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import warnings
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ...ops.cast import array_of, wrap
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType, type_of_dtype
from ..errors import InputError, OutputError, ResourceError, escape
from ..system import memory

_MAGIC = b"\x93NUMPY"
#: ml_dtypes names its f8E5M2 as numpy would name a float of one byte, and numpy does not read it again.
_E5M2, _HEAD = b"'<f1'", 128


def save(path: str, array: np.ndarray, element: ElementType) -> None:
    """Write a .npy file from which `load` reads the array with its element type. Raises what `write_file` does."""
    plain = encode(array, element)
    write_file(path, lambda file: np.save(file, plain, allow_pickle=False))


def write_file(path: str, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file by a function.

    Raises:
        OutputError: It cannot be written. Nothing is left behind.
    """
    partial = f"{path}.{os.getpid()}.partial"
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # /dev/null, a pipe
            whole = io.BytesIO()  # numpy itself asks for the position, which a pipe does not have
            write(whole)
            with open(path, "wb") as file:
                file.write(whole.getbuffer())
            return
        with open(partial, "wb") as file:
            write(file)
        os.replace(partial, path)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            os.remove(partial)


def encode(array: np.ndarray, element: ElementType) -> np.ndarray:
    """The array as `save` stores it; a view where it can be."""
    name = element.storage.name
    if element.dtype.isbuiltin == 1 and type_of_dtype(element.dtype) == element.storage:
        return array
    if element.kind is Kind.SIGNED:
        return array.astype(np.int8).view([(name, "i1")])
    return np.asarray(array).view([(name, f"<u{element.dtype.itemsize}")])


def load(path: str) -> tuple[np.ndarray, TensorType | None]:
    """Read a .npy file that says its element type, by its dtype or as `save` writes it.

    Returns:
        The array, of the dtype that stores the type, and the type. None for raw bytes, as numpy keeps types that it
        does not know: `as_element` makes them elements of one.

    Raises:
        InputError: It cannot be read, or says no element type.
        ResourceError: It is too large to hold.
    """
    array = _read(path)
    if array.dtype.kind == "V" and array.dtype.names is None:
        return array, None
    element = stored_element(array.dtype)
    if element is None:
        raise InputError(f"{path}: expected an element type, as f32=@{path}, got {_content(array)}")
    return as_element(array, element, path), TensorType(array.shape, element)


def load_as(path: str, t: TensorType) -> np.ndarray:
    """Read a .npy file as an array of type `t`.

    Args:
        path: A file with the elements, or with their codes as unsigned integers.
        t: The type. The file must have its shape; one without dimensions stands for any.

    Raises:
        InputError: It cannot be read, or does not fit the type.
        ResourceError: It is too large to hold.
    """
    array = _read(path)
    if t.shape != () and array.shape != t.shape:
        raise InputError(f"{path}: expected shape {list(t.shape)}, got {list(array.shape)}")
    element = t.element
    if element.is_float and array.dtype == element.format.code_dtype:
        return array_of(_within(array, element, path), element.format)
    if element.is_integer and element.bits < 8 and array.dtype in (np.int8, np.uint8):
        return _narrow(array, element, path)
    return as_element(array, element, path)


def as_element(array: np.ndarray, element: ElementType, what: str) -> np.ndarray:
    """An array as one of `element.dtype`, which it has to be already, or be stored as `encode` does.

    Raises InputError where it is not.
    """
    if array.dtype == element.dtype:
        if element.is_float and element.bits < 8:
            _within(array.view(np.uint8), element, what)
        return array
    if array.dtype.newbyteorder("=") == element.dtype:
        return array.astype(element.dtype)
    if array.dtype == np.dtype(f"V{element.dtype.itemsize}") and element.dtype.isbuiltin != 1:
        codes = array.view(f"u{element.dtype.itemsize}")  # as numpy keeps the types of ml_dtypes
        if element.is_float:
            return array_of(_within(codes, element, what), element.format)
        return wrap(codes.view(np.int8) if element.kind is Kind.SIGNED else codes, element)
    named = named_element(array.dtype)
    if named is not None and named == element.storage:
        codes: Any = array[named.name]
        if element.kind is Kind.SIGNED:
            return _narrow(codes, element, what)
        codes = codes.astype(f"u{element.dtype.itemsize}", copy=False)
        return array_of(_within(codes, element, what), element.format) if element.is_float else wrap(codes, element)
    raise InputError(f"{what}: expected {element}, got {_content(array)}{_hint(array, element)}")


def named_element(dtype: np.dtype) -> ElementType | None:
    """The element type that a structured type of one field is named after, as `encode` makes it."""
    names = dtype.names or ()
    element = ELEMENT_TYPES.get(names[0]) if len(names) == 1 else None
    if element is None:
        return None
    kind = "i" if element.kind is Kind.SIGNED else "u"
    return element if dtype[0].newbyteorder("=") == np.dtype(f"{kind}{element.dtype.itemsize}") else None


def stored_element(dtype: np.dtype) -> ElementType | None:
    """The element type that a dtype stores, by itself or as `encode` makes it; None where there is none."""
    try:
        return named_element(dtype) or type_of_dtype(dtype.newbyteorder("="))
    except ValueError:
        return None


def _narrow(values: np.ndarray, element: ElementType, what: str) -> np.ndarray:
    """Eight-bit integers as an integer type of fewer bits, which has to hold them."""
    narrow = wrap(values, element)
    wide = narrow.astype(values.dtype)
    if not np.array_equal(wide, values):
        raise InputError(f"{what}: expected values in the range of {element}, got {values[wide != values].flat[0]}")
    return narrow


def _within(codes: np.ndarray, element: ElementType, what: str) -> np.ndarray:
    if element.bits < 8 and codes.size and (codes >> element.bits).any():
        last = (1 << element.bits) - 1
        raise InputError(f"{what}: expected codes of {element} (0x00 to 0x{last:02X}), got 0x{int(codes.max()):02X}")
    return codes


def _read(path: str) -> np.ndarray:
    """The array of a file, copied into memory once it is known to fit."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for a writer
            raise InputError(f"{path}: expected a regular file, got a pipe, device or folder")
        with open(path, "rb") as file:
            head = file.read(_HEAD)
            if not head.startswith(_MAGIC):
                raise InputError(f"{path}: expected a .npy file, got other data")
            if _E5M2 in head:
                memory.check(os.fstat(file.fileno()).st_size, path)
                whole = io.BytesIO((head + file.read()).replace(_E5M2, b"'|V1'", 1))
                return np.array(np.load(whole, allow_pickle=False)).view(ELEMENT_TYPES["f8E5M2"].dtype)
        # Mapping checks the header against the length of the file before anything is allocated.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers as Python 2 wrote them, and of those too large for a file
            mapped: Any = np.load(path, mmap_mode="r", allow_pickle=False)
        memory.check(mapped.nbytes, path)
        return np.array(mapped, mapped.dtype.newbyteorder("="))
    except (InputError, ResourceError):
        raise
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except MemoryError:
        raise ResourceError(f"{path}: out of memory") from None
    except Exception as error:  # a header is read by Python's parser and tokenizer, each with errors of its own
        first = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
        reason = first.splitlines()[0] if first else type(error).__name__
        if "greater than file" in reason:
            reason = "a truncated file"
        elif "Python object" in reason or "dtype('O')" in reason:
            reason = "an array of Python objects"
        raise InputError(f"{path}: expected a readable .npy file, got: {escape(reason[:200])}") from None


def _content(array: np.ndarray) -> str:
    element = stored_element(array.dtype)
    if element is not None:
        return element.name
    if array.dtype.type is np.void and array.dtype.names is None:
        return f"elements of {array.dtype.itemsize} raw bytes"
    return "Python objects" if array.dtype == object else f"dtype {array.dtype}"


def _hint(array: np.ndarray, element: ElementType) -> str:
    if not element.is_float or (array.dtype.kind not in "fiu" and array.dtype.type is np.void):
        return ""
    codes = f"; to reinterpret codes: .view(ml_dtypes.{element.format.dtype_name})"
    return f" (to convert: minihlo.interp.cast{codes if array.dtype == element.format.code_dtype else ''})"
