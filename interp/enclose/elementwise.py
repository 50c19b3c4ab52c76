"""Rules of elementwise operations: arithmetic, conversions, comparisons, choices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import ElementType, Kind, TensorType
from ..program import Operation
from .evaluate import Evaluator, rule
from .functions import function_of_samples, left_open
from .intervals import UNDEFINED, Interval, add, broadcast, divide, indefinite, multiply, negate, widen
from .values import (
    F64,
    MOST,
    Enclosure,
    by_parts,
    causes_of,
    holds_integers,
    join,
    largest,
    least_normal,
    leaves_open,
    may_be_subnormal,
    merge_since,
    of_parts,
    round_to,
    subnormal_hull,
    to_f64,
)

# -- arithmetic --------------------------------------------------------------------------------------------------------


_ARITHMETIC: dict[str, Callable[..., Interval]] = {
    "add": add,
    "subtract": lambda x, y: add(x, negate(y)),
    "multiply": multiply,
    "divide": divide,
    "negate": negate,
    "abs": lambda x: (
        np.where((x[0] <= 0) & (x[1] >= 0), 0.0, np.minimum(np.abs(x[0]), np.abs(x[1]))),
        np.maximum(np.abs(x[0]), np.abs(x[1])),
    ),
    "maximum": lambda x, y: (np.maximum(x[0], y[0]), np.maximum(x[1], y[1])),
    "minimum": lambda x, y: (np.minimum(x[0], y[0]), np.minimum(x[1], y[1])),
    "clamp": lambda a, x, b: tuple(np.minimum(np.maximum(v, a[i]), b[i]) for i, v in enumerate(x)),
    "chlo.square": lambda x: multiply(*[_ARITHMETIC["abs"](x)] * 2),
}
#: Operations that give one of their operands, or its negative, and round nothing.
_CHOOSE = ("negate", "abs", "maximum", "minimum", "clamp")


@rule(*_ARITHMETIC)
def arithmetic(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Arithmetic of floats, of complex numbers by parts, and of integers within the range of their type."""
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element, name = result.type.element, operation.name.removeprefix("stablehlo.")
    if element.is_complex or any(x.element.is_complex for x in operands):
        return _complex_arithmetic(e, operation, operands, name)
    bounds = broadcast(operands)
    nan = np.logical_or.reduce([n for *_, n in bounds])
    only_nan = np.logical_or.reduce([np.isnan(low) for low, *_ in bounds])
    intervals = [(low, high) for low, high, _ in bounds]
    low, high = _ARITHMETIC[name](*intervals)
    if name in UNDEFINED:
        undefined = UNDEFINED[name](*intervals)
        is_point = np.logical_and.reduce([a == b for a, b in intervals])
        nan, only_nan = nan | undefined, only_nan | (undefined & is_point)
    if holds_integers(element):
        return _integers(e, operation, operands, low, high)
    if not element.is_float:
        return None
    if name == "divide" and e.allowed.reciprocal and element.bits >= 16:
        low, high = widen(low, high, 1.5, element)
        # A reciprocal that is subnormal has fewer bits, or none.
        sizes = [np.maximum(*map(np.abs, x)) * least_normal(element) for x in intervals]
        off = np.where(sizes[1] > 1, sizes[0] * 2.0**-element.format.precision, 0.0)
        low, high = low - off, high + off
        if e.allowed.flushes(element):
            low, high = np.where(off, np.minimum(low, 0.0), low), np.where(off, np.maximum(high, 0.0), high)
    low, high, nan = indefinite(low, high, nan, only_nan)
    if name in ("maximum", "minimum", "clamp") and e.allowed.flushes(element):
        some = np.logical_or.reduce([may_be_subnormal(*x, element) for x in intervals])
        low, high = subnormal_hull(low, high, element, some)
    return [e.finish(operation, operands, low, high, nan, rounds=name not in _CHOOSE)]


def _integers(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray
) -> Sequence[Any] | None:
    """Return integers whose bounds are within their type; others wrap around, and are undecided."""
    is_quotient = operation.name.endswith("divide")
    if operands[0].element.kind is Kind.BOOL or (is_quotient and all(x.is_exact for x in operands)):
        return left_open(e, operation, operands)
    if is_quotient:
        (a, b, _), (c, d, _) = broadcast(operands)
        quotients = [np.trunc(x / y) for x in (a, b) for y in (c, d)]
        low, high, none = np.minimum.reduce(quotients), np.maximum.reduce(quotients), (c <= 0) & (d >= 0)
        return [integers(e, operation, operands, low, high, merge_since(operands, low.shape), none)]
    return [integers(e, operation, operands, low, high, merge_since(operands, low.shape))]


