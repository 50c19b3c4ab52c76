"""Arrays that can be changed or handed out as they are, since nobody else has them: told by their reference counts."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def own(x: np.ndarray) -> np.ndarray:
    """An array to write to: `x` itself where the caller of the kernel that asks is alone in having it, else a copy.

    To be called by a kernel on an operand that nothing needs afterwards (`Call.spare`). A view counts as having it.
    """
    if sys.getrefcount(x) <= _ALONE and x.base is None and x.flags.writeable:
        return x
    return x.copy()


def own_here(x: np.ndarray) -> np.ndarray:
    """The same, for a function that asks about a variable of its own."""
    if sys.getrefcount(x) <= _ALONE_HERE and x.base is None and x.flags.writeable:
        return x
    return x.copy()


def _is_all_of(view: np.ndarray, base: Any) -> bool:
    """Whether a view shows all of its base, in order."""
    is_owner = type(base) is np.ndarray and base.base is None and base.flags.writeable
    return is_owner and base.nbytes == view.nbytes and view.flags.c_contiguous


def detached(values: tuple[Any, ...]) -> list[Any]:
    """The values with each array that somebody else has, or that is a part of one, copied."""
    found = []
    for value in values:
        if type(value) is np.ndarray:
            base = value.base
            if (
                sys.getrefcount(value) > _ALONE_IN_TUPLE
                or not value.flags.writeable
                or (base is not None and not (sys.getrefcount(base) <= _ALONE_AS_BASE and _is_all_of(value, base)))
            ):
                value = value.copy(order="C")
        elif isinstance(value, tuple):
            value = tuple(detached(value))
        elif value is not None:
            value = np.array(value)
        found.append(value)
    return found


def _calibrate() -> tuple[int, int]:
    """The counts that these find for what is named by one variable only: Python's versions differ in them."""
    counts: list[int] = []

    def owned(x: np.ndarray) -> None:
        counts.append(sys.getrefcount(x))

    def kernel(x: np.ndarray, _: object, *__: object) -> None:
        owned(x)

    scope: dict[str, Callable[..., None]] = {"k": kernel, "owned": owned}
    exec("def run(a):\n    v = a()\n    w = k(v, 0, 1)\n    w = owned(v)\n    return v", scope)
    scope["run"](lambda: np.zeros(2))
    return counts[0], counts[1]


def _calibrate_detached() -> tuple[int, int]:
    """The counts that `detached` finds for what is in its tuple only, and for the base of such."""
    values, counts = (np.zeros(2).view(np.int64),), []
    for value in values:
        base = value.base
        counts += [sys.getrefcount(value), sys.getrefcount(base)]
    return counts[0], counts[1]


_ALONE, _ALONE_HERE = _calibrate()
_ALONE_IN_TUPLE, _ALONE_AS_BASE = _calibrate_detached()
