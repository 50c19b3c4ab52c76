"""Dots of blocks that share scales: the composite `xla.scaled_dot` and the custom call `__op$block_scaled_dot`.

An element times its scale is exact in f64, so each result is the exact sum of scaled products, rounded once, where the
policy's `accumulate` is `auto`, `exact` or `reproducible`: a scale alone can be beyond the range of f32. With `f32`
scaled numbers are rounded to f32, and the host's BLAS adds up their products. A unit of a chip, or a record, sums as it
says. `element` computes the program as written: of the composite its decomposition (of JAX: a dot of scaled numbers
rounded to bf16), and of the custom call a dot of scaled numbers rounded to the result's type.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..accumulators import units
from ..accumulators.product import product
from ..accumulators.record import Accumulator
from ..cast import cast, codes_of
from ..op import Call, OpError, Run, UnsupportedOpError
from ..policy import ACCUMULATIONS, Policy
from ..products.contraction import Contraction
from ..products.dot import Dimensions, free_dimensions, to_matrices
from ..products.exact import Range, exact_product, range_of
from ..programs.control import known_composite
from ..programs.custom_call import bound_target
from ..types import ELEMENT_TYPES, ElementType

_F32, _F64 = ELEMENT_TYPES["f32"], ELEMENT_TYPES["f64"]
_EXACT = Policy()
_SIDES = ("lhs", "rhs")


@known_composite("xla.scaled_dot")
def composite(call: Call) -> Run | None:
    """JAX's `lax.scaled_dot`; None where its decomposition is to be computed."""
    found = composite_dimensions(call)
    return found and _scaled_dot(call, *found)


def composite_dimensions(call: Call) -> tuple[list[Dimensions], list[Dimensions]] | None:
    """The batching and the contracting dimensions of the composite; None where it is to be decomposed."""
    attributes = call.attributes.get("composite_attributes")
    numbers = attributes.get("dimension_numbers") if isinstance(attributes, Mapping) else None
    if call.policy.accumulate == "element" or numbers is None or len(call.operands) != 4:
        return None
    contracting, batching = ([_dimensions(side) for side in pair] for pair in numbers)
    return batching, contracting


@bound_target("__op$block_scaled_dot")
def custom_call(call: Call) -> Run:
    """The target of `jax.nn.scaled_matmul`: the last dimensions are contracted."""
    return _scaled_dot(call, *custom_call_dimensions(call))


def custom_call_dimensions(call: Call) -> tuple[list[Dimensions], list[Dimensions]]:
    """The batching and the contracting dimensions of the custom call."""
    if len(call.operands) != 4:
        raise OpError(f"expected 4 operands (two tensors and their scales), got {len(call.operands)}")
    config = call.configuration
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
    return batching, [(ranks[0] - 1,), (ranks[1] - 1,)]


def _dimensions(value: Any) -> Dimensions:
    return tuple(int(d) for d in np.ravel(value)) if np.size(value) else ()


def _scaled_dot(call: Call, batching: list[Dimensions], contracting: list[Dimensions]) -> Run:
    types = [call.tensor(i) for i in range(4)]
    for t in types:
        if not (t.element.is_float or t.element.is_integer) or t.element.bits > 32:
            raise UnsupportedOpError(f"expected elements and scales of up to 32 bits, got {t.element}")
    policy, result = call.policy, call.result().element
    if not result.is_float:
        raise UnsupportedOpError(f"expected a result of floats, got {result}")
    for i, side in enumerate(_SIDES):
        _check_scales(side, call.operand_shape(i), call.operand_shape(i + 2), contracting[i])
    (x_batch, y_batch), (x_sum, y_sum) = batching, contracting
    x_free, y_free = free_dimensions(call, types[:2], batching, contracting)
    to_x, to_y = to_matrices(x_batch, x_free, x_sum), to_matrices(y_batch, y_sum, y_free)
    if policy.accumulate not in ACCUMULATIONS:
        return _by_unit(call, to_x, to_y, contracting)
    as_written, in_f32 = policy.of_blocks == "element", policy.of_blocks == "f32"
    compute = result if as_written else _F32 if in_f32 else _F64
    accumulate = policy.accumulate if as_written else "auto" if in_f32 else "exact"
    policy = dataclasses.replace(policy.for_results(result), accumulate=accumulate)
    contraction = dataclasses.replace(Contraction.of(call), lhs=compute, rhs=compute, policy=policy)

    def kernel(*values: np.ndarray) -> np.ndarray:
        sides = [(values[i], types[i].element, values[i + 2], types[i + 2].element) for i in range(2)]
        x, y = to_x(scale_elements(*sides[0], compute)), to_y(scale_elements(*sides[1], compute))
        if compute != _F64:
            return contraction.matmul(x, y).reshape(call.shape())
        ranges = _range_of_scaled(*sides[0]), _range_of_scaled(*sides[1])
        return exact_product(contraction, x, y, ranges).reshape(call.shape())

    return kernel


def record_of(call: Call, contracting: list[Dimensions]) -> tuple[Accumulator, int]:
    """The record that sums as the policy says, and the size of a block."""
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
    return record, block


def _by_unit(call: Call, to_x: Run, to_y: Run, contracting: list[Dimensions]) -> Run:
    """The dot as a chip's instruction for scaled blocks, or a record, forms it; rounded once more to the result."""
    record, block = record_of(call, contracting)
    types = [call.tensor(i).element for i in range(4)]
    stored, contraction = ELEMENT_TYPES[record.storage.name], Contraction.of(call)
    contraction = dataclasses.replace(contraction, policy=call.policy.for_results(contraction.result))

    def kernel(*values: np.ndarray) -> np.ndarray:
        codes = [codes_of(v, t.format) if t.is_float else v for v, t in zip(values, types, strict=True)]
        x, y, s, t = to_x(codes[0]), to_y(codes[1]), to_x(codes[2]), to_y(codes[3])
        sums = product(
            record, x, y, types[0].name, types[1].name, x_scales=s, y_scales=t, scale_type=types[2].name, block=block
        )
        return contraction.round(sums, stored).reshape(call.shape())

    return kernel


def _range_of_scaled(x: np.ndarray, element: ElementType, scales: np.ndarray, scale_element: ElementType) -> Range:
    """The range of the products of elements and scales."""
    a, b = range_of(x, element), range_of(scales, scale_element)
    return Range(a.low + b.low, a.bits + b.bits)


def _check_scales(side: str, shape: Dimensions, scales: Dimensions, contracting: Dimensions) -> None:
    """Each dimension of the scales is that of the operand, or divides it where it is contracted."""
    if len(scales) != len(shape):
        raise OpError(f"expected scales of {side} of rank {len(shape)}, got {list(scales)}")
    for d, (n, s) in enumerate(zip(shape, scales, strict=True)):
        if n != s and (d not in contracting or not s or n % s):
            raise OpError(f"expected scales of {side} with dimension {d} that fits {n}, got {s}")


def scale_elements(
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
