"""Which values compiled loops know, and as what numba takes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.engine import compiled
from ....ops.types import Kind, QuantizedType, TensorType, Type
from ...program import Operation, Region


def may_be_compiled(operation: Operation, holds: Callable[[Type], bool]) -> bool:
    """Whether a while loop has numbers only of which something holds, as far as its types say, and there is a compiler.

    See `is_whole` and `is_held`.
    """
    if not compiled.is_available() or not all(holds(v.type) for v in operation.operands):
        return False
    return all(_is_region_of(region, holds) for region in operation.regions)


def _is_region_of(region: Region, holds: Callable[[Type], bool]) -> bool:
    return all(
        all(holds(v.type) for v in (*operation.operands, *operation.results))
        and all(_is_region_of(r, holds) for r in operation.regions)
        for operation in region.operations
    )


def is_whole(t: Type) -> bool:
    """Whether a value is a single boolean, or an integer of at most 32 bits."""
    if not isinstance(t, TensorType) or t.shape != () or isinstance(t.element, QuantizedType):
        return False
    return t.element.kind is Kind.BOOL or (t.element.is_integer and t.element.bits <= 32)


def is_number(t: Type) -> bool:
    """Whether a value is one that compiled loops know: a single boolean, an integer or a float."""
    return is_whole(t) or (isinstance(t, TensorType) and t.shape == () and t.element.name in ("f32", "f64"))


def is_held(t: Type) -> bool:
    """Whether a value is a number that compiled loops know, or an array of some whose elements they read and write."""
    if not isinstance(t, TensorType) or not t.is_static or isinstance(t.element, QuantizedType):
        return False
    if not t.shape:
        return is_number(t)
    is_known = t.element.kind is Kind.BOOL or (t.element.is_integer and 8 <= t.element.bits <= 32)
    return is_known or t.element.name in ("f32", "f64")


#: A type for numba: of a number Python's or numpy's; of an array the dtype, the rank, and whether it is only read.
Argument = type | tuple[np.dtype, int, bool]


def argument(t: TensorType, is_read: bool = True) -> Argument:
    return array(t, len(t.shape), is_read) if t.shape else _scalar_of(t)


def array(t: TensorType, rank: int, is_read: bool) -> Argument:
    return t.element.dtype, rank, is_read


def compiled_function(text: str, known: Mapping[str, Any], arguments: Sequence[Argument]) -> Any:
    """The function `loop` of a text, for a number of turns and then numbers and arrays. Raises what numba raises."""
    numba = importlib.import_module("numba")
    scope: dict[str, Any] = {**known, "int64": numba.int64}
    exec(compile(text, "<minihlo loop>", "exec"), scope)
    types = [_numba_type(numba, a) for a in arguments]
    return numba.njit([(numba.int64, *types)], nogil=True, error_model="numpy")(scope["loop"])


def _numba_type(numba: Any, kind: Argument) -> Any:
    if isinstance(kind, tuple):
        dtype, rank, is_read = kind
        return numba.types.Array(numba.from_dtype(dtype), rank, "C", readonly=is_read)
    if kind is bool:
        return numba.boolean
    return {np.float32: numba.float32, np.float64: numba.float64}.get(kind) or numba.int64  # type: ignore[call-overload]


def _scalar_of(t: TensorType) -> type:
    if t.element.kind is Kind.BOOL:
        return bool
    return t.element.dtype.type if t.element.is_float else int
