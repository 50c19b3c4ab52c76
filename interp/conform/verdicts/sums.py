"""Verdicts on sums: exact and rounded once, as a known hypothesis gives them, or wrong.

A backend's accumulation is not documented. But it is the same for a pair of types, so the results of an op on all
shapes are judged together; an explanation of only some of them is reported as such.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from ....ops.accumulators.record import Accumulator
from ...judging.equality import equal_codes
from ...judging.record import NONE, OPEN, WRONG, Diagnosis
from ...judging.sums import hypotheses
from ...judging.sums.explain import BoundedSum, Fit, Observation, explain, explain_alone, find_bound, within
from ...judging.sums.hypotheses import Hypothesis, SumQuery
from ...oracle.expected import Expected
from ...oracle.formats import FORMATS
from ..result import AccumulatorFacts
from ..rows import RowPart
from .judge import Judgement, judge

EXACT = "exact, rounded once"


@dataclasses.dataclass(frozen=True)
class SumResult:
    """The judgement of one part's sums."""

    judged: Judgement
    sentence: str
    identifier: str = ""  #: empty if nothing explains the results
    accumulator: AccumulatorFacts | None = None  #: its facts
    why: Diagnosis = NONE  #: for wrong results


def judge_sums(
    parts: Sequence[RowPart],
    results: Sequence[np.ndarray],
    records: Sequence[str] = (),
    candidates: Sequence[Hypothesis] | None = None,
) -> list[SumResult]:
    """The verdicts on the sums of one op on one pair of types, on several shapes.

    Args:
        parts: the sums.
        results: the codes that a backend gave for each.
        records: accumulators given by the user, as text.
        candidates: the hypotheses to try; None for all known ones.
    """
    tried = [_Sums(p, r) for p, r in zip(parts, results, strict=True)]
    left = [t for t in tried if not t.is_exact]
    if not left:
        return [t.result(EXACT, "exact") for t in tried]
    case = parts[0].case
    asked = SumQuery(parts[0].query.operands, case.result, parts[0].body, tuple(p.query.counts[0] for p in parts))
    every = list(known_hypotheses(asked, records)) if candidates is None else list(candidates)
    explained = _products(tried, left, every) if case.has_products else (_fold(t, every) for t in left)
    found = dict(zip(map(id, left), explained, strict=True))
    return [found.get(id(t)) or t.result(EXACT, "exact") for t in tried]


def known_hypotheses(query: SumQuery, records: Sequence[str] = ()) -> Iterator[Hypothesis]:
    """The hypotheses to try, the likeliest first."""
    yield hypotheses.exact(query.body)
    for text in records if query.is_dot else ():
        words = f"summed as the given record: {text}"
        yield hypotheses.from_record(Accumulator.from_text(text), "given", words, query.operands)
    yield from hypotheses.in_types(query, ("f32",))
    yield from hypotheses.units(query)
    if query.is_dot:
        yield from hypotheses.flushing_hypotheses(query)
        yield from hypotheses.truncating_hypotheses(query)
    # f32 again, if it is the operands' own type
    yield from (w for w in hypotheses.in_types(query) if w.type != "f32")


