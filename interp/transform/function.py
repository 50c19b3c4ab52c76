"""`interp.jit`: a function that JAX traces and this interpreter evaluates."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

try:
    import jax
except ImportError:
    raise ImportError("minihlo.interp.jit needs JAX, which is not installed (pip install jax)") from None

from jax._src import config, core
from jax._src.array import ArrayImpl

from ...ops.policy import Policy
from .. import policies
from ..errors import InputError
from .computation import Computation
from .primitive import bind, evaluate

#: How many shapes a function keeps what it has made for: a limit of memory.
_KEPT = 256

#: Numbers of Python, whose types decide how JAX traces a call that has them.
_NUMBERS = (bool, int, float, complex)

#: JAX compiles a function that calls ours anew under another policy.
_in_jax: Any = jax.make_user_context(None)
policies.follow(_in_jax)


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> Any:
    """Evaluate a function by this interpreter instead of XLA. Used as `jax.jit`, also as a decorator.

    The result can be transformed by `jax.grad`, `jax.vmap` and the like; derivatives are evaluated here too. It can be
    called inside `jax.jit`, `lax.scan` and so on, where XLA calls back to Python. What JAX traces is kept for each set
    of shapes, dtypes and static arguments.

    Args:
        function: A function that JAX can trace. Without it, `jit` returns a decorator.
        policy: The policy of the function. The default is that of `interp.policy(...)` around the call,
            else `Policy()`.
        static_argnums: Static arguments by position, as of `jax.jit`.
        static_argnames: Static arguments by name, as of `jax.jit`.

    Returns:
        A function of the same signature. Its arguments and results are pytrees of arrays of any dtype of JAX, keys of
        random numbers too. Results are JAX arrays, on the device to which the arguments are committed, else uncommitted
        on the default device.

    Raises:
        AttributeError: JAX is not installed: `interp` then has no attribute `jit`.
        InputError: `function` is not callable, or `policy` is not a Policy.

    Calls raise the exceptions of `minihlo.interp`; inside `jax.jit` they raise `jax.errors.JaxRuntimeError`.
    """
    if function is None:
        return functools.partial(jit, policy=policy, static_argnums=static_argnums, static_argnames=static_argnames)
    if not callable(function):
        raise InputError(f"jit: expected a function, got {type(function).__name__}")
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(f"policy: expected a minihlo.interp.Policy, got {type(policy).__name__}")
    return Jitted(function, policy, static_argnums, static_argnames)


class Jitted:
    """What `jit` gives. It has the methods of what `jax.jit` gives, whose functions it has too."""

    # Not a function with attributes: those JAX copies to what it makes of it, and takes its gradient to be traced so.

    def __init__(
        self,
        function: Callable[..., Any],
        policy: Policy | None,
        static_argnums: int | Sequence[int] | None,
        static_argnames: str | Iterable[str] | None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._policy = policy
        self._jitted: Any = jax.jit(function, static_argnums=static_argnums, static_argnames=static_argnames)
        self._statics = _Statics(function, static_argnums, static_argnames)
        self._computation = functools.lru_cache(_KEPT)(Computation)
        #: For signatures of calls outside of any trace: the computation, and the tree of its results.
        self._known: dict[Hashable, tuple[Computation, Any]] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with contextlib.nullcontext() if self._policy is None else policies.policy(self._policy):
            signature, leaves = self._signature(args, kwargs)
            if signature is not None and signature in self._known:
                computation, tree = self._known[signature]
                return jax.tree.unflatten(tree, evaluate(computation, leaves))
            traced = self._jitted.trace(*args, **kwargs)
            computation = self._computation(traced.jaxpr, policies.chosen(Policy()))
        closed_over = getattr(traced, "_consts", ())  # values of an outer trace
        if signature is not None and not closed_over:
            while len(self._known) >= _KEPT:
                self._known.pop(next(iter(self._known)), None)  # which another thread may have done
            self._known[signature] = computation, traced.out_tree
        leaves = jax.tree.leaves(self._statics.dynamic(args, kwargs))
        return jax.tree.unflatten(traced.out_tree, bind(computation, *closed_over, *leaves))

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Hashable, list[Any]]:
        """What decides how JAX traces a call, None where that is left to JAX; and the arrays."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        if self._statics or not core.trace_state_clean():
            return None, leaves
        kinds: list[Hashable] = []
        for x in leaves:
            kind = type(x)
            if kind is ArrayImpl and len(x.sharding.device_set) == 1:
                kinds.append((x.shape, x.dtype, x.weak_type))
            elif kind is np.ndarray:
                kinds.append((x.shape, x.dtype))
            elif kind in _NUMBERS or isinstance(x, np.generic):
                kinds.append(kind)
            else:
                return None, leaves
        return (tree, tuple(kinds), policies.chosen(Policy()), config.trace_context()), leaves

    def __get__(self, instance: Any, _: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<minihlo.interp.jit of {getattr(self, '__wrapped__', None)!r}>"

    def trace(self, *args: Any, **kwargs: Any) -> Any:
        """As the method of `jax.jit`'s functions: what JAX traces."""
        return self._jitted.trace(*args, **kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """As the method of `jax.jit`'s functions: the function lowered for JAX's own platform."""
        return self._jitted.lower(*args, **kwargs)

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """As the method of `jax.jit`'s functions: shapes and types of the results."""
        return self._jitted.eval_shape(*args, **kwargs)

    def clear_cache(self) -> None:
        """As the method of `jax.jit`'s functions: forget what was traced and made of it."""
        self._jitted.clear_cache()
        self._known.clear()
        self._computation.cache_clear()


class _Statics:
    """Which arguments are static: as JAX finds it, each by its place and by its name."""

    def __init__(
        self, function: Callable[..., Any], numbers: int | Sequence[int] | None, names: str | Iterable[str] | None
    ) -> None:
        given = () if numbers is None else (numbers,) if isinstance(numbers, int) else tuple(numbers)
        named = () if names is None else (names,) if isinstance(names, str) else tuple(names)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        placed = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
        if numbers is None:
            given = tuple(i for i, name in enumerate(placed) if name in named)
        elif names is None:
            by_name = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
            named = tuple(placed[i] for i in given if -len(placed) <= i < len(placed) and placed[i] in by_name)
        self._numbers, self._names = given, frozenset(named)

    def __bool__(self) -> bool:
        return bool(self._numbers or self._names)

    def dynamic(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is left of the arguments of a call."""
        if not self:
            return args, kwargs
        static = {i % len(args) for i in self._numbers if -len(args) <= i < len(args)}
        kept = tuple(a for i, a in enumerate(args) if i not in static)
        return kept, {name: value for name, value in kwargs.items() if name not in self._names}
