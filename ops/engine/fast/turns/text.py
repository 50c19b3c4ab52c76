"""Text for LLVM of a function that makes many turns of a loop on vectors, one after the other.

A short value is a vector register with its elements as memory has them; what only moves elements is a shuffle. A long
one lies in memory: ops that follow each other are one loop over its elements, and moves copy runs of them. States are
kept from turn to turn in places on the stack, of which LLVM makes registers, and long ones where the caller has them.
Arithmetic is the machine's, op by op: nothing is joined or left out, so results are its bits, but for which of two NaN
comes out.

From the ground up: `copies.py` moves elements from address to address, `places.py` knows where values are, `moves.py`
writes what only moves elements of values, and here is the rest of a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...blas_calls import Function, Product
from ...native.vectors import Lanes
from ...native.writer import Writer
from .. import opcodes as op
from ..joined.ops import MADE, loaded, stored
from ..joined.values import lines_of
from ..recipes import Program
from ..registers import Unknown
from .copies import Copies
from .memory import LINE
from .moves import Moves
from .places import Places
from .record import Compute, Instruction, Literal, Move, Multiply, Read, Taken, Turn, Write, operands_of

#: The addresses of states, rows, results and shared arrays, the bytes from one row to the next of each array of rows,
#: room for long values, the first turn, and the one to end before. What it gives is the turn that has still to be made,
#: where a function of f32 cannot tell how its result is rounded.
_ARGUMENTS = "ptr places", "ptr strides", "ptr memory", "i64 first", "i64 last"
OPERANDS = len(_ARGUMENTS)


def text(turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> tuple[str, int]:
    """The function `run`, and how many bytes of memory it needs.

    The others give functions of f32 by their opcodes, and of BLAS. Raises Unknown.
    """
    made = _Text(turn, address_of, blas_of)
    return made.made(), made.places.memory.size


class _Text:
    def __init__(self, turn: Turn, address_of: Callable[[int], int], blas_of: Callable[[Product], Function]) -> None:
        self._turn, self._address_of, self._blas_of = turn, address_of, blas_of
        self._to = Writer(*_ARGUMENTS)
        self._copies = Copies(self._to)
        self.places = Places(turn, self._to, self._copies)
        self._moves = Moves(self._to, self.places, self._copies)
        self._calls = 0
        self._waiting: list[int] = []  #: ops on long values that become one loop
        calls = [i for i, n in enumerate(turn.instructions) if isinstance(n, Compute) and _calls(n.program)]
        self._last_call = max(calls, default=-1)

    def made(self) -> str:
        turn, to, places = self._turn, self._to, self.places
        taken = {(t.kind, t.place): i for i, t in enumerate(turn.instructions) if isinstance(t, Taken)}
        rows = [i for (kind, _), i in taken.items() if kind == "row"]
        counts = len(turn.states), len(rows), len(turn.results), sum(kind == "shared" for kind, _ in taken)
        given = [to.load("ptr", to.at("%places", i, "ptr")) for i in range(sum(counts))]
        self._of_states, of_rows, of_results, of_shared = (
            given[sum(counts[:i]) : sum(counts[: i + 1])] for i in range(len(counts))
        )
        strides = [to.load("i64", to.at("%strides", i, "i64")) for i in range(len(rows))]
        self._taken = [taken[("state", i)] for i in range(len(turn.states))]
        # The type of a state is that of what it becomes.
        short = [(v, i) for i, v in enumerate(turn.states) if not places.is_long(v)]
        states = {i: to.room(places.vectors(v).kind, LINE) for v, i in short}
        for value, i in short:
            vectors = places.vectors(value)
            vectors.store(vectors.load(self._of_states[i], 1), states[i], LINE)
        with to.loop("turn", "%first", "%last"):
            for (kind, place), value in taken.items():
                if kind == "state" and places.is_long(value):
                    places.lay(value, self._of_states[place])
                elif kind == "state":
                    places.hold(value, places.vectors(value).load(states[place], LINE))
                elif kind == "row":
                    places.lay(value, to.at(of_rows[place], to.multiply("%turn", strides[place])))
                else:
                    places.lay(value, of_shared[place])
            for i, instruction in enumerate(turn.instructions):
                if not isinstance(instruction, Taken):
                    self._take(i, instruction)
            self._flush(len(turn.instructions))
            for value, place in zip(turn.results, of_results, strict=True):
                places.put(value, to.at(place, "%turn", places.array(value)))
            ends = [(v, places.vector(v), i) for v, i in short]
            self._long_ends()
            for value, end, i in ends:
                places.vectors(value).store(end, states[i], LINE)
        to.go("stopped")
        to.block("stopped")
        for value, i in short:
            vectors = places.vectors(value)
            vectors.store(vectors.load(states[i], LINE), self._of_states[i], 1)
        to.end("i64 %turn")
        return to.text()

    def _long_ends(self) -> None:
        """Put what long states become in their places; what lies in the place of another one is moved first."""
        known, copies = self.places, self._copies
        ends = [(v, place) for v, place in zip(self._turn.states, self._of_states, strict=True) if known.is_long(v)]
        sources = [known.place(v) for v, _ in ends]
        for k, (value, place) in enumerate(ends):
            if sources[k] != place and sources[k] in self._of_states:
                spare = known.spare(value)
                copies.run(sources[k], spare, known.one(value), known.count(value))
                sources[k] = spare
        for source, (value, place) in zip(sources, ends, strict=True):
            if source != place:
                copies.run(source, place, known.one(value), known.count(value))

    # -- instructions --------------------------------------------------------------------------------------------------

    def _take(self, value: int, instruction: Instruction) -> None:
        places = self.places
        if places.is_other(value):
            return
        if isinstance(instruction, Compute) and places.is_long(value) and not _calls(instruction.program):
            if self._waiting and places.count(self._waiting[0]) != places.count(value):
                self._flush(value)
            self._waiting.append(value)
            return
        if not {places.root(v) for v in operands_of(instruction)}.isdisjoint(self._waiting):
            self._flush(value)
        if places.is_long(value):
            self._made_long(value, instruction)
        else:
            self._made_short(value, instruction)
        if not self._waiting:
            places.release(value + 1)

    def _made_short(self, value: int, instruction: Instruction) -> None:
        places = self.places
        if isinstance(instruction, Literal):
            places.hold(value, places.vectors(value).constant(*instruction.words))
        elif isinstance(instruction, Compute):
            lanes = Lanes(self._to, places.count(value))
            places.hold(value, self._lines(lanes, instruction.program, [*map(places.vector, instruction.operands)]))
        elif isinstance(instruction, Move) and not any(map(places.is_long, instruction.operands)):
            places.hold(value, self._moves.shuffled(instruction))
        else:
            places.new(value)
            self._write(value, instruction)

    def _made_long(self, value: int, instruction: Instruction) -> None:
        if isinstance(instruction, Move) and len(set(instruction.places)) == 1:
            self.places.repeat(value, self._moves.element(instruction, instruction.places[0]))
            return
        for operand in _in_memory(instruction):
            self.places.place(operand)
        self.places.new(value)
        self._write(value, instruction)

    def _write(self, value: int, instruction: Instruction) -> None:
        """Write the elements of a value to its place."""
        if isinstance(instruction, Move):
            self._moves.copy(value, instruction)
        elif isinstance(instruction, Compute):
            source, target = self.places.place(instruction.operands[0]), self.places.place(value)
            self._call(_only_call(instruction.program), source, target, self.places.count(value))
        elif isinstance(instruction, Multiply):
            self._multiply(value, instruction)
        elif isinstance(instruction, Read):
            self._moves.read(value, instruction)
        elif isinstance(instruction, Write):
            self._moves.write(value, instruction)
        else:
            raise Unknown

    # -- ops on long values that follow each other ---------------------------------------------------------------------

    def _flush(self, now: int) -> None:
        """Write the ops that wait, as one loop; `now` is the next instruction."""
        chain, places = self._waiting, self.places
        if not chain:
            return
        self._waiting, inside = [], set(chain)
        kept = [v for v in chain if not inside.issuperset(places.users(v))]
        computes = {v: self._turn.instructions[v] for v in chain}
        taken = dict.fromkeys(places.root(o) for c in computes.values() for o in operands_of(c))
        inputs = [v for v in taken if v not in inside]
        for v in kept:
            state = self._state_of(v, chain)
            if state is None:
                places.new(v)
            else:
                places.lay(v, self._of_states[state])

        def body(lanes: Lanes, j: str) -> None:
            held = {v: places.some(v, lanes.count, j) for v in inputs}
            for v, instruction in computes.items():
                assert isinstance(instruction, Compute)
                operands = [held[places.root(o)] for o in instruction.operands]
                held[v] = self._lines(lanes, instruction.program, operands)
            for v in kept:
                places.put_some(v, held[v], lanes.count, j)

        self._copies.loop(places.count(chain[0]), body)
        places.release(now)

    def _state_of(self, value: int, chain: Sequence[int]) -> int | None:
        """The state that a value can take the place of: nothing needs it after this, and no function can stop the turn.

        Elements of the old state are read before those of the new one are written.
        """
        found = [i for i, v in enumerate(self._turn.states) if self.places.root(v) == value]
        if len(found) != 1 or self._last_call > chain[0]:
            return None
        return found[0] if self.places.last_user(self._taken[found[0]]) <= chain[-1] else None

    # -- arithmetic ----------------------------------------------------------------------------------------------------

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

    def _multiply(self, value: int, instruction: Multiply) -> None:
        function, (_, operands), to = self._blas_of(instruction.product), instruction.product.call, self._to
        x, y = [self.places.place(v) for v in instruction.operands]
        out = self.places.place(value)
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

        self._copies.loop(self.places.count(value), add_zero)


def _in_memory(instruction: Instruction) -> tuple[int, ...]:
    """The operands of a long value that are needed in memory as a whole, whatever is done with them."""
    if isinstance(instruction, Read):
        return (instruction.source,)
    if isinstance(instruction, Write):
        return (instruction.source, instruction.new)
    return () if isinstance(instruction, Move) else operands_of(instruction)


def _calls(program: Program) -> bool:
    """Whether an op calls a function of f32."""
    return any(kind in op.FUNCTIONS for kind in program.code[:, 0].tolist())


def _only_call(program: Program) -> int:
    """The function that is all of an op. Raises Unknown."""
    load, kind, store = program.code[:, 0].tolist() if len(program.code) == 3 else (0, 0, 0)
    if (load, store) != (op.LOAD_32, op.STORE_32):
        raise Unknown
    return kind