class _Sums:
    """A part, its results, and their comparison with the exact ones."""

    def __init__(self, part: RowPart, got: np.ndarray) -> None:
        self.part, self.got = part, got
        self.judged = judge(part.case.result, got, part.exact, 0)
        fails = self.judged.verdicts == WRONG
        if fails.any():
            fails &= ~self._either_zero(np.arange(len(got)), part.exact.codes)
            self.judged.verdicts[~fails & (self.judged.verdicts == WRONG)] = 0
            self.judged.errors[~fails & (self.judged.verdicts == 0)] = 0
        self.fails, self.is_exact = fails, not fails.any()

    @property
    def observation(self) -> Observation:
        every = np.arange(len(self.got))
        return self.among(every if self.part.case.has_products else np.flatnonzero(~self.part.may_overflow))

    def among(self, places: np.ndarray) -> Observation:
        """Some of the results."""
        part = self.part
        wrong = places[self.fails[places]]
        return Observation(part.form, part.query, part.rows, self._agrees, lambda flat: self.got[flat], places, wrong)

    def _agrees(self, flat: np.ndarray, codes: np.ndarray, left_open: np.ndarray) -> np.ndarray:
        given, result = self.got[flat], self.part.case.result
        equal = equal_codes(result, given, codes)
        if left_open.any():
            equal |= judge(result, given, Expected(codes, left_open), 0).verdicts != WRONG
        return equal | (~equal & self._either_zero(flat, codes))

    def _either_zero(self, flat: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Tests which sums are of zeros alone, whose sign is that of the initial value, or of the terms."""
        fmt = FORMATS[self.part.case.result]
        both = (fmt.decode(codes) == 0) & ~fmt.is_none(self.got[flat])
        both[both] = fmt.decode(self.got[flat][both]) == 0
        if both.any():
            both[both] = (self.part.values[flat[both]] == 0).all(axis=1)
        return both

    def result(
        self, sentence: str, identifier: str, wrong: np.ndarray | None = None, facts: AccumulatorFacts | None = None
    ) -> SumResult:
        """The verdicts if a hypothesis explains all results but the wrong ones."""
        verdicts = self.judged.verdicts
        wrong = np.zeros(len(verdicts), bool) if wrong is None else wrong
        open_point = self.fails & ~wrong
        verdicts[open_point] = OPEN if self.part.case.has_products else 0
        verdicts[wrong] = WRONG
        self.judged.errors[open_point] = 0
        return SumResult(self.judged, sentence, identifier, facts)


# -- products ----------------------------------------------------------------------------------------------------------


def _products(tried: Sequence[_Sums], left: Sequence[_Sums], every: Sequence[Hypothesis]) -> Iterator[SumResult]:
    """Judges inexact results: by one hypothesis, else by several, depending on the shape.

    Sums in f32 come first, for all shapes and for each: libraries choose their order by shape.
    """
    observed = [t.observation for t in tried]
    usual = [w for w in every if w.family in _USUAL]
    others = [w for w in every if w.family not in _USUAL]
    first = explain(observed, usual, hardest_first=True)
    explanation = first if first.fit else explain(observed, others)
    if fit := explanation.fit:
        yield from (t.result(fit.sentence, fit.identifier, facts=facts(fit)) for t in left)
        return
    bound = find_bound([t.observation for t in left])
    longest = max(left, key=lambda t: t.observation.count)
    if bound is not None and not explain_alone(longest.observation, usual):
        yield from (t.result(bound.sentence, bound.identifier, facts=facts(bound)) for t in left)
        return
    alone, bounds = _each(left, usual, others)
    chosen: dict[str, Fit | BoundedSum] = {**_cover(alone), **bounds}
    is_one_family = len({family_of(f) for f in chosen.values()}) == 1
    is_one = len({f.identifier for f in chosen.values()}) == 1
    best = max((first, explanation), key=lambda e: e.progress).best
    for t in left:
        own = chosen.get(t.part.form)
        if own is None:
            yield _wrong(t, best)
            continue
        sentence, identifier = own.sentence, own.identifier
        if is_one_family and not is_one:
            sentence, identifier = by_shape(chosen)
        elif not is_one:
            forms: dict[str, list[str]] = {}
            for form, fit in chosen.items():
                if fit.sentence != own.sentence:
                    forms.setdefault(fit.sentence, []).append(form)
            others = "; ".join(f"{other} ({', '.join(of)})" for other, of in forms.items())
            sentence, identifier = f"{sentence}; other shapes need another record: {others}", f"{identifier}/by-shape"
        yield t.result(sentence, identifier, facts=facts(own))


#: The families of exact sums, and of sums in f32.
_USUAL = ("exact", *(f"{held}/f32" for held in ("accumulated", "rounded", "fused", "flushed")))


def _each(
    left: Sequence[_Sums], usual: Sequence[Hypothesis], others: Sequence[Hypothesis]
) -> tuple[dict[str, list[Fit]], dict[str, BoundedSum]]:
    """Explains each shape by itself: by sums in f32 in some order, else by units and narrower types.

    If nothing explains a shape the others are not searched any further: the results are wrong anyway.
    """
    alone: dict[str, list[Fit]] = {}
    bounds: dict[str, BoundedSum] = {}
    ways = list(others) if len(left) > 1 else []
    for t in sorted(left, key=lambda t: t.observation.count):
        form, observed = t.part.form, t.observation
        earlier = list({f.identifier: f for each in alone.values() for f in each}.values())
        fits = [f for f in earlier if f.hits(observed).all()] or explain_alone(observed, usual)
        bound = None if fits else find_bound([observed])
        if not fits and (bound is None or bound.is_cut):
            is_long = observed.count > _LONG
            fits = explain_alone(observed, (w for w in ways if not is_long or _is_quick(w)))
            ways = ways if fits or bound else []
        alone[form] = fits
        if bound is not None and not fits:
            bounds[form] = bound
    return alone, bounds


#: For longer sums only hypotheses in f32, exact sums and units are tried for one shape alone, as others take seconds.
_LONG = 129


def _is_quick(hypothesis: Hypothesis) -> bool:
    """Whether a hypothesis computes long sums in steps of several products, or on whole arrays."""
    return hypothesis.record is not None and (hypothesis.record.bits is not None or hypothesis.record.step > 4)


def _cover(by_shape: dict[str, list[Fit]]) -> dict[str, Fit]:
    """A fit for each shape that has some: as few different ones as a greedy choice gives."""
    found: dict[str, Fit] = {}
    open_shapes = {name: fits for name, fits in by_shape.items() if fits}
    while open_shapes:
        fits = {f.identifier: f for each in open_shapes.values() for f in each}
        counts = {i: sum(any(f.identifier == i for f in each) for each in open_shapes.values()) for i in fits}
        best = max(counts, key=lambda i: counts[i])
        for name in [n for n, each in open_shapes.items() if any(f.identifier == best for f in each)]:
            found[name] = fits[best]
            del open_shapes[name]
    return found


def judge_unexplained(part: RowPart, got: np.ndarray) -> SumResult:
    """The verdicts on sums without hypotheses."""
    tried = _Sums(part, got)
    return _wrong(tried, None) if not tried.is_exact else tried.result(EXACT, "exact")


def _wrong(t: _Sums, best: Fit | None) -> SumResult:
    """Judges unexplained results: those are wrong that neither the best hypothesis nor any order in f32 gives."""
    hits = best.hits(t.observation) if best is not None else ~t.fails
    off = t.fails & ~hits if (t.fails & ~hits).any() else t.fails
    is_far = off & ~within(t.observation)
    wrong = is_far if is_far.any() else off
    return t.result(_nearest(best), "", wrong)


def _nearest(best: Fit | None) -> str:
    return f"no known way to form sums explains the results ({best.sentence if best else EXACT} comes nearest)"


# -- folds -------------------------------------------------------------------------------------------------------------


def _fold(t: _Sums, every: Sequence[Hypothesis]) -> SumResult:
    """Judges a reduction, whose order is unspecified: right if a type and an order give its results.

    A sum that overflows in some order may be formed in any order by itself.
    """
    observed = t.observation
    explanation = explain([observed], every)
    wild = t.among(np.flatnonzero(t.part.may_overflow))
    if fit := explanation.fit:
        wrong = np.zeros(len(t.got), bool)
        wrong[wild.places] = ~_any(wild, every)
        wrong &= t.fails
        if wrong.any():
            return t.result(f"{fit.sentence}, but for sums that may overflow, or of infinities or NaN", "", wrong)
        return t.result(fit.sentence, fit.identifier)
    best = explanation.best
    wrong = t.fails.copy()
    wrong[observed.places[within(observed)]] = False
    wrong[wild.places] &= ~_any(wild, every)
    if not wrong.any():
        return t.result((found := BoundedSum("", False)).sentence, found.identifier)
    if best is not None:
        hits = np.zeros(len(t.got), bool)
        hits[observed.places] = best.hits(observed)
        wrong &= ~hits if (wrong & ~hits).any() else True
    return t.result(_nearest(best), "", wrong)


def _any(observed: Observation, every: Sequence[Hypothesis]) -> np.ndarray:
    """Tests which results any hypothesis gives."""
    found = np.zeros(len(observed.places), bool)
    with np.errstate(all="ignore"):
        for way in every:
            found |= found.all() or Fit(way).hits(observed)
    return found


def family_of(found: Fit | BoundedSum) -> str:
    """The identifier of a hypothesis without its order."""
    return found.family if isinstance(found, Fit) else found.identifier.replace("/unknown-order", "")


def by_shape(chosen: dict[str, Fit | BoundedSum]) -> tuple[str, str]:
    """The sentence and the identifier of sums in one type whose order depends on the shape."""
    family = family_of(next(iter(chosen.values())))
    held, _, through = family.partition("/then-")
    kind, _, name = held.partition("/")
    start = f"{_HELD[kind]} in {name}"
    then = f", then rounded to {through}" if through else ""
    if any(isinstance(f, BoundedSum) for f in chosen.values()):
        identifier = f"{held}/unknown-order" + (f"/then-{through}" if through else "")
        return f"{start}, in an order of its own{then}", identifier
    orders: dict[str, list[str]] = {}
    for form, fit in chosen.items():
        assert isinstance(fit, Fit)
        plain = fit.hypothesis.sentence.removeprefix(start).strip()
        plain = plain.replace(f"exact products accumulated in {name} ", "products not rounded, ")
        orders.setdefault(plain, []).append(form)
    listed = "; ".join(f"{order}: {', '.join(forms)}" for order, forms in orders.items())
    return f"{start}{then}, in an order that depends on the shape ({listed})", f"{family}/by-shape"


#: Descriptions by the first part of an identifier.
_HELD = {
    "accumulated": "accumulated",
    "rounded": "products and sums rounded",
    "fused": "exact products accumulated",
    "cut-off": "accumulated, cut off toward zero at each step,",
    "flushed": "accumulated, subnormal numbers taken for zero,",
}


def facts(found: Fit | BoundedSum) -> AccumulatorFacts:
    """The facts of an accumulator."""
    if isinstance(found, BoundedSum):
        drop = "zero" if found.is_cut else "nearest_even"
        return AccumulatorFacts(found.identifier, "f32", 23, 1, drop, "in an order of its own", found.through)
    record, name = found.hypothesis.record, found.identifier
    if record is not None:
        order = "in order" if record.take == "consecutive" else f"in order, {record.take} of each window"
        kept = record.keep, record.bits, record.step, record.drop, order
        return AccumulatorFacts(name, *kept, found.through, record.c, record.outer, record.to_text())
    if found.hypothesis.family == "exact":
        return AccumulatorFacts(name, "exact", None, 0, order="in any order", then=found.through)
    fmt = FORMATS[found.hypothesis.type]
    drop = "zero" if found.hypothesis.family.startswith("cut-off") else "nearest_even"
    order = found.hypothesis.sentence.partition(f" in {fmt.name} ")[2]
    return AccumulatorFacts(name, fmt.name, fmt.mantissa_bits, 1, drop, order, found.through)
