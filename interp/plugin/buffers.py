"""Arrays on devices, and the functions of PJRT that read their properties.

A buffer holds a read-only numpy array with its elements in row-major order. That is so for other layouts too, which JAX
records: code that reads the memory in place assumes the usual layout.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from . import events
from .devices import Device, Memory
from .pjrt import abi
from .pjrt.errors import FAILED_PRECONDITION, ErrorObject, PluginError
from .pjrt.handles import ALIVE
from .pjrt.runtime import Sized, getter, lists, objects, pool, properties, ready, too_deep, words
from .work import Deferred

#: The numpy type of each buffer type, by its number, and the inverse.
DTYPES = {i: ELEMENT_TYPES[name].dtype for i, name in enumerate(abi.ELEMENTS) if name in ELEMENT_TYPES}
CODES = {dtype: i for i, dtype in DTYPES.items()}


class Spec:
    """The properties that buffers of the same type, shape, memory and layout share.

    Attributes:
        dtype: The numpy type of the elements; that of `TOKEN_ARRAY` for tokens.
        order: The dimensions from minor to major; None for the usual order, the last dimension first.
    """

    def __init__(self, memory: Memory, code: int, shape: tuple[int, ...], order: tuple[int, ...] | None) -> None:
        self.memory, self.code, self.shape, self.order = memory, code, shape, order
        self.dtype = DTYPES.get(code, TOKEN_ARRAY.dtype)
        self.nbytes = math.prod(shape) * self.dtype.itemsize
        sizes, minor_to_major = Sized.items(shape), Sized.items(order or range(len(shape) - 1, -1, -1))
        self.properties = {
            "Device": memory.device.handle,
            "Memory": memory.handle,
            "ElementType": code,
            "Dimensions": sizes,
            "UnpaddedDimensions": sizes,
            "DynamicDimensionIndices": (sizes.address, 0),
            # The sizes of the two structures with no extensions, the order, no tiles, and the kind of layout.
            "GetMemoryLayout": (80, 0, 56, 0, *minor_to_major, 0, 0, 0, abi.TILED),
            "IsOnCpu": 1,  # so that the framework reads arrays in place
        }
        self._memory = minor_to_major

    def __str__(self) -> str:
        return f"an array of {self.dtype} {list(self.shape)}"


#: The array of a token.
TOKEN_ARRAY = np.zeros(0, bool)
_specs: dict[tuple[Memory, int, tuple[int, ...], tuple[int, ...] | None], Spec] = {}
#: The most of them that are kept: a limit of memory.
_MOST_SPECS = 1 << 12


def spec_of(memory: Memory, code: int, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> Spec:
    """Return the Spec of these properties."""
    key = memory, code, shape, order
    spec = _specs.get(key)
    if spec is None:
        if len(_specs) >= _MOST_SPECS:
            _specs.clear()
        spec = _specs[key] = Spec(memory, code, shape, order)
    return spec


class Buffer:
    """The object of a buffer's handle.

    `array` has the values. It is a Deferred while their program runs, an ErrorObject if that failed, and None when the
    buffer has been deleted or donated. `in_use` is the deleted array if numpy still reads it in place.
    """

    __slots__ = ("array", "in_use", "properties", "spec")

    def __init__(self, array: Any, spec: Spec) -> None:
        self.array: Any = array
        self.spec = spec
        self.properties = spec.properties

    @property
    def nbytes(self) -> int:
        """The bytes that the array takes, or will take."""
        return self.spec.nbytes if type(self.array) in (np.ndarray, Deferred) else 0


def total(device: Device | None = None) -> int:
    """Return the bytes of all buffers on a device, or on all devices."""
    pool.sweep()
    buffers = [
        b for b in list(objects.values()) if type(b) is Buffer and (device is None or b.spec.memory.device is device)
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
        buffer.in_use = buffer.array
    buffer.array = None


# -- functions of PJRT -----------------------------------------------------------------------------------------------

properties("Buffer", "Device", "Memory", "ElementType", "IsOnCpu")
lists("Buffer", "Dimensions", "UnpaddedDimensions", "DynamicDimensionIndices", "GetMemoryLayout")


@getter("Buffer_OnDeviceSizeInBytes")
def _size(p: int) -> None:
    buffer = objects[words[(p >> 3) + 2]]
    words[(p >> 3) + 3] = 0 if buffer.array is None else buffer.spec.nbytes


@getter("Buffer_Delete")
def _delete(p: int) -> None:
    # The same as `delete`, which cannot be called at the recursion limit.
    handle = words[(p >> 3) + 2]
    buffer = objects[handle]
    if words[handle >> 3] > ALIVE:
        buffer.in_use = buffer.array
    buffer.array = None


@getter("Buffer_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].array is None


@getter("Buffer_IncreaseExternalReferenceCount")
def _increase(p: int) -> None:
    pool.hold(words[(p >> 3) + 2])


@getter("Buffer_ReadyEvent")
def _ready_event(p: int) -> None:
    at = p >> 3
    array = objects[words[at + 2]].array
    words[at + 3] = ready
    kind = type(array)
    try:
        if kind is Deferred:
            words[at + 3] = events.of(array.task)
        elif kind is ErrorObject:
            words[at + 3] = pool.add(array)
    except RecursionError:
        words[at + 3] = too_deep
