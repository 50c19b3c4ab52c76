"""Shows the jitted calls of a JAX program, on any platform, to a function before each runs.

JAX has no public way to see the calls of functions that were jitted elsewhere, and its compiled code runs them without
Python. So, within `observe_calls`, two private functions of JAX are replaced, and a user context of our own makes JAX
look
up each function anew. If this JAX lacks these functions `can_observe` is False: then calls have to be passed through
`profiling`'s own call. Functions of JAX itself, such as `jnp.where`, are not shown.

Without JAX's compiled code a call takes 20 to 30 µs longer for each array it takes or gives. So a context may request
only some calls: the first ones after `show_next`, which empties the cache of the compiled code.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax._src import pjit

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
_active: list[Callback] = []
_all: list[Callback] = []  # those of `_active` that are shown all calls
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
        _active.append(seen)
        if not some:
            _all.append(seen)
    try:
        if some:
            show_next()
        with contextlib.nullcontext() if some else _context("minihlo.interp.numerics"):
            yield
    finally:
        with _lock:
            _active.remove(seen)
            if not some:
                _all.remove(seen)
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


def _run(*args: Any, jaxpr: Any, **options: Any) -> Any:
    original = _originals[0]
    if not getattr(_here, "busy", False) and not _is_of_jax(jaxpr):
        with hide_calls():
            for seen in list(_active):
                seen(jaxpr, args)
    return original(*args, jaxpr=jaxpr, **options)


def show_next() -> None:
    """Shows the next call of each function."""
    _Cache.clear_all()


def _fast_path(*args: Any, **options: Any) -> Any:
    """JAX's next call without Python; None while all calls are shown."""
    return None if _all else _originals[1](*args, **options)


def _is_of_jax(jaxpr: Any) -> bool:
    """Whether a function of JAX itself was jitted; assumed false if its file is unknown."""
    info = getattr(jaxpr.jaxpr, "debug_info", None)
    place = re.search(r" at (.*):\d+$", str(getattr(info, "func_src_info", "")))
    return place is not None and place[1].startswith(_JAX)
