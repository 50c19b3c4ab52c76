"""The one definition of an equal result: the same code, or both NaN."""

from __future__ import annotations

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import type_of_dtype
from ..oracle.formats import FORMATS


def equal_codes(element: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compares codes of an element type: equal, or both NaN.

    Args:
        element: the name of the element type. Integers and booleans have no NaN.
        a: codes, of any shape.
        b: codes of the same type, of a shape that broadcasts with that of `a`.

    Returns:
        bool, of the broadcast shape. -0 and +0 are different codes.
    """
    equal = np.asarray(a == b)
    if element in FORMATS:
        fmt = FORMATS[element]
        equal = equal | (fmt.is_nan(a) & fmt.is_nan(b))
    return equal


def equal_values(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`equal_codes` of typed arrays of one dtype; complex numbers are equal if both parts are."""
    element = type_of_dtype(x.dtype)
    if element.is_complex:
        return equal_values(np.real(x), np.real(y)) & equal_values(np.imag(x), np.imag(y))
    if not element.is_float:
        return np.asarray(x == y)
    codes = (codes_of(np.asarray(v, order="C"), element.format) for v in (x, y))
    return equal_codes(element.name, *codes)
