"""Functions of f32 for processors with AVX-512, as text for LLVM: in two thirds of the time that `fast.quick` takes.

Eight numbers are computed in f64 at a time. A table of 16 entries, which two registers hold, leaves a polynomial little
to do: of 2**(j / 16) for exponentials, of 1 / c and log(c) for logarithms. The polynomials are those of Chebyshev, from
`mpmath.chebyfit` with 200 bits. All errors are below 2**-45. Where such an error could decide how a number is rounded,
or a formula does not hold, the block is left to a function that has no such numbers.
"""

from __future__ import annotations

import functools
import importlib
import platform
from collections.abc import Callable

import numpy as np

from ..fast import opcodes as op
from . import code
from .doubles import ENTRIES, INFINITE, SIGN, Form, text
from .writer import Writer

_LN_2 = 0.6931471805599453
#: Added and taken away again, it rounds to a whole number, which then stands in the last bits.
_ROUNDS = 6755399441055744.0
#: e to these powers is beyond the numbers of f32, but not beyond those of f64; the tangent of the other is 1 in f64.
_LARGEST_POWER, _LARGEST_ANGLE = 200.0, 20.0

#: (e**r - 1) / r of |r| up to log(2) / 32: the error is below 2**-50.
_EXPONENTIAL = (
    0.001388906347556763,
    0.008333473002881155,
    0.04166666666359425,
    0.16666666664208724,
    0.5000000000000001,
    1.0000000000000007,
)
#: (log(1 + r) - r) / r**2 of |r| up to 0.0305: the error is below 2**-44, times r**2 below 2**-54.
_LOGARITHM = (
    -0.12516295163731644,
    0.14303819704035822,
    -0.16666659085174668,
    0.19999991576313011,
    -0.2500000000088167,
    0.3333333333431294,
    -0.5,
)
#: The significands that logarithms are reduced to begin here, near 0.73, and have 16 intervals of equal size as codes.
#: The interval of 1 ends 1 / 48 below 1 and above; there c is 1.
_OF_ONE = 8
_FIRST = (0x3FF << 52) - (2 << 48) // 3 - (_OF_ONE << 48)


def _power(to: Form, v: str) -> tuple[str, str]:
    """(s, q) of which e**v is s + s * q: s is 2 to the power of a whole number of sixteenths."""
    shifted = to.fused(v, ENTRIES / _LN_2, _ROUNDS)
    r = to.fused(to.subtract(shifted, _ROUNDS), -_LN_2 / ENTRIES, v)
    index = to.bits(shifted)
    # Shifted to where the exponent is, the index stands below it: from the entries it is taken away.
    places = np.arange(ENTRIES, dtype=np.uint64)
    table = (np.exp2(places / ENTRIES).view(np.uint64) - (places << np.uint64(48))).view(np.float64)
    entry = to.bits(to.entry(table, index))
    s = to.number(to.longs.op("add", entry, to.longs.op("shl", index, 48)))
    return s, to.multiply(to.polynomial(r, _EXPONENTIAL), r)


def _quotient(to: Form, x: str, y: str) -> str:
    """x / y, by a reciprocal whose error e is below 2**-14: x / y is x times that, times 1 + e + e**2 + e**3 + e**4."""
    near = to.reciprocal(y)
    rest = to.fused(to.doubles.negative(y), near, 1.0)
    product, square, rest = to.multiply(x, near), to.multiply(rest, rest), to.fused(rest, rest, rest)
    return to.fused(product, to.fused(rest, square, rest), product)


def _exp(to: Form) -> Writer:
    s, q = _power(to, to.wide(to.bounded(_LARGEST_POWER)))
    return to.end_but_nan(*to.rounded_power(to.fused(s, q, s)))


def _expm1(to: Form) -> Writer:
    s, q = _power(to, to.wide(to.bounded(_LARGEST_POWER)))
    word, doubt = to.rounded(to.fused(s, q, to.subtract(s, 1.0)))
    return to.end_but_nan(to.signed(word), doubt)


