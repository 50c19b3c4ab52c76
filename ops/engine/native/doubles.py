"""Functions of f32 as text for LLVM: eight numbers at a time in f64, by the instructions of AVX-512.

A function has two forms, a quick one for numbers up to a size, and one for any. Results that are near halfway between
two f32 are in doubt, as are those for which a formula does not hold: the whole block is done again by another function.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .vectors import Lanes
from .writer import Writer

LANES, ENTRIES = 8, 16
SIGN, INFINITE = 1 << 31, 0x7F800000
_REST, _NORMAL, _QUIET = 0x7FFFFFFF, 0x00800000, 1 << 22
#: The bits of f64 beyond those of f32, where they begin as halfway does, and how much the error can change them: an
#: error below 2**-45 by 2**7 at most.
_HALF, _DOUBT = 1 << 28, 1 << 8
#: Eight words, and what a form gives: words, and truth values that are set where they are in doubt.
_WORDS = f"<{LANES} x i32>"
_MADE = f"{{ {_WORDS}, <{LANES} x i1> }}"


class Form(Lanes):
    """One form of a function, a function of its own: `inside` for numbers up to the size, or `any`.

    Operands of `add` and the like are f64, or numbers that all eight are.
    """

    def __init__(self, is_inside: bool) -> None:
        name, attribute = ("inside", "alwaysinline ") if is_inside else ("any", "noinline ")
        super().__init__(Writer(f"{_WORDS} word", name=name, gives=_MADE, attribute=attribute), LANES)
        self._is_inside = is_inside
        self.word = "%word"
        self.x = self.floats.bits(self.words, self.word)

    def wide(self, x: str) -> str:
        return self.doubles.convert("fpext", self.floats, x)

    def add(self, v: str, w: str | float) -> str:
        return self.doubles.op("fadd", v, w)

    def subtract(self, v: str, w: str | float) -> str:
        return self.doubles.op("fsub", v, w)

    def multiply(self, v: str, w: str | float) -> str:
        return self.doubles.op("fmul", v, w)

    def fused(self, a: str, b: str | float, c: str | float) -> str:
        """a * b + c, rounded once."""
        return self.doubles.call("fma", a, b, c)

    def polynomial(self, r: str, coefficients: tuple[float, ...]) -> str:
        p = self.fused(r, *coefficients[:2])
        for c in coefficients[2:]:
            p = self.fused(p, r, c)
        return p

    def reciprocal(self, v: str) -> str:
        """1 / v, with an error below 2**-14 of it."""
        kind = self.doubles.kind
        return self.to.call(kind, "x86.avx512.rcp14.pd.512", f"{kind} {v}", f"{kind} zeroinitializer", "i8 -1")

    def entry(self, table: np.ndarray, index: str) -> str:
        """The entry of a table of 16, by the last four bits of an index."""
        kind = self.doubles.kind
        low, high = (f"{kind} {self.doubles.constant(*half)}" for half in table.reshape(2, LANES))
        return self.to.call(kind, "x86.avx512.vpermi2var.pd.512", low, f"{self.longs.kind} {index}", high)

    def bits(self, v: str) -> str:
        return self.longs.bits(self.doubles, v)

    def number(self, v: str) -> str:
        return self.doubles.bits(self.longs, v)

    def bounded(self, largest: float) -> str:
        """The numbers, those beyond a largest one of either sign put there; NaN stays NaN."""
        if self._is_inside:
            return self.x
        x = self.floats.choose(self.floats.compare("olt", self.x, -largest), -largest, self.x)
        return self.floats.choose(self.floats.compare("ogt", x, largest), largest, x)

    def either(self, where: str, other: str) -> str:
        return self.truths.op("or", where, other)

    def rounded(self, y: str) -> tuple[str, str]:
        """The words next to a result, and where the error could decide: near halfway between two numbers."""
        moved = self.longs.op("add", self.bits(y), _HALF + _DOUBT)
        rest = self.longs.op("and", moved, 2 * (_HALF - _DOUBT))
        doubt = self.longs.compare("eq", rest, 0)
        return self.words.bits(self.floats, self.floats.convert("fptrunc", self.doubles, y)), doubt

    def rounded_power(self, y: str) -> tuple[str, str]:
        """The same of what may be subnormal, which is in doubt."""
        word, doubt = self.rounded(y)
        if self._is_inside:
            return word, doubt
        less_1 = self.words.op("sub", word, 1)
        return word, self.either(doubt, self.words.compare("ult", less_1, _NORMAL - 1))

    def signed(self, word: str) -> str:
        """With the sign of what the function is of."""
        sign = self.words.op("and", self.word, SIGN)
        return self.words.op("or", self.words.op("and", word, _REST), sign)

    def end(self, word: str, doubt: str) -> Writer:
        """The whole form, which gives words and where they are in doubt."""
        both = self.to.value(f"insertvalue {_MADE} poison, {self.words.kind} {word}, 0")
        both = self.to.value(f"insertvalue {_MADE} {both}, {self.truths.kind} {doubt}, 1")
        self.to.end(f"{_MADE} {both}")
        return self.to

    def end_unless_nan(self, word: str, doubt: str) -> Writer:
        """The same, and all NaN are in doubt."""
        return self.end(word, doubt if self._is_inside else self.either(doubt, self._is_nan()))

    def _is_nan(self) -> str:
        return self.floats.compare("uno", self.x, self.x)

    def end_but_nan(self, word: str, doubt: str) -> Writer:
        """The same, and of NaN that NaN, which does not signal."""
        if self._is_inside:
            return self.end(word, doubt)
        nan, quiet = self._is_nan(), self.words.op("or", self.word, _QUIET)
        return self.end(self.words.choose(nan, quiet, word), self.truths.choose(nan, 0, doubt))


def text(body: Callable[[Form], Writer], largest: float, otherwise: int) -> str:
    """The function `run`: it takes the addresses of words and of results, and how many there are, and gives 0.

    body: writes a form of the function.
    largest: the size up to which numbers need no care; NaN if that does not depend on the size.
    otherwise: the address of a function that takes the same, and does blocks with numbers that are in doubt.
    """
    to = Writer("ptr source", "ptr target", "i64 n", gives="i32")
    lanes = Lanes(to, LANES)
    words, truths = lanes.words, lanes.truths
    limit = int(np.float32(largest).view(np.uint32)) if largest == largest else _REST
    doubts, made = to.room(truths.kind), to.room(_MADE)
    truths.store(0, doubts)

    def done(form: str, x: str) -> None:
        to.store(f"{_MADE} {to.value(f'call {_MADE} @{form}({words.kind} {x})')}", made)

    def keep_doubts() -> str:
        """The words that were made; what is in doubt is noted."""
        both = to.load(_MADE, made)
        doubt = to.value(f"extractvalue {_MADE} {both}, 1")
        truths.store(truths.op("or", truths.load(doubts), doubt), doubts)
        return to.value(f"extractvalue {_MADE} {both}, 0")

    with to.loop("many", "0", to.subtract("%n", LANES - 1), LANES) as j:
        x = words.load(to.at("%source", j, "i32"), align=1)
        is_beyond = truths.reduce("or", words.compare("ugt", words.op("and", x, _REST), limit))
        to.branch(is_beyond, "beyond", "within", is_rare=True)
        to.block("within")
        done("inside", x)
        to.go("written")
        to.block("beyond")
        done("any", x)
        to.go("written")
        to.block("written")
        words.store(keep_doubts(), to.at("%target", j, "i32"), align=1)
    with to.loop("few", j, "%n") as k:
        done("any", words.repeated(to.load("i32", to.at("%source", k, "i32"), align=1)))
        word = to.value(f"extractelement {words.kind} {keep_doubts()}, i64 0")
        to.store(f"i32 {word}", to.at("%target", k, "i32"), align=1)
    to.branch(truths.reduce("or", truths.load(doubts)), "again", "sure")
    to.block("sure")
    to.end("i32 0")
    to.block("again")
    function = to.value(f"inttoptr i64 {otherwise} to ptr")
    to.end("i32 " + to.value(f"call i32 {function}(ptr %source, ptr %target, i64 %n)"))
    return to.text(body(Form(True)), body(Form(False)))
