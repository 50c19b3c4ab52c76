"""The loops of the machine: what each op does to a block of elements, compiled by numba into vector instructions.

Arithmetic is IEEE f32, op by op: nothing is joined or put into another order, so results are numpy's, bit for bit.
"""

from __future__ import annotations

import numpy as np

from . import opcodes as op
from .instructions import (
    HAS_HALVES,
    choose,
    float_to_half,
    half_to_float,
    inner,
    larger,
    load_8,
    load_16,
    load_32,
    shift,
    smaller,
    store_8,
    store_16,
    store_32,
    wide_vectors,
)
from .octets import look_up_words

_u32, _f32, _u64, _i64 = np.uint32, np.float32, np.uint64, np.int64
_SIGN, _REST, _INFINITE = 0x80000000, 0x7FFFFFFF, 0x7F800000
#: Of an index that is not signed the compiler knows that it does not count from the end.
_at = np.uint64
#: The codes of f16 stand 13 bits further left in f32, whose bias is 112 more; and where infinity is then.
_TO_F32, _F16_INFINITE = np.float32(2.0**112), 0x0F800000


@inner
def _converted_of_f16(code):
    """`of_f16` by the processor's own conversion."""
    number = half_to_float(code)
    nan = _u32(_u32(_u32(code & _u32(0x3FF)) << _u32(13)) | _u32(_u32(code & _u32(0x8000)) << _u32(16)))
    return choose(number != number, _u32(nan | _u32(_INFINITE)), _f32(number).view(_u32))


@inner
def _shifted_of_f16(code):
    """The word of f32 that is the number of a code of f16; a NaN keeps its bits."""
    size = _u32(_u32(code & _u32(0x7FFF)) << _u32(13))
    number = _u32(_f32(size.view(_f32) * _TO_F32).view(_u32))  # subnormal numbers too
    number = choose(size >= _u32(_F16_INFINITE), _u32(size | _u32(_INFINITE)), number)
    return _u32(number | _u32(_u32(code & _u32(0x8000)) << _u32(16)))


of_f16 = _converted_of_f16 if HAS_HALVES else _shifted_of_f16


@inner
def to_f16(u):
    """The code of f16 of a word of f32, to nearest even; a NaN keeps the bits that fit, or the last one."""
    size = _u32(u & _u32(_REST))
    even = _u32(shift(size, _u32(13)) & _u32(1))
    normal = shift(_u32(_u32(size + even) + _u32(0xC8000FFF)), _u32(13))  # 112 less in the exponent, and near a half
    # Added to a half, whose last bit is the smallest number of f16, the sum ends with the code.
    subnormal = _u32(_f32(size.view(_f32) + _f32(0.5)).view(_u32) - _u32(0x3F000000))
    code = choose(size >= _u32(0x38800000), normal, subnormal)
    code = choose(code > _u32(0x7C00), _u32(0x7C00), code)
    rest = _u32(shift(size, _u32(13)) & _u32(0x3FF))
    nan = _u32(_u32(0x7C00) | choose(rest == _u32(0), _u32(1), rest))
    code = choose(size > _u32(_INFINITE), nan, code)
    return _u32(code | _u32(shift(u, _u32(16)) & _u32(0x8000)))


@inner
def to_bf16(u):
    """The word of f32 that is the number of bf16 next to that of a word, to nearest even; NaN is one of two."""
    rounded = _u32(u + _u32(_u32(0x7FFF) + (shift(u, _u32(16)) & _u32(1)))) & _u32(0xFFFF0000)
    is_nan = _u32(u & _u32(_REST)) > _u32(_INFINITE)
    return choose(is_nan, _u32(_u32(u & _u32(_SIGN)) | _u32(0x7FC00000)), _u32(rounded))


