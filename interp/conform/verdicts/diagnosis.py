"""Describes failing results in one sentence: their positions, a fault that explains them, or a common property.

A fault is named if it reproduces the backend's results (judging.diagnosis). Otherwise the failing elements are
examined: one code, one kind of number, one kind of error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...judging.diagnosis import TAIL, Results, by_faults, of_tail
from ...judging.equality import equal_codes
from ...judging.faults import FAULTS, ROUNDINGS, faults_of
from ...judging.record import NEAR, NONE, SAME, WRONG, Diagnosis
from ...judging.sums.exact_sums import spread
from ...judging.sums.sum_faults import parts_of
from ...judging.table import cause
from ...oracle.exact import estimate, evaluate, total_order
from ...oracle.formats import FORMATS, Format
from ...oracle.rounding import NEGATIVE, Exact, encode
from ...oracle.sums import exact_products, exact_sums
from ..cases import chains
from ..elementwise import Part, of_positions
from ..format_text import code_text, number_text, value_text
from ..repeats import Evidence
from ..rows import RowPart
from .judge import Judgement

#: Number of elements examined.
_SAMPLE = 4096
#: In arrays of fewer elements failures at the end may be chance.
_LONG = 64


def explain(part: Part, judged: Judgement, got: np.ndarray, evidence: Evidence | None = None) -> Diagnosis:
    """Describes the failing elements; for a case without FAIL those of ACCURACY.

    `evidence` is from further runs: whether failures depend on positions, or are intermittent.
    """
    grades = (np.flatnonzero(judged.verdicts == grade) for grade in (WRONG, NEAR))
    failing = next((at for at in grades if at.size), None)
    if failing is None or (of_positions(part.form) and part.size == 1):  # one wrong code has many possible reasons
        return NONE
    in_doubt = evidence is None or (evidence.moved is None and not evidence.is_intermittent)
    if in_doubt and (tail := _tail(part, failing)):
        return tail
    if evidence is not None and (shown := evidence.diagnosis()):
        always = evidence.always
        if not evidence.is_intermittent or always is None or not always.any():
            return shown
        of_operands = _of_operands(part, judged, got, np.flatnonzero(always))
        return of_operands.join(Diagnosis(f"some are {shown.sentence}", shown.causes))
    return _of_operands(part, judged, got, failing)


def _of_operands(part: Part, judged: Judgement, got: np.ndarray, failing: np.ndarray) -> Diagnosis:
    """Describes failing elements by their operands and results."""
    if part.form == "upcast" and (judged.distances[failing] == 0).all():
        return cause("not-rounded-before-convert")
    if part.form == "chain":
        return _explain_unrounded(part, got, failing)
    at = spread(failing, _SAMPLE)
    spared = judged.verdicts == SAME
    without_sign = (part.expected.left_open == NEGATIVE) & (judged.right != part.expected.codes)
    spared |= without_sign & (got == judged.right)  # a fault has to explain these too
    found = _by_faults(part, judged, got, at, np.flatnonzero(spared & _alike(part, at)))
    if not found and of_positions(part.form) and 0 < part.size - len(failing) == failing[0]:
        return NONE  # the failures may be due to their positions at the end
    return found or next(_common(part, judged, got, at), NONE)


def _alike(part: Part, failing: np.ndarray) -> np.ndarray:
    """The elements that a fault must leave right: with a scalar those on the same side as the failing ones."""
    first = np.arange(part.size) < part.size // 2
    is_one_side = part.form in ("scalar", "broadcast") and (first[failing] == first[failing[0]]).all()
    return first == first[failing[0]] if is_one_side else np.ones(part.size, bool)


# -- positions ---------------------------------------------------------------------------------------------------------


def _tail(part: Part, failing: np.ndarray) -> Diagnosis:
    """Whether only the last elements fail, in a form whose elements have no order."""
    n = part.size - int(failing[0])
    if not of_positions(part.form) or n > TAIL or part.size < _LONG or len(failing) != n:
        return NONE
    return of_tail(n)


def _explain_unrounded(part: Part, got: np.ndarray, failing: np.ndarray) -> Diagnosis:
    """Whether the second op used the first one's result before it was rounded."""
    op, fmt = part.case.op, FORMATS[part.case.result]
    if part.case.operands[0] != part.case.result:
        return NONE
    numbers = [FORMATS[t].decode(x[failing]) for t, x in zip(part.case.operands, part.arrays, strict=True)]
    with np.errstate(all="ignore"):
        wide = estimate(op, *numbers)
        for name in ("f64", "f32", "f16", "bf16"):
            between = wide if name == "f64" else FORMATS[name].decode(encode(FORMATS[name], Exact.of(wide))[0])
            codes = evaluate("subtract", fmt, between, numbers[0])[0]
            if equal_codes(part.case.result, codes, got[failing]).all():
                instead = f", but to {name}" if name != "f64" else ""
                return cause("not-rounded-before-next", instead=instead)
    return NONE


