"""Between codes and the arrays of a library: what backends that take operations share."""

from __future__ import annotations

import numpy as np

from ...ops.types import ELEMENT_TYPES, ElementType, Kind


def code_dtype(t: ElementType) -> np.dtype:
    """The numpy type of codes: bool, or the unsigned integer of the width that stores the type."""
    return t.dtype if t.kind is Kind.BOOL else np.dtype(f"u{t.dtype.itemsize}")


def typed(codes: np.ndarray, name: str) -> np.ndarray:
    """Codes as an array of the element type, in numpy's or ml_dtypes' terms, with the strides that they have."""
    return codes.view(ELEMENT_TYPES[name].dtype)


def codes(array: np.ndarray, name: str) -> np.ndarray:
    """The codes of an array of the element type. Raises TypeError where it is of another."""
    t = ELEMENT_TYPES[name]
    if array.dtype != t.dtype:
        raise TypeError(f"expected a result of {t.dtype}, got {array.dtype}")
    return np.ascontiguousarray(array).view(code_dtype(t)).reshape(array.shape)
