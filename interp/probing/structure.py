"""Which positions are summed together, and in which order: from large products that cancel around a small one.

The largest number at one position, its negative at another and the smallest at a third: the small one is lost where it
is aligned with a large one, or added while the sum is large. After FPRev (arXiv 2411.00442), which counts what is left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import Accumulator
from .answers import Answers, Session
from .designs import Dots, Scale
from .facts import Change, changed, neighbours
from .operands import values
from .predict import predicted
from .words import places

#: Masks that candidates are compared on, those of the first positions before others, which are quick to predict.
_RACE, _FIRST, _NEAR = 150, 16, 66
#: How many lengths of steps are tried.
_LENGTHS = 12
#: The widest range of exponents in a dot: twice what f64 has bits for would not show more.
_SPAN = 70

#: Where pairs of large products begin, but for those that begin at 0 and those of the last positions.
_PAIRS = (2, 3, 4, 7, 8, 12, 13, 24, 32, 47)

#: The pairs that a report shows.
_TOLD = ((0, 1), (0, 2))

Triple = tuple[int, int, int]


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
    lengths = _lengths(triples, masks.got == one, k)
    race = _Race(session, masks, one)
    record = _best(race, lengths, forms, k)
    # Sums that each go to an outer one in f32 are alike to such as join a running sum in f32.
    each = record.group or record.step * record.pattern[1] // record.pattern[0]
    outers = dict.fromkeys((record.outer, each if record.c == "after" else record.outer))
    alike = dict.fromkeys(changed(record, {"group": 0, "outer": n} | form) for n in outers for form in forms)
    least = race.wrong(record)
    others = [r for r in alike if r is not None and r != record and race.wrong(r) == least]
    return Structure(scale, tuple(lengths), (record, *others), tuple(_hidden(triples, masks.got == one, k)))


def _hidden(triples: Sequence[Triple], kept: np.ndarray, k: int) -> Iterator[str]:
    """Which small products are lost beside the first pairs of large ones, of which all positions have been asked."""
    for pair in _TOLD:
        lost = [at for (i, j, at), is_kept in zip(triples, kept, strict=True) if (i, j) == pair and not is_kept]
        if pair[1] < k:
            beside = f"at {places(lost)}" if lost else "nowhere"
            yield f"large products that cancel at positions {pair[0]} and {pair[1]} hide a small one {beside}"


def _triples(k: int) -> list[Triple]:
    some = [p for p in _spread(k) if p < k]
    triples = [(0, j, at) for j in some for at in (range(k) if j < 3 else some)]
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
        self._last = used.shape[1] - 1 - np.argmax(used[:, ::-1], 1)

    def wrong(self, record: Accumulator) -> int:
        """How many masks a record does not give: whether the small product is left."""
        return self._wrong(record, self._masks.dots, self._kept)

    def _wrong(self, record: Accumulator, dots: Dots, kept: np.ndarray) -> int:
        expected = predicted(record, dots, self._session.signature)
        return int(((expected == self._one) != kept).sum())

    def best(self, records: Iterable[Accumulator | None], below: int, count: int) -> list[Accumulator]:
        """The records that give the most of some masks whose positions are below a limit; the first of several."""
        at = self._session.rng.permutation(np.flatnonzero(self._last < below))[:_RACE]
        left = list(dict.fromkeys(r for r in records if r is not None))
        dots, kept = self._masks.dots[at], self._kept[at]
        costs = {r: self._wrong(r, dots, kept) for r in left}
        return sorted(left, key=costs.__getitem__)[:count]


def _best(race: _Race, lengths: Sequence[int], forms: Sequence[Change], k: int) -> Accumulator:
    """Steps and forms first, then outer sums and groups; at the end whatever is better."""
    every = (changed(Accumulator(), {"step": n, "take": t} | f) for n, t in _windows(lengths) for f in forms)
    likely = race.best(every, _FIRST, 300)  # long steps are alike there
    left = dict.fromkeys((*race.best(likely, _FIRST, 12), *race.best(likely, _NEAR, 12)))
    outer = (changed(r, {"outer": n}) for r in left for n in (0, *lengths))
    left = race.best(outer, _NEAR, 12)
    groups = (changed(r, {"c": "after", "group": n} if n else {}) for r in left for n in (0, *lengths))
    left = race.best(race.best((*left, *groups), _NEAR, 24), k, 8)
    record = min(left, key=race.wrong)
    moves: tuple[Callable[[Accumulator], Iterable[Accumulator | None]], ...] = (
        lambda r: (changed(r, {"outer": n}) for n in lengths),
        # Another step may not divide the length of the outer sum.
        lambda r: (
            changed(r, f | {"step": n, "group": 0, "outer": o})
            for o in dict.fromkeys((r.outer, 0))
            for n in lengths
            for f in forms
        ),
        lambda r: (other for f in ("outer", "group", "step", "take") for other in neighbours(r, f, k, lengths)),
    )
    for move in moves * 2:
        if not race.wrong(record):
            break
        record = min((record, *race.best(move(record), k, 8)), key=race.wrong)
    return record


def _forms(scale: Scale) -> Iterator[Change]:
    """Ways to sum, with half as many bits as the masks can tell from all; first those kept in f32, then in f64."""
    bits = max(1, min((scale.high - scale.low) // 2, 30))
    for keep in (f"f32:{min(22, bits)}", "f64"):
        yield {"bits": bits, "keep": keep}
        yield {"bits": bits, "keep": keep, "c": "after"}
        joined = {"bits": bits, "keep": keep, "c": "joined", "sum_bits": bits, "c_bits": bits}
        yield from (joined, joined | {"even_odd": True})
        if keep == "f64":
            yield from (joined | {"c_bits": 45}, joined | {"c_bits": 45, "even_odd": True})
        yield {"bits": None, "keep": keep}
        yield {"bits": None, "keep": keep, "c": "after"}
        yield {"keep": keep, "c": "after", "tree": True}


def _windows(lengths: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Steps, and which positions they take."""
    for n in lengths:
        yield n, "consecutive"
        for period in (2, 4, 8, 16):
            for run in (1, 2, 4, 8):
                if run < period and not n * run % period:
                    yield n * run // period, f"{run}of{period}"


def _spread(k: int) -> list[int]:
    """Positions: the first ones, those around powers of two and halves between them, and the last."""
    near = [b + d for i in range(2, 20) for b in (1 << i, 3 << (i - 1)) for d in (-1, 0, 1)]
    return sorted({*range(10), *near, k - 1, k - 2})


def _lengths(triples: Sequence[Triple], kept: np.ndarray, k: int) -> list[int]:
    """Return lengths of steps, those first that fit best: where lost products end there is the end of a step."""
    lost: dict[tuple[int, int], list[int]] = {}
    for (i, j, at), is_kept in zip(triples, kept, strict=True):
        lost.setdefault((i, j), [i, j])
        if not is_kept:
            lost[i, j].append(at)
    ends = [max(where) + 1 for (i, _), where in lost.items() if i == 0]
    # A step that takes every other position ends before the last position of its window.
    options = {n for e in ends for n in (e, e + 1, e + 2, e + 4)} | {k - min(w) for (i, _), w in lost.items() if i > 0}
    options |= {n // m for n in options for m in (2, 4, 8) if not n % m}

    def fits(n: int) -> float:
        exact, near = (sum(e == k or -e % n in rest for e in ends) for rest in ((0,), (1, 2)))
        return (exact + near / 2) / len(ends) + n / (8 * k)

    ordered = sorted((n for n in options if 1 < n <= k), key=fits, reverse=True)
    return list(dict.fromkeys((1, *ordered[:_LENGTHS], 0)))
