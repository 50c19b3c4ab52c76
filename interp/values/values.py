"""Values from outside: the VALUE syntax of the command line, and what Python callers pass.

The syntax is IREE's with MLIR type names: `4xf8E4M3FNUZ=1,-2.5,nan,0x7F`, `2x2xi32=[[1 2][3 4]]`, a splat `4xf32=1.0`,
a scalar `f32=1.5`, `2xcomplex<f32>=(1,2),(3,4)`, `@x.npy`, `8xf8E4M3FN=@codes.npy`. What `printing.py` prints in its
forms `dense` and `codes` is read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ops.cast import cast
from ...ops.policy import Policy
from ...ops.types import ElementType, TensorType, Type, element_type, named_type
from ..errors import InputError
from ..parse.literals import array_of_literals
from ..system import memory
from . import npy, safetensors

_QUANTIZED = r"!quant\.[^=]*>"  #: its numbers are given as they are stored
_HEAD = re.compile(rf"((?:\d+x)*)([A-Za-z]\w*(?:<\w+>)?|{_QUANTIZED})", re.ASCII)
#: `tensor<2xf32> {…}` and `dense<…> : tensor<2xf32>`, as `stablehlo-translate` prints results.
_BRACED = re.compile(rf"tensor<([^{{}}=]*|[\dx]*{_QUANTIZED})>\s*(?:\{{(.*)\}}|=(.*))", re.DOTALL)
_DENSE = re.compile(r"dense<(.*)>\s*:\s*tensor<(.*)>", re.DOTALL)
_TOKEN = re.compile(r"[\[\]]|\([^()]*\)|[^\s,\[\]()]+|[()]")
_PAIR = re.compile(r"\(\s*([^\s,()]+)\s*[\s,]\s*([^\s,()]+)\s*\)|(.*[^eEpP+-])([+-][^+-]*(?:[eEpP][+-]?\d+)?)[ij]")

Shape = tuple[int | None, ...]


def parse_value(text: str) -> tuple[np.ndarray, TensorType]:
    """Return the array that a VALUE of the command line means, and its type.

    Args:
        text: Such as `2x2xi32=[[1 2][3 4]]`, `f32=1.5`, `4xf8E4M3FN=0x7F`, `@FILE.npy` or `@FILE.safetensors:NAME`.

    Raises:
        InputError: It is not of that form, or the elements do not fit the type.
        ResourceError: It is too large to hold.
    """
    array, t = parse_open_value(text)
    if t is None:
        file = text.strip().removeprefix("@")
        raise InputError(f"{file}: expected an element type, as f8E4M3FN=@{file}, got raw bytes")
    return array, t


def parse_open_value(text: str) -> tuple[np.ndarray, TensorType | None]:
    """As `parse_value`; the type is None for a file of raw bytes, of which the program knows the type."""
    text = text.strip()
    if text.startswith("@"):
        return _load(text[1:], None)
    equals = "="
    if match := _BRACED.fullmatch(text):
        head, content = match[1], match[2] if match[2] is not None else match[3]
    elif match := _DENSE.fullmatch(text):
        content, head = match.groups()
    else:
        head, equals, content = text.partition("=")
        content = content if equals else "0"  # IREE: zeros where nothing is given
    t = _parse_type(head.strip(), bool(equals))
    memory.check_type(t)
    content = content.strip()
    if content.startswith("@"):
        return _load(content[1:], t)
    return _parse_content(content, t), t


def _load(path: str, t: TensorType | None) -> tuple[np.ndarray, TensorType | None]:
    """A file's tensor, as one of type `t` where it is given; one without dimensions takes any shape."""
    if safetensors.is_path(path):
        array, found = safetensors.load(path)
        if t is not None and (t.element != found.element or t.shape not in ((), found.shape)):
            raise InputError(f"{path}: expected {t}, got {found}")
        return array, found
    if t is None:
        return npy.load(path)
    array = npy.load_as(path, t)
    return array, TensorType(array.shape, t.element)


def _parse_type(text: str, is_head: bool) -> TensorType:
    match = _HEAD.fullmatch(text)
    if not match:
        example = "2x3xf32=[[1 2 3][4 5 6]], 4xf8E4M3FN=1.5 or @file.npy"
        given = f"{'the type ' if is_head else ''}{text[:60]!r}{'' if is_head else ' without a type'}"
        raise InputError(f"expected a value such as {example}, got {given if text else 'no type'}")
    try:
        element = named_type("i64" if match[2] == "index" else match[2])
    except ValueError as error:
        raise InputError(str(error)) from None
    dims = match[1].split("x")[:-1]
    if len(match[1]) > 1000:
        raise InputError(f"expected at most 64 dimensions, got {len(dims)} of {len(match[1])} characters")
    return TensorType(tuple(map(int, dims)), element)


