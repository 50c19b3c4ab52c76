"""Arrays without other references, which can be changed or handed out as they are.

A plan knows which op is the last to use a value, but not which array the value is: a kernel may return its operand, a
view of it, a part of a table or a number that is kept, the first turn of a loop gets what its caller has, and two
results of a region may be one array. To know that no other name has an array would take a copy at each of these
places, of which a loop that changes one element in each turn would be slower by its whole array. So the plan says
where an operand may be taken (`own`), once for each such op, and Python's own counts of references say whether there
is another name for it. No kernel asks: it is given an array to write to (`Call.spare`).
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from .blocks import LINE, in_order


def own(x: np.ndarray) -> np.ndarray:
    """An array to write to: `x` itself if one variable of the caller is all that has it, else a copy.

    Args:
        x: any array, given as a variable. A view of it, a container that holds it and another name count as having it.

    Returns:
        A writeable array of the same shape, type and elements. A copy too of what is read-only or a part of another.
    """
    if _is_unshared(x) and x.flags.writeable and (x.base is None or _is_all_of_its_base(x)):
        return x
    return x.copy()


def detached(values: tuple[Any, ...]) -> list[Any]:
    """The values as arrays without other references: each that has one, or is part of another array, is copied.

    Args:
        values: arrays, numbers, None for tokens, and tuples of these, given as no variable.

    Returns:
        The values in order; numbers as arrays without dimensions, tuples as tuples. Arrays are contiguous in C's order
        and writeable, unless they have no other references: these are given as they are.
    """
    most, copies = _count_in_a_tuple(), []
    for value in values:
        if type(value) is np.ndarray:
            if (
                sys.getrefcount(value) > most
                or not value.flags.writeable
                or (value.base is not None and not _is_all_of_its_base(value))
            ):
                value = in_order(value)
        elif isinstance(value, tuple):
            value = tuple(detached(value))
        elif value is not None:
            value = np.array(value)
        copies.append(value)
    return copies


def _is_all_of_its_base(view: np.ndarray) -> bool:
    """Whether a view shows all of its base in order, but for what aligns it, and the base has no other references."""
    base = view.base
    if type(base) is not np.ndarray or base.base is not None or not base.flags.writeable:
        return False
    spare = LINE if base.dtype == np.uint8 else 0  # as `blocks.empty` has it
    return base.nbytes - view.nbytes in (0, spare) and view.flags.c_contiguous and _is_unshared(base)


def _is_unshared(x: Any) -> bool:
    """Whether the caller's variable, and one that the caller has it from, are all that has `x`."""
    return sys.getrefcount(x) <= _count_of_unshared()


@functools.cache
def _count_of_unshared() -> int:
    """The count of references that `_is_unshared` finds then. Python's versions differ in how a call counts."""

    def is_unshared(x: Any) -> int:
        return sys.getrefcount(x)

    def asks(x: Any) -> int:
        return is_unshared(x)

    value = object()
    return asks(value)


@functools.cache
def _count_in_a_tuple() -> int:
    """The count of references that `detached` finds for what its tuple alone has."""
    count = 0
    for value in (object(),):
        count = sys.getrefcount(value)
    return count
