"""Simulated devices, each with memories of several kinds, all in the memory of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from .pjrt.handles import FACTS
from .pjrt.runtime import (
    PLATFORM,
    Addresses,
    NamedValues,
    Text,
    fact,
    forever,
    getter,
    listing,
    objects,
    permanent,
    words,
)

#: The kinds of memory that a device has, as XLA's CPU has them; the first is where arrays are if nothing else is said.
MEMORY_KINDS = {name: Text(name) for name in ("device", "pinned_host", "unpinned_host")}
_KIND = Text(PLATFORM)
_NO_ATTRIBUTES = NamedValues({})
_KIND_FACTS = [Addresses([kind.address, kind.size]) for kind in MEMORY_KINDS.values()]
#: The memories of a kind have numbers from so many times the kind's number on: there are never as many devices.
_IDS = 1 << 16


class Memory:
    """A memory of a device."""

    def __init__(self, device: Device, number: int) -> None:
        self.device, self.number = device, number
        self.id = number * _IDS + device.id
        kind = "" if number == 0 else f", kind={list(MEMORY_KINDS)[number]}"
        self.listed = {
            "text": Text(f"MinihloMemory(id={self.id}, device={device.id}{kind})"),
            "devices": Addresses([device.handle]),
        }
        self.handle = permanent(self)
        words[(self.handle >> 3) + FACTS] = _KIND_FACTS[number].address
        forever(self)


class Device:
    """A device, and also its description."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.handle = permanent(self)
        #: One of each kind.
        self.memories = [Memory(self, number) for number in range(len(MEMORY_KINDS))]
        self.listed = {
            "kind": _KIND,
            "text": Text(f"MinihloDevice(id={id})"),
            "memories": Addresses([m.handle for m in self.memories]),
        }
        forever(self)


_devices: list[Device] = []


def devices(count: int) -> Sequence[Device]:
    """Return the first `count` devices. A device keeps one handle for the life of the process."""
    while len(_devices) < count:
        _devices.append(Device(len(_devices)))
    return _devices[:count]


listing("kind", "DeviceDescription_Kind")
fact(0, 2, "Memory_Kind")
for name in ("DeviceDescription", "Memory"):
    listing("text", f"{name}_DebugString", f"{name}_ToString")
listing("memories", "Device_AddressableMemories")
listing("devices", "Memory_AddressableByDevices")


@getter("DeviceDescription_Id")
@getter("Device_LocalHardwareId")
@getter("Memory_Id")
def _id(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].id


@getter("Memory_Kind_Id")
def _kind_id(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].number


@getter("DeviceDescription_ProcessIndex")
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
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].memories[0].handle
