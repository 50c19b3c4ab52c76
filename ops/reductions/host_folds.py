"""Folds of a single op on the host's types, by numpy's own function where that gives the same bits."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from ..cast import wrap
from ..engine import half_extremes
from ..engine.blocks import apart, blocks, for_each
from ..engine.compiled import Kernels, kernels
from ..engine.native import ordered_sums
from ..engine.ranks import minifloat_ranks
from ..engine.speed import current, tuning
from ..op import Call, Run, lookup
from ..traits import Combining
from ..types import ElementType, Kind, TensorType
from .fold import Fold, Step
from .settled import settling

#: Up to `_FEW` accumulators and few steps a running sum of numpy is quicker. More are summed `_COLUMNS` at a time,
#: which fit the first-level cache as f32. Not in `tuning`: numpy would sum a part of a single column in pairs, with
#: other bits.
_FEW, _COLUMNS = 8, 128
#: Types whose differences numpy rounds in every step of a reduction; those of f16 it rounds once, at the end.
_IN_REGISTERS = np.dtype(np.float32), np.dtype(np.float64)


def combining_of(name: str | None) -> Combining | None:
    """The traits of an op that combines two operands; None where there is no such op, or none are declared."""
    record = lookup(name) if name else None
    return None if record is None else record.traits.combining


def fold_of_op(call: Call, name: str, element: ElementType) -> Fold | None:
    """The fold of a single op; None where the body is to be folded step by step."""
    combining = combining_of(name)
    if combining is None:
        return None
    if not (element.is_float or element.is_complex):
        ufunc = (element.kind is Kind.BOOL and combining.of_booleans) or combining.ufunc
        return _whole(ufunc, element) if combining.any_order else None
    if combining.largest is not None:
        record, t = lookup(name), TensorType((None, None), element)
        assert record is not None
        return _extreme(combining.largest, record.function(call.like(name, (t, t), (t,))), element)
    if element.is_complex and combining.on_floats and combining.ufunc is not np.add:
        return _by_slices(combining.ufunc, element)
    if not _is_host(call, combining, element):
        return None
    fold = _in_order(combining.ufunc, element)
    return settling(fold) if element.is_float and combining.ufunc is np.multiply else fold


def _is_host(call: Call, combining: Combining, element: ElementType) -> bool:
    """Whether numpy's function gives the op's bits on a type of floats or complex numbers."""
    # Products of complex numbers are rounded differently in numpy's scalar and vector code.
    is_host = element.is_complex and combining.ufunc is np.add
    if element.is_float and not element.is_minifloat:
        is_host = element.bits >= 32 or call.policy.rounding == "nearest_even"
    return is_host and combining.on_floats


@dataclasses.dataclass(frozen=True)
class Running:
    """A fold along the first axis that gives the accumulators after each step, by `ufunc.accumulate`."""

    ufunc: np.ufunc
    dtype: np.dtype  #: to compute in
    narrow: ElementType | None  #: the integers of fewer bits that the results are wrapped to
    commutes: bool  #: whether the operands of a step can change places

    def __call__(self, init: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """From the initial value along rows, (steps, columns); the result has that shape."""
        x = rows.astype(self.dtype)
        self.ufunc(init.astype(self.dtype), x[:1], out=x[:1])
        if not self._goes_by_rows(x):
            self.ufunc.accumulate(x, axis=0, out=x)
        else:
            for before, row in itertools.pairwise(x):
                self.ufunc(before, row, out=row)
            if self.dtype.kind not in "iub" and np.count_nonzero(x[-1] != x[-1]):
                # Which of two NaN a step gives could differ.
                x = rows.astype(self.dtype)
                self.ufunc(init.astype(self.dtype), x[:1], out=x[:1])
                self.ufunc.accumulate(x, axis=0, out=x)
        return wrap(x, self.narrow) if self.narrow is not None else x

    def _goes_by_rows(self, x: np.ndarray) -> bool:
        """Whether a call for each row takes less time: numpy accumulates one column after the other."""
        (steps, width), now = x.shape, tuning()
        if self.dtype.kind == "c" or width < max(steps, now.running_wide):
            return False
        return x.flags.c_contiguous or steps <= now.running_few or self.dtype.kind not in "iub"


def running_of(call: Call, name: str | None, element: ElementType) -> Running | None:
    """The running fold of a single op; None where numpy has none that gives its bits."""
    combining = combining_of(name)
    if combining is None:
        return None
    if element.is_float or element.is_complex:
        if combining.largest is not None or not _is_host(call, combining, element):
            return None
        return Running(combining.ufunc, element.dtype, None, combining.any_order)
    if not combining.any_order:
        return None
    ufunc = (element.kind is Kind.BOOL and combining.of_booleans) or combining.ufunc
    narrow, dtype = _in_bytes(element)
    return Running(ufunc, dtype, element if narrow else None, True)


def _in_bytes(element: ElementType) -> tuple[bool, np.dtype]:
    """Whether a type of integers has fewer bits than a byte, and the type that numpy computes in."""
    narrow = 1 < element.bits < 8
    return narrow, np.dtype(np.int8 if element.kind is Kind.SIGNED else np.uint8) if narrow else element.dtype


def _whole(ufunc: np.ufunc, element: ElementType) -> Fold:
    """Integers and booleans: the order does not matter."""
    narrow, wide = _in_bytes(element)

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        start, x = (v.astype(wide, copy=False) for v in (starts[0], rows[0]))
        total = ufunc(start, _reduced(ufunc, x, wide))
        return (wrap(total, element) if narrow else total,)

    return fold


def _reduced(ufunc: np.ufunc, x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """`ufunc.reduce(x, axis=0, dtype=dtype)` in any order; of many short rows in memory part by part, across."""
    steps, columns = x.shape
    tuned = tuning()
    if not 1 < steps <= tuned.across_short or columns < tuned.across_short_many or not 0 < x.strides[0] < x.strides[1]:
        return ufunc.reduce(x, axis=0, dtype=dtype)
    result, step = np.empty(columns, ufunc.resolve_dtypes((dtype, dtype, None))[-1]), tuned.across_short_part

    def work(first: int) -> None:
        part = slice(first, first + step)
        ufunc.reduce(np.ascontiguousarray(x[:, part]), axis=0, dtype=dtype, out=result[part])

    for_each(range(0, columns, step), work, x.size, "short rows")
    return result


def _extreme(largest: bool, exact: Run, element: ElementType) -> Fold:
    """Maxima and minima of floats. -0 is below +0, and the first of several NaN is the result."""
    ufunc, has_host = np.maximum if largest else np.minimum, element.is_float and element.bits >= 32
    of_ranks: dict[bytes, np.ndarray] = {}  # for each code to start from, what becomes of each rank

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        start, x = starts[0], rows[0]
        if has_host:
            if len(x) <= tuning().extreme_short and x.size <= tuning().reduce_small:
                x = np.ascontiguousarray(x)
            result = ufunc(start, _reduced(ufunc, x, x.dtype))
            # numpy's own reduction does not distinguish zeros, nor NaN.
            doubtful = (result == 0) | (result != result)
            if np.count_nonzero(doubtful):
                result[doubtful] = exact(start[doubtful], _paired(exact, x[:, doubtful]))
            return (result,)
        if element.is_minifloat and x.size >= tuning().reduce_ranks:
            ranks = minifloat_ranks(element, largest)
            extremes = ranks.extreme(x.view(np.uint8))
            if start.strides != (0,):
                return (exact(start, ranks.values.take(extremes)),)
            code = start[:1].tobytes()
            if code not in of_ranks:
                of_ranks[code] = exact(start[:1], ranks.values)
            return (of_ranks[code].take(extremes),)
        if element.bits == 16 and len(x) > 1 and element.is_float:
            extremes, with_nan = half_extremes.extreme(x, element, largest)
            if 2 * len(with_nan) <= x.shape[1]:
                result = exact(start, extremes)
                if len(with_nan):
                    result[with_nan] = exact(start[with_nan], _paired(exact, x[:, with_nan]))
                return (result,)
        return (exact(start, _paired(exact, x)),)

    return fold


def _paired(exact: Run, x: np.ndarray) -> np.ndarray:
    """Combine neighbouring slices in pairs, and the results in pairs, until one is left."""
    while len(x) > 1:
        pairs = exact(x[: len(x) - 1 : 2], x[1::2])
        x = np.concatenate((pairs, x[-1:])) if len(x) % 2 else pairs
    return x[0]


def _in_order(ufunc: np.ufunc, element: ElementType) -> Fold:
    """Sums and products of f32 and f64, step by step.

    numpy sums in pairs along an axis whose elements are contiguous in memory, and in order where each step is a slice.
    """

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        total, x = starts[0], rows[0]
        (steps, width), now = x.shape, tuning()
        add = ordered_sums.adding(steps, element.name, element.name) if ufunc is np.add and width < _FEW else None
        if add is not None and x.strides[0] == x.itemsize:
            sums = [add(t, column) for t, column in zip(total, x.T, strict=True)]
            if None not in sums:
                return (np.array(sums, element.dtype),)
        is_compiled = ufunc is np.add and x.dtype == np.float32 and width >= _FEW
        compiled = kernels(x.size) if is_compiled else None
        if compiled is not None and x.T.flags.c_contiguous:
            return (_add_rows(compiled, total, x.T),)
        if width <= now.fold_single and not (compiled is not None and x.flags.c_contiguous):
            if steps >= now.fold_steps and x.dtype in _IN_REGISTERS:
                return (_one_by_one(ufunc, total, x),)
            if width <= _FEW:
                return (_running(ufunc, total, x),)
        if x.size <= tuning().reduce_small:
            use = np.empty((steps + 1, width), element.dtype)
            use[0], use[1:] = total, x
            return (ufunc.reduce(use, axis=0),)
        if width >= now.reduce_long and x.strides[1] == x.itemsize:
            total = total.copy()
            for row in x:
                ufunc(total, row, out=total)
            return (total,)
        if compiled is not None and x.flags.c_contiguous:
            return (_add_down(compiled, total, x),)
        result = np.empty(width, element.dtype)
        # Parts of about the same width, so that none is a single column, which numpy would sum in pairs.
        parts = -(-width // _COLUMNS)
        ends = [width * i // parts for i in range(parts + 1)]
        step = max(now.reduce_block // _COLUMNS, 1)

        def work(columns: tuple[int, int]) -> None:
            here = slice(*columns)
            use = np.empty((min(step, steps) + 1, columns[1] - columns[0]), element.dtype)
            use[0] = total[here]
            for first in range(0, steps, step):
                count = min(step, steps - first)
                use[1 : count + 1] = apart(x[first : first + count, here])
                use[0] = ufunc.reduce(use[: count + 1], axis=0)
            result[here] = use[0]

        for_each(list(itertools.pairwise(ends)), work, x.size, "folds")
        return (result,)

    return fold


def _by_slices(ufunc: np.ufunc, element: ElementType) -> Fold:
    """Products and differences of complex numbers, slice by slice, with the bits of one call for each slice.

    `ufunc.accumulate` does not use the vector instructions of other calls, and so rounds differently. So does a fold of
    a single column, which is therefore computed twice, side by side.
    """

    def fold(_: Step, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        total, x = starts[0], rows[0]
        steps, width = x.shape
        columns = max(width, 2)
        step = max(tuning().reduce_block // columns, 1)
        use = np.empty((min(step, steps) + 1, columns), element.dtype)
        use[0] = total
        for first in range(0, steps, step):
            count = min(step, steps - first)
            use[1 : count + 1] = x[first : first + count]
            use[0] = ufunc.reduce(use[: count + 1], axis=0)
        return (use[0, :width].copy(),)

    return fold


def _add_rows(compiled: Kernels, totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The sum of each row, by several threads."""
    totals = totals.copy()

    def work(block: tuple[slice, ...]) -> None:
        compiled.add_rows(totals[block], rows[block])

    now = current()
    most = -(-len(totals) // (now.tuning.fast_parts * now.workers))
    for_each(list(blocks(totals.shape, max(_COLUMNS // 2, most))), work, rows.size)
    return totals


def _add_down(compiled: Kernels, totals: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The sum of each column, by several threads where there are many."""
    totals = totals.copy()

    def work(part: tuple[slice, ...]) -> None:
        compiled.add_down(totals, rows, part[0].start, part[0].stop)

    for_each(list(blocks(totals.shape, tuning().fold_columns)), work, rows.size)
    return totals


def _one_by_one(ufunc: np.ufunc, total: np.ndarray, x: np.ndarray) -> np.ndarray:
    """One accumulator after the other.

    numpy's reductions by differences and products, unlike those by sums, go in order along elements that are contiguous
    in memory, with the accumulator in a register: 0.9 ns a step, where a running sum takes 3.4. So `x` is negated and
    subtracted. Which of two NaN a sum is, and of which sign, is left to a running sum.
    """
    block = max(tuning().reduce_block // len(total), 1)
    use = np.empty((len(total), min(block, len(x)) + 1), total.dtype)
    step, laid = (np.subtract, np.negative) if ufunc is np.add else (ufunc, np.positive)
    for begin in range(0, len(x), block):
        part = x[begin : begin + block].T
        now = use[:, : part.shape[1] + 1]
        now[:, 0] = total
        laid(part, out=now[:, 1:])
        after = step.reduce(now, axis=1)
        total = _running(ufunc, total, part.T) if np.count_nonzero(after != after) else after
    return total


def _running(ufunc: np.ufunc, total: np.ndarray, x: np.ndarray) -> np.ndarray:
    """By a running sum or product, for a few accumulators and steps."""
    running = np.empty((len(total), len(x) + 1), total.dtype)
    running[:, 0], running[:, 1:] = total, x.T
    return ufunc.accumulate(running, axis=1, out=running)[:, -1]
