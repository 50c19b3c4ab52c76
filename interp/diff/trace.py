"""Traces a JAX function to a program for comparison, with its arguments."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..lowered import JaxProgram, of_jax
from ..parse.reader import Locator
from .source import Source


def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Iterable[str] | None,
    platform: str,
) -> tuple[Source, list[Any], Any]:
    """The function lowered for a platform, the values of its `@main`'s arguments, and the pytree of its results.

    Raises InputError without JAX, or for arguments that do not fit.
    """
    try:
        import jax
    except ImportError:
        raise InputError("comparing a function needs JAX, which is not installed (pip install jax)") from None
    if not hasattr(function, "trace"):
        function = jax.jit(function, static_argnums=static_argnums, static_argnames=static_argnames)
    elif static_argnums is not None or static_argnames is not None:
        raise InputError("the function is already jitted, with its own static arguments")
    made: Any = function
    lowered = made.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
    program = of_jax(lowered)
    assert program is not None
    name = program.program.file
    shapes = [tuple(x.shape) for x in jax.tree.leaves(lowered.args_info)]
    arrays = program.arguments(_leaves(program, shapes, args, kwargs))
    return Source(lowered.compiler_ir("stablehlo"), Locator(name), name), arrays, program.out_tree


def _leaves(
    program: JaxProgram, shapes: list[tuple[int, ...]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arrays among the arguments. The tree of the others and their shapes show which arguments are static."""
    positional, named = program.in_tree.children()
    kept = {k: v for k, v in kwargs.items() if k in (named.node_data()[1] or ())}
    # If there is a choice, the last ones, and those that are not arrays.
    order = sorted(range(len(args)), key=lambda i: (hasattr(args[i], "shape"), -i))
    for static in itertools.combinations(order, len(args) - len(positional.children())):
        try:
            leaves = program.leaves([a for i, a in enumerate(args) if i not in static], kept)
        except InputError:
            continue
        if [tuple(getattr(x, "shape", None) or np.shape(x)) for x in leaves] == shapes:
            return leaves
    raise InputError(f"{program.program.file}: the arguments are not those of the function")
