"""The profile of each tensor, and its conclusions: the lines with the largest losses, in sentences."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from ..program import Location
from .statistics import Statistics, finite
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
        under, over, gone = map(s.share, ("underflows", "saturations", "overflows"))
        low, nan = s.share("subnormals") or 0.0, s.share("nans") or 0.0
        return Step(step, s.elements, under, over, gone, low, nan, s.max_abs, s.min_abs, s.sqnr)


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
        return self.line.source

    @property
    def short(self) -> str:
        """The operation without its dialect."""
        return self.op.rpartition(".")[2]

    @property
    def is_narrow(self) -> bool:
        """Whether its format has up to 16 bits, so that exact results are known."""
        return self.statistics.format.bits <= 16

    @property
    def overflows(self) -> int:
        """The number of results that overflow, or arise as NaN or infinity; one that does both is counted once."""
        return max(self.statistics.overflows, self.nonfinite_created)

    @property
    def lost(self) -> int:
        """The number of lost results: those that underflow, saturate or overflow, or arise as NaN or infinity."""
        return self.statistics.underflows + self.statistics.saturations + self.overflows

    @property
    def share(self) -> float:
        """The share of lost results; 0 for an operation that does not round."""
        return self.lost / self.statistics.elements if self.rounds and self.statistics.elements else 0.0

    @property
    def severity(self) -> float:
        """The sort key of reports: overflows first, then by the share of lost results."""
        return self.share + bool(self.share and self.overflows)

    @property
    def is_found(self) -> bool:
        """Whether it is to be reported."""
        return self.severity >= _LEAST

    @property
    def shares(self) -> dict[str, tuple[int, int]]:
        """The number of each kind of results, and of how many; of 0 where it is not known."""
        s = self.statistics
        return {
            "zero": (s.zeros, s.elements),
            "underflow": (s.underflows, s.compared),
            "subnormal": (s.subnormals, s.elements),
            "saturate": (s.saturations, s.compared),
            "overflow": (self.overflows, s.elements),
            "NaN": (s.nans, s.elements),
            "infinite": (s.infinities, s.elements),
        }

    def sentence(self) -> str:
        """The losses, and what would help."""
        s = self.statistics
        counts = {
            "overflow" if s.compared else "become an infinity or NaN": self.overflows,
            "saturate": s.saturations,
            "underflow to zero": s.underflows,
        }
        parts = [f"{percent(count, s.elements)} {words}" for words, count in counts.items() if count]
        # JAX's name for operations of the gradient
        where = " in the backward pass" if "transpose(" in self.name else ""
        parts[0] = parts[0].replace(" %", f" % of the {s.format.name} results of {self.short}{where}", 1)
        help_ = "" if self.op == "stablehlo.custom_call" else advice(s)  # the elements of blocks have a scale
        return ", ".join(parts) + (f"; {help_}" if help_ else "")

    def data(self) -> dict[str, Any]:
        """The tensor as `json.dump` takes it."""
        names = "op", "index", "name", "type", "source", "rounds", "executions"
        return {
            **{n: getattr(self, n) for n in names},
            "file": self.line.file,
            "line": self.line.line,
            "inner": str(self.inner),
            "born": self.nonfinite_created,
            **self.statistics.data(),
            "blocks": [b.data() for b in self.blocks.values()],
            "steps": [dataclasses.asdict(s) | {"sqnr": finite(s.sqnr)} for s in self.steps],
        }


@dataclasses.dataclass
class LineProfile:
    """The tensors of one line of code, the worst first."""

    line: Location
    tensors: list[TensorProfile]


def lines_of(tensors: Sequence[TensorProfile]) -> list[LineProfile]:
    """The lines of code in the order of their files, with their tensors, the worst first."""
    lines: defaultdict[Location, list[TensorProfile]] = defaultdict(list)
    for t in sorted(tensors, key=lambda t: -t.severity):
        if t.op != "argument":
            lines[t.line].append(t)
    return [LineProfile(x, lines[x]) for x in sorted(lines, key=lambda x: (x.file, x.line))]


def advice(s: Statistics) -> str:
    """A remedy for the lost numbers: a scale, or another format. Empty if there is none."""
    lost, k = s.underflows + s.saturations + s.overflows, s.scale
    if not lost or k is None:
        return ""

    def leaves(rest: int) -> str:
        return f"would leave {percent(rest, s.compared)}" if rest else "would keep them"

    said = []
    if k and (rest := sum(s.lost(s.format.name, k))) <= lost / 2:
        said.append(f"a scale of 2^{k} {leaves(rest)}")
    others = [(sum(s.lost(n, 0)), n) for n in _OTHERS.get(s.format.bits, ()) if n != s.format.name]
    left, best = min(((rest, name) for rest, name in reversed(others)), key=lambda x: x[0], default=(lost, ""))
    if left <= lost / 2:
        said.append(f"{best} {leaves(left)}{' without a scale' if said else ''}")
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
