"""Where the values of a turn are while its text is written: in registers, in memory, or one number that they repeat.

A short value is a vector register, and gets a place on the stack where something asks for its address. A long one lies
in memory as long as instructions need it, or is other memory: that of the caller, or of a value with another shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...native.vectors import Vectors
from ...native.writer import Writer
from ...speed import tuning
from ..joined.ops import SIZES
from ..registers import LOADS, of
from .copies import Copies
from .memory import LINE, Memory
from .record import Move, Turn, operands_of


class Places:
    """What is known of each value; its elements are loaded or stored where something needs them elsewhere."""

    def __init__(self, turn: Turn, to: Writer, copies: Copies) -> None:
        self._turn, self._to, self._copies = turn, to, copies
        self._held: dict[int, str] = {}  #: vectors
        self._placed: dict[int, str] = {}  #: where the elements of values lie
        self.memory = Memory()
        self._owned: dict[int, tuple[int, int]] = {}  #: what long values have of it
        self._repeated: dict[int, str] = {}  #: the only element of long values
        self._most = tuning().vector_elements
        self._same: dict[int, int] = {}  #: long values that are others, with another shape
        for i, instruction in enumerate(turn.instructions):
            if isinstance(instruction, Move) and self.is_long(i) and self._has_all(instruction):
                self._same[i] = self.root(instruction.operands[0])
        self._users = self._used()

    def _has_all(self, move: Move) -> bool:
        """Whether a move gives all elements of one value, in their order."""
        return len(move.operands) == 1 and [*move.places] == [*range(self.count(move.operands[0]))]

    def _used(self) -> dict[int, list[float]]:
        users: dict[int, list[float]] = {}
        for i, instruction in enumerate(self._turn.instructions):
            for v in operands_of(instruction) if i not in self._same else ():
                users.setdefault(self.root(v), []).append(i)
        for v in (*self._turn.states, *self._turn.results):
            users.setdefault(self.root(v), []).append(math.inf)
        return users

    # -- what is known beforehand --------------------------------------------------------------------------------------

    def one(self, value: int) -> str:
        """The type of an element, as it lies in memory."""
        return f"i{8 * self._bytes(value)}"

    def _bytes(self, value: int) -> int:
        return SIZES[of(LOADS, self._turn.vectors[value].element)]

    def count(self, value: int) -> int:
        return self._turn.vectors[value].count

    def vectors(self, value: int) -> Vectors:
        return Vectors(self._to, self.one(value), self.count(value))

    def array(self, value: int) -> str:
        """The type of memory that has the elements one by one: that of a vector may be longer."""
        return f"[{self.count(value)} x {self.one(value)}]"

    def is_long(self, value: int) -> bool:
        return self.count(value) > self._most

    def is_other(self, value: int) -> bool:
        """Whether a value is another one with another shape: nothing has to be done for it."""
        return value in self._same

    def root(self, value: int) -> int:
        """The value that lies where this one does."""
        return self._same.get(value, value)

    def users(self, value: int) -> Sequence[float]:
        """The instructions that need a value; what the turn gives is needed in the end, at infinity."""
        return self._users.get(value, ())

    def last_user(self, value: int) -> float:
        return max(self.users(value), default=-1)

    # -- what instructions say of their results ------------------------------------------------------------------------

    def hold(self, value: int, vector: str) -> None:
        """A short value is this vector."""
        self._held[value] = vector

    def lay(self, value: int, place: str) -> None:
        """A value lies at a place that the caller or another value has."""
        self._placed[value] = place

    def repeat(self, value: int, number: str) -> None:
        """All elements of a long value are this number."""
        self._repeated[value] = number

    def new(self, value: int) -> str:
        """A place for a value: on the stack for a short one, memory for as long as it is needed for a long one."""
        if not self.is_long(value):
            self._placed[value] = self._to.room(self.array(value), LINE)
            return self._placed[value]
        size = self.count(value) * self._bytes(value)
        start = self.memory.take(size)
        self._owned[value] = start, size
        self._placed[value] = self._to.at("%memory", start)
        return self._placed[value]

    def spare(self, value: int) -> str:
        """Another place for a long value, for the rest of the turn."""
        return self._to.at("%memory", self.memory.take(self.count(value) * self._bytes(value)))

    def release(self, before: int) -> None:
        """Hand back the memory of what only instructions before one need."""
        for value in [v for v in self._owned if self.last_user(v) < before]:
            self.memory.give(*self._owned.pop(value))

    # -- what instructions ask of their operands -----------------------------------------------------------------------

    def vector(self, value: int) -> str:
        """A short value."""
        if value not in self._held:
            self._held[value] = self.vectors(value).load(self._placed[value], 1)
        return self._held[value]

    def place(self, value: int) -> str:
        """Where the elements of a value lie; they are put there if they do not lie anywhere."""
        value = self.root(value)
        if value not in self._placed and not self.is_long(value):
            self.vectors(value).store(self._held[value], self.new(value), LINE)
        elif value not in self._placed:
            self._fill(value, self.new(value))
        return self._placed[value]

    def element(self, value: int, position: int) -> str:
        """One of the elements of a value."""
        value = self.root(value)
        if value in self._repeated:
            return self._repeated[value]
        one = self.one(value)
        if value in self._placed:
            return self._to.load(one, self._to.at(self._placed[value], position, one), 1)
        vector = f"{self.vectors(value).kind} {self.vector(value)}"
        return self._to.value(f"extractelement {vector}, i64 {position}")

    def some(self, value: int, count: int, j: str) -> str:
        """A vector of so many elements of a long value, from a position on."""
        value = self.root(value)
        vectors = Vectors(self._to, self.one(value), count)
        if value in self._repeated:
            return vectors.repeated(self._repeated[value])
        return vectors.load(self._to.at(self.place(value), j, self.one(value)), 1)

    def put_some(self, value: int, vector: str, count: int, j: str) -> None:
        """Write so many elements of a long value to its place, from a position on."""
        one = self.one(value)
        Vectors(self._to, one, count).store(vector, self._to.at(self._placed[value], j, one), 1)

    def put(self, value: int, place: str) -> None:
        """Copy the elements of a value to a place."""
        if not self.is_long(value):
            self.vectors(value).store(self.vector(value), place, 1)
        elif self.root(value) in self._repeated:
            self._fill(self.root(value), place)
        else:
            self._copies.run(self.place(value), place, self.one(value), self.count(value))

    def _fill(self, value: int, place: str) -> None:
        self._copies.fill(self._repeated[value], place, self.one(value), self.count(value))
