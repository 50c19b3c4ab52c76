"""Dots of blocks that share scales: the composite `xla.scaled_dot` and the custom call `__op$block_scaled_dot`.

An element times its scale is exact in f64, so each result is the exact sum of scaled products, rounded once, where the
policy's `accumulate` is `auto`, `exact` or `reproducible`: a scale alone can be beyond the range of f32. With `f32`
scaled numbers are rounded to f32, and the host's BLAS adds up their products. A unit of a chip, or a record, sums as it
says. `element` computes what is written: of the composite its decomposition (of JAX: a dot of scaled numbers rounded to
bf16), and of the custom call a dot of scaled numbers rounded to the result's type.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..accumulators import units
from ..accumulators.product import product as accumulated_product
from ..accumulators.record import Accumulator
from ..cast import cast
from ..engine import gemm
from ..op import Call, OpError, Run, UnsupportedOpError, lookup
from ..policy import ACCUMULATIONS, Policy
from ..programs.control import known_composite
from ..programs.custom_call import bound_target
from ..types import ELEMENT_TYPES, ElementType, TensorType
from . import filtered
from .exact_matmul import Operand

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
_EXACT = Policy()
_SIDES = ("lhs", "rhs")


@known_composite("xla.scaled_dot")
def composite(call: Call) -> Run | None:
    """JAX's `lax.scaled_dot`; None where its decomposition is to be computed."""
    attributes = call.attributes.get("composite_attributes")
    numbers = attributes.get("dimension_numbers") if isinstance(attributes, Mapping) else None
    if call.policy.accumulate == "element" or numbers is None or len(call.operands) != 4:
        return None
    contracting, batching = ([_dimensions(side) for side in pair] for pair in numbers)
    return _scaled_dot(call, batching, contracting)


@bound_target("__op$block_scaled_dot")
def custom_call(call: Call) -> Run:
    """What `jax.nn.scaled_matmul` calls: the last dimensions are contracted."""
    if len(call.operands) != 4:
        raise OpError(f"expected 4 operands (two tensors and their scales), got {len(call.operands)}")
    config = call.attributes.get("backend_config") or call.attributes.get("mhlo.backend_config")
    try:
        config = json.loads(config) if isinstance(config, str) else config
    except ValueError:
        raise OpError(f"expected a backend_config of JSON, got {str(config)[:60]!r}") from None
    details = config.get("scaled_dot_backend_config") if isinstance(config, Mapping) else None
    details = details if isinstance(details, Mapping) else {}
    ranks = [len(call.tensor(i).shape) for i in range(2)]
    batching = [
        _dimensions(details.get(f"{s}_batch_dimensions", range(r - 2))) for s, r in zip(_SIDES, ranks, strict=True)
    ]
    return _scaled_dot(call, batching, [(ranks[0] - 1,), (ranks[1] - 1,)])


def _dimensions(value: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in np.ravel(value)) if np.size(value) else ()


def _scaled_dot(call: Call, batching: list[tuple[int, ...]], contracting: list[tuple[int, ...]]) -> Run:
    types = [call.tensor(i) for i in range(4)]
    for t in types:
        if not (t.element.is_float or t.element.is_integer) or t.element.bits > 32:
            raise UnsupportedOpError(f"expected elements and scales of up to 32 bits, got {t.element}")
    policy, result = call.policy, call.result().element
    if not result.is_float:
        raise UnsupportedOpError(f"expected a result of floats, got {result}")
    for i, side in enumerate(_SIDES):
        _check_scales(side, call.operand_shape(i), call.operand_shape(i + 2), contracting[i])
    if policy.accumulate not in ACCUMULATIONS:
        return _by_unit(call, batching, contracting)
    as_written, in_f32 = policy.of_blocks == "element", policy.of_blocks == "f32"
    compute = result if as_written else _F32 if in_f32 else _F64
    operands = [TensorType(t.shape, compute) for t in types[:2]]
    numbers = {
        f"{side}_{kind}_dimensions": dims[i]
        for i, side in enumerate(_SIDES)
        for kind, dims in (("batching", batching), ("contracting", contracting))
    }
    record = lookup("dot_general")
    assert record is not None
    inner = call.like("stablehlo.dot_general", operands, call.results, dot_dimension_numbers=numbers)
    accumulate = policy.accumulate if as_written else "auto" if in_f32 else "exact"
    inner = dataclasses.replace(inner, policy=dataclasses.replace(policy.for_results(result), accumulate=accumulate))
    product = record.function(inner)

    free = [
        tuple(d for d in range(len(t.shape)) if d not in batching[i] and d not in contracting[i])
        for i, t in enumerate(types[:2])
    ]
    orders = (*batching[0], *free[0], *contracting[0]), (*batching[1], *contracting[1], *free[1])
    shapes = [call.operand_shape(i) for i in range(2)]
    sizes = [
        math.prod(shapes[i][d] for d in dims)
        for i, dims in ((0, batching[0]), (0, free[0]), (0, contracting[0]), (1, free[1]))
    ]

    # Sums that are zero, and rounding of other kinds, are for the general product.
    is_filtered = compute == _F64 and policy.for_results(result).rounding == "nearest_even" and result.bits <= 32

    def kernel(lhs: np.ndarray, rhs: np.ndarray, lhs_scales: np.ndarray, rhs_scales: np.ndarray) -> np.ndarray:
        sides = (
            (lhs, types[0].element, lhs_scales, types[2].element),
            (rhs, types[1].element, rhs_scales, types[3].element),
        )
        dtype = None if as_written or in_f32 else _exact_type(sides, sizes[2])
        b, m, k, n = sizes
        if dtype is None:
            values = [scaled(*side, compute) for side in sides]
            if is_filtered:
                x, y = (v.transpose(order) for v, order in zip(values, orders, strict=True))
                found = filtered.product(x.reshape(b, m, k), y.reshape(b, k, n), result, policy.for_results(result))
                if found is not None:
                    return found.reshape(call.shape())
            return product(*values)
        x, y = (scaled(*side, dtype).transpose(order) for side, order in zip(sides, orders, strict=True))
        sums = gemm.product(x.reshape(b, m, k), y.reshape(b, k, n))
        return cast(sums, dtype, result, policy.for_results(result), call.random.draws(policy)).reshape(call.shape())

    return kernel


