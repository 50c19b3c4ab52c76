"""Describes failing results in one sentence: their positions, a fault that explains them, or a common property.

A fault is named if it reproduces the backend's results (comparison.diagnosis). Otherwise the failing elements are
examined: one code, one kind of number, one kind of error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ...comparison import places
from ...comparison.diagnosis import NONE, Diagnosis, Results, by_faults
from ...comparison.equality import equal_codes
from ...comparison.faults.table import ROUNDINGS, SATURATED, faults_of
from ...comparison.sums.sum_faults import parts_of
from ...oracle.exact import estimate, evaluate
from ...oracle.formats import FORMATS, Format
from ...oracle.rounding import NEGATIVE, Exact, encode
from ...oracle.sums import exact_products, exact_sums
from ..cases import chains
from ..elementwise import Part, of_positions
from ..format_text import code_text, value_text
from ..repeats import Evidence
from ..result import ACCURACY, FAIL, PASS
from ..rows import RowPart
from . import orders
from .judge import ELEMENT_VERDICTS, Judgement

#: Number of elements examined.
_SAMPLE = 4096
#: In arrays of fewer elements failures at the end may be chance.
_LONG = 64


def explain(part: Part, judged: Judgement, got: np.ndarray, evidence: Evidence | None = None) -> Diagnosis:
    """Describes the failing elements; for a case without FAIL those of ACCURACY.

    `evidence` is from further runs: whether failures depend on positions, or are intermittent.
    """
    for verdict in (FAIL, ACCURACY):
        failing = np.flatnonzero(judged.verdicts == ELEMENT_VERDICTS.index(verdict))
        if failing.size:
            break
    else:
        return NONE
    if of_positions(part.form) and part.size == 1:
        return NONE  # one wrong code has many possible reasons
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
        sentence = "the result is not rounded to the format before it is converted to f32"
        return Diagnosis(sentence, ("not-rounded-before-convert",))
    if part.form == "chain":
        return _explain_unrounded(part, got, failing)
    at = failing if len(failing) <= _SAMPLE else failing[np.linspace(0, len(failing) - 1, _SAMPLE).astype(np.intp)]
    spared = judged.verdicts == ELEMENT_VERDICTS.index(PASS)
    without_sign = (part.expected.left_open == NEGATIVE) & (judged.right != part.expected.codes)
    spared |= without_sign & (got == judged.right)  # a fault has to explain these too
    found = _by_faults(part, judged, got, at, np.flatnonzero(spared & _alike(part, at)))
    if not found and of_positions(part.form) and 0 < part.size - len(failing) == failing[0]:
        return NONE  # the failures may be due to their positions at the end
    return found or next(_common(part, judged, got, at), NONE)


def _alike(part: Part, failing: np.ndarray) -> np.ndarray:
    """The elements that a fault must leave right: with a scalar those on the same side as the failing ones."""
    everywhere = np.ones(part.size, bool)
    if part.form not in ("scalar", "broadcast"):
        return everywhere
    first = np.arange(part.size) < part.size // 2
    if first[failing].all() or not first[failing].any():
        return first == first[failing[0]]
    return everywhere


# -- positions ---------------------------------------------------------------------------------------------------------


def _tail(part: Part, failing: np.ndarray) -> Diagnosis:
    """Whether only the last elements fail, in a form whose elements have no order."""
    n = part.size - int(failing[0])
    if not of_positions(part.form) or n > places.TAIL or part.size < _LONG or len(failing) != n:
        return NONE
    return places.of_tail(n)


def _explain_unrounded(part: Part, got: np.ndarray, failing: np.ndarray) -> Diagnosis:
    """Whether the second op used the first one's result before it was rounded."""
    op, fmt = part.case.op, FORMATS[part.case.result]
    if part.case.operands[0] != part.case.result:
        return NONE
    numbers = [FORMATS[t].decode(x[failing]) for t, x in zip(part.case.operands, part.operands, strict=True)]
    with np.errstate(all="ignore"):
        wide = estimate(op, *numbers)
        for name in ("f64", "f32", "f16", "bf16"):
            between = wide if name == "f64" else FORMATS[name].decode(encode(FORMATS[name], Exact.of(wide))[0])
            codes = evaluate("subtract", fmt, between, numbers[0])[0]
            if equal_codes(part.case.result, codes, got[failing]).all():
                instead = f", but to {name}" if name != "f64" else ""
                sentence = f"the result is not rounded to the format before the next op{instead}"
                return Diagnosis(sentence, ("not-rounded-before-next",))
    return NONE


