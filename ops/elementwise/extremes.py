"""Maximum and minimum."""

from __future__ import annotations

import numpy as np

from ..minifloat import arithmetic
from ..op import EXACT
from ..traits import Combining, OpTraits
from .elementwise import elementwise

_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def _extreme(choose: np.ufunc, choose_zero: np.ufunc, x, y):
    """numpy's maximum or minimum, with -0 below +0 as IEEE 754-2019 section 9.6 asks.

    Equal numbers have equal bits unless they are zeros of unlike sign: `choose_zero` gives the bits of both.
    """
    result = np.asarray(choose(x, y))
    bits = _BITS[result.itemsize]
    loser = 1 << 8 * result.itemsize - 1 if choose is np.maximum else 0
    if (result.view(bits) == loser).any():
        result = np.where(x == y, choose_zero(x.view(bits), y.view(bits)).view(result.dtype), result)
    return result


def _complex_extreme(largest: bool, x, y):
    """Complex numbers in lexicographic order; NaN in any part makes that operand the result."""
    before = (x.real < y.real) | ((x.real == y.real) & (x.imag < y.imag))
    take_y = (before if largest else ~before & (x != y)) & ~np.isnan(x)
    return np.where(take_y | (np.isnan(y) & ~np.isnan(x)), y, x)


@elementwise(
    "maximum",
    "bool integer float complex",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.maximum,
    boolean=np.logical_or,
    integer=np.maximum,
    traits=OpTraits(combining=Combining(np.maximum, np.logical_or, largest=True), selects_operand=True),
)
def maximum(x, y):
    """The larger; NaN if either is NaN, +0 above -0; complex numbers lexicographically; of booleans, or."""
    return _complex_extreme(True, x, y) if x.dtype.kind == "c" else _extreme(np.maximum, np.bitwise_and, x, y)


@elementwise(
    "minimum",
    "bool integer float complex",
    accuracy=EXACT,
    operands=2,
    direct=arithmetic.minimum,
    boolean=np.logical_and,
    integer=np.minimum,
    traits=OpTraits(combining=Combining(np.minimum, np.logical_and, largest=False), selects_operand=True),
)
def minimum(x, y):
    """The smaller; NaN if either is NaN, -0 below +0; complex numbers lexicographically; of booleans, and."""
    return _complex_extreme(False, x, y) if x.dtype.kind == "c" else _extreme(np.minimum, np.bitwise_or, x, y)
