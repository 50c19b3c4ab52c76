"""The current policy, which applies where none is passed: to programs that JAX runs and functions that it traces."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ..ops.accumulators.record import Accumulator
from ..ops.policy import Policy
from . import foreign
from .errors import InputError

_Fields = tuple[tuple[str, str | int], ...]

_chosen: contextvars.ContextVar[Policy | _Fields | None] = contextvars.ContextVar("minihlo policy", default=None)

#: Factories of contexts that are entered together with a policy, and the stack of the entered ones.
_followers: list[Callable[[Policy | _Fields], contextlib.AbstractContextManager[Any]]] = []
_entered: contextvars.ContextVar[contextlib.ExitStack | None] = contextvars.ContextVar("entered", default=None)


@contextlib.contextmanager
def policy(whole: Policy | None = None, /, **fields: str | int) -> Iterator[None]:
    """Choose the policy of a block of code: `with interp.policy(rounding="stochastic", seed=3):`.

    Within the block the policy applies, in this thread, to programs that JAX runs on the platform `minihlo` and to
    functions of `interp.jit` without a policy of their own. A compiled function uses the current policy at each call;
    JAX compiles nothing again.

    Args:
        whole: A Policy that replaces the current one.
        **fields: Single fields of Policy. They replace those of `whole`, or of the current policy.

    Raises:
        ValueError: A field has a value that Policy does not allow.
        TypeError: There is no such field.
        InputError: `whole` is not a Policy.
    """
    if whole is not None and not isinstance(whole, Policy):
        raise InputError(f"policy: expected a minihlo.interp.Policy, got {type(whole).__name__}")
    Policy(**fields) if whole is None else dataclasses.replace(whole, **fields)  # type: ignore[arg-type]  # checks them
    before = _chosen.get()
    if whole is not None:
        chosen: Policy | _Fields = dataclasses.replace(whole, **fields)  # type: ignore[arg-type]
    elif isinstance(before, Policy):
        chosen = dataclasses.replace(before, **fields)  # type: ignore[arg-type]
    else:
        chosen = tuple((dict(before or ()) | fields).items())
    with contextlib.ExitStack() as stack:
        stack.callback(_chosen.reset, _chosen.set(chosen))
        stack.callback(_entered.reset, _entered.set(stack))
        for follower in _followers:
            stack.enter_context(follower(chosen))
        yield


def follow(context: Callable[[Policy | _Fields], contextlib.AbstractContextManager[Any]]) -> None:
    """Register a context to enter, with the chosen fields, whenever `policy` is entered."""
    _followers.append(context)
    stack, chosen = _entered.get(), _chosen.get()
    if stack is not None and chosen is not None:
        stack.enter_context(context(chosen))


def chosen(default: Policy) -> Policy:
    """Return the current policy. Fields that no enclosing `policy` block has chosen come from `default`."""
    current = _chosen.get()
    if current is None:
        return default
    return current if isinstance(current, Policy) else _replaced(default, current)


@functools.lru_cache(64)
def _replaced(default: Policy, fields: _Fields) -> Policy:
    return default.replaced(**dict(fields))


def parse_policy(text: str, default: Policy) -> Policy:
    """Parse a policy such as `accumulate=exact,rounding=toward_zero`. Other fields come from `default`.

    `target=h100` gives the fields of a chip. A record is written with `;` between its fields, or as `@file`.
    Raises InputError if the text is not valid.
    """
    names = [f.name for f in dataclasses.fields(Policy)]
    fields: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, _, value = (p.strip() for p in part.partition("="))
        if name not in (*names, "target") or not value:
            known = ", ".join((*names, "target"))
            raise InputError(f"policy: expected name=value with a name of {known}, got {part!r}")
        if name in fields:
            raise InputError(f"policy: expected {name} once, got {part!r} too")
        if name == "seed" and not value.isdecimal():
            raise InputError(f"seed: expected an integer of at least 0, got {value!r}")
        fields[name] = int(value) if name == "seed" else accumulation(value) if name == "accumulate" else value
    try:
        target = fields.pop("target", None)
        base = {} if target is None else target_fields(target)
        return default.replaced(**base | fields)
    except ValueError as error:
        raise InputError(str(error)) from None


def accumulation(text: str) -> str | Accumulator:
    """The `accumulate` of a text: a name, a record, or `@file` of a record as JSON or text. Raises InputError."""
    if not text.startswith("@"):
        return text
    try:
        found = foreign.read_bytes(text[1:]).decode("utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "expected text"
        raise InputError(f"accumulate: {text[1:]}: {reason}") from None
    try:
        is_json = found.lstrip()[:1] == "{"
        return Accumulator.from_json(found) if is_json else Accumulator.from_text(found.replace("\n", ","))
    except ValueError as error:
        raise InputError(f"accumulate: {text[1:]}: {error}") from None


def target_fields(name: str) -> dict[str, Any]:
    """The fields that a chip says, as `Policy.target` has them. Raises InputError where there is no such chip."""
    try:
        found = Policy.target(name)
    except ValueError as error:
        raise InputError(f"target: {str(error).removeprefix('unit: ')}") from None
    return {"accumulate": found.accumulate, "overflow": found.overflow}
