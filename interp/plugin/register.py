"""The plugin's table of functions, handed to JAX."""

from __future__ import annotations

import ctypes
import functools
import sys

import jax
from jax._src import xla_bridge

from . import runtime


@functools.cache
def register(priority: int) -> None:
    """Make the platform known to this process's JAX, once."""
    from . import client, devices  # which declare functions

    _ = client, devices
    runtime.fill_api()
    if f"{__package__}.executable" in sys.modules:  # somebody was before us
        client.load()
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    name = runtime.forever(ctypes.create_string_buffer(b"pjrt_c_api"))
    capsule = runtime.forever(new(ctypes.addressof(runtime.api), ctypes.cast(name, ctypes.c_char_p), None))
    # The platform is set up for users too who do not select it, and JAX would warn all of them that it is experimental.
    known = getattr(xla_bridge, "_nonexperimental_plugins", None)
    if isinstance(known, set):
        known.add(runtime.PLATFORM)
    xla_bridge.register_plugin(runtime.PLATFORM, c_api=capsule, priority=priority)
    _add_cpu()
    from . import lowerings

    lowerings.register()


def _add_cpu() -> None:
    """Where this platform is selected alone, add the host's behind it: JAX needs it to call Python functions."""
    selected = [p for p in (getattr(jax.config, "jax_platforms", None) or "").split(",") if p]
    if runtime.PLATFORM in selected and "cpu" not in selected:
        jax.config.update("jax_platforms", ",".join([*selected, "cpu"]))
