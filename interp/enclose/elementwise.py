"""Rules of elementwise operations: arithmetic, functions, conversions, comparisons, choices.

Arithmetic is computed in f64 and rounded outward, unless the f64 result is exact. Functions are those of the
interpreter in f64, at the ends of intervals on which they are monotone, widened by the ULP that are allowed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import ElementType, Kind, TensorType
from ..program import Operation
from .evaluate import Evaluator, causes_of, join, merge_since, rule
from .values import F32, F64, MOST, Enclosure, computed_in, holds_integers, largest, of_parts, round_to, to_f64, ulp_of

#: An interval: the least and the greatest number.
Interval = tuple[np.ndarray, np.ndarray]
_TAU = 2 * math.pi


def _down(x: np.ndarray, inexact: np.ndarray | bool = True) -> np.ndarray:
    return np.where(inexact, np.nextafter(x, -np.inf), x)


def _up(x: np.ndarray, inexact: np.ndarray | bool = True) -> np.ndarray:
    return np.where(inexact, np.nextafter(x, np.inf), x)


def _broadcast(operands: Sequence[Enclosure]) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return the bounds of operands; scalars beside arrays have their shape."""
    shape = max((x.value.shape for x in operands), key=len)
    return [tuple(np.broadcast_to(v, shape) for v in x.bounds()) for x in operands]  # type: ignore[misc]


# -- arithmetic --------------------------------------------------------------------------------------------------------


def add(x: Interval, y: Interval) -> Interval:
    """Return the sums of two intervals, rounded outward where f64 rounds them."""
    ends = []
    for a, b, outward in ((x[0], y[0], _down), (x[1], y[1], _up)):
        s = a + b
        back = s - a
        error = (a - (s - back)) + (b - back)
        ends.append(outward(s, error != 0))
    return ends[0], ends[1]


def multiply(x: Interval, y: Interval) -> Interval:
    """Return the products of two intervals, rounded outward where f64 may round them."""
    products = [a * b for a in x for b in y]
    low, high = np.minimum.reduce(products), np.maximum.reduce(products)
    short = [round_to(v, F32) == v for v in (*x, *y)]  # 24 bits each
    is_exact = np.logical_and.reduce(short) & (np.abs(high) < 1e300) & ((np.abs(low) > 1e-290) | (low == 0))
    return _down(low, ~is_exact), _up(high, ~is_exact)


def negate(x: Interval) -> Interval:
    """Return the negated interval."""
    return -x[1], -x[0]


def divide(x: Interval, y: Interval) -> Interval:
    """Return the quotients of two intervals."""
    quotients = [a / b for a in x for b in y]
    low, high = np.minimum.reduce(quotients), np.maximum.reduce(quotients)
    is_exact = (x[0] == x[1]) & (y[0] == y[1]) & (low * y[0] == x[0]) & (round_to(low, F32) == low)
    is_exact &= round_to(y[0], F32) == y[0]
    low, high = _down(low, ~is_exact), _up(high, ~is_exact)
    has_zero = (y[0] <= 0) & (y[1] >= 0)
    return np.where(has_zero, -np.inf, low), np.where(has_zero, np.inf, high)


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
    bounds = _broadcast(operands)
    nan = np.logical_or.reduce([n for *_, n in bounds])
    only_nan = np.logical_or.reduce([np.isnan(low) for low, *_ in bounds])
    low, high = _ARITHMETIC[name](*[(low, high) for low, high, _ in bounds])
    if holds_integers(element):
        return _integers(e, operation, operands, low, high)
    if not element.is_float:
        return None
    if name == "divide" and e.allowed.reciprocal and element.bits >= 16:
        low, high = widen(low, high, 1.5, element)
    low, high, nan = _indefinite(low, high, nan, only_nan)
    return [e.finish(operation, operands, low, high, nan, rounds=name not in _CHOOSE)]


