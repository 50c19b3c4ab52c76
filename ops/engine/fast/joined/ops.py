"""What each op of the machine is in LLVM's text, on so many words at a time: the same as in `loops` and `integers`.

Values are vectors of words of 32 bits, as the machine's registers hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...native.code import has_halves
from ...native.vectors import Lanes, Vectors
from .. import opcodes as op

#: Whether the processor converts f16; without numba, which takes longer to load than all of this.
HAS_HALVES = has_halves()
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


#: The line that gives an op's result, of its operands and of what it has beside them.
Made = Callable[[Lanes, Sequence[str], Sequence[int]], str]


def memory(to: Lanes, kind: int) -> Vectors:
    """The elements that an op loads or stores, as they lie in memory."""
    return to.integers(8 * SIZES[kind])


def load(to: Lanes, kind: int, place: str, signals: bool) -> str:
    """Elements from a place as words; of f16 NaN that signal go on doing so, if `signals`."""
    return loaded(to, kind, memory(to, kind).load(place, align=1), signals)


def loaded(to: Lanes, kind: int, value: str, signals: bool) -> str:
    """Words of elements as they lie in memory."""
    value = value if SIZES[kind] == 4 else to.words.convert("zext", memory(to, kind), value)
    if kind == op.LOAD_16:
        return to.words.op("shl", value, 16)
    if kind == op.LOAD_BOOL:
        return to.words.op("mul", value, -1)
    return _of_f16(to, value, signals) if kind == op.LOAD_F16 else value


def store(to: Lanes, kind: int, place: str, value: str) -> None:
    memory(to, kind).store(stored(to, kind, value), place, align=1)


def stored(to: Lanes, kind: int, value: str) -> str:
    """Elements of words as they lie in memory."""
    if kind == op.STORE_16:
        value = to.words.op("lshr", value, 16)
    if kind == op.STORE_BOOL:
        value = to.words.op("and", value, 1)
    return value if SIZES[kind] == 4 else memory(to, kind).convert("trunc", to.words, value)


def _number(to: Lanes, word: str | int) -> str:
    return to.floats.bits(to.words, word)


def _word(to: Lanes, number: str) -> str:
    return to.words.bits(to.floats, number)


def _truth(to: Lanes, where: str) -> str:
    """Words with all bits set or none."""
    return to.words.convert("sext", to.truths, where)


def _arithmetic(name: str) -> Made:
    return lambda to, v, _: _word(to, to.floats.op(name, _number(to, v[0]), _number(to, v[1])))


def _extreme(is_largest: bool) -> Made:
    """`larger` and `smaller` of `instructions`."""

    def made(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
        x, y = _number(to, v[0]), _number(to, v[1])
        best = to.words.choose(to.floats.compare("ogt" if is_largest else "olt", x, y), *v)
        best = to.words.choose(to.floats.compare("oeq", x, y), to.words.op("and" if is_largest else "or", *v), best)
        return to.words.choose(to.floats.compare("uno", x, x), v[0], best)

    return made


def _rounded(name: str) -> Made:
    return lambda to, v, _: _word(to, to.floats.call(name, _number(to, v[0])))


def _rounded_away(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    size = _number(to, to.words.op("and", v[0], _REST))
    whole = to.floats.call("floor", size)
    is_far = to.floats.compare("oge", to.floats.op("fsub", size, whole), 0.5)
    near = to.floats.choose(is_far, to.floats.op("fadd", whole, 1.0), whole)
    return to.words.op("or", _word(to, near), to.words.op("and", v[0], 1 << 31))


def _sign(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    one = to.words.op("or", to.words.op("and", v[0], 1 << 31), 0x3F800000)
    return to.words.choose(to.floats.compare("one", _number(to, v[0]), 0), one, v[0])


def _compared(how: str) -> Made:
    return lambda to, v, _: _truth(to, to.floats.compare(how, _number(to, v[0]), _number(to, v[1])))


def _words_compared(how: str) -> Made:
    return lambda to, v, _: _truth(to, to.words.compare(how, v[0], v[1]))


def _words(name: str) -> Made:
    return lambda to, v, _: to.words.op(name, v[0], v[1])


def _select(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    return to.words.op("xor", to.words.op("and", to.words.op("xor", v[1], v[2]), v[0]), v[2])


def _to_bf16(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    even = to.words.op("and", to.words.op("lshr", v[0], 16), 1)
    rounded = to.words.op("and", to.words.op("add", v[0], to.words.op("add", even, 0x7FFF)), 0xFFFF0000)
    nan = to.words.op("or", to.words.op("and", v[0], 1 << 31), 0x7FC00000)
    x = _number(to, v[0])
    return to.words.choose(to.floats.compare("uno", x, x), nan, rounded)


def _of_f16(to: Lanes, code: str, signals: bool) -> str:
    codes = to.integers(16)
    half = to.halves.bits(codes, codes.convert("trunc", to.words, code))
    x = to.floats.convert("fpext", to.halves, half)
    if not signals:
        return _word(to, x)
    # Of the bit that differs put into x, LLVM 20 makes a wrong instruction (a masked vpternlog) for AVX-512.
    nan = to.words.op("shl", to.words.op("and", code, 0x3FF), 13)
    sign = to.words.op("shl", to.words.op("and", code, 0x8000), 16)
    nan = to.words.op("or", to.words.op("or", nan, sign), _INFINITE)
    return to.words.choose(to.floats.compare("uno", x, x), nan, _word(to, x))


def _half(to: Lanes, word: str) -> str:
    return to.halves.convert("fptrunc", to.floats, _number(to, word))


def _to_f16(to: Lanes, v: Sequence[str], how: Sequence[int]) -> str:
    codes = to.integers(16)
    code = to.words.convert("zext", codes, codes.bits(to.halves, _half(to, v[0])))
    if not how[0]:
        return code
    rest = to.words.op("and", to.words.op("lshr", v[0], 13), 0x3FF)
    nan = to.words.op("or", to.words.choose(to.words.compare("eq", rest, 0), 1, rest), 0x7C00)
    nan = to.words.op("or", nan, to.words.op("and", to.words.op("lshr", v[0], 16), 0x8000))
    x = _number(to, v[0])
    return to.words.choose(to.floats.compare("uno", x, x), nan, code)


def _round_f16(to: Lanes, v: Sequence[str], how: Sequence[int]) -> str:
    number = _word(to, to.floats.convert("fpext", to.halves, _half(to, v[0])))
    if not how[0]:
        return number
    nan = to.words.op("and", to.words.op("and", v[0], _REST), 0xFFFFE000)
    nan = to.words.choose(to.words.compare("eq", nan, _INFINITE), 0x7F802000, nan)
    nan = to.words.op("or", nan, to.words.op("and", v[0], 1 << 31))
    x = _number(to, v[0])
    return to.words.choose(to.floats.compare("uno", x, x), nan, number)


def _encode(to: Lanes, v: Sequence[str], how: Sequence[int]) -> str:
    """See `loops.encode`."""
    cut, add, low, magic, last, over, nan, unsigned, sign_shift, sign_bit = how
    size = to.words.op("and", v[0], _REST)
    sign = to.words.op("and", to.words.op("lshr", v[0], sign_shift), sign_bit)
    even = to.words.op("and", to.words.op("lshr", size, cut), 1)
    normal = to.words.op("lshr", to.words.op("add", to.words.op("add", size, add), even), cut)
    start = _number(to, magic)
    subnormal = to.words.op("sub", _word(to, to.floats.op("fadd", _number(to, size), start)), magic)
    code = to.words.choose(to.words.compare("uge", size, low), normal, subnormal)
    code = to.words.choose(to.words.compare("ugt", code, last), over, code)
    sign = to.words.choose(to.words.compare("eq", code, unsigned), 0, sign)
    code = to.words.choose(to.words.compare("ugt", size, _INFINITE), nan, code)
    return to.words.op("or", code, sign)


def _shifted(name: str) -> Made:
    def made(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
        inside = to.words.compare("ult", v[1], 32)
        if name == "ashr":
            return to.words.op("ashr", v[0], to.words.choose(inside, v[1], 31))
        return to.words.choose(inside, to.words.op(name, v[0], to.words.op("and", v[1], 31)), 0)

    return made


def _rotated(to: Lanes, v: Sequence[str], how: Sequence[int]) -> str:
    return to.words.call("fshl", v[0], v[0], how[0])


def _quotient(to: Lanes, v: Sequence[str], signed: str) -> str:
    """See `integers.quotient`."""
    by_zero = to.words.compare("eq", v[1], 0)
    x, y = (to.doubles.convert(f"{signed}tofp", to.words, word) for word in (v[0], to.words.choose(by_zero, 1, v[1])))
    whole = to.longs.convert("fptosi", to.doubles, to.doubles.op("fdiv", x, y))
    return to.words.choose(by_zero, -1, to.words.convert("trunc", to.longs, whole))


def _remaining(signed: str) -> Made:
    def made(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
        rest = to.words.op("sub", v[0], to.words.op("mul", _quotient(to, v, signed), v[1]))
        return to.words.choose(to.words.compare("eq", v[1], 0), v[0], rest)

    return made


def _floored(signed: str) -> Made:
    """See `integers.whole_numbers`."""

    def made(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
        x, y = (to.doubles.convert(f"{signed}tofp", to.words, word) for word in v)
        whole = to.doubles.op("fmul", to.doubles.op("fadd", x, 0.5), to.doubles.op("fdiv", 1.0, y))
        return to.words.convert(
            "trunc", to.longs, to.longs.convert("fptosi", to.doubles, to.doubles.call("floor", whole))
        )

    return made


def _extreme_word(name: str) -> Made:
    return lambda to, v, _: to.words.call(name, v[0], v[1])


def _of_words(name: str) -> Made:
    return lambda to, v, _: _word(to, to.floats.convert(name, to.words, v[0]))


def _to_words(name: str) -> Made:
    """Truncated, as near as the type allows, and 0 of NaN."""
    return lambda to, v, _: to.words.call(f"{name}.sat.{to.words.suffix}", _number(to, v[0]), of=to.floats)


def _leading_zeros(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    return to.to.call(to.words.kind, f"ctlz.{to.words.suffix}", f"{to.words.kind} {v[0]}", "i1 false")


def _sign_byte(to: Lanes, v: Sequence[str], _: Sequence[int]) -> str:
    return to.words.op("ashr", to.words.op("shl", v[0], 24), 24)


#: Of each op but loads and stores: its result, of its operands and what it has beside them: the numbers of an encoding,
#: the amount of a rotation, and of conversions to f16 whether a NaN may signal.
MADE: dict[int, Made] = {
    op.ADD: _arithmetic("fadd"),
    op.SUBTRACT: _arithmetic("fsub"),
    op.MULTIPLY: _arithmetic("fmul"),
    op.DIVIDE: _arithmetic("fdiv"),
    op.MAXIMUM: _extreme(True),
    op.MINIMUM: _extreme(False),
    op.NEGATE: lambda to, v, _: to.words.op("xor", v[0], 1 << 31),
    op.ABS: lambda to, v, _: to.words.op("and", v[0], _REST),
    op.SQRT: _rounded("sqrt"),
    op.FLOOR: _rounded("floor"),
    op.CEIL: _rounded("ceil"),
    op.ROUND: _rounded("rint"),
    op.ROUND_AWAY: _rounded_away,
    op.SIGN: _sign,
    op.EQ: _compared("oeq"),
    op.NE: _compared("une"),
    op.LT: _compared("olt"),
    op.LE: _compared("ole"),
    op.SELECT: _select,
    op.AND: _words("and"),
    op.OR: _words("or"),
    op.XOR: _words("xor"),
    op.NOT: lambda to, v, _: to.words.op("xor", v[0], -1),
    op.TRUTH: lambda to, v, _: _truth(to, to.words.compare("ne", v[0], 0)),
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
    op.DIVIDE_SIGNED: lambda to, v, _: _quotient(to, v, "si"),
    op.DIVIDE_UNSIGNED: lambda to, v, _: _quotient(to, v, "ui"),
    op.REMAINDER_SIGNED: _remaining("si"),
    op.REMAINDER_UNSIGNED: _remaining("ui"),
    op.FLOOR_SIGNED: _floored("si"),
    op.FLOOR_UNSIGNED: _floored("ui"),
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
    op.LEADING_ZEROS: _leading_zeros,
    op.BITS_SET: lambda to, v, _: to.words.call("ctpop", v[0]),
}
