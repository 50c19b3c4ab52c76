"""Comparing and choosing: compare, select and clamp, and the order of every type's elements as integer keys."""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable

import numpy as np

from ..engine.fast import opcodes
from ..engine.speed import tuning
from ..minifloat import arithmetic
from ..minifloat.number import Number
from ..op import Call, OpError, Run, lookup, op
from ..ordering import key_table, total_keys
from ..traits import Kernel, OnF32, OpTraits, Scalar
from ..types import ELEMENT_TYPES, ElementType, Kind, TensorType
from .float_kernels import Function, float_kernel
from .half_words import comparison, is_of_words

_F32 = ELEMENT_TYPES["f32"]

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")

_HOST: dict[str, np.ufunc] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def _not_equal(x: Number, y: Number) -> np.ndarray:
    return ~arithmetic.equal(x, y)


def _less_or_equal(x: Number, y: Number) -> np.ndarray:
    return arithmetic.less(x, y) | arithmetic.equal(x, y)


_EXACT: dict[str, Callable[[Number, Number], np.ndarray]] = {
    "EQ": arithmetic.equal,
    "NE": _not_equal,
    "GE": lambda x, y: _less_or_equal(y, x),
    "GT": lambda x, y: arithmetic.less(y, x),
    "LE": _less_or_equal,
    "LT": arithmetic.less,
}

_PREDICATES = {d: Function(_EXACT[d], _HOST[d], 2, is_basic=True, is_predicate=True) for d in DIRECTIONS}  # pyright: ignore[reportArgumentType]

#: (C3) The comparison types of each kind of element; the first is what is meant where none is given.
_TYPES: dict[Kind, tuple[str, ...]] = {
    Kind.BOOL: ("UNSIGNED",),
    Kind.SIGNED: ("SIGNED",),
    Kind.UNSIGNED: ("UNSIGNED",),
    Kind.FLOAT: ("FLOAT", "TOTALORDER"),
    Kind.COMPLEX: ("FLOAT",),
}

_BOOLS = (np.False_, np.True_)


@op("compare", values="numbers", operands=2, is_elementwise=True)
def compare(call: Call) -> Run:
    """Whether lhs is equal to, not equal to, above, below … rhs; complex numbers lexicographically.

    `FLOAT` is IEEE 754's quiet comparison. `TOTALORDER` is its totalOrder: -NaN, -infinity, …, -0, +0, …, infinity,
    NaN, and NaN by their codes; equal is the same code. The only NaN of the FNUZ formats (0x80) and of f8E8M0FNU
    (0xFF) counts as positive: it comes last.

    (C1) one element type. (C2) one shape. (C3) the comparison type fits the element type.
    """
    lhs, rhs = call.tensor(0), call.tensor(1)
    if lhs.element != rhs.element:
        raise OpError(f"operands are of types {lhs.element} and {rhs.element} (expected the same type)")
    if lhs.is_static and rhs.is_static and lhs.shape != rhs.shape:
        raise OpError(f"operands are {lhs} and {rhs} (expected the same shape)")
    direction, allowed = call.attribute("comparison_direction"), _TYPES[lhs.element.kind]
    if direction not in DIRECTIONS:
        raise OpError(f"expected a comparison_direction of {', '.join(DIRECTIONS)}, got {direction!r}")
    given = call.attributes.get("compare_type", "NOTYPE")
    if given not in ("NOTYPE", *allowed):
        raise OpError(f"{lhs.element} cannot be compared as {given} (expected {' or '.join(allowed)})")
    if given == "TOTALORDER":
        return (_by_key if lhs.shape else _by_scalar_key)(direction, lhs.element)
    if lhs.element.is_minifloat:
        return float_kernel(_PREDICATES[direction], lhs.element, call.policy, call.random, call.result())
    if lhs.element.is_complex and direction not in ("EQ", "NE"):
        return _lexicographic(_HOST[direction], np.greater if direction.startswith("G") else np.less)
    host = _HOST[direction]
    if not is_of_words(lhs.element) or not lhs.shape:
        return host
    is_half = lhs.element.name == "f16"
    kernel = comparison(host)(_through_f32(host), lhs.element) if is_half else _many_through_f32(host)
    return Kernel(kernel, on_f32=OnF32(host, False))


def _through_f32(host: np.ufunc) -> Run:
    """numpy compares f16 one by one, and casts many at a time."""
    return lambda x, y: host(x.astype(np.float32), y.astype(np.float32))


