"""Libraries of functions on arrays: maps StableHLO's names to those of numpy and libraries with its interface."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from .base import BackendError
from .operation import Operation

#: The numpy function of an op, with its attributes if it has some. Ops are absent if numpy has no function or one of
#: another meaning: its sort has no total order, and its round does not round halves away from zero.
NUMPY: Mapping[str, str] = {
    **{name: name for name in ("abs", "add", "cbrt", "ceil", "divide", "floor", "log", "maximum", "minimum")},
    **{name: name for name in ("multiply", "sign", "sqrt", "subtract", "tan", "tanh", "power")},
    "atan2": "arctan2",
    "cosine": "cos",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "is_finite": "isfinite",
    "log_plus_one": "log1p",
    "negate": "negative",
    "remainder": "fmod",
    "round_nearest_even": "rint",
    "select": "where",
    "sine": "sin",
    "compare_EQ": "equal",
    "compare_NE": "not_equal",
    "compare_GE": "greater_equal",
    "compare_GT": "greater",
    "compare_LE": "less_equal",
    "compare_LT": "less",
    **{f"reduce_{f}": f"{f}.reduce" for f in ("add", "multiply", "maximum", "minimum")},
    **{f"cumulative_{f}": f"{f}.accumulate" for f in ("add", "multiply", "maximum", "minimum")},
}


def function(library: Any, names: Mapping[str, str], operation: Operation) -> Callable[..., Any]:
    """Return the function of a library for an operation, by a table such as NUMPY. Raises BackendError if it has none.

    Reductions are along the last dimension, which is the second argument of the function.
    """
    name = "_".join([operation.op, *(v for v in operation.attributes.values() if v != "FLOAT")])
    if name not in names:
        raise BackendError("refused", f"{library.__name__} has no such function")
    result = operator.attrgetter(names[name])(library)
    return (lambda x: result(x, -1)) if operation.op in ("reduce", "cumulative") else result
