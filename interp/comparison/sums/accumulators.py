"""Sums as accumulators narrower than f32 form them: which of these explains all results of an op together.

`model_of` looks for a type and an order that give every result exactly. `is_like` asks, where the order is not known,
whether results are as far from the exact ones as such accumulators are, all over and along each dimension.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ....ops.engine.cast import cast, codes_of
from ....ops.policy import Policy
from ....ops.types import ElementType, TensorType, type_of_dtype
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact
from ..equality import equal_codes, equal_values
from ..grades import Note
from . import accumulation, ways
from .accumulation import Held, Sum, Type
from .exact_sums import F64, ExactSums, between, spread
from .explain import Observed, explain
from .terms import BLOCK, axes_of
from .ways import Asked, Rows, Way

_PLAIN = Policy()
#: So many results are tried first, half of them such as differ from the exact ones.
_SAMPLE = 96
#: An order of more steps than this is not tried: as it is one of many, and each step costs some microseconds.
_STEPS = 1 << 14
#: Blocks of scans, as XLA cuts them for CPUs and for others.
_SCANS = (16, 32, 128)
#: Tiles that XLA folds several dimensions by.
_TILE = 32


# -- one model for all results -----------------------------------------------------------------------------------------


def model_of(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, asked: np.ndarray) -> Note | None:
    """The accumulator that gives all the results asked for; None where none does."""
    for note, results in _scans(sums):
        if _same(cast(results, F64, type_of_dtype(theirs.dtype), _PLAIN), theirs)[asked].all():
            return note
    if sums.terms is None:
        return None
    what = _asked(sums, type_of_dtype(theirs.dtype))
    known = itertools.chain(
        _tiles(sums), ways.in_types(what, (sums.element.name, "f16", "bf16"), _STEPS), ways.units(what)
    )
    fit = explain([_observed(sums, theirs, wrong, asked)], known).fit
    return Note(fit.identifier, fit.sentence) if fit else None


def _asked(sums: ExactSums, result: ElementType) -> Asked:
    assert sums.terms is not None
    operands = [v.type.element.name for v in sums.operation.operands[:2] if isinstance(v.type, TensorType)]
    types = operands if sums.terms.factors is not None else operands[:1]
    return Asked(tuple(types), result.name, "multiply" if sums.is_product else "add", (max(sums.terms.count, 1),))


def _observed(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, asked: np.ndarray) -> Observed:
    """The results that are to be explained; zeros are one number, as orders do not agree on their signs."""
    element = type_of_dtype(theirs.dtype)
    fmt = FORMATS[element.name]
    codes = codes_of(np.array(theirs, order="C"), element.format).reshape(-1)

    def agrees(flat: np.ndarray, given: np.ndarray, _: np.ndarray) -> np.ndarray:
        zeros = (fmt.decode(given) == 0) & (fmt.decode(codes[flat]) == 0)
        return equal_codes(element.name, codes[flat], given) | zeros

    what, places = _asked(sums, element), (np.flatnonzero(x) for x in (asked, wrong & asked))
    return Observed("", what, lambda flat: rows_of(sums, flat), agrees, lambda flat: codes[flat], *places)


def rows_of(sums: ExactSums, flat: np.ndarray) -> Rows:
    """The terms of some results, with the codes of their factors."""
    terms = sums.terms
    assert terms is not None
    factors = terms.factors
    if factors is None:
        return Rows(terms.rows(flat))

    def codes() -> tuple[np.ndarray, np.ndarray]:
        x, y = (
            codes_of(cast(v, F64, v_type.element, _PLAIN), v_type.element.format)
            for v, value in zip(factors(flat), sums.operation.operands, strict=False)
            if isinstance(v_type := value.type, TensorType)
        )
        return x, y

    return Rows(terms.rows(flat), codes)


def sampled(sums: ExactSums, wrong: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The flat indices of some results: such as are wrong, and others."""
    assert sums.terms is not None
    few = max(min(_SAMPLE, BLOCK // max(sums.terms.count, 1)), 2)
    chosen = [spread(np.flatnonzero(where), few // 2) for where in (wrong & asked, ~wrong & asked)]
    return np.sort(np.concatenate(chosen))


def gives(form: Sum, rows: np.ndarray, got: np.ndarray) -> bool:
    """Whether these terms add up to these results."""
    with np.errstate(all="ignore"):
        return bool(_same(cast(form(rows), F64, type_of_dtype(got.dtype), _PLAIN), got).all())


def _same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """As `equal_values`; but zeros are one number, as orders do not agree on their signs."""
    return equal_values(x, y) | ((x == 0) & (y == 0))


def _scans(sums: ExactSums) -> Iterator[tuple[Note, np.ndarray]]:
    """Cumulative sums along a dimension, cut into blocks: of a block the sum in order, and those of blocks likewise."""
    operation, x = sums.operation, sums.operands[0]
    if not operation.name.endswith("reduce_window") or x.ndim == 0:
        return
    axes = axes_of(operation, x.shape)
    moving = [d for d, a in enumerate(axes) if a.window != 1]
    if len(moving) != 1 or x.size == 0:
        return
    axis, n = axes[moving[0]], x.shape[moving[0]]
    is_forward = (axis.low, axis.high) == (n - 1, 0)
    plain = (axis.window, axis.stride, axis.base_dilation, axis.window_dilation) == (n, 1, 1, 1)
    if not plain or not (is_forward or (axis.low, axis.high) == (0, n - 1)):
        return
    t = _own(sums)
    terms = np.moveaxis(x, moving[0], -1)
    rows = terms.reshape(-1, n)[:, :: 1 if is_forward else -1]
    loaded = t.load(np.ascontiguousarray(cast(rows, sums.element, F64, _PLAIN)))
    for base in _SCANS:
        found = t.exact(_scan(loaded, base, t.combine))[:, :: 1 if is_forward else -1].reshape(terms.shape)
        note = Note(f"accumulated/{t.name}/scans-{base}", f"accumulated in {t.name} in scans of {base}")
        yield note, np.moveaxis(found, -1, moving[0])


def _tiles(sums: ExactSums) -> Iterator[Way]:
    """Reductions of tiles of 32 along each dimension, which are centred; and of what these give again.

    Each tile begins with the initial value: so a sum may have it many times, as it may by the specification.
    """
    if sums.terms is None or not sums.terms.extent:
        return
    t = _own(sums)
    extent = sums.terms.extent

    def form(rows: np.ndarray) -> np.ndarray:
        n = math.prod(extent)
        neutral = np.full((len(rows), 1), 1.0 if sums.is_product else -0.0)
        x, init = t.load(rows[:, rows.shape[1] - n :]), t.load(neutral if rows.shape[1] == n else rows[:, :1])
        x = x.reshape(len(x), *extent)
        while max(x.shape[1:]) > _TILE:
            x = _tiled(x, init, t.load(neutral[:1])[0, 0], t.combine)
        return t.exact(accumulation.in_order(np.concatenate([init, x.reshape(len(x), -1)], axis=1), t.combine))

    sentence = f"accumulated in {t.name} in centred tiles of {_TILE}"
    identifier = f"accumulated/{t.name}/centred-tiles-{_TILE}"
    yield Way(identifier, sentence, lambda rows: Exact.of(form(rows.terms)), family=identifier, type=t.name)


def _tiled(x: np.ndarray, init: np.ndarray, neutral: Any, combine: accumulation.Combine) -> np.ndarray:
    sizes = [min(n, _TILE) for n in x.shape[1:]]
    counts = [-(-n // size) for n, size in zip(x.shape[1:], sizes, strict=True)]
    padded = np.full((len(x), *(c * s for c, s in zip(counts, sizes, strict=True))), neutral, x.dtype)
    before = [(c * s - n) // 2 for c, s, n in zip(counts, sizes, x.shape[1:], strict=True)]
    padded[(slice(None), *(slice(b, b + n) for b, n in zip(before, x.shape[1:], strict=True)))] = x
    rank = len(sizes)
    split = padded.reshape(len(x), *(v for pair in zip(counts, sizes, strict=True) for v in pair))
    tiles = split.transpose(0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2)).reshape(-1, math.prod(sizes))
    first = np.repeat(init, math.prod(counts), axis=0)
    return accumulation.in_order(np.concatenate([first, tiles], axis=1), combine).reshape(-1, *counts)


def _scan(x: np.ndarray, base: int, combine: accumulation.Combine) -> np.ndarray:
    found = x.copy()
    for i in range(1, x.shape[1]):
        if i % base:
            found[:, i] = combine(found[:, i - 1], x[:, i])
    if x.shape[1] > base:
        before = _scan(found[:, base - 1 : -1 : base], base, combine)
        blocks = np.repeat(before, base, axis=1)[:, : x.shape[1] - base]
        found[:, base:] = combine(blocks, found[:, base:])
    return found


# -- unknown orders ----------------------------------------------------------------------------------------------------


#: How results may be formed: from their terms to sums in f64.
Like = Callable[[Rows], np.ndarray]


def is_like(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, asked: np.ndarray, likes: list[Like]) -> bool:
    """Whether results are distributed about the exact sums as those of some accumulators are.

    None is further off than twice what these are off at most, relative to the terms' magnitudes; as a whole, and along
    each dimension, they are off about as much and about as often; and they follow the exact sums as closely.
    """
    if sums.terms is None or not likes or asked.sum() < _FEW:
        return False
    element = type_of_dtype(theirs.dtype)
    flat = np.flatnonzero(asked & np.isfinite(sums.exact))
    fair = spread(flat, _SAMPLE)
    sample = np.union1d(fair, sampled(sums, wrong, asked & np.isfinite(sums.exact)))
    parts = [[] for _ in likes]
    for at, _ in sums.terms.blocks(sample):
        rows = rows_of(sums, sample[at])
        for results, form in zip(parts, likes, strict=True):
            results.append(_rounded(form(rows), element))
    made = [np.concatenate(r) for r in parts]
    of_fair = [r[np.searchsorted(sample, fair)] for r in (*made, _rounded(sums.exact.reshape(-1)[sample], element))]
    if _is_one_of(_rounded(theirs, element).reshape(-1)[fair], of_fair):
        return False
    known = [_Deviation.of(r, sums, sample, element) for r in made]  # of more that differ than there are on average
    average = [_Deviation.of(r, sums, fair, element) for r in of_fair[:-1]]
    got = _Deviation.of(_rounded(theirs, element).reshape(-1)[flat], sums, flat, element)
    most = 2 * max(d.largest for d in known)
    near = between(theirs, sums.exact, most * sums.sizes).reshape(-1)[flat]
    if not near.all() and not _fit_their_own(sums, theirs, flat[~near], likes):
        return False
    if not got.fits(known, average):
        return False
    parts_of = _parts(np.unravel_index(flat, theirs.shape), theirs.shape)
    return all(got.along(part).fits(known, average, is_part=True) for part in parts_of)


def _is_one_of(got: np.ndarray, forms: list[np.ndarray]) -> bool:
    """Whether results agree with those of one way to sum more than any other way does: but for a fault they are its."""
    n = len(got)

    def share(x: np.ndarray, y: np.ndarray) -> float:
        return float(((x == y) | (np.isnan(x) & np.isnan(y))).mean())

    for i, form in enumerate(forms) if n >= _FEW else ():
        others = max(share(other, form) for j, other in enumerate(forms) if j != i)
        if share(got, form) > others + 3 * np.sqrt(others * (1 - others) / n) + 1 / n:
            return True
    return False


def _rounded(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Numbers of a type in f64, of sums in f64 or of the type itself."""
    x = np.asarray(x)
    rounded = cast(x, F64, element, _PLAIN) if x.dtype == np.float64 else x
    return cast(rounded, element, F64, _PLAIN)


def _parts(places: tuple[np.ndarray, ...], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    """The results of each index of each dimension, as places among those asked for."""
    for along, n in zip(places, shape, strict=True):
        if n > 1:
            order = np.argsort(along, kind="stable")
            yield from np.split(order, np.searchsorted(along[order], np.arange(1, n)))


def _fit_their_own(sums: ExactSums, theirs: np.ndarray, flat: np.ndarray, likes: list[Like]) -> bool:
    """Whether results that are further off than most are no further off than their own terms lead to."""
    assert sums.terms is not None
    if len(flat) > max(BLOCK // max(sums.terms.count, 1), 64):
        return False
    element, got, exact = type_of_dtype(theirs.dtype), theirs.reshape(-1)[flat], sums.exact.reshape(-1)[flat]
    for at, _ in sums.terms.blocks(flat):
        rows = rows_of(sums, flat[at])
        off = np.max([np.abs(_rounded(form(rows), element) - exact[at]) for form in likes], axis=0)
        if not between(got[at], exact[at], 2 * np.where(np.isfinite(off), off, 0.0)).all():
            return False
    return True


@dataclasses.dataclass(frozen=True)
class _Deviation:
    """How results deviate from the exact ones: relative to the terms' magnitudes, beyond one rounding."""

    excess: np.ndarray
    differs: np.ndarray  #: from the exact result, rounded once
    is_zero: np.ndarray
    products: np.ndarray  #: of a result and the exact one; and squares of the exact ones
    squares: np.ndarray

    @classmethod
    def of(cls, results: np.ndarray, sums: ExactSums, flat: np.ndarray, element: ElementType) -> _Deviation:
        exact, sizes = sums.exact.reshape(-1)[flat], sums.sizes.reshape(-1)[flat]
        right = _rounded(exact, element)
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
        """Whether it may be one of the known ones; or of its parts, which vary more. Of a few results none can say."""
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


#: Of fewer results than this no distribution is known.
_FEW = 12


def steps(sums: ExactSums) -> list[Sum]:
    """A fold in the element type, each step rounded, as its body is written: in order, and in windows as XLA's."""
    if sums.element.bits > 16 or sums.terms is None:
        return []
    return _in_orders(sums, ("in-order", "windows-32", "centred-windows-32"))


def _in_orders(sums: ExactSums, wanted: Sequence[str]) -> list[Sum]:
    """A fold in the element type in those of some orders, by identifier, that there are for its terms."""
    assert sums.terms is not None
    how = Held(_own(sums), "accumulated", "accumulated")
    known = accumulation.orders([max(sums.terms.count, 1)], _STEPS)
    return [how.total(order) for order in known if order.identifier in wanted]


def _own(sums: ExactSums) -> Type:
    """The operands' own type, to accumulate in."""
    return accumulation.types([FORMATS[sums.element.name]], "multiply" if sums.is_product else "add")[-1]


def folds(sums: ExactSums) -> list[Sum]:
    """The same in several orders."""
    if sums.element.bits > 16 or sums.terms is None:
        return []
    found = _in_orders(sums, ("in-order", "reverse", "pairwise", "halves", "windows-32", "lanes-8"))

    def shuffled(rows: np.ndarray) -> np.ndarray:
        order = np.random.Generator(np.random.Philox(0)).permutation(rows.shape[1])
        return found[0](rows[:, order])

    return [*found, shuffled]


def units(sums: ExactSums) -> list[Like]:
    """Units for products of narrow types, of the fewest bits that are known for them."""
    if sums.operation.regions or sums.element.bits > 16 or sums.terms is None or sums.terms.factors is None:
        return []
    is_small = sums.element.is_minifloat
    most = _FEWEST_BITS[is_small]
    known = [w for w in ways.units(_asked(sums, sums.element)) if w.record is not None and not w.record.outer]
    kept = [w for w in known if w.record and w.record.bits is not None and w.record.bits <= most]
    if is_small or sums.element.name == "f16":
        kept += [w for w in known if w.identifier in ("steps/f16/32-terms", "steps/f16/16-terms", "steps/f16/8-terms")]
    return [lambda rows, w=w: w.sum(rows).value for w in kept]


#: Of the units for f16 and bf16, and of those for minifloats.
_FEWEST_BITS = (24, 13)