def _tanh(to: Form) -> Writer:
    x = to.wide(to.bounded(_LARGEST_ANGLE))
    s, q = _power(to, to.add(x, x))
    e = to.fused(s, q, to.subtract(s, 1.0))
    word, doubt = to.rounded(_quotient(to, e, to.add(e, 2.0)))
    return to.end_unless_nan(to.signed(word), doubt)


def _logistic(to: Form) -> Writer:
    """By e to the power of what is negative, so that nothing overflows."""
    size = to.words.bits(to.floats, to.bounded(_LARGEST_POWER))
    v = to.wide(to.floats.bits(to.words, to.words.op("or", size, SIGN)))
    s, q = _power(to, v)
    e = to.fused(s, q, s)
    is_negative = to.floats.compare("olt", to.x, 0)
    word, doubt = to.rounded_power(_quotient(to, to.doubles.choose(is_negative, e, 1), to.add(e, 1.0)))
    return to.end_unless_nan(word, doubt)


def _logarithm(to: Form, v: str, near: str | None = None) -> str:
    """The logarithm; `near` is v - 1 where the table's c is 1, if v itself does not say it exactly."""
    begins = np.uint64(_FIRST) + (np.arange(ENTRIES + 1, dtype=np.uint64) << np.uint64(48))
    ends = begins.view(np.float64)
    inverse = 2.0 / (ends[1:] + ends[:-1])
    inverse[_OF_ONE] = 1.0
    bits = to.bits(v)
    place = to.longs.op("sub", bits, _FIRST)
    index = to.longs.op("lshr", place, 48)
    turns = to.longs.op("ashr", place, 52)
    m = to.number(to.longs.op("sub", bits, to.longs.op("shl", turns, 52)))
    r = to.fused(m, to.entry(inverse, index), -1.0)
    if near is not None:
        r = to.doubles.choose(to.longs.compare("eq", index, _OF_ONE), near, r)
    whole = to.doubles.convert("sitofp", to.longs, turns)
    base = to.fused(whole, _LN_2, to.entry(-np.log(inverse), index))
    square = to.multiply(r, r)
    return to.add(base, to.fused(square, to.polynomial(r, _LOGARITHM), r))


def _log(to: Form) -> Writer:
    word, doubt = to.rounded(_logarithm(to, to.wide(to.x)))
    less_1 = to.words.op("sub", to.word, 1)
    return to.end(word, to.either(doubt, to.words.compare("uge", less_1, INFINITE - 1)))


def _log1p(to: Form) -> Writer:
    v = to.wide(to.x)
    word, doubt = to.rounded(_logarithm(to, to.add(v, 1.0), v))
    is_above, is_finite = to.floats.compare("ogt", to.x, -1), to.floats.compare("olt", to.x, np.inf)
    special = to.truths.op("xor", to.truths.op("and", is_above, is_finite), 1)
    return to.end(to.signed(word), to.either(doubt, special))


#: Of each function its body, and the size up to which numbers need no care: results are normal numbers then. In
#: logarithms nothing depends on the size.
_BODIES: dict[int, tuple[Callable[[Form], Writer], float]] = {
    op.EXP: (_exp, 87.0),
    op.EXPM1: (_expm1, 87.0),
    op.TANH: (_tanh, _LARGEST_ANGLE),
    op.LOGISTIC: (_logistic, 87.0),
    op.LOG: (_log, np.nan),
    op.LOG1P: (_log1p, np.nan),
}


#: The opcodes that have one.
KINDS = tuple(_BODIES)


@functools.cache
def _is_known() -> bool:
    """Whether the processor has the instructions."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    features = importlib.import_module("llvmlite.binding").get_host_cpu_features()
    return all(features.get(name) for name in ("avx512f", "avx512dq", "avx512vl", "fma"))


def address(kind: int, otherwise: int) -> int:
    """The address of the function of an opcode: it takes those of words and of results, and how many there are.

    It leaves blocks with numbers that are in doubt to `otherwise`, which takes the same; this is the result too where
    there is no such function, or LLVM does not take its text.
    """
    if kind not in _BODIES or not _is_known():
        return otherwise
    try:
        return code.address(text(*_BODIES[kind], otherwise))
    except (ImportError, RuntimeError):
        return otherwise
