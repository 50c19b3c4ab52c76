"""CHLO's special functions for minifloats, correctly rounded; wider types are left to the expansion CHLO defines.

numpy has none of these functions. Where the policy asks for arithmetic in a wider type, the exact one rounded to that
type takes the place of the host's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..cast import array_of, codes_of
from ..minifloat import special
from ..minifloat.codec import decode, round_number
from ..minifloat.number import Number
from ..op import ROUNDED_TO_32
from ..policy import Policy
from ..types import type_of_dtype
from .elementwise import elementwise


def _declare(name: str, meaning: str, direct: Callable[..., Number], operands: int = 1) -> None:
    def host(*arrays: np.ndarray) -> np.ndarray:
        fmt = type_of_dtype(arrays[0].dtype).format
        numbers = (decode(codes_of(x, fmt), fmt) for x in np.broadcast_arrays(*arrays))
        return array_of(round_number(direct(*numbers), fmt, Policy()), fmt)

    host.__doc__ = meaning
    elementwise(f"chlo.{name}", "minifloat", accuracy=ROUNDED_TO_32, operands=operands, direct=direct)(host)


_declare("erf", "The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0.", special.erf)
_declare("erfc", "One minus the error function, accurate where that is near one.", special.erfc)
_declare("erf_inv", "The inverse of the error function; NaN beyond -1 and 1.", special.erf_inv)
_declare("lgamma", "The logarithm of the gamma function's absolute value; +infinity at its poles.", special.lgamma)
_declare("digamma", "The derivative of the logarithm of the gamma function; NaN at its poles.", special.digamma)
_declare("bessel_i1e", "The modified Bessel function of order 1, divided by exp(|x|).", special.bessel_i1e)
_declare("polygamma", "The n-th derivative of digamma; NaN unless n is an integer of 0 or more.", special.polygamma, 2)
_declare("zeta", "Hurwitz's zeta function, the sum of (q + k)**-x over k >= 0; NaN for x < 1.", special.zeta, 2)
