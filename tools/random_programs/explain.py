"""Explains differences: what a peer computes instead, or a matter of accuracy. `known.py` attributes them."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from minihlo.interp.judging.equality import equal_values as same
from minihlo.interp.judging.record import WRONG

from .arbiter import sides_with_us
from .compare import Case, absolute, close, epsilon, flush, has_subnormal, is_nan, wide
from .program import codes

_FAR = 1e5  #: where arbiter.py does not judge exponentials


def flushing(case: Case) -> np.ndarray:
    """The peer takes subnormal numbers of f32 and f64 for zero, and gives zero for them."""
    results = np.zeros(case.ours.shape, bool)
    tiny = [flush(x) for x in case.inputs]
    for inputs, candidate in ((case.inputs, case.ours), (tiny, case.again(tiny)[case.index])):
        for result in (candidate, flush(candidate)):
            results |= close(case, result, inputs)
    return results


def flushing_in_part(case: Case) -> np.ndarray:
    """In functions made of several steps some of them flush."""
    of_inputs = [has_subnormal(x) for x in case.inputs if x.dtype.kind not in "biu"]
    result = has_subnormal(case.ours)
    for x in of_inputs:
        result = result | (x if x.shape == result.shape else x.any())
    return result


def unordered(case: Case) -> np.ndarray:
    """A complex NaN has no place in an order."""
    result = is_nan(case.ours) | is_nan(case.theirs)
    if case.step.short in ("reduce", "reduce_window", "scatter", "sort", "map", "while", "case", "if"):
        result |= any(is_nan(x).any() for x in case.inputs)
    return result


def no_neutral(case: Case) -> np.ndarray:
    """XLA takes the initial value to change nothing, and leaves it out where a window has one element or padding."""
    x, init = (case.inputs[case.step.inputs.index(v)] for v in case.step.operands[:2])
    single = dataclasses.replace(
        case.step, op="stablehlo.reduce", attributes="dimensions = array<i64>", results=(case.step.operands[0],)
    )
    plain = case.again([x, init] if len(case.inputs) == 2 else [x], single)[0]
    is_neutral = same(plain, x).all()
    if is_neutral:
        return np.zeros(case.ours.shape, bool)
    if case.step.short == "reduce" and x.size == case.ours.size:
        return same(case.theirs, x.reshape(case.ours.shape))
    return np.full(case.ours.shape, case.step.short == "reduce_window")


def scattered_twice(case: Case) -> np.ndarray:
    """The C++ interpreter starts from the initial value and folds it in once more for each source."""
    init = case.inputs[case.step.inputs.index(case.step.operands[2])]
    if not case.element.is_integer:
        return np.asarray((case.theirs.astype(np.float64) != case.ours.astype(np.float64)) & (init != 0))
    mine, yours, start = (np.asarray(x.astype(np.int64)) for x in (case.ours, case.theirs, init))
    mask = (1 << min(case.element.bits, 63)) - 1
    return np.logical_or.reduce([((mine + k * start - yours) & mask) == 0 for k in range(1, 9)])


def overflowing(case: Case) -> np.ndarray:
    """Formats without infinity and NaN: what an infinite or invalid result becomes is left open."""
    f = case.element.format
    ends = np.array([c | s for c in (0, f.max_code) for s in (0, f.sign_bit)])
    return np.isin(codes(case.ours), ends) & np.isin(codes(case.theirs), ends)


def ignores_total_order(case: Case) -> np.ndarray:
    """Only where there are NaN or zeros, which the plain comparison orders differently."""
    x = [i for i in case.inputs if i.dtype.kind not in "biuc" or i.dtype.kind == "f"]
    doubtful = [is_nan(i) | (i == 0) for i in x]
    if case.step.short != "compare":
        return np.full(case.ours.shape, any(d.any() for d in doubtful))
    return np.logical_and.reduce([np.broadcast_to(d, case.ours.shape) for d in doubtful]) | np.logical_or.reduce(
        [np.broadcast_to(is_nan(i), case.ours.shape) for i in x]
    )


def fnuz_nan_order(case: Case) -> np.ndarray:
    """Whether the only NaN comes first or last in the total order is left open."""
    x = [is_nan(i) for i in case.inputs if i.dtype.kind not in "biu"]
    if case.step.short == "compare":
        return np.logical_or.reduce([np.broadcast_to(n, case.ours.shape) for n in x])
    return np.full(case.ours.shape, any(n.any() for n in x))


def in_operand_type(case: Case) -> np.ndarray:
    """The C++ interpreter convolves in the operands' type and converts the result."""
    t = case.step.operands[0].type.element
    there = case.theirs.astype(np.float64).astype(np.float32).astype(t.dtype)
    return np.asarray(there.astype(np.float64) == case.theirs.astype(np.float64)) | is_nan(case.theirs)


