"""Elementwise ops on one and two operands: arithmetic and bits; and how such ops are declared."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.cast import wrap
from ..engine.fast import opcodes
from ..engine.speed import tuning
from ..kernel import NOTHING, Combining, Facts, Kernel, OnF32, Scalar, first_operand
from ..minifloat import arithmetic
from ..minifloat.number import Number
from ..registry import CORRECTLY_ROUNDED, EXACT, Accuracy, Call, Op, Run, element_types, full_name, register
from ..types import ElementType, Kind
from .float_kernels import Function, float_kernel
from .half_words import Words, extreme, is_of_words, negated
from .ziv import Wide

Host = Callable[..., Any]


def elementwise(
    name: str,
    types: str,
    *,
    accuracy: Accuracy,
    operands: int = 1,
    direct: Callable[..., Number] | None = None,
    integer: Host | None = None,
    boolean: Host | None = None,
    has_out: bool = False,
    words: Words | None = None,
    wide: Wide | None = None,
    expanded: str = "",
    facts: Facts = NOTHING,
) -> Callable[[Host], Host]:
    """Declare an op by what it does to numpy's own types; for floats `direct` is the exact definition.

    The decorated function serves floats and complex numbers, and integers and booleans where `integer` and `boolean`
    are not given. Integers below eight bits come as bytes and are wrapped after. A host that takes `out` can put the
    results there, which may be an operand, says so by `has_out`. `words` computes on arrays of f16 and bf16 by their
    codes, `wide` on f64 in place. `expanded` and `facts` are for `Op.expanded` and `Op.facts`.
    """

    def declare(host: Host) -> Host:
        function = None
        if direct is not None:
            function = Function(direct, host, operands, not accuracy.is_near, has_out=has_out, wide=wide)

        def bind(call: Call) -> Run:
            element = call.tensor().element
            if element.is_float and function is not None:
                kernel = float_kernel(function, element, call.policy, call.random, call.result())
                draws = call.policy.rounding == "stochastic"
                if not is_of_words(element) or not call.result().shape or draws:
                    return kernel
                made = kernel if isinstance(kernel, Kernel) else Kernel(kernel)
                is_right = function.is_basic and call.policy.rounding == "nearest_even"
                on_f32 = OnF32(host, accuracy != EXACT, has_out) if is_right else None
                run = made.call if words is None else words(made.call, element)
                return dataclasses.replace(made, call=run, on_f32=on_f32)
            if element.is_integer:
                if integer is not None or element.bits < 8:
                    return _on_integers(integer or host, element)
            elif element.is_complex and accuracy.is_near:
                return _on_complex(host, element)
            elif element.kind is Kind.BOOL and boolean is not None:
                return boolean
            return Kernel(host, has_out=has_out)

        doc = host.__doc__ or ""
        taken = element_types(types)
        expand = element_types(expanded)
        what = full_name(name), bind, taken, "numbers", accuracy, operands, doc
        register(Op(*what, is_elementwise=True, is_function=True, expanded=expand, facts=facts))
        return host

    return declare


def _on_integers(host: Host, element: ElementType) -> Run:
    if element.bits >= 8:
        return host
    wide = np.int8 if element.kind is Kind.SIGNED else np.uint8
    return lambda *xs: wrap(np.asarray(host(*(x.astype(wide) for x in xs))), element)


def _on_complex(host: Host, element: ElementType) -> Run:
    """complex<f32> is computed in complex<f64> and rounded."""
    if element.bits == 128:
        return host
    return lambda *xs: np.asarray(host(*(x.astype(np.complex128) for x in xs))).astype(element.dtype)


# -- arithmetic ---------------------------------------------------------------------------------------------------


@elementwise(
    "add",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.add,
    boolean=np.logical_or,
    has_out=True,
    facts=Facts(
        combining=Combining(np.add, np.logical_or, on_floats=True),
        linear=range,
        scalar=Scalar("{0} + {1}", True, "{0} or {1}", "{0} + {1}"),
        compiled=opcodes.ADD,
        compiled_words=(opcodes.ADD_WORDS, opcodes.ADD_WORDS),
        compiled_fold=opcodes.FOLD_ADD,
    ),
)
def add(x, y, out=None):
    """Sum; of booleans, or."""
    return np.add(x, y, out)


@elementwise(
    "subtract",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.subtract,
    has_out=True,
    facts=Facts(
        combining=Combining(np.subtract, any_order=False, on_floats=True),
        linear=range,
        scalar=Scalar("{0} - {1}", True, floating="{0} - {1}"),
        compiled=opcodes.SUBTRACT,
        compiled_words=(opcodes.SUBTRACT_WORDS, opcodes.SUBTRACT_WORDS),
    ),
)
def subtract(x, y, out=None):
    """Difference."""
    return np.subtract(x, y, out)


@elementwise(
    "multiply",
    "bool integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.multiply,
    boolean=np.logical_and,
    has_out=True,
    facts=Facts(
        combining=Combining(np.multiply, np.logical_and, on_floats=True),
        is_bilinear=True,
        scalar=Scalar("{0} * {1}", True, "{0} and {1}", "{0} * {1}"),
        compiled=opcodes.MULTIPLY,
        compiled_words=(opcodes.MULTIPLY_WORDS, opcodes.MULTIPLY_WORDS),
    ),
)
def multiply(x, y, out=None):
    """Product; of booleans, and."""
    return np.multiply(x, y, out)


def _divide_integers(x, y):
    divisor = np.where(y == 0, y.dtype.type(1), y)
    quotient = (x - np.fmod(x, divisor)) // divisor
    return np.where(y == 0, ~y, quotient)


@elementwise(
    "divide",
    "integer float complex",
    accuracy=CORRECTLY_ROUNDED,
    operands=2,
    direct=arithmetic.divide,
    has_out=True,
    integer=_divide_integers,
    facts=Facts(
        scalar=Scalar(
            "(({0} // {1} if ({0} < 0) == ({1} < 0) else -(-{0} // {1})) if {1} else -1)",
            True,
            floating="{0} / {1}",
            by_positive="({0} // {1} if {0} >= 0 else -(-{0} // {1}))",
        ),
        compiled=opcodes.DIVIDE,
        linear=first_operand,
    ),
)
def divide(x, y, out=None):
    """Quotient; of integers truncated, by zero all bits set (as XLA), and the smallest by -1 itself."""
    return np.divide(x, y, out)


def _remainder_integers(x, y):
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


@elementwise(
    "remainder",
    "integer float",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.remainder,
    integer=_remainder_integers,
    facts=Facts(
        scalar=Scalar(
            "(({0} % {1} if ({0} < 0) == ({1} < 0) else {0} % -{1}) if {1} else {0})",
            by_positive="({0} % {1} if {0} >= 0 else -(-{0} % {1}))",
        ),
    ),
)
def remainder(x, y):
    """Remainder of truncated division, with the sign of the dividend; of integers by zero, the dividend (as XLA)."""
    return np.fmod(x, y)


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
        if result.dtype.kind == "f":
            # Equal numbers have equal bits unless they are zeros of unlike sign: there is none where one operand is
            # a single number that is not zero, nor where no result is the zero that should lose.
            if (x.size == 1 and x.item() != 0) or (y.size == 1 and y.item() != 0):
                return result
            unsigned = np.dtype(f"u{result.dtype.itemsize}")
            doubtful = result.view(unsigned) == (1 << 8 * unsigned.itemsize - 1 if of_equals is np.bitwise_and else 0)
            few = np.flatnonzero(doubtful) if result.ndim else ()
            if not doubtful.any():
                return result
            if 0 < len(few) < result.size >> 4:
                at = np.unravel_index(few, result.shape)
                x, y = (np.broadcast_to(v, result.shape)[at] for v in (x, y))
                bits = of_equals(x.view(unsigned), y.view(unsigned)).view(result.dtype)
                result[at] = np.where(x == y, bits, result[at])
                return result
            bits = of_equals(np.asarray(x).view(unsigned), np.asarray(y).view(unsigned)).view(result.dtype)
            result = np.where(x == y, bits, result)
        return result

    return host


def _complex_extreme(largest: bool):
    """Complex numbers in lexicographic order; NaN in any part makes that operand the result."""

    def host(x, y):
        before = (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
        take_y = (before if largest else ~before & (x != y)) & ~np.isnan(x)
        return np.where(take_y | (np.isnan(y) & ~np.isnan(x)), y, x)

    return host


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
    facts=Facts(
        combining=Combining(np.maximum, np.logical_or, largest=True),
        scalar=Scalar(
            "{0} if {0} > {1} else {1}",
            boolean="{0} or {1}",
            floating="{0} if {0} > {1} or {0} != {0} else {1} if {0} < {1} or {1} != {1} else {0} or {0} + {1}",
        ),
        compiled=opcodes.MAXIMUM,
        compiled_words=(opcodes.MAXIMUM_SIGNED, opcodes.MAXIMUM_UNSIGNED),
        compiled_fold=opcodes.FOLD_MAXIMUM,
        gives_operand=True,
        by_order=True,
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
    facts=Facts(
        combining=Combining(np.minimum, np.logical_and, largest=False),
        scalar=Scalar(
            "{0} if {0} < {1} else {1}",
            boolean="{0} and {1}",
            floating="{0} if {0} < {1} or {0} != {0} else {1} if {0} > {1} or {1} != {1} else {0} or -(-{0} - {1})",
        ),
        compiled=opcodes.MINIMUM,
        compiled_words=(opcodes.MINIMUM_SIGNED, opcodes.MINIMUM_UNSIGNED),
        compiled_fold=opcodes.FOLD_MINIMUM,
        gives_operand=True,
        by_order=True,
    ),
)
def minimum(x, y):
    """The smaller; NaN if either is NaN, -0 below +0; complex numbers lexicographically; of booleans, and."""
    return (_complex_minimum if x.dtype.kind == "c" else _host_minimum)(x, y)


@elementwise(
    "negate",
    "integer float complex",
    accuracy=EXACT,
    direct=arithmetic.negate,
    words=negated,
    facts=Facts(
        scalar=Scalar("-{0}", True, floating="-{0}"), compiled=opcodes.NEGATE, by_order=True, linear=first_operand
    ),
)
def negate(x):
    """The operand with its sign flipped, of NaN and zero too; of integers, the two's complement."""
    return np.negative(x)


