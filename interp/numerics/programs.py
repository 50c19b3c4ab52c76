"""Programs and their arrays: of a function that JAX traces, of a program itself, and of a call of a jitted function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ...ops.policy import Policy
from ..diff.compare import is_program, source_of, trace
from ..diff.source import Source
from ..errors import InputError


def program_of(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    *,
    on: Policy | str,
) -> tuple[Source, list[Any], Callable[[list[Any]], Any]]:
    """The program of a function or program, its arrays, and the conversion of a list of results to the function's.

    A function is lowered for a platform of JAX, or for this interpreter under a policy.

    Raises InputError for anything else, for arguments that do not fit, and without JAX.
    """
    if is_program(function):
        if kwargs or static_argnums is not None or static_argnames is not None:
            raise InputError("a program takes arrays only (keywords and static arguments are for functions)")
        return source_of(function), list(args), list
    check_function(function)
    if isinstance(on, str):
        source, arrays, tree = trace(function, args, kwargs, static_argnums, static_argnames, on)
        return source, arrays, tree.unflatten
    from .. import plugin

    try:
        plugin.initialize()  # tells JAX how to lower ops without a general form
        from ..transform.computation import PLATFORM, lowered_under
    except ImportError:
        raise InputError("a function needs JAX, which is not installed (pip install jax)") from None
    token = lowered_under.set(on)  # functions of `interp.jit` become part of the program
    try:
        return program_of(function, args, kwargs, static_argnums, static_argnames, on=PLATFORM)
    finally:
        lowered_under.reset(token)


def check_function(function: Any) -> None:
    """Raises InputError for anything but a function or a program."""
    if not is_program(function) and not callable(function):
        raise InputError(f"expected a function or a program, got {type(function).__name__}")


def check_policy(policy: Any, where: str = "policy") -> Policy:
    """A policy, by default `Policy()`. Raises InputError for another object."""
    if policy is not None and not isinstance(policy, Policy):
        raise InputError(f"{where}: expected a minihlo.interp.Policy, got {type(policy).__name__}")
    return policy or Policy()


def check_integer(value: Any, where: str, least: int = 1) -> None:
    """Raises InputError if a value is not an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{where}: expected an integer of at least {least}, got {value!r}")