def unsigned_starts(case: Case) -> np.ndarray:
    """The C++ interpreter reads unsigned starts as signed ones."""
    wrong = False
    for v, x in zip(case.step.inputs, case.inputs, strict=True):
        t = v.type.element
        if v in case.step.operands[1:] and t.is_integer and x.dtype.kind not in "i" and t.name.startswith("ui"):
            wrong |= bool((x.astype(np.uint64) >> np.uint64(t.bits - 1)).any())
    return np.full(case.ours.shape, wrong)


def of_subnormals(case: Case) -> np.ndarray:
    """XLA widens the type first, and then a subnormal number has all its mantissa bits."""
    f = case.element.format
    return (codes(case.inputs[0]) & (f.sign_bit - 1 if f.is_signed else 0xFF)) < (1 << f.mantissa_bits) * 2


def popcnt_of_bytes(case: Case) -> np.ndarray:
    """XLA counts the bits of the byte that the sign is extended to."""
    bits = case.inputs[0].astype(np.int8).view(np.uint8)
    counts = np.bitwise_count(bits).astype(np.int8).astype(case.ours.dtype)
    return same(counts, case.theirs)


def cast_of_largest(case: Case) -> np.ndarray:
    """XLA takes the largest f4 for an infinity when it converts to an integer."""
    return np.abs(case.inputs[0].astype(np.float32)) == 6


def from_the_wrong_side(case: Case) -> np.ndarray:
    """Just below the negative real axis a peer takes the value just above."""
    (x,) = case.inputs
    below = (np.real(x) < 0) & (np.imag(x) == 0) & np.signbit(np.imag(x))
    mirrored = Case(case.peer, case.step, case.inputs, case.index, case.ours, np.conj(case.theirs), case.again)
    return np.asarray(below & (mirrored.judge_step().grades != WRONG))


def real_parts_alone(case: Case) -> np.ndarray:
    """Of two complex numbers with equal real parts XLA takes either."""
    return np.asarray(np.real(case.ours) == np.real(case.theirs))


def as_exact_as_exponents(case: Case) -> np.ndarray:
    """exp(y log x) in f64 itself, here and there: an exponent of size n costs n times its last bit."""
    x, y = (case.inputs[case.step.inputs.index(v)] for v in case.step.operands)
    size = 1 + np.abs(y * np.log(x))
    return np.asarray(np.abs(case.ours - case.theirs) <= 16 * epsilon(case.element) * size * np.abs(case.ours))


def unindexed(case: Case) -> np.ndarray:
    """Index vectors of no elements all mean the start of the operand; XLA takes them for no update, or for others."""
    count = (len(case.step.operands) - 1) // 2
    indices = case.inputs[case.step.inputs.index(case.step.operands[count])]
    return np.full(case.ours.shape, indices.size == 0)


def onto_itself(case: Case) -> np.ndarray:
    """The C++ interpreter writes into the operand, and reads updates that are the same array from there."""
    count = (len(case.step.operands) - 1) // 2
    shared = case.step.operands[case.index] in case.step.operands[count + 1 :]
    return np.full(case.ours.shape, shared)


def minus_zero(case: Case) -> np.ndarray:
    """What becomes zero of a negative number gets the code of -0, which is NaN in FNUZ formats."""
    return (case.ours.astype(np.float32) == 0) & is_nan(case.theirs) & (case.inputs[0].astype(np.float32) < 0)


def _bits(case: Case, name: str) -> int:
    result = re.search(rf"{name}_bits = (\d+)", case.step.attributes)
    assert result
    return int(result[1])


def ties_by_ieee_codes(case: Case) -> np.ndarray:
    """With no mantissa bits left, XLA ties to the even exponent code of an IEEE format, whose bias is odd."""
    f, x = case.element.format, case.inputs[0].astype(np.float64)
    if _bits(case, "mantissa") or f.bias % 2:
        return np.zeros(case.ours.shape, bool)
    is_tie = np.frexp(np.abs(x))[0] == 0.75
    return is_tie & np.isin(case.theirs.astype(np.float64) / np.where(x == 0, 1, x), (2 / 3, 4 / 3))


