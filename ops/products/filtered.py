"""Exact sums of products by way of sums in f64: most are known by their error bound, and the others are formed exactly.

A sum in f64, in any order, is off by less than (k + 1) * 2**-53 times the product of the norms of its row and column.
Where both ends of that interval round to the same number of the result's type, the exact sum does. So does a sum whose
terms are multiples of one unit that is not too small: f64 holds it and all of its parts. The few others are added up
exactly, and rounded once.
"""

from __future__ import annotations

import math

import numpy as np

from ..cast import cast
from ..engine import gemm
from ..policy import Policy
from ..types import ELEMENT_TYPES, ElementType

_F64 = ELEMENT_TYPES["f64"]
#: Of more sums than this share it is quicker to form all exactly: one by itself takes as long as 500 of them.
_MOST = 1 / 500
#: 2**27 + 1 parts a number of f64 into halves of 26 bits (Dekker).
_SPLITTER = 134217729.0


def product(x: np.ndarray, y: np.ndarray, result: ElementType, policy: Policy) -> np.ndarray | None:
    """The exact products of matrices, rounded once to nearest even.

    Args:
        x: f64 (batch, M, K), of magnitudes from 2**-450 to 2**450, or zero, infinite or NaN.
        y: f64 (batch, K, N), of the same.
        result: a float type of less than 53 bits of mantissa.
        policy: its `overflow` applies; its `rounding` must be `nearest_even`.

    Returns:
        (batch, M, N) of the result's type. None where a number is not finite, or where many sums are too near to a
        border between two results.
    """
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("bmk,bmk->bm", x, x)), np.sqrt(np.einsum("bkn,bkn->bn", y, y))
    if not x.size or not y.size or not all(np.isfinite(n).all() for n in norms):
        return None
    sums = gemm.product(x, y)
    # One rounding of each product, K - 1 of sums, and those of the bounds themselves.
    share = (x.shape[2] + 8) * 2.0**-53
    off = (norms[0] * share)[:, :, None] * norms[1][:, None, :]
    low = cast(sums - off, _F64, result, policy)
    high = cast(sums + off, _F64, result, policy)
    code = np.dtype(f"u{result.dtype.itemsize}")
    doubtful = np.flatnonzero(low.view(code) != high.view(code))
    most = max(low.size * _MOST, 4)
    if doubtful.size > most:  # sums of numbers of few bits lie on borders, and are exact in f64
        units = _units(x).min(axis=2), _units(y).min(axis=1)
        b, m, n = np.unravel_index(doubtful, low.shape)
        is_exact = units[0][b, m] * units[1][b, n] * 2.0**52 >= norms[0][b, m] * norms[1][b, n]
        b, m, n = b[is_exact], m[is_exact], n[is_exact]
        low[b, m, n] = cast(sums[b, m, n], _F64, result, policy)
        doubtful = doubtful[~is_exact]
    if doubtful.size > most:
        return None
    if doubtful.size:
        b, m, n = np.unravel_index(doubtful, low.shape)
        exact = np.array([_exact(x[i, j], y[i, :, k]) for i, j, k in zip(b, m, n, strict=True)])
        low[b, m, n] = cast(exact, _F64, result, policy)
    return low


def _units(x: np.ndarray) -> np.ndarray:
    """Of each number the value of its lowest bit; of zero an infinity."""
    size = np.abs(x)
    bits = size.view(np.uint64)
    without = (bits & (bits - np.uint64(1))).view(np.float64)  # the lowest bit of the mantissa is cleared
    is_power = bits & np.uint64((1 << 52) - 1) == 0
    return np.where(is_power, np.where(size == 0, np.inf, size), size - without)


def _exact(x: np.ndarray, y: np.ndarray) -> float:
    """An exact sum of products, rounded to odd in f64, so that it can be rounded once more."""
    products = x * y
    (xh, xl), (yh, yl) = _halves(x), _halves(y)
    rest = ((xh * yh - products) + xh * yl + xl * yh) + xl * yl
    terms = [*products.tolist(), *rest.tolist()]
    near = math.fsum(terms)
    beyond = math.fsum([*terms, -near])
    if beyond and not int(np.float64(near).view(np.uint64)) & 1:
        return math.nextafter(near, math.copysign(math.inf, beyond))
    return near


def _halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scaled = x * _SPLITTER
    high = scaled - (scaled - x)
    return high, x - high
