"""What a user names as a backend: a platform of JAX in this process, a backend by its name, an object of their own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
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
    """A platform of JAX in this process: as `jax:PLATFORM` but for the child process."""

    takes = PROGRAMS

    def __init__(self, platform: str) -> None:
        """Raises InputError where JAX has no such platform."""
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
        """Run a program on the platform. Raises BackendError where it fails."""
        if "xf6E" in text or "<f6E" in text:  # of which XLA dies, and this process with it
            raise BackendError("refused", f"{self.name} has no types of six bits")
        with self._enable_x64(True):
            how, answer = call(self._evaluate, text, arrays)
        if how != "results":
            raise BackendError(how, f"{self.name}: {answer}")
        return list(answer)

    def close(self) -> None:
        """Do nothing: the platform is that of this process."""


class Given:
    """An object of the user's with `evaluate`, or a function of that kind."""

    takes = PROGRAMS

    def __init__(self, thing: Any) -> None:
        self.name = str(getattr(thing, "name", None) or getattr(thing, "__name__", None) or type(thing).__name__)
        self._evaluate = evaluator(thing)

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Run a program by the function that is given."""
        return list(self._evaluate(text, arrays))

    def close(self) -> None:
        """Do nothing: the function is the caller's."""


class GivenOperations:
    """An object of the user's with `operate`."""

    takes = OPERATIONS
    seconds = SECONDS

    def __init__(self, thing: Any) -> None:
        self.name = str(getattr(thing, "name", None) or type(thing).__name__)
        self._operate = operator_of(thing)

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        return self._operate(operation, arrays)

    def close(self) -> None:
        pass


def subject(named: Any) -> Backend:
    """The backend that is meant, which takes programs. Raises InputError where there is none."""
    if not isinstance(named, str):
        if not callable(getattr(named, "evaluate", named)):
            raise InputError(f"expected a backend (an object with a method evaluate), got {type(named).__name__}")
        return Given(named)
    if named.isidentifier() and not _is_kind(named):
        return Platform(named)
    return by_name(named)


def any_subject(named: Any) -> Backend | OperationBackend:
    """The backend that is meant, which takes programs or operations. Raises InputError where there is none."""
    if not isinstance(named, str) and hasattr(named, "operate"):
        return GivenOperations(named)
    return subject(named)


def _is_kind(name: str) -> bool:
    try:
        return name == "minihlo" or kind_of(name) is not None
    except InputError:
        return False
