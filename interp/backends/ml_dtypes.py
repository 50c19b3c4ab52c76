"""ml_dtypes: numpy's functions on the types that JAX and others store minifloats in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .base import OPERATIONS, BackendError, Kind, Operate
from .codes import codes, typed

if TYPE_CHECKING:
    from ..conform.backend import Operation

KIND = Kind("ml_dtypes", packages=("ml_dtypes", "numpy"), takes=OPERATIONS)

#: StableHLO's name to numpy's function. Not here is what numpy has no function for, or one of another meaning: its sort
#: knows no total order, its round does not round away from zero.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "abs": np.absolute,
    "add": np.add,
    "atan2": np.arctan2,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cosine": np.cos,
    "divide": np.divide,
    "exponential": np.exp,
    "exponential_minus_one": np.expm1,
    "floor": np.floor,
    "is_finite": np.isfinite,
    "log": np.log,
    "log_plus_one": np.log1p,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negate": np.negative,
    "power": np.power,
    "remainder": np.fmod,
    "round_nearest_even": np.rint,
    "select": np.where,
    "sign": np.sign,
    "sine": np.sin,
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
}
_COMPARISONS = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}
_FOLDS = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def start(_: str) -> Operate:
    return operate


def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The codes of the result. Raises BackendError where numpy has no such function, TypeError where not for a type."""
    operands = [typed(a, t) for a, t in zip(arrays, operation.operands, strict=True)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return codes(np.asarray(_function(operation)(*operands)), operation.result)


def _function(operation: Operation) -> Callable[..., Any]:
    op, attributes = operation.op, operation.attributes
    if op == "convert":
        return lambda x: x.astype(ELEMENT_TYPES[operation.result].dtype)
    if op == "compare" and attributes.get("compare_type", "FLOAT") == "FLOAT":
        return _COMPARISONS[attributes["comparison_direction"]]
    if op == "reduce":
        return lambda x: _FOLDS[attributes["body"]].reduce(x, axis=-1)
    if op == "cumulative":
        return lambda x: _FOLDS[attributes["body"]].accumulate(x, axis=-1)
    if op == "dot_general":  # of these types matmul gives f32, dot the type itself
        return np.matmul if operation.result == "f32" else np.dot
    if op in FUNCTIONS:
        return FUNCTIONS[op]
    raise BackendError("refused", "numpy has no such function")
