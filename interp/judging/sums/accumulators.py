"""Accumulators narrower than f32: finds the one that explains all results of an op together.

`model_of` looks for a type and an order that reproduce every result; for unknown orders see `likeness.py`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....ops.cast import cast, codes_of
from ....ops.policy import Policy
from ....ops.types import ElementType, TensorType, type_of_dtype
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact
from ..equality import equal_codes, equal_values
from ..record import NONE, Diagnosis
from . import accumulation, hypotheses
from .accumulation import RoundedSum, Sum, Type
from .exact_sums import F64, ExactSums, spread
from .explain import Observation, explain
from .hypotheses import Hypothesis, Rows, SumQuery
from .terms import BLOCK, axes_of

_PLAIN = Policy()
#: Number of results tried first, half of them different from the exact ones.
SAMPLE = 96
#: Orders of more steps are not tried: each step takes some microseconds, and there are many orders.
_STEPS = 1 << 14
#: Block sizes of scans: XLA's on CPUs and on other devices.
_SCANS = (16, 32, 128)
#: The tile size of XLA's reductions over several dimensions.
_TILE = 32


def model_of(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, selected: np.ndarray) -> Diagnosis:
    """The accumulator that reproduces all selected results; empty if none does."""
    for note, results in _scans(sums):
        if _same(cast(results, F64, type_of_dtype(theirs.dtype), _PLAIN), theirs)[selected].all():
            return note
    if sums.terms is None:
        return NONE
    what = query_of(sums, type_of_dtype(theirs.dtype))
    known = itertools.chain(
        _tiles(sums), hypotheses.in_types(what, (sums.element.name, "f16", "bf16"), _STEPS), hypotheses.units(what)
    )
    fit = explain([_observe(sums, theirs, wrong, selected)], known).fit
    return Diagnosis(fit.sentence, (fit.identifier,)) if fit else NONE


def query_of(sums: ExactSums, result: ElementType) -> SumQuery:
    """The query for the sums of an op."""
    assert sums.terms is not None
    operands = [v.type.element.name for v in sums.operation.operands[:2] if isinstance(v.type, TensorType)]
    types = operands if sums.terms.factors is not None else operands[:1]
    return SumQuery(tuple(types), result.name, "multiply" if sums.is_product else "add", (max(sums.terms.count, 1),))


def _observe(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, selected: np.ndarray) -> Observation:
    """The results to be explained; both zeros are equal, as orders do not agree on their signs."""
    element = type_of_dtype(theirs.dtype)
    fmt = FORMATS[element.name]
    codes = codes_of(np.array(theirs, order="C"), element.format).reshape(-1)

    def agrees(flat: np.ndarray, given: np.ndarray, _: np.ndarray) -> np.ndarray:
        zeros = (fmt.decode(given) == 0) & (fmt.decode(codes[flat]) == 0)
        return equal_codes(element.name, codes[flat], given) | zeros

    what, places = query_of(sums, element), (np.flatnonzero(x) for x in (selected, wrong & selected))
    return Observation("", what, lambda flat: rows_of(sums, flat), agrees, lambda flat: codes[flat], *places)


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


def sample_indices(sums: ExactSums, wrong: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """Flat indices of some results: wrong ones, and others."""
    assert sums.terms is not None
    few = max(min(SAMPLE, BLOCK // max(sums.terms.count, 1)), 2)
    chosen = [spread(np.flatnonzero(where), few // 2) for where in (wrong & selected, ~wrong & selected)]
    return np.sort(np.concatenate(chosen))


def gives(form: Sum, rows: np.ndarray, got: np.ndarray) -> bool:
    """Whether these terms add up to these results."""
    with np.errstate(all="ignore"):
        return bool(_same(cast(form(rows), F64, type_of_dtype(got.dtype), _PLAIN), got).all())


def _same(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`equal_values`, but with equal zeros, as orders do not agree on their signs."""
    return equal_values(x, y) | ((x == 0) & (y == 0))


def _scans(sums: ExactSums) -> Iterator[tuple[Diagnosis, np.ndarray]]:
    """Cumulative sums along a dimension in blocks: each block in order, and the blocks' totals likewise."""
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
        identifier = f"accumulated/{t.name}/scans-{base}"
        yield Diagnosis(f"accumulated in {t.name} in scans of {base}", (identifier,)), np.moveaxis(found, -1, moving[0])


def _tiles(sums: ExactSums) -> Iterator[Hypothesis]:
    """Reductions by centred tiles of 32 along each dimension, repeated on their results.

    Each tile begins with the initial value, so that a sum may include it many times, as the specification permits.
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
            x = _reduce_tiles(x, init, t.load(neutral[:1])[0, 0], t.combine)
        return t.exact(accumulation.in_order(np.concatenate([init, x.reshape(len(x), -1)], axis=1), t.combine))

    sentence = f"accumulated in {t.name} in centred tiles of {_TILE}"
    identifier = f"accumulated/{t.name}/centred-tiles-{_TILE}"
    yield Hypothesis(identifier, sentence, lambda rows: Exact.of(form(rows.terms)), family=identifier, type=t.name)


def _reduce_tiles(x: np.ndarray, init: np.ndarray, neutral: Any, combine: accumulation.Combine) -> np.ndarray:
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


# -- folds -------------------------------------------------------------------------------------------------------------


def steps(sums: ExactSums) -> list[Sum]:
    """Folds in the element type with each step rounded, as the body is written: in order, and in XLA's windows."""
    if sums.element.bits > 16 or sums.terms is None:
        return []
    return _in_orders(sums, ("in-order", "windows-32", "centred-windows-32"))


def _in_orders(sums: ExactSums, wanted: Sequence[str]) -> list[Sum]:
    """Folds in the element type in those of the given orders, by identifier, that exist for its terms."""
    assert sums.terms is not None
    how = RoundedSum(_own(sums), "accumulated", "accumulated")
    known = accumulation.orders([max(sums.terms.count, 1)], _STEPS)
    return [how.total(order) for order in known if order.identifier in wanted]


def _own(sums: ExactSums) -> Type:
    """The operands' own type, to accumulate in."""
    return accumulation.types([FORMATS[sums.element.name]], "multiply" if sums.is_product else "add")[-1]


def folds(sums: ExactSums) -> list[Sum]:
    """Folds in the element type in several orders."""
    if sums.element.bits > 16 or sums.terms is None:
        return []
    found = _in_orders(sums, ("in-order", "reverse", "pairwise", "halves", "windows-32", "lanes-8"))

    def shuffle(rows: np.ndarray) -> np.ndarray:
        order = np.random.Generator(np.random.Philox(0)).permutation(rows.shape[1])
        return found[0](rows[:, order])

    return [*found, shuffle]
