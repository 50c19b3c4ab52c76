"""Folds: the body of a reduction along the first dimension of arrays, in the order of `ops.reductions.folds`.

A body of one minifloat is a lookup in the table of its results for all pairs of codes: a step for all columns at once.
One that selects by the order of numbers is a maximum or a minimum of integers, in any order.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.minifloat.codec import decode
from ...ops.minifloat.formats import Format, Nan
from ...ops.op import Body, OpError
from ...ops.reductions.folds import PAIRS_FROM, body_elements
from ...ops.tables import Tabulated
from ...ops.types import ElementType
from ..bodies import independent_parts
from ..passes.inline import inline
from ..program import Operation, Region
from .draws import draw, numbered_loop
from .lookup import look_up, operate
from .rewrite import Emulation
from .rounding import are_nan
from .rules import emulates
from .tensor import UI8, UI16, UI32, UI64, Tensor, concatenate, constant, iota, where

Step = Callable[..., list[Tensor]]


@dataclasses.dataclass(frozen=True)
class Combiner:
    """The body of a reduction.

    Attributes:
        whole: The region as it is; `region` has groups as tables.
        elements: The types of its accumulators, and of the elements that it combines with them.
        pairs: For a body of one minifloat that rounds nothing by draws, its results for all pairs of codes.
    """

    e: Emulation
    whole: Region
    region: Region
    body: Body
    elements: tuple[ElementType, ...]
    pairs: np.ndarray | None

    @classmethod
    def of(cls, e: Emulation, region: Region, count: int = 1) -> Combiner:
        """Return the combiner of a region over `count` values. Raises OpError where it is no such body."""
        whole, region = inline(e.program, region), e.prepare(region)
        body = e.binder.body(whole)
        elements, pairs, compute = tuple(body_elements(body, count)), None, body.vectorised
        is_drawn = e.policy.rounding == "stochastic"
        if count == 1 and elements[0].is_minifloat and compute is not None and (body.selects or not is_drawn):
            pairs = Tabulated(lambda x, y: compute(x, y)[0], elements * 2, elements[0].dtype).table().view(np.uint8)
        return cls(e, whole, region, body, elements, pairs)

    @functools.cached_property
    def parts(self) -> list[Combiner]:
        """A combiner for each accumulator, where these do not depend on each other."""
        return [Combiner.of(self.e, r) for r in independent_parts(self.whole)] if self.body.parts else []

    @functools.cached_property
    def order(self) -> Order | None:
        """The order by which the body selects one of two minifloats; None of others."""
        return None if self.pairs is None else Order.of(self.pairs, self.elements[0].format)

    @property
    def is_drawn(self) -> bool:
        """Whether results are rounded by draws."""
        return self.e.policy.rounding == "stochastic" and not self.body.selects

    @property
    def rounds_once(self) -> bool:
        """Whether the steps of a fold share the draws of one rounding: `ops.reductions.folds.rounds_once`."""
        (element, *others) = self.elements
        is_narrow = element.is_float and element.bits <= 16 and not others
        return self.is_drawn and self.body.sole_op is not None and is_narrow

    def step(self, *values: Tensor) -> list[Tensor]:
        """Return the next accumulators, for arrays of accumulators and of elements, all of one shape."""
        if self.pairs is not None:
            (element,) = self.elements
            return [look_up(self.e, self.pairs.view(element.dtype), element, values, [element] * 2)]
        shape = values[0].shape
        if self.body.vectorised is None:
            for operation in self.region.operations:
                if any(v.shape for v in operation.results) or operation.regions:
                    raise OpError(f"expected a body of operations on single elements, got {operation.name}")
            if self.is_drawn:
                raise OpError("expected a body of elementwise operations under stochastic rounding, got another one")
        results = self.e.apply(self.region, values)
        return [r if r.shape == shape else r.broadcast(shape) for r in results]

    def fold(self, starts: Sequence[Tensor], rows: Sequence[Tensor], *, as_reduction: bool = False) -> list[Tensor]:
        """Return the accumulators of each column after all rows.

        Args:
            starts: The first accumulators.
            rows: The elements: rows of the shape of the accumulators.
            as_reduction: Whether a long row may be combined in pairs, as `reduce` does.
        """
        if not rows[0].size:
            return list(starts)
        if self.order is not None:
            return self.step(starts[0], self.order.reduce(self.e, rows[0], [0]))
        is_stochastic, is_single = self.e.policy.rounding == "stochastic", self.elements[0].is_minifloat
        is_long = as_reduction and rows[0].shape[0] >= PAIRS_FROM and self.body.pairs
        if is_long and (is_stochastic or not (self.parts or (is_single and len(self.elements) == 1))):
            return self._by_halves(starts, rows)
        if self.parts and not self.is_drawn:
            each = zip(self.parts, starts, rows, strict=True)
            return [part.fold([s], [x], as_reduction=as_reduction)[0] for part, s, x in each]
        return self.run(starts, rows)[0]

    def run(
        self,
        starts: Sequence[Tensor],
        rows: Sequence[Tensor],
        trail: bool = False,
        step: Step | None = None,
        rounds_once: bool | None = None,
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Go row by row, and return the last accumulators; with `trail`, those after each row too."""
        step, count, (steps, *columns) = step or self.step, len(starts), rows[0].shape
        rows = list(rows)
        if self.rounds_once if rounds_once is None else rounds_once:
            rows.append(draw(self.e, rows[0].shape))

        paths = [constant(0, s.element, (steps, *columns)) for s in starts] if trail else []

        def body(index: int | Tensor, *state: Tensor) -> list[Tensor]:
            row = [x.row(index) for x in rows]
            self.e.drawn = row[count] if len(row) > count else None
            totals = step(*state[:count], *row[:count])
            self.e.drawn = None
            return [*totals, *(p.with_row(t, index) for p, t in zip(state[count:], totals, strict=False))]

        state = numbered_loop(self.e, steps, body, [*starts, *paths])
        return state[:count], state[count:]

    def _by_halves(self, starts: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
        """Combine neighbours in pairs, and the pairs in pairs; last the first accumulators with the result."""
        values = list(rows)
        while (length := values[0].shape[0]) > 1:
            even = length // 2 * 2
            pairs = self.step(*(v.slice(0, i, even, 2) for i in (0, 1) for v in values))
            values = [
                concatenate([p, v.slice(0, even, length)], 0) if length % 2 else p
                for p, v in zip(pairs, values, strict=True)
            ]
        return self.step(*starts, *(v.reshape(v.shape[1:]) for v in values))


@dataclasses.dataclass(frozen=True)
class Order:
    """Integers for the codes of a format, of which the body of a reduction selects the largest or the smallest.

    Attributes:
        is_complete: Whether this holds of NaN too; otherwise the first NaN is selected where there is one, whose sign
            counts, and its place is part of the integers.
    """

    fmt: Format
    is_largest: bool
    is_complete: bool

    @classmethod
    def of(cls, pairs: np.ndarray, fmt: Format) -> Order | None:
        """Return the order of a body, given by its results for all pairs of codes; None where it is no such body."""
        codes = np.arange(1 << fmt.bits, dtype=np.uint8)
        pairs = pairs.reshape(codes.size, codes.size)
        is_nan = decode(codes, fmt).is_nan
        for largest in (True, False):
            order = cls(fmt, largest, True)
            keys = order.keys_of_array(codes)
            best = (np.maximum if largest else np.minimum)(keys[:, None], keys[None])
            agrees = order.table[best] == pairs
            if agrees.all():
                return order
            quiet = np.diag(pairs)[(fmt.nan_code or 0) | (codes & fmt.sign_bit)]  # for NaN of that sign
            is_first = np.where(is_nan[:, None], pairs == quiet[:, None], ~is_nan | (pairs == quiet))
            if agrees[np.ix_(~is_nan, ~is_nan)].all() and is_first.all():
                return cls(fmt, largest, False)
        return None

    def keys(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the integers of codes, ui8, of which the first along dimensions is that in row-major order."""
        key = self._of_numbers(x, where)
        if self.is_complete:
            return key
        size = math.prod(x.shape[d] for d in axes)
        wide = next(t for t in (UI16, UI32, UI64) if 4 * size <= 1 << t.bits)
        place = constant(0, wide, x.shape)
        for d in sorted(axes):
            place = place * x.shape[d] + iota(wide, x.shape, d)
        place = (size - 1) - place if self.is_largest else place
        number, nan = key.to(wide), (place << 1) | (x >> (self.fmt.bits - 1)).to(wide)
        above = 1 << (wide.bits - 1)
        number, nan = (number, nan | above) if self.is_largest else (number | above, nan)
        return where(are_nan(x, self.fmt), nan, number)

    def _of_numbers(self, x: Any, select: Callable[..., Any]) -> Any:
        """Return the integers of codes, ui8: in the order of numbers, with NaN beyond all of them."""
        fmt, top = self.fmt, 255 * self.is_largest
        if not fmt.is_signed:
            # No sum of bytes that wraps around: XLA's CPU takes the smallest of such sums as if they did not.
            return x if self.is_largest else select(x < 255, x + 1, 0)
        wide = x << (8 - fmt.bits) if fmt.bits < 8 else x
        one = int(fmt.nan is Nan.NEGATIVE_ZERO)  # whose 0x7F is a number, so that another integer has to be free
        above, below = 128 - one * self.is_largest, one * (not self.is_largest)
        key = select(wide >= 128, ~wide + below, wide + above)
        return key if fmt.nan is Nan.NONE else select(are_nan(x, fmt), top, key)

    def keys_of_array(self, codes: np.ndarray) -> np.ndarray:
        """Return the integers of an array of codes, without places."""
        with np.errstate(all="ignore"):
            return np.asarray(self._of_numbers(codes, np.where)).astype(np.uint8)

    @functools.cached_property
    def table(self) -> np.ndarray:
        """The code of each integer of eight bits; of all NaN the last."""
        codes = np.arange(1 << self.fmt.bits, dtype=np.uint8)
        table = np.zeros(256, np.uint8)
        table[self.keys_of_array(codes)] = codes
        return table

    def codes(self, e: Emulation, keys: Tensor) -> Tensor:
        """Return the codes that have these integers."""
        short = keys.to(UI8)
        found = e.look(self.table, UI8, short)
        if self.is_complete:
            return found
        nan = (short << (self.fmt.bits - 1)) | (self.fmt.nan_code or 0)
        return where((keys >= (1 << (keys.element.bits - 1))).equals(self.is_largest), nan, found)

    def reduce(self, e: Emulation, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Return the code of the selected element along dimensions."""
        keys = self.keys(x, axes)
        return self.codes(e, keys.reduce(*self.choice(keys), axes))

    def choice(self, keys: Tensor) -> tuple[str, int]:
        """Return the operation of StableHLO that selects an integer, and the one that it never prefers."""
        return ("maximum", 0) if self.is_largest else ("minimum", (1 << keys.element.bits) - 1)


def to_elements(
    e: Emulation, values: Sequence[Tensor], types: Sequence[Any], elements: Sequence[ElementType]
) -> list[Tensor]:
    """Return operands converted to the element types of a body."""
    found = []
    for x, t, element in zip(values, types, elements, strict=True):
        if t.element == element:
            found.append(x)
            continue
        if e.policy.rounding == "stochastic":
            raise OpError(f"expected operands of the body's type under stochastic rounding, got {t.element}")
        found.append(operate(e, "convert", [x], [t.element], element))
    return found


@emulates("reduce")
def reduce(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Columns folded from the initial values; by the device where the body has no minifloat."""
    count, dimensions = len(operands) // 2, sorted(int(d) for d in np.ravel(operation.attributes["dimensions"]))
    combiner = Combiner.of(e, operation.regions[0], count)
    elements, types = combiner.elements, [v.type for v in operation.operands]
    values = to_elements(e, operands, types, elements * 2)
    arrays, starts = values[:count], values[count:]
    rank = len(arrays[0].shape)
    others = [d for d in range(rank) if d not in dimensions]
    shape = [arrays[0].shape[d] for d in others]
    if not any(t.is_minifloat for t in elements):
        return e.rewritten(operation, values, combiner.region)
    starts = [s.broadcast(shape) for s in starts]
    steps = math.prod(arrays[0].shape[d] for d in dimensions)
    if combiner.order is not None and arrays[0].size:
        return combiner.step(starts[0], combiner.order.reduce(e, arrays[0], dimensions))
    rows = [x.transpose([*dimensions, *others]).reshape((steps, *shape)) for x in arrays]
    return combiner.fold(starts, rows, as_reduction=True)