def _parse_content(content: str, t: TensorType) -> np.ndarray:
    literals, shape, is_bare = _read_brackets(content)
    if t.element.is_complex:
        literals, shape = _pairs(literals, shape, t)
        count = len(literals) // 2
    else:
        count = len(literals)
    if count == 1 and is_bare and t.size != 1:
        splat = array_of_literals(literals, t.element)
        return np.broadcast_to(splat, t.shape).copy()  # pyright: ignore[reportArgumentType,reportCallIssue]
    if count != t.size:
        name = f"{'x'.join(map(str, (*t.shape, '')))}{t.element}"
        raise InputError(f"expected {t.size} number{'s' * (t.size != 1)} for {name}, got {count}")
    if count and shape not in (t.shape, (count,)) and not is_bare:
        raise InputError(f"expected brackets of shape {list(t.shape)}, got {list(shape)}")
    return array_of_literals(literals, t.element).reshape(t.shape)  # pyright: ignore[reportArgumentType,reportCallIssue]


def _read_brackets(content: str) -> tuple[list[str], tuple[int, ...], bool]:
    """The literals in order, the shape the brackets give them, and whether there is no bracket at all."""
    tokens = _TOKEN.findall(content)
    text = ",".join(t if t in ("[", "]") else json.dumps(t) for t in tokens)
    try:
        nested = json.loads(f"[{text}]".replace("[,", "[").replace(",]", "]"))
    except (ValueError, RecursionError):
        raise InputError(f"expected nested lists with a ] for each [, got {content[:60]!r}") from None
    shape, literals = _flatten(nested)
    is_bare = "[" not in tokens
    # `[1 2][3 4]`: IREE leaves the outermost brackets away.
    return literals, shape[1:] if shape[0] == 1 and not is_bare else shape, is_bare


def _pairs(literals: list[str], shape: tuple[int, ...], t: TensorType) -> tuple[list[str], tuple[int, ...]]:
    """The literals of the parts of complex numbers: `(1,2)`, `1+2i`, or `[1, 2]` as the innermost list."""
    matches = [_PAIR.fullmatch(text[:2000]) for text in literals]
    if any(matches):
        if not all(matches):
            raise InputError(f"expected a complex number (re,im), got {literals[matches.index(None)]!r}")
        return [part for m in matches if m for part in ((m[1], m[2]) if m[1] else (m[3], m[4]))], shape
    if literals and shape != (*t.shape, 2):
        raise InputError(f"expected a complex number (re,im), got {literals[0]!r}")
    return literals, shape[:-1] if literals else shape


# -- from Python ------------------------------------------------------------------------------------------------------


def check_input(value: Any, t: Type, what: str = "input") -> Any:
    """Return a value of a Python caller as one of type `t`.

    Args:
        value: An array of numpy, ml_dtypes, jax, or anything with `__array__`, of the shape and element type of `t`. Or
            Python numbers and nested lists of them, if the type holds them exactly. None for a token.
        t: The type of an argument.
        what: The value as messages name it.

    Returns:
        An array of the dtype that stores the type, a tuple of values, or None.

    Raises:
        InputError: It does not fit the type.
    """
    if not isinstance(t, TensorType):
        return _check_structure(value, t, what)
    if isinstance(value, bool | int | float | complex | list | tuple):
        array = _of_python(value, t, what)
    else:
        if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
            raise InputError(f"{what}: expected an array, got {type(value).__name__}")
        refuse_mask(value, what)
        array = npy.as_element(to_numpy(value, f"{what}: expected an array that numpy can read"), t.element, what)
    if not t.admits(array.shape):
        raise InputError(f"{what}: expected shape {_sizes_text(t)} for {t}, got {list(array.shape)}")
    return array


def _check_structure(value: Any, t: Type, what: str) -> Any:
    if not hasattr(t, "elements"):
        if value is not None:
            raise InputError(f"{what}: expected None for a token, got {type(value).__name__}")
        return None
    elements: tuple[Type, ...] = t.elements  # type: ignore[union-attr]
    given = f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
    if not isinstance(value, tuple | list) or len(value) != len(elements):
        raise InputError(f"{what}: expected a tuple of {len(elements)} values for {t}, got {given}")
    return tuple(check_input(v, e, f"{what}[{i}]") for i, (v, e) in enumerate(zip(value, elements, strict=True)))


