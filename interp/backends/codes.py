"""Converts between codes and the arrays of a library, for backends that compute operations."""

from __future__ import annotations

import numpy as np

from ...ops.types import ELEMENT_TYPES, ElementType, Kind


def code_dtype(t: ElementType) -> np.dtype:
    """Return the numpy type of codes: bool, or the unsigned integer of the width that stores the type."""
    return t.dtype if t.kind is Kind.BOOL else np.dtype(f"u{t.dtype.itemsize}")


def dtype_of(name: str) -> np.dtype:
    """Return the dtype of numpy or ml_dtypes for an element type. Raises TypeError where they have none."""
    if not ELEMENT_TYPES[name].has_dtype:
        raise TypeError(f"numpy and ml_dtypes have no type for {name}")
    return ELEMENT_TYPES[name].dtype


def to_typed(codes: np.ndarray, name: str) -> np.ndarray:
    """Return codes as an array of the dtype of the element type, with the same strides. Raises TypeError as above."""
    return codes.view(dtype_of(name))


def codes(array: np.ndarray, name: str) -> np.ndarray:
    """Return the codes of an array of the element type. Raises TypeError for another dtype."""
    t = ELEMENT_TYPES[name]
    if array.dtype != dtype_of(name):
        raise TypeError(f"expected a result of {t.dtype}, got {array.dtype}")
    return np.ascontiguousarray(array).view(code_dtype(t)).reshape(array.shape)