def other_groups_by_zero(case: Case) -> np.ndarray:
    """XLA multiplies the batches of the other groups by zero, and adds that: NaN where one is not finite."""
    result = re.search(r"batch_group_count = (\d+)", case.step.attributes)
    wild = not all(np.isfinite(wide(x)).all() for x in case.inputs)
    return is_nan(case.theirs) & (result is not None and int(result[1]) > 1 and wild)


def selected_in_another_order(case: Case) -> np.ndarray:
    """Where select is false of equals, the last of them is selected; XLA goes through windows in another order."""
    x, mine, yours = case.inputs[case.step.inputs.index(case.step.operands[0])], case.ours, case.theirs
    is_strict = any(f"comparison_direction {d}>" in region for region in case.step.regions for d in ("LT", "GT"))
    is_doubtful = is_strict and np.unique(codes(x)).size < x.size
    if case.element.is_integer:  # what is scattered is the same in all
        is_doubtful &= int(mine.astype(object).sum() - yours.astype(object).sum()) % (1 << case.element.bits) == 0
    return np.full(mine.shape, is_doubtful)


def nan_without_bits(case: Case) -> np.ndarray:
    """A format of no mantissa bits has no NaN."""
    is_lost = is_nan(case.inputs[0]) & ~is_nan(case.ours) & is_nan(case.theirs)
    return is_lost if _bits(case, "mantissa") == 0 else np.zeros(case.ours.shape, bool)


def out_of_ieee_range(case: Case) -> np.ndarray:
    """In a format without infinity the largest exponent holds numbers, and stays if its bits stay."""
    if case.element.format.has_infinity:
        return np.zeros(case.ours.shape, bool)
    bound = 2.0 ** (1 << (_bits(case, "exponent") - 1))
    return is_nan(case.theirs) & (np.abs(case.ours.astype(np.float64)) >= bound)


def zero_of_e8m0(case: Case) -> np.ndarray:
    """XLA broadcasts the zero that is all of a dimension of size 1 by its bits, which are those of 2^-127."""
    return is_nan(case.ours) & (codes(case.theirs) == 0)


def of_the_smallest(case: Case) -> np.ndarray:
    """2^-127 of f8E8M0FNU."""
    return np.asarray(codes(case.inputs[0]) == 0)


def everything(case: Case) -> np.ndarray:
    return np.ones(case.ours.shape, bool)


def infinite_complex(case: Case) -> np.ndarray:
    """Complex functions of infinities, NaN and zeros, and such that overflow: ours is no finite number."""
    result = ~np.isfinite(wide(case.ours))
    for x in case.inputs:
        if x.dtype.kind == "c":
            bad = ~np.isfinite(x) | (x == 0) | (np.abs(wide(x)) > _FAR)
            result = result & (bad if bad.shape == result.shape else bad.any())
    return result


def exact_power(case: Case) -> np.ndarray:
    """Where Python's own integers agree with our result."""
    x, y = (case.inputs[case.step.inputs.index(v)] for v in case.step.operands)
    modulus = 1 << case.element.bits
    exact = [
        pow(int(a), int(b), modulus) == int(c) % modulus if int(b) >= 0 else abs(int(a)) <= 1 or int(c) == 0
        for a, b, c in zip(x.reshape(-1), y.reshape(-1), case.ours.reshape(-1), strict=True)
    ]
    return np.array(exact, bool).reshape(case.ours.shape)


def by_steps(case: Case) -> np.ndarray:
    """The C++ interpreter gives 0 or NaN where the exponential it divides by is infinite in the type."""
    return ((case.theirs == 0) | is_nan(case.theirs)) & (case.inputs[0] < 0)


def decided(case: Case) -> np.ndarray:
    return sides_with_us(case, ~same(case.ours, case.theirs))


def norm(case: Case) -> np.ndarray:
    """Within what rounding does to a whole that is computed together."""
    mine, yours = wide(case.ours), wide(case.theirs)
    finite = np.abs(mine[np.isfinite(mine)])
    scale = max(
        [float(finite.max(initial=0.0)), *(float(np.nanmax(np.abs(wide(x)), initial=0.0)) for x in case.inputs)]
    )
    return np.asarray(np.abs(mine - yours) <= 256 * epsilon(case.element) * scale)


def overflowing_sums(case: Case) -> np.ndarray:
    """In another order a sum may overflow, or an infinity meet its opposite."""
    return ~np.isfinite(wide(case.rerun(absolute)))


def e8m0(case: Case) -> np.ndarray:
    """Of numbers that the format does not have, the C++ interpreter gives the magnitude or the smallest."""
    return is_nan(case.ours) & ~is_nan(case.theirs)
