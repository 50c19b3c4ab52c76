"""Finds the accumulation that explains results: one for all results of an op, of any shapes.

The conformance tester, which has a backend's results for several shapes, and the comparison of whole programs, which
has those of one op, use the same search. A hypothesis explains results if it reproduces every one of them, rounded
once to their type, or to another type first.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...oracle.formats import FORMATS
from ...oracle.rounding import TOWARD_ZERO, Exact, encode
from ...oracle.sums import exact_sums
from .exact_sums import is_exact_in, slack_of, spread, unit_of
from .hypotheses import Hypothesis, Rows, SumQuery, flush, may_flush
from .terms import BLOCK

#: Number of results tried first, half of them different from the exact ones, and the number of their terms.
_SAMPLE, _SAMPLE_TERMS = 96, 1 << 17
#: Fewer products than this match some hypothesis by chance; folds of a known op have few hypotheses.
_FEW = 12
#: Sums are truncated if, of at least this many results that differ from the exact ones, more than this share is nearer
#: 0.
_MANY, _NEARLY_ALL = 20, 0.9

#: The rounding of sums before their last: `f16`, or `f32 toward zero`; empty for none.
Through = str


@dataclasses.dataclass(frozen=True, eq=False)
class Observation:
    """The results of an op on one shape, by flat index, and the terms that they are sums of."""

    name: str
    query: SumQuery
    rows: Callable[[np.ndarray], Rows]
    #: Tests which results equal given codes, considering the open points of these (oracle.rounding).
    agrees: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    got: Callable[[np.ndarray], np.ndarray]  #: the codes of results
    places: np.ndarray  #: the results to be explained
    wrong: np.ndarray  #: those of them that differ from the exact ones

    @property
    def count(self) -> int:
        """The number of terms."""
        return max(self.query.counts)

    @functools.cached_property
    def sample(self) -> np.ndarray:
        """Some results: wrong ones, and others."""
        few = max(min(_SAMPLE, _SAMPLE_TERMS // max(self.count, 1)), 16)
        others = np.setdiff1d(self.places, self.wrong, assume_unique=True)
        return np.sort(np.concatenate([spread(self.wrong, few // 2), spread(others, few // 2)])).astype(np.intp)

    @functools.cached_property
    def sample_rows(self) -> Rows:
        return self.rows(self.sample)

    def blocks(self, flat: np.ndarray) -> Iterator[np.ndarray]:
        """Splits indices into blocks whose terms fit in memory."""
        step = max(BLOCK // max(self.count, 1), 1)
        yield from (flat[i : i + step] for i in range(0, len(flat), step))

    def hits(self, flat: np.ndarray, sums: Exact, through: Through = "", zeros_alike: bool = False) -> np.ndarray:
        """Tests which results are those of given sums; with `zeros_alike` the sign of a zero is open."""
        codes, left_open = round_sums(sums, self.query.result, through)
        found = self.agrees(flat, codes, left_open)
        if zeros_alike:
            fmt = FORMATS[self.query.result]
            found |= (fmt.decode(codes) == 0) & (fmt.decode(self.got(flat)) == 0)
        return found


def round_sums(sums: Exact, result: str, through: Through = "") -> tuple[np.ndarray, np.ndarray]:
    """Rounds sums to a type, through another first: the codes, and the open point of each."""
    name, _, rounding = through.partition(" ")
    if name:
        fmt = FORMATS[name]
        sums = Exact.of(fmt.decode(encode(fmt, sums, rounding or "even")[0]))
    return encode(FORMATS[result], sums)


@dataclasses.dataclass(frozen=True)
class Fit:
    """A hypothesis, and the type that its sums are rounded to first."""

    hypothesis: Hypothesis
    through: Through = ""

    @property
    def identifier(self) -> str:
        return self.hypothesis.identifier + (f"/then-{self.through.replace(' ', '-')}" if self.through else "")

    @property
    def family(self) -> str:
        """The identifier without the order."""
        return f"{self.hypothesis.family}/then-{self.through}" if self.through else self.hypothesis.family

    @property
    def sentence(self) -> str:
        return self.hypothesis.sentence + describe_rounding(self.through)

    def hits(self, observed: Observation, flat: np.ndarray | None = None) -> np.ndarray:
        """Tests which results this reproduces: all that are to be explained, or some."""
        flat = observed.places if flat is None else flat
        with np.errstate(all="ignore"):
            found = [
                observed.hits(at, self.hypothesis.sum(observed.rows(at)), self.through, self.hypothesis.zeros_alike)
                for at in observed.blocks(flat)
            ]
        return np.concatenate(found) if found else np.zeros(0, bool)


def describe_rounding(through: Through) -> str:
    """The rounding of sums before they become results, in words."""
    if not through:
        return ""
    name, _, rounding = through.partition(" ")
    return f", then cut off {rounding} to {name}" if rounding else f", then rounded to {name}"


def _throughs(observed: Sequence[Observation]) -> list[Through]:
    """The types that sums may be rounded to first: those that contain all results."""
    query = observed[0].query
    names = [n for n in dict.fromkeys(("f16", "bf16", "f32", *query.operands)) if n != query.result]
    return ["", *(n for n in names if all(_are_of(o, n) for o in observed)), f"f32 {TOWARD_ZERO}"]


def _are_of(observed: Observation, name: str) -> bool:
    """Whether some results are numbers of a type; a type with more bits contains all."""
    fmt = FORMATS[observed.query.result]
    got = observed.got(observed.sample)
    values = fmt.decode(np.where(fmt.is_none(got), 0, got))
    values = values[np.isfinite(values)]
    back = FORMATS[name].decode(encode(FORMATS[name], Exact.of(values))[0])
    return bool((~np.isfinite(back) | (back == values)).all())


def _is_open_to(hypothesis: Hypothesis, through: Through) -> bool:
    """Whether sums may be rounded to a type first: another type, and if it is f32, one narrower than theirs."""
    name, _, cut = through.partition(" ")
    is_narrower = hypothesis.family == "exact" if cut else hypothesis.type in ("", "f64")
    return name != hypothesis.type and (name != "f32" or is_narrower)


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The result of a search."""

    fit: Fit | None  #: explains all results of all shapes
    best: Fit | None  #: otherwise the closest
    progress: tuple[float, float] = (0.0, 0.0)  #: how many shapes it explains, and its share of the next one


