"""Handles: the addresses that stand for our objects in the framework, and how we learn that it has dropped one.

The framework may destroy a handle at any time: while an exception unwinds, without holding Python's lock, or after the
interpreter has shut down. A function of ours would run Python code then, which aborts the process. So every `Destroy`
function of the table is a function of CPython itself that runs no Python code: `tp_clear` of cells. It sets the third
word of the structure that it gets to null and decrements the reference count of the object to which that word pointed.
In the argument of every `Destroy` function the third word is the handle.

So a handle looks like a Python object: a reference count and a type, in memory that is never freed. Its count starts so
high that it never reaches zero. A handle with a lower count has been destroyed; `Pool.sweep` finds such handles now and
then and forgets their objects. `defect` tests all this when the platform is initialized.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
import types
from typing import Any

import numpy as np

#: The count of a live handle. References from outside (see `hold`) come on top.
ALIVE = 1 << 20
_DESTROYED = ALIVE - 1
#: The words of a handle, of eight bytes each: the count and the type.
_WORDS = 2
#: The count of a handle that is shared and never ends. From 3.12 on such a count stands for an immortal object.
_IMMORTAL = 0xE0000000 if sys.version_info >= (3, 12) else 1 << 60
#: The number of handles in one piece of memory.
_CHUNK = 1 << 10
#: The number of new handles after which a pool is swept.
_SWEEP_EVERY = 256

_SLOT_OF_TP_CLEAR = 51  # Py_tp_clear, a number that never changes


class Pool:
    """The live handles, and the objects they stand for."""

    def __init__(self) -> None:
        self.objects: dict[int, Any] = {}
        #: The address of each piece of memory, and the counts of its handles.
        self._chunks: list[tuple[int, np.ndarray]] = []
        self._free: list[int] = []
        self._new = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._after_fork)

    def add(self, item: Any) -> int:
        """Return a handle for an object."""
        self._new += 1
        if self._new >= _SWEEP_EVERY:
            self.sweep()
        try:
            address = self._free.pop()
        except IndexError:
            self._grow()
            address = self._free.pop()
        self.objects[address] = item
        return address

    def discard(self, address: int) -> None:
        """Take back a handle that the framework has not seen."""
        if self.objects.pop(address, None) is not None:
            self._free.append(address)

    def hold(self, address: int) -> None:
        """Count a reference from outside, which ends as a destroyed handle does."""
        ctypes.c_int64.from_address(address).value += 1

    def release(self, address: int) -> None:
        """Take back what `hold` has counted."""
        ctypes.c_int64.from_address(address).value -= 1

    def sweep(self) -> None:
        """Forget the objects whose handles have been destroyed."""
        if not self._lock.acquire(blocking=False):  # garbage collection, or another thread
            return
        try:
            dropped = []
            for base, counts in self._chunks:
                destroyed = (counts == _DESTROYED).nonzero()[0]
                counts[destroyed] = ALIVE
                addresses = (base + 8 * _WORDS * destroyed).tolist()
                dropped += [self.objects.pop(address, None) for address in addresses]
                self._free += addresses
            # With many handles alive it pays to wait for more new ones.
            self._new = -(len(self.objects) // 4)
        finally:
            self._lock.release()
        dropped.clear()

    def _grow(self) -> None:
        words = np.zeros((_CHUNK, _WORDS), np.int64)
        words[:, 0] = ALIVE
        words[:, 1] = id(object)
        _never_free(words)
        base, step = words.ctypes.data, 8 * _WORDS
        self._chunks.append((base, words[:, 0]))
        self._free.extend(range(base + step * (_CHUNK - 1), base - 1, -step))

    def _after_fork(self) -> None:
        self._lock = threading.Lock()


def immortal() -> int:
    """Return a handle that may be destroyed any number of times, and stands for nothing."""
    words = (ctypes.c_int64 * _WORDS)(_IMMORTAL, id(object))
    _never_free(words)
    return ctypes.addressof(words)


def _never_free(memory: Any) -> None:
    """Keep memory for good: the framework destroys handles after the interpreter has cleared our modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


def destroyer() -> int:
    """Return the address of the function that destroys the handle in the third word of its argument."""
    get_slot = ctypes.pythonapi.PyType_GetSlot
    get_slot.restype, get_slot.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_int)
    return get_slot(types.CellType, _SLOT_OF_TP_CLEAR) or 0


def defect() -> str | None:
    """Return why handles cannot work in this Python, or None where they can."""
    if sys.implementation.name != "cpython":
        return f"it needs CPython, not {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "Python is built without a GIL"
    if ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "it needs a 64-bit little-endian machine"
    if hasattr(sys, "gettotalrefcount") or object.__basicsize__ != 16:
        return "Python is built for debugging"
    if sys.version_info >= (3, 15):
        return "this version of Python is newer than it knows"
    try:
        return _self_test()
    except Exception as error:
        return f"its self-test failed: {error}"


def _self_test() -> str | None:
    address = destroyer()
    if not address:
        return "cells cannot be cleared"
    destroy = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(address)
    handle = (ctypes.c_int64 * 2)(ALIVE, id(object))
    forever = (ctypes.c_int64 * 2)(_IMMORTAL, id(object))
    for words, least, most in ((handle, _DESTROYED, _DESTROYED), (forever, _IMMORTAL - 1, _IMMORTAL)):
        argument = (ctypes.c_uint64 * 4)(24, 0, ctypes.addressof(words), 0xABCD)
        result = destroy(ctypes.addressof(argument))
        if result or list(argument) != [24, 0, 0, 0xABCD] or not least <= words[0] <= most or words[1] != id(object):
            return "its self-test failed: clearing a cell does more than drop a reference"
    argument = (ctypes.c_uint64 * 4)(24, 0, 0, 0xABCD)
    if destroy(ctypes.addressof(argument)):
        return "its self-test failed: an empty cell cannot be cleared"
    return None
