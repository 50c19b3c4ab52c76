"""What is known of every use of an op, as immutable data."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

#: A function of a program's values: numpy arrays, tuples, None for a token. With one result it returns that value, else
#: a tuple of them. Of an op with regions it takes a tuple of functions first, one for each region.
Run = Callable[..., Any]

#: The sizes of each of some tensors.
Shapes = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Combining:
    """An op of two operands of one type as numpy's own function, for reductions and scatter updates.

    Attributes:
        ufunc: Gives the op's bits on integers of 8 bits and more.
        of_booleans: The same on booleans; None where `ufunc` does.
        any_order: Whether integers and booleans can be combined in any order.
        on_floats: Whether `ufunc` gives the op's bits on f32 and f64.
        largest: Whether of floats the largest or the smallest is chosen; None of other ops.
    """

    ufunc: np.ufunc
    of_booleans: np.ufunc | None = None
    any_order: bool = True
    on_floats: bool = False
    largest: bool | None = None


class Effects(enum.Enum):
    """What an op exchanges values with, besides its operands and results."""

    NOTHING = enum.auto()
    PROCESSES = enum.auto()  #: the other processes of its program
    OUTSIDE = enum.auto()  #: the host, or files


class RegionSemantics(enum.Enum):
    """How an op runs its regions."""

    ELEMENTS = enum.auto()  #: on elements, or on pairs of them, as often as `OpTraits.body_runs` says
    LOOP = enum.auto()  #: a condition and a body, until the condition is false
    ONE = enum.auto()  #: one of them, once
    ALL = enum.auto()  #: each of them once


@dataclasses.dataclass(frozen=True)
class OpTraits:
    """What is known of every use of an op, so that programs can be rearranged around it. Nothing by default.

    Attributes:
        combining: The op as numpy's own function.
        selects_operand: The result is one of the operands as it is.
        is_pure: The result depends on the operands alone, and takes a time that the types determine: no loop, no random
            bits, no other process, no code of the user. Elementwise ops are pure.
        keeps_bits: The op reads the operand's bits as another type, element by element if both types are equally wide.
        overwrites: The operand of which the result is a changed copy; its kernel may write over it (`Call.spare`).
        effects: What it exchanges values with. An op with such effects has `Op.has_effects` too.
        is_call: The op is a call of the function that its first attribute of `Op.calls` names, and nothing else.
        regions: How its regions are run.
        body_runs: How often it runs a region of `RegionSemantics.ELEMENTS`, by the shapes of its operands and results
            and by its attributes. By default once for each element of the operands or of the results, whichever are
            more.
        folds: Its region combines elements in an order that the implementation may choose.
        terms: How many products are summed for each element of the result, by the shapes of its operands and by its
            attributes. None of an op that sums no products.
        linear: The operands in which the op is linear together, by the number of all; of an op with a region, if the
            region adds. Rounding is left out of account. None of other ops.
        is_bilinear: The op is linear in each of its two operands.
    """

    combining: Combining | None = None
    selects_operand: bool = False
    is_pure: bool = False
    keeps_bits: bool = False
    overwrites: int | None = None
    effects: Effects = Effects.NOTHING
    is_call: bool = False
    regions: RegionSemantics = RegionSemantics.ELEMENTS
    body_runs: Callable[[Shapes, Shapes, Mapping[str, Any]], float] | None = None
    folds: bool = False
    terms: Callable[[Shapes, Mapping[str, Any]], int] | None = None
    linear: Callable[[int], Iterable[int]] | None = None
    is_bilinear: bool = False


def first_operand(_: int) -> Iterable[int]:
    """`OpTraits.linear` of an op that is linear in its first operand."""
    return (0,)


NOTHING, PURE, LINEAR = OpTraits(), OpTraits(is_pure=True), OpTraits(linear=first_operand)
#: Of ops that give linear functions of their first operand, which depend on the other ones.
PURE_LINEAR = OpTraits(is_pure=True, linear=first_operand)
