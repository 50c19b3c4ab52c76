"""Text for LLVM that moves elements in memory: runs of them, one number to many places, matrices turned round.

It knows addresses and the types of elements, not what lies there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...native.squares import SIDE, pairings
from ...native.vectors import Lanes, Vectors
from ...native.writer import Writer
from ...speed import tuning
from .memory import Runs, steady

#: Elements that are done at a time.
_LANES = 32
#: So many runs of one length are a line or loop each, more of them are one loop.
_FEW = 4


class Copies:
    """Writes loops over elements, and copies of them. The type of an element is that of its bits, as `"i32"`."""

    def __init__(self, to: Writer) -> None:
        self._to, self._most = to, tuning().vector_elements
        self._loops = 0

    def loop(self, count: int, body: Callable[[Lanes, str], None]) -> None:
        """A loop over so many elements; `body` does some of them, from a position on."""
        whole = count - count % _LANES
        if whole:
            with self._to.loop(self._name("some"), "0", str(whole), _LANES) as j:
                body(Lanes(self._to, _LANES), j)
        if count % _LANES:
            body(Lanes(self._to, count % _LANES), str(whole))

    def _name(self, kind: str) -> str:
        """The name of a loop, which no other one has."""
        self._loops += 1
        return f"{kind}{self._loops}"

    def fill(self, number: str, target: str, one: str, count: int) -> None:
        """Write one number to so many places."""

        def body(lanes: Lanes, j: str) -> None:
            vectors = Vectors(self._to, one, lanes.count)
            vectors.store(vectors.repeated(number), self._to.at(target, j, one), 1)

        self.loop(count, body)

    def run(self, source: str, target: str, one: str, length: int) -> None:
        """Copy elements that follow each other."""
        if length <= self._most:
            run = Vectors(self._to, one, length)
            return run.store(run.load(source, 1), target, 1)

        def body(lanes: Lanes, j: str) -> None:
            run = Vectors(self._to, one, lanes.count)
            run.store(run.load(self._to.at(source, j, one), 1), self._to.at(target, j, one), 1)

        return self.loop(length, body)

    def runs(self, runs: Runs, source: str, target: str, one: str) -> None:
        """Copy runs of elements."""
        to = self._to
        if len(runs.sources) <= _FEW:
            for here, there in zip(runs.sources, runs.targets, strict=True):
                self.run(to.at(source, here, one), to.at(target, there, one), one, runs.length)
            return
        with to.loop(self._name("run"), "0", str(len(runs.sources))) as i:
            here, there = self._listed(runs.sources, i), self._listed(runs.targets, i)
            self.run(to.at(source, here, one), to.at(target, there, one), one, runs.length)

    def _listed(self, numbers: Sequence[int], i: str) -> str:
        """A number of a list."""
        to, step = self._to, steady(numbers)
        if step is None:
            return to.load("i64", to.at(to.table(numbers), i, "i64"))
        return to.add(to.multiply(i, step), numbers[0])

    def turn_round(self, source: str, target: str, one: str, rows: int, columns: int) -> None:
        """Lay a matrix the other way round, square by square: both sizes are multiples of `SIDE`."""
        to, line = self._to, Vectors(self._to, one, SIDE)
        number = self._name("")
        with (
            to.loop(f"down{number}", "0", str(columns), SIDE) as i,
            to.loop(f"across{number}", "0", str(rows), SIDE) as j,
        ):
            first = to.at(source, to.add(to.multiply(j, columns), i), one)
            square = [line.load(to.at(first, k * columns, one), 1) for k in range(SIDE)]
            for _ in range(SIDE.bit_length() - 1):
                square = [
                    to.shuffle(one, SIDE, square[k], square[k + SIDE // 2], [*places])
                    for k in range(SIDE // 2)
                    for places in pairings()
                ]
            first = to.at(target, to.add(to.multiply(i, rows), j), one)
            for k, v in enumerate(square):
                line.store(v, to.at(first, k * rows, one), 1)