def integers(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray,
    since: np.ndarray | None, unknown: np.ndarray | bool = False,
) -> Enclosure:  # fmt: skip
    """Return integers with bounds; those that are unknown or beyond their type are undecided."""
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    element = result.type.element
    most = float(2 ** (element.bits - (element.kind is Kind.SIGNED)))
    least = -most if element.kind is Kind.SIGNED else 0.0
    unknown = unknown | ~((low >= least) & (high < most)) | (np.abs(low) > MOST) | (np.abs(high) > MOST)
    low, high = np.where(unknown, 0.0, low), np.where(unknown, 0.0, high)
    since = e.since(operation, unknown, since)
    return e.finish(operation, operands, low, high, np.zeros(low.shape, bool), since=since)


@rule("get_dimension_size")
def size(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """What hangs on no element."""
    return e.nominal(operation, operands)


# -- complex numbers ---------------------------------------------------------------------------------------------------


def _complex_arithmetic(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], name: str
) -> list[Enclosure] | None:
    bounds = [b[:2] for b in broadcast(operands)]
    parts = [[(np.real(low), np.real(high)), (np.imag(low), np.imag(high))] for low, high in bounds]
    nan = np.logical_or.reduce([n for *_, n in broadcast(operands)])
    if name in ("add", "subtract", "negate"):
        real, imag = (_ARITHMETIC[name](*[p[i] for p in parts]) for i in range(2))
    elif name == "multiply":
        (a, b), (c, d) = parts
        real = _sum_of_products([(a, c), (negate(b), d)], operands[0].element.part)
        imag = _sum_of_products([(a, d), (b, c)], operands[0].element.part)
    else:
        return function_of_samples(e, operation, operands)
    low, high = of_parts(real[0], imag[0]), of_parts(real[1], imag[1])
    return [e.finish(operation, operands, low, high, nan | np.isnan(low) | np.isnan(high), rounds=name != "negate")]


def _sum_of_products(pairs: Sequence[tuple[Interval, Interval]], element: ElementType) -> Interval:
    """Return the sum of two products, each of which may be rounded to a type."""
    products = [multiply(x, y) for x, y in pairs]
    low, high = add(products[0], products[1])
    size = sum(np.maximum(np.abs(p[0]), np.abs(p[1])) for p in products)
    slack = size * 2.0**-element.format.precision * 2
    return low - slack, high + slack


