"""Causes of a peer's differences: the table `causes.toml`, and the search for the one that explains an element.

A cause explains only results that it gives: those of a fault model, or of a choice at a point that is left open.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from minihlo.interp.backends.functions import NUMPY
from minihlo.interp.judging.equality import equal_codes
from minihlo.interp.judging.open_points import CHOICES, IDENTIFIERS, classify
from minihlo.interp.oracle.case import OpCase, Operands
from minihlo.interp.oracle.exact import FUNCTIONS, OPS
from minihlo.interp.oracle.expected import Expected
from minihlo.interp.oracle.formats import FORMATS

from ..dialects import is_registered
from .models import FAULTS
from .registry import ACCURACY

_MARKS = {identifier: mark for mark, identifier in IDENTIFIERS.items()}


@dataclasses.dataclass(frozen=True)
class Cause:
    """One reason for differences of some peers."""

    name: str
    peers: tuple[str, ...]
    kind: str  #: one of `registry.KINDS`
    title: str
    why: str
    faults: tuple[str, ...] = ()  #: fault models by identifier: the results of one of them
    gives: str = ""  #: "nan": only of results that are NaN where the right ones are not
    points: tuple[str, ...] = ()  #: open points by identifier: where one of them is marked
    choices: tuple[str, ...] = ()  #: and one of these choices is made; any, if there are none
    ops: tuple[str, ...] = ("*",)
    functions: bool = False
    operands: tuple[str, ...] = ("*",)
    results: tuple[str, ...] = ("*",)

    def applies(self, peer: str, case: OpCase) -> bool:
        """Whether the cause applies to a case."""
        return (
            peer in self.peers
            and (not self.functions or case.op in FUNCTIONS)
            and _is_one(case.op, self.ops)
            and _is_one(case.operands[0], self.operands)
            and _is_one(case.result, self.results)
        )

    def explains(self, case: OpCase, operands: Operands, expected: Expected, got: np.ndarray) -> np.ndarray:
        """Tests which results the cause gives."""
        hit = np.zeros(got.shape, bool)
        for name in self.faults:
            with np.errstate(all="ignore"):
                result = FAULTS[name].compute(case, operands)
            if result is not None:
                hit |= equal_codes(case.result, result, got)
        for point in self.points:
            at = np.flatnonzero(expected.left_open == _MARKS[point])
            if at.size:
                made = classify(_MARKS[point], case.result, got[at], expected.codes[at])
                known = [i for i, c in enumerate(CHOICES[_MARKS[point]]) if c.identifier in self.choices]
                hit[at] |= np.isin(made, known) if self.choices else made >= 0
        if case.result in FORMATS and (self.gives == "nan" or self.kind == ACCURACY):
            fmt = FORMATS[case.result]
            is_nan, is_nan_right = fmt.is_nan(got), fmt.is_nan(expected.codes)
            hit &= (is_nan & ~is_nan_right) if self.gives == "nan" else ~is_nan & ~is_nan_right
        return hit


@dataclasses.dataclass(frozen=True)
class Absence:
    """A group of cases for which a peer gives no result."""

    peer: str
    cases: tuple[str, ...]  #: patterns of signatures
    what: str
    why: str


def _is_one(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)


def _record(kind: type, data: dict) -> object:
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in data.items()})


_DATA = tomllib.loads((Path(__file__).parent / "causes.toml").read_text())
#: By name, in the order in which they are tried.
CAUSES: dict[str, Cause] = {d["name"]: _record(Cause, d) for d in _DATA["causes"]}  # pyright: ignore[reportAssignmentType]

#: Ops of the tester that numpy, or the StableHLO of this jaxlib, does not have.
_NOT_IN_NUMPY = tuple(op for op in OPS if op not in NUMPY)
_UNKNOWN = tuple(op for op in OPS if not is_registered(f"stablehlo.{op}"))


def _absences() -> Iterator[Absence]:
    yield from (_record(Absence, d) for d in _DATA["absences"])  # pyright: ignore[reportReturnType]
    patterns = (*(f"{op}.*" for op in _NOT_IN_NUMPY), "compare_*_TOTALORDER.*")
    what = f"{', '.join(_NOT_IN_NUMPY)}, and compare with TOTALORDER"
    yield Absence("ml_dtypes", patterns, what, "numpy has no such function.")
    for peer in ("xla", "reference") if _UNKNOWN else ():
        patterns = tuple(f"{op}.*" for op in _UNKNOWN)
        yield Absence(peer, patterns, ", ".join(_UNKNOWN), "The StableHLO of this jaxlib has no such op.")


ABSENCES: tuple[Absence, ...] = tuple(_absences())


def absence_of(peer: str, signature: str) -> Absence | None:
    """The absence that a case belongs to on a peer, if it is known to give no result."""
    return next((a for a in ABSENCES if a.peer == peer and _is_one(signature, a.cases)), None)


def assign(
    peer: str, case: OpCase, operands: Operands, expected: Expected, got: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """The causes of a peer's differences, each with the indices it explains; "" for unexplained ones."""
    left = np.flatnonzero(~equal_codes(case.result, got, expected.codes))
    for cause in CAUSES.values():
        if not left.size:
            return
        if cause.applies(peer, case):
            hit = cause.explains(case, tuple(x[left] for x in operands), expected.at(left), got[left])
            if hit.any():
                yield cause.name, left[hit]
            left = left[~hit]
    if left.size:
        yield "", left
