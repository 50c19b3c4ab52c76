"""Compares the distribution of results with that of accumulators in an unknown order.

Results must be as far from the exact sums as those of such accumulators, overall and along each dimension.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np

from ....ops.cast import cast
from ....ops.policy import Policy
from ....ops.types import ElementType, type_of_dtype
from . import hypotheses
from .accumulators import SAMPLE, query_of, rows_of, sample_indices
from .exact_sums import F64, ExactSums, between, spread
from .hypotheses import Rows
from .terms import BLOCK

_PLAIN = Policy()

#: Forms results, as sums in f64, from their terms.
Like = Callable[[Rows], np.ndarray]


def is_like(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, selected: np.ndarray, likes: list[Like]) -> bool:
    """Whether results are distributed about the exact sums as those of some accumulators are.

    No result may be off by more than twice the largest error of these, relative to the terms' magnitudes; as a whole
    and
    along each dimension, errors must be as large and as frequent; and results must follow the exact sums as closely.
    """
    if sums.terms is None or not likes or selected.sum() < _FEW:
        return False
    element = type_of_dtype(theirs.dtype)
    flat = np.flatnonzero(selected & np.isfinite(sums.exact))
    fair = spread(flat, SAMPLE)
    sample = np.union1d(fair, sample_indices(sums, wrong, selected & np.isfinite(sums.exact)))
    parts = [[] for _ in likes]
    for at, _ in sums.terms.blocks(sample):
        rows = rows_of(sums, sample[at])
        for results, form in zip(parts, likes, strict=True):
            results.append(_round(form(rows), element))
    made = [np.concatenate(r) for r in parts]
    of_fair = [r[np.searchsorted(sample, fair)] for r in (*made, _round(sums.exact.reshape(-1)[sample], element))]
    if _is_one_of(_round(theirs, element).reshape(-1)[fair], of_fair):
        return False
    known = [_Deviation.of(r, sums, sample, element) for r in made]  # if more differ than on average
    average = [_Deviation.of(r, sums, fair, element) for r in of_fair[:-1]]
    got = _Deviation.of(_round(theirs, element).reshape(-1)[flat], sums, flat, element)
    most = 2 * max(d.largest for d in known)
    near = between(theirs, sums.exact, most * sums.sizes).reshape(-1)[flat]
    if not near.all() and not _fit_their_own(sums, theirs, flat[~near], likes):
        return False
    if not got.fits(known, average):
        return False
    parts_of = _parts(np.unravel_index(flat, theirs.shape), theirs.shape)
    return all(got.along(part).fits(known, average, is_part=True) for part in parts_of)


def _is_one_of(got: np.ndarray, forms: list[np.ndarray]) -> bool:
    """Whether results agree with one accumulator better than any other does: apart from a fault they are its
    results."""
    n = len(got)

    def share(x: np.ndarray, y: np.ndarray) -> float:
        return float(((x == y) | (np.isnan(x) & np.isnan(y))).mean())

    for i, form in enumerate(forms) if n >= _FEW else ():
        others = max(share(other, form) for j, other in enumerate(forms) if j != i)
        if share(got, form) > others + 3 * np.sqrt(others * (1 - others) / n) + 1 / n:
            return True
    return False


def _round(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Rounds sums in f64 to a type; values stay in f64."""
    x = np.asarray(x)
    rounded = cast(x, F64, element, _PLAIN) if x.dtype == np.float64 else x
    return cast(rounded, element, F64, _PLAIN)


