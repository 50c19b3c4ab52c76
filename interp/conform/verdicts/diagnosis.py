"""What failing results have in common, in one sentence: where they stand, a fault that explains them, or what they are.

A fault is named when it gives the very results that the backend gave (suspects.py); else the failing elements are
looked at: one code, one kind of number, one kind of error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..cases.cases import FORMS, SIZES
from ..cases.exact import estimate, evaluate
from ..cases.formats import FORMATS, Format
from ..cases.rounding import NEGATIVE, Exact, encode
from ..elementwise import Part, of_positions
from ..repeats import Evidence
from ..result import ACCURACY, DIVERGENT, FAIL, PASS, CaseResult
from ..rows import RowPart
from ..words import code_text, value_text
from . import orders, places
from .judge import ELEMENT_VERDICTS, Judged
from .suspects import Suspect, suspects

#: How many elements are looked at.
_SAMPLE = 4096
#: How many elements at the end of an array make a tail, of an array of at least so many: of few it may be chance.
_TAIL, _LONG = 16, 64


def explain(part: Part, judged: Judged, got: np.ndarray, evidence: Evidence | None = None) -> str:
    """What the failing elements have in common; of a case without FAIL those of ACCURACY.

    `evidence` is what further runs have shown: whether they fail for where they stand, or now and then.
    """
    for verdict in (FAIL, ACCURACY):
        failing = np.flatnonzero(judged.verdicts == ELEMENT_VERDICTS.index(verdict))
        if failing.size:
            break
    else:
        return ""
    if of_positions(part.form) and part.size == 1:
        return ""  # there are many ways to one wrong code
    in_doubt = evidence is None or (evidence.moved is None and not evidence.is_intermittent)
    if in_doubt and (tail := _tail(part, failing)):
        return tail
    if evidence is not None and (told := evidence.told()):
        always = evidence.always
        if not evidence.is_intermittent or always is None or not always.any():
            return told
        of_operands = _of_operands(part, judged, got, np.flatnonzero(always))
        return "; ".join(filter(None, (of_operands, f"some are {told}")))
    return _of_operands(part, judged, got, failing)


def _of_operands(part: Part, judged: Judged, got: np.ndarray, failing: np.ndarray) -> str:
    """What the operands and results of failing elements have in common."""
    if part.form == "upcast" and (judged.distances[failing] == 0).all():
        return "the result is not rounded to the format before it is converted to f32"
    if part.form == "chain":
        return _unrounded(part, got, failing)
    at = failing if len(failing) <= _SAMPLE else failing[np.linspace(0, len(failing) - 1, _SAMPLE).astype(np.intp)]
    spared = judged.verdicts == ELEMENT_VERDICTS.index(PASS)
    without_sign = (part.expected.left_open == NEGATIVE) & (judged.right != part.expected.codes)
    spared |= without_sign & (got == judged.right)  # a fault has to explain these too
    found = _by_faults(part, judged, got, at, np.flatnonzero(spared & _alike(part, at)))
    if not found and of_positions(part.form) and 0 < part.size - len(failing) == failing[0]:
        return ""  # it may be their place at the end that is wrong, and not what they are
    return found or next(_common(part, judged, got, at), "")


def _alike(part: Part, failing: np.ndarray) -> np.ndarray:
    """The elements among which a fault should be told from none: with a scalar on the same side as the failing ones."""
    everywhere = np.ones(part.size, bool)
    if part.form not in ("scalar", "broadcast"):
        return everywhere
    first = np.arange(part.size) < part.size // 2
    if first[failing].all() or not first[failing].any():
        return first == first[failing[0]]
    return everywhere


# -- places ------------------------------------------------------------------------------------------------------------


def _tail(part: Part, failing: np.ndarray) -> str:
    """Whether only the last elements fail, in a form whose elements stand in no order."""
    n = part.size - int(failing[0])
    if not of_positions(part.form) or n > _TAIL or part.size < _LONG or len(failing) != n:
        return ""
    return places.of_tail(n)


def _unrounded(part: Part, got: np.ndarray, failing: np.ndarray) -> str:
    """Whether the second op has had the first one's result before it was rounded."""
    op, fmt = part.case.op, FORMATS[part.case.result]
    if part.case.operands[0] != part.case.result:
        return ""
    numbers = [FORMATS[t].decode(x[failing]) for t, x in zip(part.case.operands, part.operands, strict=True)]
    with np.errstate(all="ignore"):
        wide = estimate(op, *numbers)
        for name in ("f64", "f32", "f16", "bf16"):
            between = wide if name == "f64" else FORMATS[name].decode(encode(FORMATS[name], Exact.of(wide))[0])
            codes = evaluate("subtract", fmt, between, numbers[0])[0]
            if _same(part.case.result, codes, got[failing]).all():
                return "the result is not rounded to the format before the next op" + (
                    f", but to {name}" if name != "f64" else ""
                )
    return ""


