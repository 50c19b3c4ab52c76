"""`interp.profiling`: a profile of a sample of the jitted calls of a program that runs on any platform."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

try:
    from . import calls as jitted_calls
except ImportError:
    raise ImportError("minihlo.interp.profiling needs JAX, which is not installed (pip install jax)") from None


from ...ops.policy import Policy
from ..diff.source import Source
from ..errors import InputError
from ..system import host_floats
from .profile import Profile
from .programs import check_integer


class profiling(Profile, jitted_calls.CallObserver[Source]):  # noqa: N801 (used as a function)
    """Profile a sample of the jitted calls in a `with` statement.

    Within `with interp.profiling(every=10) as p:` each call of a function of `jax.jit`, on any platform, is observed.
    For each function one call in `every` is also evaluated here, on the arguments of the call, and counted as
    `interp.profile` counts. The program gets its own results, from its own platform, unchanged, though JAX
    compiles each function once more. A call that cannot be evaluated here, or that has effects, such as printing, that
    must not happen twice, is listed in `failures`, with a warning.

    Observing all calls relies on private functions of JAX. If this JAX lacks them, and for functions that are
    not jitted, `p(f)` gives a function that is sampled and otherwise behaves like `f`; it can be used without `with`.

    Args:
        every: The first call of each function is sampled, and then one in this many.
        calls: The numbers of the calls of each function to sample, from 0 on, instead of `every`.
        policy: The policy of the evaluation. The default is `Policy()`.
        blocks: Block formats, as of `interp.profile`.

    Attributes:
        failures: One sentence for each sampled call that could not be evaluated.

    Raises:
        InputError: `every` or `calls` is not valid; or as `interp.profile`.
        AttributeError: JAX is not installed: `interp` then has no attribute `profiling`.
    """

    def __init__(
        self,
        every: int | None = None,
        calls: Iterable[int] | None = None,
        policy: Policy | None = None,
        blocks: str | Iterable[str] = (),
    ) -> None:
        Profile.__init__(self, policy, blocks)
        jitted_calls.CallObserver.__init__(self, "profiling", lambda source: source)
        if every is not None and calls is not None:
            raise InputError("profiling: expected every or calls, got both")
        if every is not None:
            check_integer(every, "profiling: every")
        try:
            self._calls = None if calls is None else frozenset(int(c) for c in calls)
        except (TypeError, ValueError):
            raise InputError(f"profiling: calls: expected numbers of calls, got {calls!r}") from None
        self._every = every or 10
        self._context = contextlib.ExitStack()
        self._lock = threading.RLock()
        self.failures: list[str] = []

    def __enter__(self) -> profiling:
        self._context.enter_context(self.observe_jax())
        return self

    def __exit__(self, *_: object) -> None:
        self._context.close()

    def lowered_for(self) -> Policy:
        """The policy of the evaluation."""
        return self.policy

    def take(self, function: Any, prepare: Callable[[], tuple[Source, list[Any]]]) -> None:
        """Counts a call, and evaluates it if it is one of the sample."""
        with self._lock:
            number = self._counts[function]
            self._counts[function] += 1
            if number not in self._calls if self._calls is not None else number % self._every:
                return
            try:
                source, arrays = prepare()
                with host_floats.default():
                    self.run(source, arrays, number)
            except Exception as error:  # whatever the error, the program goes on
                sentence = f"call {number} was not profiled: {' '.join(str(error).split())}"
                self.failures.append(sentence)
                warnings.warn(sentence, stacklevel=4)
