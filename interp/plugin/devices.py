"""Simulated devices, each with memories of several kinds, all in the memory of this machine."""

from __future__ import annotations

from collections.abc import Sequence

from .pjrt.runtime import PLATFORM, NamedValues, Sized, forever, lists, permanent, properties

#: The kinds of memory that a device has, as XLA's CPU has them; the first is where arrays are by default.
MEMORY_KINDS = {name: Sized.text(name) for name in ("device", "pinned_host", "unpinned_host")}
_KIND = Sized.text(PLATFORM)
_NO_ATTRIBUTES = NamedValues({})
#: The memories of a kind have numbers from so many times the kind's number on: there are never as many devices.
_IDS = 1 << 16


class Memory:
    """A memory of a device."""

    def __init__(self, device: Device, number: int) -> None:
        self.device = device
        id = number * _IDS + device.id
        name, kind = list(MEMORY_KINDS.items())[number]
        text = Sized.text(f"MinihloMemory(id={id}, device={device.id}{f', kind={name}' if number else ''})")
        self.properties = {
            "Id": id,
            "Kind": kind,
            "Kind_Id": number,
            "DebugString": text,
            "ToString": text,
            "AddressableByDevices": Sized.items([device.handle]),
        }
        self.handle = permanent(self)
        forever(self)


class Device:
    """A device, and also its description."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.handle = permanent(self)
        #: One of each kind.
        self.memories = [Memory(self, number) for number in range(len(MEMORY_KINDS))]
        text = Sized.text(f"MinihloDevice(id={id})")
        self.properties = {
            "Id": id,
            "LocalHardwareId": id,
            "ProcessIndex": 0,
            "Kind": _KIND,
            "DebugString": text,
            "ToString": text,
            "Attributes": (0, _NO_ATTRIBUTES.address),
            "GetDescription": self.handle,
            "IsAddressable": 1,
            "AddressableMemories": Sized.items([m.handle for m in self.memories]),
            "DefaultMemory": self.memories[0].handle,
        }
        forever(self)


_devices: list[Device] = []


def devices(count: int) -> Sequence[Device]:
    """Return the first `count` devices. A device keeps one handle for the life of the process."""
    while len(_devices) < count:
        _devices.append(Device(len(_devices)))
    return _devices[:count]


properties("Device", "GetDescription", "IsAddressable", "LocalHardwareId", "DefaultMemory")
lists("Device", "AddressableMemories")
properties("DeviceDescription", "Id", "ProcessIndex")
lists("DeviceDescription", "Attributes", "Kind", "DebugString", "ToString")
properties("Memory", "Id", "Kind_Id")
lists("Memory", "Kind", "DebugString", "ToString", "AddressableByDevices")
