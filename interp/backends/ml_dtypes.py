"""ml_dtypes: numpy's functions on the types that JAX and others store minifloats in."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .base import OPERATIONS, Kind, Operate
from .codes import codes, dtype_of, to_typed
from .functions import NUMPY, function
from .operation import Operation

KIND = Kind("ml_dtypes", packages=("ml_dtypes", "numpy"), takes=OPERATIONS)


def start(_: str) -> Operate:
    """Return the function that computes one operation by numpy on ml_dtypes' types."""
    return operate


def operate(operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the codes of the result. Raises BackendError for a missing function, TypeError for a missing type."""
    operands = [to_typed(a, t) for a, t in zip(arrays, operation.operands, strict=True)]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return codes(np.asarray(_function(operation)(*operands)), operation.result)


def _function(operation: Operation) -> Callable[..., Any]:
    if operation.op == "convert":
        return lambda x: x.astype(dtype_of(operation.result))
    if operation.op == "dot_general":  # matmul gives f32 for these types, dot the type itself
        return np.matmul if operation.result == "f32" else np.dot
    return function(np, NUMPY, operation)
