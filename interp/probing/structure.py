"""Which positions are summed together, and in which order: from large products that cancel around a small one.

The largest number at one position, its negative at another and the smallest at a third: the small one is lost where it
is aligned with a large one, or added while the sum is large. After FPRev (arXiv 2411.00442), which counts what is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import Accumulator
from .answers import Answers, Session
from .designs import Dots, Scale
from .facts import Change, changed
from .operands import values
from .predict import predicted_by
from .words import places

#: Masks that candidates are compared on: so many of the first positions, and of the others.
_RACE, _NEAR = 120, 66
#: Masks that the best of them are compared on.
_MANY = 2500
#: How many records stay in the race, and begin the search.
_LEFT, _MOST_STARTS = 60, 24
#: How many windows are tried, beside those that are powers of two.
_WINDOWS = 40
#: How many lengths of steps are tried.
_LENGTHS = 12
#: The widest range of exponents in a dot: twice what f64 has bits for would not show more.
_SPAN = 70

#: Where pairs of large products begin, but for those that begin at 0 and those of the last positions.
_PAIRS = (2, 3, 4, 7, 8, 12, 13, 24, 32, 47)

#: The pairs that a report shows.
_TOLD = ((0, 1), (0, 2))

#: Second positions of pairs that all positions are asked for.
_DENSE = (1, 2, 3, 4, 5, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181)
#: How many of how many positions a step takes.
_PATTERNS = tuple((run, period) for period in (2, 4, 8, 16, 32) for run in (1, 2, 4, 8, 16) if run < period)

Triple = tuple[int, int, int]
#: A step, and which positions it takes.
Window = tuple[int, str]


@dataclasses.dataclass(frozen=True)
class Structure:
    """What the masks show."""

    scale: Scale  #: the exponents of which one product alone gives itself
    lengths: tuple[int, ...]  #: of steps and groups, those first that fit best
    starts: tuple[Accumulator, ...]  #: the records that give most of the masks; their numbers are not known yet
    hidden: tuple[str, ...] = ()  #: which small products some pairs of large ones hide, in words


def structure(session: Session) -> Structure:
    """Ask a backend for masks, and return what they show."""
    scale, k = _scale(session), session.signature.k
    forms = list(_forms(scale))
    triples = _triples(k)
    if not triples:  # one product or two: nothing is masked
        starts = (
            changed(Accumulator(), {"step": n} | f) for f in (forms[0], forms[4], forms[1], forms[-1]) for n in (0, 1)
        )
        return Structure(scale, (1, 0), tuple(r for r in starts if r is not None))
    masks = session.ask("masks", session.designer.masks(scale, triples))
    small = session.designer.dots([[(0, scale.low, 1.0)]])
    one = session.asker.ask(small.x, small.y)[0]
    kept = masks.got == one
    windows = _windows(_ends(triples, kept, k), k)
    lengths = tuple(dict.fromkeys((1, *(n for n, _ in windows[:_LENGTHS]), 0)))
    starts = _starts(_Race(session, masks, one), windows, forms, k)
    return Structure(scale, lengths, tuple(starts), tuple(_hidden(triples, kept, k)))


def _hidden(triples: Sequence[Triple], kept: np.ndarray, k: int) -> Iterator[str]:
    """Which small products are lost beside the first pairs of large ones, of which all positions have been asked."""
    for pair in _TOLD:
        lost = [at for (i, j, at), is_kept in zip(triples, kept, strict=True) if (i, j) == pair and not is_kept]
        if pair[1] < k:
            beside = f"at {places(lost)}" if lost else "nowhere"
            yield f"large products that cancel at positions {pair[0]} and {pair[1]} hide a small one {beside}"


def _triples(k: int) -> list[Triple]:
    some = [p for p in _spread(k) if p < k]
    triples = [(0, j, at) for j in (*_DENSE, k - 1) for at in range(k)]
    triples += [(0, j, at) for j in some for at in some]
    for p in (k - 2, k // 2, k // 2 - 1, 3 * k // 4, *_PAIRS):
        triples += [(p, p + d, at) for d in (1, 2) for at in (*some, *(p - q for q in some))]
    return [t for t in dict.fromkeys(triples) if len(set(t)) == 3 and all(0 <= p < k for p in t)]


def _scale(session: Session) -> Scale:
    s = session.signature
    singles = session.ask("single products", session.designer.singles())
    products = values(singles.dots.x[:, 0], s.lhs) * values(singles.dots.y[:, 0], s.rhs)
    exponents = np.log2(products).astype(int)[values(singles.got, s.result) == products]
    if not len(exponents):
        return Scale(session.designer.operands.low, session.designer.operands.high)
    low, high = int(exponents.min()), int(exponents.max())
    high -= min(4, max(high - low - 40, 0))  # sums need some room where there is enough
    return Scale(max(low, high - _SPAN), high)


class _Race:
    """Finds the record that gives the most masks: many on those of the first positions, the best of these on all."""

    def __init__(self, session: Session, masks: Answers, one: np.ndarray) -> None:
        self._session, self._masks, self._one = session, masks, one
        self._kept = masks.got == one
        used = masks.dots.x != 0
        some = session.rng.permutation(len(masks))[:_MANY]
        self._many = masks.dots[some], self._kept[some]
        self._last = used.shape[1] - 1 - np.argmax(used[:, ::-1], 1)

    def wrong(self, records: Sequence[Accumulator]) -> dict[Accumulator, int]:
        """How many of many masks each record does not give: whether the small product is left."""
        return self._wrong(records, *self._many)

    def _wrong(self, records: Sequence[Accumulator], dots: Dots, kept: np.ndarray) -> dict[Accumulator, int]:
        expected = predicted_by(records, dots, self._session.signature)
        counts = ((expected == self._one) != kept).sum(1)
        return dict(zip(records, counts.tolist(), strict=True))

    def best(self, records: Iterable[Accumulator | None], count: int, each: int | None = None) -> list[Accumulator]:
        """The records that give the most of some masks; so many of `each` step."""
        is_near = self._last < _NEAR
        some = [self._session.rng.permutation(np.flatnonzero(w))[:_RACE] for w in (is_near, ~is_near)]
        at = np.concatenate(some)
        dots, kept = self._masks.dots[at], self._kept[at]
        costs = self._wrong([r for r in dict.fromkeys(records) if r is not None], dots, kept)
        windows: dict[Window, int] = {}
        left = []
        for r in sorted(costs, key=lambda r: (costs[r], complexity(r))):
            windows[r.step, r.take] = windows.get((r.step, r.take), 0) + 1
            left += [r] if each is None or windows[r.step, r.take] <= each else []
        return left[:count]


def _starts(race: _Race, windows: Sequence[Window], forms: Sequence[Change], k: int) -> list[Accumulator]:
    """The records that give the most masks: steps and forms first, then outer sums and groups."""
    every = (changed(Accumulator(n), {"take": t} | f) for n, t in windows for f in forms)
    # A step may fit only with its outer sum.
    left = race.best(every, 2 * _LEFT, 3)

    def longer(r: Accumulator) -> list[int]:
        whole = r.step * r.pattern[1] // r.pattern[0]
        return [n * whole for n in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if 0 < n * whole < k]

    left = race.best((*left, *(changed(r, {"outer": n}) for r in left for n in longer(r))), _LEFT)
    groups = (changed(r, {"c": "after", "group": n, "outer": 0}) for r in left if not r.tree for n in longer(r)[1:])
    left = race.best((*left, *groups), _LEFT)
    nested = (changed(r, {"outer": r.group * n}) for r in left if r.group for n in (1, 2, 4, 8))
    left = race.best((*left, *nested), _LEFT)
    wrong = race.wrong(left)
    least = min(wrong.values())
    likely = [r for r in left if wrong[r] <= least + least // 10]
    # Sums that each go to an outer one in f32 are alike to such as join a running sum in f32.
    alike = (
        changed(Accumulator(r.step, r.take), {"outer": n, "group": group} | f)
        for r in likely
        for n, group in dict.fromkeys(((r.outer, r.group), (r.group or next(iter(longer(r)), 0), 0)))
        for f in forms
    )
    wrong |= race.wrong([r for r in dict.fromkeys(alike) if r is not None and r not in wrong])
    least = min(wrong.values())
    best = [r for r in wrong if wrong[r] <= least + least // 10]
    found: dict[Accumulator, Accumulator] = {}
    for r in sorted(best, key=lambda r: (wrong[r], complexity(r))):
        if r.outer and r.c == "after" and r.outer == (r.group or r.step * r.pattern[1] // r.pattern[0]):
            continue  # each sum begins from zero: it is the same as with c=aligned
        bits = {"sum_bits": r.bits, "c_bits": r.bits} if r.c == "joined" else {}
        found.setdefault(dataclasses.replace(r, keep="f32", **bits), r)  # what is kept is looked for later
    return list(found.values())[:_MOST_STARTS]


def complexity(record: Accumulator) -> int:
    """How many facts of a record are not the defaults, steps and what is kept left out."""
    plain = Accumulator(record.step, keep=record.keep)
    return sum(getattr(record, f.name) != getattr(plain, f.name) for f in dataclasses.fields(record))


def _forms(scale: Scale) -> Iterator[Change]:
    """Ways to sum, with half as many bits as the masks can tell from all; first those kept in f32, then in f64."""
    bits = max(1, min((scale.high - scale.low) // 2, 30))
    for keep in (f"f32:{min(22, bits)}", "f64"):
        yield {"bits": bits, "keep": keep}
        yield {"bits": bits, "keep": keep, "c": "after"}
        joined = {"bits": bits, "keep": keep, "c": "joined", "sum_bits": bits, "c_bits": bits}
        yield from (joined, joined | {"even_odd": True})
        yield from (joined | {"c_bits": 45}, joined | {"c_bits": 45, "even_odd": True})
        yield {"bits": None, "keep": keep}
        yield {"bits": None, "keep": keep, "c": "after"}
        yield {"keep": keep, "c": "after", "tree": True}


def _spread(k: int) -> list[int]:
    """Positions: the first ones, those around powers of two and halves between them, and the last."""
    near = [b + d for i in range(2, 20) for b in (1 << i, 3 << (i - 1)) for d in (-1, 0, 1)]
    return sorted({*range(10), *near, k - 1, k - 2})


def _ends(triples: Sequence[Triple], kept: np.ndarray, k: int) -> list[tuple[int, int]]:
    """Where the products end that are lost beside large ones at 0 and another position, this one left out and not."""
    lost: dict[int, list[int]] = {}
    for (i, j, at), is_kept in zip(triples, kept, strict=True):
        if i == 0 and not is_kept and (j in _DENSE or j == k - 1):
            lost.setdefault(j, []).append(at)
    return [(max(where) + 1, max(*where, j) + 1) for j, where in lost.items() if len(where) > 1]


def _windows(ends: Sequence[tuple[int, int]], k: int) -> list[Window]:
    """Return steps, and which positions they take, those first that fit best: lost products end where a step does."""
    found: dict[Window, float] = {}
    either = np.array(ends).reshape(-1, 2)
    for n in range(1, k + 1):
        rests = -either % n
        for run, period in ((1, 1), *_PATTERNS):
            # A step of no more products than stand together takes consecutive ones.
            if not n % period and (period == 1 or n > period):
                fits = (np.isin(rests, range(0, period, run)) | (either == k)).any(1)
                take = "consecutive" if period == 1 else f"{run}of{period}"
                # Of the divisors of a length all fit.
                found[n * run // period, take] = fits.mean() + n / (8 * k) - period / run / 100 if len(ends) else 0
    best = sorted(found, key=found.__getitem__, reverse=True)
    plain = ((n, "consecutive") for n in (1, 0, *(1 << i for i in range(1, 12) if 1 << i <= k)))
    return list(dict.fromkeys((*best[:_WINDOWS], *plain)))
