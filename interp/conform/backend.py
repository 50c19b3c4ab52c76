"""Backends as the tester sees them: the kind of interface, and their specification of conversions."""

from __future__ import annotations

from typing import Any

from ..backends import kind_of
from ..errors import InputError


def to_integers(name: str, target: str) -> tuple[str, ...]:
    """The ways a backend may round floats to an integer type: by its own specification, or by StableHLO's."""
    try:
        own = () if name.partition(":")[0] == "minihlo" else kind_of(name).conversions
    except InputError:  # an object has no name that leads to its specification
        own = ()
    return (*(c.rounding for c in own if target in c.targets), "toward zero")


def takes(backend: Any) -> str:
    """`programs` or `operations`."""
    return getattr(backend, "takes", "programs")
