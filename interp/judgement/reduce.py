"""The smallest part of a program that is wrong: fewer operations first, then smaller inputs and shapes.

Operations that are left out become arguments with the values that the interpreter gives. A set of operations from
which none can be left out is what is wrong together.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ...ops.types import ELEMENT_TYPES, TensorType, type_of_dtype
from ..backends import BackendError
from ..errors import Error
from ..judging.minimal import minimal_subset
from ..program import Operation, Value
from ..values.printing import format_value
from .part import Judge, starts_elsewhere
from .verdicts import Part, short

_SHAPE = re.compile(r"tensor<((?:\d+x)+)")
_ELEMENT = re.compile(r"(?<=[x<])(\w+)(?=>)")
_ATTRIBUTE = re.compile(r"(?:, |(?<=<\{))\w+ = (?:true|false|\[[^\]\n]*\]|[#\w.]+(?:<[^>\n]*>)?(?: : \w+)?)(?=[,}] ?)")
_INTEGER = re.compile(r"dense<(\d+)> : tensor<u?i\d+>")
#: More elements than this are not shown as inputs.
_SHOWN = 64


def find_part(judge: Judge, minimize: bool, deadline: float) -> Part | None:
    """Return the smallest part with the fault that is found in a time; None where the whole does not have it.

    Args:
        judge: The judge of the program's parts.
        minimize: Whether inputs, shapes, types and attributes are made simpler too.
        deadline: When the search ends, by `time.monotonic`.
    """
    operations = judge.trace.operations
    if judge.wrong(operations) is None:
        return None

    def fewest(operations: Sequence[Operation], wanted: Sequence[Value] | None = None) -> list[Operation]:
        """Return operations of which none can be left out, as far as the time allows."""
        return minimal_subset(operations, lambda o: time.monotonic() < deadline and judge.wrong(o, wanted) is not None)

    few = fewest(operations)
    wanted = judge.frontier(few)
    alone = next((v for v in wanted if len(wanted) > 1 and judge.wrong(few, [v]) is not None), None)
    if alone is not None:
        wanted = [alone]
        few = fewest(few, wanted)
    for inner in judge.enter(few[0]) if len(few) == 1 else ():
        part = find_part(inner, minimize, deadline) if time.monotonic() < deadline else None
        if part is not None:
            return part
    text, inputs = judge.text(few, wanted)
    arrays = [np.asarray(judge.trace.values[v]) for v in inputs]
    is_alone_right = len(few) > 1 and all(judge.wrong([o]) is None for o in few)
    if minimize:
        text, arrays = _smaller(text, arrays, judge, deadline)
    try:
        finding = judge.judge(text, arrays)
    except BackendError:
        finding = None
    shown = judge.wrong(few, wanted) if finding is None else finding[1]  # not every run has the fault
    assert shown is not None
    if any(starts_elsewhere(o, judge.trace.values) for o in few):
        shown = dataclasses.replace(shown, kind=f"{shown.kind}, from an init that is no identity")
    return Part(tuple(map(short, few)), text, _texts(arrays), shown, is_alone_right, arrays)


def _smaller(text: str, arrays: list[np.ndarray], judge: Judge, deadline: float) -> tuple[str, list[np.ndarray]]:
    """Return a program with smaller sizes, plainer types and attributes and simpler inputs that has the fault too."""

    def is_wrong(text: str, arrays: Sequence[np.ndarray]) -> bool:
        if time.monotonic() > deadline:
            return False
        try:
            return judge.judge(text, arrays) is not None
        except (Error, BackendError, ArithmeticError, LookupError, TypeError, ValueError):
            return False

    changed = True
    while changed and time.monotonic() < deadline:
        changed = False
        for shorter, cut in itertools.chain(
            _with_sizes(text, arrays), _with_types(text, arrays), _plainer(text, arrays)
        ):
            if is_wrong(shorter, cut):
                text, arrays, changed = shorter, cut, True
                break
    for i, x in enumerate(arrays):
        for simple in (np.zeros_like(x), np.ones(x.shape).astype(x.dtype)):
            if is_wrong(text, [*arrays[:i], simple, *arrays[i + 1 :]]):
                arrays = [*arrays[:i], simple, *arrays[i + 1 :]]
                break
        else:
            arrays = _fewer_elements(arrays, i, lambda a: is_wrong(text, a))
    return text, arrays


#: A program and its arguments.
Candidate = tuple[str, list[np.ndarray]]


def _with_sizes(text: str, arrays: Sequence[np.ndarray]) -> Iterator[Candidate]:
    """Yield programs in which one size of tensors is smaller."""
    for size in sorted({int(n) for s in _SHAPE.findall(text) for n in s.split("x") if n}, reverse=True):
        for less in sorted(n for n in {1, 2, size // 2, size - 1} if 0 < n < size):
            cut = [x[tuple(slice(less) if n == size else slice(None) for n in x.shape)] for x in arrays]
            yield _with_size(text, size, less), [np.ascontiguousarray(x).reshape(x.shape) for x in cut]


def _with_types(text: str, arrays: Sequence[np.ndarray]) -> Iterator[Candidate]:
    """Yield programs in which one element type is f32 or i32."""
    for name in sorted(set(_ELEMENT.findall(text)) - {"f32", "i32", "i1"}):
        element = ELEMENT_TYPES.get(name)
        if element is None or not (element.is_float or element.is_integer):
            continue
        plain = ELEMENT_TYPES["f32" if element.is_float else "i32"]
        with np.errstate(all="ignore"):
            cast = [x.astype(plain.dtype) if x.dtype == element.dtype else x for x in arrays]
        yield re.sub(rf"(?<=[x<]){re.escape(name)}(?=>)", plain.name, text), cast


def _plainer(text: str, arrays: Sequence[np.ndarray]) -> Iterator[Candidate]:
    """Yield programs without one of their attributes, or with a smaller integer constant, such as a count of a loop."""
    for found in _ATTRIBUTE.finditer(text):
        yield text[: found.start()] + text[found.end() :], list(arrays)
    for found in _INTEGER.finditer(text):
        for less in sorted({1, 2, int(found[1]) // 2} - {0}):
            if less < int(found[1]):
                yield text[: found.start(1)] + str(less) + text[found.end(1) :], list(arrays)


def _with_size(text: str, size: int, less: int) -> str:
    """Return a program in which a size of tensors, and of attributes that state it, is another."""

    def shape(match: re.Match[str]) -> str:
        sizes = [str(less) if n == str(size) else n for n in match.group(1).split("x")]
        return f"tensor<{'x'.join(sizes)}"

    text = _SHAPE.sub(shape, text)
    return re.sub(rf"(?<=[\[:, ]){size}(?=[\],:])(?![^\n]*dimension_numbers)", str(less), text)


def _fewer_elements(
    arrays: list[np.ndarray], index: int, is_wrong: Callable[[Sequence[np.ndarray]], bool]
) -> list[np.ndarray]:
    """Return arrays of which one has zeros in halves of it where they are wrong all the same."""
    x = arrays[index].copy()
    flat, size = x.reshape(-1), max(x.size // 2, 1)
    while size:
        for start in range(0, flat.size, size):
            old = flat[start : start + size].copy()
            if not old.astype(bool).any():
                continue
            flat[start : start + size] = 0
            if not is_wrong([*arrays[:index], x, *arrays[index + 1 :]]):
                flat[start : start + size] = old
        size //= 2
        if size * 16 < flat.size // 2:
            break
    return [*arrays[:index], x, *arrays[index + 1 :]]


def _texts(arrays: Sequence[np.ndarray]) -> tuple[str, ...]:
    """Return arrays in the syntax of `--input`."""
    texts = []
    for x in arrays:
        element = type_of_dtype(x.dtype)
        if x.size > _SHOWN:
            texts.append(f"{'x'.join(map(str, x.shape))}x{element}=…")
        else:
            texts.append(format_value(x, TensorType(x.shape, element), "codes"))
    return tuple(texts)
