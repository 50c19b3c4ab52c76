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
    Addresses,
    NamedValues,
    Text,
    fallible,
    getter,
    listing,
    objects,
    pool,
    read_named_values,
    words,
)

if TYPE_CHECKING:
    from ...ops.policy import Policy

#: How many devices there are, and the policy, where the options of the client do not say. They are `num_devices`,
#: `policy` and `memory_limit`.
NUM_DEVICES, POLICY = "MINIHLO_NUM_DEVICES", "MINIHLO_POLICY"
_MOST_DEVICES, _MOST_DIGITS = 1024, 8
#: The characters of a value that an error shows.
_SHOWN = 60
_NAME, _VERSION = Text(PLATFORM), Text(f"{PLATFORM}: StableHLO, interpreted")
_NO_ATTRIBUTES = NamedValues({})


class Client:
    """A client, and also its topology."""

    def __init__(self, options: dict[str, Any]) -> None:
        count = str(options.get("num_devices") or os.environ.get(NUM_DEVICES) or 1)
        # No number of more digits is read: Python refuses long ones.
        if not count.isdecimal() or len(count) > _MOST_DIGITS or not 1 <= int(count) <= _MOST_DEVICES:
            raise InputError(f"{NUM_DEVICES}: expected a number from 1 to {_MOST_DEVICES}, got {shortened(count)}")
        text = options.get("policy") or os.environ.get(POLICY) or ""
        #: As hardware computes, which is what users of JAX expect.
        self.policy = _policy(str(text))
        most = options.get("memory_limit")
        memory.set_ceiling(None if most is None else memory.parse_size(str(most)))
        memory.ceiling()  # raises if the environment variable is not valid
        self.devices = devices(int(count))
        self.by_id = {d.id: d for d in self.devices}
        self.listed = {
            "name": _NAME,
            "version": _VERSION,
            "devices": Addresses([d.handle for d in self.devices]),
            "memories": Addresses([m.handle for d in self.devices for m in d.memories]),
            "attributes": _NO_ATTRIBUTES,
        }
        self.handle, self.topology = pool.add(self), pool.add(self)


def _policy(text: str) -> Policy:
    from ...ops.policy import PlatformPolicy
    from .. import policies

    try:
        return policies.parse_policy(text, PlatformPolicy())
    except InputError as error:
        raise InputError(f"{POLICY}: {error}") from None


def shortened(text: str) -> str:
    """Return a value of the user, shortened for an error message."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


@fallible("Client_Create")
def _create(a: Any) -> None:
    a.client = Client(read_named_values(a.create_options, a.num_options)).handle
    from . import cache, dlpack

    dlpack.register()
    cache.register()


listing("name", "Client_PlatformName", "TopologyDescription_PlatformName")
listing("version", "Client_PlatformVersion", "TopologyDescription_PlatformVersion")
listing("devices", "Client_Devices", "Client_AddressableDevices", "TopologyDescription_GetDeviceDescriptions")
listing("memories", "Client_AddressableMemories")
listing("attributes", "TopologyDescription_Attributes")


@getter("Client_ProcessIndex")
def _process_index(p: int) -> None:
    words[(p >> 3) + 3] = 0


@getter("Client_TopologyDescription")
def _topology(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].topology


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