# -- faults ------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Found:
    """A fault that gives the results of some failing elements, and of no element another result than the backend."""

    suspect: Suspect
    hit: np.ndarray


def _by_faults(part: Part, judged: Judged, got: np.ndarray, failing: np.ndarray, rest: np.ndarray) -> str:
    """The faults that give the results of the failing elements: one, or some that do together.

    A fault has to give the backend's result wherever it gives another one than the right one, and the right one
    wherever the backend does.
    """
    found: list[_Found] = []
    left_open = part.expected.left_open
    with np.errstate(all="ignore"):
        for suspect in suspects(part.case, part.to_integers[0]):
            hit = _hits(suspect, part, judged, got, failing)
            if hit is None or hit.sum() < suspect.least:
                continue
            if suspect.least > 1 and len(np.unique(got[failing][hit])) < 2:
                continue
            # What is left open about others is nothing that the fault has to do with.
            points = np.unique(np.append(left_open[failing][hit], 0))
            spared = rest[np.isin(left_open[rest], points)]
            few = spared[np.linspace(0, len(spared) - 1, min(len(spared), _SAMPLE)).astype(np.intp)]
            if _spares(suspect, part, got, few) and (len(few) == len(spared) or _spares(suspect, part, got, spared)):
                found.append(_Found(suspect, hit))
    left, told = np.ones(len(failing), bool), []
    while left.any() and found and len(told) < 3:
        best = max(found, key=lambda f: int((f.hit & left).sum()))
        count = int((best.hit & left).sum())
        if count < max(1, len(failing) // 50):
            break
        told.append((count, best.suspect.sentence))
        left &= ~best.hit
    if not told or left.mean() > 0.5:
        return ""
    if len(told) == 1 and not left.any():
        return told[0][1]
    share = [f"{sentence} ({n:,} of {len(failing):,})" for n, sentence in told]
    return "; ".join([*share, *([f"something else ({int(left.sum()):,})"] if left.any() else [])])


def _hits(suspect: Suspect, part: Part, judged: Judged, got: np.ndarray, failing: np.ndarray) -> np.ndarray | None:
    """Which failing elements a fault explains; None where it gives a wrong result that is not the backend's."""
    given = suspect.compute(part.case, tuple(x[failing] for x in part.operands))
    if given is None:
        return None
    result = part.case.result
    hit = _same(result, given, got[failing])
    is_right = _same(result, given, judged.right[failing])
    return hit if hit.any() and (hit | is_right).all() else None


def _spares(suspect: Suspect, part: Part, got: np.ndarray, rest: np.ndarray) -> bool:
    """Whether a fault leaves all elements alone that are right."""
    if not len(rest):
        return True
    given = suspect.compute(part.case, tuple(x[rest] for x in part.operands))
    return given is None or bool(_same(part.case.result, given, got[rest]).all())


def _same(result: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    equal = a == b
    if result in FORMATS:
        equal |= FORMATS[result].is_nan(a) & FORMATS[result].is_nan(b)
    return equal


# -- what they are -----------------------------------------------------------------------------------------------------

_KINDS: tuple[tuple[str, Callable[[Format, np.ndarray], np.ndarray]], ...] = (
    ("NaN", lambda fmt, codes: fmt.is_nan(codes)),
    ("infinite", lambda fmt, codes: np.isinf(fmt.decode(codes))),
    ("zero", lambda fmt, codes: fmt.decode(codes) == 0),
    ("subnormal", lambda fmt, codes: fmt.is_subnormal(codes)),
    ("the largest number", lambda fmt, codes: np.abs(fmt.decode(codes)) == fmt.max),
    ("negative", lambda fmt, codes: np.signbit(fmt.decode(codes)) & ~fmt.is_nan(codes)),
)


def _common(part: Part, judged: Judged, got: np.ndarray, at: np.ndarray) -> Iterator[str]:
    """What all of them share, the most telling first."""
    case = part.case
    names = (
        ["the operand"] if len(part.operands) == 1 else ["the first operand", "the second operand", "the third operand"]
    )
    of_floats = [(n, t, x) for n, t, x in zip(names, case.operands, part.operands, strict=False) if t in FORMATS]
    for name, t, x in of_floats:
        codes = np.unique(x[at])
        if len(codes) == 1 and len(np.unique(x)) > 1:
            yield f"only where {name} is {code_text(int(codes[0]), t)} ({value_text(int(codes[0]), t)})"
    for words, test in _KINDS:
        hits = [test(FORMATS[t], x[at]) for _, t, x in of_floats]
        if hits and np.logical_and.reduce(hits).all():
            yield f"all failing operands are {words}"
        if hits and np.logical_or.reduce(hits).all():
            yield f"in all failures an operand is {words}"
    if len(got) > 1 and (got == got[0]).all():
        yield f"every result is {code_text(int(got[0]), case.result)}, whatever the operands"
    if case.result not in FORMATS:
        return
    fmt, right = FORMATS[case.result], judged.right[at]
    values, wrong = fmt.decode(right), fmt.decode(got[at])
    if fmt.is_none(got[at]).all():
        yield f"all wrong results are no codes of {case.result}"
    for words, test in _KINDS:
        if test(fmt, got[at]).all():
            yield f"all wrong results are {words}"
        if test(fmt, right).all():
            yield f"all wrong results should be {words}"
    if (np.abs(wrong) == np.abs(values)).all():
        yield "only the sign is wrong"
    with np.errstate(all="ignore"):
        ratio = np.unique(wrong / values)
    if len(ratio) == 1 and np.isfinite(ratio[0]):
        yield f"every wrong result is {ratio[0]:g} times what it should be"
    if (judged.distances[at] == 1).all():
        larger = np.abs(wrong) > np.abs(values)
        which = "too large" if larger.all() else "too small" if not larger.any() else "off"
        yield f"each is one ULP {which}"


# -- rows --------------------------------------------------------------------------------------------------------------


def explain_rows(part: RowPart, judged: Judged, got: np.ndarray) -> str:
    """What the rows have in common whose extremes or orders are wrong."""
    fmt = FORMATS[part.case.operands[0]]
    is_sort = part.case.op == "sort"
    rows = part.arrays[0] if is_sort else part.terms[0]
    verdicts = judged.verdicts == ELEMENT_VERDICTS.index(FAIL)
    fails = verdicts.reshape(len(rows), -1).any(axis=1)
    if not fails.any():
        return ""
    if is_sort and (told := orders.told(fmt, rows, got.reshape(rows.shape))):
        return told
    zeros = fmt.decode(rows) == 0
    negative = (rows & np.array(fmt.sign_bit, rows.dtype)) != 0
    tests = [
        ("NaN", fmt.is_nan(rows).any(axis=1)),
        ("zeros of both signs", (zeros & negative).any(axis=1) & (zeros & ~negative).any(axis=1)),
        ("subnormal numbers", fmt.is_subnormal(rows).any(axis=1)),
        ("numbers that f16 has as subnormal ones", (np.abs(fmt.decode(rows)) < 2.0**-14).any(axis=1)),
    ]
    tests.insert(2, ("NaN, or zeros of both signs", tests[0][1] | tests[1][1]))
    return next((f"only rows with {what}" for what, has in tests if has[fails].all() and not has.all()), "")


# -- across the forms of a case ----------------------------------------------------------------------------------------

_ONLY = {
    "constant": "only as constants, which are folded",
    "scalar": "only with a scalar constant that is broadcast",
    "broadcast": "only with a scalar that is broadcast",
    "chain": "only before another op",
    "upcast": "only before a conversion to f32",
    "unaligned": "only in an unaligned slice",
    "rank-0": "only in arrays without dimensions",
    "rank-2": "only in arrays of two dimensions",
    "rank-3": "only in arrays of three dimensions",
    "transposed": "only with operands that are transposed",
    "reversed": "only with operands that are reversed",
    "sliced": "only with operands that are slices of every second row and column",
    "rows": "only with operands that are rows, broadcast",
    "columns": "only with operands that are columns, broadcast",
}
#: The same of several forms: each sentence is for failures in these forms, with the first among them.
_ONLY_TOGETHER = (
    (("broadcast", "scalar"), "only with a scalar that is broadcast"),
    (("rows", "columns", "broadcast", "scalar"), "only with operands that are broadcast"),
    (("rank-2", "transposed", "reversed", "sliced", "rows", "columns"), "only in arrays of two dimensions"),
    (
        ("rank-2", "rank-3", "transposed", "reversed", "sliced", "rows", "columns"),
        "only in arrays of several dimensions",
    ),
    (("reversed", "sliced", "transposed"), "only with operands that do not lie in memory as they are read"),
)


def across_forms(cases: Sequence[CaseResult]) -> list[CaseResult]:
    """Says of each failing case in which forms its op fails, where that is not in all."""
    by_signature: dict[str, list[CaseResult]] = {}
    for case in cases:
        by_signature.setdefault(case.signature, []).append(case)
    return [_with_forms(case, by_signature[case.signature]) if case.verdict == FAIL else case for case in cases]


#: What is said of the end of one array.
_TAILS = frozenset(places.of_tail(n) for n in range(1, _TAIL + 1))


def _of_sizes(alike: Sequence[CaseResult]) -> str:
    """What arrays of several sizes say together of elements that fail for where they stand."""
    # An array of all operands ends with NaN, in which a fault may not show.
    sized = [c for c in alike if (c.form == "array" and c.is_of_places) or (c.form in SIZES and c.form != "unaligned")]
    sized = [c for c in sized if c.verdict in (PASS, DIVERGENT, ACCURACY, FAIL)]
    tails = [_tail_of(c) for c in sized]
    if not any(c.is_of_places or c.diagnosis in _TAILS for c in sized) or None in tails:
        return ""
    return places.of_sizes({c.total: tail for c, tail in zip(sized, tails, strict=True) if tail is not None})


def _tail_of(case: CaseResult) -> int | None:
    """How many elements at the end of an array fail; None where others fail."""
    wrong = case.counts.get(FAIL, 0)
    first = next((f.index for f in case.failures if f.verdict == FAIL), -1)
    if not wrong:
        return 0
    tail = case.total - first
    return tail if wrong == tail or case.diagnosis in (places.of_start(first), places.of_tail(tail)) else None


def _with_forms(case: CaseResult, alike: Sequence[CaseResult]) -> CaseResult:
    if case.form not in FORMS or case.diagnosis.startswith("only in the form") or len(alike) == 1:
        return case
    failing = [c.form for c in alike if c.verdict == FAIL]
    right = [c.form for c in alike if c.verdict in (PASS, DIVERGENT, ACCURACY)]
    words = ""
    if case.diagnosis.startswith("intermittent"):
        return case
    if (case.form == "chain" or case.total == 1) and not case.diagnosis and "array" in failing:
        of_array = next(c.diagnosis for c in alike if c.form == "array")
        return dataclasses.replace(case, diagnosis=of_array)
    in_array = next((c for c in alike if c.form == "array" and c.verdict == FAIL and not c.is_of_places), None)
    if in_array and case is not in_array and not case.is_of_places and case.diagnosis in _TAILS:
        return dataclasses.replace(case, diagnosis=in_array.diagnosis)  # what fails anywhere, by chance at the end
    placed = next((c.diagnosis for c in alike if c.is_of_places), "")
    if placed and case.form in ("scalar", "broadcast"):  # whose arrays are short, and made of pieces
        return dataclasses.replace(case, diagnosis=placed)
    sentence = _of_sizes(alike)
    if sentence and (case.form in SIZES or case.is_of_places) and _tail_of(case):
        return dataclasses.replace(case, diagnosis=sentence)
    if "array" in right:
        together = (words for of, words in _ONLY_TOGETHER if of[0] in failing and set(failing) <= set(of))
        if len(failing) == 1 and failing[0] in _ONLY:
            words = _ONLY[failing[0]]
        elif all(f in _ONLY for f in failing):
            words = next(together, "")
        elif all(f in SIZES for f in failing):
            words = f"only in arrays of {', '.join(str(SIZES[f]) for f in failing)}"
    if not words or case.diagnosis.startswith(words):
        return case
    return dataclasses.replace(case, diagnosis=f"{words}: {case.diagnosis}" if case.diagnosis else words)


__all__ = ["across_forms", "explain", "explain_rows"]
