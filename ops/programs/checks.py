"""The check dialect: ops that compare values and fail; and how far apart two values are, in units in the last place."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..op import Call, CheckError, OpError, Run, op
from ..ordering import value_keys
from ..types import type_of_dtype

#: The distance of values of which one is not finite; also what the ops' attributes mean by it.
INFINITELY_FAR = (1 << 64) - 1

#: The tolerance of expect_almost_eq where none is given.
TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Condition:
    """What a check asks of each pair of elements, the actual and the expected one."""

    holds: Callable[[np.ndarray, np.ndarray], np.ndarray]
    requirement: str  #: what the pair must be


@op("check.expect_close", values="checks", operands=2, has_effects=True)
def expect_close(call: Call) -> Run:
    """Fails unless the operands are `min_ulp_difference` (0) to `max_ulp_difference` units in the last place apart.

    Equal numbers are 0 apart, as are two NaN; any other pair that is not finite is 2**64 - 1 apart. Of complex numbers
    the part that differs more counts.
    """
    least = int(call.attributes.get("min_ulp_difference", 0)) % 2**64
    most = int(call.attribute("max_ulp_difference")) % 2**64
    return _of_two(call, ulps_between(least, most))


def _of_two(call: Call, condition: Condition) -> Run:
    actual, expected = call.tensor(0), call.tensor(1)
    if actual.element != expected.element:
        raise OpError(f"operands are {actual} and {expected} (expected the same type)")
    return lambda actual, expected: check(actual, expected, condition)


def _declare(name: str, condition_of: Callable[[Call], Condition], of_two: str, of_one: str) -> None:
    """Declare a check of two operands, and one of an operand and a constant."""

    def bind(call: Call) -> Run:
        return _of_two(call, condition_of(call))

    def bind_constant(call: Call) -> Run:
        actual, value, condition = call.tensor(), call.attribute("value"), condition_of(call)
        if not isinstance(value, np.ndarray) or value.dtype != actual.element.dtype:
            got = getattr(value, "dtype", value)
            raise OpError(f"expected a constant of element type {actual.element} as value, got {got}")
        return lambda actual: check(actual, value, condition)

    bind.__doc__ = f"Fails unless the operands {of_two}"
    bind_constant.__doc__ = f"Fails unless the operand {of_one} the attribute `value`, as check.{name}."
    op(f"check.{name}", values="checks", operands=2, has_effects=True)(bind)
    op(f"check.{name}_const", values="checks", operands=1, has_effects=True)(bind_constant)


_declare("expect_eq", lambda _: EQUAL, "are equal element by element: -0 equals 0, and NaN equals nothing.", "equals")
_declare(
    "expect_almost_eq",
    lambda call: within(float(call.attributes.get("tolerance", TOLERANCE))),
    "differ by at most `tolerance` (1e-4); NaN is near NaN, an infinity near itself.",
    "is near",
)


def check(actual: np.ndarray, expected: np.ndarray, condition: Condition) -> tuple[()]:
    """The results of a check, none.

    Raises CheckError, which names the first pair of elements for which the condition does not hold.
    """
    if actual.shape != expected.shape:
        raise CheckError(f"shape {list(actual.shape)} where {list(expected.shape)} is expected")
    with np.errstate(all="ignore"):
        differs = ~np.asarray(condition.holds(actual, expected))
    if not differs.any():
        return ()
    places = np.argwhere(differs)
    at = tuple(places[0].tolist())
    got, wanted = actual[at], expected[at]
    where = f"element {list(at)}: " if at else ""
    count = f"; {len(places)} of {differs.size} elements" if at else ""
    pair = f"got {_element_text(got)}, expected {_element_text(wanted)}"
    # A pair that is 0 apart and not equal is NaN.
    apart = _distance(got, wanted) or ("NaN equals nothing" if condition is EQUAL else "0 ULP apart")
    raise CheckError(f"{where}{pair}, {apart} (must be {condition.requirement}){count}")


def _element_text(x: Any) -> str:
    """An element: its number and, of a float, its code."""
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return f"({_element_text(x.real)}, {_element_text(x.imag)})"
    if not element.is_float:
        return str(x)
    code = int(x.view(element.format.code_dtype))
    number = str(x) if element.bits > 16 else repr(float(x))
    return f"0x{code:0{-(-element.bits // 4)}X} = {number.removesuffix('.0')}"


def _distance(x: Any, y: Any) -> str:
    """How far apart two elements are, "" where they are not."""
    element = type_of_dtype(x.dtype)
    distance = int(ulp_distance(x, y))
    if distance == 0:
        return ""
    if not (element.is_float or element.is_complex):
        return f"{distance} apart"
    return "not comparable" if distance == INFINITELY_FAR else f"{distance} ULP apart"


EQUAL = Condition(np.equal, "equal")


def within(tolerance: float) -> Condition:
    """That values differ by at most `tolerance`, computed in f64; NaN is near NaN, an infinity near itself."""

    def holds(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        element = type_of_dtype(x.dtype)
        if element.is_complex:
            return holds(np.real(x), np.real(y)) & holds(np.imag(x), np.imag(y))
        if not element.is_float:
            return ulp_distance(x, y) <= tolerance
        same = value_keys(x, element) == value_keys(y, element)
        return same | (np.abs(x.astype(np.float64) - y.astype(np.float64)) <= tolerance)

    return Condition(holds, f"at most {tolerance:g} apart")


def ulps_between(least: int, most: int) -> Condition:
    """That values are from `least` to `most` units in the last place apart."""

    def holds(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        distance = ulp_distance(x, y)
        return (np.uint64(least) <= distance) & (distance <= np.uint64(most))

    return Condition(holds, f"{least} to {most} ULP apart")


def ulp_distance(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How many steps from number to neighbouring number lead from x to y, as uint64; of integers, their difference.

    -0 and 0 are 0 apart, as are two NaN; any other pair that is not finite and not equal is INFINITELY_FAR apart. Of
    complex numbers the larger distance of their parts.
    """
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return np.maximum(ulp_distance(np.real(x), np.real(y)), ulp_distance(np.imag(x), np.imag(y)))
    keys = value_keys(x, element), value_keys(y, element)
    wide = np.uint64 if keys[0].dtype.kind == "u" else np.int64
    first, second = (k.astype(wide) for k in keys)
    # The difference of 64-bit integers may not fit their type; modulo 2**64 it is right.
    with np.errstate(over="ignore"):
        distance = np.maximum(first, second).astype(np.uint64) - np.minimum(first, second).astype(np.uint64)
    if not element.is_float:
        return distance
    largest = element.format.max_code
    finite = (abs(first) <= largest) & (abs(second) <= largest)
    return np.where((first == second) | finite, distance, np.uint64(INFINITELY_FAR))
