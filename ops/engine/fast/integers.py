"""The loops of the machine on words as whole numbers: arithmetic modulo 2**32, shifts, comparisons, conversions."""

from __future__ import annotations

import numpy as np

from . import opcodes as op
from .instructions import (
    bits_set,
    choose,
    inner,
    leading_zeros,
    rotate,
    shift,
    shift_arithmetic,
    shift_left,
    wide_vectors,
)

_u32, _i32, _f32, _i64, _f64 = np.uint32, np.int32, np.float32, np.int64, np.float64


@inner
def quotient(x, y):
    """The word of a quotient, truncated; by zero, all ones.

    In f64 a quotient of 32 bits by 32 is below a whole number by more than half of the last bit, if it is at all.
    """
    by_zero = y == 0
    return choose(by_zero, _u32(0xFFFFFFFF), _u32(_i64(_f64(x) / choose(by_zero, _f64(1), _f64(y)))))


@inner
def whole_numbers(kind, bits, to, a, b, n):
    """Ops on one or two whole numbers, signed or not; `b` is the amount of a rotation.

    A floored quotient by d is that of x + 1/2, which is no whole number: nor does a product with 1 / d in f64 reach
    one.
    """
    wide_vectors()
    if kind == op.ADD_WORDS:
        for j in range(n):
            bits[to, j] = _u32(bits[a, j] + bits[b, j])
    elif kind == op.SUBTRACT_WORDS:
        for j in range(n):
            bits[to, j] = _u32(bits[a, j] - bits[b, j])
    elif kind == op.MULTIPLY_WORDS:
        for j in range(n):
            bits[to, j] = _u32(bits[a, j] * bits[b, j])
    elif kind == op.SHIFT_LEFT:
        for j in range(n):
            by = bits[b, j]
            bits[to, j] = choose(by < _u32(32), shift_left(bits[a, j], by), _u32(0))
    elif kind == op.SHIFT_LOGICAL:
        for j in range(n):
            by = bits[b, j]
            bits[to, j] = choose(by < _u32(32), shift(bits[a, j], by), _u32(0))
    elif kind == op.SHIFT_ARITHMETIC:
        for j in range(n):
            by = bits[b, j]
            bits[to, j] = shift_arithmetic(bits[a, j], choose(by < _u32(32), by, _u32(31)))
    elif kind == op.ROTATE:
        for j in range(n):
            bits[to, j] = rotate(bits[a, j], _u32(b))
    elif kind == op.DIVIDE_SIGNED:
        for j in range(n):
            bits[to, j] = quotient(_i32(bits[a, j]), _i32(bits[b, j]))
    elif kind == op.DIVIDE_UNSIGNED:
        for j in range(n):
            bits[to, j] = quotient(bits[a, j], bits[b, j])
    elif kind == op.REMAINDER_SIGNED:
        for j in range(n):
            x, y = bits[a, j], bits[b, j]
            rest = _u32(x - _u32(quotient(_i32(x), _i32(y)) * y))
            bits[to, j] = choose(y == _u32(0), x, rest)
    elif kind == op.REMAINDER_UNSIGNED:
        for j in range(n):
            x, y = bits[a, j], bits[b, j]
            rest = _u32(x - _u32(quotient(x, y) * y))
            bits[to, j] = choose(y == _u32(0), x, rest)
    elif kind == op.FLOOR_SIGNED:
        by = _f64(1) / _f64(bits[b, 0])
        for j in range(n):
            bits[to, j] = _u32(_i64(np.floor((_f64(_i32(bits[a, j])) + _f64(0.5)) * by)))
    elif kind == op.FLOOR_UNSIGNED:
        by = _f64(1) / _f64(bits[b, 0])
        for j in range(n):
            bits[to, j] = _u32(_i64((_f64(bits[a, j]) + _f64(0.5)) * by))
    elif kind == op.MAXIMUM_SIGNED:
        for j in range(n):
            bits[to, j] = choose(_i32(bits[a, j]) > _i32(bits[b, j]), bits[a, j], bits[b, j])
    elif kind == op.MAXIMUM_UNSIGNED:
        for j in range(n):
            bits[to, j] = choose(bits[a, j] > bits[b, j], bits[a, j], bits[b, j])
    elif kind == op.MINIMUM_SIGNED:
        for j in range(n):
            bits[to, j] = choose(_i32(bits[a, j]) < _i32(bits[b, j]), bits[a, j], bits[b, j])
    else:
        for j in range(n):
            bits[to, j] = choose(bits[a, j] < bits[b, j], bits[a, j], bits[b, j])


@inner
def compare_words(kind, bits, to, a, b, n):
    """Put -1 where a comparison holds and 0 elsewhere."""
    wide_vectors()
    if kind == op.EQ_WORDS:
        for j in range(n):
            bits[to, j] = -_i64(bits[a, j] == bits[b, j])
    elif kind == op.LT_SIGNED:
        for j in range(n):
            bits[to, j] = -_i64(_i32(bits[a, j]) < _i32(bits[b, j]))
    else:
        for j in range(n):
            bits[to, j] = -_i64(bits[a, j] < bits[b, j])


@inner
def convert_words(kind, x, bits, to, a, n):
    """To f32, rounded once; from f32, truncated, as near as the type allows, and 0 of NaN; what else is of one word."""
    wide_vectors()
    if kind == op.OF_SIGNED:
        for j in range(n):
            x[to, j] = _f32(_i32(bits[a, j]))
    elif kind == op.OF_UNSIGNED:
        for j in range(n):
            x[to, j] = _f32(bits[a, j])
    elif kind == op.TO_SIGNED:
        for j in range(n):
            v = x[a, j]
            inside = choose((v >= _f32(-2147483648.0)) & (v < _f32(2147483648.0)), v, _f32(0))
            number = choose(v >= _f32(2147483648.0), _i32(2147483647), _i32(inside))
            bits[to, j] = _u32(choose(v < _f32(-2147483648.0), _i32(-2147483648), number))
    elif kind == op.TO_UNSIGNED:
        for j in range(n):
            v = x[a, j]
            inside = choose((v >= _f32(0)) & (v < _f32(4294967296.0)), v, _f32(0))
            bits[to, j] = choose(v >= _f32(4294967296.0), _u32(0xFFFFFFFF), _u32(_i64(inside)))
    elif kind == op.LEADING_ZEROS:
        for j in range(n):
            bits[to, j] = leading_zeros(bits[a, j])
    elif kind == op.BITS_SET:
        for j in range(n):
            bits[to, j] = bits_set(bits[a, j])
    else:
        for j in range(n):
            bits[to, j] = shift_arithmetic(shift_left(bits[a, j], _u32(24)), _u32(24))
