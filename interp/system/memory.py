"""Limits the memory that a program may allocate, so that one large tensor is refused before it exhausts the machine."""

from __future__ import annotations

import collections
import contextlib
import functools
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, ResourceError

if TYPE_CHECKING:  # the start of the plugin needs no types
    import numpy as np

    from ...ops.types import TensorType

#: The environment variable for the memory that values may take; `parse_size` describes its syntax.
LIMIT = "MINIHLO_MEMORY_LIMIT"

#: The share of the free memory that values may take: an op needs operands, results and scratch space at once.
_SHARE = 0.75
#: The share of the free memory that a process may take at all.
_SURE_SHARE = 0.95
#: The free memory to assume on systems that do not report it.
_UNKNOWN = 4 << 30
#: Requests up to this size are granted without asking the system.
_SMALL = 1 << 24
#: The freed memory that a process keeps.
#: tuning: softmax of 1000 x 1000 f32 takes 5.3 ms of a processor so, 11.8 ms without.
_KEPT = 1 << 28
#: glibc's names, and the largest array that it takes from what it keeps.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _MOST_FROM_HEAP = -1, -3, 1 << 25
#: numpy refuses arrays of more bytes or dimensions, also where a dimension is 0.
_MOST_BYTES = sys.maxsize
_MOST_DIMENSIONS = 64


_ceiling: int | None = None


def set_ceiling(nbytes: int | None) -> None:
    """Set the number of bytes that all values may take together; None restores the environment variable's limit."""
    global _ceiling
    _ceiling = nbytes


def ceiling() -> int | None:
    """Return the number of bytes that all values may take together, or None if no limit is set."""
    if _ceiling is not None:
        return _ceiling
    text = os.environ.get(LIMIT)
    return _parse_limit(text) if text else None


@functools.lru_cache(8)
def _parse_limit(text: str) -> int:
    try:
        return parse_size(text)
    except InputError as error:
        raise InputError(f"{LIMIT}: {error}") from None


def parse_size(text: str) -> int:
    """A size in bytes, such as `8GiB`, `500MB`, or `50%` of the machine's memory. Raises InputError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise InputError(f"expected a size such as 8GiB, 500MB, or 50% (of the machine's memory), got {text!r}")
    number, unit = float(match[1]), match[2]
    power = " KMGT".index(unit[0].upper()) if unit not in ("", "B", "%") else 0
    size = number * ((_physical() or _UNKNOWN) / 100 if unit == "%" else (1024 if "i" in unit else 1000) ** power)
    return int(min(size, _MOST_BYTES))  # also what is infinite in float64


_SIZE = re.compile(r"(\d+(?:\.\d*)?(?:e\d+)?)\s*(%|B|[kKMGT]i?B|)")


def free_memory() -> list[int]:
    """Return the bytes that the machine, the control groups and the process have left, as far as they are known."""
    return [f for f in (_machine(), *_control_groups(), _process()) if f is not None]


def limit(used: int = 0, free: Sequence[int] | None = None) -> int:
    """Return the number of bytes that may still be allocated when values take `used` bytes already.

    All values together take a share of what they have and what is free, the least of `free`, by default of
    `free_memory()`; and at most the ceiling.
    """
    left = max(min(free_memory() if free is None else free, default=_UNKNOWN), 0)
    allowed = max(int((used + left) * _SHARE) - used, 0)
    most = ceiling()
    return allowed if most is None else max(min(allowed, most - used), 0)


def check(nbytes: int, what: object, used: int = 0, free: Sequence[int] | None = None) -> None:
    """Raise ResourceError if `nbytes` bytes beside the `used` ones exceed the limit."""
    if nbytes > _SMALL or ((most := ceiling()) is not None and nbytes > most - used):
        require(nbytes, what, used, free)


def require(nbytes: int, what: object, used: int = 0, free: Sequence[int] | None = None) -> int:
    """Return the limit if `nbytes` bytes beside the `used` ones do not exceed it; else raise ResourceError."""
    allowed = limit(used, free)
    if nbytes > allowed:
        raise ResourceError(f"{what} takes {_format_size(nbytes)}, but only {_format_size(allowed)} are available")
    return allowed


def confine() -> None:
    """Make allocations of this process fail that would exhaust the machine, those of operations for a while too.

    Its child processes inherit the limit. Linux only.
    """
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        taken = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        most = taken + int(max(min(free_memory(), default=_UNKNOWN), 0) * _SURE_SHARE)
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def without_core_file() -> None:
    """Make this process write no core file if it crashes."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):
        pass


@functools.cache
def keep_freed() -> None:
    """Let the C library keep what arrays leave, up to `_KEPT` bytes, for the next ones, instead of giving it back.

    A page that the system gives anew takes up to 2 us, in which a thousand numbers are added. Only glibc can be told,
    once for a process; its own variables of the environment win.
    """
    if not any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        with contextlib.suppress(ImportError, AttributeError, OSError):
            import ctypes  # numpy imports it anyway

            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP)
            mallopt(_M_TRIM_THRESHOLD, _KEPT)