def _many_through_f32(host: np.ufunc) -> Run:
    """The comparison of bf16, of which ml_dtypes casts many at a time and compares one by one."""

    def run(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if max(x.size, y.size) < tuning().bf16_compared:
            return host(x, y)
        return host(x.astype(np.float32), y.astype(np.float32))

    return run


def _by_key(direction: str, element: ElementType) -> Run:
    host = _HOST[direction]
    return lambda x, y: host(total_keys(x, element), total_keys(y, element))


def _by_scalar_key(direction: str, element: ElementType) -> Run:
    """The same of scalars, whose codes are read quicker as bytes."""
    test: Callable[[int, int], bool] = getattr(operator, direction.lower())
    if element.is_minifloat:
        keys = key_table(element, True).tolist()
        return lambda x, y: _BOOLS[test(keys[x.tobytes()[0]], keys[y.tobytes()[0]])]
    flip = (1 << (element.bits - 1)) - 1

    def key(x: np.ndarray) -> int:
        code = int.from_bytes(x.tobytes(), sys.byteorder, signed=True)
        return code ^ flip if code < 0 else code

    return lambda x, y: _BOOLS[test(key(x), key(y))]


def _lexicographic(host: np.ufunc, strictly: np.ufunc) -> Run:
    return lambda x, y: strictly(x.real, y.real) | (np.equal(x.real, y.real) & host(x.imag, y.imag))


@op(
    "select",
    operands=3,
    is_elementwise=True,
    traits=OpTraits(
        scalar=Scalar(any_type="{1} if {0} else {2}"),
        compiled=opcodes.SELECT,
        selects_operand=True,
        takes_numbers=True,
        linear=lambda _: (1, 2),
    ),
)
def select(call: Call) -> Run:
    """Elements of on_true where pred is true, else of on_false; a scalar pred chooses the whole.

    (I1) pred is of type i1. (C1) pred is a scalar or of the others' shape. (C2) on_true and on_false are of one type.
    """
    pred, on_true, on_false = call.tensor(0), call.tensor(1), call.tensor(2)
    if pred.element.kind is not Kind.BOOL:
        raise OpError(f"pred is {pred} (expected of element type i1)")
    if on_true.element != on_false.element or not _agree(on_true, on_false):
        raise OpError(f"on_true is {on_true} and on_false {on_false} (expected the same type)")
    if not pred.shape:
        return lambda p, x, y: x if p else y
    if not _agree(pred, on_true):
        raise OpError(f"pred is {pred} (expected a scalar or of the shape of {on_true})")
    kernel = functools.partial(choose, on_true.element)
    on_f32 = OnF32(functools.partial(choose, _F32), False) if is_of_words(on_true.element) else None
    return Kernel(kernel, has_out=True, on_f32=on_f32)


def choose(
    element: ElementType, pred: np.ndarray, x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """`x` where `pred`, else `y`: arrays of type `element`, whose bits are moved as they are.

    `out` may be one of them, of any type; the result is put there where that takes no step more.
    """
    size = element.dtype.itemsize
    if size > 4 or pred.size <= tuning().select_many:
        return np.where(pred, x, y)
    shape = np.broadcast(pred, x, y).shape
    fits = out is not None and out is not pred and out.shape == shape and out.dtype == element.dtype
    into = out if out is not None and fits else np.empty(shape, element.dtype)
    x_bits, y_bits = x.view(f"u{size}"), y.view(f"u{size}")
    count = np.count_nonzero(pred)
    if count in (0, pred.size):  # as tests for what is rare often give
        if into is not (x if count else y):
            np.copyto(into.view(f"u{size}"), x_bits if count else y_bits)
        return into
    if into is y or (into is x and pred is x):  # it is read after
        into = np.empty(shape, element.dtype)
    bits = into.view(f"u{size}")
    np.bitwise_xor(x_bits, y_bits, out=bits)
    bits *= pred  # numpy converts pred part by part
    bits ^= y_bits
    return into


@op(
    "clamp",
    values="numbers",
    operands=3,
    is_elementwise=True,
    traits=OpTraits(scalar=Scalar("min(max({1}, {0}), {2})"), selects_operand=True, order_based=True, many_passes=True),
)
def clamp(call: Call) -> Run:
    """The operand, but not below min and then not above max; NaN of any of the three is NaN.

    (C1, C2) min and max are scalars or of the operand's shape. (C3) one element type.
    """
    low, operand, high = call.tensor(0), call.tensor(1), call.tensor(2)
    for name, bound in (("min", low), ("max", high)):
        if bound.element != operand.element:
            raise OpError(f"{name} is {bound} (expected of element type {operand.element})")
        if bound.shape and not _agree(bound, operand):
            raise OpError(f"{name} is {bound} (expected a scalar or of the shape of {operand})")
    kernel = _clamped(call, operand)
    if not is_of_words(operand.element) or not operand.shape:
        return kernel
    return Kernel(kernel, on_f32=OnF32(_clamped(call, TensorType(operand.shape, _F32)), False))


def _clamped(call: Call, t: TensorType) -> Run:
    at_least, at_most = (_kernel(call, name, t) for name in ("maximum", "minimum"))
    return lambda low, x, high: at_most(at_least(x, low), high)


def _kernel(call: Call, name: str, t: TensorType) -> Run:
    record = lookup(name)
    assert record is not None
    return record.function(call.like(name, (t, t), (t,)))


def _agree(x: TensorType, y: TensorType) -> bool:
    """Whether the shapes can be the same."""
    return len(x.shape) == len(y.shape) and all(a == b or None in (a, b) for a, b in zip(x.shape, y.shape, strict=True))
