"""DLPack: other libraries read arrays of this platform in place, since they are in the memory of the host.

JAX exports only arrays of platforms whose names it knows. For others we export numpy's view of the array, and set the
element type if numpy has none for it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from jax._src import array as jax_array
from jax._src import dlpack as jax_dlpack

from .pjrt.runtime import PLATFORM

_CPU: Any = getattr(jax_dlpack, "DLDeviceType")(1)  # noqa: B009
#: DLPack's number of the kind of element, for types that numpy does not export.
_KINDS = {
    "bfloat16": 4, "float8_e3m4": 7, "float8_e4m3": 8, "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10,
    "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13, "float8_e8m0fnu": 14,
}  # fmt: skip
#: The position of the kind in the structure of a capsule: after the address, the device and the rank.
_KIND_AT = 20
_UNSIGNED = {1: np.uint8, 2: np.uint16}


@functools.cache
def register() -> None:
    """Replace the two functions of JAX, if it has them."""
    give, device = getattr(jax_dlpack, "to_dlpack", None), getattr(jax_array.ArrayImpl, "__dlpack_device__", None)
    if give is not None and device is not None:
        jax_dlpack.to_dlpack = functools.wraps(give)(functools.partial(_to_dlpack, give))
        jax_array.ArrayImpl.__dlpack_device__ = functools.wraps(device)(lambda self: _device(device, self))


def _is_ours(x: Any) -> bool:
    return isinstance(x, jax_array.ArrayImpl) and all(d.platform == PLATFORM for d in x.sharding.device_set)


def _device(fallback: Callable[[Any], Any], x: Any) -> Any:
    """Replaces `__dlpack_device__`."""
    if _is_ours(x) and len(x.sharding.device_set) == 1:
        return _CPU, 0
    return fallback(x)


def _to_dlpack(fallback: Callable[..., Any], x: Any, *arguments: Any, **options: Any) -> Any:
    """Replaces `to_dlpack`."""
    if not _is_ours(x):
        return fallback(x, *arguments, **options)
    wanted = options.get("dl_device")
    if wanted is not None and (int(wanted[0]), wanted[1]) != (int(_CPU), 0):
        raise BufferError(f"an array of platform {PLATFORM} is in the memory of the host, not on device {wanted}")
    view = np.asarray(x)
    return _capsule(view.copy() if options.get("copy") else view)


class _Memory:
    """The memory of an array, with its owner. A capsule of DLPack 0 cannot say that it is read-only."""

    def __init__(self, view: np.ndarray) -> None:
        self.owner = view
        self.__array_interface__ = view.__array_interface__ | {"data": (view.ctypes.data, False)}


def _capsule(view: np.ndarray) -> Any:
    kind = _KINDS.get(view.dtype.name)
    if view.dtype.kind not in "biufc" and kind is None:
        raise BufferError(f"DLPack has no arrays of {view.dtype} with one element to a byte")
    codes = view if kind is None else view.view(_UNSIGNED[view.dtype.itemsize])
    capsule = np.asarray(_Memory(codes)).__dlpack__()
    if kind is not None:
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + _KIND_AT).value = kind
    return capsule