def _by_faults(part: Part, judged: Judgement, got: np.ndarray, failing: np.ndarray, rest: np.ndarray) -> Diagnosis:
    """The faults that explain the failing elements (comparison.diagnosis)."""
    way = part.to_integers[0]
    known = chains.faults_of(part.case) if part.case.op == "chain" else faults_of(part.case)
    results = Results(part.case, part.operands, got, judged.right, part.expected.left_open, way)
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
    names = (
        ["the operand"] if len(part.operands) == 1 else ["the first operand", "the second operand", "the third operand"]
    )
    of_floats = [(n, t, x) for n, t, x in zip(names, case.operands, part.operands, strict=False) if t in FORMATS]
    for name, t, x in of_floats:
        codes = np.unique(x[at])
        if len(codes) == 1 and len(np.unique(x)) > 1:
            code = int(codes[0])
            yield Diagnosis(f"only where {name} is {code_text(code, t)} ({value_text(code, t)})", ("one-operand",))
    for words, test in _KINDS:
        hits = [test(FORMATS[t], x[at]) for _, t, x in of_floats]
        if hits and np.logical_and.reduce(hits).all():
            yield Diagnosis(f"all failing operands are {words}", ("operands-alike",))
        if hits and np.logical_or.reduce(hits).all():
            yield Diagnosis(f"in all failures an operand is {words}", ("operands-alike",))
    if len(got) > 1 and (got == got[0]).all():
        result = code_text(int(got[0]), case.result)
        yield Diagnosis(f"every result is {result}, whatever the operands", ("constant-result",))
    if case.result not in FORMATS:
        return
    fmt, right = FORMATS[case.result], judged.right[at]
    values, wrong = fmt.decode(right), fmt.decode(got[at])
    if fmt.is_none(got[at]).all():
        yield Diagnosis(f"all wrong results are no codes of {case.result}", ("no-codes",))
    for words, test in _KINDS:
        if test(fmt, got[at]).all():
            yield Diagnosis(f"all wrong results are {words}", ("results-alike",))
        if test(fmt, right).all():
            yield Diagnosis(f"all wrong results should be {words}", ("expected-alike",))
    if (np.abs(wrong) == np.abs(values)).all():
        yield Diagnosis("only the sign is wrong", ("sign",))
    with np.errstate(all="ignore"):
        ratio = np.unique(wrong / values)
    if len(ratio) == 1 and np.isfinite(ratio[0]):
        yield Diagnosis(f"every wrong result is {ratio[0]:g} times what it should be", ("factor",))
    if (judged.distances[at] == 1).all():
        larger = np.abs(wrong) > np.abs(values)
        which = "too large" if larger.all() else "too small" if not larger.any() else "off"
        yield Diagnosis(f"each is one ULP {which}", ("one-ulp",))


# -- rows --------------------------------------------------------------------------------------------------------------


def explain_rows(part: RowPart, judged: Judgement, got: np.ndarray) -> Diagnosis:
    """Describes the rows whose extremes or orders are wrong."""
    fmt = FORMATS[part.case.operands[0]]
    is_sort = part.case.op == "sort"
    rows = part.arrays[0] if is_sort else part.terms[0]
    verdicts = judged.verdicts == ELEMENT_VERDICTS.index(FAIL)
    fails = verdicts.reshape(len(rows), -1).any(axis=1)
    if not fails.any():
        return NONE
    if is_sort and (why := orders.of_rows(fmt, rows, got.reshape(rows.shape))):
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
    return Diagnosis(f"only rows with {what}", ("rows-alike",)) if what else NONE


def of_sums(part: RowPart, got: np.ndarray) -> Diagnosis:
    """The fault that explains all results of a sum: omitted terms, one result for all, or another rounding."""
    size = got & np.array(FORMATS[part.case.result].ones, got.dtype)
    if (size == 0).all():
        return Diagnosis("every result is zero", ("zeros",))
    for note, kept in parts_of(part.terms[0].shape[1]):
        codes = encode(FORMATS[part.case.result], exact_sums(part.values[:, kept]))[0]
        if equal_codes(part.case.result, codes, got).all():
            return Diagnosis(note.sentence, (note.identifier,))
    return next((Diagnosis(sentence, (identifier,)) for identifier, sentence in _rounding_faults(part, got)), NONE)


def _rounding_faults(part: RowPart, got: np.ndarray) -> Iterator[tuple[str, str]]:
    """The faults of rounding that reproduce all results of exact sums, with their sentences."""
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
        yield "saturated", SATURATED
    for identifier, (rounding, sentence) in ROUNDINGS.items():
        codes = encode(fmt, sums, rounding)[0]
        if (equal_codes(name, codes, got) | is_largest | is_free).all():
            yield identifier, sentence
