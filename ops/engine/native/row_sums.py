"""Sums of rows of f32, bf16 and f16 in f32, each from left to right, as text for LLVM: 16 rows side by side.

Squares of 16 rows and columns are laid the other way round in the processor's registers, as in `squares`: then each
column is added to the totals of all 16 rows at once. 1000x1000 bf16 take 0.11 ms so and 0.27 row by row, f32 0.10 and
0.20.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .. import speed
from ..amortised import Amortised
from . import code
from .squares import SIDE, joined

#: Adds rows to totals of f32: it takes these and a matrix whose rows have their elements together.
Add = Callable[[np.ndarray, np.ndarray], None]

_FLOATS, _WORDS = f"<{SIDE} x float>", f"<{SIDE} x i32>"

_TEXT = """define i64 @run(i64 %source, i64 %apart, i64 %rows, i64 %n, i64 %totals) #0 {
entry:
  %from = inttoptr i64 %source to ptr
  %to = inttoptr i64 %totals to ptr
  %last = sub i64 %rows, 1
  br label %strip
strip:
  %i = phi i64 [ 0, %entry ], [ %i.next, %strip.end ]
  %i.goes = icmp slt i64 %i, %rows
  br i1 %i.goes, label %begin, label %done
done:
  ret i64 %rows
begin:
ROWS  %total.p = getelementptr float, ptr %to, i64 %i
  %t.first = load FLOATS, ptr %total.p, align 4
  br label %many
many:
  %j = phi i64 [ 0, %begin ], [ %j.next, %square ]
  %t = phi FLOATS [ %t.first, %begin ], [ %s16, %square ]
  %j.next = add i64 %j, 16
  %j.goes = icmp sle i64 %j.next, %n
  br i1 %j.goes, label %square, label %few
square:
SQUARE  br label %many
few:
  %k = phi i64 [ %j, %many ], [ %k.next, %column ]
  %u = phi FLOATS [ %t, %many ], [ %u.next, %column ]
  %k.goes = icmp slt i64 %k, %n
  br i1 %k.goes, label %column, label %strip.end
column:
COLUMN  %k.next = add i64 %k, 1
  br label %few
strip.end:
  store FLOATS %u, ptr %total.p, align 4
  %i.next = add i64 %i, 16
  br label %strip
}
declare i64 @llvm.smin.i64(i64, i64)
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""


def _number(codes: str, result: str, kind: str) -> list[str]:
    """The lines that give f32 of elements as they are in memory."""
    if kind == "f32":
        return [f"{result} = bitcast {_WORDS} {codes} to {_FLOATS}"]
    if kind == "f16":
        return [
            f"{result}.h = bitcast <{SIDE} x i16> {codes} to <{SIDE} x half>",
            f"{result} = fpext <{SIDE} x half> {result}.h to {_FLOATS}",
        ]
    high = f"<{', '.join(['i32 16'] * SIDE)}>"
    return [
        f"{result}.w = zext <{SIDE} x i16> {codes} to {_WORDS}",
        f"{result}.b = shl {_WORDS} {result}.w, {high}",
        f"{result} = bitcast {_WORDS} {result}.b to {_FLOATS}",
    ]


def _text(kind: str) -> str:
    bits = 32 if kind == "f32" else 16
    vector = f"<{SIDE} x i{bits}>"
    rows, square, column = [], [], []
    for r in range(SIDE):  # those beyond the last row are the last one again
        rows += [
            f"%i{r} = add i64 %i, {r}",
            f"%m{r} = call i64 @llvm.smin.i64(i64 %i{r}, i64 %last)",
            f"%b{r} = mul i64 %m{r}, %apart",
            f"%row{r} = getelementptr i8, ptr %from, i64 %b{r}",
        ]
        square += [
            f"%p{r} = getelementptr i{bits}, ptr %row{r}, i64 %j",
            f"%v0.{r} = load {vector}, ptr %p{r}, align 1",
        ]
    square += joined(vector)
    for c in range(SIDE):
        before = "%t" if c == 0 else f"%s{c}"
        square += [*_number(f"%v4.{c}", f"%n{c}", kind), f"%s{c + 1} = fadd {_FLOATS} {before}, %n{c}"]
    for r in range(SIDE):
        before = "poison" if r == 0 else f"%w{r - 1}"
        column += [
            f"%q{r} = getelementptr i{bits}, ptr %row{r}, i64 %k",
            f"%e{r} = load i{bits}, ptr %q{r}, align 1",
            f"%w{r} = insertelement {vector} {before}, i{bits} %e{r}, i64 {r}",
        ]
    column += [*_number(f"%w{SIDE - 1}", "%f", kind), f"%u.next = fadd {_FLOATS} %u, %f"]
    made = _TEXT
    for name, lines in (("ROWS", rows), ("SQUARE", square), ("COLUMN", column)):
        made = made.replace(name, "".join(f"  {line}\n" for line in lines), 1)
    return made.replace("FLOATS", _FLOATS)


def _made(kind: str) -> tuple[Callable[..., int] | None]:
    try:
        if kind == "f16" and not code.has_halves():
            return (None,)
        return (code.compiled(_text(kind), 5),)
    except (ImportError, RuntimeError):
        return (None,)


@functools.cache
def _kept(kind: str) -> Amortised[tuple[Callable[..., int] | None]]:
    return Amortised(functools.partial(_made, kind), lambda: speed.tuning().across_worth)


def adding(size: int, kind: str) -> Add | None:
    """What adds up rows of f32, bf16 or f16, in all of so many elements; None where it is not there for so many."""
    if not speed.current().compiled or size < speed.tuning().compiled_from:
        return None
    kept = _kept(kind)
    run = (kept.value or kept.get(size) or (None,))[0]
    return None if run is None else functools.partial(_add, run)


def _add(run: Callable[..., int], totals: np.ndarray, rows: np.ndarray) -> None:
    count, n = rows.shape
    padded = np.zeros(-(-count // SIDE) * SIDE, np.float32)
    padded[:count] = totals
    run(rows.ctypes.data, rows.strides[0], count, n, padded.ctypes.data)
    totals[...] = padded[:count]
