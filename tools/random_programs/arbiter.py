"""A third opinion on elementary functions: mpmath, with as many digits as it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

from .compare import Case, epsilon, wide

#: Enough for tiny operands whose function cancels, and for huge ones that are reduced by multiples of pi.
_PRECISION = 2600
#: Beyond this the exponential of a number is no finite number and no zero of any type, and mpmath takes long.
_LARGEST_EXPONENT = 1e5
_MOST = 1000


#: What takes the exponential of its operands, or reduces them by multiples of pi.
_EXPONENTIAL = ("exponential", "exponential_minus_one", "logistic", "tanh", "tan", "sine", "cosine")


def _power(x: Any, y: Any) -> Any:
    if x == 0:
        raise ValueError("the limit depends on the way")
    exponent = y * mpmath.log(x)
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ValueError("out of every type's range, and slow")
    return mpmath.exp(exponent)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "cbrt": lambda x: mpmath.exp(mpmath.log(x) / 3) if x else x,
    "exponential": mpmath.exp,
    "exponential_minus_one": lambda x: mpmath.exp(x) - 1,
    "log": mpmath.log,
    "log_plus_one": lambda x: mpmath.log(1 + x),
    "logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "tanh": lambda x: 1 - 2 / (mpmath.exp(2 * x) + 1),
    "tan": mpmath.tan,
    "sine": mpmath.sin,
    "cosine": mpmath.cos,
    "atan2": lambda y, x: -1j * mpmath.log((x + 1j * y) / mpmath.sqrt(x * x + y * y)),
    "power": _power,
    "sign": lambda x: x / abs(x) if x else x,
    "abs": abs,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}


def sides_with_us(case: Case, left: np.ndarray) -> np.ndarray:
    """Tests for each element of `left` whether ours is near the exact result. False without one, or for too many."""
    result = np.zeros(left.shape, bool)
    function = _FUNCTIONS.get(case.step.short)
    if function is None or int(left.sum()) > _MOST:
        return result
    operands = [wide(case.inputs[case.step.inputs.index(v)]) for v in case.step.operands]
    for place in np.argwhere(left):
        at = tuple(int(i) for i in place)
        values = [complex(x[at]) for x in operands]
        finite = all(np.isfinite(v.real) and np.isfinite(v.imag) for v in values)
        result[at] = finite and _is_near(case, function, values, complex(wide(case.ours)[at]))
    return result


def _is_near(case: Case, function: Callable[..., Any], values: list[complex], ours: complex) -> bool:
    if case.step.short in _EXPONENTIAL and max(abs(v.real) + abs(v.imag) for v in values) > _LARGEST_EXPONENT:
        return False
    part = case.element.part.format
    largest, smallest = float(ml_dtypes.finfo(case.element.part.dtype).max), 2.0**part.min_exponent
    with mpmath.workprec(_PRECISION):
        try:
            exact = function(*(mpmath.mpmathify(v if v.imag else v.real) for v in values))
        except (ValueError, ZeroDivisionError):
            return False
        if abs(exact) > largest:
            return not (np.isfinite(ours.real) and np.isfinite(ours.imag)) or abs(ours) > largest / 2
        if not (np.isfinite(ours.real) and np.isfinite(ours.imag)):
            return False
        return bool(abs(exact - ours) <= 4 * epsilon(case.element) * abs(exact) + 2 * smallest)
