"""What is known of the peers: what they cannot run, how accurate they are, and where they differ from us, with the reason.

A `Known` difference is held to as narrow a rule as can be written: most say what the peer computes instead, and only a
result that is just that is explained.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from .compare import Case, absolute, epsilon, same, steps_apart, wide
from .program import Step


@dataclasses.dataclass(frozen=True)
class Lack:
    """Steps that a peer is not asked to run."""

    peer: str
    why: str
    applies: Callable[[Step], bool]


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference that is no fault of ours."""

    peers: str
    why: str
    applies: Callable[[Step], bool]
    explains: Callable[[Case], np.ndarray]  #: for each element, whether this is why it differs


def _named(*names: str) -> Callable[[Step], bool]:
    return lambda step: step.short in names


_DYNAMIC = ("dynamic_reshape", "dynamic_broadcast_in_dim", "dynamic_iota", "dynamic_pad", "real_dynamic_slice")

LACKS: tuple[Lack, ...] = (
    Lack("xla", "has no 6-bit floats", lambda s: any(t.is_float and t.bits == 6 for t in s.elements)),
    Lack("xla", "takes no shapes that are values", _named(*_DYNAMIC)),
    Lack(
        "reference",
        "has no such op (it aborts)",
        _named("batch_norm_training", "batch_norm_inference", "batch_norm_grad", "cholesky", "triangular_solve", "fft",
               "rng_bit_generator", "torch_index_select"),
    ),
    Lack("xla", "folds in an order of its own", lambda s: "order" in s.notes),
)

_ELEMENTARY = (
    "rsqrt", "cbrt", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "tan", "sine",
    "cosine", "atan2", "power", "sqrt", "abs", "sign", "divide", "multiply",
)  # fmt: skip


def _elementary(case: Case) -> np.ndarray:
    """Within a few codes of ours."""
    t = case.element
    if t.is_complex:
        size, error = np.abs(wide(case.ours)), np.abs(wide(case.ours) - wide(case.theirs))
        return np.asarray(error <= 8 * epsilon(t) * size)
    budget = {64: 8, 32: 8}.get(t.bits, 1)
    return steps_apart(case.ours, case.theirs, t) <= budget


def _sums(case: Case) -> np.ndarray:
    """Within what rounding can do to a sum of that many terms of that size, in any order."""
    t = case.element
    count = max((x.size for x in case.inputs), default=1)
    size = np.abs(wide(case.rerun(absolute)))
    error = np.abs(wide(case.ours) - wide(case.theirs))
    smallest = 2.0 ** (t.part.format.min_exponent)
    within = error <= count * (epsilon(t) * size + smallest)
    return np.asarray(within | ~np.isfinite(size))


KNOWN: tuple[Known, ...] = (
    Known(
        "xla reference",
        "elementary functions are approximations",
        lambda s: s.short in _ELEMENTARY and (s.elements[-1].is_float or s.elements[-1].is_complex),
        _elementary,
    ),
    Known(
        "xla reference",
        "sums are rounded at other steps or in another order",
        lambda s: "sums" in s.notes and (s.elements[-1].is_float or s.elements[-1].is_complex),
        _sums,
    ),
)