@inner
def round_f16(u):
    """The word of f32 that is the number of f16 next to that of a word, to nearest even; as `of_f16(to_f16(u))`."""
    size, sign = _u32(u & _u32(_REST)), _u32(u & _u32(_SIGN))
    power = _u32(size & _u32(_INFINITE))
    power = choose(power > _u32(0x38800000), power, _u32(0x38800000))  # the smallest normal number
    # Next to 2**13 times the power of two f32 has as many bits left as f16 keeps.
    power = _u32(power + _u32(13 << 23))
    number = _u32(_f32(_f32(size.view(_f32) + power.view(_f32)) - power.view(_f32)).view(_u32))
    number = choose(size >= _u32(0x477FF000), _u32(_INFINITE), number)
    nan = _u32(size & _u32(0xFFFFE000))
    nan = choose(nan == _u32(_INFINITE), _u32(0x7F802000), nan)
    return _u32(choose(size > _u32(_INFINITE), nan, number) | sign)


@inner
def _has_nan(bits, a, n):
    wide_vectors()
    most = _u32(0)
    for j in range(n):
        size = _u32(bits[a, j] & _u32(_REST))
        most = choose(size > most, size, most)
    return most > _u32(_INFINITE)


@inner
def _convert_halves(kind, x, bits, to, a, n):
    """`TO_F16` and `ROUND_F16` by the processor's own conversions; false where there is NaN, and nothing is done."""
    wide_vectors()
    if _has_nan(bits, a, n):
        return False
    if kind == op.TO_F16:
        for j in range(n):
            bits[to, j] = float_to_half(x[a, j])
    else:
        for j in range(n):
            x[to, j] = half_to_float(float_to_half(x[a, j]))
    return True


@inner
def _no_halves(*_):
    return False


convert_halves = _convert_halves if HAS_HALVES else _no_halves


@inner
def load(kind, leaf, table, planes, bits, to, starts, a, row, parts, column, count):
    """Parts of a leaf into a register, one behind the other, so many elements of each: from some rows on.

    `planes` are those of the table, see `octets`, or 0.
    """
    wide_vectors()
    for i in range(parts):
        at, begin = _at(i * count), _at(starts[a, row + i] + column)
        if kind == op.LOAD_32:
            for j in range(count):
                bits[to, at + _at(j)] = load_32(leaf, begin + _at(j))
        elif kind == op.LOAD_16:
            for j in range(count):
                bits[to, at + _at(j)] = load_16(leaf, begin + _at(j)) << _u32(16)
        elif kind == op.LOAD_8:
            for j in range(count):
                bits[to, at + _at(j)] = load_8(leaf, begin + _at(j))
        elif kind == op.LOAD_BOOL:
            for j in range(count):
                bits[to, at + _at(j)] = load_8(leaf, begin + _at(j)) * _u32(0xFFFFFFFF)
        elif kind == op.LOAD_F16:
            for j in range(count):
                bits[to, at + _at(j)] = of_f16(load_16(leaf, begin + _at(j)))
        elif kind == op.LOAD_TABLE_F32 and planes:
            target = _at(bits.ctypes.data) + _at(bits.strides[0]) * _at(to) + _at(4) * at
            look_up_words(leaf + begin, table, planes, target, count)
        elif kind == op.LOAD_TABLE_F32:
            for j in range(count):
                bits[to, at + _at(j)] = load_32(table, _at(load_8(leaf, begin + _at(j))))
        else:
            for j in range(count):
                bits[to, at + _at(j)] = load_8(table, _at(load_8(leaf, begin + _at(j))))


@inner
def repeat(kind, leaf, table, bits, to, starts, a, row, parts, count):
    """The only elements of some rows of a leaf, each so many times."""
    wide_vectors()
    for last in range(parts):
        i = parts - 1 - last  # the first row at the end: each is brought to its place before it is repeated
        at = _at(i * count)
        load(kind, leaf, table, _at(0), bits, to, starts, a, row + i, 1, 0, 1)
        word = bits[to, 0]
        for j in range(count):
            bits[to, at + _at(j)] = word


