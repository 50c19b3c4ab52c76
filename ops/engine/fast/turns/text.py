"""Text for LLVM of a function that makes many turns of a loop on small vectors, one after the other.

A value is a vector register with its elements as memory has them; what only moves elements is a shuffle. States are
kept from turn to turn in places on the stack, of which LLVM makes registers. Arithmetic is the machine's, op by op:
nothing is joined or left out, so results are its bits, but for which of two NaN comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...blas_calls import Function, Product
from ...native.vectors import Lanes, Vectors
from ...native.writer import Writer
from .. import opcodes as op
from ..joined.ops import MADE, SIZES, loaded, stored
from ..joined.values import lines_of
from ..registers import LOADS, of
from .record import Compute, Instruction, Literal, Move, Multiply, Read, Start, Taken, Turn, Write

#: The addresses of states, rows, results and shared arrays, the first turn, and the one to end before. What it gives is
#: the turn that has still to be made, where a function of f32 cannot tell how its result is rounded.
_ARGUMENTS = "ptr places", "i64 first", "i64 last"
OPERANDS = len(_ARGUMENTS)
#: The line of a cache.
_LINE = 64


def text(turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> str:
    """The function `run`; the others give functions of f32 by their opcodes, and of BLAS. Raises Unknown."""
    return _Text(turn, address_of, blas_of).made()


class _Text:
    def __init__(self, turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> None:
        self._turn, self._address_of, self._blas_of = turn, address_of, blas_of
        self._to = Writer(*_ARGUMENTS)
        self._held: dict[int, str] = {}  #: vectors
        self._placed: dict[int, str] = {}  #: where the elements of values lie
        self._calls = 0

    def made(self) -> str:
        turn, to = self._turn, self._to
        taken = {(t.kind, t.place): i for i, t in enumerate(turn.instructions) if isinstance(t, Taken)}
        rows = [i for (kind, _), i in taken.items() if kind == "row"]
        counts = len(turn.states), len(rows), len(turn.results), sum(kind == "shared" for kind, _ in taken)
        places = [to.load("ptr", to.at("%places", i, "ptr")) for i in range(sum(counts))]
        of_states, of_rows, of_results, of_shared = (
            places[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))
        )
        # The type of a state is that of what it becomes.
        states = [to.room(self._vectors(v).kind, _LINE) for v in turn.states]
        for value, place, state in zip(turn.states, of_states, states, strict=True):
            self._vectors(value).store(self._vectors(value).load(place, 1), state, _LINE)
        with to.loop("turn", "%first", "%last"):
            for (kind, place), value in taken.items():
                if kind == "state":
                    self._held[value] = self._vectors(value).load(states[place], _LINE)
                elif kind == "row":
                    self._placed[value] = to.at(of_rows[place], "%turn", self._array(value))
                else:
                    self._placed[value] = of_shared[place]
            for i, instruction in enumerate(turn.instructions):
                if not isinstance(instruction, Taken):
                    self._held[i] = self._made(i, instruction)
            for value, place in zip(turn.results, of_results, strict=True):
                self._vectors(value).store(self._vector(value), to.at(place, "%turn", self._array(value)), 1)
            ends = [self._vector(v) for v in turn.states]
            for value, end, state in zip(turn.states, ends, states, strict=True):
                self._vectors(value).store(end, state, _LINE)
        to.go("stopped")
        to.block("stopped")
        for value, place, state in zip(turn.states, of_states, states, strict=True):
            self._vectors(value).store(self._vectors(value).load(state, _LINE), place, 1)
        to.end("i64 %turn")
        return to.text()

    # -- values --------------------------------------------------------------------------------------------------------

    def _one(self, value: int) -> str:
        """The type of an element, as it lies in memory."""
        return f"i{8 * SIZES[of(LOADS, self._turn.vectors[value].element)]}"

    def _count(self, value: int) -> int:
        return self._turn.vectors[value].count

    def _vectors(self, value: int) -> Vectors:
        return Vectors(self._to, self._one(value), self._count(value))

    def _array(self, value: int) -> str:
        """The type of memory that has the elements one by one: that of a vector may be longer."""
        return f"[{self._count(value)} x {self._one(value)}]"

    def _vector(self, value: int) -> str:
        if value not in self._held:
            self._held[value] = self._vectors(value).load(self._placed[value], 1)
        return self._held[value]

    def _place(self, value: int) -> str:
        """Where the elements of a value lie."""
        if value not in self._placed:
            self._placed[value] = place = self._to.room(self._array(value), _LINE)
            self._vectors(value).store(self._held[value], place, _LINE)
        return self._placed[value]

    # -- instructions --------------------------------------------------------------------------------------------------

    def _made(self, value: int, instruction: Instruction) -> str:
        if isinstance(instruction, Literal):
            return self._vectors(value).constant(*instruction.words)
        if isinstance(instruction, Compute):
            return self._compute(value, instruction)
        if isinstance(instruction, Move):
            return self._move(instruction)
        if isinstance(instruction, Multiply):
            return self._multiply(value, instruction)
        if isinstance(instruction, Read):
            return self._read(value, instruction)
        assert isinstance(instruction, Write)
        return self._write(value, instruction)

    def _compute(self, value: int, instruction: Compute) -> str:
        lanes, made = Lanes(self._to, self._count(value)), instruction.program
        held = {-1 - i: lanes.words.constant(word) for i, word in enumerate(made.constants.tolist())}
        operands = [self._vector(v) for v in instruction.operands]
        result = ""
        for line in lines_of(made.code, len(made.constants)):
            taken = [held[v] for v in line.operands]
            if line.is_load:
                held[line.result] = loaded(lanes, line.kind, operands[line.number], True)
            elif line.is_store:
                result = stored(lanes, line.kind, taken[0])
            elif line.kind in op.FUNCTIONS:
                held[line.result] = self._function(lanes, line.kind, taken[0])
            else:
                how = made.parameters[line.number].tolist() if line.kind == op.ENCODE else (line.number,)
                how = (True,) if line.kind in (op.TO_F16, op.ROUND_F16) else how
                held[line.result] = MADE[line.kind](lanes, taken, how)
        return result

    def _function(self, lanes: Lanes, kind: int, word: str) -> str:
        """A function of f32; where it cannot tell a result, no more of the turn is done."""
        to, words = self._to, lanes.words
        source, target = to.room(words.kind, _LINE), to.room(words.kind, _LINE)
        words.store(word, source, _LINE)
        function = f"inttoptr (i64 {self._address_of(kind)} to ptr)"
        stops = to.value(f"call i32 {function}(ptr {source}, ptr {target}, i64 {lanes.count})")
        self._calls += 1
        to.branch(to.value(f"icmp ne i32 {stops}, 0"), "stopped", f"called{self._calls}", is_rare=True)
        to.block(f"called{self._calls}")
        return words.load(target, _LINE)

    def _move(self, instruction: Move) -> str:
        whole, start = "", 0
        for operand in instruction.operands:
            count = self._count(operand)
            inside = [p - start if start <= p < start + count else -1 for p in instruction.places]
            if max(inside) >= 0:
                whole = self._picked(whole, operand, inside)
            start += count
        return whole

    def _picked(self, whole: str, operand: int, inside: Sequence[int]) -> str:
        """A vector with elements of an operand at some places, and elsewhere those of `whole`."""
        vector, count, length, to = self._vector(operand), self._count(operand), len(inside), self._to
        if not whole and [*inside] == [*range(count)]:
            return vector
        part = to.shuffle(self._one(operand), count, vector, "poison", [max(p, 0) for p in inside])
        if not whole:
            return part
        chosen = [i if p < 0 else length + i for i, p in enumerate(inside)]
        return to.shuffle(self._one(operand), length, whole, part, chosen)

    def _multiply(self, value: int, instruction: Multiply) -> str:
        function, (_, operands), to = self._blas_of(instruction.product), instruction.product.call, self._to
        x, y = [self._place(v) for v in instruction.operands]
        floats, out = Lanes(to, self._count(value)).floats, to.room(self._array(value), _LINE)
        places, kinds = {"x": x, "y": y, "out": out}, {"int": "i32", "long": f"i{function.bits}", "float": "float"}
        told = [f"ptr {places[k]}" if k in places else f"{kinds[k]} {v}" for k, v in operands]
        call = f"inttoptr (i64 {function.address} to ptr)({', '.join(told)})"
        if instruction.product.has_out:
            to.line(f"call void {call}")
        else:
            to.store(f"float {to.value(f'call float {call}')}", out, _LINE)
        return self._vectors(value).bits(floats, floats.op("fadd", floats.load(out, _LINE), 0.0))

    # -- windows -------------------------------------------------------------------------------------------------------

    def _begin(self, starts: Sequence[Start]) -> str:
        """The position at which a window begins."""
        to, position = self._to, "0"
        for start in starts:
            one = self._one(start.operand)
            number = to.value(f"extractelement <1 x {one}> {self._vector(start.operand)}, i64 0")
            number = to.value(f"{'sext' if start.is_signed else 'zext'} {one} {number} to i64")
            number = to.smaller(to.call("i64", "smax.i64", f"i64 {number}", "i64 0"), start.most)
            position = to.add(position, to.multiply(number, start.stride))
        return position

    def _copy(self, instruction: Read | Write, whole: str, part: str, one: str) -> None:
        """Copy the runs of a window from the whole to the part, or the other way round."""
        to = self._to
        run, first = Vectors(to, one, instruction.run), to.at(whole, self._begin(instruction.starts), one)
        for i, offset in enumerate(instruction.offsets):
            places = to.at(first, offset, one), to.at(part, i * instruction.run, one)
            source, target = places if isinstance(instruction, Read) else places[::-1]
            run.store(run.load(source, 1), target, 1)

    def _read(self, value: int, instruction: Read) -> str:
        room = self._to.room(self._array(value), _LINE)
        self._copy(instruction, self._place(instruction.source), room, self._one(value))
        return self._vectors(value).load(room, _LINE)

    def _write(self, value: int, instruction: Write) -> str:
        room = self._to.room(self._array(value), _LINE)
        self._vectors(value).store(self._vector(instruction.source), room, _LINE)
        self._copy(instruction, room, self._place(instruction.new), self._one(value))
        return self._vectors(value).load(room, _LINE)
