"""Finds the positions that are summed together, and in which order: from large products that cancel around a small one.

The largest number is at one position, its negative at another and the smallest at a third: the small one is lost if it
is aligned with a large one, or added while the sum is large. After FPRev (arXiv 2411.00442), which counts the terms
left.
First the layouts that explain the masks are found (`layouts.py`), then the matching accumulators.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...ops.accumulators.record import Accumulator
from .answers import Session
from .designs import Dots, Scale
from .facts import Change
from .layouts import Layout, Masks, layouts
from .operands import positions_text, values
from .predict import predict_by

#: Number of layouts with few more exceptions than the best that are tried with all forms of sums.
_LAYOUTS = 60
#: Number of records that begin the search.
_MOST_STARTS = 24
#: Number of lengths of steps tried.
_LENGTHS = 12
#: Bits that truncate nothing.
_WIDE = 45
#: The widest range of exponents in a dot: twice the bits of f64 would not show more.
_SPAN = 70

#: Starts of pairs of large products, besides 0 and the last positions.
_PAIRS = (2, 3, 4, 7, 8, 12, 13, 24, 32, 47)

#: Number of pairs shown in a report.
_SHOWN_PAIRS = ((0, 1), (0, 2))

#: Second positions of pairs that are asked for with all third positions.
_DENSE = (1, 2, 3, 4, 5, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181)
Triple = tuple[int, int, int]


@dataclasses.dataclass(frozen=True)
class Structure:
    """The information from masks."""

    scale: Scale  #: the exponents for which a single product is its own sum
    lengths: tuple[int, ...]  #: of steps, the best first
    starts: tuple[Accumulator, ...]  #: the records that reproduce most masks; their numbers are not known yet
    hidden: tuple[str, ...] = ()  #: the small products that some pairs of large ones absorb, in words


def structure(session: Session) -> Structure:
    """Ask a backend for masks, and analyse them."""
    scale, k = _scale(session), session.signature.k
    forms = list(_forms(scale))
    triples = _triples(k)
    if not triples:  # one product or two: nothing is masked
        made = (Layout(n, apart=apart).record(f) for f in forms for n in (0, 1) for apart in ("", "tree"))
        return Structure(scale, (1, 0), _distinct(r for r in made if r is not None))
    masks = session.ask("masks", session.designer.masks(scale, triples))
    small = session.designer.dots([[(0, scale.low, 1.0)]])
    one = session.asker.ask(small.x, small.y)[0]
    kept = masks.got == one
    seen = Masks(np.array(triples), kept, k, session.rng)
    best = seen.best(list(layouts(k)))
    lengths = tuple(dict.fromkeys((1, *(v.step for v in best), 0)))[:_LENGTHS]
    starts = _starts(seen, best, forms, lambda some, at: predict_by(some, masks.dots[at], session.signature) == one)
    return Structure(scale, lengths, starts, tuple(_hidden(triples, kept, k)))


def _hidden(triples: Sequence[Triple], kept: np.ndarray, k: int) -> Iterator[str]:
    """Describe the small products that are lost beside the first pairs of large ones, which are tested with all
    positions.
    """
    for pair in _SHOWN_PAIRS:
        lost = [at for (i, j, at), is_kept in zip(triples, kept, strict=True) if (i, j) == pair and not is_kept]
        if pair[1] < k:
            beside = f"at {positions_text(lost)}" if lost else "nowhere"
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
    largest = _largest(session, low, high)
    if largest > high:  # the result has fewer exponents than the sum
        return Scale(low, min(largest, low + _SPAN))
    high -= min(4, max(high - low - 40, 0))  # sums need some room if there is enough
    return Scale(max(low, high - _SPAN), high)


def _largest(session: Session, low: int, high: int) -> int:
    """The exponent up to which two cancelling products leave little of a small one, at any positions."""
    k, d = session.signature.k, session.designer
    pairs = [(0, j, k - 1) for j in dict.fromkeys((1, k // 2, k - 2)) if 0 < j < k - 1]
    each = [d.masks(Scale(low, e), pairs) for e in range(high + 1, d.operands.high + 1)] if pairs else []
    each = list(itertools.takewhile(lambda dots: len(dots) == len(pairs), each))
    if not each:
        return high
    together = Dots.join(each)
    left = np.abs(values(session.asker.ask(together.x, together.y), session.signature.result)).reshape(len(each), -1)
    with np.errstate(invalid="ignore"):
        is_small = (left <= 2.0 ** np.arange(high - 2, high - 2 + len(each))[:, None]).all(1)
    # If the sum ends at its largest number, the first power of two beyond it leaves little as well.
    return high + (len(each) if is_small.all() else max(int(np.argmin(is_small)) - 1, 0))


def _starts(
    masks: Masks,
    costs: dict[Layout, tuple[int, int]],
    forms: Sequence[Change],
    keeps: Callable[[Sequence[Accumulator], np.ndarray], np.ndarray],
) -> tuple[Accumulator, ...]:
    """The records that reproduce most masks, for the best layouts and each form of sums."""
    least = min(cost for cost, _ in costs.values())
    likely = [v for v, (cost, _) in costs.items() if cost <= least + least // 10][:_LAYOUTS]
    wrong: dict[Accumulator, tuple[int, int]] = {}
    for layout in likely:
        at, kept, lost = masks.classes(layout)
        made = (layout.record(form) for form in forms if not layout.is_alike(form))
        records = [r for r in dict.fromkeys(made) if r is not None]
        if records:
            counts = np.where(keeps(records, at), lost, kept).sum(1).tolist()
            wrong |= {r: (n, costs[layout][1]) for r, n in zip(records, counts, strict=True)}
    least = min(n for n, _ in wrong.values())
    best = [r for r in wrong if wrong[r][0] <= least + least // 10]
    return _distinct(sorted(best, key=lambda r: (*wrong[r], complexity(r))))


def _distinct(records: Iterable[Accumulator]) -> tuple[Accumulator, ...]:
    """Return some records that differ in facts other than those searched later: the kept form, and bits."""
    found: dict[Accumulator, Accumulator] = {}
    for r in records:
        bits = {"bits": 1} if r.bits is not None else {}
        bits |= {"sum_bits": 1, "c_bits": 1} if r.c == "joined" else {}
        found.setdefault(dataclasses.replace(r, keep="f32", **bits), r)
    return tuple(found.values())[:_MOST_STARTS]


def complexity(record: Accumulator) -> int:
    """The number of facts of a record that are not the defaults, without steps and the kept form."""
    plain = Accumulator(record.step, keep=record.keep)
    return sum(getattr(record, f.name) != getattr(plain, f.name) for f in dataclasses.fields(record))


def _forms(scale: Scale) -> Iterator[Change]:
    """Forms of sums, with half as many bits as the masks can distinguish from all; first those kept in f32, then in
    f64.

    Joins in a type of 8 bits or of 53 are distinguished by whether earlier parts have other bits.
    """
    bits = max(1, min((scale.high - scale.low) // 2, 28))
    for keep in (f"f32:{min(22, bits)}", "f64", f"f64:{bits}", f"bf16:{min(6, bits)}"):
        yield {"bits": bits, "keep": keep}
        yield {"bits": bits, "keep": keep, "c": "after"}
        for sum_bits, c_bits in ((bits, bits), (bits, _WIDE), (_WIDE, bits)):
            yield {"bits": bits, "keep": keep, "c": "joined", "sum_bits": sum_bits, "c_bits": c_bits}
        yield {"bits": None, "keep": keep}
        yield {"bits": None, "keep": keep, "c": "after"}


def _spread(k: int) -> list[int]:
    """Positions: the first ones, those around powers of two and halves between them, and the last."""
    near = [b + d for i in range(2, 20) for b in (1 << i, 3 << (i - 1)) for d in (-1, 0, 1)]
    return sorted({*range(10), *near, k - 1, k - 2})
