"""Maximum and minimum."""

from __future__ import annotations

import functools

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
    if x.dtype.kind == "c":
        return _complex_extreme(choose is np.maximum, x, y)
    result = np.asarray(choose(x, y))
    if y.size and not any(y.strides) and y[(0,) * y.ndim] != 0:
        return result  # beside one number that is not zero, no two zeros meet
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


_COMPLEX = "complex numbers lexicographically; of booleans"
for _name, _choose, _choose_zero, _of_booleans, _direct, _doc in (
    ("maximum", np.maximum, np.bitwise_and, np.logical_or, arithmetic.maximum,
     f"The larger; NaN if either is NaN, +0 above -0; {_COMPLEX}, or."),
    ("minimum", np.minimum, np.bitwise_or, np.logical_and, arithmetic.minimum,
     f"The smaller; NaN if either is NaN, -0 below +0; {_COMPLEX}, and."),
):  # fmt: skip
    elementwise(
        _name,
        "bool integer float complex",
        accuracy=EXACT,
        operands=2,
        direct=_direct,
        integer=_choose,
        boolean=_of_booleans,
        doc=_doc,
        traits=OpTraits(Combining(_choose, _of_booleans, largest=_choose is np.maximum), selects_operand=True),
    )(functools.partial(_extreme, _choose, _choose_zero))
