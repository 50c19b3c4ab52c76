"""Shows the jitted calls of a JAX program, on any platform, to a function before each runs.

JAX has no public way to see the calls of functions that were jitted elsewhere, and its compiled code runs them without
Python. So, within `observe_calls`, two private functions of JAX are replaced, and a user context of our own makes JAX
look up each function anew. If this JAX lacks these functions `can_observe` is False: then calls have to pass through
a `CallObserver`. Functions of JAX itself, such as `jnp.where`, are not shown.

Without JAX's compiled code a call takes 20 to 30 µs longer for each array it takes or gives. So a context may request
only some calls: the first ones after `show_next`, which empties the cache of the compiled code.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import jax
import numpy as np
from jax._src import core, pjit

from ...ops.policy import Policy
from ..diff.source import Source
from ..errors import InputError
from ..parse.reader import Locator
from ..transform.computation import Computation
from ..transform.primitive import to_numpy
from .programs import lowered_for

T = TypeVar("T")
#: Called with the traced ClosedJaxpr, the same object for each call, and the flat list of arguments.
Callback = Callable[[Any, Sequence[Any]], None]

_RUN, _FAST = "_pjit_call_impl_python", "_get_fastpath_data"
can_observe = hasattr(pjit, _RUN) and hasattr(pjit, _FAST) and hasattr(jax, "make_user_context")
#: JAX compiles a function anew for each value of it, and so looks for it outside of its compiled code.
_context: Any = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None
_JAX = os.path.join(os.path.dirname(str(jax.__file__)), "")

_Cache: Any = getattr(getattr(pjit, "_jax", None), "PjitFunctionCache", None)
#: Whether single calls can be shown at no cost to the others.
can_show_some = hasattr(pjit, _RUN) and hasattr(pjit, _FAST) and hasattr(_Cache, "clear_all")

_lock = threading.Lock()
#: Those that calls are shown to, and whether only some calls.
_active: list[tuple[Callback, bool]] = []
_originals: list[Any] = []
_here = threading.local()


@contextlib.contextmanager
def observe_calls(seen: Callback, some: bool = False) -> Iterator[None]:
    """A context in which `seen` is called before each jitted call, in the thread that makes it; for `some`, see above.

    Calls that `seen` itself makes are not shown. An exception that it raises ends the call.
    """
    with _lock:
        if not _active:
            _originals[:] = [getattr(pjit, name) for name in (_RUN, _FAST)]
            setattr(pjit, _RUN, _run)
            setattr(pjit, _FAST, _fast_path)
        _active.append((seen, some))
    try:
        if some:
            show_next()
        with contextlib.nullcontext() if some else _context("minihlo.interp.numerics"):
            yield
    finally:
        with _lock:
            _active.remove((seen, some))
            if not _active:
                for name, original in zip((_RUN, _FAST), _originals, strict=True):
                    setattr(pjit, name, original)


@contextlib.contextmanager
def hide_calls() -> Iterator[None]:
    """A context in which no call of this thread is shown."""
    before, _here.busy = getattr(_here, "busy", False), True
    try:
        yield
    finally:
        _here.busy = before


class CallObserver(Generic[T]):
    """Takes the calls of jitted functions: those that JAX shows, and those of functions passed through it.

    From the program of a function and its name, `make` makes the thing that is called with the arrays of a call; once
    for each function.
    """

    def __init__(self, name: str, make: Callable[[Source], T]) -> None:
        """`name` is that of the observer in errors."""
        self._name, self._make = name, make
        self._jitted: dict[int, tuple[Any, Any]] = {}
        self._made: dict[Any, T] = {}  #: of each traced function
        self._computations: dict[Any, tuple[Computation, Any]] = {}  #: with their lowered forms, which are needed
        self._counts: Counter[Any] = Counter()  #: of calls

    def take(self, function: Any, prepare: Callable[[], tuple[T, list[Any]]]) -> None:
        """Takes a call: its traced or jitted function, and the preparation of its program."""
        raise NotImplementedError

    def lowered_for(self) -> Policy | str:
        """The policy, or platform of JAX, that programs are for."""
        raise NotImplementedError

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that behaves like `function`, and whose calls are taken.

        It is needed only where JAX does not show its calls. Raises InputError if `function` is not a function.
        """
        if not callable(function):
            raise InputError(f"{self._name}: expected a function, got {type(function).__name__}")
        made: Any = function
        fresh = function, function if hasattr(function, "trace") else jax.jit(made)
        _, jitted = self._jitted.setdefault(id(function), fresh)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with hide_calls():
                if not any(isinstance(x, core.Tracer) for x in jax.tree.leaves((args, kwargs))):
                    self.take(jitted, lambda: self._of_function(jitted, args, kwargs))
                return function(*args, **kwargs)

        return run

    def observe_jax(self, some: bool = False) -> contextlib.AbstractContextManager[None]:
        """A context in which the calls that JAX shows are taken, as of `observe_calls`. Warns if it shows none."""
        if can_show_some if some else can_observe:
            return observe_calls(self.observe, some)
        through = f"pass functions through {self._name[0]}(f)"
        warnings.warn(f"this version of JAX does not show its calls: {through}", stacklevel=3)
        return contextlib.nullcontext()

    def observe(self, jaxpr: Any, args: Sequence[Any]) -> None:
        """Takes a call that JAX shows."""
        self.take(jaxpr, lambda: self._of_call(jaxpr, args))

    def _of_call(self, jaxpr: Any, args: Sequence[Any]) -> tuple[T, list[Any]]:
        """The thing made of a traced function, and copies of the arguments, as the program may donate its own."""
        if jaxpr not in self._computations:
            refuse_effects(jaxpr)
            on = self.lowered_for()
            computation = Computation(jaxpr, on if isinstance(on, Policy) else Policy())
            lowered = computation.lower(on) if isinstance(on, str) else computation.lower()
            name = f"jit({computation.name})"
            self._made[jaxpr] = self._make(Source(lowered.compiler_ir("stablehlo"), Locator(name), name))
            self._computations[jaxpr] = computation, lowered
        computation, _ = self._computations[jaxpr]
        given = [*computation.constants, *args]
        return self._made[jaxpr], [
            np.array(to_numpy(x, aval)) for x, aval in zip(given, computation.arguments, strict=True)
        ]

    def _of_function(self, jitted: Any, args: Sequence[Any], kwargs: Any) -> tuple[T, list[Any]]:
        """The same of a jitted function and its arguments."""
        jaxpr = jitted.trace(*args, **kwargs).jaxpr
        refuse_effects(jaxpr)
        source, arrays, _ = lowered_for(self.lowered_for(), jitted, args, kwargs)
        if jaxpr not in self._made:
            self._made[jaxpr] = self._make(source)
        return self._made[jaxpr], [a if a is None else np.array(a) for a in arrays]


