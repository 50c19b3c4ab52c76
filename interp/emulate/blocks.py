"""Blocks that share scales, in integers: conversions to them and back, and their dots.

The definitions are those of `ops.blocks`: every scale and every element is rounded once, from an exact number or from
a quotient rounded to odd.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.accumulators.record import EXACT, Accumulator
from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BlockFormat
from ...ops.blocks.scaled_dot import composite_dimensions, custom_call_dimensions, record_of
from ...ops.blocks.scales import RULES, decode_f64, thresholds
from ...ops.blocks.targets import DEQUANTIZE, QUANTIZE, configuration
from ...ops.minifloat.formats import Format, Nan
from ...ops.op import OpError
from ...ops.policy import ACCUMULATIONS, Policy
from ...ops.products.dot import free_dimensions
from ...ops.types import ELEMENT_TYPES, ElementType
from ..program import Operation
from .accumulators import accumulate
from .dots import to_matrix
from .draws import draw, draws_of
from .floats import exponent, is_finite, of_exact, power
from .operands import Scales, read
from .rewrite import Emulation
from .rounding import Exact, code_type, exact_of_float, exact_of_integer, normal, round_float, round_number
from .rules import carrier, element_of, emulates
from .tensor import F32, F64, I8, I32, UI32, UI64, Tensor, constant, where

_LONG = 62  # bits that a normalised significand has
_FAR = 960  # exponents beyond those of every format
_DIVISOR = 28  # bits of a divisor


def _quotient(x: Tensor, divisor: Tensor) -> Tensor:
    """Return quotients by positive numbers of at most 28 bits, rounded to odd at 34 bits or more."""
    (significand, exponent), (wide, unit) = (normal(exact_of_float(v)) for v in (x, divisor))
    short = (wide >> (_LONG - _DIVISOR)).at_least(1)
    whole = significand // short
    odd = whole | (whole * short).differs(significand).to(UI64)
    found = of_exact(Exact.finite(x < 0, odd, (exponent - unit - (_LONG - _DIVISOR)).at_least(-_FAR).at_most(_FAR)))
    return where(x.equals(0) | ~is_finite(x), x, found)


def _pad(x: Tensor, more: Sequence[int]) -> Tensor:
    return x.pad(0, [0] * len(more), more)


def _of_rows(x: Tensor, outer: Sequence[int], count: int) -> Tensor:
    """Return the number of each tensor for each of its rows."""
    tensors = math.prod(outer)
    return x.reshape((tensors,)).expand(1, count // max(tensors, 1)).reshape((count,))


@emulates(QUANTIZE)
def quantize(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The elements and the scales of an array, and the scale of the tensor where the format has one."""
    call = e.call(operation)
    config, fmt, axes, policy, tensors = configuration(call)
    rule, source = str(config.get("rule", fmt.rule)), call.tensor(0).element
    if rule not in RULES or source.is_complex:
        raise OpError(f"expected real numbers and a rule of {', '.join(RULES)}, got {source} and {rule!r}")
    if policy.rounding == "stochastic" and not fmt.has_power_scale:
        raise OpError("expected another rounding than stochastic where scales are no powers of two")
    x: Tensor = operands[0]
    layout = Layout.of(x.shape, fmt, axes)
    rows = layout.rows(_plain(x, source), _pad)
    magnitude = rows.bits(UI64) & (F64.format.sign_bit - 1)
    amax = magnitude.reduce("maximum", 0, [1]).bits(F64)
    outer, count = x.shape[:tensors], amax.shape[0]
    given: list[Tensor] = []
    of_block: Tensor | None = None
    if fmt.tensor_scale is not None:
        given = [operands[1].bits(UI32).broadcast(outer)] if operands[1:] else [_tensor_scales(amax, fmt, outer)]
        of_block = _of_rows(read(given[0], F32.format), outer, count)
    scales = _block_scales(where(is_finite(amax), amax, math.nan), fmt, rule, of_block)
    factors = read(scales, fmt.scale_format)
    factors = (factors if of_block is None else factors * of_block).broadcast(rows.shape, [0])
    if fmt.has_power_scale:
        scaled = rows * power(-exponent(factors), F64)
        vanishes = scaled.equals(0) & magnitude.differs(0)
        scaled = where(vanishes, ((rows.bits(UI64) & F64.format.sign_bit) | (1 << 52)).bits(F64), scaled)
    else:
        scaled = _quotient(rows, factors)
    codes = layout.whole(_elements(where(is_finite(factors), scaled, math.nan), fmt, policy))
    found = [codes, layout.scales(scales), *given]
    return [v.bits(carrier(element_of(r))) for v, r in zip(found, operation.results, strict=True)]


