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
from ...ops.cast import cast
from ...ops.minifloat.formats import FORMATS, Format, Nan
from ...ops.op import OpError
from ...ops.policy import ACCUMULATIONS, Policy
from ...ops.products.dot import free_dimensions
from ...ops.tables import all_codes
from ...ops.types import ELEMENT_TYPES, ElementType, Kind
from ..program import Operation
from .accumulators import Scales, accumulate
from .draws import draw, draws_of
from .products import to_matrix
from .rewrite import Emulation, carrier, emulates
from .rounding import Exact, code_type, exact_of_integer, flags_of, normal, numbers_of, round_number
from .tensor import F32, I32, I64, UI32, UI64, Tensor, constant, where

_LONG = 62  # bits that a normalised significand has
_DIVISOR = 28  # bits of a divisor
_F64_BITS = 53
_F32 = FORMATS["f32"]


def _of_number(value: float, shape: Sequence[int]) -> Exact:
    """Return a positive number, in a shape."""
    whole, parts = value.as_integer_ratio()
    zeros = (whole & -whole).bit_length() - 1
    significand = constant(whole >> zeros, UI64, shape)
    return Exact(significand < 0, significand, constant(zeros - parts.bit_length() + 1, I32, shape))


def _product(x: Exact, y: Exact) -> Exact:
    """Return products of numbers of few bits; with the NaN and infinities of both."""
    significand = x.significand.to(UI64) * y.significand.to(UI64)
    (x_nan, x_infinite), (y_nan, y_infinite) = (flags_of(v) for v in (x, y))
    zero = (x.significand.equals(0) & ~(x_nan | x_infinite), y.significand.equals(0) & ~(y_nan | y_infinite))
    is_nan = x_nan | y_nan | (x_infinite & zero[1]) | (y_infinite & zero[0])
    sign = where(x_nan, x.sign, where(y_nan, y.sign, x.sign.differs(y.sign)))  # a NaN keeps its own
    return Exact(sign, significand, y.exponent + x.exponent, is_nan, x_infinite | y_infinite)


def _quotient(x: Exact, divisor: Exact) -> Exact:
    """Return quotients by positive numbers of at most 28 bits, rounded to odd at 34 bits or more."""
    significand, exponent = normal(x)
    wide, unit = normal(divisor)
    short = (wide >> (_LONG - _DIVISOR)).at_least(1)
    whole = significand // short
    rest = (whole * short).differs(significand)
    found = exponent - unit - (_LONG - _DIVISOR)
    is_nan, is_infinite = flags_of(x)
    return Exact(x.sign, whole | rest.to(UI64), found, is_nan | flags_of(divisor)[0], is_infinite)


def _mapped(x: Exact, function: Any) -> Exact:
    values = (getattr(x, f.name) for f in dataclasses.fields(x))
    return Exact(*(function(v) if isinstance(v, Tensor) else v for v in values))