def refuse_effects(jaxpr: Any) -> None:
    """Raises InputError for a program with effects, which must not be run twice."""
    if jaxpr.effects:
        effects = ", ".join(sorted(map(str, jaxpr.effects)))
        raise InputError(f"expected a function without effects, which must not happen twice, got {effects}")


@functools.lru_cache(maxsize=1024)
def count(jaxpr: Any) -> int:
    """The number of operations that JAX has traced, including those of inner functions."""
    inner = (p for e in jaxpr.eqns for p in core.jaxprs_in_params(e.params))
    return len(jaxpr.eqns) + sum(map(count, inner))


def name_of(thing: Any) -> str:
    """The name of a traced or jitted function in reports."""
    info = getattr(getattr(thing, "jaxpr", None), "debug_info", None)
    return f"jit({info.func_name})" if info is not None else str(getattr(thing, "__name__", "a function"))


def _run(*args: Any, jaxpr: Any, **options: Any) -> Any:
    original = _originals[0]
    if not getattr(_here, "busy", False) and not _is_of_jax(jaxpr):
        with hide_calls():
            for seen, _ in list(_active):
                seen(jaxpr, args)
    return original(*args, jaxpr=jaxpr, **options)


def show_next() -> None:
    """Shows the next call of each function."""
    _Cache.clear_all()


def _fast_path(*args: Any, **options: Any) -> Any:
    """JAX's next call without Python; None while all calls are shown."""
    return _originals[1](*args, **options) if all(some for _, some in _active) else None


def _is_of_jax(jaxpr: Any) -> bool:
    """Whether a function of JAX itself was jitted; assumed false if its file is unknown."""
    info = getattr(jaxpr.jaxpr, "debug_info", None)
    place = re.search(r" at (.*):\d+$", str(getattr(info, "func_src_info", "")))
    return place is not None and place[1].startswith(_JAX)
