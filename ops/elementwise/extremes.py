"""Maximum and minimum."""

from __future__ import annotations

import functools
import math

import numpy as np

from ..engine.fast import opcodes
from ..engine.speed import tuning
from ..minifloat import arithmetic
from ..op import EXACT
from ..traits import Combining, OpTraits, Scalar
from .elementwise import elementwise
from .half_words import extreme


def _repeated(number, shape):
    """An array of this shape that has one number everywhere; not to be written to."""
    if math.prod(shape) * number.itemsize > tuning().repeated_bytes:
        return np.full(shape, number, number.dtype)
    return _kept(number.tobytes(), number.dtype, shape)


@functools.lru_cache(16)
def _kept(number: bytes, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    return np.full(shape, np.frombuffer(number, dtype), dtype)


def _extreme(choose, of_equals):
    """numpy's maximum or minimum, with -0 below +0 as IEEE 754-2019 section 9.6 asks."""

    def host(x, y):
        # numpy takes several times as long where one operand is a single number.
        if x.size > y.size == 1:
            result = choose(x, _repeated(y, x.shape))
        elif y.size > x.size == 1:
            result = choose(_repeated(x, y.shape), y)
        else:
            result = choose(x, y)
        # Equal numbers have equal bits unless they are zeros of unlike sign: there is none where one operand is
        # a single number that is not zero, nor where no result is the zero that should lose.
        if (x.size == 1 and x.item() != 0) or (y.size == 1 and y.item() != 0):
            return result
        unsigned = np.dtype(f"u{result.dtype.itemsize}")
        doubtful = result.view(unsigned) == (1 << 8 * unsigned.itemsize - 1 if of_equals is np.bitwise_and else 0)
        count = np.count_nonzero(doubtful)
        if not count:
            return result
        if count < result.size >> 4:
            at = np.unravel_index(np.flatnonzero(doubtful), result.shape)
            x, y = (np.broadcast_to(v, result.shape)[at] for v in (x, y))
            bits = of_equals(x.view(unsigned), y.view(unsigned)).view(result.dtype)
            result[at] = np.where(x == y, bits, result[at])
            return result
        bits = of_equals(np.asarray(x).view(unsigned), np.asarray(y).view(unsigned)).view(result.dtype)
        return np.where(x == y, bits, result)

    return host


def _complex_extreme(largest: bool):
    """Complex numbers in lexicographic order; NaN in any part makes that operand the result."""

    def host(x, y):
        before = (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
        take_y = (before if largest else ~before & (x != y)) & ~np.isnan(x)
        return np.where(take_y | (np.isnan(y) & ~np.isnan(x)), y, x)

    return host


#: Of two numbers the one that is NaN, asked for last, as it is rare.
_NAN = "{0} if {0} != {0} else {1} if {1} != {1}"
_host_maximum, _host_minimum = _extreme(np.maximum, np.bitwise_and), _extreme(np.minimum, np.bitwise_or)
_complex_maximum, _complex_minimum = _complex_extreme(True), _complex_extreme(False)


@elementwise(
    "maximum",
    "bool integer float complex",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.maximum,
    boolean=np.logical_or,
    integer=np.maximum,
    words=extreme(np.maximum),
    traits=OpTraits(
        combining=Combining(np.maximum, np.logical_or, largest=True),
        scalar=Scalar(
            "{0} if {0} > {1} else {1}",
            boolean="{0} or {1}",
            floating=f"{{0}} if {{0}} > {{1}} else {{1}} if {{0}} < {{1}} else {_NAN} else {{0}} or {{0}} + {{1}}",
        ),
        compiled=opcodes.MAXIMUM,
        compiled_words=(opcodes.MAXIMUM_SIGNED, opcodes.MAXIMUM_UNSIGNED),
        compiled_fold=opcodes.FOLD_MAXIMUM,
        selects_operand=True,
        order_based=True,
    ),
)
def maximum(x, y):
    """The larger; NaN if either is NaN, +0 above -0; complex numbers lexicographically; of booleans, or."""
    return (_complex_maximum if x.dtype.kind == "c" else _host_maximum)(x, y)


@elementwise(
    "minimum",
    "bool integer float complex",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.minimum,
    boolean=np.logical_and,
    integer=np.minimum,
    words=extreme(np.minimum),
    traits=OpTraits(
        combining=Combining(np.minimum, np.logical_and, largest=False),
        scalar=Scalar(
            "{0} if {0} < {1} else {1}",
            boolean="{0} and {1}",
            floating=f"{{0}} if {{0}} < {{1}} else {{1}} if {{0}} > {{1}} else {_NAN} else {{0}} or -(-{{0}} - {{1}})",
        ),
        compiled=opcodes.MINIMUM,
        compiled_words=(opcodes.MINIMUM_SIGNED, opcodes.MINIMUM_UNSIGNED),
        compiled_fold=opcodes.FOLD_MINIMUM,
        selects_operand=True,
        order_based=True,
    ),
)
def minimum(x, y):
    """The smaller; NaN if either is NaN, -0 below +0; complex numbers lexicographically; of booleans, and."""
    return (_complex_minimum if x.dtype.kind == "c" else _host_minimum)(x, y)
