"""Arrays on devices, and the functions of PJRT that read their properties.

A buffer holds a read-only numpy array with its elements in row-major order. That is so for other layouts too, which JAX
records: code that reads the memory in place assumes the usual layout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import ndarray

from ...ops.types import ELEMENT_TYPES
from . import events
from .deferred import Deferred
from .devices import Device, Memory
from .pjrt import abi
from .pjrt.errors import FAILED_PRECONDITION, ErrorObject, PluginError
from .pjrt.handles import ALIVE, FACTS, STATE
from .pjrt.runtime import Addresses, fact, getter, objects, pool, ready, too_deep, words

#: The numpy type of each buffer type, by its number, and the inverse.
DTYPES = {i: ELEMENT_TYPES[name].dtype for i, name in enumerate(abi.ELEMENTS) if name in ELEMENT_TYPES}
CODES = {dtype: i for i, dtype in DTYPES.items()}
_ITEM_SIZES = {code: dtype.itemsize for code, dtype in DTYPES.items()} | {abi.TOKEN: 0}


class Shape:
    """The sizes of an array in the form that the framework reads, and its dimensions from minor to major."""

    __slots__ = ("_dims", "_minor_to_major", "address", "count", "minor_to_major", "order", "rank", "sizes")

    def __init__(self, sizes: tuple[int, ...], order: tuple[int, ...] | None = None) -> None:
        self.sizes, self.rank, self.count = sizes, len(sizes), math.prod(sizes)
        #: The dimensions from minor to major; None for the usual order, the last dimension first.
        self.order = order
        self._dims, self._minor_to_major = Addresses(sizes), Addresses(order or range(len(sizes) - 1, -1, -1))
        self.address, self.minor_to_major = self._dims.address, self._minor_to_major.address


class Kind:
    """The properties that buffers of the same type, shape and memory share, in the form that the framework reads."""

    __slots__ = ("_facts", "address", "code", "memory", "nbytes", "shape")

    def __init__(self, memory: Memory, code: int, sizes: tuple[int, ...], order: tuple[int, ...] | None) -> None:
        self.memory, self.code, self.shape = memory, code, Shape(sizes, order)
        self.nbytes = self.shape.count * _ITEM_SIZES[code]
        self._facts = Addresses([memory.device.handle, memory.handle, self.shape.address, self.shape.rank, code])
        self.address = self._facts.address


_kinds: dict[tuple[Memory, int, tuple[int, ...], tuple[int, ...] | None], Kind] = {}
#: The most of them that are kept: a limit of memory.
_MOST_KINDS = 1 << 12


def kind_of(memory: Memory, code: int, sizes: tuple[int, ...], order: tuple[int, ...] | None = None) -> Kind:
    """Return the Kind of these properties. `order` lists the dimensions from minor to major unless it is the usual."""
    key = memory, code, sizes, order
    kind = _kinds.get(key)
    if kind is None:
        if len(_kinds) >= _MOST_KINDS:
            _kinds.clear()
        kind = _kinds[key] = Kind(memory, code, sizes, order)
    return kind


class Buffer:
    """The object of a buffer handle.

    `array` has the values. It is a Deferred while their program runs, an ErrorObject if that failed, and None when the
    buffer has been deleted or donated. `kept` is the deleted array if numpy still reads it in place.
    """

    __slots__ = ("array", "kept", "kind")

    def __init__(self, array: Any, kind: Kind) -> None:
        self.array: Any = array
        self.kind = kind

    @property
    def nbytes(self) -> int:
        """The bytes that the array takes, or will take."""
        return self.kind.nbytes if type(self.array) in (np.ndarray, Deferred) else 0


#: The states of a buffer's handle: unknown to machine code, deleted, or computed.
_UNKNOWN, _GONE, HERE = 0, 1, 2


def add(buffer: Buffer) -> int:
    """Return the handle of a new buffer."""
    handle = pool.add(buffer)
    at = handle >> 3
    words[at + FACTS] = buffer.kind.address
    words[at + STATE] = HERE if type(buffer.array) is np.ndarray else _UNKNOWN
    return handle


def total(device: Device | None = None) -> int:
    """Return the bytes of all buffers on a device, or on all devices."""
    pool.sweep()
    buffers = [
        b for b in list(objects.values()) if type(b) is Buffer and (device is None or b.kind.memory.device is device)
    ]
    # Devices that have the same values may share an array.
    return sum({id(b.array): b.nbytes for b in buffers}.values())


def live(buffer: Buffer) -> np.ndarray:
    """Return the array of a buffer; waits until it is computed.

    Raises PluginError if the buffer has been deleted, or if its program failed.
    """
    array = buffer.array
    if type(array) is Deferred:
        array.task.wait()
        array = array.value
    if type(array) is ErrorObject:
        raise PluginError(array.code, array.text)
    if array is None:
        raise PluginError(FAILED_PRECONDITION, "the buffer has been deleted or donated")
    return array


def delete(handle: int) -> None:
    """Free the array of a buffer, unless numpy reads it in place."""
    buffer = objects[handle]
    if words[handle >> 3] > ALIVE:
        buffer.kept = buffer.array
    buffer.array = None
    words[(handle >> 3) + STATE] = _GONE


# -- functions of PJRT -----------------------------------------------------------------------------------------------


fact(0, 1, "Buffer_Device")
fact(1, 1, "Buffer_Memory")
fact(2, 2, "Buffer_Dimensions", "Buffer_UnpaddedDimensions")
fact(4, 1, "Buffer_ElementType")


@getter("Buffer_DynamicDimensionIndices")
def _dynamic_dimensions(p: int) -> None:
    at = p >> 3
    words[at + 3] = objects[words[at + 2]].kind.shape.address
    words[at + 4] = 0


_LAYOUT = abi.argument("Buffer_GetMemoryLayout").layout.offset >> 3


@getter("Buffer_GetMemoryLayout")
def _layout(p: int) -> None:
    at = p >> 3
    shape = objects[words[at + 2]].kind.shape
    at += _LAYOUT
    words[at], words[at + 1] = 80, 0  # sizes of the structures, and no extensions
    words[at + 2], words[at + 3] = 56, 0
    words[at + 4], words[at + 5] = shape.minor_to_major, shape.rank
    words[at + 6], words[at + 7], words[at + 8] = 0, 0, 0  # no tiles
    words[at + 9] = abi.TILED


@getter("Buffer_OnDeviceSizeInBytes")
def _size(p: int) -> None:
    buffer = objects[words[(p >> 3) + 2]]
    words[(p >> 3) + 3] = 0 if buffer.array is None else buffer.kind.nbytes


@getter("Buffer_Delete")
def _delete(p: int) -> None:
    # The same as `delete`, which cannot be called at the recursion limit.
    handle = words[(p >> 3) + 2]
    buffer = objects[handle]
    if words[handle >> 3] > ALIVE:
        buffer.kept = buffer.array
    buffer.array = None
    words[(handle >> 3) + STATE] = _GONE


@getter("Buffer_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].array is None


@getter("Buffer_IsOnCpu")
def _is_on_cpu(p: int) -> None:
    # The framework then reads the array in place.
    words[(p >> 3) + 3] = 1


@getter("Buffer_IncreaseExternalReferenceCount")
def _increase(p: int) -> None:
    pool.hold(words[(p >> 3) + 2])


@getter("Buffer_ReadyEvent")
def _ready_event(p: int) -> None:
    at = p >> 3
    handle = words[at + 2]
    array = objects[handle].array
    words[at + 3] = ready
    kind = type(array)
    # Threads do not take turns between these two steps, so that what is deleted stays deleted.
    if objects[handle].array.__class__ is ndarray:
        words[(handle >> 3) + STATE] = HERE
    try:
        if kind is Deferred:
            words[at + 3] = events.of(array.task)
        elif kind is ErrorObject:
            words[at + 3] = pool.add(array)
    except RecursionError:
        words[at + 3] = too_deep
