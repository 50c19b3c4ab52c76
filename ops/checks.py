"""The check dialect: ops that compare values and fail; and how far apart two values are, in units in the last place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .compare import value_keys
from .registry import CheckError, Call, Kernel, OpError, op
from .types import ElementType, type_of_dtype

#: The distance of values of which one is not finite; also what the ops' attributes mean by it.
INFINITELY_FAR = (1 << 64) - 1

#: The tolerance of expect_almost_eq where none is given.
_TOLERANCE = 1e-4

#: Whether each actual element is as expected.
Agree = Callable[[np.ndarray, np.ndarray], np.ndarray]


@op("check.expect_eq", values="checks", operands=2, has_effects=True)
def expect_eq(call: Call) -> Kernel:
    """Fails unless the operands are equal element by element: -0 equals 0, and NaN equals nothing."""
    return _of_two(call, equal)


@op("check.expect_eq_const", values="checks", operands=1, has_effects=True)
def expect_eq_const(call: Call) -> Kernel:
    """Fails unless the operand equals the attribute `value`, as check.expect_eq."""
    return _of_constant(call, equal)


@op("check.expect_almost_eq", values="checks", operands=2, has_effects=True)
def expect_almost_eq(call: Call) -> Kernel:
    """Fails unless the operands differ by at most `tolerance` (1e-4); NaN is near NaN, an infinity near itself."""
    return _of_two(call, _within_tolerance(call))


@op("check.expect_almost_eq_const", values="checks", operands=1, has_effects=True)
def expect_almost_eq_const(call: Call) -> Kernel:
    """Fails unless the operand is near the attribute `value`, as check.expect_almost_eq."""
    return _of_constant(call, _within_tolerance(call))


@op("check.expect_close", values="checks", operands=2, has_effects=True)
def expect_close(call: Call) -> Kernel:
    """Fails unless the operands are from `min_ulp_difference` (0) to `max_ulp_difference` units in the last place apart.

    Equal numbers are 0 apart, as are two NaN; any other pair that is not finite is 2**64 - 1 apart. Of complex numbers
    the part that differs more counts.
    """
    least = int(call.attributes.get("min_ulp_difference", 0)) % 2**64
    most = int(call.attribute("max_ulp_difference")) % 2**64
    return _of_two(call, ulps_between(least, most))


def _of_two(call: Call, agree: Agree) -> Kernel:
    actual, expected = call.tensor(0), call.tensor(1)
    if actual.element != expected.element:
        raise OpError(f"operands are {actual} and {expected} (would be of one type)")

    def kernel(actual: np.ndarray, expected: np.ndarray) -> tuple[()]:
        check(actual, expected, agree)
        return ()

    return kernel


def _of_constant(call: Call, agree: Agree) -> Kernel:
    actual, value = call.tensor(), call.attribute("value")
    if not isinstance(value, np.ndarray) or value.dtype != actual.element.dtype:
        raise OpError(f"attribute 'value' is not a constant of element type {actual.element}")

    def kernel(actual: np.ndarray) -> tuple[()]:
        check(actual, value, agree)
        return ()

    return kernel


def _within_tolerance(call: Call) -> Agree:
    return almost_equal(float(call.attributes.get("tolerance", _TOLERANCE)))


# -- when values agree -----------------------------------------------------------------------------------------------


def equal(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Where the values are equal: -0 equals 0, and NaN equals nothing."""
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return equal(x.real, y.real) & equal(x.imag, y.imag)
    if not element.is_float:
        return x == y
    keys = value_keys(x, element)
    return (keys == value_keys(y, element)) & ~is_nan(x, element)


def almost_equal(tolerance: float) -> Agree:
    """Where the values differ by at most `tolerance`, computed in f64; NaN is near NaN, an infinity near itself."""

    def agree(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        element = type_of_dtype(x.dtype)
        if element.is_complex:
            return agree(x.real, y.real) & agree(x.imag, y.imag)
        if not element.is_float:
            return ulp_distance(x, y) <= tolerance
        same = value_keys(x, element) == value_keys(y, element)
        return same | (np.abs(x.astype(np.float64) - y.astype(np.float64)) <= tolerance)

    return agree


def ulps_between(least: int, most: int) -> Agree:
    """Where the values are from `least` to `most` units in the last place apart."""

    def agree(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        distance = ulp_distance(x, y)
        return (np.uint64(least) <= distance) & (distance <= np.uint64(most))

    return agree


def ulp_distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many steps to the neighbouring number lead from x to y, as uint64; integers: their difference.

    -0 and 0 are 0 apart, as are two NaN; any other pair that is not finite and not equal is INFINITELY_FAR apart. Of
    complex numbers the larger distance of their parts.
    """
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return np.maximum(ulp_distance(x.real, y.real), ulp_distance(x.imag, y.imag))
    keys = [value_keys(v, element) for v in (x, y)]
    wide = np.uint64 if keys[0].dtype.kind == "u" else np.int64
    first, second = (np.asarray(k.astype(wide)) for k in keys)
    # The difference of 64-bit integers may not fit their type; modulo 2**64 it is right.
    distance = np.maximum(first, second).view(np.uint64) - np.minimum(first, second).view(np.uint64)
    if not element.is_float:
        return distance
    far = (first != second) & ~(is_finite(x, element) & is_finite(y, element))
    return np.where(far, np.uint64(INFINITELY_FAR), distance)