@elementwise(
    "sign",
    "signed float complex",
    accuracy=EXACT,
    direct=arithmetic.sign,
    facts=Facts(scalar=Scalar("({0} > 0) - ({0} < 0)"), compiled=opcodes.SIGN),
)
def sign(x):
    """-1, 0 (with its sign) or 1, NaN of NaN; of a complex number, the number over its absolute value."""
    if np.iscomplexobj(x):
        size = np.abs(x)
        return np.where(np.isnan(x), complex(np.nan, np.nan), np.where(size == 0, 0, x / np.where(size == 0, 1, size)))
    if x.dtype.kind == "f":
        return np.where((x == 0) | np.isnan(x), x, np.sign(x))
    return np.sign(x)


@elementwise("floor", "float", accuracy=EXACT, direct=arithmetic.floor, facts=Facts(compiled=opcodes.FLOOR))
def floor(x):
    """The largest integer not above the operand."""
    return np.floor(x)


@elementwise("ceil", "float", accuracy=EXACT, direct=arithmetic.ceil, facts=Facts(compiled=opcodes.CEIL))
def ceil(x):
    """The smallest integer not below the operand."""
    return np.ceil(x)


@elementwise(
    "round_nearest_even",
    "float",
    accuracy=EXACT,
    direct=arithmetic.round_nearest_even,
    facts=Facts(compiled=opcodes.ROUND),
)
def round_nearest_even(x):
    """The nearest integer, ties to even."""
    return np.rint(x)


