"""The report of a probe: the record, each fact with the dots that show it, and the check on random dots."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...ops.accumulators.record import Accumulator
from .answers import Answers, Session
from .designs import Dots
from .dots import Signature
from .operands import dot_text, number_text
from .predict import predict
from .sentences import alternatives


@dataclasses.dataclass(frozen=True)
class Fact:
    """One fact of the record."""

    field: str  #: the field of `interp.Accumulator`
    sentence: str
    #: Dots that show it: operands, result, and the results under other values. Empty if none shows it.
    evidence: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """The accumulator of a backend for one pair of types. `print` shows it."""

    backend: str
    signature: Signature
    record: Accumulator  #: the record that predicts most dots
    hidden: tuple[str, ...]  #: the small products that large ones absorb: the order, independent of the record
    findings: tuple[Fact, ...]
    predicted: int  #: number of random dots that the record predicts
    checked: int  #: number of random dots
    designed: int  #: number of designed dots that it does not predict
    contradictions: tuple[str, ...]  #: dots that it does not predict
    units: tuple[str, ...]  #: chip accumulators that predict all dots as well
    order: str  #: a sequential order that predicts all dots if the record does not: "accumulated in f32 in 8 lanes"
    notes: tuple[str, ...]
    dots: int  #: number of dots asked for

    @property
    def is_found(self) -> bool:
        """Whether the record predicts every dot."""
        return self.predicted == self.checked and not self.designed

    def to_json(self) -> str:
        """The record as JSON, which `--accumulate @FILE` takes."""
        return self.record.to_json()

    def data(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return dataclasses.asdict(self) | {"record": json.loads(self.record.to_json()), "is_found": self.is_found}

    def __str__(self) -> str:
        lines = [f"{self.backend}: {self.signature} ({self.dots:,} dots)", ""]
        lines += [*self.hidden, ""] if self.hidden else []
        if not self.is_found:
            lines.append("Facts of the nearest record, with dots that it predicts:")
        for finding in self.findings:
            lines.append(finding.sentence)
            lines += [f"    {line}" for line in finding.evidence]
        share = f"{self.predicted:,} of {self.checked:,} random dots"
        lines.append("")
        if self.is_found:
            lines.append(f"--accumulate '{self.record.to_text()}'")
            lines.append(f"predicts {share}, and every designed one")
            lines += [f"the same as {' and '.join(self.units)}"] if self.units else []
        else:
            lines.append(f"no record predicts all dots; the best is {self.record.to_text()}")
            also = f", and not {self.designed:,} of the designed ones" if self.designed else ""
            lines.append(f"it predicts {share}{also}")
            lines += [f"all dots are as {self.order}"] if self.order else []
            lines += ["it is contradicted by", *(f"    {line}" for line in self.contradictions)]
        return "\n".join([*lines, *self.notes])


#: Number of lines for a fact.
_LINES = 2


def evidence(session: Session, answers: Answers, record: Accumulator, field: str) -> Iterator[str]:
    """Return lines that demonstrate the value of a field: each refutes other values by the first dot that they miss.

    `answers` has those of few products first.
    """
    s = session.signature
    right = ~session.misses(record, answers)
    count, unseen = 0, []
    for name, other in alternatives(record, field, s.k):
        expected = predict(other, answers.dots, s)
        differs = right & (expected != answers.got) & ~(session.is_nan(expected) & session.is_nan(answers.got))
        if not differs.any():
            unseen.append(name)
            continue
        if count < _LINES:
            i = int(np.argmax(differs))
            count += 1
            got, other = format_result(answers.got[i], s), format_result(expected[i], s)
            yield f"{line(answers.dots, i, s)} => {got} ({other} with {name})"
    if unseen:
        yield f"these dots do not distinguish it from {', '.join(unseen)}"


def line(dots: Dots, i: int, s: Signature) -> str:
    """Return the products of a dot as text."""
    return dot_text(dots.x[i], dots.y[i], s.lhs, s.rhs)


def format_result(code: np.ndarray | int, s: Signature) -> str:
    """Return a result as text."""
    return number_text(code, s.result)