@inner
def store(kind, bits, a, at, out, begin, count):
    """A part of a register to an output."""
    wide_vectors()
    if kind == op.STORE_32:
        for j in range(count):
            store_32(out, begin + _at(j), bits[a, at + _at(j)])
    elif kind == op.STORE_16:
        for j in range(count):
            store_16(out, begin + _at(j), shift(bits[a, at + _at(j)], _u32(16)))
    elif kind == op.STORE_F16:
        for j in range(count):
            store_16(out, begin + _at(j), bits[a, at + _at(j)])
    else:
        mask = _u32(1) if kind == op.STORE_BOOL else _u32(255)
        for j in range(count):
            store_8(out, begin + _at(j), _u32(bits[a, at + _at(j)] & mask))


@inner
def arithmetic(kind, x, to, a, b, n):
    """Ops on two f32."""
    wide_vectors()
    if kind == op.ADD:
        for j in range(n):
            x[to, j] = x[a, j] + x[b, j]
    elif kind == op.SUBTRACT:
        for j in range(n):
            x[to, j] = x[a, j] - x[b, j]
    elif kind == op.MULTIPLY:
        for j in range(n):
            x[to, j] = x[a, j] * x[b, j]
    elif kind == op.DIVIDE:
        for j in range(n):
            x[to, j] = x[a, j] / x[b, j]
    elif kind == op.MAXIMUM:
        for j in range(n):
            x[to, j] = larger(x[a, j], x[b, j])
    else:
        for j in range(n):
            x[to, j] = smaller(x[a, j], x[b, j])


@inner
def unary(kind, x, bits, to, a, n):
    """Ops on one f32; `bits` are the same registers as words."""
    wide_vectors()
    if kind == op.NEGATE:
        for j in range(n):
            bits[to, j] = bits[a, j] ^ _u32(_SIGN)
    elif kind == op.ABS:
        for j in range(n):
            bits[to, j] = bits[a, j] & _u32(_REST)
    elif kind == op.SQRT:
        for j in range(n):
            x[to, j] = np.sqrt(x[a, j])
    elif kind == op.FLOOR:
        for j in range(n):
            x[to, j] = np.floor(x[a, j])
    elif kind == op.CEIL:
        for j in range(n):
            x[to, j] = np.ceil(x[a, j])
    elif kind == op.ROUND:
        for j in range(n):
            x[to, j] = np.rint(x[a, j])
    elif kind == op.ROUND_AWAY:
        for j in range(n):
            size = _u32(bits[a, j] & _u32(_REST)).view(_f32)
            whole = np.floor(size)
            near = choose(size - whole >= _f32(0.5), whole + _f32(1), whole)
            bits[to, j] = _f32(near).view(_u32) | _u32(bits[a, j] & _u32(_SIGN))
    else:
        for j in range(n):
            one = _u32(_u32(bits[a, j] & _u32(_SIGN)) | _u32(0x3F800000)).view(_f32)
            x[to, j] = choose((x[a, j] < 0) | (x[a, j] > 0), one, x[a, j])


@inner
def compare(kind, x, bits, to, a, b, n):
    """Put -1 where a comparison holds and 0 elsewhere; `kind` is its opcode."""
    wide_vectors()
    if kind == op.EQ:
        for j in range(n):
            bits[to, j] = -_i64(x[a, j] == x[b, j])
    elif kind == op.NE:
        for j in range(n):
            bits[to, j] = -_i64(x[a, j] != x[b, j])
    elif kind == op.LT:
        for j in range(n):
            bits[to, j] = -_i64(x[a, j] < x[b, j])
    else:
        for j in range(n):
            bits[to, j] = -_i64(x[a, j] <= x[b, j])


