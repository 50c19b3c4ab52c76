"""What the declaration of an op gives for one use of it: how its values are computed, and what may be known of that."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .batch import Rule
from .engine.blas_calls import Product

#: A function of a program's values: numpy arrays, tuples, None for a token. With one result it returns that value, else
#: a tuple of them. Of an op with regions it takes a tuple of functions first, one for each region.
Run = Callable[..., Any]

#: The sizes of each of some tensors.
Shapes = Sequence[Sequence[int]]


@dataclasses.dataclass(frozen=True)
class Combining:
    """An op of two operands of one type as numpy's own function, for reductions and scatter updates.

    ufunc: gives the op's bits on integers of 8 bits and more.
    of_booleans: the same on booleans; None where `ufunc` does.
    any_order: whether integers and booleans can be combined in any order.
    on_floats: whether `ufunc` gives the op's bits on f32 and f64.
    largest: whether of floats the largest or the smallest is chosen; None of other ops.
    """

    ufunc: np.ufunc
    of_booleans: np.ufunc | None = None
    any_order: bool = True
    on_floats: bool = False
    largest: bool | None = None


@dataclasses.dataclass(frozen=True)
class Scalar:
    """An op as a Python expression of single numbers, in which `{0}` and so on stand for the operands.

    Integers and booleans are Python's own, floats of 32 and 64 bits numpy's scalars. None where there is none.

    integer: the result may have more bits than the type if `wraps`; then it is brought into the type's range. `{bits}`
        and `{mask}` are the number of bits and as many ones, `{half}` is the highest bit.
    by_positive: the same where the last operand is a positive constant.
    floored: of integers, where the quotient is floored.
    unsigned: of unsigned integers, where that is another one.
    wide: of f32 by way of Python's own floats, with an error below 16 units in their last place. It may raise
        ValueError and ArithmeticError.
    """

    integer: str | None = None
    wraps: bool = False
    boolean: str | None = None
    floating: str | None = None
    any_type: str | None = None
    by_positive: str | None = None
    floored: str | None = None
    unsigned: str | None = None
    wide: Callable[..., float] | None = None


@dataclasses.dataclass(frozen=True)
class Packed:
    """An op on many ui32 as a Python expression of single integers, which hold each element in 64 of their bits.

    text: the expression. `{0}` and so on stand for the operands, `{M}` for ones in the low 32 bits of each element, and
        `{R}` for the bit above these in each element.
    needs_room: the operands must have nothing above each element's 32 bits, but the result may.
    clears: the result has nothing above these bits where one of the operands has nothing there.
    most: the last operand is the same number for all elements, at most this one. None where it may be any operand.
    """

    text: str
    needs_room: bool = False
    clears: bool = False
    most: int | None = None


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

    combining, scalar, packed: see these.
    of_bits: of an op that computes each bit of the result from the same bits of its two operands: the op on integers.
    compiled: the op of the compiled machine that does the same on f32 (`ops/engine/fast/opcodes.py`), and on bf16 if
        it is rounded after; of a logical op, on words of ones and zeros.
    compiled_words: the machine's ops that do the same on i32 and on ui32.
    compiled_fold: the machine's op that folds f32 by this op.
    selects_operand: the result is one of the operands as it is, whichever.
    order_based: the result is one of the operands, or that with another sign; which one depends on signs and on how the
        operands compare.
    many_passes: the kernel goes over arrays several times: large ones are taken in parts that fit the cache.
    is_pure: the result depends on the operands alone, and takes a time that the types determine: no loop, no random
        bits, no other process, no code of the user. Elementwise ops are pure.
    overwrites: the operand that the kernel may write over if it is spare (`Call.spare`).
    takes_numbers: the kernel takes plain numbers for operands of rank 0 too.
    reach: what it exchanges values with. An op that reaches anything has effects too.
    is_call: the op is a call of the function that its first attribute of `Op.calls` names, and nothing else.
    regions: how its regions are run.
    body_runs: how often it runs a region of `RegionSemantics.ELEMENTS`, by the shapes of its operands and results and
        by its attributes. By default once for each element of the operands or of the results, whichever are more.
    folds: its region combines elements in an order that the implementation may choose.
    terms: how many products are summed for each element of the result, by the shapes of its operands and by its
        attributes. None of an op that sums no products.
    copies_windows: before products are summed, windows are copied, so that a product takes several times as long.
    linear: the operands in which the op is linear together, by the number of all; of an op with a region, if the region
        adds. Rounding is left out of account. None of other ops.
    is_bilinear: the op is linear in each of its two operands.
    starts: the first of the operands that say where a window starts, one for each dimension; there are no others after.
    spread: of an op that only moves the operand's dimensions, and adds and repeats others: where each of the operand's
        dimensions goes, by the shapes of operand and result and by its attributes; None for a dimension of size 1. The
        whole is None if the op does something else with these shapes.
    keeps_bits: the op reads the operand's bits as another type, element by element if both types are equally wide.
    moves: each element of the result is one of an operand; which one, the shapes and attributes alone say.
    batch: how many uses become one. Elementwise ops need none.
    """

    combining: Combining | None = None
    of_bits: Callable[[int, int], int] | None = None
    scalar: Scalar | None = None
    packed: Packed | None = None
    compiled: int | None = None
    compiled_words: tuple[int, int] | None = None
    compiled_fold: int | None = None
    selects_operand: bool = False
    order_based: bool = False
    many_passes: bool = False
    is_pure: bool = False
    overwrites: int | None = None
    takes_numbers: bool = False
    effects: Effects = Effects.NOTHING
    is_call: bool = False
    regions: RegionSemantics = RegionSemantics.ELEMENTS
    body_runs: Callable[[Shapes, Shapes, Mapping[str, Any]], float] | None = None
    folds: bool = False
    terms: Callable[[Shapes, Mapping[str, Any]], int] | None = None
    copies_windows: bool = False
    linear: Callable[[int], Iterable[int]] | None = None
    is_bilinear: bool = False
    starts: int | None = None
    spread: Callable[[Sequence[int], Sequence[int], Mapping[str, Any]], tuple[int | None, ...] | None] | None = None
    keeps_bits: bool = False
    moves: bool = False
    batch: Rule | None = None