@elementwise("round_nearest_afz", "float", accuracy=EXACT, direct=arithmetic.round_nearest_afz)
def round_nearest_afz(x):
    """The nearest integer, ties away from zero."""
    size = np.abs(x)
    whole = np.trunc(size)
    return np.copysign(whole + (size - whole >= 0.5), x)


# -- bits ------------------------------------------------------------------------------------------------------------


@elementwise(
    "and",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    facts=Facts(
        combining=Combining(np.bitwise_and),
        scalar=Scalar("{0} & {1}", boolean="{0} and {1}"),
        compiled=opcodes.AND,
        compiled_words=(opcodes.AND, opcodes.AND),
    ),
)
def and_(x, y, out=None):
    """Bitwise and."""
    return np.bitwise_and(x, y, out)


@elementwise(
    "or",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    facts=Facts(
        combining=Combining(np.bitwise_or),
        scalar=Scalar("{0} | {1}", boolean="{0} or {1}"),
        compiled=opcodes.OR,
        compiled_words=(opcodes.OR, opcodes.OR),
    ),
)
def or_(x, y, out=None):
    """Bitwise or."""
    return np.bitwise_or(x, y, out)


@elementwise(
    "xor",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    facts=Facts(
        combining=Combining(np.bitwise_xor),
        scalar=Scalar("{0} ^ {1}", boolean="{0} != {1}"),
        compiled=opcodes.XOR,
        compiled_words=(opcodes.XOR, opcodes.XOR),
    ),
)
def xor(x, y, out=None):
    """Bitwise exclusive or."""
    return np.bitwise_xor(x, y, out)


@elementwise(
    "not",
    "bool integer",
    accuracy=EXACT,
    facts=Facts(
        scalar=Scalar("~{0}", True, "not {0}"), compiled=opcodes.NOT, compiled_words=(opcodes.NOT, opcodes.NOT)
    ),
)
def not_(x):
    """Bitwise complement."""
    return np.invert(x)
