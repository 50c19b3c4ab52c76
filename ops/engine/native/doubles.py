"""Functions of f32 as text for LLVM: eight numbers at a time in f64, by the instructions of AVX-512.

A function has two forms, a quick one for numbers up to a size, and one for any. Results that are near halfway between
two f32 are in doubt, as are those for which a formula does not hold: the whole block is done again by another function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LANES, ENTRIES = 8, 16
WORDS, LONGS = f"<{LANES} x i32>", f"<{LANES} x i64>"
FLOATS, DOUBLES, BITS = f"<{LANES} x float>", f"<{LANES} x double>", f"<{LANES} x i1>"
SIGN, INFINITE = 1 << 31, 0x7F800000
_REST, _NORMAL, _QUIET = 0x7FFFFFFF, 0x00800000, 1 << 22
#: The bits of f64 beyond those of f32, where they begin as halfway does, and how much the error can change them: an
#: error below 2**-45 by 2**7 at most.
_HALF, _DOUBT = 1 << 28, 1 << 8

_TEXT = """define i32 @run(i64 %source, i64 %target, i64 %n) #0 {
entry:
  %from = inttoptr i64 %source to ptr
  %to = inttoptr i64 %target to ptr
  br label %many
many:
  %j = phi i64 [ 0, %entry ], [ %j.next, %many.put ]
  %doubts = phi BITS [ zeroinitializer, %entry ], [ %doubts.next, %many.put ]
  %j.next = add i64 %j, LANES
  %j.goes = icmp sle i64 %j.next, %n
  br i1 %j.goes, label %many.body, label %many.end
many.body:
  %p = getelementptr i32, ptr %from, i64 %j
  %x.many = load WORDS, ptr %p, align 1
  %sizes = and WORDS %x.many, REST
  %beyond = icmp ugt WORDS %sizes, LIMIT
  %beyond.any = call i1 @llvm.vector.reduce.or.vLANESi1(BITS %beyond)
  br i1 %beyond.any, label %many.any, label %many.inside, !prof !0
many.inside:
  %inside.made = call { WORDS, BITS } @inside(WORDS %x.many)
  br label %many.put
many.any:
  %any.made = call { WORDS, BITS } @any(WORDS %x.many)
  br label %many.put
many.put:
  %many.made = phi { WORDS, BITS } [ %inside.made, %many.inside ], [ %any.made, %many.any ]
  %y.many = extractvalue { WORDS, BITS } %many.made, 0
  %doubt.many = extractvalue { WORDS, BITS } %many.made, 1
  %q = getelementptr i32, ptr %to, i64 %j
  store WORDS %y.many, ptr %q, align 1
  %doubts.next = or BITS %doubts, %doubt.many
  br label %many
many.end:
  %doubts.one = call i1 @llvm.vector.reduce.or.vLANESi1(BITS %doubts)
  br label %few
few:
  %k = phi i64 [ %j, %many.end ], [ %k.next, %few.body ]
  %d = phi i1 [ %doubts.one, %many.end ], [ %d.next, %few.body ]
  %k.goes = icmp slt i64 %k, %n
  br i1 %k.goes, label %few.body, label %end
few.body:
  %s = getelementptr i32, ptr %from, i64 %k
  %x.word = load i32, ptr %s, align 1
  %x.first = insertelement WORDS poison, i32 %x.word, i64 0
  %x.few = shufflevector WORDS %x.first, WORDS poison, WORDS zeroinitializer
  %few.made = call { WORDS, BITS } @any(WORDS %x.few)
  %y.few = extractvalue { WORDS, BITS } %few.made, 0
  %y.word = extractelement WORDS %y.few, i64 0
  %t = getelementptr i32, ptr %to, i64 %k
  store i32 %y.word, ptr %t, align 1
  %doubt.few = extractvalue { WORDS, BITS } %few.made, 1
  %doubt.bit = extractelement BITS %doubt.few, i64 0
  %d.next = or i1 %d, %doubt.bit
  %k.next = add i64 %k, 1
  br label %few
end:
  br i1 %d, label %again, label %sure
