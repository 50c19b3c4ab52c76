"""Logical operations on the bits of integers, and on booleans."""

from __future__ import annotations

import operator

import numpy as np

from ..engine.fast import opcodes
from ..op import EXACT
from ..traits import Combining, OpTraits, Packed, Scalar
from .elementwise import elementwise


@elementwise(
    "and",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.bitwise_and),
        of_bits=operator.and_,
        scalar=Scalar("{0} & {1}", boolean="{0} and {1}"),
        packed=Packed("{0} & {1}", clears=True),
        compiled=opcodes.AND,
        compiled_words=(opcodes.AND, opcodes.AND),
    ),
)
def and_(x, y, out=None):
    """Bitwise and."""
    return np.bitwise_and(x, y, out)


@elementwise(
    "or",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.bitwise_or),
        of_bits=operator.or_,
        scalar=Scalar("{0} | {1}", boolean="{0} or {1}"),
        packed=Packed("{0} | {1}"),
        compiled=opcodes.OR,
        compiled_words=(opcodes.OR, opcodes.OR),
    ),
)
def or_(x, y, out=None):
    """Bitwise or."""
    return np.bitwise_or(x, y, out)


@elementwise(
    "xor",
    "bool integer",
    accuracy=EXACT,
    operands=2,
    has_out=True,
    traits=OpTraits(
        combining=Combining(np.bitwise_xor),
        of_bits=operator.xor,
        scalar=Scalar("{0} ^ {1}", boolean="{0} != {1}"),
        packed=Packed("{0} ^ {1}"),
        compiled=opcodes.XOR,
        compiled_words=(opcodes.XOR, opcodes.XOR),
    ),
)
def xor(x, y, out=None):
    """Bitwise exclusive or."""
    return np.bitwise_xor(x, y, out)


@elementwise(
    "not",
    "bool integer",
    accuracy=EXACT,
    traits=OpTraits(
        scalar=Scalar("~{0}", True, "not {0}"),
        packed=Packed("{0} ^ {M}"),
        compiled=opcodes.NOT,
        compiled_words=(opcodes.NOT, opcodes.NOT),
    ),
)
def not_(x):
    """Bitwise complement."""
    return np.invert(x)
