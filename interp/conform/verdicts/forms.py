"""Compares the forms of a case: finds an op that fails only in some of them."""

from __future__ import annotations

from collections.abc import Sequence

from ...judging.diagnosis import TAIL, of_sizes, of_start, of_tail
from ...judging.groups import group
from ...judging.record import NONE, Diagnosis
from ...judging.table import cause
from ..cases.forms import FORMS, SIZES
from ..repeats import INTERMITTENT
from ..result import ACCURACY, DIVERGENT, FAIL, PASS, CaseResult
from .outcome import add_diagnosis

_ONLY_IN_FORMS = "only-in-forms"
#: Sentences for failures in some forms alone: in all of these or fewer, with the first among them.
_ONLY = (
    (("constant",), "only as constants, which are folded"),
    (("scalar",), "only with a scalar constant that is broadcast"),
    (("broadcast",), "only with a scalar that is broadcast"),
    (("chain",), "only before another op"),
    (("upcast",), "only before a conversion to f32"),
    (("unaligned",), "only in an unaligned slice"),
    (("rank-0",), "only in arrays without dimensions"),
    (("rank-2",), "only in arrays of two dimensions"),
    (("rank-3",), "only in arrays of three dimensions"),
    (("transposed",), "only with operands that are transposed"),
    (("reversed",), "only with operands that are reversed"),
    (("sliced",), "only with operands that are slices of every second row and column"),
    (("rows",), "only with operands that are rows, broadcast"),
    (("columns",), "only with operands that are columns, broadcast"),
    (("broadcast", "scalar"), "only with a scalar that is broadcast"),
    (("rows", "columns", "broadcast", "scalar"), "only with operands that are broadcast"),
    (("rank-2", "transposed", "reversed", "sliced", "rows", "columns"), "only in arrays of two dimensions"),
    (("rank-2", "rank-3", "transposed", "reversed", "sliced", "rows", "columns"),
     "only in arrays of several dimensions"),
    (("reversed", "sliced", "transposed"), "only with operands whose memory layout differs from their order"),
)  # fmt: skip


def across_forms(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """Adds to each failing case the forms in which its op fails, if those are not all."""
    by_signature = group(cases, lambda c: c.signature)
    return [_with_forms(case, by_signature[case.signature]) if case.verdict == FAIL else case for case in cases]


#: The causes of failures at the end of one array.
_TAILS = frozenset(of_tail(n).causes for n in range(1, TAIL + 1))


def _of_sizes(alike: Sequence[CaseResult]) -> Diagnosis:
    """Combines position-dependent failures in arrays of several sizes."""
    # An array of all operands ends with NaN, which may hide a fault.
    sized = [c for c in alike if (c.form == "array" and c.is_of_places) or (c.form in SIZES and c.form != "unaligned")]
    sized = [c for c in sized if c.verdict in (PASS, DIVERGENT, ACCURACY, FAIL)]
    tails = [_tail_of(c) for c in sized]
    if not any(c.is_of_places or tuple(c.causes) in _TAILS for c in sized) or None in tails:
        return NONE
    return of_sizes({c.total: tail for c, tail in zip(sized, tails, strict=True) if tail is not None})


def _tail_of(case: CaseResult) -> int | None:
    """The number of failing elements at the end of an array; None if others fail."""
    wrong = case.counts.get(FAIL, 0)
    first = next((f.index for f in case.failures if f.verdict == FAIL), -1)
    if not wrong:
        return 0
    tail = case.total - first
    ends = of_start(first).causes, of_tail(tail).causes
    return tail if wrong == tail or tuple(case.causes) in ends else None


def _with_forms(case: CaseResult, alike: Sequence[CaseResult]) -> CaseResult:
    if case.form not in FORMS or case.causes[:1] == [INTERMITTENT] or len(alike) == 1:
        return case
    failing = [c.form for c in alike if c.verdict == FAIL]
    right = [c.form for c in alike if c.verdict in (PASS, DIVERGENT, ACCURACY)]
    if (case.form == "chain" or case.total == 1) and not case.diagnosis and "array" in failing:
        return _as(case, next(c for c in alike if c.form == "array"))
    in_array = next((c for c in alike if c.form == "array" and c.verdict == FAIL and not c.is_of_places), None)
    if in_array and case is not in_array and not case.is_of_places and tuple(case.causes) in _TAILS:
        return _as(case, in_array)  # failures anywhere, which are at the end by chance
    placed = next((c for c in alike if c.is_of_places), None)
    if placed is not None and placed.diagnosis and case.form in ("scalar", "broadcast"):
        return _as(case, placed)  # its arrays are short, and made of pieces
    of_all = _of_sizes(alike)
    if of_all and (case.form in SIZES or case.is_of_places) and _tail_of(case):
        return add_diagnosis(case, of_all)
    words = _only(failing) if "array" in right else ""
    if not words or case.causes[:1] == [_ONLY_IN_FORMS]:
        return case
    before = cause(_ONLY_IN_FORMS, where=words)
    return add_diagnosis(case, before.join(Diagnosis(case.diagnosis, tuple(case.causes)), ": "))


def _as(case: CaseResult, other: CaseResult) -> CaseResult:
    return add_diagnosis(case, Diagnosis(other.diagnosis, tuple(other.causes)))


def _only(failing: Sequence[str]) -> str:
    """The only forms in which a case fails, in words."""
    if found := next((words for of, words in _ONLY if of[0] in failing and set(failing) <= set(of)), ""):
        return found
    is_sized = all(f in SIZES for f in failing)
    return f"only in arrays of {', '.join(str(SIZES[f]) for f in failing)}" if is_sized else ""
