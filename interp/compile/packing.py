"""Writes how arrays of a few elements become single numbers, and numbers arrays again (`passes/numbers.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.types import Kind, TensorType
from ..program import Operation
from .decision import Decision
from .group import NUMBER, UNPACK
from .writer import Writer


def write(operation: Operation, writer: Writer, decision: Decision) -> None:
    """Write an operation that takes an array apart, puts one together, or computes a number by an expression."""
    source = operation.origin or operation
    if operation.name == NUMBER:
        names = [writer.use_plain(v) for v in operation.operands]
        return writer.plain(operation.attributes["text"].format(*names), operation, names)
    t: TensorType = operation.attributes["type"]
    if operation.name == UNPACK:
        array, names = writer.use(operation.operands[0]), [writer.define_plain(v) for v in operation.results]
        text = f"{', '.join(names)}, = {writer.name_of(unpacking(t))}({array})  # {decision}"
        return writer.line(text, source, names, (array,))
    names = [writer.use_plain(v) for v in operation.operands]
    if not t.shape:
        return writer.let(operation.results[0], names[0], True)
    result = writer.define(operation.results[0])
    text = f"{result} = {writer.name_of(packing(t))}(({', '.join(names)},))  # {decision}"
    return writer.line(text, source, (result,), names)


def unpacking(t: TensorType) -> Callable[[np.ndarray], Iterable[Any]]:
    """A function that gives the elements of arrays of a type as plain numbers."""
    element = t.element
    if element.is_minifloat:
        return np.ndarray.tobytes
    if element.is_float:
        return np.ravel
    if 1 < element.bits < 8:
        return lambda x: map(int, x.ravel())
    return lambda x: x.ravel().tolist()


def packing(t: TensorType) -> Callable[[Sequence[Any]], np.ndarray]:
    """A function that gives the array of plain numbers, which has a type."""
    element, dtype, shape = t.element, t.element.dtype, tuple([n or 0 for n in t.shape])
    if element.is_minifloat:
        return lambda numbers: np.array(numbers, np.uint8).view(dtype).reshape(shape)
    if element.kind is not Kind.BOOL and element.bits < 8:
        return lambda numbers: np.array(numbers, np.int64).astype(dtype).reshape(shape)
    return lambda numbers: np.array(numbers, dtype).reshape(shape)
