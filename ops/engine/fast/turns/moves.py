"""Text for LLVM of what only moves elements of values: single ones, vectors made of others, runs of long ones, windows.

Between short values that is a shuffle of registers. Where one is long, runs of elements are copied in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...native.squares import SIDE
from ...native.writer import Writer
from ..registers import Unknown
from .copies import Copies
from .memory import runs_of, turned_columns
from .places import Places
from .record import Move, Read, Start, Write

#: Runs of a window, each of which is copied by lines of its own.
_MOST_RUNS = 64


class Moves:
    """Writes moves between values."""

    def __init__(self, to: Writer, places: Places, copies: Copies) -> None:
        self._to, self._places, self._copies = to, places, copies

    def element(self, move: Move, position: int) -> str:
        """One of the elements of operands, which are numbered as if one followed the other."""
        for operand in move.operands:
            if position < self._places.count(operand):
                return self._places.element(operand, position)
            position -= self._places.count(operand)
        raise Unknown

    # -- short values --------------------------------------------------------------------------------------------------

    def shuffled(self, move: Move) -> str:
        """The vector of a move between short values."""
        whole, start = "", 0
        for operand in move.operands:
            count = self._places.count(operand)
            inside = [p - start if start <= p < start + count else -1 for p in move.places]
            if max(inside) >= 0:
                whole = self._picked(whole, operand, inside)
            start += count
        return whole

    def _picked(self, whole: str, operand: int, inside: Sequence[int]) -> str:
        """A vector with elements of an operand at some places, and elsewhere those of `whole`."""
        places, length, to = self._places, len(inside), self._to
        vector, count, one = places.vector(operand), places.count(operand), places.one(operand)
        if not whole and [*inside] == [*range(count)]:
            return vector
        part = to.shuffle(one, count, vector, "poison", [max(p, 0) for p in inside])
        if not whole:
            return part
        chosen = [i if p < 0 else length + i for i, p in enumerate(inside)]
        return to.shuffle(one, length, whole, part, chosen)

    # -- values in memory ----------------------------------------------------------------------------------------------

    def copy(self, value: int, move: Move) -> None:
        """Copy elements of operands, of which some are long or the result is, to its place."""
        places, one, target = self._places, self._places.one(value), self._places.place(value)
        columns = turned_columns(move.places) if len(move.operands) == 1 else None
        if columns is not None and not columns % SIDE and not len(move.places) // columns % SIDE:
            rows = len(move.places) // columns
            self._copies.turn_round(places.place(move.operands[0]), target, one, rows, columns)
            return
        for runs in runs_of(move.places, [places.count(v) for v in move.operands]):
            self._copies.runs(runs, places.place(move.operands[runs.operand]), target, one)

    def read(self, value: int, read: Read) -> None:
        """Copy a window to the place of the result."""
        places = self._places
        self._window(read, places.place(read.source), places.place(value), places.one(value))

    def write(self, value: int, write: Write) -> None:
        """Copy a tensor to the place of the result, and over it the window."""
        target = self._places.place(value)
        self._places.put(write.source, target)
        self._window(write, target, self._places.place(write.new), self._places.one(value))

    def _window(self, instruction: Read | Write, whole: str, part: str, one: str) -> None:
        """Copy the runs of a window from the whole to the part, or the other way round."""
        to, first = self._to, self._to.at(whole, self._begin(instruction.starts), one)
        if len(instruction.offsets) > _MOST_RUNS:
            raise Unknown
        for i, offset in enumerate(instruction.offsets):
            places = to.at(first, offset, one), to.at(part, i * instruction.run, one)
            source, target = places if isinstance(instruction, Read) else places[::-1]
            self._copies.run(source, target, one, instruction.run)

    def _begin(self, starts: Sequence[Start]) -> str:
        """The position at which a window begins."""
        to, position = self._to, "0"
        for start in starts:
            one = self._places.one(start.operand)
            number = to.value(f"extractelement <1 x {one}> {self._places.vector(start.operand)}, i64 0")
            number = to.value(f"{'sext' if start.is_signed else 'zext'} {one} {number} to i64")
            number = to.smaller(to.call("i64", "smax.i64", f"i64 {number}", "i64 0"), start.most)
            position = to.add(position, to.multiply(number, start.stride))
        return position
