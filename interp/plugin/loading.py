"""Loads the rest of the plugin on first use, so that an unused platform costs next to nothing."""

from __future__ import annotations

import ctypes
from typing import Any

from ..system import memory
from .pjrt import shutdown
from .pjrt.runtime import fallible, fill_api, objects


def load() -> None:
    """Load the modules that compute, and add their functions to the table."""
    from . import executable_facts, execution, host_callbacks, serialization, transfers, work

    _ = executable_facts, execution, host_callbacks, serialization, transfers
    shutdown.install()
    work.start_worker()
    fill_api()


@fallible("Client_BufferFromHostBuffer")
def _first_buffer(a: Any) -> None:
    load()
    from . import transfers

    transfers.from_host(a)


@fallible("Client_Compile")
def _first_compile(a: Any) -> None:
    load()
    from . import executable

    executable.compile_(a)


@fallible("Executable_DeserializeAndLoad")
def _first_deserialize(a: Any) -> None:
    load()
    from . import serialization

    serialization.deserialize(a)


@fallible("Device_MemoryStats")
def _memory_stats(a: Any) -> None:
    for name, kind in a._fields_:
        if kind in (ctypes.c_int64, ctypes.c_bool):
            setattr(a, name, 0)
    from .buffers import total

    a.bytes_in_use = total(objects[a.device])
    used = total()
    a.bytes_limit, a.bytes_limit_is_set = memory.ceiling() or used + memory.limit(used), True