@rule("real", "imag", "complex", "chlo.conj")
def parts(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The parts of complex numbers, and numbers made of them."""
    name, bounds = operation.name.removeprefix("stablehlo."), broadcast(operands)
    if not operands[0].element.is_complex and name != "complex":
        return list(operands) if name != "imag" else e.nominal(operation, operands)
    nan = np.logical_or.reduce([n for *_, n in bounds])
    if name == "complex":
        (a, b, _), (c, d, _) = bounds
        low, high = of_parts(a, c), of_parts(b, d)
    else:
        low, high, _ = bounds[0]
        if name == "chlo.conj":
            low, high = of_parts(np.real(low), -np.imag(high)), of_parts(np.real(high), -np.imag(low))
        else:
            low, high = (np.real(low), np.real(high)) if name == "real" else (np.imag(low), np.imag(high))
    return [e.finish(operation, operands, low, high, nan, rounds=False)]


# -- steps and conversions ---------------------------------------------------------------------------------------------


@rule("floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign")
def step(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function that grows by steps: exact at both ends."""
    (x,) = operands
    if not x.element.is_float:
        return function_of_samples(e, operation, operands) if x.element.is_complex else None
    low, high, nan = x.bounds()
    low, high = (np.asarray(e.run_as(operation, [v], F64)[0]) for v in (low, high))
    return [e.finish(operation, operands, low, high, nan, rounds=False)]


@rule("convert", "reduce_precision", "uniform_quantize", "uniform_dequantize")
def convert(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A conversion, which rounds: both ends are converted."""
    (x,), (result,) = operands, operation.results
    assert isinstance(result.type, TensorType)
    source, target = x.element, result.type.element
    if x.is_exact and holds_integers(source) and not leaves_open(target):
        return e.nominal(operation, operands)
    if operation.name.endswith(("quantize", "dequantize")):
        return _monotone(e, operation, x)
    low, high, nan = x.bounds()
    if source.is_complex or target.is_complex:
        if not target.part.is_float:
            return None
        ends = [np.asarray(v, np.complex128) if target.is_complex else np.real(v) for v in (low, high)]
        ends = [by_parts(v, lambda part: round_to(part, target.part)) for v in ends]
        return [e.finish(operation, operands, ends[0], ends[1], nan, rounds=False)]
    if operation.name.endswith("reduce_precision"):
        ends = [np.asarray(e.run_as(operation, [v], F64)[0]) for v in (low, high)]
        overflow = [np.isnan(end) & ~np.isnan(v) for end, v in zip(ends, (low, high), strict=True)]
        return [e.finish(operation, operands, ends[0], ends[1], nan | overflow[0] | overflow[1], rounds=False)]
    if target.is_float:
        narrow = dataclasses.replace(
            x, type=dataclasses.replace(x.type, element=target), value=np.zeros(x.value.shape, target.dtype), low=low,
            high=high, nan=nan,
        )  # fmt: skip
        low, high, nan = narrow.results()
        most = largest(target)
        beyond = np.isinf(low) & np.isinf(high) & (low == high) & (not target.format.has_infinity)
        low, high = np.where(beyond, np.nan, low), np.where(beyond, np.nan, high)
        if not target.format.has_infinity:
            low, high = np.clip(low, -most, most), np.clip(high, -most, most)
        return [e.finish(operation, operands, low, high, nan, rounds=False)]
    return _to_integers(e, operation, x, low, high, nan, target)


def _to_integers(
    e: Evaluator, operation: Operation, x: Enclosure, low: np.ndarray, high: np.ndarray, nan: np.ndarray,
    target: ElementType,
) -> list[Enclosure]:  # fmt: skip
    """Return floats or integers as integers; NaN and what is beyond the type is left to the implementation."""
    if target.kind is Kind.BOOL:
        zero = (low <= 0) & (high >= 0)
        only = (low == 0) & (high == 0)
        low, high = np.where(zero, 0.0, 1.0), np.where(only & ~nan, 0.0, 1.0)
        return [e.finish(operation, [x], low, high, np.zeros(low.shape, bool))]
    return [integers(e, operation, [x], np.trunc(low), np.trunc(high), merge_since([x], low.shape), nan)]


def _monotone(e: Evaluator, operation: Operation, x: Enclosure) -> list[Enclosure]:
    """Return a growing function of values of the operand's type: the interpreter's, at both ends."""
    low, high, nan = x.results()
    element = x.element
    ends = [np.asarray(v).astype(element.expressed.dtype if x.element.is_float else element.dtype) for v in (low, high)]
    (result,) = operation.results
    assert isinstance(result.type, TensorType)
    kind = result.type.element
    low, high = (to_f64(np.asarray(e.run(operation, [v])[0]), kind if kind.is_float else kind.storage) for v in ends)
    return [e.finish(operation, [x], low, high, nan, rounds=False)]


@rule("is_finite", "chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def classify(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A test of the kind of a number: decided where all that an element may be is of one kind."""
    (x,), name = operands, operation.name.rpartition(".")[2]
    low, high, nan = x.bounds()
    positive, negative = np.isposinf(high), np.isneginf(low)
    only = {"is_pos_inf": np.isposinf(low), "is_neg_inf": np.isneginf(high)}
    if name == "is_finite":
        may, must = ~(np.isinf(low) & (low == high)) & ~np.isnan(low), ~nan & ~positive & ~negative
    elif name == "is_inf":
        may, must = positive | negative, ((np.isposinf(low) | np.isneginf(high)) & ~nan)
    else:
        may, must = positive if name == "is_pos_inf" else negative, only[name] & ~nan
    return [e.finish(operation, operands, must * 1.0, may * 1.0, np.zeros(low.shape, bool))]


# -- choices -----------------------------------------------------------------------------------------------------------


@rule("compare")
def compare(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A comparison: decided where the enclosures do not overlap."""
    x, y = operands
    if x.element.is_complex:
        return None
    (a, b, m), (c, d, n) = broadcast(operands)
    if operation.operands[0] is operation.operands[1]:  # one number, whatever it is
        a = b = c = d = np.where(np.isnan(a), a, 0.0)
    less, more, equal = b < c, a > d, (a == b) & (c == d) & (a == c)
    overlap = (a <= d) & (b >= c)
    direction = str(operation.attributes["comparison_direction"])
    is_total = operation.attributes.get("compare_type") == "TOTALORDER" and x.element.is_float
    nan = np.zeros(a.shape, bool)
    if is_total:
        nan = m | n | (equal & (a == 0))  # the order of NaN and of zeros is that of their bits
        m = n = np.zeros(a.shape, bool)
        less, more, equal, overlap = less & ~nan, more & ~nan, equal & ~nan, overlap | nan
    may, must = {
        "LT": (a < d, less), "LE": (a <= d, b <= c), "GT": (b > c, more), "GE": (b >= c, a >= d),
        "EQ": (overlap, equal), "NE": (~equal, less | more),
    }[direction]  # fmt: skip
    only_nan = np.isnan(a) | np.isnan(c)
    if direction == "NE":
        may, must = may | m | n, np.where(only_nan, True, must)
    else:
        may, must = may & ~only_nan, must & ~(m | n)
    if is_total:
        may, must = may | nan, must & ~nan
    return [e.finish(operation, operands, must * 1.0, may * 1.0, np.zeros(a.shape, bool))]


@rule("select")
def select(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """One of two operands, or what both may be where the choice is not decided."""
    condition, x, y = operands
    (low, high, _), either = condition.bounds(), join(x, y)
    ends = [
        np.where(low == 1, first, np.where(high == 0, second, both))
        for first, second, both in zip(x.bounds(), y.bounds(), either.bounds(), strict=True)
    ]
    since = np.where(condition.value, causes_of(x), causes_of(y))
    since = np.where(low == high, since, causes_of(either))
    since = np.where(condition.undecided, causes_of(condition), since)
    return [e.finish(operation, operands, ends[0], ends[1], ends[2], rounds=False, since=since)]
