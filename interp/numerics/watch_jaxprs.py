"""Facts of traced programs that `interp.watch` needs: effects, the number of operations, names."""

from __future__ import annotations

from typing import Any

from jax._src import core

from ..errors import InputError


def refuse_effects(jaxpr: Any) -> None:
    """Raises InputError for a program with effects, which must not be run twice."""
    if jaxpr.effects:
        effects = ", ".join(sorted(map(str, jaxpr.effects)))
        raise InputError(f"expected a function without effects, which must not happen twice, got {effects}")


def count(jaxpr: Any) -> int:
    """The number of operations that JAX has traced, including those of inner functions."""
    inner = (p for e in jaxpr.eqns for p in core.jaxprs_in_params(e.params))
    return len(jaxpr.eqns) + sum(map(count, inner))


def name_of(thing: Any) -> str:
    """The name of a traced or jitted function in reports."""
    info = getattr(getattr(thing, "jaxpr", None), "debug_info", None)
    return f"jit({info.func_name})" if info is not None else str(getattr(thing, "__name__", "a function"))