# -- the values that exist ---------------------------------------------------------------------------------------------

#: Arrays of fewer bytes are not counted.
COUNTED = 1 << 17
_sizes: dict[int, int] = {}  #: the bytes of counted arrays, by identity
_references: dict[int, weakref.ref[np.ndarray]] = {}
_freed: collections.deque[int] = collections.deque()  #: those that are gone
_counting = threading.Lock()
_used = _unseen = 0
#: The bytes of new values that are granted without asking the system: a part of what was free when it was asked last.
_granted = _SMALL


def used() -> int:
    """Return the bytes of the counted arrays that exist."""
    global _used
    with _counting:
        while _freed:
            key = _freed.popleft()
            _references.pop(key, None)
            _used -= _sizes.pop(key, 0)
        return _used


def count(array: np.ndarray) -> int:
    """Count the memory of an array until it is freed: that of the whole array of which it is a view.

    Returns the bytes that had not been counted before.
    """
    global _used, _unseen
    if array.base is None and array.nbytes < COUNTED:
        return 0
    import numpy as np  # imported here, so that commands start quickly

    while isinstance(array.base, np.ndarray):
        array = array.base
    if array.nbytes < COUNTED or type(array) is not np.ndarray:  # the memory of a file is not taken
        return 0
    used()  # the identity may be that of an array that is gone
    with _counting:
        key = id(array)
        if key in _sizes:
            return 0
        _references[key] = weakref.ref(array, lambda _: _freed.append(key))
        _sizes[key] = array.nbytes
        _used += array.nbytes
        _unseen += array.nbytes
        return array.nbytes


def reserve(nbytes: int, what: Sequence[object], counted: int = 0) -> None:
    """Raise ResourceError if bytes of values exceed the limit beside the counted ones, which `counted` are already."""
    global _unseen, _granted
    most = ceiling()
    if most is None and nbytes + _unseen <= _granted:
        return
    _unseen, others = 0, used() - counted
    try:
        allowed = require(nbytes, ", ".join(dict.fromkeys(map(str, what))), others)
    except ResourceError as error:
        _granted = _SMALL
        raise ResourceError(f"{error} beside the {_format_size(others)} of other values") from None
    _granted = max(_SMALL, allowed // 16)


# -- one value ---------------------------------------------------------------------------------------------------------


def check_type(t: TensorType) -> None:
    """Raise ResourceError if a tensor of a static type is larger than numpy or the machine can hold."""
    shape = [d for d in t.shape if d is not None]
    if len(shape) > _MOST_DIMENSIONS:
        raise ResourceError(f"{t}: expected at most {_MOST_DIMENSIONS} dimensions (numpy's limit), got {len(shape)}")
    spanned = t.element.dtype.itemsize
    for d in shape:
        spanned *= max(d, 1)
    if spanned > _MOST_BYTES:
        raise ResourceError(f"{t} is larger than any machine can address")
    check(t.nbytes, str(t))


def _format_size(nbytes: int) -> str:
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = min(max(nbytes.bit_length() - 1, 0) // 10, len(units) - 1)
    return f"{nbytes / 1024**power:,.{int(power > 0)}f} {units[power]}"


def _machine() -> int | None:
    """Return the memory that Linux can free without swapping; on other systems the physical memory."""
    available = _field("/proc/meminfo", "MemAvailable:")
    if available is not None:
        return available * 1024
    return _physical()


def _physical() -> int | None:
    """Return the physical memory in bytes."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def _control_groups() -> Iterator[int]:
    """Yield the memory that each control group (a limit of a container) of this process has left."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                yield from free_in_groups(Path("/sys/fs/cgroup"), path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                yield from free_in_groups(
                    Path("/sys/fs/cgroup/memory"),
                    path,
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file",
                )


def free_in_groups(root: Path, path: str, maximum: str, current: str, cache: str) -> Iterator[int]:
    """Yield the memory that a control group and each of its ancestors have left.

    Args:
        root: The folder where the hierarchy is mounted.
        path: The path of the group below `root`.
        maximum: The name of the file with the limit.
        current: The name of the file with the memory in use.
        cache: The field of `memory.stat` with the memory of cached files.
    """
    # Inside a container the path may be the host's, which does not exist here; then the root is the container's own.
    group = root / path.strip("/")
    for folder in (group, *group.parents):
        if folder != root and root not in folder.parents:
            return
        most, used = _number(folder / maximum), _number(folder / current)
        if most is not None and used is not None:
            # Cached files count as used, but make room when room is needed.
            yield most - used + (_field(folder / "memory.stat", cache) or 0)


def _process() -> int | None:
    """Return the address space that `ulimit -v` leaves, or None without such a limit."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return most - pages * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # "max" is no limit
        return None


def _field(path: str | Path, name: str) -> int | None:
    try:
        with open(path) as lines:
            return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), None)
    except (OSError, ValueError):
        return None
