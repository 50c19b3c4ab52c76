"""Simulated devices: each with one memory, all in the memory of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .. import memory
from . import abi
from .runtime import PLATFORM, Addresses, NamedValues, Text, fallible, forever, getter, objects, permanent, put, words

MEMORY_KIND = Text("device")
_KIND = Text(PLATFORM)
_NO_ATTRIBUTES = NamedValues({})


class Device:
    """A device, its description and its memory: what is asked of any of them is here."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.in_use = self.peak = 0  # bytes
        self.handle, self.memory = permanent(self), permanent(self)
        self.memories, self.devices = Addresses([self.memory]), Addresses([self.handle])
        self.to_string = Text(f"MinihloDevice(id={id})")
        self.memory_to_string = Text(f"MinihloMemory(id={id}, device={id})")
        forever(self)


_devices: list[Device] = []


def devices(count: int) -> Sequence[Device]:
    """The first so many devices. A device has one handle for as long as the process lives."""
    while len(_devices) < count:
        _devices.append(Device(len(_devices)))
    return _devices[:count]


def _texts(**functions: str) -> None:
    for name, attribute in functions.items():

        def run(p: int, attribute: str = attribute) -> None:
            put(p, getattr(objects[words[(p >> 3) + 2]], attribute))

        getter(name)(run)


_texts(
    DeviceDescription_DebugString="to_string",
    DeviceDescription_ToString="to_string",
    Device_AddressableMemories="memories",
    Memory_DebugString="memory_to_string",
    Memory_ToString="memory_to_string",
    Memory_AddressableByDevices="devices",
)


@getter("DeviceDescription_Kind")
def _kind(p: int) -> None:
    put(p, _KIND)


@getter("Memory_Kind")
def _memory_kind(p: int) -> None:
    put(p, MEMORY_KIND)


@getter("DeviceDescription_Id")
@getter("Device_LocalHardwareId")
@getter("Memory_Id")
def _id(p: int) -> None:
    ctypes.c_int.from_address(p + 24).value = objects[words[(p >> 3) + 2]].id


@getter("DeviceDescription_ProcessIndex")
@getter("Memory_Kind_Id")
def _zero(p: int) -> None:
    ctypes.c_int.from_address(p + 24).value = 0


@getter("DeviceDescription_Attributes")
def _attributes(p: int) -> None:
    words[(p >> 3) + 3] = 0
    words[(p >> 3) + 4] = _NO_ATTRIBUTES.address


@getter("Device_GetDescription")
def _description(p: int) -> None:
    words[(p >> 3) + 3] = words[(p >> 3) + 2]


@getter("Device_IsAddressable")
def _is_addressable(p: int) -> None:
    ctypes.c_bool.from_address(p + 24).value = True


@getter("Device_DefaultMemory")
def _default_memory(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].memory


@fallible("Device_MemoryStats")
def _memory_stats(a: Any) -> None:
    for name, kind in a._fields_:
        if kind in (ctypes.c_int64, ctypes.c_bool):
            setattr(a, name, 0)
    from .buffers import total

    a.bytes_in_use = total(objects[a.device])
    a.bytes_limit, a.bytes_limit_is_set = memory.limit(), True


_ = abi
