"""The report of a comparison, op by op, and its text."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.types import TensorType
from .. import pages
from ..judging.groups import group
from ..judging.record import CRASH, DIVERGENT, FAIL, PASS, VERDICTS, Diagnosis, worst
from ..judging.table import cause
from ..program import Location
from ..values import npy
from ..values.printing import format_value

#: Operands of up to this many elements in all are written into a snippet's command line.
_FEW = 64
#: More distances than this are shown in ranges.
_STEPS = 8

#: Whether a backend may take subnormal numbers as zero: it passes, is reported in a line, or fails.
FLUSHES = ALLOW, REPORT, FORBID = ("allow", "report", "forbid")
FLUSHED = cause("flushed")

HOWS = {
    "op": "each op by itself, on the operands that the backend has computed",
    "program": "each op in the whole program as the backend compiles it",
}


@dataclasses.dataclass(frozen=True)
class Example:
    """One element of a result that differs."""

    verdict: str
    index: tuple[int, ...]  #: in the result
    operands: tuple[str, ...]  #: codes and values from which it was computed
    got: str
    expected: str
    ulp: float | None  #: distance, as defined in `conform.result`; None if there is none
    is_exact: bool = True  #: there is one right result, `expected`
    beside: str = ""  #: the policy of `expected`, if two are compared

    def __str__(self) -> str:
        where = f"[{', '.join(map(str, self.index))}] " if self.index else ""
        of = f"({', '.join(self.operands)}) " if self.operands else ""
        right = self.beside or ("exact" if self.is_exact else "minihlo")
        return f"{where}{of}gives {self.got}, {right} {self.expected}"


@dataclasses.dataclass
class OpReport:
    """The comparison of one op of a program, over all of its executions."""

    op: str  #: with its dialect
    location: Location  #: in the user's Python, or in the file of the program
    types: str
    verdict: str = PASS  #: one of judging.record.VERDICTS
    executions: int = 0
    elements: int = 0
    verdicts: Counter[str] = dataclasses.field(default_factory=Counter)  #: elements that differ, by verdict
    histogram: Counter[float | None] = dataclasses.field(default_factory=Counter)  #: elements by distance in ULP
    worst: list[Example] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    #: The same by identifier: open points, faults, accumulators and limits of accuracy (`interp.judging`).
    causes: list[str] = dataclasses.field(default_factory=list)
    program: str = ""  #: the op alone; its operands are `inputs`, those of the worst result
    is_float: bool = True  #: the first result is of floats, or complex numbers
    inputs: list[np.ndarray] = dataclasses.field(default_factory=list)
    input_types: list[TensorType] = dataclasses.field(default_factory=list)

    def add(self, notes: Iterable[Diagnosis]) -> None:
        """Add new notes."""
        for note in notes:
            if note.sentence not in self.notes:
                self.notes.append(note.sentence)
            if note.identifier not in self.causes:
                self.causes.append(note.identifier)

    @property
    def failed(self) -> bool:
        """Whether a result is wrong, or the backend crashed."""
        return self.verdict in (FAIL, CRASH)

    @property
    def differing(self) -> int:
        """The number of elements that differ."""
        return sum(self.verdicts.values())

    @property
    def source(self) -> str:
        """The line of source code, empty if it is not known."""
        return self.location.source

    @property
    def input_values(self) -> list[str]:
        """The operands of the worst result as `minihlo run --input` takes them, or the names of files of `save`."""
        if sum(x.size for x in self.inputs) <= _FEW:
            return [format_value(x, t, "codes") for x, t in zip(self.inputs, self.input_types, strict=True)]
        return [f"@input{i}.npy" for i in range(len(self.inputs))]

    def command(self, backend: str, file: str = "op.mlir") -> str:
        """The command that reproduces the result, with the op in `file`."""
        return " ".join([f"minihlo diff {file} {backend}", *(f"--input '{v}'" for v in self.input_values)])

    def save(self, folder: str | Path) -> None:
        """Write the op as `op.mlir` and its operands as `input0.npy` and so on to a new folder."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "op.mlir").write_text(self.program, encoding="utf-8")
        for i, (x, t) in enumerate(zip(self.inputs, self.input_types, strict=True)):
            npy.save(str(folder / f"input{i}.npy"), x, t.element)

    def difference(self, example: Example) -> str:
        """The distance of an example in words, in parentheses."""
        if example.ulp is None or not self.is_float:
            return ""
        return f" ({example.ulp:.0f} ULP)" if example.ulp else " (the sign of zero)"

    def summary(self) -> str:
        """The number of elements that differ, and their distances."""
        times = f" in {self.executions} executions" if self.executions > 1 else ""
        one = self.differing == 1
        total = f"{self.differing} of {self.elements} element{'s' * (self.elements != 1)}{times} differ{'s' * one}"
        if not self.is_float:
            return total
        parts: dict[str, int] = {}
        many = len(self.histogram) > _STEPS
        for distance, count in sorted(self.histogram.items(), key=lambda item: (item[0] is None, item[0] or 0)):
            how = _distance(distance, many)
            parts[how] = parts.get(how, 0) + count
        return f"{total}{' ' if one else ': '}{', '.join(how if one else f'{n} {how}' for how, n in parts.items())}"


