"""The profile of each tensor, and its conclusions: the lines with the largest losses, in sentences."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Sequence
from typing import Any

from ..program import Location
from .statistics import Statistics
from .statistics_blocks import BlockStatistics

#: The least share of lost results for a line to be named.
_LEAST = 0.001
#: The formats that a sentence may recommend instead of another, by their number of bits.
_OTHERS = {8: ("f8E4M3FN", "f8E5M2"), 6: ("f6E2M3FN", "f6E3M2FN"), 16: ("bf16",)}


@dataclasses.dataclass(frozen=True)
class Step:
    """The losses of a tensor in one step: shares of its elements, None without an exact result to compare with."""

    step: int
    elements: int
    underflow: float | None
    saturation: float | None
    overflow: float | None
    subnormal: float
    nan: float
    max_abs: float | None
    min_abs: float | None
    sqnr: float | None

    @staticmethod
    def of(step: int, s: Statistics) -> Step:
        """The step of that number."""
        n, m = max(s.elements, 1), s.compared
        under, over, gone = (x / m if m else None for x in (s.underflows, s.saturations, s.overflows))
        nans = s.nans / n
        return Step(step, s.elements, under, over, gone, s.subnormals / n, nans, s.max_abs, s.min_abs, s.sqnr)


@dataclasses.dataclass
class TensorProfile:
    """The numbers of one float result of an operation, or of one argument of the program, over all executions.

    Attributes:
        op: The operation with its dialect; `argument` for an argument of the program.
        index: The number of the result, or of the argument.
        name: JAX's name of the location, such as `jit(f)/transpose(jvp(f))/mul`, or of an argument, such as
            `params['w']`.
        type: The type of the tensor.
        line: The innermost line of the user's own code.
        inner: The innermost line of any code, of a library for example.
        rounds: Whether the operation may round.
        executions: The number of executions.
        nonfinite_created: The number of infinities and NaN that arise from finite operands.
        statistics: The counts.
        blocks: The counts in block formats, by their names.
        steps: A short record of each sampled call.
    """

    op: str
    index: int
    name: str
    type: str
    line: Location
    inner: Location
    rounds: bool
    statistics: Statistics
    executions: int = 0
    nonfinite_created: int = 0
    blocks: dict[str, BlockStatistics] = dataclasses.field(default_factory=dict)
    steps: list[Step] = dataclasses.field(default_factory=list)

    @property
    def source(self) -> str:
        """The text of the line, empty if it is not known."""
        return linecache.getline(self.line.file, self.line.line).strip() if self.line.line else ""

    @property
    def place(self) -> str:
        """The file and the line."""
        return f"{self.line.file}:{self.line.line}" if self.line.line else self.line.file

    @property
    def short(self) -> str:
        """The operation without its dialect."""
        return self.op.rpartition(".")[2]

    @property
    def lost(self) -> int:
        """The number of lost results: those that underflow, saturate or overflow, or arise as NaN or infinity.

        An infinity in place of a finite exact result is counted once.
        """
        s = self.statistics
        return s.underflows + s.saturations + max(s.overflows, self.nonfinite_created)

    @property
    def severity(self) -> float:
        """The sort key of reports: overflows first, then by the share of lost results."""
        s = self.statistics
        if not self.rounds or not s.elements:
            return 0.0
        overflow = max(s.overflows, self.nonfinite_created)
        return bool(overflow) + self.lost / s.elements

    @property
    def is_found(self) -> bool:
        """Whether it is to be reported."""
        return bool(self.rounds and (self.nonfinite_created or self.statistics.overflows)) or self.severity >= _LEAST

    def sentence(self) -> str:
        """The losses, and what would help."""
        s, parts = self.statistics, []
        for count, words in (
            (max(s.overflows, self.nonfinite_created), "overflow" if s.compared else "become an infinity or NaN"),
            (s.saturations, "saturate"),
            (s.underflows, "underflow to zero"),
        ):
            if count:
                parts.append(f"{percent(count, s.elements)} {words}")
        # JAX's name for operations of the gradient
        where = " in the backward pass" if "transpose(" in self.name else ""
        of = f"the {s.format.name} results of {self.short}{where}"
        head = f"{parts[0].replace(' %', f' % of {of}', 1)}" + "".join(f", {p}" for p in parts[1:])
        help_ = "" if self.op == "stablehlo.custom_call" else advice(s)  # the elements of blocks have a scale
        return f"{head}{f'; {help_}' if help_ else ''}"

    def data(self) -> dict[str, Any]:
        """The tensor as `json.dump` takes it."""
        steps = [dataclasses.asdict(s) for s in self.steps]
        for s in steps:
            s["sqnr"] = None if s["sqnr"] in (float("inf"), float("-inf")) else s["sqnr"]
        return {
            "op": self.op,
            "index": self.index,
            "name": self.name,
            "type": self.type,
            "file": self.line.file,
            "line": self.line.line,
            "inner": str(self.inner),
            "source": self.source,
            "rounds": self.rounds,
            "executions": self.executions,
            "born": self.nonfinite_created,
            **self.statistics.data(),
            "blocks": [b.data() for b in self.blocks.values()],
            "steps": steps,
        }


@dataclasses.dataclass
class LineProfile:
    """The tensors of one line of code, the worst first."""

    line: Location
    tensors: list[TensorProfile]

    @property
    def source(self) -> str:
        """The text of the line, empty if it is not known."""
        return self.tensors[0].source

    @property
    def severity(self) -> float:
        """The severity of the worst tensor."""
        return self.tensors[0].severity

    @property
    def share(self) -> float:
        """The share of lost results of its worst tensor."""
        worst = self.tensors[0]
        return worst.lost / worst.statistics.elements if worst.rounds and worst.statistics.elements else 0.0


def lines_of(tensors: Sequence[TensorProfile]) -> list[LineProfile]:
    """The lines of code in the order of their files, with their tensors, the worst first."""
    lines: dict[tuple[str, int], list[TensorProfile]] = {}
    for t in tensors:
        if t.op != "argument":
            lines.setdefault((t.line.file, t.line.line), []).append(t)
    made = [
        LineProfile(Location(file, line), sorted(ts, key=lambda t: -t.severity))
        for (file, line), ts in sorted(lines.items())
    ]
    return [x for x in made if x.tensors]


def advice(s: Statistics) -> str:
    """A remedy for the lost numbers: a scale, or another format. Empty if there is none."""
    lost, k = s.underflows + s.saturations + s.overflows, s.scale
    if not lost or k is None:
        return ""
    said = []
    rest = sum(s.lost(s.format.name, k))
    if k and rest <= lost / 2:
        leaves = "would keep them" if not rest else f"would leave {percent(rest, s.compared)}"
        said.append(f"a scale of 2^{k} {leaves}")
    best, left = "", lost / 2
    for name in _OTHERS.get(s.format.bits, ()):
        if name != s.format.name and sum(s.lost(name, 0)) <= left:
            best, left = name, sum(s.lost(name, 0))
    if best:
        leaves = "would keep them" if not left else f"would leave {percent(int(left), s.compared)}"
        said.append(f"{best} {leaves}{' without a scale' if said else ''}")
    if not said:
        exponents = list(s.exponents)
        said.append(f"the exact results span 2^{exponents[0]} to 2^{exponents[-1]}, more than the format holds")
    return ", ".join(said)


def percent(count: int, total: int) -> str:
    """A share in percent with two significant digits."""
    share = 100 * count / total if total else 0.0
    if 0 < share < 0.01:
        return "less than 0.01 %"
    if share and share < 10:
        return f"{share:.2g} %"
    return f"{min(share, 99.9) if count < total else share:.3g} %"
