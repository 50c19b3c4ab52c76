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

from .. import opcodes as op
from ..instructions import ELEMENTS
from .ops import MADE, SIZES, Lines, load, store
from .values import Line, lines_of, signalling

#: Elements that are done at a time.
LANES = 16

#: What the code takes: addresses, and one number.
OPERANDS = 7
#: (where, constants, leaves, starts, rows of starts, outputs, functions), as `machine.run` has them: of leaves and
#: outputs arrays of their objects' addresses.
_HEAD = """define i64 @run(
  ptr %where, ptr %constants, ptr %leaves, ptr %starts, i64 %stride, ptr %outs, ptr %functions
) #0 {
entry:
  %first = load i64, ptr %where
  %p1 = getelementptr i64, ptr %where, i64 1
  %last = load i64, ptr %p1
  %p2 = getelementptr i64, ptr %where, i64 2
  %rows = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %where, i64 3
  %columns = load i64, ptr %p3
  %p4 = getelementptr i64, ptr %where, i64 4
  %high = load i64, ptr %p4
  %p5 = getelementptr i64, ptr %where, i64 5
  %wide = load i64, ptr %p5
  %wide.less = sub i64 %wide, 1
  %columns.more = add i64 %columns, %wide.less
  %across = udiv i64 %columns.more, %wide
"""
_BLOCK = """  br label %block
block:
  %b = phi i64 [ %first, %entry ], [ %b.next, %block.end ]
  %b.goes = icmp slt i64 %b, %last
  br i1 %b.goes, label %inside, label %done
done:
  ret i64 %last
stopped:
  ret i64 %b
inside:
  %b.down = udiv i64 %b, %across
  %b.along = urem i64 %b, %across
  %row = mul i64 %b.down, %high
  %start = mul i64 %b.along, %wide
  %rows.left = sub i64 %rows, %row
  %height = call i64 @llvm.smin.i64(i64 %high, i64 %rows.left)
  %columns.left = sub i64 %columns, %start
  %n = call i64 @llvm.smin.i64(i64 %wide, i64 %columns.left)
  br label %line
line:
  %i = phi i64 [ 0, %inside ], [ %i.next, %line.end ]
  %r = add i64 %row, %i
  %r.begins = mul i64 %r, %columns
  %out.begins = add i64 %r.begins, %start
"""
_TAIL = """line.end:
  %i.next = add i64 %i, 1
  %i.goes = icmp slt i64 %i.next, %height
  br i1 %i.goes, label %line, label %block.end
block.end:
  %b.next = add i64 %b, 1
  br label %block
}
declare i64 @llvm.smin.i64(i64, i64)
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""


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
        self._declared: set[str] = set()
        self._text: list[str] = []

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

    def _put(self, *lines: str) -> None:
        self._text += [f"  {line}\n" for line in lines]

    def made(self) -> str:
        self._text = [_HEAD]
        for i in range(self._constants):
            self._put(f"%c{i}.p = getelementptr i32, ptr %constants, i64 {i}", f"%c{i} = load i32, ptr %c{i}.p")
        for value in sorted(self._kept):
            self._put(f"%{_name(value)} = alloca i32, i64 %wide, align 64")
        for name in self._sizes:
            array, i = "%leaves" if name.startswith("in") else "%outs", name[2:]
            self._put(
                f"%{name}.p = getelementptr ptr, ptr {array}, i64 {i}",
                f"%{name}.object = load ptr, ptr %{name}.p",
                f"%{name}.elements = getelementptr i8, ptr %{name}.object, i64 {ELEMENTS}",
                f"%{name}.all = load ptr, ptr %{name}.elements",
            )
        for i, call in enumerate(self._calls):
            self._put(
                f"%f{i}.p = getelementptr ptr, ptr %functions, i64 {call.number}", f"%f{i} = load ptr, ptr %f{i}.p"
            )
        self._text.append(_BLOCK)
        for name, bits in self._sizes.items():
            begin = "%out.begins"
            if name.startswith("in"):
                i, begin = int(name[2:]), f"%{name}.begins"
                self._put(
                    f"%{name}.of = mul i64 %stride, {i}",
                    f"%{name}.at = add i64 %{name}.of, %r",
                    f"%{name}.q = getelementptr i64, ptr %starts, i64 %{name}.at",
                    f"%{name}.row = load i64, ptr %{name}.q",
                    f"{begin} = add i64 %{name}.row, {'%start' if self._along[i] else '0'}",
                )
            self._put(f"%{name} = getelementptr i{bits}, ptr %{name}.all, i64 {begin}")
        for line in self._lines:
            if line.is_load and not self._along[line.number]:
                one = Lines(1, f"one{line.result}.", self._declared)
                word = load(one, line.kind, f"%in{line.number}", line.result in self._signalling)
                self._text += one.lines
                self._put(f"%one{line.result} = extractelement {one.words} {word}, i64 0")
        before = "line"
        for i, lines in enumerate(self._loops):
            before = self._loop(i, lines, before)
            if i < len(self._calls):
                before = self._call(i)
        self._put("br label %line.end")
        self._text += [_TAIL, *sorted(self._declared)]
        return "".join(self._text)

    def _call(self, i: int) -> str:
        call = self._calls[i]
        (value,) = call.operands
        source = f"in{self._made[value].number}" if self._is_plain(value) else _name(value)
        self._put(
            f"%a{i} = ptrtoint ptr %{source} to i64",
            f"%r{i} = ptrtoint ptr %{_name(call.result)} to i64",
            f"%is{i} = call i32 %f{i}(i64 %a{i}, i64 %r{i}, i64 %n)",
            f"%stops{i} = icmp ne i32 %is{i}, 0",
            f"br i1 %stops{i}, label %stopped, label %called{i}",
        )
        self._text.append(f"called{i}:\n")
        return f"called{i}"

    def _loop(self, i: int, lines: Sequence[Line], before: str) -> str:
        """A loop over vectors and one over the elements that are left; the label after it."""
        needed = {r for call in self._calls[i : i + 1] for r in call.operands if r in self._kept and self._is_load(r)}
        if not lines and not needed:
            return before
        for lanes, mark in ((LANES, f"w{i}"), (1, f"x{i}")):
            body = Lines(lanes, mark, self._declared)
            start = "0" if lanes > 1 else f"%w{i}.j"
            self._put(f"br label %{mark}")
            self._text.append(f"{mark}:\n")
            self._put(
                f"%{mark}.j = phi i64 [ {start}, %{before} ], [ %{mark}.next, %{mark}.body ]",
                f"%{mark}.next = add i64 %{mark}.j, {lanes}",
                f"%{mark}.goes = icmp sle i64 %{mark}.next, %n",
                f"br i1 %{mark}.goes, label %{mark}.body, label %{mark}.end",
            )
            self._text.append(f"{mark}.body:\n")
            self._body(lines, sorted(needed), body, f"%{mark}.j")
            self._text += body.lines
            self._put(f"br label %{mark}")
            self._text.append(f"{mark}.end:\n")
            before = f"{mark}.end"
        return before

    def _body(self, lines: Sequence[Line], needed: Sequence[int], body: Lines, j: str) -> None:
        held: dict[int, str] = {}

        def place(name: str, bits: int) -> str:
            return body.let(f"getelementptr i{bits}, ptr %{name}, i64 {j}")

        def value(r: int) -> str:
            if r not in held:
                if r < 0:
                    held[r] = body.repeated(f"%c{-1 - r}")
                elif self._is_load(r):
                    line, name = self._made[r], f"in{self._made[r].number}"
                    if self._along[line.number]:
                        held[r] = load(body, line.kind, place(name, self._sizes[name]), r in self._signalling)
                    else:
                        held[r] = body.repeated(f"%one{r}")
                else:
                    held[r] = body.let(f"load {body.words}, ptr {place(_name(r), 32)}, align 4")
            return held[r]

        for line in lines:
            operands = [value(r) for r in line.operands]
            if line.is_store:
                name = f"to{line.number}"
                store(body, line.kind, place(name, self._sizes[name]), operands[0])
                continue
            how = self._parameters[line.number].tolist() if line.kind == op.ENCODE else [line.number]
            if line.kind in (op.TO_F16, op.ROUND_F16):
                how = [line.operands[0] in self._signalling]
            held[line.result] = MADE[line.kind](body, operands, how)
            if line.result in self._kept:
                body.do(f"store {body.words} {held[line.result]}, ptr {place(_name(line.result), 32)}, align 4")
        for r in needed:
            body.do(f"store {body.words} {value(r)}, ptr {place(_name(r), 32)}, align 4")


def _name(value: int) -> str:
    return f"k{value}" if value >= 0 else f"k.{-1 - value}"
