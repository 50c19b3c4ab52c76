"""Verdicts on programs: the records, and their text."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import pages
from ..enclose.findings import EXACT, Finding
from ..program import Operation

#: Said of a backend whose wrong results differ between runs, and a cause by itself.
CHANGES = "results change from run to run, as after a race or memory that is not initialized"


@dataclasses.dataclass
class Part:
    """The smallest part of a program that was found to be wrong by itself.

    Attributes:
        operations: Its operations, in order, without constants.
        program: Its text.
        inputs: Its arguments, in the syntax of `--input`.
        finding: What is said of its wrong result.
        is_alone_right: Whether every operation of it is right by itself, so that their combination is wrong.
        arrays: Its arguments.
    """

    operations: tuple[str, ...]
    program: str
    inputs: tuple[str, ...]
    finding: Finding
    is_alone_right: bool = False
    arrays: Sequence[np.ndarray] = ()

    @property
    def cause(self) -> str:
        """The operations and how the result is wrong."""
        return f"{' + '.join(self.operations)}: {self.finding.kind}"


@dataclasses.dataclass
class Judgement:
    """The verdict on a program on one backend.

    Attributes:
        program: The name of the program.
        backend: The name of the backend.
        verdict: One of VERDICTS.
        findings: By the name of the inputs, what is said of each result.
        notes: What else is to be said.
        part: The smallest wrong part, where it was looked for.
    """

    program: str
    backend: str
    verdict: str = EXACT
    findings: dict[str, list[Finding]] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    part: Part | None = None

    @property
    def cause(self) -> str:
        """What programs with one cause have in common."""
        if self.part is not None:
            changes = ", and " + CHANGES.partition(",")[0] if CHANGES in self.notes else ""
            return self.part.cause + changes
        kinds = [f.kind for fs in self.findings.values() for f in fs if f.kind]
        return kinds[0] if kinds else (self.notes[0] if self.notes else "")

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def data(self) -> dict[str, Any]:
        """Return the judgement as JSON holds it."""
        part = None if self.part is None else dataclasses.replace(self.part, arrays=())
        return dataclasses.asdict(dataclasses.replace(self, part=part)) | {"cause": self.cause}

    def __str__(self) -> str:
        """Return the report as text."""
        lines = [f"{self.verdict:<11} {self.program} on {self.backend}"]
        for name, findings in self.findings.items():
            shown = [(i, f) for i, f in enumerate(findings) if f.verdict != EXACT]
            lines += [f"  {name}: every result has the interpreter's bits"] if not shown else [f"  {name}:"]
            for i, f in shown:
                lines += [f"    result {i}: {f.verdict}, {f.differing:,} of {f.size:,} elements differ"]
                lines += [f"      {s}" for s in f.sentences]
        lines += [f"  {note}" for note in self.notes]
        if self.part is not None:
            lines.append(f"  {self.part.finding.verdict.lower()} by itself: {' + '.join(self.part.operations)}")
            if self.part.is_alone_right and len(self.part.operations) > 1:
                lines.append(
                    "  each of these operations is right alone: the fault is in what they are compiled to together"
                )
            lines += [f"    {s}" for s in self.part.finding.sentences]
            inputs = " ".join(f"--input '{x}'" for x in self.part.inputs)
            lines.append(f"  to reproduce it: minihlo judge part.mlir {self.backend} {inputs}".rstrip())
            lines += [f"    {line}" for line in self.part.program.strip().splitlines()]
        return pages.plain("\n".join(lines))


def short(operation: Operation) -> str:
    """Return the name of an operation without its dialect."""
    return operation.name.removeprefix("stablehlo.")
