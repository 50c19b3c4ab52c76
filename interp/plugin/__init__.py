"""The platform `minihlo` for JAX: a PJRT plugin that needs no compiler.

JAX finds it by its entry point and calls `initialize`. It has the lowest priority, so the default platform stays
what it was; `JAX_PLATFORMS=minihlo` or `jax.devices("minihlo")` select it.
"""

from __future__ import annotations

import logging

#: Below that of every other platform, so that only `JAX_PLATFORMS=minihlo` makes it the default.
_PRIORITY = -100


def initialize() -> None:
    """Make the platform known to JAX; where it cannot work, say so in one line."""
    from .pjrt import handles

    defect = handles.defect()
    if defect:
        logging.getLogger(__name__).warning("the JAX platform minihlo is not available: %s", defect)
        return
    from . import register

    register.register(_PRIORITY)