def _parts(places: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The results at each index of each dimension, as positions among the selected ones."""
    for along, n in zip(places, shape, strict=True):
        if n > 1:
            order = np.argsort(along, kind="stable")
            yield from np.split(order, np.searchsorted(along[order], np.arange(1, n)))


def _fit_their_own(sums: ExactSums, theirs: np.ndarray, flat: np.ndarray, likes: list[Like]) -> bool:
    """Whether results that are further off than most are within the errors that their own terms cause."""
    assert sums.terms is not None
    if len(flat) > max(BLOCK // max(sums.terms.count, 1), 64):
        return False
    element, got, exact = type_of_dtype(theirs.dtype), theirs.reshape(-1)[flat], sums.exact.reshape(-1)[flat]
    for at, _ in sums.terms.blocks(flat):
        rows = rows_of(sums, flat[at])
        off = np.max([np.abs(_round(form(rows), element) - exact[at]) for form in likes], axis=0)
        if not between(got[at], exact[at], 2 * np.where(np.isfinite(off), off, 0.0)).all():
            return False
    return True


@dataclasses.dataclass(frozen=True)
class _Deviation:
    """The deviation of results from the exact ones: relative to the terms' magnitudes, beyond one rounding."""

    excess: np.ndarray
    differs: np.ndarray  #: from the exact result, rounded once
    is_zero: np.ndarray
    products: np.ndarray  #: of a result and the exact one; and squares of the exact ones
    squares: np.ndarray

    @classmethod
    def of(cls, results: np.ndarray, sums: ExactSums, flat: np.ndarray, element: ElementType) -> _Deviation:
        exact, sizes = sums.exact.reshape(-1)[flat], sums.sizes.reshape(-1)[flat]
        right = _round(exact, element)
        finite = np.isfinite(results) & np.isfinite(right)
        off = np.maximum(np.abs(results - exact) - np.abs(right - exact), 0.0)
        excess = np.where(finite & (sizes > 0), off / np.where(sizes > 0, sizes, 1.0), 0.0)
        scale = np.where(sizes > 0, sizes, 1.0)
        x, y = (np.where(finite, v, 0.0) / scale for v in (results, exact))
        differs = (results != right) & ~(np.isnan(results) & np.isnan(right))
        return cls(excess, differs, (results == 0) & (right != 0), x * y, y * y)

    def along(self, part: np.ndarray) -> _Deviation:
        return _Deviation(*(getattr(self, f.name)[part] for f in dataclasses.fields(self)))

    @functools.cached_property
    def largest(self) -> float:
        return float(self.excess.max(initial=0.0))

    @property
    def spread(self) -> float:
        return float(np.sqrt(np.mean(self.excess**2))) if self.excess.size else 0.0

    @property
    def slope(self) -> float:
        return float(self.products.sum() / self.squares.sum()) if self.squares.sum() > 0 else 1.0

    def fits(self, known: list[_Deviation], average: list[_Deviation], is_part: bool = False) -> bool:
        """Whether it may be one of the known deviations, or of their parts, which vary more. A few results decide
        nothing.
        """
        n = len(self.excess)
        if n < _FEW:
            return True
        noise = 3 / np.sqrt(min(n, *(len(d.excess) for d in average)))
        if self.spread > (3 if is_part else 1.5) * max(d.spread for d in known) * (1 + noise):
            return False
        zeros = max(d.is_zero.mean() for d in average)
        if self.is_zero.mean() > 2 * zeros + noise / 2:
            return False
        slopes = [d.slope for d in average]
        if not 0.7 * min(slopes) - noise < self.slope < 1.4 * max(slopes) + noise:
            return False
        often = min(d.differs.mean() for d in average)
        return bool(self.differs.mean() >= (0.2 if is_part else 0.5) * often - noise / 2)


#: Fewer results than this have no known distribution.
_FEW = 12


def units(sums: ExactSums) -> list[Like]:
    """Chip accumulators for products of narrow types, with the fewest bits known for them."""
    if sums.operation.regions or sums.element.bits > 16 or sums.terms is None or sums.terms.factors is None:
        return []
    is_small = sums.element.is_minifloat
    most = _FEWEST_BITS[is_small]
    known = [w for w in hypotheses.units(query_of(sums, sums.element)) if w.record is not None and not w.record.outer]
    kept = [w for w in known if w.record and w.record.bits is not None and w.record.bits <= most]
    if is_small or sums.element.name == "f16":
        kept += [w for w in known if w.identifier in ("steps/f16/32-terms", "steps/f16/16-terms", "steps/f16/8-terms")]
    return [lambda rows, w=w: w.sum(rows).value for w in kept]


#: Of the accumulators for f16 and bf16, and for minifloats.
_FEWEST_BITS = (24, 13)
