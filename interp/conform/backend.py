"""Backends as the tester sees them: what one takes, and its own specification of conversions."""

from __future__ import annotations

from typing import Any

from ..backends import kind_of
from ..errors import InputError


def to_integers(name: str, target: str) -> tuple[str, ...]:
    """How a backend of that name may round floats to an integer type: by its own specification, or by StableHLO's."""
    try:
        own = () if name.partition(":")[0] == "minihlo" else kind_of(name).conversions
    except InputError:  # an object, which has no name that leads to it
        own = ()
    return (*(c.rounding for c in own if target in c.targets), "toward zero")


def takes(backend: Any) -> str:
    """`programs` or `operations`."""
    return getattr(backend, "takes", "programs")
