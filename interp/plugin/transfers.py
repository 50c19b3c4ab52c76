"""Arrays that come from the host, go to it, are read there in place, or go from device to device."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import budget
from .buffers import DTYPES, Buffer, live, spec_of
from .devices import Memory
from .pjrt import abi, interrupts
from .pjrt.errors import INVALID_ARGUMENT, UNIMPLEMENTED, PluginError
from .pjrt.interruptible import interruptible
from .pjrt.runtime import fallible, objects, pool, ready, words
from .work import Deferred

#: All the memory there is, by bytes.
_memory = words.cast("B")

# -- from the host ---------------------------------------------------------------------------------------------------


@fallible("Client_BufferFromHostBuffer")
def from_host(a: Any) -> None:
    """Copy an array of the host. Raises PluginError for a type that the platform does not have."""
    if not interrupts.installed:
        interrupts.install()
    dtype = DTYPES.get(a.type)
    if dtype is None:
        raise PluginError(UNIMPLEMENTED, f"buffer type {a.type} is not supported")
    at = (a.dims or 0) >> 3
    shape = tuple(words[at : at + a.num_dims].tolist()) if a.num_dims else ()
    spec = spec_of(objects[a.memory] if a.memory else objects[a.device].memories[0], a.type, shape)
    budget.take(spec.nbytes, spec)
    if not spec.nbytes:
        array = np.empty(shape, dtype)
    elif a.num_byte_strides and a.byte_strides:
        strides = np.array(words[a.byte_strides >> 3 : (a.byte_strides >> 3) + len(shape)], np.uint64).view(np.int64)
        array = interruptible(_strided, a.data, shape, strides.tolist(), dtype)
    else:
        array = interruptible(_dense, a.data, shape, spec.nbytes, dtype)
    a.buffer = pool.add(Buffer(array, spec))
    a.done_with_host_buffer = ready


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
        raise PluginError(INVALID_ARGUMENT, f"the host's buffer has {a.dst_size} bytes (expected {array.nbytes})")
    interruptible(_copy_out, array, a.dst, a.host_layout)
    a.event = ready


def _copy_out(array: np.ndarray, dst: int, host_layout: int | None) -> None:
    nbytes, dtype = array.nbytes, array.dtype
    if host_layout and array.ndim > 1:
        layout = abi.Layout.from_address(host_layout)
        if layout.type != abi.TILED:
            raise PluginError(UNIMPLEMENTED, "a host layout by strides is not supported")
        at = layout.numbers >> 3
        array = array.transpose(words[at : at + layout.count].tolist()[::-1])
    if nbytes:
        np.ndarray(array.shape, dtype, _memory[dst : dst + nbytes])[...] = array


# -- from device to device -------------------------------------------------------------------------------------------


def _copy(buffer: Buffer, memory: Memory) -> int:
    """The handle of a buffer of the same values, which may not be there yet."""
    array = buffer.array
    copy = Buffer(array, spec_of(memory, buffer.spec.code, buffer.spec.shape, buffer.spec.order))
    if type(array) is Deferred:
        array.deliver_to(copy)
    else:
        copy.array = live(buffer)
    return pool.add(copy)


@fallible("Buffer_CopyToDevice")
def _copy_to_device(a: Any) -> None:
    a.copy = _copy(objects[a.buffer], objects[a.device].memories[0])


@fallible("Buffer_CopyToMemory")
def _copy_to_memory(a: Any) -> None:
    a.copy = _copy(objects[a.buffer], objects[a.memory])


# -- in place --------------------------------------------------------------------------------------------------------


@fallible("Buffer_UnsafePointer")
def _unsafe_pointer(a: Any) -> None:
    a.pointer = live(objects[a.buffer]).ctypes.data


@fallible("Buffer_OpaqueDeviceMemoryDataPointer")
def _data_pointer(a: Any) -> None:
    try:
        a.pointer = live(objects[a.buffer]).ctypes.data
    except BaseException:
        pool.release(a.buffer)  # the framework counted a reference before it asked, and does not take it back
        raise
