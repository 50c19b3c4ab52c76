"""What each op of the machine is in LLVM's text, on so many words at a time: the same as in `loops` and `integers`.

Values are vectors of words of 32 bits, as the machine's registers hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import opcodes as op
from ..instructions import HAS_HALVES

_REST, _INFINITE = 0x7FFFFFFF, 0x7F800000

#: Bytes of an element in memory, of each op that loads or stores.
SIZES = {
    op.LOAD_32: 4,
    op.LOAD_16: 2,
    op.LOAD_8: 1,
    op.LOAD_BOOL: 1,
    op.STORE_32: 4,
    op.STORE_16: 2,
    op.STORE_8: 1,
    op.STORE_BOOL: 1,
    **(dict.fromkeys((op.LOAD_F16, op.STORE_F16), 2) if HAS_HALVES else {}),
}


class Lines:
    """The lines of a loop's body, which does `lanes` elements; names of values begin with `mark`."""

    def __init__(self, lanes: int, mark: str, declared: set[str]) -> None:
        self.lanes, self._mark, self._declared = lanes, mark, declared
        self.lines: list[str] = []
        self.words, self.floats = f"<{lanes} x i32>", f"<{lanes} x float>"

    def let(self, expression: str) -> str:
        name = f"%{self._mark}v{len(self.lines)}"
        self.lines.append(f"  {name} = {expression}\n")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}\n")

    def of(self, bits: int) -> str:
        return f"<{self.lanes} x i{bits}>"

    def splat(self, word: int) -> str:
        """A word in all lanes, as an operand."""
        return f"<{', '.join([f'i32 {word % (1 << 32)}'] * self.lanes)}>"

    def repeated(self, scalar: str) -> str:
        """A scalar in all lanes."""
        one = self.let(f"insertelement {self.words} poison, i32 {scalar}, i64 0")
        if self.lanes == 1:
            return one
        return self.let(f"shufflevector {self.words} {one}, {self.words} poison, {self.words} zeroinitializer")

    def number(self, x: str) -> str:
        return self.let(f"bitcast {self.words} {x} to {self.floats}")

    def bits(self, x: str) -> str:
        return self.let(f"bitcast {self.floats} {x} to {self.words}")

    def word(self, name: str, x: str, y: str | int) -> str:
        return self.let(f"{name} {self.words} {x}, {y if isinstance(y, str) else self.splat(y)}")

    def float(self, name: str, x: str, y: str) -> str:
        return self.let(f"{name} {self.floats} {x}, {y}")

    def compare(self, how: str, x: str, y: str | int) -> str:
        """Of words; truth values are bits."""
        return self.let(f"icmp {how} {self.words} {x}, {y if isinstance(y, str) else self.splat(y)}")

    def compare_floats(self, how: str, x: str, y: str) -> str:
        return self.let(f"fcmp {how} {self.floats} {x}, {y}")

    def choose(self, where: str, x: str | int, y: str | int) -> str:
        x, y = (v if isinstance(v, str) else self.splat(v) for v in (x, y))
        return self.let(f"select {self.of(1)} {where}, {self.words} {x}, {self.words} {y}")

    def truth(self, where: str) -> str:
        return self.let(f"sext {self.of(1)} {where} to {self.words}")

    def call(self, name: str, gives: str, suffix: str, *operands: str, of: str = "") -> str:
        """An intrinsic on vectors of a type, that of its result if no other is said."""
        function, of = f"@llvm.{name}.v{self.lanes}{suffix}", of or gives
        self._declared.add(f"declare {gives} {function}({', '.join([of] * len(operands))})\n")
        return self.let(f"call {gives} {function}({', '.join(f'{of} {v}' for v in operands)})")


Made = Callable[[Lines, Sequence[str], Sequence[int]], str]


def load(to: Lines, kind: int, place: str, signals: bool) -> str:
    """Elements from a place as words; of f16 NaN that signal go on doing so, if `signals`."""
    bits = 8 * SIZES[kind]
    value = to.let(f"load {to.of(bits)}, ptr {place}, align 1")
    value = value if bits == 32 else to.let(f"zext {to.of(bits)} {value} to {to.words}")
    if kind == op.LOAD_16:
        return to.word("shl", value, 16)
    if kind == op.LOAD_BOOL:
        return to.word("mul", value, -1)
    return _of_f16(to, value, signals) if kind == op.LOAD_F16 else value


def store(to: Lines, kind: int, place: str, value: str) -> None:
    bits = 8 * SIZES[kind]
    if kind == op.STORE_16:
        value = to.word("lshr", value, 16)
    if kind == op.STORE_BOOL:
        value = to.word("and", value, 1)
    value = value if bits == 32 else to.let(f"trunc {to.words} {value} to {to.of(bits)}")
    to.do(f"store {to.of(bits)} {value}, ptr {place}, align 1")