def _by_unit(call: Call, batching: list[tuple[int, ...]], contracting: list[tuple[int, ...]]) -> Run:
    """The dot as a chip's instruction for scaled blocks, or a record, forms it; rounded once more to the result."""
    types, shapes = [call.tensor(i).element for i in range(4)], [call.operand_shape(i) for i in range(4)]
    if any(len(dims) != 1 for dims in contracting) or types[2] != types[3]:
        raise UnsupportedOpError("accumulate: expected one contracting dimension and scales of one type")
    lengths = {shapes[i][contracting[i][0]] // max(shapes[i + 2][contracting[i][0]], 1) for i in range(2)}
    if len(lengths) != 1:
        raise UnsupportedOpError(f"accumulate: expected blocks of one size, got {sorted(lengths)}")
    block = lengths.pop()
    chosen = call.policy.accumulate
    try:
        names = types[0].name, types[1].name, "f32", (types[2].name, block)
        record = chosen if isinstance(chosen, Accumulator) else units.find(chosen, *names).record
    except ValueError as error:
        raise OpError(f"accumulate: {error}") from None
    orders = []
    for i in range(2):
        free = [d for d in range(len(shapes[i])) if d not in (*batching[i], *contracting[i])]
        orders.append((*batching[i], *((*free, *contracting[i]) if i == 0 else (*contracting[i], *free))))
    batch = len(batching[0])
    policy, result = call.policy.for_results(call.result().element), call.result().element

    def matrices(x: np.ndarray, i: int, element: ElementType) -> np.ndarray:
        """The codes of an operand or of its scales: (batch, M, K) on the left, (batch, K, N) on the right."""
        x = x.transpose(orders[i])
        codes = np.ascontiguousarray(x).view(np.dtype(f"u{x.itemsize}")) if element.is_float else x
        sizes = x.shape[batch:]
        last = (math.prod(sizes[:-1]), sizes[-1]) if i == 0 else (sizes[0], math.prod(sizes[1:]))
        return codes.reshape(math.prod(x.shape[:batch]), *last)

    def kernel(lhs: np.ndarray, rhs: np.ndarray, lhs_scales: np.ndarray, rhs_scales: np.ndarray) -> np.ndarray:
        x, y = matrices(lhs, 0, types[0]), matrices(rhs, 1, types[1])
        s, t = matrices(lhs_scales, 0, types[2]), matrices(rhs_scales, 1, types[3])
        sums = accumulated_product(
            record, x, y, types[0].name, types[1].name, x_scales=s, y_scales=t, scale_type=types[2].name, block=block
        )
        stored = ELEMENT_TYPES[record.storage.name]
        return cast(sums, stored, result, policy, call.random.draws(policy)).reshape(call.shape())

    return kernel


def _exact_type(sides: Sequence[tuple[np.ndarray, ElementType, np.ndarray, ElementType]], length: int) -> Any:
    """f32 or f64, if all sums of products of scaled minifloats are exact in it, in any order; None if in neither."""
    bits, lows, tops = max(length - 1, 0).bit_length(), [], []
    for x, element, scales, scale_element in sides:
        if not element.is_minifloat or not scale_element.is_minifloat:
            return None
        a, b = Operand.of(x, element.format), Operand.of(scales, scale_element.format)
        if a.has_special or b.has_special:
            return None
        lows.append(a.low + b.low)
        bits += a.largest.bit_length() + b.largest.bit_length()
        tops.append(lows[-1] + a.largest.bit_length() + b.largest.bit_length())
    if bits <= 24 and min(*lows, sum(lows)) >= -126 and max(*tops, sum(tops)) + length.bit_length() <= 127:
        return _F32
    return _F64 if bits <= 53 else None


def _check_scales(side: str, shape: tuple[int, ...], scales: tuple[int, ...], contracting: tuple[int, ...]) -> None:
    """Each dimension of the scales is that of the operand, or divides it where it is contracted."""
    if len(scales) != len(shape):
        raise OpError(f"expected scales of {side} of rank {len(shape)}, got {list(scales)}")
    for d, (n, s) in enumerate(zip(shape, scales, strict=True)):
        if n != s and (d not in contracting or not s or n % s):
            raise OpError(f"expected scales of {side} with dimension {d} that fits {n}, got {s}")


def scaled(
    x: np.ndarray, element: ElementType, scales: np.ndarray, scale_element: ElementType, target: ElementType
) -> np.ndarray:
    """The elements of an array times the scales of their blocks: exact in f64, and rounded once to any other type."""
    direct = target in (_F32, _F64) and element.bits <= 16  # in which a product is rounded once, if at all
    compute = target if direct else _F64
    factors = cast(scales, scale_element, compute, _EXACT)
    split = [n for size, count in zip(x.shape, factors.shape, strict=True) for n in (count, size // max(count, 1))]
    factors = factors.reshape([n for count in factors.shape for n in (count, 1)])
    values = cast(x, element, compute, _EXACT).reshape(split)
    if direct:
        np.multiply(values, factors, out=values)
        return values.reshape(x.shape)
    products = (values * factors).reshape(x.shape)
    return products if target == _F64 else cast(products, _F64, target, _EXACT)
