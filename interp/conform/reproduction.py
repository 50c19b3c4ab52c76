"""Finds the smallest input that reproduces a failure: its operands, a vector, the whole array, or ops beside it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..backends import BackendError
from ..judging import open_points as choices
from ..judging.record import NEAR, NONE, Diagnosis
from ..judging.table import cause
from .elementwise import Part, of_positions
from .repeats import AnyPart, Evidence
from .result import CaseResult
from .verdicts import diagnosis, outcome
from .verdicts.judge import Judgement
from .verdicts.outcome import Settings

if TYPE_CHECKING:
    from .tester import Tester

#: A part with FAIL or ACCURACY: its index, its verdicts, and the given codes.
Failing = tuple[int, Part, Judgement, np.ndarray]

Some = TypeVar("Some", list[AnyPart], np.ndarray)

#: Number of elements of a kind that establish the backend's rule, against one that departs from it.
_ENOUGH = 4
#: Number of copies of an element that make a vector.
_VECTOR = 64
#: Limits of a program, so that none takes long.
MOST_CASES, MOST_ELEMENTS = 48, 1 << 22


def add_explanations(
    tester: Tester,
    parts: Sequence[AnyPart],
    failing: Sequence[Failing],
    cases: Mapping[int, CaseResult],
    evidence: Mapping[int, Evidence],
) -> Iterator[tuple[int, CaseResult]]:
    """Adds a diagnosis to failing cases, and a command that is known to reproduce the first failure.

    `evidence` is from further runs of some of them, by their indices among the parts.
    """
    firsts = [cases[i].failures[0].index for i, *_ in failing]
    chosen = [_places(part, judged, at) for at, (_, part, judged, _) in zip(firsts, failing, strict=True)]
    few = [part.restrict(places) for places, (_, part, _, _) in zip(chosen, failing, strict=True)]
    results = tester.results(few) if tester.settings.can_repeat else [None] * len(few)
    for (i, part, judged, got), places, some, repeated in zip(failing, chosen, few, results, strict=True):
        shown = evidence.get(i)
        why = diagnosis.explain(part, judged, got, shown)
        result = outcome.add_diagnosis(cases[i], why)
        if shown is not None and shown.diagnosis():
            again = _again(tester.settings, part)
            yield i, dataclasses.replace(result, is_of_places=shown.is_of_places, **again)
            continue
        how, again = _reproduce(tester, part, parts, places, got, some, repeated)
        yield i, dataclasses.replace(outcome.add_diagnosis(result, why.join(how)), **again)


def _places(part: Part, judged: Judgement, at: int) -> np.ndarray:
    """The index of a failure; if it is one only by comparison with the backend's other results, with some of those."""
    point = part.expected.left_open[at]
    if point not in choices.RULED or part.form in ("scalar", "broadcast"):
        return np.array([at])
    alike = np.flatnonzero((part.expected.left_open == point) & (judged.verdicts < NEAR))
    middle = alike[len(alike) // 2 : len(alike) // 2 + 1]  # for conversions none at the ends of the range
    return np.append(at, np.repeat(middle, _ENOUGH))


def _reproduce(
    tester: Tester, part: Part, parts: Sequence[AnyPart], places: np.ndarray, got: np.ndarray, few: Part, repeated: Any
) -> tuple[Diagnosis, dict[str, Any]]:
    """Finds what is needed to reproduce the failure at the first of `places`, if more than those, and the command.

    `few` is the part at the places, and `repeated` the backend's results for it.
    """
    at, limit = int(places[0]), tester.settings.ulp
    if not tester.settings.can_repeat:
        return NONE, _again(tester.settings, part, tester.settings.operands)
    if not of_positions(part.form):
        others = [outcome.operands_text(part, int(places[1]), len(places) - 1)] if len(places) > 1 else []
        if _repeats(few, repeated, got[at], limit):
            return NONE, _again(tester.settings, few, [outcome.operands_text(part, at), *others])
        many = part.restrict(np.full(_VECTOR, at))  # a vector of copies may behave differently
        if _repeats(many, tester.results([many])[0], got[at], limit):
            return cause("only-in-arrays"), _again(tester.settings, many, [outcome.operands_text(part, at, _VECTOR)])
    if tester.kind == "operations" or _repeats(part, tester.results([part])[0], got[at], limit):
        return NONE if of_positions(part.form) else cause("only-in-whole-array"), _again(tester.settings, part)
    beside = [f"{p.case.signature}:{p.form}" for p in _company(tester, part, parts, got[at])]
    return cause("only-with-other-ops"), _again(tester.settings, part, beside=beside)


def _company(tester: Tester, part: Part, parts: Sequence[AnyPart], wrong: np.ndarray) -> list[AnyPart]:
    """As few as can be found of the cases without which, in the same program, a case does not fail."""
    batch = next(b for b in batches(parts) if part in b)

    def fails(others: list[AnyPart]) -> bool:
        results = tester.batch([part, *others], tester.settings.timeout)
        return _repeats(part, results[0], wrong, tester.settings.ulp)

    return halve([p for p in batch if p is not part], fails)


def halve(items: Some, fails: Callable[[Some], bool], tries: int = sys.maxsize) -> Some:
    """As few of some items, a sequence or an array, as halving finds that fail like all of them."""
    while len(items) > 1 and (tries := tries - 1) >= 0:
        half = len(items) // 2
        smaller = next((some for some in (items[:half], items[half:]) if fails(some)), None)
        if smaller is None:
            break
        items = smaller
    return items


def _again(settings: Settings, part: Part, operands: Sequence[str] = (), beside: Sequence[str] = ()) -> dict[str, Any]:
    """The reproduction of a failure: the command, and a program if it is not too long."""
    command = outcome.command(part.case, part.form, settings, operands, beside)
    if part.size > 4 * _VECTOR:
        return {"command": command}
    text, inputs = outcome.as_program(part)
    return {"command": command, "program": text, "inputs": inputs}


def _repeats(part: Part, repeated: Any, wrong: np.ndarray, limit: int) -> bool:
    """Whether a wrong result occurs again."""
    if isinstance(repeated, BackendError):
        return False
    judged, codes = part.judge(repeated, limit, False)
    return bool(((codes == wrong) & (judged.verdicts >= NEAR)).any())


def batches(parts: Sequence[AnyPart]) -> Iterator[list[AnyPart]]:
    """Groups parts by program."""
    batch: list[AnyPart] = []
    elements = 0
    for part in parts:
        if batch and (len(batch) >= MOST_CASES or elements + part.size > MOST_ELEMENTS):
            yield batch
            batch, elements = [], 0
        batch.append(part)
        elements += part.size
    if batch:
        yield batch