@inner
def words(kind, bits, to, a, b, c, n):
    """Ops on words, whatever they are."""
    wide_vectors()
    if kind == op.SELECT:
        for j in range(n):
            bits[to, j] = ((bits[b, j] ^ bits[c, j]) & bits[a, j]) ^ bits[c, j]
    elif kind == op.AND:
        for j in range(n):
            bits[to, j] = bits[a, j] & bits[b, j]
    elif kind == op.OR:
        for j in range(n):
            bits[to, j] = bits[a, j] | bits[b, j]
    elif kind == op.XOR:
        for j in range(n):
            bits[to, j] = bits[a, j] ^ bits[b, j]
    elif kind == op.NOT:
        for j in range(n):
            bits[to, j] = ~bits[a, j]
    elif kind == op.TRUTH:
        for j in range(n):
            bits[to, j] = -_i64(bits[a, j] != _u32(0))
    elif kind == op.TO_F16:
        for j in range(n):
            bits[to, j] = to_f16(bits[a, j])
    elif kind == op.ROUND_F16:
        for j in range(n):
            bits[to, j] = round_f16(bits[a, j])
    else:
        for j in range(n):
            bits[to, j] = to_bf16(bits[a, j])


@inner
def encode(how, bits, to, a, n):
    """f32 to the codes of a minifloat, to nearest even; `how` is what `encoding` gives for the format."""
    wide_vectors()
    cut, add, low, magic = _u32(how[0]), _u32(how[1]), _u32(how[2]), _u32(how[3])
    start = _u32(how[3]).view(_f32)
    last, over, nan, unsigned = _u32(how[4]), _u32(how[5]), _u32(how[6]), _u32(how[7])
    sign_shift, sign_bit = _u32(how[8]), _u32(how[9])
    for j in range(n):
        u = bits[a, j]
        size = _u32(u & _u32(_REST))
        sign = _u32(shift(u, sign_shift) & sign_bit)
        normal = shift(_u32(_u32(size + add) + _u32(shift(size, cut) & _u32(1))), cut)
        # Added to a number whose last bit is the smallest number of the format, the sum ends with the code.
        subnormal = _u32(_f32(size.view(_f32) + start).view(_u32) - magic)
        code = choose(size >= low, normal, subnormal)
        code = choose(code > last, over, code)
        sign = choose(code == unsigned, _u32(0), sign)
        code = choose(size > _u32(_INFINITE), nan, code)
        bits[to, j] = code | sign


@inner
def look_up(kind, table, bits, to, a, n):
    """Entries for single codes; the tables have one for each."""
    wide_vectors()
    if kind == op.ENCODE_TABLE:
        for j in range(n):
            u = _u64(bits[a, j])
            bits[to, j] = load_8(table, (u | ((u & _u64(0xFFFF)) + _u64(0xFFFF))) >> _u64(16))
    elif kind == op.LOOK_UP_F32:
        for j in range(n):
            bits[to, j] = load_32(table, _at(bits[a, j] & _u32(0xFF)))
    elif kind == op.LOOK_UP_LOW:
        for j in range(n):
            bits[to, j] = load_32(table, _at(bits[a, j] & _u32(0xFFFF)))
    elif kind == op.LOOK_UP_HIGH:
        for j in range(n):
            bits[to, j] = load_32(table, _at(shift(bits[a, j], _u32(16))))
    else:
        for j in range(n):
            bits[to, j] = load_8(table, _at(bits[a, j] & _u32(0xFF)))


@inner
def pair(kind, table, width, last, bits, to, a, b, n):
    """Entries for two codes, the second of which has `width` bits; `last` is the index of the table's last entry."""
    wide_vectors()
    mask = _u64(last)
    if kind == op.PAIR_F32:
        for j in range(n):
            bits[to, j] = load_32(table, ((_u64(bits[a, j]) << _u64(width)) | _u64(bits[b, j])) & mask)
    else:
        for j in range(n):
            bits[to, j] = load_8(table, ((_u64(bits[a, j]) << _u64(width)) | _u64(bits[b, j])) & mask)