def _arithmetic(name: str) -> Made:
    return lambda to, v, _: to.bits(to.float(name, to.number(v[0]), to.number(v[1])))


def _extreme(is_largest: bool) -> Made:
    """`larger` and `smaller` of `instructions`."""

    def made(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
        x, y = map(to.number, v)
        best = to.choose(to.compare_floats("ogt" if is_largest else "olt", x, y), *v)
        best = to.choose(to.compare_floats("oeq", x, y), to.word("and" if is_largest else "or", *v), best)
        return to.choose(to.compare_floats("uno", x, x), v[0], best)

    return made


def _rounded(name: str) -> Made:
    return lambda to, v, _: to.bits(to.call(name, to.floats, "f32", to.number(v[0])))


def _sign(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
    one = to.word("or", to.word("and", v[0], 1 << 31), 0x3F800000)
    return to.choose(to.compare_floats("one", to.number(v[0]), "zeroinitializer"), one, v[0])


def _compared(how: str) -> Made:
    return lambda to, v, _: to.truth(to.compare_floats(how, to.number(v[0]), to.number(v[1])))


def _words_compared(how: str) -> Made:
    return lambda to, v, _: to.truth(to.compare(how, v[0], v[1]))


def _words(name: str) -> Made:
    return lambda to, v, _: to.word(name, v[0], v[1])


def _select(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
    return to.word("xor", to.word("and", to.word("xor", v[1], v[2]), v[0]), v[2])


def _to_bf16(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
    even = to.word("and", to.word("lshr", v[0], 16), 1)
    rounded = to.word("and", to.word("add", v[0], to.word("add", even, 0x7FFF)), 0xFFFF0000)
    nan = to.word("or", to.word("and", v[0], 1 << 31), 0x7FC00000)
    x = to.number(v[0])
    return to.choose(to.compare_floats("uno", x, x), nan, rounded)


def _of_f16(to: Lines, code: str, signals: bool) -> str:
    half = to.let(f"trunc {to.words} {code} to {to.of(16)}")
    number = to.let(f"bitcast {to.of(16)} {half} to <{to.lanes} x half>")
    x = to.let(f"fpext <{to.lanes} x half> {number} to {to.floats}")
    if not signals:
        return to.bits(x)
    # Of the bit that differs put into x, LLVM 20 makes a wrong instruction (a masked vpternlog) for AVX-512.
    nan = to.word("shl", to.word("and", code, 0x3FF), 13)
    sign = to.word("shl", to.word("and", code, 0x8000), 16)
    nan = to.word("or", to.word("or", nan, sign), _INFINITE)
    return to.choose(to.compare_floats("uno", x, x), nan, to.bits(x))


def _half(to: Lines, word: str) -> str:
    return to.let(f"fptrunc {to.floats} {to.number(word)} to <{to.lanes} x half>")


def _to_f16(to: Lines, v: Sequence[str], how: Sequence[int]) -> str:
    code = to.let(f"bitcast <{to.lanes} x half> {_half(to, v[0])} to {to.of(16)}")
    code = to.let(f"zext {to.of(16)} {code} to {to.words}")
    if not how[0]:
        return code
    rest = to.word("and", to.word("lshr", v[0], 13), 0x3FF)
    nan = to.word("or", to.choose(to.compare("eq", rest, 0), 1, rest), 0x7C00)
    nan = to.word("or", nan, to.word("and", to.word("lshr", v[0], 16), 0x8000))
    x = to.number(v[0])
    return to.choose(to.compare_floats("uno", x, x), nan, code)


def _round_f16(to: Lines, v: Sequence[str], how: Sequence[int]) -> str:
    number = to.bits(to.let(f"fpext <{to.lanes} x half> {_half(to, v[0])} to {to.floats}"))
    if not how[0]:
        return number
    nan = to.word("and", to.word("and", v[0], _REST), 0xFFFFE000)
    nan = to.choose(to.compare("eq", nan, _INFINITE), 0x7F802000, nan)
    nan = to.word("or", nan, to.word("and", v[0], 1 << 31))
    x = to.number(v[0])
    return to.choose(to.compare_floats("uno", x, x), nan, number)


def _encode(to: Lines, v: Sequence[str], how: Sequence[int]) -> str:
    """See `loops.encode`."""
    cut, add, low, magic, last, over, nan, unsigned, sign_shift, sign_bit = how
    size = to.word("and", v[0], _REST)
    sign = to.word("and", to.word("lshr", v[0], sign_shift), sign_bit)
    even = to.word("and", to.word("lshr", size, cut), 1)
    normal = to.word("lshr", to.word("add", to.word("add", size, add), even), cut)
    start = to.let(f"bitcast {to.words} {to.splat(magic)} to {to.floats}")
    subnormal = to.word("sub", to.bits(to.float("fadd", to.number(size), start)), magic)
    code = to.choose(to.compare("uge", size, low), normal, subnormal)
    code = to.choose(to.compare("ugt", code, last), over, code)
    sign = to.choose(to.compare("eq", code, unsigned), 0, sign)
    code = to.choose(to.compare("ugt", size, _INFINITE), nan, code)
    return to.word("or", code, sign)


def _shifted(name: str) -> Made:
    def made(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
        inside = to.compare("ult", v[1], 32)
        if name == "ashr":
            return to.word("ashr", v[0], to.choose(inside, v[1], 31))
        return to.choose(inside, to.word(name, v[0], to.word("and", v[1], 31)), 0)

    return made


def _rotated(to: Lines, v: Sequence[str], how: Sequence[int]) -> str:
    return to.call("fshl", to.words, "i32", v[0], v[0], to.splat(how[0]))


def _extreme_word(name: str) -> Made:
    return lambda to, v, _: to.call(name, to.words, "i32", v[0], v[1])


def _of_words(name: str) -> Made:
    return lambda to, v, _: to.bits(to.let(f"{name} {to.words} {v[0]} to {to.floats}"))


def _to_words(name: str) -> Made:
    """Truncated, as near as the type allows, and 0 of NaN."""
    return lambda to, v, _: to.call(f"{name}.sat.v{to.lanes}i32", to.words, "f32", to.number(v[0]), of=to.floats)


def _sign_byte(to: Lines, v: Sequence[str], _: Sequence[int]) -> str:
    return to.word("ashr", to.word("shl", v[0], 24), 24)


#: Of each op but loads and stores: its result, of its operands and what it has beside them: the numbers of an encoding,
#: the amount of a rotation, and of conversions to f16 whether a NaN may signal.
MADE: dict[int, Made] = {
    op.ADD: _arithmetic("fadd"),
    op.SUBTRACT: _arithmetic("fsub"),
    op.MULTIPLY: _arithmetic("fmul"),
    op.DIVIDE: _arithmetic("fdiv"),
    op.MAXIMUM: _extreme(True),
    op.MINIMUM: _extreme(False),
    op.NEGATE: lambda to, v, _: to.word("xor", v[0], 1 << 31),
    op.ABS: lambda to, v, _: to.word("and", v[0], _REST),
    op.SQRT: _rounded("sqrt"),
    op.FLOOR: _rounded("floor"),
    op.CEIL: _rounded("ceil"),
    op.ROUND: _rounded("rint"),
    op.SIGN: _sign,
    op.EQ: _compared("oeq"),
    op.NE: _compared("une"),
    op.LT: _compared("olt"),
    op.LE: _compared("ole"),
    op.SELECT: _select,
    op.AND: _words("and"),
    op.OR: _words("or"),
    op.XOR: _words("xor"),
    op.NOT: lambda to, v, _: to.word("xor", v[0], -1),
    op.TRUTH: lambda to, v, _: to.truth(to.compare("ne", v[0], 0)),
    op.TO_BF16: _to_bf16,
    **({op.ROUND_F16: _round_f16, op.TO_F16: _to_f16} if HAS_HALVES else {}),
    op.ENCODE: _encode,
    op.ADD_WORDS: _words("add"),
    op.SUBTRACT_WORDS: _words("sub"),
    op.MULTIPLY_WORDS: _words("mul"),
    op.SHIFT_LEFT: _shifted("shl"),
    op.SHIFT_LOGICAL: _shifted("lshr"),
    op.SHIFT_ARITHMETIC: _shifted("ashr"),
    op.ROTATE: _rotated,
    op.MAXIMUM_SIGNED: _extreme_word("smax"),
    op.MAXIMUM_UNSIGNED: _extreme_word("umax"),
    op.MINIMUM_SIGNED: _extreme_word("smin"),
    op.MINIMUM_UNSIGNED: _extreme_word("umin"),
    op.EQ_WORDS: _words_compared("eq"),
    op.LT_SIGNED: _words_compared("slt"),
    op.LT_UNSIGNED: _words_compared("ult"),
    op.OF_SIGNED: _of_words("sitofp"),
    op.OF_UNSIGNED: _of_words("uitofp"),
    op.TO_SIGNED: _to_words("fptosi"),
    op.TO_UNSIGNED: _to_words("fptoui"),
    op.SIGN_BYTE: _sign_byte,
}
