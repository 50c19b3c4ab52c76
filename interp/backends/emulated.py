"""Another backend of programs, which runs them emulated: rewritten so that it computes with no minifloat."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np

from ...ops.policy import Policy
from ..policies import parse_policy
from .base import PROGRAMS, BackendError, Evaluate, Kind

#: The number of rewritten programs to keep, for programs that run repeatedly.
_KEPT = 256


def _inner(rest: str) -> tuple[ModuleType, str, Policy]:
    """Return the kind of the backend that runs the programs, the rest of its name, and the policy.

    Raises ValueError for a name that is not of the form `BACKEND[@FIELD=VALUE,…]`.
    """
    name, _, fields = rest.partition("@")
    word, _, inner = name.partition(":")
    if importlib.util.find_spec(f".{word}", __package__) is None:
        raise ValueError(f"expected a backend of programs, got {name!r}")
    module = importlib.import_module(f".{word}", __package__)
    kind = getattr(module, "KIND", None)
    if kind is None or kind.takes != PROGRAMS or not kind.accepts(inner) or word == "emulated":
        raise ValueError(f"expected a backend of programs such as jax:cpu, got {name!r}")
    for needed in kind.modules:
        if importlib.util.find_spec(needed.partition(".")[0]) is None:
            raise ValueError(f"{name} needs the module {needed} (pip install 'minihlo[{kind.extra}]')")
    return module, inner, parse_policy(fields, Policy()) if fields else Policy()


def _environment(rest: str) -> Mapping[str, str]:
    module, inner, _ = _inner(rest)
    return module.KIND.environment(inner)


KIND = Kind("emulated:BACKEND", rest=".+", packages=("minihlo", "jaxlib"), environment=_environment)


def start(rest: str) -> Evaluate:
    """Return the function that rewrites a program and runs it on the other backend."""
    from ..emulate.program import emulate_text
    from ..errors import ProgramError, UnsupportedError

    module, inner, policy = _inner(rest)
    run: Evaluate = module.start(inner)

    @functools.lru_cache(_KEPT)
    def rewrite(text: str) -> str:
        try:
            return emulate_text(text, policy)
        except UnsupportedError as error:
            raise BackendError("refused", str(error)) from None
        except ProgramError as error:
            raise BackendError("died", str(error)) from None

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return run(rewrite(text), arrays)

    return evaluate
