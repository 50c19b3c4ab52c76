"""Runs the conformance tester's cases on the peers and makes rows of the differences, each with its cause."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from minihlo.interp.backends import BackendError
from minihlo.interp.conform.cases import data
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.tester import Tester
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.judging.equality import FAR, signed_steps
from minihlo.interp.oracle.expected import Expected
from minihlo.interp.oracle.formats import FORMATS, INTEGERS, MINIFLOATS

from .causes import CAUSES, Absence, absence_of, assign
from .peers import PEERS, backend_of
from .registry import ACCURACY
from .table import Row

#: The cases of the tester whose operands are enumerated: its first level, in the form of plain arrays.
_LEVEL, _FORM, _SEED = 1, "array", 0


@dataclasses.dataclass(frozen=True)
class Differences:
    """The rows of a comparison, and the cases without a result of a peer, or with an unexpected one."""

    rows: tuple[Row, ...]
    missing: tuple[str, ...]


def list_cases() -> list[Case]:
    """The elementwise cases that peers are compared on."""
    left_out = ("type", "chain", "select", "clamp")
    return [c for c in cases(_LEVEL) if c.has_elements and c.op not in left_out and _is_wanted(c)]


def _is_wanted(case: Case) -> bool:
    """Among conversions those of minifloats, and those to f16 and bf16 from 64 bits."""
    if case.op != "convert":
        return True
    types = case.operands[0], case.result
    if not any(t in MINIFLOATS for t in types):
        return case.result in ("f16", "bf16") and types[0] in ("f64", "i64")
    return not any(t in INTEGERS and t not in ("i8", "ui8", "i32") for t in types)


def part_of(case: Case) -> Part:
    """A case with its operands: all codes, all pairs of codes; for wide types those at and near boundaries."""
    return Part(case, _FORM, data.operands(case, _FORM, _LEVEL, _SEED))


def compare(
    chosen: Iterable[Case] | None = None, peers: Sequence[str] = (), started: dict[str, Any] | None = None
) -> Differences:
    """Compare peers on cases.

    Args:
        chosen: all of `compared` by default.
        peers: the names of some peers; all by default.
        started: backends by the name of the peer, in the place of its own.
    """
    wanted = list_cases() if chosen is None else list(chosen)
    rows: list[Row] = []
    missing: list[str] = []
    for name in peers or PEERS:
        mine = [c for c in wanted if fnmatch.fnmatchcase(c.signature, PEERS[name].cases)]
        tester = Tester((started or {}).get(name) or backend_of(name), Settings(name))
        missing += _try_absences(name, tester, mine)
        for some in _together(mine):
            there = [c for c in some if absence_of(name, c.signature) is None]
            parts = [part_of(c) for c in there]
            for part, got in zip(parts, tester.results(parts), strict=True):
                if isinstance(got, BackendError):
                    missing.append(f"{name} {part.case.signature}: expected a result, got none: {got}")
                else:
                    rows += _rows(name, part, got)
    return Differences(tuple(sorted(rows, key=Row.order)), tuple(missing))


def _try_absences(peer: str, tester: Tester, mine: Sequence[Case]) -> Iterator[str]:
    """The outdated absences: one case of each is tried."""
    tried: set[Absence] = set()
    for case in mine:
        absence = absence_of(peer, case.signature)
        if absence is not None and absence not in tried:
            tried.add(absence)
            if not isinstance(tester.results([part_of(case)])[0], BackendError):
                yield f"{peer} {case.signature}: expected no result, got one"


def _together(wanted: Sequence[Case]) -> Iterator[list[Case]]:
    """Cases with the same operands, which run in one program."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in wanted:
        groups.setdefault(case.operands, []).append(case)
    yield from groups.values()


def _rows(peer: str, part: Part, got: np.ndarray) -> Iterator[Row]:
    case, expected = part.case, part.expected
    got = got.astype(expected.codes.dtype, copy=False)
    for name, places in assign(peer, case, part.arrays, expected, got):
        first = places[0]
        is_near = name and CAUSES[name].kind == ACCURACY
        yield Row(
            peer,
            case.name,
            case.operands[0],
            case.result,
            name,
            len(places),
            tuple(int(x[first]) for x in part.arrays),
            int(got[first]),
            int(expected.codes[first]),
            _farthest(case.result, expected.at(places), got[places]) if is_near else 0,
        )


def _farthest(element: str, expected: Expected, got: np.ndarray) -> int:
    _, steps = signed_steps(FORMATS[element], got, expected.codes, np.zeros(got.shape, bool))
    if (steps == FAR).any():
        raise ValueError("expected a number of ULP of what is a matter of accuracy, got NaN for a number")
    return int(steps.max())
