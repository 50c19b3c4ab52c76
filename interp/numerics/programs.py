"""Programs and their arrays: of a function that JAX traces, of a program itself, and of a call of a jitted function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...ops.policy import Policy
from ..diff.compare import check_function, is_program, program_of
from ..diff.source import Source
from ..errors import InputError


def lowered_for(
    on: Policy | str,
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
) -> tuple[Source, list[Any], Callable[[list[Any]], Any]]:
    """As `program_of`, with a function lowered for a platform of JAX, or for this interpreter under a policy.

    Raises InputError without JAX.
    """
    if isinstance(on, str) or is_program(function):
        platform = on if isinstance(on, str) else "cpu"
        return program_of(function, args, kwargs, static_argnums, static_argnames, platform)
    check_function(function)
    from .. import plugin

    try:
        plugin.initialize()  # tells JAX how to lower ops without a general form
        from ..transform.computation import PLATFORM, lowered_under
    except ImportError:
        raise InputError("a function needs JAX, which is not installed (pip install jax)") from None
    token = lowered_under.set(on)  # functions of `interp.jit` become part of the program
    try:
        return program_of(function, args, kwargs, static_argnums, static_argnames, PLATFORM)
    finally:
        lowered_under.reset(token)


def check_policy(policy: Any, where: str = "policy") -> Policy:
    """A policy, by default `Policy()`. Raises InputError for another object."""
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(f"{where}: expected a minihlo.interp.Policy, got {type(policy).__name__}")
    return policy or Policy()


def check_integer(value: Any, where: str, least: int = 1) -> None:
    """Raises InputError if a value is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{where}: expected an integer of at least {least}, got {value!r}")
