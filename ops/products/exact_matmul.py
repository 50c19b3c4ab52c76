"""Matrix products of minifloats, infinitely precise with one rounding at the end: the same in any order, anywhere.

Every number of a format is an integer times 2**min_exponent, so a sum of products is one too, and a floating-point
matrix product is exact in any order as long as the largest sum has at most 53 bits (24 in float32). The operands' own
codes say how far apart their exponents really lie; data of ordinary spread needs one product. Where it is not enough
the operands are cut into bands of neighbouring exponents, narrow enough that the product of two bands is exact, and
those products are added in integers of as many words as it takes. Where the processor has units for integers,
`by_integers` takes what they can.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np

from ..accumulators.exact_sum import ExactSums
from ..cast import array_of, cast, codes_of
from ..engine.blocks import empty
from ..engine.compiled import is_available
from ..engine.gemm import product
from ..engine.lookup import Table
from ..engine.speed import current, tuning
from ..minifloat.codec import decode, round_number
from ..minifloat.formats import Format, Nan
from ..op import Call
from ..policy import Policy
from ..random_stream import RandomStream
from ..types import ELEMENT_TYPES, ElementType
from . import by_integers
from .operand import Operand, all_values, as_laid, reach_of

_PLAIN = Policy()
_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]

#: Norms bound the sums of rows that are no longer than this, so that they are known to 1/64, and of operands whose
#: units have such exponents that all squares are normal numbers of f32.
_LONGEST, _SQUARED = 1 << 16, range(-48, 25)

#: What products with infinities, NaN and zeros depend on: of each number whether it is NaN ("nan"), and as f64 the sign
#: of what is neither zero nor NaN ("sign"), that of infinities ("infinity"), 1 for zeros ("zero") and for a set sign
#: ("negative").
Marks = dict[str, np.ndarray]


def exact_matmul(
    lhs: np.ndarray,
    rhs: np.ndarray,
    lhs_type: ElementType,
    rhs_type: ElementType,
    result_type: ElementType,
    policy: Policy,
    random: RandomStream,
) -> np.ndarray:
    """The product of (batch, M, K) and (batch, K, N) minifloats in a float type, each element rounded once.

    NaN where a product is NaN or both infinities occur. A zero sum is +0, as a sum that starts from +0 is; rounding
    down it is -0 unless every product is +0 (IEEE 754 section 6.3).
    """
    few = few_of(lhs_type, rhs_type, result_type, policy, lhs.shape[-1])
    if few is not None and lhs.size * rhs.shape[-1] <= few.most:
        result = few.rounded(product(few.lhs(lhs), few.rhs(rhs)))
        if result is not None:
            return result
    x, y = Operand.of(lhs, lhs_type.format), Operand.of(rhs, rhs_type.format)
    depth = 3 if _bound(x, y) <= 1 << 53 else 4 + _bound(x, y).bit_length() // 16
    return tiled(
        x.codes, y.codes, result_type.dtype, depth, lambda a, b: _product(x.at(a), y.at(b), result_type, policy, random)
    )


@dataclasses.dataclass(frozen=True)
class Few:
    """A product in f32 or f64 in which all sums are exact, whatever the operands' codes are."""

    lhs_format: Format
    rhs_format: Format
    result_type: ElementType
    policy: Policy
    dtype: type
    has_special: bool  #: whether the formats have infinities or NaN

    @property
    def most(self) -> int:
        """The terms up to which products go this way: more, where units of the processor for integers do not help."""
        has_units = self.dtype is np.float64 and current().compiled and is_available()
        return tuning().exact_few if has_units else tuning().exact_few_plain

    def lhs(self, x: np.ndarray) -> np.ndarray:
        """The numbers of an operand."""
        return all_values(codes_of(x, self.lhs_format), self.lhs_format, self.dtype)

    def rhs(self, y: np.ndarray) -> np.ndarray:
        """The numbers of the other one."""
        return all_values(codes_of(y, self.rhs_format), self.rhs_format, self.dtype)

    def rounded(self, sums: np.ndarray) -> np.ndarray | None:
        """The sums in the type of the result; None where some are not finite."""
        # No sum of finite ones overflows.
        if self.has_special and not np.isfinite(np.add.reduce(sums, None)):
            return None
        if self.result_type.bits >= 32 and self.policy == _PLAIN:
            return sums.astype(self.result_type.dtype, copy=False)
        return cast(sums, _F32 if self.dtype is np.float32 else _F64, self.result_type, self.policy)


