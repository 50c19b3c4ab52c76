"""The exact results of an operation on its actual operands, in f64.

"Exact" is the infinitely precise result, before it is rounded to the type of the result:

- Conversions, `reduce_precision`, and ops that only move or choose elements: the operand itself.
- Sums, products, quotients and dots of operands of up to 16 bits: the same operation in f64. Products are exact there;
  the sum of a dot of n terms, and a sum that f64 cannot hold, are off by at most n times 2^-53 of the terms' magnitude.
- Functions such as exp and tanh: the host's in f64, within 4 of its ULP.
- The elements of a block format: the operand divided by the scale of its block, once in f64.

Random numbers, collectives, data from the host and custom calls have no exact result, nor have loops over elements
whose body is more than one sum or product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.blocks.targets import QUANTIZE
from ...ops.op import lookup
from ...ops.traits import Effects
from ...ops.types import TensorType
from ..diff.judge import rounds
from ..judging.wide import in_f64, widen
from ..program import Operation
from .statistics_blocks import quotients

#: Results of more bits than this are not compared: f64 is not exact enough for them.
MOST_BITS = 16


def target(operation: Operation) -> str:
    """The target of a custom call, empty for other ops."""
    return str(operation.attributes.get("call_target_name", "")) if operation.name == "stablehlo.custom_call" else ""


def exact_results(operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> Sequence[np.ndarray | None]:
    """The exact value of each result in f64, None if it is unknown or not compared."""
    is_compared = [
        isinstance(v.type, TensorType) and v.type.element.is_float and v.type.element.bits <= MOST_BITS
        for v in operation.results
    ]
    found: Sequence[np.ndarray] | None = None
    if any(is_compared) and rounds(operation):
        if target(operation) == QUANTIZE:
            found = [quotients(operation.attributes, operands[0], results), *results[1:]]
        elif operation.name == "stablehlo.reduce_precision":
            found = [widen(operands[0], operation.operands[0].type)]
        elif _is_function(operation):
            found = in_f64(operation, operands)
    if found is None:
        return [None] * len(results)
    return [x if c and x.dtype == np.float64 else None for x, c in zip(found, is_compared, strict=True)]


def _is_function(operation: Operation) -> bool:
    """Whether the results of an op are a function of its operands, real ones, that can be computed in f64."""
    record = lookup(operation.name)
    if record is None or record.has_effects or record.traits.effects is not Effects.NOTHING:
        return False
    types = (v.type for v in operation.operands)
    is_real = not any(isinstance(t, TensorType) and t.element.is_complex for t in types)
    return is_real and (record.is_pure or bool(operation.regions))