def explain(
    observed: Sequence[Observation], hypotheses: Iterable[Hypothesis], hardest_first: bool = False
) -> Explanation:
    """Searches for the hypothesis that explains the results of all shapes together.

    Args:
        observed: results, of one op on one or several shapes.
        hypotheses: the hypotheses to try, the likeliest first.
        hardest_first: begin with inexact results, which few hypotheses explain; else with the fewest terms.
    """
    ordered = sorted(observed, key=lambda o: (hardest_first and not len(o.wrong), len(o.sample) * o.count))
    best, most = None, (-1.0, 0.0)
    are_few = observed[0].query.is_dot and sum(len(o.places) for o in observed) < _FEW
    for attempt in _fits(hypotheses, ordered, are_few):
        explained, share = _progress(attempt, ordered)
        if explained == len(ordered) and all(attempt.fit.hits(o).all() for o in ordered):
            return Explanation(attempt.fit, attempt.fit)
        if (explained, share) > most:
            best, most = attempt.fit, (explained, share)
    return Explanation(None, best, most)


def explain_alone(observed: Observation, hypotheses: Iterable[Hypothesis]) -> list[Fit]:
    """All fits that explain the results of one shape."""
    found = []
    for attempt in _fits(hypotheses, [observed], observed.query.is_dot and len(observed.places) < _FEW):
        with np.errstate(all="ignore"):
            if attempt.share(observed) == 1 and attempt.fit.hits(observed).all():
                found.append(attempt.fit)
    return found


class _Attempt:
    """A fit with the sums of samples cached for all roundings."""

    def __init__(self, fit: Fit, sums: dict[int, Exact]) -> None:
        self.fit, self._sums = fit, sums

    def share(self, observed: Observation) -> float:
        """The share of a sample that it reproduces."""
        if id(observed) not in self._sums:
            self._sums[id(observed)] = self.fit.hypothesis.sum(observed.sample_rows)
        sums, hypothesis = self._sums[id(observed)], self.fit.hypothesis
        hits = observed.hits(observed.sample, sums, self.fit.through, hypothesis.zeros_alike)
        return float(hits.mean()) if len(hits) else 1.0


def _fits(hypotheses: Iterable[Hypothesis], observed: Sequence[Observation], are_few: bool) -> Iterator[_Attempt]:
    through = _throughs(observed)
    for hypothesis in hypotheses:
        if are_few and not hypothesis.is_plain:
            continue
        sums: dict[int, Exact] = {}
        yield from (_Attempt(Fit(hypothesis, t), sums) for t in through if not t or _is_open_to(hypothesis, t))


def _progress(attempt: _Attempt, observed: Sequence[Observation]) -> tuple[float, float]:
    """The number of shapes that a fit explains before the first it does not, and its share of that one."""
    with np.errstate(all="ignore"):
        for i, o in enumerate(observed):
            share = attempt.share(o)
            if share < 1:
                return float(i), share
    return float(len(observed)), 1.0


# -- unknown orders ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class BoundedSum:
    """Sums in f32 in an unknown order."""

    through: Through
    is_cut: bool  #: toward zero, not to nearest
    is_flushed: bool = False  #: subnormal numbers are flushed to zero

    @property
    def identifier(self) -> str:
        kind = "cut-off" if self.is_cut else "flushed" if self.is_flushed else "accumulated"
        return f"{kind}/f32/unknown-order" + (f"/then-{self.through}" if self.through else "")

    @property
    def sentence(self) -> str:
        how = ", cut off toward zero," if self.is_cut else ","
        how = ", subnormal numbers taken for zero," if self.is_flushed else how
        return f"accumulated in f32{how} in an order of its own{describe_rounding(self.through)}"


