"""Arrays on devices, and what is asked of them.

A buffer holds a numpy array that nobody writes to, its elements in order from major to minor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from . import abi, events
from .deferred import Deferred
from .devices import Device
from .errors import FAILED_PRECONDITION, ErrorObject, PluginError
from .handles import ALIVE
from .runtime import Addresses, getter, objects, pool, ready, too_deep, words

#: The numpy type of each buffer type, by its number, and the other way round.
DTYPES = {i: ELEMENT_TYPES[name].dtype for i, name in enumerate(abi.ELEMENTS) if name}
CODES = {dtype: i for i, dtype in DTYPES.items()}
_ITEM_SIZES = {code: dtype.itemsize for code, dtype in DTYPES.items()} | {abi.TOKEN: 0}


class Shape:
    """The sizes of an array as the framework reads them, and its dimensions from minor to major."""

    __slots__ = ("_dims", "_minor_to_major", "address", "count", "minor_to_major", "rank", "sizes")

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes, self.rank, self.count = sizes, len(sizes), math.prod(sizes)
        self._dims, self._minor_to_major = Addresses(sizes), Addresses(range(len(sizes) - 1, -1, -1))
        self.address, self.minor_to_major = self._dims.address, self._minor_to_major.address


_shapes: dict[tuple[int, ...], Shape] = {}
_MOST_SHAPES = 1 << 12


def shape_of(sizes: tuple[int, ...]) -> Shape:
    """The Shape of these sizes."""
    found = _shapes.get(sizes)
    if found is None:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        found = _shapes[sizes] = Shape(sizes)
    return found


class Buffer:
    """What a buffer handle stands for.

    `array` is its values; a Deferred while the program that gives it runs; an ErrorObject where that has failed; None
    once the buffer has been deleted or donated. `kept` is what it was then, where numpy still reads it in place.
    """

    __slots__ = ("array", "code", "device", "kept", "shape")

    def __init__(self, array: Any, device: Device, code: int, shape: Shape) -> None:
        self.array: Any = array
        self.device, self.code, self.shape = device, code, shape

    @property
    def nbytes(self) -> int:
        """The bytes that it takes, or is going to take."""
        array = self.array
        return self.shape.count * _ITEM_SIZES[self.code] if type(array) in (np.ndarray, Deferred) else 0


def new(array: np.ndarray, device: Device) -> int:
    """The handle of a new buffer."""
    shape = _shapes.get(array.shape) or shape_of(array.shape)
    return pool.add(Buffer(array, device, CODES[array.dtype], shape))


def total(device: Device | None = None) -> int:
    """The bytes of all buffers on a device, or on all devices."""
    pool.sweep()
    found = [b for b in list(objects.values()) if type(b) is Buffer and (device is None or b.device is device)]
    # Devices that have the same values may share an array.
    return sum({id(b.array): b.nbytes for b in found}.values())


def live(buffer: Buffer) -> np.ndarray:
    """The array of a buffer, when it is there.

    Raises PluginError where it has been deleted, or comes of a program that failed.
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
    """Forget the array of a buffer, unless numpy reads it in place."""
    buffer = objects[handle]
    if words[handle >> 3] > ALIVE:
        buffer.kept = buffer.array
    buffer.array = None


# -- what the framework asks -----------------------------------------------------------------------------------------


@getter("Buffer_ElementType")
def _element_type(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].code


@getter("Buffer_Dimensions")
@getter("Buffer_UnpaddedDimensions")
def _dimensions(p: int) -> None:
    at = p >> 3
    shape = objects[words[at + 2]].shape
    words[at + 3] = shape.address
    words[at + 4] = shape.rank


@getter("Buffer_DynamicDimensionIndices")
def _dynamic_dimensions(p: int) -> None:
    at = p >> 3
    words[at + 3] = objects[words[at + 2]].shape.address
    words[at + 4] = 0


_LAYOUT = abi.argument("Buffer_GetMemoryLayout").layout.offset >> 3


@getter("Buffer_GetMemoryLayout")
def _layout(p: int) -> None:
    at = p >> 3
    shape = objects[words[at + 2]].shape
    at += _LAYOUT
    words[at], words[at + 1] = 80, 0  # sizes of the structures, and no extensions
    words[at + 2], words[at + 3] = 56, 0
    words[at + 4], words[at + 5] = shape.minor_to_major, shape.rank
    words[at + 6], words[at + 7], words[at + 8] = 0, 0, 0  # no tiles
    words[at + 9] = abi.TILED


@getter("Buffer_OnDeviceSizeInBytes")
def _size(p: int) -> None:
    buffer = objects[words[(p >> 3) + 2]]
    words[(p >> 3) + 3] = 0 if buffer.array is None else buffer.shape.count * _ITEM_SIZES[buffer.code]


@getter("Buffer_Device")
def _device(p: int) -> None:
    at = p >> 3
    words[at + 3] = objects[words[at + 2]].device.handle


@getter("Buffer_Memory")
def _memory_of(p: int) -> None:
    at = p >> 3
    words[at + 3] = objects[words[at + 2]].device.memory


@getter("Buffer_Delete")
def _delete(p: int) -> None:
    # As `delete`, which there may be no room to call.
    handle = words[(p >> 3) + 2]
    buffer = objects[handle]
    if words[handle >> 3] > ALIVE:
        buffer.kept = buffer.array
    buffer.array = None


@getter("Buffer_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].array is None


@getter("Buffer_IsOnCpu")
def _is_on_cpu(p: int) -> None:
    # Then the framework reads our array in place.
    words[(p >> 3) + 3] = 1


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
