"""The largest or smallest code of each row of f16 or bf16, as text for LLVM: 32 codes at a time,
of which the last ones of a row may have been seen before.

Numbers stand in the order of their codes as signed integers, if of a negative one all bits but the sign are turned
round. Sizes above that of infinity are NaN.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import code

_TEXT = """define i64 @run(i64 %codes, i64 %stride, i64 %rows, i64 %n, i64 %winners, i64 %sizes) #0 {
entry:
  %all = inttoptr i64 %codes to ptr
  %best.all = inttoptr i64 %winners to ptr
  %size.all = inttoptr i64 %sizes to ptr
  %n.last = sub i64 %n, 32
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %i.next, %row.end ]
  %i.goes = icmp slt i64 %i, %rows
  br i1 %i.goes, label %start, label %done
done:
  ret i64 %rows
start:
  %begin = mul i64 %i, %stride
  %row.p = getelementptr i8, ptr %all, i64 %begin
  %is.long = icmp sge i64 %n, 32
  br i1 %is.long, label %many, label %many.end
many:
  %j = phi i64 [ 0, %start ], [ %j.next, %many.body ]
  %best = phi <32 x i16> [ WORST, %start ], [ %best.next, %many.body ]
  %size = phi <32 x i16> [ zeroinitializer, %start ], [ %size.next, %many.body ]
  %j.next = add i64 %j, 32
  %j.goes = icmp slt i64 %j, %n
  br i1 %j.goes, label %many.body, label %many.end
many.body:
  %at = call i64 @llvm.smin.i64(i64 %j, i64 %n.last)
  %p = getelementptr i16, ptr %row.p, i64 %at
  %x = load <32 x i16>, ptr %p, align 1
  %x.sign = ashr <32 x i16> %x, FIFTEEN
  %x.rest = and <32 x i16> %x.sign, REST
  %x.turned = xor <32 x i16> %x, %x.rest
  %x.size = and <32 x i16> %x, REST
  %best.next = call <32 x i16> @llvm.EXTREME.v32i16(<32 x i16> %best, <32 x i16> %x.turned)
  %size.next = call <32 x i16> @llvm.umax.v32i16(<32 x i16> %size, <32 x i16> %x.size)
  br label %many
many.end:
  %few.begins = phi i64 [ 0, %start ], [ %j, %many ]
  %best.many = phi <32 x i16> [ WORST, %start ], [ %best, %many ]
  %size.many = phi <32 x i16> [ zeroinitializer, %start ], [ %size, %many ]
  %best.one = call i16 @llvm.vector.reduce.EXTREME.v32i16(<32 x i16> %best.many)
  %size.one = call i16 @llvm.vector.reduce.umax.v32i16(<32 x i16> %size.many)
  br label %few
few:
  %k = phi i64 [ %few.begins, %many.end ], [ %k.next, %few.body ]
  %b = phi i16 [ %best.one, %many.end ], [ %b.next, %few.body ]
  %s = phi i16 [ %size.one, %many.end ], [ %s.next, %few.body ]
  %k.goes = icmp slt i64 %k, %n
  br i1 %k.goes, label %few.body, label %row.end
few.body:
  %q = getelementptr i16, ptr %row.p, i64 %k
  %y = load i16, ptr %q, align 1
  %y.sign = ashr i16 %y, 15
  %y.rest = and i16 %y.sign, 32767
  %y.turned = xor i16 %y, %y.rest
  %y.size = and i16 %y, 32767
  %b.next = call i16 @llvm.EXTREME.i16(i16 %b, i16 %y.turned)
  %s.next = call i16 @llvm.umax.i16(i16 %s, i16 %y.size)
  %k.next = add i64 %k, 1
  br label %few
row.end:
  %b.sign = ashr i16 %b, 15
  %b.rest = and i16 %b.sign, 32767
  %b.code = xor i16 %b, %b.rest
  %best.p = getelementptr i16, ptr %best.all, i64 %i
  store i16 %b.code, ptr %best.p
  %size.p = getelementptr i16, ptr %size.all, i64 %i
  store i16 %s, ptr %size.p
  %i.next = add i64 %i, 1
  br label %row
}
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
declare i64 @llvm.smin.i64(i64, i64)
declare i16 @llvm.EXTREME.i16(i16, i16)
declare i16 @llvm.umax.i16(i16, i16)
declare <32 x i16> @llvm.EXTREME.v32i16(<32 x i16>, <32 x i16>)
declare <32 x i16> @llvm.umax.v32i16(<32 x i16>, <32 x i16>)
declare i16 @llvm.vector.reduce.EXTREME.v32i16(<32 x i16>)
declare i16 @llvm.vector.reduce.umax.v32i16(<32 x i16>)
"""


@functools.cache
def extremes(is_largest: bool) -> Callable[..., int] | None:
    """What takes the address of codes, the bytes from row to row, rows and columns, and the addresses of the winners
    and of the largest sizes, which it writes. None where LLVM does not take the text."""

    def splat(number: int) -> str:
        return f"<{', '.join([f'i16 {number}'] * 32)}>"

    text = _TEXT.replace("EXTREME", "smax" if is_largest else "smin").replace("FIFTEEN", splat(15))
    text = text.replace("REST", splat(0x7FFF)).replace("WORST", splat(-0x8000 if is_largest else 0x7FFF))
    try:
        return code.compiled(text, 6)
    except (ImportError, RuntimeError):
        return None
