"""The smallest part of a program that is wrong: fewer operations first, then smaller inputs and shapes.

Operations that are left out become arguments with the values that the interpreter gives. A set of operations from
which none can be left out is what is wrong together (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing
Input, 2002).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import numpy as np

from ...ops.types import TensorType, type_of_dtype
from ..backends import Backend, BackendError
from ..enclose import Allowed
from ..errors import Error
from ..program import Operation
from ..values.printing import format_value
from .part import Judge, judge_text
from .verdicts import Part, short

_SHAPE = re.compile(r"tensor<((?:\d+x)+)")
#: More elements than this are not shown as inputs.
_SHOWN = 64


def find_part(judge: Judge, minimize: bool, seconds: float) -> Part | None:
    """Return the smallest wrong part that is found in a time.

    Args:
        judge: The judge of the program's parts.
        minimize: Whether inputs and shapes are made smaller too.
        seconds: The time that the search may take.
    """
    deadline = time.monotonic() + seconds
    operations = judge.trace.operations
    if judge.wrong(operations) is None:
        return None
    few = _fewest(operations, lambda chosen: judge.wrong(chosen) is not None, deadline)
    if judge.wrong(few) is None:
        return None
    value = judge.first_wrong(few)
    wanted = judge.frontier(few) if value is None or judge.wrong(few, [value]) is None else [value]
    text, inputs = judge.text(few, wanted)
    arrays = [np.asarray(judge.trace.values[v]) for v in inputs]
    alone = len(few) > 1 and all(judge.wrong([o]) is None for o in few)
    if minimize:
        text, arrays = _smaller(text, arrays, judge.backend, judge.allowed, deadline)
    finding = judge_text(text, arrays, judge.backend, judge.allowed)
    if finding is None:  # not every time
        known = judge.wrong(few)
        assert known is not None
        return Part(tuple(map(short, few)), text, _texts(arrays), known, alone, arrays)
    return Part(tuple(map(short, few)), text, _texts(arrays), finding[1], alone, arrays)


def _fewest(
    operations: Sequence[Operation], is_wrong: Callable[[Sequence[Operation]], bool], deadline: float
) -> list[Operation]:
    """Return operations of which none can be left out, by leaving out halves, quarters, and so on."""
    chosen, size = list(operations), max(len(operations) // 2, 1)
    while time.monotonic() < deadline and len(chosen) > 1:
        removed = False
        for start in range(0, len(chosen), size):
            rest = chosen[:start] + chosen[start + size :]
            if rest and time.monotonic() < deadline and is_wrong(rest):
                chosen, removed = rest, True
                break
            part = chosen[start : start + size]
            if len(part) < len(chosen) and time.monotonic() < deadline and is_wrong(part):
                chosen, removed = part, True
                break
        if removed:
            size = min(size, max(len(chosen) // 2, 1))
        elif size == 1:
            break
        else:
            size = max(size // 2, 1)
    return chosen


def _smaller(
    text: str, arrays: list[np.ndarray], backend: Backend, allowed: Allowed, deadline: float
) -> tuple[str, list[np.ndarray]]:
    """Return a program with smaller sizes and simpler inputs that is wrong too."""

    def is_wrong(text: str, arrays: Sequence[np.ndarray]) -> bool:
        if time.monotonic() > deadline:
            return False
        try:
            return judge_text(text, arrays, backend, allowed) is not None
        except (Error, BackendError, ValueError, IndexError):
            return False

    changed = True
    while changed:
        changed = False
        for size in sorted({int(n) for s in _SHAPE.findall(text) for n in s.split("x") if n}, reverse=True):
            for less in sorted({1, 2, size // 2, size - 1} - {0, size}):
                if less > size:
                    continue
                shorter = _with_size(text, size, less)
                cut = [x[tuple(slice(less) if n == size else slice(None) for n in x.shape)] for x in arrays]
                if is_wrong(shorter, cut):
                    text, arrays, changed = shorter, [np.ascontiguousarray(x).reshape(x.shape) for x in cut], True
                    break
    for i, x in enumerate(arrays):
        for simple in (np.zeros_like(x), np.ones(x.shape).astype(x.dtype)):
            if is_wrong(text, [*arrays[:i], simple, *arrays[i + 1 :]]):
                arrays = [*arrays[:i], simple, *arrays[i + 1 :]]
                break
        else:
            arrays = _fewer_elements(arrays, i, lambda a: is_wrong(text, a))
    return text, arrays


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