def to_numpy(value: Any, expected: str = "expected an array") -> np.ndarray:
    """`np.asarray`. Raises InputError, which begins with `expected`, for whatever a foreign `__array__` raises."""
    try:
        return np.asarray(value)
    except Exception as error:
        raise InputError(f"{expected}, got the error: {' '.join(str(error).split())[:200]}") from None


def refuse_mask(value: Any, what: str) -> None:
    """Raises InputError for a masked array, whose mask no program would see."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{what}: expected an array without a mask, such as x.filled(0), got a masked array")


def _of_python(value: Any, t: TensorType, what: str) -> np.ndarray:
    """Python numbers in nested lists; numpy scalars may be among them."""
    shape, leaves = _flatten(value, f"{what}: ")
    if t.element.is_complex:
        try:
            wide = np.array([complex(x) for x in leaves], np.complex128)
        except (TypeError, ValueError, OverflowError):
            raise InputError(f"{what}: expected complex numbers, got another object") from None
        array = wide.astype(t.element.dtype)
        exact = np.array_equal(array, wide, equal_nan=True)
    else:
        array, exact = _real_leaves(leaves, t.element, what)
    if not exact:
        raise InputError(
            f"{what}: expected numbers that {t.element} represents exactly, got others (round with minihlo.interp.cast)"
        )
    return array.reshape(shape)


def _real_leaves(leaves: list[Any], element: ElementType, what: str) -> tuple[np.ndarray, bool]:
    leaves = [x.item() if isinstance(x, np.generic) and type(x).__module__ == "numpy" else x for x in leaves]
    texts = []
    for x in leaves:
        if isinstance(x, np.generic):  # ml_dtypes
            x = float(x) if element.is_float else int(x)
        if isinstance(x, bool) != (element.bits == 1) or not isinstance(x, int | float):
            raise InputError(f"{what}: expected a value of {element}, got {x!r}")
        if isinstance(x, float) and not element.is_float:
            raise InputError(f"{what}: expected an integer, got {x!r}")
        texts.append(repr(x).lower() if not isinstance(x, float) else x.hex() if np.isfinite(x) else repr(x))
    try:
        array = array_of_literals(texts, element)
    except InputError as error:
        raise InputError(f"{what}: {error}") from None
    if not element.is_float:
        return array, True
    back = cast(array, element, element_type("f64"), Policy()).tolist()
    return array, all(b == x or b != b for b, x in zip(back, leaves, strict=True))


def _flatten(value: Any, where: str = "") -> tuple[tuple[int, ...], list[Any]]:
    """The shape of nested lists and their leaves in order. Raises InputError, which begins with `where`."""
    array = np.array(value, object)
    leaves = array.reshape(-1).tolist()
    if any(isinstance(x, list | tuple) for x in leaves):
        raise InputError(f"{where}expected lists of equal length at each of at most 64 levels, got others")
    return array.shape, leaves


def _sizes_text(t: TensorType) -> str:
    """The shape of a type, with what its open sizes may be."""
    most = t.bounds or (None,) * len(t.shape)
    sizes = [
        str(d) if d is not None else "?" if m is None else f"at most {m}" for d, m in zip(t.shape, most, strict=True)
    ]
    return f"[{', '.join(sizes)}]"


def tensors_of(t: Type) -> list[TensorType]:
    """The tensors in a type, in their order: those of a tuple are its elements', a token has none."""
    return [t] if isinstance(t, TensorType) else [leaf for e in getattr(t, "elements", ()) for leaf in tensors_of(e)]


def value_of(t: Type, arrays: Iterator[Any]) -> Any:
    """A value of the type, made of the next arrays: one for each tensor in it."""
    if isinstance(t, TensorType):
        return next(arrays)
    return tuple(value_of(e, arrays) for e in t.elements) if hasattr(t, "elements") else None  # type: ignore[union-attr]


def read_values(texts: list[str], option: str) -> Iterator[tuple[np.ndarray, TensorType | None]]:
    """The VALUEs of a repeated option, as `parse_open_value`; an error names the one. Raises InputError."""
    for i, text in enumerate(texts):
        try:
            yield parse_open_value(text)
        except InputError as error:
            raise InputError(f"{option} {i}: {error}") from None
