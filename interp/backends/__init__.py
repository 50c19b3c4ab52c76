"""Backends, which run programs or operations: minihlo itself, compilers, libraries, and those of users.

A module here that declares a `KIND` and a function `start` (see `base.Kind`) is a kind of backends with the name of the
file. No other list exists. All but minihlo run in a child process (`child`, `worker`). It is started when it is first
needed, and again after it has died.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from importlib.machinery import PathFinder

from ...ops.close import hint
from ..errors import InputError
from . import python
from .base import OPERATIONS, PROGRAMS, Backend, BackendError, Kind
from .child import SECONDS, ChildBackend
from .own import Minihlo, minihlo

__all__ = [
    "OPERATIONS",
    "PROGRAMS",
    "SECONDS",
    "Backend",
    "BackendError",
    "ChildBackend",
    "Kind",
    "Minihlo",
    "backend",
    "kind_of",
    "kinds",
    "spellings",
]


def backend(name: str) -> Backend:
    """Return the backend of a name. Raises InputError if it does not exist, or if a module that it needs is missing.

    `spellings` lists the names. A backend that takes operations has the method `operate` instead of `evaluate`.
    """
    word, _, rest = name.partition(":")
    if word == "minihlo":
        return minihlo(name)
    kind = kind_of(name)
    for module in kind.modules:
        if not _is_installed(module):
            raise InputError(f"{name} needs the module {module} (pip install 'minihlo[{kind.extra}]')")
    try:
        environment = kind.environment(rest)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from None
    return ChildBackend(name, environment, takes=kind.takes, packages=kind.packages)


def kind_of(name: str) -> Kind:
    """Return the kind of a backend other than minihlo. Raises InputError if the name is unknown."""
    word, colon, rest = name.partition(":")
    kind = kinds().get(word)
    if kind is not None:
        if kind.accepts(rest) and bool(colon) == bool(rest):
            return kind
        raise InputError(f"expected a backend {kind.names}, got {name!r}")
    if python.KIND.accepts(name):
        if _is_here(word.partition(".")[0]):
            return python.KIND
        raise InputError(f"expected a backend, got {name!r}, and no module {word} exists{_hint(word)}")
    raise InputError(f"expected a backend, got {name!r}{_hint(word)}")


def _hint(word: str) -> str:
    return hint(word, ["minihlo", *kinds()]) or f" (backends: {spellings()})"


def spellings() -> str:
    """Return the names of all backends, for messages."""
    return ", ".join(["minihlo", "minihlo:upcast", *(k.names for k in kinds().values()), python.KIND.names])


def kinds() -> dict[str, Kind]:
    """Return all kinds of backends by the names of their files, without minihlo and `MODULE:NAME`."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if m.name not in ("python", "worker")]
    modules = {name: importlib.import_module(f".{name}", __name__) for name in names}
    return {name: module.KIND for name, module in modules.items() if hasattr(module, "KIND")}


def _is_installed(module: str) -> bool:
    """Return whether a module can be imported. Imports its parent packages only."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _is_here(module: str) -> bool:
    """Return whether a child process, which searches the current directory first, can import a top-level module."""
    return PathFinder.find_spec(module, [""]) is not None or _is_installed(module)
