"""Which way to form sums explains results: one for all results of an op, whatever their shapes are.

The search is the same for the conformance tester, which knows a backend's results on several shapes, and for the
comparison of whole programs, which knows those of one op. A way explains results if it gives every one of them, rounded
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
from .terms import BLOCK
from .ways import Asked, Rows, Way, flushed, may_flush

#: So many results are tried first, half of them such as differ from the exact ones, and so many terms of them.
_SAMPLE, _SAMPLE_TERMS = 96, 1 << 17
#: Fewer products than this are those of some way by chance; folds of a known op are few by nature.
_FEW = 12
#: Of so many results that differ from the exact ones more than this share are nearer zero only if sums are cut off.
_MANY, _NEARLY_ALL = 20, 0.9

#: What results are rounded to before they become results: `f16`, or `f32 toward zero`; empty for once.
Through = str


@dataclasses.dataclass(frozen=True, eq=False)
class Observed:
    """The results of an op on one shape, and the terms that they are sums of. Results are known by flat indices."""

    name: str
    asked: Asked
    rows: Callable[[np.ndarray], Rows]
    #: Which results are those given by codes, and by what is left open about them (oracle.rounding).
    agrees: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
    got: Callable[[np.ndarray], np.ndarray]  #: the codes of results
    places: np.ndarray  #: the results that are to be explained
    wrong: np.ndarray  #: those of them that differ from the exact ones

    @property
    def count(self) -> int:
        """The number of terms."""
        return max(self.asked.counts)

    @functools.cached_property
    def sample(self) -> np.ndarray:
        """Some results: such as are wrong, and others."""
        few = max(min(_SAMPLE, _SAMPLE_TERMS // max(self.count, 1)), 16)
        others = np.setdiff1d(self.places, self.wrong, assume_unique=True)
        return np.sort(np.concatenate([spread(self.wrong, few // 2), spread(others, few // 2)])).astype(np.intp)

    @functools.cached_property
    def sampled(self) -> Rows:
        return self.rows(self.sample)

    def blocks(self, flat: np.ndarray) -> Iterator[np.ndarray]:
        """Places of results whose terms are looked at together."""
        step = max(BLOCK // max(self.count, 1), 1)
        yield from (flat[i : i + step] for i in range(0, len(flat), step))

    def hits(self, flat: np.ndarray, sums: Exact, through: Through = "", zeros_alike: bool = False) -> np.ndarray:
        """Which results are those of sums; with `zeros_alike` the sign of a zero is open."""
        codes, left_open = rounded(sums, self.asked.result, through)
        found = self.agrees(flat, codes, left_open)
        if zeros_alike:
            fmt = FORMATS[self.asked.result]
            found |= (fmt.decode(codes) == 0) & (fmt.decode(self.got(flat)) == 0)
        return found


def rounded(sums: Exact, result: str, through: Through = "") -> tuple[np.ndarray, np.ndarray]:
    """The codes of sums in a type, rounded to another first, and what is left open about them."""
    name, _, rounding = through.partition(" ")
    if name:
        fmt = FORMATS[name]
        sums = Exact.of(fmt.decode(encode(fmt, sums, rounding or "even")[0]))
    return encode(FORMATS[result], sums)


@dataclasses.dataclass(frozen=True)
class Fit:
    """A way, and the type that its sums are rounded to first."""

    way: Way
    through: Through = ""

    @property
    def identifier(self) -> str:
        return self.way.identifier + (f"/then-{self.through.replace(' ', '-')}" if self.through else "")

    @property
    def family(self) -> str:
        """The same without the order."""
        return f"{self.way.family}/then-{self.through}" if self.through else self.way.family

    @property
    def sentence(self) -> str:
        return self.way.sentence + spoken(self.through)

    def hits(self, observed: Observed, flat: np.ndarray | None = None) -> np.ndarray:
        """Which results this gives: of all that are to be explained, or of some."""
        flat = observed.places if flat is None else flat
        with np.errstate(all="ignore"):
            found = [
                observed.hits(at, self.way.sum(observed.rows(at)), self.through, self.way.zeros_alike)
                for at in observed.blocks(flat)
            ]
        return np.concatenate(found) if found else np.zeros(0, bool)


def spoken(through: Through) -> str:
    """How sums are rounded before they become results, in words."""
    if not through:
        return ""
    name, _, rounding = through.partition(" ")
    return f", then cut off {rounding} to {name}" if rounding else f", then rounded to {name}"


def _throughs(observed: Sequence[Observed]) -> list[Through]:
    """What sums may be rounded to first: each type that has all the numbers among the results."""
    asked = observed[0].asked
    names = [n for n in dict.fromkeys(("f16", "bf16", "f32", *asked.operands)) if n != asked.result]
    return ["", *(n for n in names if all(_are_of(o, n) for o in observed)), f"f32 {TOWARD_ZERO}"]


def _are_of(observed: Observed, name: str) -> bool:
    """Whether some results are numbers of a type; all are of one with more bits."""
    fmt = FORMATS[observed.asked.result]
    got = observed.got(observed.sample)
    values = fmt.decode(np.where(fmt.is_none(got), 0, got))
    values = values[np.isfinite(values)]
    back = FORMATS[name].decode(encode(FORMATS[name], Exact.of(values))[0])
    return bool((~np.isfinite(back) | (back == values)).all())


def _is_open_to(way: Way, through: Through) -> bool:
    """Whether a way's sums may be rounded to a type first: it is another, and narrower than theirs if it is f32."""
    name, _, cut = through.partition(" ")
    return name != way.type and (name != "f32" or (way.family == "exact" if cut else way.type in ("", "f64")))


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What a search has found."""

    fit: Fit | None  #: what gives all results of all shapes
    best: Fit | None  #: else what came nearest
    progress: tuple[float, float] = (0.0, 0.0)  #: how many shapes that explains, and its share of the next


def explain(observed: Sequence[Observed], ways: Iterable[Way], hardest_first: bool = False) -> Explanation:
    """Search for the way that explains the results of all shapes together.

    Args:
        observed: results, of one op on one or several shapes.
        ways: the ways to try, the likeliest first.
        hardest_first: begin with results that are not exact, which few ways explain; else with the fewest terms.
    """
    ordered = sorted(observed, key=lambda o: (hardest_first and not len(o.wrong), len(o.sample) * o.count))
    best, most = None, (-1.0, 0.0)
    are_few = observed[0].asked.is_dot and sum(len(o.places) for o in observed) < _FEW
    for tried in _fits(ways, ordered, are_few):
        explained, share = _progress(tried, ordered)
        if explained == len(ordered) and all(tried.fit.hits(o).all() for o in ordered):
            return Explanation(tried.fit, tried.fit)
        if (explained, share) > most:
            best, most = tried.fit, (explained, share)
    return Explanation(None, best, most)


def explain_alone(observed: Observed, ways: Iterable[Way]) -> list[Fit]:
    """All that explains the results of one shape."""
    found = []
    for tried in _fits(ways, [observed], observed.asked.is_dot and len(observed.places) < _FEW):
        with np.errstate(all="ignore"):
            if tried.share(observed) == 1 and tried.fit.hits(observed).all():
                found.append(tried.fit)
    return found


class _Tried:
    """A fit whose sums on samples are formed once for all roundings."""

    def __init__(self, fit: Fit, sums: dict[int, Exact]) -> None:
        self.fit, self._sums = fit, sums

    def share(self, observed: Observed) -> float:
        """Of how many results of a sample it gives the very codes."""
        if id(observed) not in self._sums:
            self._sums[id(observed)] = self.fit.way.sum(observed.sampled)
        sums, way = self._sums[id(observed)], self.fit.way
        hits = observed.hits(observed.sample, sums, self.fit.through, way.zeros_alike)
        return float(hits.mean()) if len(hits) else 1.0


def _fits(ways: Iterable[Way], observed: Sequence[Observed], are_few: bool) -> Iterator[_Tried]:
    through = _throughs(observed)
    for way in ways:
        if are_few and not way.is_plain:
            continue
        sums: dict[int, Exact] = {}
        yield from (_Tried(Fit(way, t), sums) for t in through if not t or _is_open_to(way, t))


def _progress(tried: _Tried, observed: Sequence[Observed]) -> tuple[float, float]:
    """How many shapes a fit explains, up to the first that it does not, and its share of that."""
    with np.errstate(all="ignore"):
        for i, o in enumerate(observed):
            share = tried.share(o)
            if share < 1:
                return float(i), share
    return float(len(observed)), 1.0


# -- unknown orders ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Bounded:
    """Sums in f32 in an order that is not known."""

    through: Through
    is_cut: bool  #: toward zero, and not rounded to nearest
    is_flushed: bool = False  #: subnormal numbers are taken for zero

    @property
    def identifier(self) -> str:
        kind = "cut-off" if self.is_cut else "flushed" if self.is_flushed else "accumulated"
        return f"{kind}/f32/unknown-order" + (f"/then-{self.through}" if self.through else "")

    @property
    def sentence(self) -> str:
        how = ", cut off toward zero," if self.is_cut else ","
        how = ", subnormal numbers taken for zero," if self.is_flushed else how
        return f"accumulated in f32{how} in an order of its own{spoken(self.through)}"


def bounded(observed: Sequence[Observed]) -> Bounded | None:
    """Whether all results are such as some order of sums in f32 gives; of sums that may overflow any is."""
    asked = observed[0].asked
    flushes = (False, True) if may_flush(asked) else (False,)
    for through, is_flushed in itertools.product(("", "f16", "bf16"), flushes):
        if through == asked.result:
            continue
        sides: list[np.ndarray] = []
        if all(within(o, through, sides, is_flushed).all() for o in observed):
            off = np.concatenate(sides) if sides else np.zeros(0)
            is_cut = len(off) >= _MANY and float((off < 0).mean()) > _NEARLY_ALL
            return Bounded(through, is_cut and not is_flushed, is_flushed)
    return None


def within(
    observed: Observed, through: Through = "", sides: list[np.ndarray] | None = None, is_flushed: bool = False
) -> np.ndarray:
    """Which results some order of sums in f32 may give.

    Args:
        observed: the results.
        through: what sums are rounded to before.
        sides: gets where results lie that are not the exact ones: nearer zero (-1) or further from it (1).
        is_flushed: whether subnormal numbers of f32 are taken for zero.

    Returns:
        bool, for each of the places.
    """
    fmt, found = FORMATS[observed.asked.result], []
    for flat in observed.blocks(observed.places):
        rows, got = observed.rows(flat), observed.got(flat)
        terms = (flushed(rows, observed.asked) if is_flushed else rows).terms
        with np.errstate(all="ignore"):
            total, sizes = exact_sums(terms), np.abs(terms).sum(axis=1)
            slack = np.where(is_exact_in(terms, 24), 0.0, slack_of(terms.shape[1], 24, sizes))
            if may_flush(observed.asked):  # products below f32's normal numbers are rounded by an absolute step
                slack = slack + np.where(_is_finer(terms, -149), terms.shape[1] * 2.0**-149, 0.0)
            if is_flushed:
                least = FORMATS["f32"].min_exponent
                slack = slack + np.where(_is_finer(terms, least), terms.shape[1] * 2.0**least, 0.0)
            hits = observed.hits(flat, total, through)
            ends = [rounded(Exact.of(total.value + s), fmt.name, through)[0] for s in (-slack, slack)]
            value = fmt.decode(np.where(fmt.is_none(got), 0, got))
            may_overflow = _may_overflow(terms, value, fmt.has_infinity)
        rank, nan = fmt.rank, fmt.is_nan(got) | fmt.is_nan(ends[0]) | fmt.is_nan(ends[1])
        inside = ~nan & ~fmt.is_none(got) & (rank(ends[0]) <= rank(got)) & (rank(got) <= rank(ends[1]))
        inside &= slack > 0  # else every order gives one result, with one sign of zero
        inside &= (value != 0) | ~np.signbit(value) | _may_be_negative_zero(terms, observed, through, is_flushed)
        found.append(hits | inside | may_overflow)
        if sides is not None:
            # Of terms of one sign small ones are lost to large ones, which is no sign that sums are cut off.
            both = (terms.min(axis=1, initial=0.0) < 0) & (terms.max(axis=1, initial=0.0) > 0)
            differ = inside & ~hits & np.isfinite(total.value) & both
            sides.append(np.sign(np.abs(value[differ]) - np.abs(total.value[differ])))
    return np.concatenate(found) if found else np.zeros(0, bool)


def _may_be_negative_zero(terms: np.ndarray, observed: Observed, through: Through, is_flushed: bool) -> np.ndarray:
    """Which sums may round to -0: what cancels is +0, and all else is at least a unit of the terms."""
    with np.errstate(invalid="ignore"):
        units = -unit_of(terms)
    codes = rounded(Exact.of(np.where(np.isfinite(units), units, -1.0)), observed.asked.result, through)[0]
    return (FORMATS[observed.asked.result].decode(codes) == 0) | (
        is_flushed & (units > -(2.0 ** FORMATS["f32"].min_exponent))
    )


def _is_finer(terms: np.ndarray, exponent: int) -> np.ndarray:
    """Which sums have a term that is no multiple of a power of two: all sums of such terms are multiples of it."""
    units = np.ldexp(terms, -exponent)
    return (units != np.rint(units)).any(axis=1)


def _may_overflow(terms: np.ndarray, got: np.ndarray, has_infinity: bool) -> np.ndarray:
    """Which results may come of sums that overflow f32 on the way: infinities of their sign, or NaN.

    NaN is what comes of both infinities, and of one in a format that has none.
    """
    largest = FORMATS["f32"].max
    above, below = (np.maximum(s * terms, 0).sum(axis=1) > largest for s in (1, -1))
    is_up, is_down = ((terms == s * np.inf).any(axis=1) for s in (1, -1))
    nan = above & below if has_infinity else above | below
    return np.where(np.isnan(got), nan, np.where(got > 0, above & ~is_down, below & ~is_up)) & ~np.isfinite(got)
