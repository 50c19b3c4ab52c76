"""Emulation: a program rewritten into plain StableHLO that computes the same minifloats with integers and tables.

`program.py` has the functions for programs. The package itself is `interp.emulate`, the function for those of JAX: it
can be called, since a package and a function of one name would hide each other.
"""

from __future__ import annotations

import sys
import types
from typing import Any


class _Package(types.ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Emulate a function of JAX, as the function of that name in `interp.transform` does."""
        facade = sys.modules[self.__name__.rpartition(".")[0]]
        return facade.__getattr__("emulate")(*args, **options)


sys.modules[__name__].__class__ = _Package