@functools.lru_cache(1024)
def few_of(
    lhs_type: ElementType, rhs_type: ElementType, result_type: ElementType, policy: Policy, length: int
) -> Few | None:
    """The `Few` of minifloats for sums of so many products; None where they may not be exact, or of other types."""
    if not (lhs_type.is_minifloat and rhs_type.is_minifloat and result_type.is_float and policy.sums_exactly):
        return None
    x, y = lhs_type.format, rhs_type.format
    bound = length * reach_of(x) * reach_of(y)
    if policy.rounding in ("down", "stochastic") or bound > 1 << 53:
        return None
    has_special = any(f.has_infinity or f.nan is not Nan.NONE for f in (x, y))
    return Few(x, y, result_type, policy, np.float32 if bound <= 1 << 24 else np.float64, has_special)


def may_be_plain(call: Call) -> bool:
    """Whether the products of an op's operands can be those of `rounded_product`."""
    policy, operands = call.policy, [call.tensor(i).element for i in range(2)]
    return (
        all(e.is_minifloat for e in operands)
        and call.result().element.is_float
        and policy.sums_exactly
        and policy.rounding not in ("down", "stochastic")
    )


#: Of an op's operands arrays that may be cut into parts, and what multiplies the parts.
Prepared = tuple[np.ndarray, np.ndarray, Callable[[np.ndarray, np.ndarray], np.ndarray]]


def prepared(lhs: np.ndarray, rhs: np.ndarray, call: Call, length: int, terms: int, groups: int) -> Prepared | None:
    """An op's minifloats as f32 or f64 in which every sum of `length` of their products is exact, in any order.

    Where products of so many terms, of so many groups, are those of integers they stay codes. None where there is no
    such type, or where there are infinities or NaN. Zeros may be laid between the numbers.
    """
    x, y = (Operand.of(v, call.tensor(i).element.format) for i, v in enumerate((lhs, rhs)))
    if x.has_special or y.has_special:
        return None
    if by_integers.takes(x, y, length, terms, groups):
        result, policy = call.result().element, call.policy
        return x.codes, y.codes, lambda a, b: _product(x.at(a), y.at(b), result, policy, call.random)
    dtype = _exact_type(x.low + y.low, length * x.largest * y.largest)
    if dtype is None:
        return None
    return x.values(dtype), y.values(dtype), functools.partial(rounded_product, call=call)


def rounded_product(lhs: np.ndarray, rhs: np.ndarray, call: Call) -> np.ndarray:
    """The product of (batch, M, K) and (batch, K, N) plain operands in the type of the op's result, by one thread."""
    sums = product(lhs, rhs, is_threaded=False)
    return cast(sums, _F32 if sums.dtype == np.float32 else _F64, call.result().element, call.policy)


def _exact_type(low: int, bound: int) -> type | None:
    """The host's type that holds all multiples of 2**low up to `bound` times that."""
    if bound <= 1 << 24 and -126 <= low <= 127 - 24:
        return np.float32
    return np.float64 if bound <= 1 << 53 else None


def _product(x: Operand, y: Operand, result_type: ElementType, policy: Policy, random: RandomStream) -> np.ndarray:
    sums = by_integers.exact(x, y, result_type, policy)
    if sums is None:
        values = _exact_values(x, y)
        sums = product(*values) if values is not None else _wide_sums(x, y, result_type, policy, random)
    elif result_type.is_minifloat and sums.dtype == result_type.dtype:
        return sums
    if x.has_special or y.has_special:
        has_infinity = x.format.has_infinity or y.format.has_infinity
        if has_infinity and policy.overflow != "ieee":
            sums = sums.astype(np.float64, copy=False)  # what is rounded to f32 anew: infinities may saturate
        set_special(sums, _marked(x), _marked(y), has_infinity)
    if policy.rounding == "down":
        set_negative_zeros(sums, _marked(x), _marked(y), x.codes.shape[-1])
    if sums.dtype == np.float64:
        draws = random.draws(policy)
        return cast(sums, _F64, result_type, policy, draws)
    return cast(sums, _F32, result_type, policy, random.draws(policy))