def _plain(x: Tensor, source: ElementType) -> Tensor:
    """Return numbers in f64: exact, or rounded to odd where an integer has more than 53 bits."""
    if source == F64:
        return x
    if source.is_float:
        return read(x if source.is_minifloat else x.bits(code_type(source.format)), source.format)
    return of_exact(exact_of_integer(x))


def _tensor_scales(amax: Tensor, fmt: BlockFormat, outer: Sequence[int]) -> Tensor:
    """Return the scale of each tensor from the largest of its finite blocks, as bits of f32."""
    tensors = math.prod(outer)
    finite = where(is_finite(amax), amax, 0.0).reshape((tensors, amax.size // max(tensors, 1)))
    most = finite.reduce("maximum", 0.0, [1])
    top = fmt.largest * float(decode_f64(fmt.scale_format.max_code, fmt.scale_format))
    codes = round_float(_quotient(most, constant(top, F64, (tensors,))), F32.format, Policy())
    one = int(np.float32(1).view(np.uint32))
    return where(most.equals(0), one, codes.at_least(1).at_most(F32.format.max_code)).reshape(outer)


def _block_scales(amax: Tensor, fmt: BlockFormat, rule: str, of_tensor: Tensor | None) -> Tensor:
    """Return the codes of the scales of blocks."""
    target, zero, is_nan, rounding = fmt.scale_format, amax.equals(0), amax.differs(amax), "nearest_even"
    if fmt.has_power_scale or rule in ("floor", "ceil", "even"):
        a = amax if of_tensor is None else _quotient(amax, of_tensor)
        offset, reached = thresholds(fmt, rule)
        top, fraction = exponent(a) + (1 + offset), a.bits(UI64) & ((1 << 52) - 1)
        for t in reached:
            top = top + (fraction >= int(max(2 * t - 1, 0) * 2**52)).to(I32) if t < 1 else top
        if fmt.has_power_scale:
            codes = where(zero, 0, (top - target.min_exponent).at_least(0))
            codes = where(is_nan | (codes > target.max_code), target.nan_code or 0, codes)
            return codes.to(code_type(target))
        number = where(zero | is_nan, a, power(top.at_least(-_FAR).at_most(_FAR), F64))
    else:
        divisor = constant(fmt.largest, F64, zero.shape)
        number = _quotient(amax, divisor if of_tensor is None else divisor * of_tensor)
        rounding = "up" if rule == "rceil" else "nearest_even"
    overflow = "saturate" if target.nan is Nan.ALL_ONES else "ieee"
    codes = round_float(number, target, Policy(rounding=rounding, overflow=overflow))
    codes = where(codes > target.max_code, target.nan_code or 0, codes.at_least(1))
    if fmt.zero_scale is not None:
        codes = where(zero, int(np.array(fmt.zero_scale, target.dtype).view(target.code_dtype)), codes)
    return codes


def _elements(x: Tensor, fmt: BlockFormat, policy: Policy) -> Tensor:
    """Return quotients rounded to elements."""
    draws = draws_of(policy.seed, 0, x.shape) if policy.rounding == "stochastic" else None
    if fmt.element_format is not None:
        return round_float(where(x.differs(x), math.nan, x), fmt.element_format, policy, draws)
    # Integers are the numbers of a format with one exponent: its subnormal ones, of seven bits.
    plain = Format("integer", "uint16", 8, 7, fmt.fraction_bits - 6, False, Nan.NONE)
    codes = round_number(exact_of_float(x), plain, dataclasses.replace(policy, overflow="saturate"), draws).to(UI32)
    magnitude = (codes & (plain.sign_bit - 1)).at_most(127).bits(I32)
    signed = where((codes & plain.sign_bit).differs(0), -magnitude, magnitude)
    return where(x.differs(x), 0, signed).to(I8)


@emulates(DEQUANTIZE)
def dequantize(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The numbers of elements and scales; a third operand is the scale of the tensor."""
    call = e.call(operation)
    _, fmt, axes, policy, tensors = configuration(call)
    target = call.result().element
    if not target.is_float:
        raise OpError(f"expected a result of floats, got {target}")
    codes, scales = operands[:2]
    layout = Layout.of(codes.shape, fmt, axes)
    rows = layout.rows(codes, _pad)
    if fmt.element_format is None:
        number = rows.bits(I8).to(F64) * 2.0**-fmt.fraction_bits
    else:
        number = read(rows, fmt.element_format)
    factors = read(layout.scale_rows(scales), fmt.scale_format)
    if len(operands) > 2:
        factors = factors * _of_rows(read(operands[2].bits(UI32), F32.format), codes.shape[:tensors], rows.shape[0])
    found = number * factors.broadcast(rows.shape, [0])
    draws = draws_of(policy.seed, 0, rows.shape) if policy.rounding == "stochastic" else None
    found = found if target == F64 else round_float(found, target.format, policy, draws)
    return [layout.whole(found).bits(carrier(target))]


@emulates("xla.scaled_dot", "__op$block_scaled_dot")
def scaled_dot(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """Dots of blocks: exact and rounded once, or as a unit forms them; None where a composite is decomposed."""
    call = e.call(operation)
    is_composite = operation.name.endswith("composite")
    found = composite_dimensions(call) if is_composite else custom_call_dimensions(call)
    if found is None:
        return None
    policy, result, types = e.policy, call.result().element, [call.tensor(i).element for i in range(4)]
    if policy.of_blocks in ("f32", "element") or not result.is_float:
        raise OpError(f"expected floats whose sums are exact or a unit's, got {result} and {policy.of_blocks}")
    if not all(t.is_float for t in types) or types[2] != types[3]:
        raise OpError(f"expected elements of float types and scales of one type, got {', '.join(map(str, types))}")
    batching, contracting = found
    x, y, s, t = operands
    free = free_dimensions(call, [call.tensor(0), call.tensor(1)], batching, contracting)
    if policy.accumulate in ACCUMULATIONS:
        sides = zip((x, y), (s, t), contracting, strict=True)
        blocks = {v.shape[d] // max(w.shape[d], 1) for v, w, dims in sides for d in dims}
        block = blocks.pop() if len(blocks) == 1 and len(contracting[0]) == 1 else 1
        record = Accumulator(0, keep=EXACT, inner=_inner(types, block))
        if block == 1:
            s, t = _spread(s, x.shape), _spread(t, y.shape)
    else:
        record, block = record_of(call, contracting)
    x, s = (to_matrix(v, batching[0], free[0], contracting[0]) for v in (x, s))
    y, t = (to_matrix(v, batching[1], contracting[1], free[1]) for v in (y, t))
    scales = Scales(s, t, types[2], block, is_signed=policy.accumulate in ACCUMULATIONS)
    sums = accumulate(record, x, y, types[0], types[1], scales=scales, rounds_to_odd=result.name != "f64")
    storage, shape = ELEMENT_TYPES[record.storage.name], call.shape()
    draws = draw(e, sums.shape) if policy.rounding == "stochastic" else None
    if storage == result:
        return [sums.bits(carrier(result)).reshape(shape)]
    number = exact_of_float(sums.bits(storage))
    number = dataclasses.replace(number, sign=number.sign & ~number.is_nan)
    found = round_number(number, result.format, policy.for_results(result), draws)
    return [found.bits(carrier(result)).reshape(shape)]


def _spread(scales: Tensor, shape: Sequence[int]) -> Tensor:
    """Return scales of each element."""
    for d, n in enumerate(shape):
        count = scales.shape[d]
        if count != n:
            whole = (*scales.shape[:d], n, *scales.shape[d + 1 :])
            scales = scales.expand(d + 1, n // max(count, 1)).reshape(whole)
    return scales


def _inner(types: Sequence[ElementType], block: int) -> int:
    """Return how many products of elements are added as integers, before they are scaled."""
    spans = [t.format.precision + (1 << t.format.exponent_bits) - 2 for t in types[:2]]
    fits = max(spans) <= 30 and sum(spans) + 2 * types[2].format.precision + 4 <= 53
    return math.gcd(block, 16) if fits and not any(t.format.has_infinity for t in types) else 1
