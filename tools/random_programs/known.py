"""Known facts about the peers: unsupported programs, accuracy, and differences from us with their reasons.

A difference is held to as narrow a rule as can be written: most say what the peer computes instead, and only a result
that is just that is explained. Measured on jaxlib 0.10.2; a peer that is mended makes its rows idle, not wrong.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..dialects import is_registered
from . import explain
from .compare import Case
from .program import Step

Applies = Callable[[Step], bool]


def is_inexact(step: Step) -> bool:
    return any(r.type.element.is_float or r.type.element.is_complex for r in step.results)


def is_integral(step: Step) -> bool:
    return all(t.is_integer for t in step.elements)


def is_totally_ordered(step: Step) -> bool:
    return any("TOTALORDER" in text for text in (step.attributes, *step.regions, *step.functions))


def is_narrow(step: Step) -> bool:
    return any(t.bits < 32 for t in step.elements)


def is_chlo(step: Step) -> bool:
    return step.op.startswith("chlo.")


def is_unknown(step: Step) -> bool:
    """Whether this jaxlib does not know the op."""
    return not is_registered(step.op)


def has_six_bits(step: Step) -> bool:
    return any(t.is_float and t.bits == 6 for t in step.elements)


def has_integers(step: Step) -> bool:
    return any(t.is_integer for t in step.elements)


def lacks_infinity(step: Step) -> bool:
    return any(t.is_float and not t.format.has_infinity for t in step.elements)


_TESTS: dict[str, Applies] = {
    f.__name__: f
    for f in (
        *(is_inexact, is_integral, is_totally_ordered, is_narrow, is_chlo, is_unknown),
        *(has_six_bits, has_integers, lacks_infinity),
    )
}


@dataclasses.dataclass(frozen=True)
class Known:
    """A row of the table: a fact about some peers on the steps that it applies to."""

    identifier: str
    peers: tuple[str, ...]
    why: str
    ops: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    gives: tuple[str, ...] = ()
    note: str = ""
    test: Applies = lambda _: True
    says: str = ""  #: of a failure: a pattern of what the peer says
    explains: Callable[[Case], np.ndarray] = explain.everything  #: for each element, whether this is why it differs

    def applies(self, step: Step) -> bool:
        """Whether it applies to a step."""
        return (
            (not self.ops or step.short in self.ops)
            and (not self.types or any(t.name in self.types for t in step.elements))
            and (not self.gives or all(r.type.element.name in self.gives for r in step.results))
            and (not self.note or self.note in step.notes)
            and self.test(step)
        )


def _rows(table: str) -> tuple[Known, ...]:
    result = []
    for data in _DATA[table]:
        fields = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        if "is" in fields:
            fields["test"] = _TESTS[fields.pop("is")]
        if "by" in fields:
            fields["explains"] = getattr(explain, fields.pop("by"))
        result.append(Known(**fields))
    return tuple(result)


_DATA = tomllib.loads((Path(__file__).parent / "known.toml").read_text())
LACKS, FAILINGS, KNOWN, FUSED = map(_rows, ("lacks", "failings", "known", "fused"))

#: Steps that a peer must be given in a module of their own.
ALONE: dict[str, Applies] = {
    # The C++ interpreter's scatter writes into its operand, which other steps then find changed.
    "reference": lambda step: step.short == "scatter",
    "xla": lambda _: False,
}


def first(rows: tuple[Known, ...], peer: str, step: Step) -> Known | None:
    """The first row about a peer that applies to a step."""
    return next((row for row in rows if peer in row.peers and row.applies(step)), None)


def known_failing(peer: str, step: Step, text: str) -> Known | None:
    """The row of this failure, if it is known."""
    return next((f for f in FAILINGS if peer in f.peers and f.applies(step) and re.search(f.says, text)), None)