def tiled(
    lhs: np.ndarray,
    rhs: np.ndarray,
    dtype: np.dtype,
    depth: int,
    of_tile: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """`of_tile(lhs, rhs)`, by as many smaller products of tiles as keep what each takes in memory within bounds.

    A product is taken to need eight bytes for an element of an operand and eight times `depth` for one of the result.
    """
    (batch, rows, length), columns = lhs.shape, rhs.shape[-1]
    room = tuning().exact_tile_bytes // 8
    if batch * max(rows * length, length * columns, rows * columns * depth) <= room:
        return of_tile(lhs, rhs)
    side = max(1, room // max(length, 1))
    column_step = min(columns, side, max(1, room // depth))
    row_step = min(rows, side, max(1, room // (depth * column_step)))
    batch_step = max(1, room // max(row_step * length, length * column_step, row_step * column_step * depth))
    result = empty((batch, rows, columns), dtype)
    for b in range(0, batch, batch_step):
        for i in range(0, rows, row_step):
            for j in range(0, columns, column_step):
                x, y = lhs[b : b + batch_step, i : i + row_step], rhs[b : b + batch_step, :, j : j + column_step]
                result[b : b + batch_step, i : i + row_step, j : j + column_step] = of_tile(x, y)
    return result


def _bound(x: Operand, y: Operand) -> int:
    """What no sum of products exceeds, nor any part of it, in units of 2**(x.low + y.low)."""
    return x.codes.shape[-1] * x.largest * y.largest


def _exact_values(x: Operand, y: Operand) -> tuple[np.ndarray, np.ndarray] | None:
    """The operands' numbers in f32 or f64, in which all sums of their products are exact in any order; None if neither.

    f32 takes half the time of f64, so where the largest numbers alone do not tell, the norms of rows and columns are
    looked at: the weights of an attention have a sum of about 1.
    """
    low, bound = x.low + y.low, _bound(x, y)
    dtype = _exact_type(low, bound)
    if dtype is None:
        return None
    if dtype is np.float64 and bound <= 1 << tuning().exact_near_f32 and x.low in _SQUARED and y.low in _SQUARED:
        a, b = x.values(np.float32), y.values(np.float32)
        if _reach(x, y, a, b) <= 2.0 ** (low + 24):
            return a, b
        return a.astype(np.float64), b.astype(np.float64)
    return x.values(dtype), y.values(dtype)


def _reach(x: Operand, y: Operand, a: np.ndarray, b: np.ndarray) -> float:
    """What no sum of any products of a row of `a` and a column of `b` exceeds, by their norms.

    The norms are sums in f32, of K numbers that are not negative: they are off by less than K * 2**-23 of themselves.
    """
    if a.shape[-1] > _LONGEST:
        return np.inf
    slack = 1 + a.shape[-1] * 2.0**-22
    squares = np.einsum("bmk,bmk->bm", a, a).max(initial=0), np.einsum("bkn,bkn->bn", b, b).max(initial=0)
    reach = float(np.sqrt(squares[0].astype(np.float64) * squares[1].astype(np.float64)))
    if reach * slack > 2.0 ** (x.low + y.low + 24):
        sums = np.abs(a).sum(-1).max(initial=0), np.abs(b).sum(-2).max(initial=0)
        largest = x.largest * 2.0**x.low, y.largest * 2.0**y.low
        reach = min(float(sums[0]) * largest[1], largest[0] * float(sums[1]))
    return reach * slack


def _wide_sums(x: Operand, y: Operand, result_type: ElementType, policy: Policy, random: RandomStream) -> np.ndarray:
    """Sums that no float holds, as f64: rounded to odd, or if that is the result's type, as the policy says."""
    exact = _banded(x, y)
    if result_type != _F64:
        return exact.to_f64()
    draws = random.draws(policy)
    return array_of(round_number(exact.to_number(), _F64.format, policy, draws), _F64.format)


def _room(x: Operand, y: Operand) -> int:
    """How many exponents two bands may have together, that the product of them be exact in f64."""
    return 55 - x.format.precision - y.format.precision - (x.codes.shape[-1] - 1).bit_length()


@functools.lru_cache(1024)
def fewest_parts(x_spread: int, y_spread: int, room: int) -> tuple[int, int]:
    """Into how many parts to cut operands of some exponents or bits, that no two parts have more than `room` together.

    They are those with the fewest products of two parts.
    """
    choices = []
    for x_parts in range(1, x_spread + 1):
        left = room - -(-x_spread // x_parts)
        if left > 0:
            y_parts = -(-y_spread // left)
            choices.append((x_parts * y_parts, x_parts, y_parts))
    return min(choices)[1:]


def _banded(x: Operand, y: Operand) -> ExactSums:
    """The sums of all products of the bands that the operands are cut into."""
    x_parts, y_parts = fewest_parts(x.spread, y.spread, _room(x, y))
    x_step, y_step = -(-x.spread // x_parts), -(-y.spread // y_parts)
    shape = (*x.codes.shape[:-1], y.codes.shape[-1])
    exact = ExactSums(shape, x.low + y.low, _bound(x, y).bit_length())
    for x_first in range(x.low, x.low + x.spread, x_step):
        x_values = x.values(np.float64, x_first, x_step)
        if not x_values.any():
            continue
        for y_first in range(y.low, y.low + y.spread, y_step):
            y_values = y.values(np.float64, y_first, y_step)
            if y_values.any():
                exact.add(product(x_values, y_values), x_first + y_first)
    return exact


@functools.cache
def _marks(fmt: Format) -> dict[str, Table]:
    """Tables by code of what products with infinities, NaN and zeros depend on."""
    x = decode(np.arange(256) & ((1 << fmt.bits) - 1), fmt)
    sign = np.where(x.sign, -1.0, 1.0)
    marks = {
        "nan": x.is_nan,
        "sign": np.where(x.is_zero | x.is_nan, 0.0, sign),
        "infinity": np.where(x.is_infinite, sign, 0.0),
        "zero": np.where(x.is_zero, 1.0, 0.0),
        "negative": np.where(x.sign, 1.0, 0.0),
    }
    return {name: Table(mark) for name, mark in marks.items()}


def _marked(x: Operand) -> Marks:
    return {name: as_laid(table.at, x.codes) for name, table in _marks(x.format).items()}


def set_special(sums: np.ndarray, xs: Marks, ys: Marks, has_infinity: bool) -> None:
    """Put in the sums that have a product that is not finite."""
    nan = xs["nan"].any(-1, keepdims=True) | ys["nan"].any(-2, keepdims=True)
    if has_infinity:
        x_sign, x_infinity, y_sign, y_infinity = xs["sign"], xs["infinity"], ys["sign"], ys["infinity"]
        direction = product(x_infinity, y_sign) + product(x_sign, y_infinity)
        count = product(np.abs(x_infinity), np.abs(y_sign)) + product(np.abs(x_sign), np.abs(y_infinity))
        of_zero = product(np.abs(x_infinity), ys["zero"]) + product(xs["zero"], np.abs(y_infinity))
        nan |= (np.abs(direction) != count) | (of_zero > 0)
        np.copyto(sums, np.copysign(np.inf, direction), where=count > 0, casting="same_kind")
    sums[nan] = np.nan


def set_negative_zeros(sums: np.ndarray, xs: Marks, ys: Marks, length: int) -> None:
    """Give zero sums of so many products the sign they have when rounding down."""
    zero = sums == 0
    if zero.any():
        count = np.zeros(sums.shape)  # of products that are +0
        for x_sign, y_sign in ((xs["negative"], ys["negative"]), (1 - xs["negative"], 1 - ys["negative"])):
            x_zero, y_zero = xs["zero"] * x_sign, ys["zero"] * y_sign
            count += product(x_zero, y_sign) + product(x_sign - x_zero, y_zero)
        sums[zero & (count < length)] = -0.0
