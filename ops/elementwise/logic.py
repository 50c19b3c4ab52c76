"""Logical operations on the bits of integers, and on booleans."""

from __future__ import annotations

import numpy as np

from ..op import EXACT
from ..traits import Combining, OpTraits
from .elementwise import elementwise


@elementwise("and", "bool integer", accuracy=EXACT, operands=2, traits=OpTraits(combining=Combining(np.bitwise_and)))
def and_(x, y):
    """Bitwise and."""
    return np.bitwise_and(x, y)


@elementwise("or", "bool integer", accuracy=EXACT, operands=2, traits=OpTraits(combining=Combining(np.bitwise_or)))
def or_(x, y):
    """Bitwise or."""
    return np.bitwise_or(x, y)


@elementwise("xor", "bool integer", accuracy=EXACT, operands=2, traits=OpTraits(combining=Combining(np.bitwise_xor)))
def xor(x, y):
    """Bitwise exclusive or."""
    return np.bitwise_xor(x, y)


@elementwise("not", "bool integer", accuracy=EXACT)
def not_(x):
    """Bitwise complement."""
    return np.invert(x)