def find_bound(observed: Sequence[Observation]) -> BoundedSum | None:
    """The bound that all results keep, if sums in f32 in some order can give them; sums that overflow can give any."""
    query = observed[0].query
    flushes = (False, True) if may_flush(query) else (False,)
    for through, is_flushed in itertools.product(("", "f16", "bf16"), flushes):
        if through == query.result:
            continue
        sides: list[np.ndarray] = []
        if all(within(o, through, sides, is_flushed).all() for o in observed):
            off = np.concatenate(sides) if sides else np.zeros(0)
            is_cut = len(off) >= _MANY and float((off < 0).mean()) > _NEARLY_ALL
            return BoundedSum(through, is_cut and not is_flushed, is_flushed)
    return None


def within(
    observed: Observation, through: Through = "", sides: list[np.ndarray] | None = None, is_flushed: bool = False
) -> np.ndarray:
    """Tests which results sums in f32 can give in some order.

    Args:
        observed: the results.
        through: the type that sums are rounded to first.
        sides: receives the side of each inexact result: nearer zero (-1) or further from it (1).
        is_flushed: whether subnormal numbers of f32 are flushed to zero.

    Returns:
        bool, for each of `observed.places`.
    """
    fmt, found = FORMATS[observed.query.result], []
    for flat in observed.blocks(observed.places):
        rows, got = observed.rows(flat), observed.got(flat)
        terms = (flush(rows, observed.query) if is_flushed else rows).terms
        with np.errstate(all="ignore"):
            total, sizes = exact_sums(terms), np.abs(terms).sum(axis=1)
            slack = np.where(is_exact_in(terms, 24), 0.0, slack_of(terms.shape[1], 24, sizes))
            if may_flush(observed.query):  # products below f32's normal numbers are rounded by an absolute step
                slack = slack + np.where(_is_finer(terms, -149), terms.shape[1] * 2.0**-149, 0.0)
            if is_flushed:
                least = FORMATS["f32"].min_exponent
                slack = slack + np.where(_is_finer(terms, least), terms.shape[1] * 2.0**least, 0.0)
            hits = observed.hits(flat, total, through)
            ends = [round_sums(Exact.of(total.value + s), fmt.name, through)[0] for s in (-slack, slack)]
            value = fmt.decode(np.where(fmt.is_none(got), 0, got))
            may_overflow = _may_overflow(terms, value, fmt.has_infinity)
        rank, nan = fmt.rank, fmt.is_nan(got) | fmt.is_nan(ends[0]) | fmt.is_nan(ends[1])
        inside = ~nan & ~fmt.is_none(got) & (rank(ends[0]) <= rank(got)) & (rank(got) <= rank(ends[1]))
        inside &= slack > 0  # otherwise every order gives the same result, with the same sign of zero
        inside &= (value != 0) | ~np.signbit(value) | _may_be_negative_zero(terms, observed, through, is_flushed)
        found.append(hits | inside | may_overflow)
        if sides is not None:
            # Among terms of one sign, small ones are absorbed by large ones, which is no evidence of truncation.
            both = (terms.min(axis=1, initial=0.0) < 0) & (terms.max(axis=1, initial=0.0) > 0)
            differ = inside & ~hits & np.isfinite(total.value) & both
            sides.append(np.sign(np.abs(value[differ]) - np.abs(total.value[differ])))
    return np.concatenate(found) if found else np.zeros(0, bool)


def _may_be_negative_zero(terms: np.ndarray, observed: Observation, through: Through, is_flushed: bool) -> np.ndarray:
    """Tests which sums may round to -0: cancellation gives +0, and other sums are at least a unit of the terms."""
    with np.errstate(invalid="ignore"):
        units = -unit_of(terms)
    codes = round_sums(Exact.of(np.where(np.isfinite(units), units, -1.0)), observed.query.result, through)[0]
    is_below = units > -(2.0 ** FORMATS["f32"].min_exponent)
    return (FORMATS[observed.query.result].decode(codes) == 0) | (is_flushed & is_below)


def _is_finer(terms: np.ndarray, exponent: int) -> np.ndarray:
    """Tests which sums have a term that is no multiple of a power of two, as all sums of multiples are."""
    units = np.ldexp(terms, -exponent)
    return (units != np.rint(units)).any(axis=1)


def _may_overflow(terms: np.ndarray, got: np.ndarray, has_infinity: bool) -> np.ndarray:
    """Tests which results sums can give that overflow f32 on the way: infinities of their sign, or NaN.

    Sums of both infinities are NaN, and so are infinities in a format without them.
    """
    largest = FORMATS["f32"].max
    above, below = (np.maximum(s * terms, 0).sum(axis=1) > largest for s in (1, -1))
    is_up, is_down = ((terms == s * np.inf).any(axis=1) for s in (1, -1))
    nan = above & below if has_infinity else above | below
    return np.where(np.isnan(got), nan, np.where(got > 0, above & ~is_down, below & ~is_up)) & ~np.isfinite(got)