def first_operand(_: int) -> Iterable[int]:
    """`OpTraits.linear` of an op that is linear in its first operand."""
    return (0,)


NOTHING, PURE = OpTraits(), OpTraits(is_pure=True)
#: Of ops that move elements, or give linear functions of them.
PURE_LINEAR = OpTraits(is_pure=True, linear=first_operand)
#: Of ops that move the elements of one operand to places that the shapes and attributes determine.
MOVES = dataclasses.replace(PURE_LINEAR, moves=True)


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class OnF32:
    """An op on f16 and bf16, on arrays of f32 that hold the same numbers; its other operands are as they are.

    call: computes the result: of f16 and bf16 as f32. None where that is the operand as it is.
    rounds: whether what `call` gives has yet to be rounded to the result's type, to nearest even.
    has_out: whether `call` takes an array for its result after the operands, as `Kernel.has_out` says.
    """

    call: Run | None
    rounds: bool
    has_out: bool = False


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Kernel:
    """How one use of an op is computed, with what later stages need to know. It can be called as `call` is.

    call: computes the results.
    has_out: `call` takes, after the operands or as `out`, an array of the result's shape and type to put its result
        into; the array may be one of the operands.
    fills: `call` takes `out` like this, which may have no memory of an operand, and else gives an array of its own. It
        is so too where `has_out` is true.
    of_codes: the same for one element of a type of up to 8 bits: takes an integer code for each operand and returns the
        code of the result. None where there is none.
    of_bfloat16: for a function of one f32 that depends on nothing but the operand rounded to odd to bfloat16: takes a
        number of elements, and returns the results for all 65,536 codes if such a table pays for so many, else None.
    of_half: for a function of one number of f16 or bf16 that gives the same type: the results for all 65,536 codes as
        f32, if such a table pays for so many elements, else None.
    on_f32: of an op on f16 or bf16, the same on f32. None where there is none.
    choices: of stochastic rounding of a function of two to a type of up to 16 bits, gives what runs along arrays by it
        (`Choices` or `Steps` of `engine/stochastic.py`). None elsewhere.
    products: of a sum of products that rounds each product and each sum, one by one from +0, gives for each element of
        the result the positions of the operands' elements that are multiplied, in order. None elsewhere.
    multiplied: of a product of two matrices of f32 by the host's BLAS, the call that it makes of operands without gaps;
        None elsewhere.
    traits: what is known of every use of the op.
    """

    call: Run
    has_out: bool = False
    fills: bool = False
    of_codes: Callable[..., int] | None = None
    of_bfloat16: Callable[[int], np.ndarray | None] | None = None
    of_half: Callable[[int], np.ndarray | None] | None = None
    on_f32: OnF32 | None = None
    choices: Callable[[], Any] | None = None
    products: Callable[[], Sequence[Sequence[tuple[int, int]]]] | None = None
    multiplied: Product | None = None
    traits: OpTraits = NOTHING

    def __call__(self, *values: Any) -> Any:
        return self.call(*values)
