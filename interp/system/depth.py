"""Room for programs that nest deeply: chains of thousands of calls, hundreds of regions within each other.

A level of a program takes some frames of Python, of which the interpreter allows 1,000 unless told otherwise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Frames of Python that a program may take beside those of who runs it. Frames that are entered by way of C took up to
#: 0.65 KiB of stack each, two thirds of all in calls within regions: 13,000 filled the usual 8 MiB.
FRAMES = 6_000

_lock = threading.Lock()
_users = 0
_before = 0


@contextmanager
def deep_calls() -> Iterator[None]:
    """Within it Python allows that many frames more; several threads may be in it at the same time."""
    global _users, _before
    with _lock:
        if _users == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(_before + FRAMES)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            # Where somebody else has set another limit meanwhile, that is the one to stay.
            if _users == 0 and sys.getrecursionlimit() == _before + FRAMES:
                sys.setrecursionlimit(_before)
