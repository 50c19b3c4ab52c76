"""Recurrences: loops whose turns need what the turn before gave, with everything else taken out of them.

The rule. What a turn needs beside the carried state has been computed for all turns (`passes/turns.py`), and is
handed in as rows. One function makes many turns over lists of rows, without any indexing. Where a state settles, that
is, forgets where it came from, the turns are cut into chunks that run side by side, each from the state that the chunk
before ended with in the last pass. When no chunk's start changes any more, each has run from the very bits that the
one before gives, so the results are those of the turns one after the other. Chunks that do not settle are given up.
Turns of single numbers are compiled once they have taken long (`compiled_loops/`), and make no chunks then.

Measured, ms: 10**6 turns of 0.9 * c + v in f32 1,380 as a loop, 240 over rows and 34 in chunks; of c + v, whose
chunks do not settle, 240, and 5 as numpy's running sum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.grid.parallel import current_grid
from ....ops.op import Call
from ....ops.policy import Policy
from ....ops.reductions.host_folds import running_of
from ....ops.traits import Run
from ....ops.types import TensorType, Type
from ...program import Operation, Region, Value
from .. import scalars
from ..compiled_loops.loops import CompiledTurns
from ..compiled_loops.types import is_held
from ..vectors.build import Vectors
from .ahead import AheadRunner
from .job import Job
from .vector_turns import VectorTurns


def by_recurrence(job: Job, _: Run | None) -> Run:
    """The kernel of a recurrence; it takes the function of its turns, and perhaps that of a turn of all chunks."""
    operation, width = job.operation, job.operation.attributes["states"]
    turn = operation.regions[0]
    running = running_fold(turn, job.policy)
    if running is not None and "numbers" not in operation.attributes:
        return running
    vectors: Vectors | None = operation.attributes.get("vectors")
    taken = operation.operands[: len(operation.operands) - (len(vectors.shared) if vectors is not None else 0)]
    rows, results = ([_row(v.type) for v in values[width:]] for values in (taken, operation.results))
    states: list[TensorType] = [v.type for v in operation.operands[:width]]  # type: ignore[misc]
    runner = RecurrenceRunner(operation.attributes["count"], states, rows, results, operation.attributes.get("numbers"))
    ahead = operation.attributes.get("ahead")
    if ahead is not None:
        runner.ahead = AheadRunner(ahead, operation.attributes["count"])
    if vectors is not None:
        runner.vectors = VectorTurns(vectors, operation.attributes["count"], states)
    return runner


def _row(t: Type) -> TensorType:
    """The type of a row of an array."""
    assert isinstance(t, TensorType)
    return TensorType(t.shape[1:], t.element)


def states_of(operation: Operation) -> int:
    """How many states the turn of a recurrence takes: of one on single numbers as many as the states have elements."""
    count = operation.attributes["states"]
    numbers = operation.attributes.get("numbers")
    return count if numbers is None else sum(n or 1 for n in numbers[:count])


def running_fold(turn: Region, policy: Policy) -> Run | None:
    """The kernel of a recurrence that is a running sum or the like, where numpy has one with its bits; else None."""
    same: dict[Value, Value] = {}  # what converts to the same type give
    operations: list[Operation] = []
    for made in turn.operations:
        if made.name == "stablehlo.convert" and made.operands[0].type == made.results[0].type:
            same[made.results[0]] = same.get(made.operands[0], made.operands[0])
        else:
            operations.append(made)
    if len(operations) != 1 or len(turn.arguments) != 2:
        return None
    (operation,), (state, row), returns = operations, turn.arguments, [same.get(v, v) for v in turn.returns]
    t, operands = state.type, tuple([same.get(v, v) for v in operation.operands])
    if not isinstance(t, TensorType) or operation.results != (returns[0],) or set(operands) != {state, row}:
        return None
    fold = running_of(Call(operation.name, (), (), {}, policy=policy), operation.name, t.element)
    if fold is None or (operands != (state, row) and not fold.commutes):
        return None
    if any(v not in (state, returns[0]) for v in returns):
        return None
    is_after = [v is not state for v in returns[1:]]
    is_alone = not is_after and fold.narrow is None and fold.dtype == t.element.dtype
    if is_alone and t.size >= tuning().fold_wide:

        def last(_: Any, first: Any, rows: np.ndarray) -> tuple[Any, ...]:
            total = np.array(first)
            for row in rows:
                fold.ufunc(total, row, out=total)
            return (total,)

        return last

    def kernel(_: Any, first: Any, rows: np.ndarray) -> tuple[Any, ...]:
        start = np.asarray(first)
        after = fold(start.reshape(1, -1), rows.reshape(len(rows), -1)).reshape(rows.shape)
        before = np.concatenate([start[None], after[:-1]]) if False in is_after else after
        return (np.asarray(after[-1]), *(after if a else before for a in is_after))

    return kernel


#: A function of the states and of the rows of many turns: gives the states after them, and what each turn gives.
Turns = Callable[..., tuple[Any, ...]]
#: Passes over the chunks at most, and the share of chunks that may still change after one that changed all others.
_PASSES, _UNSETTLED = 6, 0.8
#: Starts whose largest change is so much smaller than in the pass before will settle in all chunks.
_SHRINK = 2.0**-4
#: Failed attempts after which chunks are not tried again.
_ATTEMPTS = 2


def chunks(count: int) -> tuple[int, int]:
    """How many chunks so many turns are cut into, and the turns of each."""
    length = max(math.isqrt(count), tuning().chunk_turns)
    return count // length, length


class RecurrenceRunner:
    """Runs a recurrence: gives the states after all turns, and for each of the other results the rows of all turns.

    numbers: how many single numbers turns take and give for each state, row and result, 0 where that is as it is.
    """

    def __init__(
        self,
        count: int,
        states: Sequence[TensorType],
        rows: Sequence[TensorType],
        results: Sequence[TensorType],
        numbers: Sequence[int] | None = None,
    ) -> None:
        self._count, self._whole, self._failures = count, (states, results), 0
        own = iter(numbers or [0] * len([*states, *rows, *results]))
        self._own = [[next(own) for _ in types] for types in (states, rows, results)]
        #: The types of what turns take and give.
        self._states, self._rows, self._results = (
            [s for t, n in zip(types, ns, strict=True) for s in _numbers_of(t, n)]
            for types, ns in zip((states, rows, results), self._own, strict=True)
        )
        #: How many turns are made of lists at a time, whose rows are then put into the results.
        made = sum(t.nbytes for t in self._results)
        few = max(tuning().list_bytes // max(made, 1), count // tuning().list_parts, 1)
        self._step = min(tuning().list_turns, few)
        self.ahead: AheadRunner | None = None  #: what makes turns together that do not need each other
        self.vectors: VectorTurns | None = None  #: what makes turns on small vectors as compiled code
        #: The turns as compiled code, of numbers and elements of arrays; it is nothing until it is given their text.
        types = (*self._states, *self._rows, *self._results)
        self.compiled = CompiledTurns(self._states, self._rows, self._results) if all(map(is_held, types)) else None

    def __call__(self, regions: Sequence[Turns], *values: Any) -> tuple[Any, ...]:
        (whole, results), width = self._whole, len(self._states)
        shared = self.vectors.shared if self.vectors is not None else 0
        values, others = values[: len(values) - shared], values[len(values) - shared :]
        states, rows = values[: len(whole)], values[len(whole) :]
        apart = [part for row, n in zip(rows, self._own[1], strict=True) for part in _columns(row, n)]
        done, start = 0, time.perf_counter()
        is_vectors = self.vectors is not None and self.vectors.is_ready(len(regions) == 1)
        if not is_vectors and self.compiled is not None and self.compiled.is_ready:
            found = self._compiled_turns(regions[0], self._apart(states), apart)
            if found is not None:
                parts = iter(found[width:])
                together = [_from_columns(parts, t, n) for t, n in zip(results, self._own[2], strict=True)]
                return (*self._together(found[:width]), *together)
        arrays = [np.empty((self._count, *t.shape), t.element.dtype) for t in results]  # type: ignore[arg-type]
        out = [part for array, n in zip(arrays, self._own[2], strict=True) for part in _columns_in(array, n)]

        def as_python(states: Sequence[Any], first: int, last: int) -> Sequence[Any]:
            return self._together(self._run(regions[0], self._apart(states), apart, out, first, last))

        if is_vectors:
            assert self.vectors is not None
            done, states = self.vectors.run(states, [*rows, *others], arrays, as_python)
        elif len(regions) > 1 and self._failures < _ATTEMPTS:
            if self.ahead is not None:
                done, states = self.ahead(regions[1:], states[0], rows, arrays)
                self._failures += done < self._count
            else:
                done, states = self._in_chunks(regions[1], states, rows, arrays)
        states = as_python(states, done, self._count)
        for code in (self.compiled, self.vectors):
            if code is not None:
                code.spend(time.perf_counter() - start)
        return (*states, *arrays)

    def _run(
        self,
        turns: Turns,
        states: Sequence[Any],
        rows: Sequence[np.ndarray],
        out: Sequence[np.ndarray],
        done: int,
        stop: int,
    ) -> Sequence[Any]:
        """Make turns from one to another as Python; gives the states after them."""
        grid, step, width = current_grid(), self._step, len(self._states)
        for begin in range(done, stop, tuning().list_turns):
            end = min(begin + tuning().list_turns, stop)
            lists = [listed(row[begin:end], t) for row, t in zip(rows, self._rows, strict=True)]
            for first in range(begin, end, step):
                last = min(first + step, end)
                few = lists if end - begin <= step else [x[first - begin : last - begin] for x in lists]
                found = turns(*states, *few, last - first)
                states = found[:width]
                for array, given, t in zip(out, found[width:], self._results, strict=True):
                    fill(array, first, given, t)
                if grid is not None and grid.is_stopped:
                    grid.stop_here_if_stopped()
        return states

    def _apart(self, states: Sequence[Any]) -> list[Any]:
        """States as turns take them."""
        apart: list[Any] = []
        for state, n in zip(states, self._own[0], strict=True):
            flat = state.reshape(-1) if n else None
            apart += [state] if flat is None else [flat[i, ...] for i in range(n)]
        return apart

    def _together(self, states: Sequence[Any]) -> list[Any]:
        """What `_apart` has taken apart."""
        left = iter(states)
        return [
            np.array([next(left) for _ in range(n)], t.element.dtype).reshape(t.shape) if n else next(left)  # type: ignore[arg-type]
            for t, n in zip(self._whole[0], self._own[0], strict=True)
        ]

    def _compiled_turns(
        self, turns: Turns, states: Sequence[Any], rows: Sequence[np.ndarray]
    ) -> tuple[Any, ...] | None:
        """Run compiled turns; None where they have to be made as Python."""
        assert self.compiled is not None
        width, step, parts = len(self._states), self.compiled.at_a_time, list[Sequence[np.ndarray]]()
        for first in range(0, self._count, step):
            last = min(first + step, self._count)
            found = turns(*states, *(np.ascontiguousarray(row[first:last]) for row in rows), np.asarray(last - first))
            if found is None:
                return None
            states = found[:width]
            parts.append(found[width:])
            grid = current_grid()
            if grid is not None and grid.is_stopped:
                grid.stop_here_if_stopped()
        return (*states, *(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _in_chunks(
        self, turn: Turns, states: Sequence[Any], rows: Sequence[np.ndarray], out: Sequence[np.ndarray]
    ) -> tuple[int, Sequence[Any]]:
        """Run chunks side by side; gives the number of turns that are done, and the states after them."""
        if any(map(_is_complex_backwards, (*states, *rows))):
            return 0, states
        count, length = chunks(self._count)
        width, whole = len(states), count * length
        # Turn by turn of all chunks: the chunks come second.
        steps = [
            list(np.ascontiguousarray(r[:whole].reshape(count, length, *r.shape[1:]).swapaxes(0, 1))) for r in rows
        ]
        taken: list[tuple[Any, ...]] = list(zip(*steps, strict=True)) if steps else [()] * length
        first = [np.asarray(s)[None] for s in states]
        starts = [np.repeat(s, count, axis=0) for s in first]
        unsettled, before = np.arange(1, count), math.inf
        ends, gives = starts, list[tuple[Any, ...]]()
        for attempt in range(_PASSES):
            now, gives = starts, []
            for row in taken:
                found = turn(*now, *row)
                now = found[:width]
                gives.append(found[width:])
            ends = [np.asarray(s) for s in now]
            new = [np.concatenate([s, e[:-1]]) for s, e in zip(first, ends, strict=True)]
            changed = np.zeros(count, bool)
            for old, s in zip(starts, new, strict=True):
                changed |= (_bits(old) != _bits(s)).any(axis=1)
            left = np.flatnonzero(changed)
            change = max(map(_apart, starts, new))
            starts = new
            is_stuck = attempt > 0 and len(left) > _UNSETTLED * len(unsettled) and not change < _SHRINK * before
            unsettled, before = left, change
            if not len(left) or is_stuck:
                break
        settled = int(unsettled[0]) if len(unsettled) else count
        self._failures += bool(len(unsettled))
        done = settled * length
        for k, array in enumerate(out):
            part = array[:done].reshape(settled, length, *array.shape[1:])
            for i, given in enumerate(gives):
                part[:, i] = given[k][:settled]
        return done, [np.asarray(e[settled - 1]) for e in ends]


def _is_complex_backwards(x: np.ndarray) -> bool:
    """Whether an array has complex numbers that lie backwards: numpy rounds products of these in another way."""
    return np.iscomplexobj(x) and min(np.asarray(x).strides, default=0) < 0


def _apart(x: np.ndarray, y: np.ndarray) -> float:
    """The largest difference of two arrays of floats or complex numbers; infinite where there is none."""
    wide = np.complex128 if np.iscomplexobj(x) else np.float64
    largest = float(np.max(np.abs(x.astype(wide) - y.astype(wide)), initial=0))
    return largest if largest < math.inf else math.inf


def _numbers_of(t: TensorType, count: int) -> list[TensorType]:
    """The types of the numbers of a tensor; its own where there are none."""
    return [TensorType((), t.element)] * count if count else [t]


def _columns_in(rows: np.ndarray, count: int) -> list[np.ndarray]:
    """Views of each number of all rows, or the rows as they are."""
    return [*rows.reshape(len(rows), count).T] if count else [rows]


def _columns(rows: np.ndarray, count: int) -> list[np.ndarray]:
    """For each number of a row, those of all rows, side by side."""
    return [*np.ascontiguousarray(rows.reshape(len(rows), count).T)] if count else [rows]


def _from_columns(parts: Iterator[np.ndarray], t: TensorType, count: int) -> np.ndarray:
    """The rows of columns."""
    if not count:
        return next(parts)
    columns = [next(parts) for _ in range(count)]
    return np.stack(columns, axis=1).reshape(len(columns[0]), *t.shape)  # type: ignore[arg-type]


def _bits(states: np.ndarray) -> np.ndarray:
    """The bytes of the states of each chunk."""
    return np.ascontiguousarray(states).reshape(len(states), -1).view(np.uint8)


def listed(rows: np.ndarray, t: TensorType) -> list[Any]:
    """Rows as a list; of numbers that are held as plain ones (`scalars.py`), as these."""
    if t.shape:
        return list(rows)
    if scalars.form(t) is None:
        return [rows[i, ...] for i in range(len(rows))]
    if t.element.is_minifloat:
        return np.ascontiguousarray(rows).view(np.uint8).tolist()
    if t.element.is_float:
        return list(rows)
    return rows.tolist() if t.element.bits >= 8 else [int(v) for v in rows]


def fill(out: np.ndarray, first: int, given: list[Any], t: TensorType) -> None:
    """Put what turns give, from the one of that number on, into an array."""
    if t.shape or scalars.form(t) is None:
        for i, value in enumerate(given, first):
            out[i] = value
        return
    out = out[first : first + len(given)]
    if t.element.is_minifloat:
        out.view(np.uint8)[...] = given
    elif t.element.is_float:
        out[...] = np.fromiter(given, out.dtype, len(given))
    elif 1 < t.element.bits < 8:
        out[...] = np.array(given, np.int64).astype(out.dtype)
    else:
        out[...] = given
