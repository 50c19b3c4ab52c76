"""Raises Python's recursion limit for programs that nest deeply: thousands of calls, hundreds of nested regions.

Each level of a program takes some frames of Python, whose default limit is 1,000.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: The number of Python frames that a program may take beside those of its caller. A frame entered from C took up to
#: 0.65 KiB of stack; two thirds of the frames of calls within regions are. 13,000 frames filled the usual 8 MiB.
FRAMES = 6_000
#: The stack that these frames, and the most nested brackets of the parser, fit in twice.
_USUAL_STACK = 8 << 20

_lock = threading.Lock()
_users = 0
_before = _raised = 0


def on_this_stack(most: int) -> int:
    """Return the share of a limit that the stack of this process allows (`ulimit -s`), at least 1/64."""
    try:
        import resource

        stack, _ = resource.getrlimit(resource.RLIMIT_STACK)
    except (ImportError, OSError):
        return most
    if stack == resource.RLIM_INFINITY or stack >= _USUAL_STACK:
        return most
    return max(most * stack // _USUAL_STACK, most // 64)


@contextmanager
def deep_calls() -> Iterator[None]:
    """Raise the recursion limit for the duration of a block. Several threads may be in such blocks."""
    global _users, _before, _raised
    with _lock:
        if _users == 0:
            _before = sys.getrecursionlimit()
            _raised = _before + on_this_stack(FRAMES)
            sys.setrecursionlimit(_raised)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            # If other code has set another limit meanwhile, that one stays.
            if _users == 0 and sys.getrecursionlimit() == _raised:
                sys.setrecursionlimit(_before)
