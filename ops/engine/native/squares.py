"""Matrices laid the other way round, square by square in the processor's registers, as text for LLVM.

A square has 16 rows and columns. Its rows are joined in pairs, element by element, four times over: the rows are the
columns then. Squares follow each other along the rows of the result, so that a line of the cache is read as a whole.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .. import speed
from ..amortised import Amortised
from . import code

SIDE = 16

_TEXT = """define i64 @run(i64 %source, i64 %apart, i64 %target, i64 %wide, i64 %rows, i64 %columns) #0 {
entry:
  %from = inttoptr i64 %source to ptr
  %to = inttoptr i64 %target to ptr
  br label %strip
strip:
  %i = phi i64 [ 0, %entry ], [ %i.next, %strip.end ]
  %i.goes = icmp slt i64 %i, %rows
  br i1 %i.goes, label %square, label %done
done:
  ret i64 %rows
square:
  %j = phi i64 [ 0, %strip ], [ %j.next, %inside ]
  %j.goes = icmp slt i64 %j, %columns
  br i1 %j.goes, label %inside, label %strip.end
inside:
BODY  %j.next = add i64 %j, 16
  br label %square
strip.end:
  %i.next = add i64 %i, 16
  br label %strip
}
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""


def pairings() -> tuple[list[int], list[int]]:
    """Which elements of two rows, numbered as if one followed the other, stand in the two rows that join them."""
    low = [k // 2 + k % 2 * SIDE for k in range(SIDE)]
    return low, [k + SIDE // 2 for k in low]


def joined(vector: str) -> list[str]:
    """The lines that make the columns of a square, `%v4.0` and so on, of its rows, `%v0.0` and so on."""
    low, high = (", ".join(f"i32 {k}" for k in places) for places in pairings())
    lines = []
    for turn in range(4):
        for k in range(SIDE // 2):
            pair = f"{vector} %v{turn}.{k}, {vector} %v{turn}.{k + SIDE // 2}"
            lines += [
                f"%v{turn + 1}.{2 * k} = shufflevector {pair}, <{SIDE} x i32> <{low}>",
                f"%v{turn + 1}.{2 * k + 1} = shufflevector {pair}, <{SIDE} x i32> <{high}>",
            ]
    return lines


def _text(bits: int) -> str:
    vector, lines = f"<{SIDE} x i{bits}>", []
    for k in range(SIDE):
        lines += [
            f"%j{k} = add i64 %j, {k}",
            f"%s{k} = mul i64 %j{k}, %apart",
            f"%r{k} = getelementptr i8, ptr %from, i64 %s{k}",
            f"%p{k} = getelementptr i{bits}, ptr %r{k}, i64 %i",
            f"%v0.{k} = load {vector}, ptr %p{k}, align 1",
        ]
    lines += joined(vector)
    for k in range(SIDE):
        lines += [
            f"%i{k} = add i64 %i, {k}",
            f"%t{k} = mul i64 %i{k}, %wide",
            f"%u{k} = add i64 %t{k}, %j",
            f"%q{k} = getelementptr i{bits}, ptr %to, i64 %u{k}",
            f"store {vector} %v4.{k}, ptr %q{k}, align 1",
        ]
    return _TEXT.replace("BODY", "".join(f"  {line}\n" for line in lines))


def _made(bits: int) -> tuple[Callable[..., int] | None]:
    try:
        return (code.compiled(_text(bits), 6),)
    except (ImportError, RuntimeError):
        return (None,)


@functools.cache
def _kept(bits: int) -> Amortised[tuple[Callable[..., int] | None]]:
    return Amortised(functools.partial(_made, bits), lambda: speed.tuning().across_worth)


def squares(size: int, itemsize: int) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """What lays a matrix whose columns lie together in an array that has its rows together; None where it is not there.

    size: how many elements there are to lay.
    """
    if not speed.current().compiled or size < speed.tuning().across_many or itemsize not in (1, 2, 4, 8):
        return None
    kept = _kept(8 * itemsize)
    run = (kept.value or kept.get(size) or (None,))[0]
    return None if run is None else functools.partial(_laid, run)


def _laid(run: Callable[..., int], x: np.ndarray, out: np.ndarray) -> None:
    rows, columns = (n - n % SIDE for n in x.shape)
    run(x.ctypes.data, x.strides[1], out.ctypes.data, out.strides[0] // x.itemsize, rows, columns)
    out[rows:] = x[rows:]
    out[:rows, columns:] = x[:rows, columns:]
