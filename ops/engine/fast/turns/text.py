"""Text for LLVM of a function that makes many turns of a loop on vectors, one after the other.

A short value is a vector register with its elements as memory has them; what only moves elements is a shuffle. A long
one lies in memory: ops that follow each other are one loop over its elements, and moves copy runs of them. States are
kept from turn to turn in places on the stack, of which LLVM makes registers, and long ones where the caller has them.
Arithmetic is the machine's, op by op: nothing is joined or left out, so results are its bits, but for which of two NaN
comes out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ...blas_calls import Function, Product
from ...native.squares import SIDE, pairings
from ...native.vectors import Lanes, Vectors
from ...native.writer import Writer
from ...speed import tuning
from .. import opcodes as op
from ..joined.ops import MADE, SIZES, loaded, stored
from ..joined.values import lines_of
from ..recipes import Program
from ..registers import LOADS, Unknown, of
from .memory import LINE, Memory, runs_of, steady, turned_columns
from .record import Compute, Instruction, Literal, Move, Multiply, Read, Start, Taken, Turn, Write

#: The addresses of states, rows, results and shared arrays, the bytes from one row to the next of each array of rows,
#: room for long values, the first turn, and the one to end before. What it gives is the turn that has still to be made,
#: where a function of f32 cannot tell how its result is rounded.
_ARGUMENTS = "ptr places", "ptr strides", "ptr memory", "i64 first", "i64 last"
OPERANDS = len(_ARGUMENTS)
#: Elements of long values that are done at a time, and runs that are copied by a line each.
_LANES, _FEW = 32, 64


def text(turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> tuple[str, int]:
    """The function `run`, and how many bytes of memory it needs.

    The others give functions of f32 by their opcodes, and of BLAS. Raises Unknown.
    """
    made = _Text(turn, address_of, blas_of)
    return made.made(), made.memory.size


class _Text:
    def __init__(self, turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> None:
        self._turn, self._address_of, self._blas_of = turn, address_of, blas_of
        self._to = Writer(*_ARGUMENTS)
        self._held: dict[int, str] = {}  #: vectors
        self._placed: dict[int, str] = {}  #: where the elements of values lie
        self._calls = self._loops = 0
        self.memory = Memory()
        self._owned: dict[int, tuple[int, int]] = {}  #: what long values have of it
        self._repeated: dict[int, str] = {}  #: the only element of long values
        self._waiting: list[int] = []  #: ops on long values that become one loop
        self._most = tuning().vector_elements
        self._same: dict[int, int] = {}  #: long values that are others, with another shape
        for i, instruction in enumerate(turn.instructions):
            if isinstance(instruction, Move) and self._is_long(i) and self._is_same(instruction):
                self._same[i] = self._root(instruction.operands[0])
        self._users = self._used()
        calls = [i for i, n in enumerate(turn.instructions) if isinstance(n, Compute) and _calls(n.program)]
        self._last_call = max(calls, default=-1)

    def _is_same(self, move: Move) -> bool:
        return len(move.operands) == 1 and [*move.places] == [*range(self._count(move.operands[0]))]

    def _used(self) -> dict[int, list[float]]:
        """The instructions that need each value; what the turn gives is needed in the end."""
        users: dict[int, list[float]] = {}
        for i, instruction in enumerate(self._turn.instructions):
            for v in _operands(instruction) if i not in self._same else ():
                users.setdefault(self._root(v), []).append(i)
        for v in (*self._turn.states, *self._turn.results):
            users.setdefault(self._root(v), []).append(math.inf)
        return users

    def made(self) -> str:
        turn, to = self._turn, self._to
        taken = {(t.kind, t.place): i for i, t in enumerate(turn.instructions) if isinstance(t, Taken)}
        rows = [i for (kind, _), i in taken.items() if kind == "row"]
        counts = len(turn.states), len(rows), len(turn.results), sum(kind == "shared" for kind, _ in taken)
        places = [to.load("ptr", to.at("%places", i, "ptr")) for i in range(sum(counts))]
        self._of_states, of_rows, of_results, of_shared = (
            places[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))
        )
        strides = [to.load("i64", to.at("%strides", i, "i64")) for i in range(len(rows))]
        self._taken = [taken[("state", i)] for i in range(len(turn.states))]
        # The type of a state is that of what it becomes.
        short = [(v, i) for i, v in enumerate(turn.states) if not self._is_long(v)]
        states = {i: to.room(self._vectors(v).kind, LINE) for v, i in short}
        for value, i in short:
            vectors = self._vectors(value)
            vectors.store(vectors.load(self._of_states[i], 1), states[i], LINE)
        with to.loop("turn", "%first", "%last"):
            for (kind, place), value in taken.items():
                if kind == "state" and self._is_long(value):
                    self._placed[value] = self._of_states[place]
                elif kind == "state":
                    self._held[value] = self._vectors(value).load(states[place], LINE)
                elif kind == "row":
                    self._placed[value] = to.at(of_rows[place], to.multiply("%turn", strides[place]))
                else:
                    self._placed[value] = of_shared[place]
            for i, instruction in enumerate(turn.instructions):
                if not isinstance(instruction, Taken):
                    self._take(i, instruction)
            self._flush(len(turn.instructions))
            for value, place in zip(turn.results, of_results, strict=True):
                self._put(value, to.at(place, "%turn", self._array(value)))
            ends = [(v, self._vector(v), i) for v, i in short]
            self._long_ends()
            for value, end, i in ends:
                self._vectors(value).store(end, states[i], LINE)
        to.go("stopped")
        to.block("stopped")
        for value, i in short:
            vectors = self._vectors(value)
            vectors.store(vectors.load(states[i], LINE), self._of_states[i], 1)
        to.end("i64 %turn")
        return to.text()

    def _long_ends(self) -> None:
        """Put what long states become in their places; what lies in the place of another one is moved first."""
        ends = [(v, place) for v, place in zip(self._turn.states, self._of_states, strict=True) if self._is_long(v)]
        sources = [self._place(v) for v, _ in ends]
        for k, (value, place) in enumerate(ends):
            if sources[k] != place and sources[k] in self._of_states:
                room = self._room(value)
                self._copy_run(sources[k], room, self._one(value), self._count(value))
                sources[k] = room
        for source, (value, place) in zip(sources, ends, strict=True):
            if source != place:
                self._copy_run(source, place, self._one(value), self._count(value))

    # -- values --------------------------------------------------------------------------------------------------------

    def _one(self, value: int) -> str:
        """The type of an element, as it lies in memory."""
        return f"i{8 * SIZES[of(LOADS, self._turn.vectors[value].element)]}"

    def _count(self, value: int) -> int:
        return self._turn.vectors[value].count

    def _vectors(self, value: int) -> Vectors:
        return Vectors(self._to, self._one(value), self._count(value))

    def _is_long(self, value: int) -> bool:
        return self._count(value) > self._most

    def _root(self, value: int) -> int:
        return self._same.get(value, value)

    def _array(self, value: int) -> str:
        """The type of memory that has the elements one by one: that of a vector may be longer."""
        return f"[{self._count(value)} x {self._one(value)}]"

    def _vector(self, value: int) -> str:
        if value not in self._held:
            self._held[value] = self._vectors(value).load(self._placed[value], 1)
        return self._held[value]

    def _place(self, value: int) -> str:
        """Where the elements of a value lie."""
        value = self._root(value)
        if value not in self._placed and not self._is_long(value):
            self._placed[value] = place = self._to.room(self._array(value), LINE)
            self._vectors(value).store(self._held[value], place, LINE)
        elif value not in self._placed:
            self._fill(value, self._new(value))
        return self._placed[value]

    def _put(self, value: int, place: str) -> None:
        """Copy the elements of a value to a place."""
        if not self._is_long(value):
            self._vectors(value).store(self._vector(value), place, 1)
        elif self._root(value) in self._repeated:
            self._fill(self._root(value), place)
        else:
            self._copy_run(self._place(value), place, self._one(value), self._count(value))

    # -- long values ---------------------------------------------------------------------------------------------------

    def _room(self, value: int) -> str:
        """Memory for a value, for the rest of the turn."""
        size = self._count(value) * SIZES[of(LOADS, self._turn.vectors[value].element)]
        return self._to.at("%memory", self.memory.take(size))

    def _new(self, value: int) -> str:
        """Memory for a value, as long as it is needed."""
        size = self._count(value) * SIZES[of(LOADS, self._turn.vectors[value].element)]
        start = self.memory.take(size)
        self._owned[value] = start, size
        self._placed[value] = self._to.at("%memory", start)
        return self._placed[value]

    def _release(self, before: int) -> None:
        """Hand back the memory of what only instructions before one need."""
        for value in [v for v in self._owned if max(self._users.get(v, [-1])) < before]:
            self.memory.give(*self._owned.pop(value))

    def _loop(self, count: int, body: Callable[[Lanes, str], None]) -> None:
        """A loop over so many elements; `body` does some of them, from a position on."""
        whole = count - count % _LANES
        if whole:
            self._loops += 1
            with self._to.loop(f"some{self._loops}", "0", str(whole), _LANES) as j:
                body(Lanes(self._to, _LANES), j)
        if count % _LANES:
            body(Lanes(self._to, count % _LANES), str(whole))

    def _fill(self, value: int, place: str) -> None:
        one, number = self._one(value), self._repeated[value]

        def body(lanes: Lanes, j: str) -> None:
            vectors = Vectors(self._to, one, lanes.count)
            vectors.store(vectors.repeated(number), self._to.at(place, j, one), 1)

        self._loop(self._count(value), body)

    def _copy_run(self, source: str, target: str, one: str, length: int) -> None:
        """Copy elements that follow each other."""
        if length <= self._most:
            run = Vectors(self._to, one, length)
            return run.store(run.load(source, 1), target, 1)

        def body(lanes: Lanes, j: str) -> None:
            run = Vectors(self._to, one, lanes.count)
            run.store(run.load(self._to.at(source, j, one), 1), self._to.at(target, j, one), 1)

        return self._loop(length, body)

    def _flush(self, now: int) -> None:
        """Write the ops that wait, as one loop; `now` is the next instruction."""
        chain, to = self._waiting, self._to
        if not chain:
            return
        self._waiting, inside = [], set(chain)
        kept = [v for v in chain if any(u not in inside for u in self._users.get(v, ()))]
        computes = {v: self._turn.instructions[v] for v in chain}
        taken = dict.fromkeys(self._root(o) for c in computes.values() for o in _operands(c))
        inputs = [v for v in taken if v not in inside]
        for v in kept:
            state = self._state_of(v, chain)
            if state is None:
                self._new(v)
            else:
                self._placed[v] = self._of_states[state]

        def body(lanes: Lanes, j: str) -> None:
            held: dict[int, str] = {}
            for v in inputs:
                vectors = Vectors(to, self._one(v), lanes.count)
                if v in self._repeated:
                    held[v] = vectors.repeated(self._repeated[v])
                else:
                    held[v] = vectors.load(to.at(self._place(v), j, self._one(v)), 1)
            for v, instruction in computes.items():
                assert isinstance(instruction, Compute)
                operands = [held[self._root(o)] for o in instruction.operands]
                held[v] = self._lines(lanes, instruction.program, operands)
            for v in kept:
                Vectors(to, self._one(v), lanes.count).store(held[v], to.at(self._placed[v], j, self._one(v)), 1)

        self._loop(self._count(chain[0]), body)
        self._release(now)

    def _state_of(self, value: int, chain: Sequence[int]) -> int | None:
        """The state that a value can take the place of: nothing needs it after this, and no function can stop the turn.

        Elements of the old state are read before those of the new one are written.
        """
        places = [i for i, v in enumerate(self._turn.states) if self._root(v) == value]
        if len(places) != 1 or self._last_call > chain[0]:
            return None
        old = self._taken[places[0]]
        return places[0] if max(self._users.get(old, [-1])) <= chain[-1] else None

    # -- instructions --------------------------------------------------------------------------------------------------

    def _take(self, value: int, instruction: Instruction) -> None:
        if value in self._same:
            return
        if isinstance(instruction, Compute) and self._is_long(value) and not _calls(instruction.program):
            if self._waiting and self._count(self._waiting[0]) != self._count(value):
                self._flush(value)
            self._waiting.append(value)
            return
        if not {self._root(v) for v in _operands(instruction)}.isdisjoint(self._waiting):
            self._flush(value)
        self._made(value, instruction)
        if not self._waiting:
            self._release(value + 1)

    def _made(self, value: int, instruction: Instruction) -> None:
        if self._is_long(value):
            return self._made_long(value, instruction)
        if isinstance(instruction, Literal):
            self._held[value] = self._vectors(value).constant(*instruction.words)
        elif isinstance(instruction, Compute):
            lanes = Lanes(self._to, self._count(value))
            self._held[value] = self._lines(lanes, instruction.program, [self._vector(v) for v in instruction.operands])
        elif isinstance(instruction, Move):
            if any(map(self._is_long, instruction.operands)):
                self._placed[value] = self._to.room(self._array(value), LINE)
                self._move_runs(value, instruction)
            else:
                self._held[value] = self._move(instruction)
        elif isinstance(instruction, Multiply):
            self._placed[value] = self._to.room(self._array(value), LINE)
            self._multiply(value, instruction)
        elif isinstance(instruction, Read):
            self._placed[value] = self._to.room(self._array(value), LINE)
            self._copy(instruction, self._place(instruction.source), self._placed[value], self._one(value))
        elif isinstance(instruction, Write):
            self._placed[value] = self._to.room(self._array(value), LINE)
            self._write(value, instruction)
        return None

    def _made_long(self, value: int, instruction: Instruction) -> None:
        if isinstance(instruction, Move):
            places = set(instruction.places)
            if len(places) == 1:
                self._repeated[value] = self._element(instruction, places.pop())
                return
            self._new(value)
            self._move_runs(value, instruction)
        elif isinstance(instruction, Compute):
            source = self._place(instruction.operands[0])
            self._call(_only_call(instruction.program), source, self._new(value), self._count(value))
        elif isinstance(instruction, Multiply):
            x, y = map(self._place, instruction.operands)
            self._new(value)
            self._multiply(value, instruction)
        elif isinstance(instruction, Read):
            source = self._place(instruction.source)
            self._copy(instruction, source, self._new(value), self._one(value))
        elif isinstance(instruction, Write):
            self._place(instruction.source)
            self._place(instruction.new)
            self._new(value)
            self._write(value, instruction)
        else:
            raise Unknown

    def _lines(self, lanes: Lanes, made: Program, operands: Sequence[str]) -> str:
        """An op on some elements as they lie in memory."""
        held = {-1 - i: lanes.words.constant(word) for i, word in enumerate(made.constants.tolist())}
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
        """A function of f32."""
        words = lanes.words
        source, target = self._to.room(words.kind, LINE), self._to.room(words.kind, LINE)
        words.store(word, source, LINE)
        self._call(kind, source, target, lanes.count)
        return words.load(target, LINE)

    def _call(self, kind: int, source: str, target: str, count: int) -> None:
        """Call a function of f32; where it cannot tell a result, no more of the turn is done."""
        to = self._to
        function = f"inttoptr (i64 {self._address_of(kind)} to ptr)"
        stops = to.value(f"call i32 {function}(ptr {source}, ptr {target}, i64 {count})")
        self._calls += 1
        to.branch(to.value(f"icmp ne i32 {stops}, 0"), "stopped", f"called{self._calls}", is_rare=True)
        to.block(f"called{self._calls}")

    def _element(self, move: Move, position: int) -> str:
        """One of the elements of operands, which are numbered as if one followed the other."""
        for operand in map(self._root, move.operands):
            if position < self._count(operand):
                if operand in self._repeated:
                    return self._repeated[operand]
                one = self._one(operand)
                if operand in self._placed:
                    return self._to.load(one, self._to.at(self._placed[operand], position, one), 1)
                vector = f"{self._vectors(operand).kind} {self._vector(operand)}"
                return self._to.value(f"extractelement {vector}, i64 {position}")
            position -= self._count(operand)
        raise Unknown

    def _move_runs(self, value: int, move: Move) -> None:
        """Copy elements of operands, of which some are long or the result is."""
        to, one, target = self._to, self._one(value), self._placed[value]
        columns = turned_columns(move.places) if len(move.operands) == 1 else None
        if columns is not None and not columns % SIDE and not len(move.places) // columns % SIDE:
            self._turn_round(self._place(move.operands[0]), target, one, len(move.places) // columns, columns)
            return
        for runs in runs_of(move.places, [self._count(v) for v in move.operands]):
            source = self._place(move.operands[runs.operand])
            if len(runs.sources) <= 4:
                for here, there in zip(runs.sources, runs.targets, strict=True):
                    self._copy_run(to.at(source, here, one), to.at(target, there, one), one, runs.length)
                continue
            self._loops += 1
            with to.loop(f"run{self._loops}", "0", str(len(runs.sources))) as i:
                here, there = self._listed(runs.sources, i), self._listed(runs.targets, i)
                self._copy_run(to.at(source, here, one), to.at(target, there, one), one, runs.length)

    def _listed(self, numbers: Sequence[int], i: str) -> str:
        """A number of a list."""
        to, step = self._to, steady(numbers)
        if step is None:
            return to.load("i64", to.at(to.table(numbers), i, "i64"))
        return to.add(to.multiply(i, step), numbers[0])

    def _turn_round(self, source: str, target: str, one: str, rows: int, columns: int) -> None:
        """Lay a matrix the other way round, square by square."""
        to, line = self._to, Vectors(self._to, one, SIDE)
        self._loops += 1
        with (
            to.loop(f"down{self._loops}", "0", str(columns), SIDE) as i,
            to.loop(f"across{self._loops}", "0", str(rows), SIDE) as j,
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

    def _multiply(self, value: int, instruction: Multiply) -> None:
        function, (_, operands), to = self._blas_of(instruction.product), instruction.product.call, self._to
        x, y = [self._place(v) for v in instruction.operands]
        out = self._placed[value]
        places, kinds = {"x": x, "y": y, "out": out}, {"int": "i32", "long": f"i{function.bits}", "float": "float"}
        told = [f"ptr {places[k]}" if k in places else f"{kinds[k]} {v}" for k, v in operands]
        call = f"inttoptr (i64 {function.address} to ptr)({', '.join(told)})"
        if instruction.product.has_out:
            to.line(f"call void {call}")
        else:
            to.store(f"float {to.value(f'call float {call}')}", out, LINE)

        def add_zero(lanes: Lanes, j: str) -> None:
            place = to.at(out, j, "float")
            lanes.floats.store(lanes.floats.op("fadd", lanes.floats.load(place, 4), 0.0), place, 4)

        self._loop(self._count(value), add_zero)

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
        to, first = self._to, self._to.at(whole, self._begin(instruction.starts), one)
        if len(instruction.offsets) > _FEW:
            raise Unknown
        for i, offset in enumerate(instruction.offsets):
            places = to.at(first, offset, one), to.at(part, i * instruction.run, one)
            source, target = places if isinstance(instruction, Read) else places[::-1]
            self._copy_run(source, target, one, instruction.run)

    def _write(self, value: int, instruction: Write) -> None:
        self._put(instruction.source, self._placed[value])
        self._copy(instruction, self._placed[value], self._place(instruction.new), self._one(value))


def _operands(instruction: Instruction) -> tuple[int, ...]:
    """The values that an instruction takes."""
    if isinstance(instruction, Compute | Move | Multiply):
        return instruction.operands
    if isinstance(instruction, Read):
        return (instruction.source, *(s.operand for s in instruction.starts))
    if isinstance(instruction, Write):
        return (instruction.source, instruction.new, *(s.operand for s in instruction.starts))
    return ()


def _calls(program: Program) -> bool:
    """Whether an op calls a function of f32."""
    return any(kind in op.FUNCTIONS for kind in program.code[:, 0].tolist())


def _only_call(program: Program) -> int:
    """The function that is all of an op. Raises Unknown."""
    load, kind, store = program.code[:, 0].tolist() if len(program.code) == 3 else (0, 0, 0)
    if (load, store) != (op.LOAD_32, op.STORE_32):
        raise Unknown
    return kind
