"""Arrays on devices: from the host, to the host, from device to device.

A buffer holds a numpy array that nobody writes to, its elements in order from major to minor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .. import memory
from . import abi, interrupts
from .devices import Device
from .errors import FAILED_PRECONDITION, INVALID_ARGUMENT, UNIMPLEMENTED, ErrorObject, PluginError
from .runtime import Addresses, fallible, getter, objects, pool, ready, words

_DTYPES = {i: ELEMENT_TYPES[name].dtype for i, name in enumerate(abi.ELEMENTS) if name}
CODES = {dtype: i for i, dtype in _DTYPES.items()}  #: the number of the buffer type of each numpy type
#: All the memory there is, by bytes.
_memory = words.cast("B")


class Shape:
    """The sizes of an array as the framework reads them, and its dimensions from minor to major."""

    __slots__ = ("_dims", "_minor_to_major", "address", "minor_to_major", "rank")

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.rank = len(sizes)
        self._dims, self._minor_to_major = Addresses(sizes), Addresses(range(len(sizes) - 1, -1, -1))
        self.address, self.minor_to_major = self._dims.address, self._minor_to_major.address


_shapes: dict[tuple[int, ...], Shape] = {}
_MOST_SHAPES = 1 << 12


def _shape(sizes: tuple[int, ...]) -> Shape:
    found = _shapes.get(sizes)
    if found is None:
        if len(_shapes) >= _MOST_SHAPES:
            _shapes.clear()
        found = _shapes[sizes] = Shape(sizes)
    return found


class Buffer:
    """What a buffer handle stands for. `array` is None once the buffer has been deleted or donated."""

    __slots__ = ("array", "code", "device", "error", "shape")

    def __init__(self, array: np.ndarray, device: Device, code: int | None = None) -> None:
        self.array: np.ndarray | None = array
        self.device = device
        self.code = CODES[array.dtype] if code is None else code
        self.shape = _shapes.get(array.shape) or _shape(array.shape)
        self.error: ErrorObject | None = None


class FailedBuffer(Buffer):
    """The result of a program that failed, which is told to whoever wants to read it."""

    __slots__ = ()

    def __init__(self, error: ErrorObject, sizes: tuple[int, ...], code: int, device: Device) -> None:
        self.array = np.empty(0, bool)
        self.device, self.code, self.error = device, code, error
        self.shape = _shape(sizes)


class FailedError(Exception):
    """An argument is the result of a program that failed."""

    def __init__(self, error: ErrorObject) -> None:
        super().__init__("an argument is the result of a program that failed")
        self.error = error


def new(array: np.ndarray, device: Device) -> int:
    """The handle of a new buffer."""
    return pool.add(Buffer(array, device), array.nbytes)


def total(device: Device) -> int:
    """The bytes of all buffers on a device."""
    pool.sweep()
    found = [b for b in list(objects.values()) if type(b) is Buffer and b.device is device]
    return sum(b.array.nbytes for b in found if b.array is not None)


def live(buffer: Buffer) -> np.ndarray:
    """The array of a buffer. Raises PluginError where it has been deleted, or comes of a program that failed."""
    if buffer.error is not None:
        raise PluginError(buffer.error.code, buffer.error.text)
    if buffer.array is None:
        raise PluginError(FAILED_PRECONDITION, "the buffer has been deleted or donated")
    return buffer.array


# -- from the host ---------------------------------------------------------------------------------------------------


@fallible("Client_BufferFromHostBuffer")
def from_host(a: Any) -> None:
    """Copy an array of the host."""
    if not interrupts.installed:
        interrupts.install()
    dtype = _DTYPES.get(a.type)
    if dtype is None:
        raise PluginError(UNIMPLEMENTED, f"buffer type {a.type} is not supported")
    at = (a.dims or 0) >> 3
    shape = tuple(words[at : at + a.num_dims].tolist()) if a.num_dims else ()
    count = math.prod(shape)
    nbytes = count * dtype.itemsize
    if nbytes >= pool_limit:
        pool.sweep()
        memory.check(nbytes, f"an array of {dtype} {list(shape)}")
    device = objects[a.memory or a.device]
    if not count:
        array = np.empty(shape, dtype)
    elif a.num_byte_strides and a.byte_strides:
        strides = np.array(words[a.byte_strides >> 3 : (a.byte_strides >> 3) + len(shape)], np.uint64).view(np.int64)
        array = interrupts.interruptible(_strided, a.data, shape, strides.tolist(), dtype)
    else:
        array = interrupts.interruptible(_dense, a.data, shape, nbytes, dtype)
    a.buffer = pool.add(Buffer(array, device, a.type), nbytes)
    a.done_with_host_buffer = ready


#: Buffers of at least so many bytes are held against the memory there is.
pool_limit = 1 << 24


def _dense(data: int, shape: tuple[int, ...], nbytes: int, dtype: np.dtype) -> np.ndarray:
    return np.ndarray(shape, dtype, _memory[data : data + nbytes]).copy()


def _strided(data: int, shape: tuple[int, ...], strides: list[int], dtype: np.dtype) -> np.ndarray:
    spans = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans) + dtype.itemsize
    view = _memory[data + low : data + high]
    return np.ndarray(shape, dtype, view, -low, tuple(strides)).copy(order="C")


# -- to the host -----------------------------------------------------------------------------------------------------


@fallible("Buffer_ToHostBuffer")
def _to_host(a: Any) -> None:
    array = live(objects[a.buffer])
    if not a.dst:
        a.dst_size = array.nbytes
        return
    if a.dst_size < array.nbytes:
        raise PluginError(INVALID_ARGUMENT, f"the host's buffer has {a.dst_size} bytes (would be {array.nbytes})")
    interrupts.interruptible(_copy_out, array, a.dst, a.host_layout)
    a.event = ready


def _copy_out(array: np.ndarray, dst: int, host_layout: int | None) -> None:
    nbytes, dtype = array.nbytes, array.dtype
    if host_layout and array.ndim > 1:
        layout = abi.Layout.from_address(host_layout)
        at = (layout.numbers or 0) >> 3
        numbers = np.array(words[at : at + layout.count], np.uint64).view(np.int64).tolist()
        if layout.type == abi.STRIDES:
            if min(numbers) < 0:
                raise PluginError(UNIMPLEMENTED, "a host layout with negative strides is not supported")
            span = sum((n - 1) * s for n, s in zip(array.shape, numbers, strict=True)) + dtype.itemsize
            if array.size:
                np.ndarray(array.shape, dtype, _memory[dst : dst + span], 0, tuple(numbers))[...] = array
            return
        array = array.transpose(numbers[::-1])
    if nbytes:
        np.ndarray(array.shape, dtype, _memory[dst : dst + nbytes])[...] = array


@fallible("Buffer_CopyRawToHost")
def _copy_raw(a: Any) -> None:
    array = live(objects[a.buffer])
    if a.offset < 0 or a.size < 0 or a.offset + a.size > array.nbytes:
        raise PluginError(INVALID_ARGUMENT, f"bytes {a.offset} to {a.offset + a.size} of a buffer of {array.nbytes}")
    _memory[a.dst : a.dst + a.size] = array.reshape(-1).view(np.uint8).data[a.offset : a.offset + a.size]
    a.event = ready


# -- from device to device -------------------------------------------------------------------------------------------


@fallible("Buffer_CopyToDevice")
def _copy_to_device(a: Any) -> None:
    a.copy = new(live(objects[a.buffer]), objects[a.device])


@fallible("Buffer_CopyToMemory")
def _copy_to_memory(a: Any) -> None:
    a.copy = new(live(objects[a.buffer]), objects[a.memory])


# -- what is asked of a buffer ---------------------------------------------------------------------------------------


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
    array = objects[words[(p >> 3) + 2]].array
    words[(p >> 3) + 3] = 0 if array is None else array.nbytes


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
    objects[words[(p >> 3) + 2]].array = None


@getter("Buffer_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].array is None


@getter("Buffer_IsOnCpu")
def _is_on_cpu(p: int) -> None:
    # Then the framework reads our array in place.
    words[(p >> 3) + 3] = 1


@getter("Buffer_ReadyEvent")
def _ready_event(p: int) -> None:
    error = objects[words[(p >> 3) + 2]].error
    words[(p >> 3) + 3] = ready if error is None else pool.add(error)


@getter("Buffer_IncreaseExternalReferenceCount")
def _increase(p: int) -> None:
    pool.hold(words[(p >> 3) + 2])


@fallible("Buffer_UnsafePointer")
def _unsafe_pointer(a: Any) -> None:
    a.pointer = live(objects[a.buffer]).ctypes.data


@fallible("Buffer_OpaqueDeviceMemoryDataPointer")
def _data_pointer(a: Any) -> None:
    a.pointer = live(objects[a.buffer]).ctypes.data
