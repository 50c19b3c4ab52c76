"""Quotients and remainders of integers, truncated."""

from __future__ import annotations

import numpy as np


def divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The truncated quotient; by zero all bits set (as XLA), and of the smallest by -1 the smallest."""
    is_zero = np.equal(y, 0)
    if is_zero.any():
        return np.where(is_zero, ~np.zeros_like(y), _quotient(x, np.where(is_zero, np.ones_like(y), y)))
    return _quotient(x, y)


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The remainder of truncated division, with the sign of the dividend; by zero the dividend (as XLA)."""
    is_zero = np.equal(y, 0)
    if is_zero.any():
        return np.where(is_zero, x, remainder(x, np.where(is_zero, np.ones_like(y), y)))
    return x - _quotient(x, y) * y


def _quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    floored = x // y
    if x.dtype.kind == "u":
        return floored
    return floored + (((x < 0) != (y < 0)) & (floored * y != x))
