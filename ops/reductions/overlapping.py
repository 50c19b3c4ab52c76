"""Large windows that overlap, such as those of prefix sums and running maxima: what they share is computed once.

To fold each window by itself takes as many steps as all windows have elements. Two methods take fewer:

- Windows that hold all elements up to a place (`jnp.cumsum`) are the intermediate results of one fold from the left,
  bit for bit. Windows that hold all elements from a place on are those of a fold from the right, which begins with the
  last element and the initial value.
- All others are combined from folds of 1, 2, 4, ... neighbours: a tree over the elements of a window in their order.
  The specification leaves the order open (StableHLO 1.10, `reduce_window` and `reduce`). A body whose rounding depends
  on the order gives other bits than the fold from the left, as with any compiler.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..engine.speed import tuning
from ..engine.stochastic import Choices
from ..engine.stochastic_runs import Steps
from ..engine.transitions import TransitionTable
from ..policy import Policy
from ..random_stream import RandomStream
from ..types import ElementType
from .axes import Axis, laid_out
from .host_folds import Running

#: Takes and returns tuples of arrays: the accumulators and then the elements in, the new accumulators out.
Step = Callable[..., tuple[Any, ...]]
Values = Sequence[np.ndarray]

#: Windows of more elements than the first number are combined from what they share, if all windows together have at
#: least the second number times as many elements as the operand. Others are folded from the left, all at the same time.
#: These are not in `tuning`: they decide the order of rounding, and so the results.
_LARGE, _OVERLAP = 128, 4


def are_large(axes: Sequence[Axis]) -> bool:
    """Whether windows are combined from what they share: see `_LARGE`."""
    if 0 in (size := [a.count for a in axes]) or math.prod(a.window for a in axes) <= _LARGE:
        return False
    laid = math.prod(a.layout[0] for a in axes)
    return math.prod(size) * math.prod(a.window for a in axes) >= _OVERLAP * laid


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A body under stochastic rounding.

    The body of a single op is rounded by numbers that are drawn for the whole fold at once, any other step by step.
    """

    choices: Callable[[], Choices | Steps] | None  #: the body of a single op, by tables of pairs of codes
    commutes: bool  #: whether its operands can change places
    random: RandomStream
    policy: Policy

    def along(self, starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The accumulators after each row, for a body of a single op."""
        codes = f"u{rows.itemsize}"
        kept, draws = np.empty(rows.shape, codes), self.random.draws(self.policy)
        assert draws is not None
        assert self.choices is not None
        self.choices().along(starts, rows.view(codes), draws, kept)
        return kept.view(rows.dtype)


class Prefixes:
    """Prefix and suffix windows along one dimension, computed as one running fold.

    step: the body on arrays.
    element: the type of the accumulator, if there is but one.
    running: the body as a running fold of numpy, if there is one.
    drawn: the body under stochastic rounding.
    """

    def __init__(self, step: Step, element: ElementType, running: Running | None, drawn: Drawn | None = None) -> None:
        self._step, self._running, self._drawn = step, running, drawn
        self._forward = self._backward = None
        if element.is_minifloat and running is None and drawn is None:
            self._forward = TransitionTable(lambda total, x: step(total, x)[0], element, element)
            self._backward = TransitionTable(lambda total, x: step(x, total)[0], element, element)

    def results(self, x: np.ndarray, init: np.ndarray, axes: Sequence[Axis]) -> np.ndarray | None:
        """The result of each window; None where the windows are of another kind, or another method is to fold them."""
        along = [d for d, axis in enumerate(axes) if axis != Axis(axis.size, 1)]
        if len(along) != 1 or x.size == 0:
            return None
        (d,) = along
        axis = axes[d]
        reach = axis.window - 1
        forward = axis == Axis(axis.size, axis.window, low=reach)
        backward = axis == Axis(axis.size, axis.window, high=reach) and are_large(axes)
        if not (forward or backward):
            return None
        if axis.window < axis.size or not self._is_neutral(init):
            return None
        rows = np.moveaxis(x, d, 0).reshape(axis.size, -1)
        folded = self._folded(rows if forward else rows[::-1], init, forward)
        if folded is None:
            return None
        folded = folded if forward else folded[::-1]
        return np.moveaxis(folded.reshape(axis.size, *np.delete(x.shape, d)), 0, d)

    def _is_neutral(self, init: np.ndarray) -> bool:
        """Whether the initial value, with which windows are padded, combined with itself gives itself."""
        with contextlib.nullcontext() if self._drawn is None else self._drawn.random.aside(np.random.SeedSequence(0)):
            return np.asarray(self._step(init, init)[0]).tobytes() == init.tobytes()

    def _folded(self, rows: np.ndarray, init: np.ndarray, forward: bool) -> np.ndarray | None:
        if self._running is not None:
            return self._running(init, rows) if forward or self._running.commutes else None
        if self._drawn is not None:
            if self._drawn.choices is None or not (forward or self._drawn.commutes):
                return self._step_by_step(rows, init, forward)
            return self._drawn.along(np.full(rows.shape[1], init.reshape(1).view(f"u{init.itemsize}")[0]), rows)
        transitions = self._forward if forward else self._backward
        if transitions is None:
            return None
        if not transitions.is_worth(*rows.shape) and len(rows) <= tuning().prefix_steps:
            return self._step_by_step(rows, init, forward)
        codes, result = np.ascontiguousarray(rows).view(np.uint8), np.empty(rows.shape, np.uint8)
        transitions.along(np.full(rows.shape[1], init.reshape(1).view(np.uint8)[0]), codes, result)
        return result.view(rows.dtype)

    def _step_by_step(self, rows: np.ndarray, init: np.ndarray, forward: bool) -> np.ndarray:
        total, totals = np.broadcast_to(init, rows.shape[1:]), np.empty(rows.shape, rows.dtype)
        for i, row in enumerate(rows):
            totals[i] = total = self._step(*((total, row) if forward else (row, total)))[0]
        return totals


def by_tree(step: Step, arrays: Values, inits: Values, axes: Sequence[Axis]) -> tuple[np.ndarray, ...]:
    """The result of each window, by folds of 1, 2, 4, ... neighbours, the last dimension first."""
    parts = tuple(laid_out(x, init, axes) for x, init in zip(arrays, inits, strict=True))
    for d in reversed(range(len(axes))):
        parts = _along(step, parts, d, axes[d])
    return tuple(np.broadcast_to(total, part.shape) for total, part in zip(step(*inits, *parts), parts, strict=True))


def _along(step: Step, parts: tuple[np.ndarray, ...], d: int, axis: Axis) -> tuple[np.ndarray, ...]:
    """The windows along one dimension of an array that holds elements and padding."""
    _, inner, outer, _ = axis.layout
    span = (axis.count - 1) * outer + 1
    totals: tuple[np.ndarray, ...] | None = None
    done, length = 0, 1  # elements of each window in `totals`, and of each fold in `parts`
    while True:
        if axis.window & length:
            pieces = tuple(_cut(p, d, done * inner, span, outer) for p in parts)
            totals = pieces if totals is None else _same_shape(step(*totals, *pieces), pieces)
            done += length
        if done == axis.window:
            assert totals is not None
            return totals
        shift = length * inner
        kept = parts[0].shape[d] - shift
        left, right = (tuple(_cut(p, d, first, kept, 1) for p in parts) for first in (0, shift))
        parts = _same_shape(step(*left, *right), left)
        length *= 2


def _cut(x: np.ndarray, d: int, first: int, span: int, step: int) -> np.ndarray:
    return x[(slice(None),) * d + (slice(first, first + span, step),)]


def _same_shape(values: Sequence[Any], like: Values) -> tuple[np.ndarray, ...]:
    """What a step gives, as wide as its operands: a constant has no dimensions."""
    return tuple(np.broadcast_to(v, x.shape) for v, x in zip(values, like, strict=True))
