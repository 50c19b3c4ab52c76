"""Libraries of functions on arrays: StableHLO's names to those that numpy and what is made like it have for them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .base import BackendError

if TYPE_CHECKING:
    from .operation import Operation

#: An op, with its attributes if it has some, to a name of numpy's. Not here is what numpy has no function for, or one
#: of another meaning: its sort knows no total order, its round does not round away from zero.
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
    """What a library has for an operation, by a table such as NUMPY. Raises BackendError where the table has nothing.

    Folds are along the last dimension, which is the second argument of the function.
    """
    name = "_".join([operation.op, *(v for v in operation.attributes.values() if v != "FLOAT")])
    if name not in names:
        raise BackendError("refused", f"{library.__name__} has no such function")
    result = operator.attrgetter(names[name])(library)
    return (lambda x: result(x, -1)) if operation.op in ("reduce", "cumulative") else result
