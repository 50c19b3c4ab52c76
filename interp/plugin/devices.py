"""Simulated devices: each with one memory, all in the memory of this machine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .handles import FACTS
from .runtime import (
    PLATFORM,
    Addresses,
    NamedValues,
    Text,
    fact,
    fallible,
    forever,
    getter,
    listing,
    objects,
    permanent,
    words,
)

MEMORY_KIND = Text("device")
_KIND = Text(PLATFORM)
_NO_ATTRIBUTES = NamedValues({})
_FACTS = Addresses([MEMORY_KIND.address, MEMORY_KIND.size])


class Device:
    """A device, its description and its memory: what is asked of any of them is here."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.handle, self.memory = permanent(self), permanent(self)
        text = Text(f"MinihloDevice(id={id})")
        memory_text = Text(f"MinihloMemory(id={id}, device={id})")
        self.listed = {
            "kind": _KIND,
            "text": text,
            "memory text": memory_text,
            "memories": Addresses([self.memory]),
            "devices": Addresses([self.handle]),
        }
        for handle in (self.handle, self.memory):
            words[(handle >> 3) + FACTS] = _FACTS.address
        forever(self)


_devices: list[Device] = []


def devices(count: int) -> Sequence[Device]:
    """The first so many devices. A device has one handle for as long as the process lives."""
    while len(_devices) < count:
        _devices.append(Device(len(_devices)))
    return _devices[:count]


listing("kind", "DeviceDescription_Kind")
fact(0, 2, "Memory_Kind")
listing("text", "DeviceDescription_DebugString", "DeviceDescription_ToString")
listing("memory text", "Memory_DebugString", "Memory_ToString")
listing("memories", "Device_AddressableMemories")
listing("devices", "Memory_AddressableByDevices")


@getter("DeviceDescription_Id")
@getter("Device_LocalHardwareId")
@getter("Memory_Id")
def _id(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].id


@getter("DeviceDescription_ProcessIndex")
@getter("Memory_Kind_Id")
def _zero(p: int) -> None:
    words[(p >> 3) + 3] = 0


@getter("DeviceDescription_Attributes")
def _attributes(p: int) -> None:
    words[(p >> 3) + 3] = 0
    words[(p >> 3) + 4] = _NO_ATTRIBUTES.address


@getter("Device_GetDescription")
def _description(p: int) -> None:
    words[(p >> 3) + 3] = words[(p >> 3) + 2]


@getter("Device_IsAddressable")
def _is_addressable(p: int) -> None:
    words[(p >> 3) + 3] = 1


@getter("Device_DefaultMemory")
def _default_memory(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].memory


@fallible("Device_MemoryStats")
def _memory_stats(a: Any) -> None:
    for name, kind in a._fields_:
        if kind in (ctypes.c_int64, ctypes.c_bool):
            setattr(a, name, 0)
    from .. import memory
    from .buffers import total

    a.bytes_in_use = total(objects[a.device])
    used = total()
    a.bytes_limit, a.bytes_limit_is_set = memory.ceiling() or used + memory.limit(used), True