#: The sizes in `tensor<2x3xf32>`.
_SIZES = re.compile(r"(?<=<)(?:\d+x)+")


def _group(ops: list[OpReport]) -> list[list[OpReport]]:
    """Groups ops of one name, on the same element types, with the same findings."""
    return list(group(ops, lambda o: (o.verdict, o.op, _SIZES.sub("", o.types), *o.notes)).values())


def _distance(ulp: float | None, rounded: bool) -> str:
    """A distance in words; `rounded`, between powers of two."""
    if ulp is None:
        return "by no number of ULP"
    if ulp < 3 or not rounded:
        return f"by {ulp:.0f} ULP" if ulp else "in the sign of zero"
    top = 1 << (int(ulp) - 1).bit_length()
    return f"by {top // 2 + 1} to {top} ULP"


_render = functools.partial(pages.text_renderer(pages.plain, FLUSHED=FLUSHED, HOWS=HOWS), "diff.html")


@dataclasses.dataclass
class Report:
    """The comparison of a program on a backend with the exact results. `print` shows it.

    Attributes:
        backend: The name of the backend.
        how: How the backend ran the operations: `"op"` or `"program"`.
        ops: One OpReport for each operation.
        results: The backend's results of the whole program.
    """

    backend: str
    how: str
    ops: list[OpReport]
    results: list[Any]  #: the backend's own, of the whole program
    beside: str = ""  #: the policy it is compared with, if the backend is another one
    outputs: OpReport | None = None  #: the outputs of the program as it stands, beside those of each op by itself
    skipped: Sequence[str] = ()  #: names of ops that were not compared: no backend takes their types
    is_stopped: bool = False  #: the time limit has passed, and these are the ops that were compared until then

    @property
    def parting(self) -> OpReport | None:
        """The first op whose results differ; None if there is none."""
        return next((o for o in self.ops if o.verdict != PASS), None)

    @property
    def failures(self) -> list[OpReport]:
        """The ops with wrong results, and those on which the backend crashed; if there are none, wrong outputs."""
        failed = [o for o in self.ops if o.failed]
        return failed or [o for o in [self.outputs] if o is not None and o.failed]

    @property
    def verdict(self) -> str:
        """The verdict of the worst op, or of the outputs."""
        return worst([o.verdict for o in (*([self.outputs] if self.outputs else []), *self.ops)] or [PASS])

    def __str__(self) -> str:
        counts = Counter(o.verdict for o in self.ops)
        flushing = [o for o in self.ops if o.verdict == DIVERGENT and o.causes == [FLUSHED.identifier]]
        shown = [o for o in self.ops if o.verdict != PASS and o not in flushing]
        shown.sort(key=lambda o: -VERDICTS.index(o.verdict))
        verdicts = [v for v in (PASS, *(v for v in VERDICTS if v != PASS)) if counts[v]]
        return _render(report=self, counts=counts, verdicts=verdicts, flushing=flushing, groups=_group(shown))

    def data(self) -> dict[str, Any]:
        """The report as a dictionary that `json.dump` takes."""
        ops = []
        for o in self.ops:
            data = {f.name: getattr(o, f.name) for f in dataclasses.fields(o)} | {"location": str(o.location)}
            data |= {"source": o.source, "inputs": o.input_values, "worst": [dataclasses.asdict(e) for e in o.worst]}
            data["histogram"] = {"none" if k is None else f"{k:.0f}": v for k, v in o.histogram.items()}
            data.pop("input_types")
            ops.append(data)
        beside = {"beside": self.beside} if self.beside else {}
        whole: dict[str, Any] = {"skipped": list(self.skipped)} if self.skipped else {}
        if self.outputs is not None:
            whole["outputs"] = {"verdict": self.outputs.verdict, "notes": self.outputs.notes}
        return {"backend": self.backend, **beside, "how": self.how, "verdict": self.verdict, **whole, "ops": ops}
