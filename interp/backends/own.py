"""minihlo itself, in this process."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.policy import COMPUTE_TYPES, Policy
from ..errors import InputError
from ..policies import parse_policy
from .base import PROGRAMS


class Minihlo:
    """This interpreter, under a policy."""

    packages = ("minihlo",)
    takes = PROGRAMS

    def __init__(self, name: str, policy: Policy) -> None:
        self.name, self.policy = name, policy

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Run a program. Raises the errors of `minihlo.interp`."""
        from ..loaded import LoadedProgram
        from ..parse.parser import parse

        return LoadedProgram(parse(text))(*arrays, policy=self.policy)

    def close(self) -> None:
        """Do nothing: there is no process to end."""


def minihlo(name: str) -> Minihlo:
    """Return the backend `minihlo`, `minihlo:upcast[:TYPE]` or `minihlo:FIELD=VALUE,…`, with these fields of a policy.

    Raises InputError for another name.
    """
    _, _, rest = name.partition(":")
    if "=" in rest:
        return Minihlo(name, parse_policy(rest, Policy()))
    if (rest and rest.partition(":")[0] != "upcast") or name.endswith(":"):
        raise InputError(f"expected minihlo, minihlo:upcast or minihlo:upcast:TYPE, got {name!r}")
    try:
        return Minihlo(name, Policy(arithmetic=rest or "direct"))
    except ValueError:
        types = ", ".join(COMPUTE_TYPES)
        raise InputError(f"expected minihlo:upcast:TYPE with a TYPE of {types}, got {name!r}") from None
