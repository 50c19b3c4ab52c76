"""Registers the plugin's table of functions with JAX."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import jax
from jax._src import xla_bridge

from .pjrt import runtime, shutdown


@functools.cache
def register(priority: int) -> None:
    """Register the platform with JAX in this process, once."""
    from . import client, devices  # importing these declares functions

    _ = client, devices
    runtime.fill_api(load)
    if f"{__package__}.executable" in sys.modules:  # its functions are in the table
        load()
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = runtime.forever(ctypes.create_string_buffer(b"pjrt_c_api"))
    capsule = runtime.forever(new(ctypes.addressof(runtime.api), ctypes.cast(name, ctypes.c_char_p), None))
    # The platform is set up for users too who do not select it, and JAX would warn all of them that it is experimental.
    known = getattr(xla_bridge, "_nonexperimental_plugins", None)
    if isinstance(known, set):
        known.add(runtime.PLATFORM)
    xla_bridge.register_plugin(runtime.PLATFORM, c_api=capsule, priority=priority)
    registration: Any = getattr(xla_bridge, "_backend_factories", {}).get(runtime.PLATFORM)
    if registration is not None:
        # JAX fails loudly whatever this says where the platform is selected. Where it is not, a mistyped environment
        # variable of ours is no concern of the user's until they ask for the platform's devices.
        registration.fail_quietly = True
        registration.factory = functools.partial(_client_and_cpu, registration.factory)
    from . import lowerings

    lowerings.register()


@functools.cache
def load() -> None:
    """Load the modules that compute, and add their functions to the table.

    The first function that needs one of them calls this, so that an unused platform costs next to nothing.
    """
    from . import client, devices, executable_facts, execution, host_callbacks, serialization, transfers, work

    _ = client, devices, executable_facts, execution, host_callbacks, serialization, transfers
    shutdown.install()
    work.start_worker()
    runtime.fill_api()


def _client_and_cpu(make: Callable[[], Any]) -> Any:
    """In the place of JAX's factory of the client: also makes the CPU's where only this platform is selected.

    JAX needs a CPU to run Python functions eagerly (`pure_callback`, `debug.callback`). It is not the default, and the
    user's choice `jax_platforms` stays as it is. JAX calls this with the lock of its backends.
    """
    client = make()
    backends = getattr(xla_bridge, "_backends", None)
    selected = getattr(jax.config, "jax_platforms", None)
    if selected and isinstance(backends, dict) and "cpu" not in backends and "cpu" not in selected.split(","):
        backends["cpu"] = getattr(xla_bridge, "_init_backend")("cpu")  # noqa: B009 (private)
    return client
