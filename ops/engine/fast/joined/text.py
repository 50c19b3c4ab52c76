"""One loop for all ops of a program of the machine, as text for LLVM: values stay in the processor's registers.

The machine takes one op after the other over a block, so that each value goes to the nearest cache and back. A program
that is run often gets code of its own: a loop that loads some elements, does all ops and stores what is wanted. A
function of f32 is called for a block, so a loop ends before it and another begins after it; what is needed on both
sides has a place on the stack.

Constants are read when the code runs, and no op is joined with another: results are the machine's, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...native.vectors import Lanes
from ...native.writer import Writer
from .. import opcodes as op
from ..instructions import ELEMENTS
from .ops import MADE, SIZES, load, store
from .values import Line, lines_of, signalling

#: Elements that are done at a time.
LANES = 16

#: What the code takes, as `machine.run` has it: of leaves and outputs arrays of their objects' addresses.
_ARGUMENTS = (
    "ptr where",
    "ptr constants",
    "ptr leaves",
    "ptr starts",
    "i64 stride",
    "ptr outs",
    "ptr functions",
)
OPERANDS = len(_ARGUMENTS)


def text(code: np.ndarray, constants: np.ndarray, along: np.ndarray, parameters: np.ndarray) -> str:
    """The function `run` that does what the machine does by the rows of a program. Raises Unknown."""
    return _Text(lines_of(code, len(constants)), constants, along, parameters).made()


class _Text:
    def __init__(self, lines: Sequence[Line], constants: np.ndarray, along: np.ndarray, parameters: np.ndarray) -> None:
        self._lines, self._constants, self._along, self._parameters = lines, len(constants), along, parameters
        self._signalling = signalling(lines, constants)
        self._made = {line.result: line for line in lines if line.result >= 0}
        self._calls = [line for line in lines if line.kind in op.FUNCTIONS]
        self._loops: list[list[Line]] = [[]]  # between the calls
        self._loop_of: dict[int, int] = {}
        for line in lines:
            if line.kind in op.FUNCTIONS:
                self._loops.append([])
            elif not line.is_load:
                self._loops[-1].append(line)
                self._loop_of[line.result] = len(self._loops) - 1
        self._kept = self._crossing()
        self._sizes = {
            (f"in{line.number}" if line.is_load else f"to{line.number}"): 8 * SIZES[line.kind]
            for line in lines
            if line.is_load or line.is_store
        }
        self._to = Writer(*_ARGUMENTS)
        self._vectors, self._single = Lanes(self._to, LANES), Lanes(self._to, 1)
        #: Words that all elements of a line take: constants, and leaves of which it takes one.
        self._words: dict[int, str] = {}
        self._functions: list[str] = []
        #: The places of kept values, and where a line's elements of leaves and outputs begin.
        self._places: dict[int, str] = {}
        self._memory: dict[str, str] = {}

    def _is_load(self, value: int) -> bool:
        return value < 0 or self._made[value].is_load

    def _is_plain(self, value: int) -> bool:
        """Whether a function can take a leaf's own words."""
        return value >= 0 and self._made[value].kind == op.LOAD_32 and bool(self._along[self._made[value].number])

    def _crossing(self) -> set[int]:
        """The values that are needed in another loop than their own, or by a function, or that one gives."""
        kept = {call.result for call in self._calls}
        for i, lines in enumerate(self._loops):
            needed = {r for line in lines for r in line.operands}
            kept |= {r for r in needed if not self._is_load(r) and self._loop_of.get(r) != i}
        return kept | {r for call in self._calls for r in call.operands if not self._is_plain(r)}

    def made(self) -> str:
        to = self._to
        first, last, rows, columns, high, wide = (to.load("i64", to.at("%where", i, "i64")) for i in range(6))
        across = to.value(f"udiv i64 {to.add(columns, to.subtract(wide, 1))}, {wide}")
        for i in range(self._constants):
            self._words[-1 - i] = to.load("i32", to.at("%constants", i, "i32"))
        for value in sorted(self._kept):
            self._places[value] = to.value(f"alloca i32, i64 {wide}, align 64")
        begins = {name: self._elements(name) for name in self._sizes}
        for call in self._calls:
            self._functions.append(to.load("ptr", to.at("%functions", call.number, "ptr")))
        with to.loop("block", first, last) as block:
            down, along = (to.value(f"{name} i64 {block}, {across}") for name in ("udiv", "urem"))
            row, start = to.multiply(down, high), to.multiply(along, wide)
            height = to.smaller(high, to.subtract(rows, row))
            n = to.smaller(wide, to.subtract(columns, start))
            with to.loop("line", "0", height) as line:
                self._line(begins, to.add(row, line), columns, start, n)
        to.end(f"i64 {last}")
        to.block("stopped")
        to.end(f"i64 {block}")
        return to.text()

    def _elements(self, name: str) -> str:
        """Where the elements of a leaf or an output begin."""
        array = "%leaves" if name.startswith("in") else "%outs"
        one = self._to.load("ptr", self._to.at(array, name[2:], "ptr"))
        return self._to.load("ptr", self._to.at(one, ELEMENTS))

    def _line(self, begins: dict[str, str], row: str, columns: str, start: str, n: str) -> None:
        """A line of a block: `n` elements of a row from `start` on."""
        to = self._to
        of_result = to.add(to.multiply(row, columns), start)
        for name, bits in self._sizes.items():
            begin = of_result
            if name.startswith("in"):
                i = int(name[2:])
                place = to.add(to.multiply("%stride", i), row)
                begin = to.add(to.load("i64", to.at("%starts", place, "i64")), start if self._along[i] else 0)
            self._memory[name] = to.at(begins[name], begin, f"i{bits}")
        for line in self._lines:
            if line.is_load and not self._along[line.number]:
                place = self._memory[f"in{line.number}"]
                word = load(self._single, line.kind, place, line.result in self._signalling)
                self._words[line.result] = to.value(f"extractelement {self._single.words.kind} {word}, i64 0")
        last = to.subtract(n, LANES - 1)
        for i, lines in enumerate(self._loops):
            self._loop(i, lines, last, n)
            if i < len(self._calls):
                self._call(i, n)

    def _call(self, i: int, n: str) -> None:
        to, call = self._to, self._calls[i]
        (value,) = call.operands
        source = self._memory[f"in{self._made[value].number}"] if self._is_plain(value) else self._places[value]
        given = f"ptr {source}, ptr {self._places[call.result]}, i64 {n}"
        stops = to.value(f"call i32 {self._functions[i]}({given})")
        to.branch(to.value(f"icmp ne i32 {stops}, 0"), "stopped", f"called{i}")
        to.block(f"called{i}")

    def _loop(self, i: int, lines: Sequence[Line], last: str, n: str) -> None:
        """A loop over vectors and one over the elements that are left."""
        calls = self._calls[i : i + 1]
        needed = sorted({r for call in calls for r in call.operands if r in self._kept and self._is_load(r)})
        if not lines and not needed:
            return
        with self._to.loop(f"many{i}", "0", last, LANES) as j:
            self._body(lines, needed, self._vectors, j)
        with self._to.loop(f"few{i}", j, n) as k:
            self._body(lines, needed, self._single, k)

    def _body(self, lines: Sequence[Line], needed: Sequence[int], lanes: Lanes, j: str) -> None:
        held: dict[int, str] = {}

        def place(name: str) -> str:
            return self._to.at(self._memory[name], j, f"i{self._sizes[name]}")

        def place_kept(r: int) -> str:
            return self._to.at(self._places[r], j, "i32")

        def value(r: int) -> str:
            if r not in held:
                if r in self._words:
                    held[r] = lanes.words.repeated(self._words[r])
                elif self._is_load(r):
                    line = self._made[r]
                    held[r] = load(lanes, line.kind, place(f"in{line.number}"), r in self._signalling)
                else:
                    held[r] = lanes.words.load(place_kept(r), align=4)
            return held[r]

        for line in lines:
            operands = [value(r) for r in line.operands]
            if line.is_store:
                store(lanes, line.kind, place(f"to{line.number}"), operands[0])
                continue
            how = self._parameters[line.number].tolist() if line.kind == op.ENCODE else [line.number]
            if line.kind in (op.TO_F16, op.ROUND_F16):
                how = [line.operands[0] in self._signalling]
            held[line.result] = MADE[line.kind](lanes, operands, how)
            if line.result in self._kept:
                lanes.words.store(held[line.result], place_kept(line.result), align=4)
        for r in needed:
            lanes.words.store(value(r), place_kept(r), align=4)
