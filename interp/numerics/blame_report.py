"""The result of `interp.blame`, and its text."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..program import Location
from .measures import NONE, Amount
from .reports import Report, plain, text_table
from .search import Evaluation

#: An op outside of the explaining set with less than this share contributes next to nothing.
NEGLIGIBLE = 1e-3
#: Maximum number of ops shown in a table.
_ROWS = 20


@dataclasses.dataclass(frozen=True)
class BlamedOp:
    """An op that the two ways compute differently, on the same operands, somewhere in the program."""

    op: str  #: with its dialect
    location: Location  #: in the user's Python, or in the file of the program
    types: str
    calls: tuple[Location, ...]  #: the calls of the functions that contain it
    executions: int  #: in the good run and the bad run together
    elements: int  #: of its results in these
    differing: int  #: number of elements that differ on the same operands
    alone: Amount | None = None  #: the difference of the output with only this op computed in the bad way, if tried
    without: Amount | None = None  #: the difference that remains if all ops but this one are computed in the bad way
    contribution: Amount | None = None  #: the larger of `alone` and of the change of the output if only this op is good
    share: float | None = None  #: of the whole difference: 1 is all; more if another op compensates for it
    explains: bool = False  #: the op belongs to the set that explains the difference
    together: int = 1  #: number of ops tried together, if there were too many to try each

    @property
    def contributes(self) -> bool:
        """Whether the op contributes to the difference of the output."""
        if self.explains or self.contribution is None:
            return True
        return self.contribution != NONE and (self.share is None or self.share >= NEGLIGIBLE)

    @property
    def says(self) -> str:
        """A summary of the op in a few words."""
        if self.explains:
            return "explains the difference"
        if self.contribution is None:
            return "differs, not tried"
        if self.contribution == NONE:
            return "differs, contributes nothing"
        if not self.contributes:
            return f"differs, contributes next to nothing ({percent(self.share)})"
        return "contributes, not needed to explain the difference"

    @property
    def source(self) -> str:
        """The line of source code, empty if it is not known."""
        return self.location.source

    def data(self) -> dict[str, Any]:
        """The op as a dictionary that `json.dump` takes."""
        more = {"source": self.source, "says": self.says, "contributes": self.contributes}
        return plain(vars(self) | more)


@dataclasses.dataclass(frozen=True)
class Blame(Report):
    """The operations that cause the difference between two ways of computing a program. `print` shows it.

    Attributes:
        good: The name of the one way.
        bad: The name of the other.
        measure: The name of the measure.
        total: The difference between the outputs of the two.
        ranking: Every operation that the two ways compute differently: first those that explain the difference, then
            by contribution.
        explains: A smallest set of operations that, computed in the bad way, cause the difference up to `1 - required`.
        explained: The share of the difference that they cause.
        required: The requested share.
        notes: Further remarks.
        evaluations: Each run of the program with some operations computed in the bad way.
        complete: Whether each operation was tried, and `explains` is known to be a smallest set.
    """

    good: str
    bad: str
    measure: str
    total: Amount
    ranking: tuple[BlamedOp, ...]
    explains: tuple[BlamedOp, ...]
    explained: float
    required: float
    notes: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]
    complete: bool

    @property
    def differs(self) -> bool:
        """Whether the outputs differ."""
        return bool(self.total)

    def table(self, rows: int | None = _ROWS) -> str:
        """The ranking as text, at most so many rows; None for all."""
        table = [("share", "alone", "without", "what", "where")]
        for o in self.ranking[:rows]:
            alone, without = ("-" if a is None else str(a) for a in (o.alone, o.without))
            where = f"{o.location}  {o.op.removeprefix('stablehlo.')}  {o.source}".rstrip()
            table.append((percent(o.share), alone, without, o.says, where))
        more = len(self.ranking) - len(table) + 1
        return text_table(table) + (f"\n… and {more} more operations that differ" if more else "")

    def __str__(self) -> str:
        head = f"{self.bad} against {self.good}: the outputs differ by {self.total} ({self.measure})"
        if not self.total:
            head = f"{self.bad} against {self.good}: no difference in the output ({self.measure})"
        lines = [head]
        if self.explains:
            count, of = len(self.explains), len(self.ranking)
            explain = "1 operation explains" if count == 1 else f"{count} operations explain"
            lines.append(f"{explain} {percent(self.explained)} of it, of {of} that the two compute differently:")
            for o in self.explains[:_ROWS]:
                lines.append(f"  {o.location}: {o.op} {o.types}")
                lines += [f"    {o.source}"] if o.source else []
                lines += [f"    called at {c}{f': {c.source}' if c.source else ''}" for c in reversed(o.calls)]
            lines += [f"  … and {count - _ROWS} more"] if count > _ROWS else []
        elif not self.ranking:
            lines.append("the two compute every operation alike")
        lines += self.notes
        if self.ranking:
            lines += ["", self.table()]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """The result as a dictionary that `json.dump` takes; numbers that are not finite are texts."""
        return plain(vars(self) | {"explains": [self.ranking.index(o) for o in self.explains]})


def percent(share: float | None) -> str:
    """A share in words; "-" if it is unknown."""
    if share is None:
        return "-"
    if math.isinf(share):
        return "inf"
    return f"{100 * share:.3g} %" if 0 < share < 1e4 else f"{share:.0g} x" if share else "0 %"