sure:
  ret i32 0
again:
  %otherwise = inttoptr i64 OTHERWISE to ptr
  %stops = call i32 %otherwise(i64 %source, i64 %target, i64 %n)
  ret i32 %stops
}
define internal { WORDS, BITS } @inside(WORDS %x) alwaysinline #0 {
INSIDE}
define internal { WORDS, BITS } @any(WORDS %x) noinline #0 {
ANY}
!0 = !{!"branch_weights", i32 1, i32 1000}
declare i1 @llvm.vector.reduce.or.vLANESi1(BITS)
declare DOUBLES @llvm.fma.vLANESf64(DOUBLES, DOUBLES, DOUBLES)
declare DOUBLES @llvm.x86.avx512.vpermi2var.pd.512(DOUBLES, LONGS, DOUBLES)
declare DOUBLES @llvm.x86.avx512.rcp14.pd.512(DOUBLES, DOUBLES, i8)
attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }
"""


class Lines:
    """The lines of a function of eight f32, as words: its result, and words that are not 0 where that is in doubt."""

    def __init__(self, is_inside: bool) -> None:
        self._is_inside = is_inside
        self.lines: list[str] = []
        self.word = "%x"
        self.x = self.let(f"bitcast {WORDS} %x to {FLOATS}")

    def let(self, expression: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {expression}\n")
        return name

    def wide(self, x: str) -> str:
        return self.let(f"fpext {FLOATS} {x} to {DOUBLES}")

    def narrow(self, v: str) -> str:
        return self.let(f"fptrunc {DOUBLES} {v} to {FLOATS}")

    def on_floats(self, name: str, x: str, y: str) -> str:
        return self.let(f"{name} {FLOATS} {x}, {y}")

    def on_longs(self, name: str, x: str, y: str) -> str:
        return self.let(f"{name} {LONGS} {x}, {y}")

    def on_words(self, name: str, x: str, y: str) -> str:
        return self.let(f"{name} {WORDS} {x}, {y}")

    def add(self, v: str, w: str | float) -> str:
        return self.let(f"fadd {DOUBLES} {v}, {number(w)}")

    def subtract(self, v: str, w: str | float) -> str:
        return self.let(f"fsub {DOUBLES} {v}, {number(w)}")

    def multiply(self, v: str, w: str | float) -> str:
        return self.let(f"fmul {DOUBLES} {v}, {number(w)}")

    def fused(self, a: str, b: str | float, c: str | float) -> str:
        """a * b + c, rounded once."""
        operands = ", ".join(f"{DOUBLES} {number(v)}" for v in (a, b, c))
        return self.let(f"call {DOUBLES} @llvm.fma.v{LANES}f64({operands})")

    def polynomial(self, r: str, coefficients: tuple[float, ...]) -> str:
        p = self.fused(r, *coefficients[:2])
        for c in coefficients[2:]:
            p = self.fused(p, r, c)
        return p

    def entry(self, table: np.ndarray, index: str) -> str:
        """The entry of a table of 16, by the last four bits of an index."""
        low, high = (f"{DOUBLES} {_doubles(*half)}" for half in table.reshape(2, LANES))
        return self.let(f"call {DOUBLES} @llvm.x86.avx512.vpermi2var.pd.512({low}, {LONGS} {index}, {high})")

    def bits(self, v: str) -> str:
        return self.let(f"bitcast {DOUBLES} {v} to {LONGS}")

    def number(self, v: str) -> str:
        return self.let(f"bitcast {LONGS} {v} to {DOUBLES}")

    def negative(self, v: str) -> str:
        return self.let(f"fneg {DOUBLES} {v}")

    def bounded(self, largest: float) -> str:
        """The numbers, those beyond a largest one of either sign put there; NaN stays NaN."""
        if self._is_inside:
            return self.x
        low, high = splat("float", double(-largest)), splat("float", double(largest))
        x = self.choose(self.let(f"fcmp olt {FLOATS} {self.x}, {low}"), FLOATS, low, self.x)
        return self.choose(self.let(f"fcmp ogt {FLOATS} {x}, {high}"), FLOATS, high, x)

    def choose(self, where: str, kind: str, x: str, y: str) -> str:
        return self.let(f"select {BITS} {where}, {kind} {x}, {kind} {y}")

    def rounded(self, y: str) -> tuple[str, str]:
        """The words next to a result, and where the error could decide: near halfway between two numbers."""
        moved = self.on_longs("add", self.bits(y), splat("i64", _HALF + _DOUBT))
        rest = self.on_longs("and", moved, splat("i64", 2 * (_HALF - _DOUBT)))
        doubt = self.let(f"icmp eq {LONGS} {rest}, zeroinitializer")
        return self.let(f"bitcast {FLOATS} {self.narrow(y)} to {WORDS}"), doubt

    def rounded_power(self, y: str) -> tuple[str, str]:
        """The same of what may be subnormal, which is in doubt."""
        word, doubt = self.rounded(y)
        if self._is_inside:
            return word, doubt
        less_1 = self.on_words("sub", word, splat("i32", 1))
        return word, self.either(doubt, self.let(f"icmp ult {WORDS} {less_1}, {splat('i32', _NORMAL - 1)}"))

    def signed(self, word: str) -> str:
        """With the sign of what the function is of."""
        sign = self.on_words("and", self.word, splat("i32", SIGN))
        return self.on_words("or", self.on_words("and", word, splat("i32", _REST)), sign)

    def either(self, where: str, other: str) -> str:
        return self.let(f"or {BITS} {where}, {other}")

    def returned(self, word: str, doubt: str) -> str:
        kind = f"{{ {WORDS}, {BITS} }}"
        both = self.let(f"insertvalue {kind} poison, {WORDS} {word}, 0")
        both = self.let(f"insertvalue {kind} {both}, {BITS} {doubt}, 1")
        return "".join([*self.lines, f"  ret {kind} {both}\n"])

    def returned_unless_nan(self, word: str, doubt: str) -> str:
        """The same, and all NaN are in doubt."""
        return self.returned(word, doubt if self._is_inside else self.either(doubt, self._is_nan()))

    def _is_nan(self) -> str:
        return self.let(f"fcmp uno {FLOATS} {self.x}, {self.x}")

    def returned_but_nan(self, word: str, doubt: str) -> str:
        """The same, and of NaN that NaN, which does not signal."""
        if self._is_inside:
            return self.returned(word, doubt)
        nan, quiet = self._is_nan(), self.on_words("or", self.word, splat("i32", _QUIET))
        doubt = self.let(f"select {BITS} {nan}, {BITS} zeroinitializer, {BITS} {doubt}")
        return self.returned(self.choose(nan, WORDS, quiet, word), doubt)


def double(v: float) -> str:
    return f"0x{np.float64(v).view(np.uint64):016X}"


def splat(kind: str, v: object) -> str:
    return f"<{', '.join([f'{kind} {v}'] * LANES)}>"


def _doubles(*values: float) -> str:
    return f"<{', '.join(f'double {double(v)}' for v in values)}>"


def number(v: str | float) -> str:
    return v if isinstance(v, str) else _doubles(*[v] * LANES)


def text(body: Callable[[Lines], str], largest: float, otherwise: int) -> str:
    """The function `run`: it takes the addresses of words and of results, and how many there are, and gives 0.

    body: makes the lines of the function.
    largest: the size up to which numbers need no care; NaN if that does not depend on the size.
    otherwise: the address of a function that takes the same, and does blocks with numbers that are in doubt.
    """
    parts = {
        "INSIDE": body(Lines(True)),
        "ANY": body(Lines(False)),
        "OTHERWISE": str(otherwise),
        "LIMIT": splat("i32", int(np.float32(largest).view(np.uint32)) if largest == largest else _REST),
        "REST": splat("i32", _REST),
        "LANES": str(LANES),
        "WORDS": WORDS,
        "DOUBLES": DOUBLES,
        "LONGS": LONGS,
        "BITS": BITS,
    }
    made = _TEXT
    for name, part in parts.items():
        made = made.replace(name, part)
    return made