def _by_faults(part: Part, judged: Judgement, got: np.ndarray, failing: np.ndarray, rest: np.ndarray) -> Diagnosis:
    """The faults that explain the failing elements (judging.diagnosis)."""
    way = part.to_integers[0]
    known = chains.faults_of(part.case) if part.case.op == "chain" else faults_of(part.case)
    results = Results(part.case, part.arrays, got, judged.right, part.expected.left_open, way)
    return by_faults(known, results, failing, rest)


# -- properties of elements --------------------------------------------------------------------------------------------

_KINDS: tuple[tuple[str, Callable[[Format, np.ndarray], np.ndarray]], ...] = (
    ("NaN", lambda fmt, codes: fmt.is_nan(codes)),
    ("infinite", lambda fmt, codes: np.isinf(fmt.decode(codes))),
    ("zero", lambda fmt, codes: fmt.decode(codes) == 0),
    ("subnormal", lambda fmt, codes: fmt.is_subnormal(codes)),
    ("the largest number", lambda fmt, codes: np.abs(fmt.decode(codes)) == fmt.max),
    ("negative", lambda fmt, codes: np.signbit(fmt.decode(codes)) & ~fmt.is_nan(codes)),
)


def _common(part: Part, judged: Judgement, got: np.ndarray, at: np.ndarray) -> Iterator[Diagnosis]:
    """Properties that all failing elements share, the most specific first."""
    case = part.case
    names = ["the operand"] if len(part.arrays) == 1 else [f"the {n} operand" for n in ("first", "second", "third")]
    of_floats = [(n, t, x) for n, t, x in zip(names, case.operands, part.arrays, strict=False) if t in FORMATS]
    for name, t, x in of_floats:
        codes = np.unique(x[at])
        if len(codes) == 1 and len(np.unique(x)) > 1:
            code = int(codes[0])
            yield cause("one-operand", name=name, code=f"{code_text(code, t)} ({value_text(code, t)})")
    for words, test in _KINDS:
        hits = [test(FORMATS[t], x[at]) for _, t, x in of_floats]
        if hits and np.logical_and.reduce(hits).all():
            yield cause("operands-alike", which="all failing operands are", what=words)
        if hits and np.logical_or.reduce(hits).all():
            yield cause("operands-alike", which="in all failures an operand is", what=words)
    if len(got) > 1 and (got == got[0]).all():
        yield cause("constant-result", result=code_text(int(got[0]), case.result))
    if case.result not in FORMATS:
        return
    fmt, right = FORMATS[case.result], judged.right[at]
    values, wrong = fmt.decode(right), fmt.decode(got[at])
    if fmt.is_none(got[at]).all():
        yield cause("no-codes", element=case.result)
    for words, test in _KINDS:
        if test(fmt, got[at]).all():
            yield cause("results-alike", what=words)
        if test(fmt, right).all():
            yield cause("expected-alike", what=words)
    if (np.abs(wrong) == np.abs(values)).all():
        yield cause("sign")
    with np.errstate(all="ignore"):
        ratio = np.unique(wrong / values)
    if len(ratio) == 1 and np.isfinite(ratio[0]):
        yield cause("factor", ratio=ratio[0])
    if (judged.distances[at] == 1).all():
        larger = np.abs(wrong) > np.abs(values)
        which = "too large" if larger.all() else "too small" if not larger.any() else "off"
        yield cause("one-ulp", which=which)


# -- rows --------------------------------------------------------------------------------------------------------------


def explain_rows(part: RowPart, judged: Judgement, got: np.ndarray) -> Diagnosis:
    """Describes the rows whose extremes or orders are wrong."""
    fmt = FORMATS[part.case.operands[0]]
    is_sort = part.case.op == "sort"
    rows = part.arrays[0] if is_sort else part.terms[0]
    verdicts = judged.verdicts == WRONG
    fails = verdicts.reshape(len(rows), -1).any(axis=1)
    if not fails.any():
        return NONE
    if is_sort and (why := _order_of_rows(fmt, rows, got.reshape(rows.shape))):
        return why
    zeros = fmt.decode(rows) == 0
    negative = (rows & np.array(fmt.sign_bit, rows.dtype)) != 0
    tests = [
        ("NaN", fmt.is_nan(rows).any(axis=1)),
        ("zeros of both signs", (zeros & negative).any(axis=1) & (zeros & ~negative).any(axis=1)),
        ("subnormal numbers", fmt.is_subnormal(rows).any(axis=1)),
        ("numbers that f16 has as subnormal ones", (np.abs(fmt.decode(rows)) < 2.0**-14).any(axis=1)),
    ]
    tests.insert(2, ("NaN, or zeros of both signs", tests[0][1] | tests[1][1]))
    what = next((what for what, has in tests if has[fails].all() and not has.all()), "")
    return cause("rows-alike", what=what) if what else NONE


