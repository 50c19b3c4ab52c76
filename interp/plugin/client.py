"""The client of PJRT: its devices, and compilation."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..system import memory
from .devices import devices
from .pjrt.errors import INVALID_ARGUMENT, PluginError
from .pjrt.runtime import (
    PLATFORM,
    NamedValues,
    Sized,
    fallible,
    lists,
    objects,
    pool,
    properties,
    read_named_values,
)

if TYPE_CHECKING:
    from ...ops.policy import Policy

#: How many devices there are, and the policy, where the options of the client do not say. They are `num_devices`,
#: `policy` and `memory_limit`.
NUM_DEVICES, POLICY = "MINIHLO_NUM_DEVICES", "MINIHLO_POLICY"
_MOST_DEVICES, _MOST_DIGITS = 1024, 8
#: The most characters of a value that an error shows.
_SHOWN = 60
_NAME, _VERSION = Sized.text(PLATFORM), Sized.text(f"{PLATFORM}: StableHLO, interpreted")
_NO_ATTRIBUTES = NamedValues({})


class Client:
    """A client, and also its topology."""

    def __init__(self, options: dict[str, Any]) -> None:
        count = str(options.get("num_devices") or os.environ.get(NUM_DEVICES) or 1)
        # No number of more digits is read: Python refuses long ones.
        if not count.isdecimal() or len(count) > _MOST_DIGITS or not 1 <= int(count) <= _MOST_DEVICES:
            raise InputError(f"{NUM_DEVICES}: expected a number from 1 to {_MOST_DEVICES}, got {count[:_SHOWN]!r}")
        text = options.get("policy") or os.environ.get(POLICY) or ""
        #: As hardware computes, which is what users of JAX expect.
        self.policy = _policy(str(text))
        most = options.get("memory_limit")
        memory.set_ceiling(None if most is None else memory.parse_size(str(most)))
        memory.ceiling()  # raises if the environment variable is not valid
        self.devices = devices(int(count))
        self.by_id = {d.id: d for d in self.devices}
        addresses = Sized.items([d.handle for d in self.devices])
        self.handle, topology = pool.add(self), pool.add(self)
        self.properties = {
            "PlatformName": _NAME,
            "PlatformVersion": _VERSION,
            "ProcessIndex": 0,
            "Devices": addresses,
            "AddressableDevices": addresses,
            "AddressableMemories": Sized.items([m.handle for d in self.devices for m in d.memories]),
            "TopologyDescription": topology,
            "GetDeviceDescriptions": addresses,
            "Attributes": (_NO_ATTRIBUTES.address, 0),
        }


def _policy(text: str) -> Policy:
    from ...ops.policy import PlatformPolicy
    from .. import policies

    try:
        return policies.parse_policy(text, PlatformPolicy())
    except InputError as error:
        raise InputError(f"{POLICY}: {error}") from None


@fallible("Client_Create")
def _create(a: Any) -> None:
    a.client = Client(read_named_values(a.create_options, a.num_options)).handle
    from . import cache, dlpack

    dlpack.register()
    cache.register()


properties("Client", "ProcessIndex", "TopologyDescription")
lists("Client", "PlatformName", "PlatformVersion", "Devices", "AddressableDevices", "AddressableMemories")
lists("TopologyDescription", "PlatformName", "PlatformVersion", "GetDeviceDescriptions", "Attributes")


@fallible("Client_LookupDevice")
@fallible("Client_LookupAddressableDevice")
def _lookup(a: Any) -> None:
    device = objects[a.client].by_id.get(a.id)
    if device is None:
        raise PluginError(INVALID_ARGUMENT, f"expected the id of a device, got {a.id}")
    a.device = device.handle


@fallible("Client_DefaultDeviceAssignment")
def _default_assignment(a: Any) -> None:
    count = a.num_replicas * a.num_partitions
    if count > len(objects[a.client].devices):
        raise PluginError(INVALID_ARGUMENT, f"{count} devices are asked for; {NUM_DEVICES} says how many there are")
    (ctypes.c_int * count).from_address(a.assignment)[:] = range(count)