def _indefinite(
    low: np.ndarray, high: np.ndarray, nan: np.ndarray, only_nan: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bounds of which an end is no number: it can be anything, unless an operand can only be NaN."""
    unknown = (np.isnan(low) | np.isnan(high)) & ~only_nan
    low, high = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high)
    return np.where(only_nan, np.nan, low), np.where(only_nan, np.nan, high), nan | unknown | only_nan


def _integers(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], low: np.ndarray, high: np.ndarray
) -> Sequence[Any] | None:
    """Return integers whose bounds are within their type; others wrap around, and are undecided."""
    element = operands[0].element
    if element.kind is Kind.BOOL or operation.name.endswith("divide"):
        return left_open(e, operation, operands)
    most = float(2 ** (element.bits - (element.kind is Kind.SIGNED)))
    least = -most if element.kind is Kind.SIGNED else 0.0
    outside = (low < least) | (high >= most) | (np.abs(low) > MOST) | (np.abs(high) > MOST)
    since = merge_since(operands, low.shape)
    if outside.any():
        own = np.where(outside, np.int32(e.cause(operation)), np.int32(0))
        since = own if since is None else np.where(since != 0, since, own)
    return [e.finish(operation, operands, low, high, np.zeros(low.shape, bool), since=since)]


@rule("get_dimension_size")
def size(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """What hangs on no element."""
    return e.nominal(operation, operands)


def left_open(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> list[Enclosure] | None:
    """Integers whose result the specification defines for all operands but some: these are undecided."""
    if not all(x.is_exact for x in operands):
        return None
    (found,), (x, y) = e.nominal(operation, operands), (np.asarray(v.value, np.float64) for v in operands)
    element = operands[0].element
    is_open = y == 0
    if operation.name.endswith("power"):
        size = np.abs(x) ** y
        is_open = (size >= 2.0 ** (element.bits - 1)) | ((y < 0) & (np.abs(x) != 1))
    elif element.kind is Kind.SIGNED:
        is_open = is_open | ((y == -1) & (x == -(2.0 ** (element.bits - 1))))
    if not is_open.any():
        return [found]
    since = np.where(np.broadcast_to(is_open, found.value.shape), np.int32(e.cause(operation)), np.int32(0))
    return [dataclasses.replace(found, since=since)]


def widen(low: np.ndarray, high: np.ndarray, ulp: float, element: ElementType) -> Interval:
    """Return bounds moved apart by so many ULP of a type, and by one of f64."""
    return _down(low - ulp * ulp_of(low, element)), _up(high + ulp * ulp_of(high, element))


# -- complex numbers ---------------------------------------------------------------------------------------------------


def _complex_arithmetic(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], name: str
) -> list[Enclosure] | None:
    bounds = [b[:2] for b in _broadcast(operands)]
    parts = [[(np.real(low), np.real(high)), (np.imag(low), np.imag(high))] for low, high in bounds]
    nan = np.logical_or.reduce([n for *_, n in _broadcast(operands)])
    if name in ("add", "subtract", "negate"):
        real, imag = (_ARITHMETIC[name](*[p[i] for p in parts]) for i in range(2))
    elif name == "multiply":
        (a, b), (c, d) = parts
        real = _sum_of_products([(a, c), (negate(b), d)], operands[0].element.part)
        imag = _sum_of_products([(a, d), (b, c)], operands[0].element.part)
    elif operation.results and all(x.is_exact for x in operands):
        return function_of_points(e, operation, operands)
    else:
        return None
    low, high = of_parts(real[0], imag[0]), of_parts(real[1], imag[1])
    return [e.finish(operation, operands, low, high, nan | np.isnan(low) | np.isnan(high), rounds=name != "negate")]


def _sum_of_products(pairs: Sequence[tuple[Interval, Interval]], element: ElementType) -> Interval:
    """Return the sum of two products, each of which may be rounded to a type."""
    products = [multiply(x, y) for x, y in pairs]
    low, high = add(products[0], products[1])
    size = sum(np.maximum(np.abs(p[0]), np.abs(p[1])) for p in products)
    slack = size * 2.0**-element.format.precision * 2
    return low - slack, high + slack


def function_of_points(e: Evaluator, operation: Operation, operands: Sequence[Enclosure]) -> list[Enclosure]:
    """Return a function of numbers that are known: the interpreter's result, within the ULP that are allowed."""
    found = []
    for i, x in enumerate(e.nominal(operation, operands)):
        own = to_f64(x.value, x.element)
        part = x.element.part
        if not part.is_float:
            found.append(x)
            continue
        slack = 2 * e.allowed.ulps(part) * ulp_of(np.abs(own), computed_in(part))
        slack = np.where(np.isfinite(slack), slack, 0.0) * ((1 + 1j) if x.element.is_complex else 1)
        nan = np.isnan(own)
        found.append(e.finish(operation, operands, own - slack, own + slack, nan, value=x.value, index=i))
    return found


@rule("real", "imag", "complex", "chlo.conj")
def parts(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The parts of complex numbers, and numbers made of them."""
    name, bounds = operation.name.removeprefix("stablehlo."), _broadcast(operands)
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


# -- functions ---------------------------------------------------------------------------------------------------------

#: Functions that grow: the least number that they are of, and the greatest.
_GROWING: dict[str, tuple[float, float]] = {
    "sqrt": (0, np.inf), "cbrt": (-np.inf, np.inf), "exponential": (-np.inf, np.inf),
    "exponential_minus_one": (-np.inf, np.inf), "log": (0, np.inf), "log_plus_one": (-1, np.inf),
    "logistic": (-np.inf, np.inf), "tanh": (-np.inf, np.inf), "chlo.erf": (-np.inf, np.inf), "chlo.erf_inv": (-1, 1),
    "chlo.sinh": (-np.inf, np.inf), "chlo.asinh": (-np.inf, np.inf), "chlo.atan": (-np.inf, np.inf),
    "chlo.asin": (-1, 1), "chlo.atanh": (-1, 1), "chlo.acosh": (1, np.inf),
}  # fmt: skip
#: Functions that fall.
_FALLING: dict[str, tuple[float, float]] = {
    "rsqrt": (0, np.inf), "chlo.acos": (-1, 1), "chlo.erfc": (-np.inf, np.inf),
}  # fmt: skip
#: Functions of one number with rules of their own, in terms of the function itself.
_OTHERS = ("sine", "cosine", "tan", "chlo.tan", "chlo.cosh", "chlo.lgamma", "chlo.digamma", "chlo.bessel_i1e")


@rule(*_GROWING, *_FALLING, *_OTHERS)
def function(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function of one number."""
    (x,), name = operands, operation.name.removeprefix("stablehlo.")
    if not x.element.is_float:
        return function_of_points(e, operation, operands) if x.is_exact else None
    low, high, nan = x.bounds()
    only_nan = np.isnan(low)
    least, most = {**_GROWING, **_FALLING}.get(name, (-np.inf, np.inf))
    nan = nan | (low < least) | (high > most)
    only_nan = only_nan | (high < least) | (low > most)
    low, high = (np.clip(v, least, most) for v in (low, high))

    def at(v: np.ndarray) -> np.ndarray:
        return np.asarray(e.run_as(operation, [v], F64)[0])

    if name in _OTHERS and not (np.isnan(low) | (low == high)).all():
        if name.startswith(("chlo.lgamma", "chlo.digamma", "chlo.bessel")):
            return None
        ends = _periodic(name, low, high, at)
    else:
        ends = at(low), at(high)
    ends = (ends[1], ends[0]) if name in _FALLING else ends
    low, high = widen(*ends, e.allowed.ulps(x.element), computed_in(x.element))
    if name == "rsqrt":  # of -0, which subnormal numbers may be taken as
        low = np.where(x.bounds()[0] < 0, -np.inf, low)
    low, high, nan = _indefinite(low, high, nan, only_nan)
    return [e.finish(operation, operands, low, high, nan)]


def _periodic(name: str, low: np.ndarray, high: np.ndarray, at: Callable[[np.ndarray], np.ndarray]) -> Interval:
    """Return the range of an even or periodic function over intervals."""
    a, b = at(low), at(high)
    least, most = np.minimum(a, b), np.maximum(a, b)

    def crosses(point: float, period: float) -> np.ndarray:
        return np.floor((high - point) / period + 1e-9) > np.floor((low - point) / period - 1e-9)

    if name == "chlo.cosh":
        return np.where((low <= 0) & (high >= 0), 1.0, least), most
    if name in ("tan", "chlo.tan"):
        pole = crosses(math.pi / 2, math.pi) | ~np.isfinite(low - high)
        return np.where(pole, -np.inf, least), np.where(pole, np.inf, most)
    top = 0.0 if name == "cosine" else math.pi / 2
    wide = ~(high - low < _TAU) | (np.abs(low) > 1e15)
    most = np.where(wide | crosses(top, _TAU), 1.0, most)
    return np.where(wide | crosses(top + math.pi, _TAU), -1.0, least), most


@rule("power", "atan2", "remainder", "chlo.next_after", "chlo.polygamma", "chlo.zeta")
def binary_function(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function of two numbers: at the corners of the intervals, where it grows or falls in each."""
    x, y = operands
    name, element = operation.name.removeprefix("stablehlo."), x.element
    if not element.is_float:
        if not element.is_complex:
            return left_open(e, operation, operands)
        return function_of_points(e, operation, operands) if x.is_exact and y.is_exact else None
    if x.is_exact and y.is_exact:
        if name in ("remainder", "chlo.next_after"):
            return e.nominal(operation, operands)
        return function_of_points(e, operation, operands)
    (a, b, m), (c, d, n) = _broadcast(operands)
    only_nan = np.isnan(a) | np.isnan(c)

    def at(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.asarray(e.run_as(operation, [u, v], F64)[0])

    corners = [at(u, v) for u in (a, b) for v in (c, d)]
    low, high, nan = np.minimum.reduce(corners), np.maximum.reduce(corners), m | n
    if name == "power":
        whole = (c == d) & (np.floor(c) == c) & (c >= 0)
        even = whole & (np.fmod(c, 2) == 0) & (a <= 0) & (b >= 0)
        low = np.where(even, 0.0, low)
        unknown = ~((a > 0) | whole)
    elif name == "atan2":
        low, high = (
            np.where((a <= 0) & (b >= 0) & (c <= 0), -math.pi, low),
            np.where((a <= 0) & (b >= 0) & (c <= 0), math.pi, high),
        )
        unknown = np.zeros(a.shape, bool)
    elif name == "remainder":
        same = np.trunc(a / c) == np.trunc(b / c)
        same = same & (np.trunc(a / d) == np.trunc(b / d)) & (np.trunc(a / c) == np.trunc(a / d))
        size = np.minimum(np.maximum(np.abs(c), np.abs(d)), np.maximum(np.abs(a), np.abs(b)))
        low, high = np.where(same, low, np.where(a < 0, -size, 0.0)), np.where(same, high, np.where(b > 0, size, 0.0))
        unknown = ((c <= 0) & (d >= 0)) | ~np.isfinite(a) | ~np.isfinite(b)
        nan = nan | unknown
    else:
        return None
    low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    low, high = widen(low, high, e.allowed.ulps(element), computed_in(element))
    low, high, nan = _indefinite(low, high, nan, only_nan)
    return [e.finish(operation, operands, low, high, nan)]


# -- steps and conversions ---------------------------------------------------------------------------------------------


@rule("floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign")
def step(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A function that grows by steps: exact at both ends."""
    (x,) = operands
    if not x.element.is_float:
        return None
    low, high, nan = x.bounds()
    low, high = (np.asarray(e.run_as(operation, [v], F64)[0]) for v in (low, high))
    return [e.finish(operation, operands, low, high, nan, rounds=False)]


@rule("convert", "reduce_precision", "uniform_quantize", "uniform_dequantize")
def convert(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A conversion, which rounds: both ends are converted."""
    (x,), (result,) = operands, operation.results
    assert isinstance(result.type, TensorType)
    source, target = x.element, result.type.element
    if x.is_exact and holds_integers(source):
        return e.nominal(operation, operands)
    if operation.name.endswith(("quantize", "dequantize")):
        return _monotone(e, operation, x)
    if source.is_complex or target.is_complex:
        return None
    low, high, nan = x.bounds()
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
    low, high = np.trunc(low), np.trunc(high)
    most = float(2 ** (target.bits - (target.kind is Kind.SIGNED)))
    least = -most if target.kind is Kind.SIGNED else 0.0
    outside = ~((low >= least) & (high < most)) | nan | (np.abs(low) > MOST) | (np.abs(high) > MOST)
    since = merge_since([x], low.shape)
    if outside.any():
        own = np.where(outside, np.int32(e.cause(operation)), np.int32(0))
        since = own if since is None else np.where(since != 0, since, own)
    low, high = np.where(outside, 0.0, low), np.where(outside, 0.0, high)
    return [e.finish(operation, [x], low, high, np.zeros(low.shape, bool), since=since)]


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
    (a, b, m), (c, d, n) = _broadcast(operands)
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
    shape = x.value.shape
    low, high, _ = (np.broadcast_to(v, shape) for v in condition.bounds())
    since = [v.since for v in operands]
    joined = join(x, y)
    (a, b, m), (c, d, n) = x.bounds(), y.bounds()
    assert joined.low is not None
    found = []
    for first, second, both in zip((a, b, m), (c, d, n), (joined.low, joined.high, joined.nan), strict=True):
        assert both is not None
        found.append(np.where(low == 1, first, np.where(high == 0, second, both)))
    merged = None
    if any(s is not None for s in since):
        chosen = np.where(np.broadcast_to(condition.value, shape), causes_of(x), causes_of(y))
        either = np.maximum(causes_of(x), causes_of(y))
        merged = np.where(low == high, chosen, either)
        merged = np.where(causes_of(condition) != 0, np.broadcast_to(causes_of(condition), shape), merged).astype(
            np.int32
        )
    value = np.asarray(e.run(operation, [v.value for v in operands])[0])
    t = operation.results[0].type
    assert isinstance(t, TensorType)
    return [Enclosure(t, value, found[0], found[1], found[2].astype(bool), merged, e.causes)]


@rule("and", "or", "xor", "not")
def logic(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Logic of booleans."""
    if operands[0].element.kind is not Kind.BOOL:
        return None
    bounds, name = _broadcast(operands), operation.name.rpartition(".")[2]
    (a, b, _), (c, d, _) = bounds[0], bounds[-1]
    low, high = {
        "and": (np.minimum(a, c), np.minimum(b, d)),
        "or": (np.maximum(a, c), np.maximum(b, d)),
        "not": (1 - b, 1 - a),
        "xor": (np.where((a == b) & (c == d), a != c, 0.0), np.where((a == b) & (c == d), a != c, 1.0)),
    }[name]
    return [e.finish(operation, operands, low, high, np.zeros(low.shape, bool))]
