"""Backends as a user names them: a platform of JAX in this process, a backend by its name, or an object."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from . import backend as by_name
from . import kind_of, spellings
from .base import OPERATIONS, PROGRAMS, Backend, BackendError, Evaluate, call
from .child import SECONDS
from .operation import Operation, OperationBackend
from .python import evaluator, operator_of


class Platform:
    """A platform of JAX in this process: like `jax:PLATFORM`, without the child process."""

    takes = PROGRAMS

    def __init__(self, platform: str) -> None:
        """Raises InputError if JAX has no such platform."""
        try:
            import jax
        except ImportError:
            raise InputError(f"{platform}: JAX is not installed (pip install jax)") from None
        try:
            self.platform: str = jax.devices(platform)[0].platform
        except RuntimeError as error:
            said = " ".join(str(error).split())[:200]
            raise InputError(
                f"expected a backend ({spellings()}) or a platform of JAX, got {platform!r} ({said})"
            ) from None
        self.name = f"jax:{platform}"
        self._enable_x64: Any = jax.enable_x64

    @functools.cached_property
    def _evaluate(self) -> Evaluate:
        from .jax import start

        return start(self.platform)

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Run a program on the platform. Raises BackendError if that fails."""
        if "xf6E" in text or "<f6E" in text:  # these kill XLA, and this process with it
            raise BackendError("refused", f"{self.name} has no types of six bits")
        with self._enable_x64(True):
            how, answer = call(self._evaluate, text, arrays)
        if how != "results":
            raise BackendError(how, f"{self.name}: {answer}")
        return list(answer)

    def close(self) -> None:
        """Do nothing: the platform belongs to this process."""


class UserBackend:
    """A user's object with `evaluate` or `operate`, or a function of these kinds; it belongs to the caller."""

    seconds = SECONDS

    def __init__(self, thing: Any, takes: str = PROGRAMS) -> None:
        self.name = str(getattr(thing, "name", None) or getattr(thing, "__name__", None) or type(thing).__name__)
        self.takes = takes
        self._run: Callable[..., Any] = operator_of(thing) if takes == OPERATIONS else evaluator(thing)

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Run a program by the user's function."""
        return list(self._run(text, arrays))

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Compute one operation by the user's method."""
        return self._run(operation, arrays)

    def close(self) -> None:
        """Do nothing."""


def subject(named: Any) -> Backend:
    """Return the named backend, which takes programs. Raises InputError if there is none."""
    if not isinstance(named, str):
        if not callable(getattr(named, "evaluate", named)):
            raise InputError(f"expected a backend (an object with a method evaluate), got {type(named).__name__}")
        return UserBackend(named)
    if named.isidentifier() and not _is_kind(named):
        return Platform(named)
    return by_name(named)


def any_subject(named: Any) -> Backend | OperationBackend:
    """Return the named backend, which takes programs or operations. Raises InputError if there is none."""
    if not isinstance(named, str) and hasattr(named, "operate"):
        return UserBackend(named, OPERATIONS)
    return subject(named)


def _is_kind(name: str) -> bool:
    try:
        return name == "minihlo" or kind_of(name) is not None
    except InputError:
        return False