def of_sums(part: RowPart, got: np.ndarray) -> Diagnosis:
    """The fault that explains all results of a sum: omitted terms, one result for all, or another rounding."""
    size = got & np.array(FORMATS[part.case.result].ones, got.dtype)
    if (size == 0).all():
        return cause("zeros")
    for note, kept in parts_of(part.terms[0].shape[1]):
        codes = encode(FORMATS[part.case.result], exact_sums(part.values[:, kept]))[0]
        if equal_codes(part.case.result, codes, got).all():
            return note
    return next((FAULTS[name].diagnosis() for name in _rounding_faults(part, got)), NONE)


def _rounding_faults(part: RowPart, got: np.ndarray) -> Iterator[str]:
    """The faults of rounding that reproduce all results of exact sums."""
    fmt, name = FORMATS[part.case.result], part.case.result
    form = exact_sums if part.body == "add" else exact_products
    with np.errstate(all="ignore"):
        sums = form(part.values)
    right, left_open = part.exact.codes, part.exact.left_open
    is_free = (left_open != 0) | ((part.values == 0).all(axis=1) & (fmt.decode(got) == 0))
    is_beyond = ~np.isnan(sums.value) & ~np.isfinite(fmt.decode(right))
    largest = (fmt.max_code | np.where(np.signbit(sums.value), fmt.sign_bit, 0)).astype(got.dtype)
    is_largest = is_beyond & (got == largest)
    if is_largest.any() and (is_largest | (~is_beyond & equal_codes(name, right, got)) | is_free).all():
        yield "saturated"
    for identifier, (rounding, _) in ROUNDINGS.items():
        codes = encode(fmt, sums, rounding)[0]
        if (equal_codes(name, codes, got) | is_largest | is_free).all():
            yield identifier


def _order_of_rows(fmt: Format, given: np.ndarray, got: np.ndarray) -> Diagnosis:
    """Diagnoses every row of a wrong sort; empty if there is no common property.

    Args:
        fmt: the format of the codes.
        given: the rows before they are sorted: codes [rows, n].
        got: the same rows after that.
    """
    if (np.sort(given, axis=1) != np.sort(got, axis=1)).any():
        return cause("sort-other-elements")
    numbers = fmt.decode(got)
    # NaN without sign is last, or first.
    first = np.isnan(numbers[:, :1])
    place = np.where(first, total_order(fmt, got, nan_first=True), total_order(fmt, got))
    if fmt.nan != "sign":  # all NaN of one sign are equal
        place = np.where(np.isnan(numbers), np.where(np.signbit(numbers), -1 << 32, 1 << 32), place)
    if (np.diff(place, axis=1) <= 0).all():
        return cause("sort-descending")
    signed = np.where(got & fmt.sign_bit != 0, got.astype(np.int64) - (fmt.ones + 1) * 2, got)
    for words, key in (("as unsigned integers", got.astype(np.int64)), ("as signed integers", signed)):
        if (np.diff(key, axis=1) >= 0).all():
            return cause("sort-codes", how=words)
    falls = np.diff(place, axis=1) < 0
    if not falls.any():
        return NONE
    left, right = numbers[:, :-1][falls], numbers[:, 1:][falls]
    if ((left == 0) & (right == 0)).all():
        return cause("sort-zeros-equal")
    if (np.isnan(left) | np.isnan(right)).any():
        return _of_nan(fmt, numbers, place)
    return _of_equals(numbers, left, right)


def _of_nan(fmt: Format, numbers: np.ndarray, place: np.ndarray) -> Diagnosis:
    """Only numbers are in order; NaN is in its original position, or at one end."""
    rest = [p[~np.isnan(x)] for p, x in zip(place, numbers, strict=True)]
    if any((np.diff(p) < 0).any() for p in rest):
        return NONE
    nan = np.isnan(numbers)
    if fmt.nan == "sign":
        return cause("sort-nan-inside")
    ends = [("first", np.sort(~nan, axis=1) == ~nan), ("last", np.sort(nan, axis=1) == nan)]
    words = next((words for words, fits in ends if fits.all()), None)
    return cause(f"sort-nan-{words}") if words else NONE


def _of_equals(numbers: np.ndarray, left: np.ndarray, right: np.ndarray) -> Diagnosis:
    """Numbers between two magnitudes count as equal, with all their signs or within each; all others are in order."""
    sizes = np.abs(np.concatenate([left, right]))
    least, most = float(sizes.min()), float(sizes.max())
    if not np.isfinite(most):
        return NONE
    crosses = bool((np.signbit(left) != np.signbit(right)).any())
    size, keys = np.abs(numbers), numbers
    inside = (size <= most) & (crosses | (size >= least))
    keys = np.where(inside, 0.0 if crosses else np.copysign(least, numbers), numbers)
    # A NaN is at the end for its sign, or without a sign at either end.
    ends = (np.copysign(np.inf, numbers), np.full(numbers.shape, np.inf))
    ordered = (np.where(np.isnan(numbers), end, keys) for end in ends)
    if not np.logical_or.reduce([(x[:, 1:] >= x[:, :-1]).all(axis=1) for x in ordered]).all():
        return NONE
    if crosses:
        return cause("sort-small-equal", most=number_text(most))
    return cause("sort-range-equal", least=number_text(least), most=number_text(most))