def _rows(layout: Layout, x: Tensor) -> Tensor:
    """Return a row for each block."""
    first = len(layout.outer)
    x = x.transpose(layout.order)
    more = [n * b - s for n, b, s in zip(layout.counts, layout.block, x.shape[first:], strict=True)]
    if any(more):
        x = x.pad(0, [0] * len(x.shape), [0] * first + more)
    size = math.prod(layout.block)
    return x.reshape(layout.split).transpose(layout.block_order).reshape((x.size // size if size else 0, size))


def _whole(layout: Layout, rows: Tensor) -> Tensor:
    """Return the tensor whose blocks are these rows."""
    order = layout.block_order
    x = rows.reshape([layout.split[d] for d in order]).transpose(_inverse(order))
    x = x.reshape((*layout.outer, *(n * b for n, b in zip(layout.counts, layout.block, strict=True))))
    for axis, d in enumerate(layout.order):
        x = x.slice(axis, 0, layout.shape[d])
    return x.transpose(_inverse(layout.order))


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda i: order[i])


def _of_rows(x: Exact, outer: Sequence[int], count: int) -> Exact:
    """Return the number of each tensor for each of its rows."""
    tensors = math.prod(outer)
    return _mapped(x, lambda v: v.reshape((tensors,)).expand(1, count // max(tensors, 1)).reshape((count,)))


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
    sign, magnitude, kind = _magnitudes(e, x, source)
    sign, magnitude = _rows(layout, sign), _rows(layout, magnitude)
    largest = magnitude.reduce("maximum", 0, [1])
    amax = _exact_of(largest, kind)
    is_nan, is_infinite = flags_of(amax)
    amax = dataclasses.replace(amax, is_nan=is_nan | is_infinite, is_infinite=is_infinite & ~is_infinite)
    outer, count = x.shape[:tensors], amax.sign.shape[0]
    given: list[Tensor] = []
    of_block: Exact | None = None
    if fmt.tensor_scale is not None:
        given = [operands[1].bits(UI32).broadcast(outer)] if operands[1:] else _tensor_scales(largest, kind, fmt, outer)
        of_block = _of_rows(numbers_of(given[0], _F32), outer, count)
    scales = _block_scales(amax, fmt, rule, of_block)
    factors = numbers_of(scales, fmt.scale_format)
    factors = factors if of_block is None else _product(factors, of_block)
    factors = _mapped(factors, lambda v: v.broadcast(magnitude.shape, [0]))
    number = dataclasses.replace(_exact_of(magnitude, kind), sign=sign)
    is_nan, _ = flags_of(factors)
    scaled = dataclasses.replace(number, exponent=number.exponent - factors.exponent)
    scaled = scaled if fmt.has_power_scale else _quotient(number, factors)
    scaled = dataclasses.replace(scaled, sign=scaled.sign & ~is_nan, is_nan=is_nan, is_infinite=None)
    codes = _whole(layout, _elements(scaled, fmt, policy))
    scales = scales.reshape((*layout.outer, *layout.counts)).transpose(_inverse(layout.order))
    found = [codes, scales, *given]
    return [_as(v, r.type.element) for v, r in zip(found, operation.results, strict=True)]  # type: ignore[union-attr]


def _as(x: Tensor, element: ElementType) -> Tensor:
    """Return codes or bits as values of a type are carried."""
    kind = carrier(element)
    return x if x.element == kind else x.bits(kind)


def _magnitudes(e: Emulation, x: Tensor, source: ElementType) -> tuple[Tensor, Tensor, ElementType]:
    """Return the signs of numbers, what is ordered as their magnitudes are, and the type that has it."""
    if source.is_minifloat:
        entries = cast(all_codes(source), source, F32, Policy()).view(np.uint32)
        x, source = e.table(entries, UI32).take(x.to(UI32)), F32
    if source.is_float:
        fmt = source.format
        bits = x.bits(code_type(fmt))
        return (bits >> (fmt.bits - 1)).differs(0), bits & (fmt.sign_bit - 1), source
    if source.kind is not Kind.SIGNED:
        wide = x.to(UI64)
        return wide < 0, wide, UI64
    wide = x.to(I64)
    return wide < 0, abs(wide).bits(UI64), UI64


def _exact_of(magnitude: Tensor, kind: ElementType) -> Exact:
    if kind.is_float:
        return numbers_of(magnitude, kind.format)
    found = exact_of_integer(magnitude)
    return dataclasses.replace(found, is_nan=found.sign, is_infinite=found.sign)


def _tensor_scales(magnitude: Tensor, kind: ElementType, fmt: BlockFormat, outer: Sequence[int]) -> list[Tensor]:
    """Return the scale of each tensor from the largest of its finite blocks, as bits of f32."""
    tensors = math.prod(outer)
    is_nan, is_infinite = flags_of(_exact_of(magnitude, kind))
    finite = where(is_nan | is_infinite, 0, magnitude).reshape((tensors, magnitude.size // max(tensors, 1)))
    most = _exact_of(finite.reduce("maximum", 0, [1]), kind)
    divisor = _of_number(fmt.largest * float(decode_f64(fmt.scale_format.max_code, fmt.scale_format)), (tensors,))
    codes = round_number(_quotient(most, divisor), _F32, Policy()).at_least(1).at_most(_F32.max_code)
    one = int(np.float32(1).view(np.uint32))
    return [where(most.significand.equals(0), one, codes).reshape(outer)]


def _block_scales(amax: Exact, fmt: BlockFormat, rule: str, of_tensor: Exact | None) -> Tensor:
    """Return the codes of the scales of blocks."""
    target, (is_nan, _) = fmt.scale_format, flags_of(amax)
    zero = amax.significand.equals(0) & ~is_nan
    if fmt.has_power_scale or rule in ("floor", "ceil", "even"):
        a = amax if of_tensor is None else _quotient(amax, of_tensor)
        significand, unit = normal(a)
        short = significand >> (_LONG - _F64_BITS)
        short = short | (short << (_LONG - _F64_BITS)).differs(significand).to(UI64)
        offset, reached = thresholds(fmt, rule)
        exponent = unit + (_LONG + offset)
        for t in reached:
            exponent = exponent + (short >= int(t * 2**_F64_BITS)).to(I32)
        if fmt.has_power_scale:
            codes = where(zero, 0, (exponent - target.min_exponent).at_least(0))
            codes = where(is_nan | (codes > target.max_code), target.nan_code or 0, codes)
            return codes.to(code_type(target))
        number = Exact(amax.sign, where(zero, constant(0, UI32), constant(1, UI32)), exponent, is_nan)
        rounding = "nearest_even"
    else:
        divisor = _of_number(fmt.largest, zero.shape)
        divisor = divisor if of_tensor is None else _product(divisor, of_tensor)
        number, rounding = _quotient(amax, divisor), "up" if rule == "rceil" else "nearest_even"
    overflow = "saturate" if target.nan is Nan.ALL_ONES else "ieee"
    codes = round_number(number, target, Policy(rounding=rounding, overflow=overflow))
    codes = where(codes > target.max_code, target.nan_code or 0, codes.at_least(1))
    if fmt.zero_scale is not None:
        codes = where(zero, int(np.array(fmt.zero_scale, target.dtype).view(target.code_dtype)), codes)
    return codes


def _elements(x: Exact, fmt: BlockFormat, policy: Policy) -> Tensor:
    """Return quotients rounded to elements."""
    draws = draws_of(policy.seed, 0, x.sign.shape) if policy.rounding == "stochastic" else None
    if fmt.element_format is not None:
        return round_number(x, fmt.element_format, policy, draws)
    # Integers are the numbers of a format with one exponent: its subnormal ones, of seven bits.
    plain = Format("integer", "uint16", 8, 7, fmt.fraction_bits - 6, False, Nan.NONE)
    policy = dataclasses.replace(policy, overflow="saturate")
    codes = round_number(dataclasses.replace(x, is_nan=None), plain, policy, draws).to(UI32)
    magnitude = (codes & (plain.sign_bit - 1)).at_most(127).bits(I32)
    signed = where((codes & plain.sign_bit).differs(0), -magnitude, magnitude)
    return where(flags_of(x)[0], 0, signed).to(ELEMENT_TYPES["i8"])


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
    rows = _rows(layout, codes)
    if fmt.element_format is None:
        value = rows.bits(ELEMENT_TYPES["i8"]).to(I32)
        number = Exact(value < 0, abs(value).bits(UI32), constant(-fmt.fraction_bits, I32, rows.shape))
    else:
        number = numbers_of(rows, fmt.element_format)
    factors = numbers_of(scales.transpose(layout.order).reshape((scales.size,)), fmt.scale_format)
    if len(operands) > 2:
        outer, count = codes.shape[:tensors], rows.shape[0]
        factors = _product(factors, _of_rows(numbers_of(operands[2].bits(UI32), _F32), outer, count))
    found = _product(number, _mapped(factors, lambda v: v.broadcast(rows.shape, [0])))
    draws = draws_of(policy.seed, 0, rows.shape) if policy.rounding == "stochastic" else None
    return [_as(_whole(layout, round_number(found, target.format, policy, draws)), target)]


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
        return [_as(sums, result).reshape(shape)]
    number = numbers_of(sums, storage.format)
    number = dataclasses.replace(number, sign=number.sign & ~flags_of(number)[0])
    return [_as(round_number(number, result.format, policy.for_results(result), draws), result).reshape(shape)]


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
