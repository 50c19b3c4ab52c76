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

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.blocks.targets import QUANTIZE
from ...ops.cast import cast
from ...ops.op import lookup
from ...ops.policy import Policy
from ...ops.traits import Effects
from ...ops.types import ELEMENT_TYPES, TensorType
from .. import machine
from ..diff.judge import rounds
from ..errors import Error
from ..judging.wide import wide_plan, widen
from ..program import Operation
from .statistics_blocks import quotients

#: Results of more bits than this are not compared: f64 is not exact enough for them.
MOST_BITS = 16
_ITSELF = ("stablehlo.convert", "stablehlo.reduce_precision")


def target(operation: Operation) -> str:
    """The target of a custom call, empty for other ops."""
    return str(operation.attributes.get("call_target_name", "")) if operation.name == "stablehlo.custom_call" else ""


class Exact:
    """Computes exact results, with a cache of how ops are computed in f64."""

    def __init__(self) -> None:
        self._plan = functools.cache(lambda operation: wide_plan(operation) if _has_wide(operation) else None)

    def results(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> list[np.ndarray | None]:
        """The exact value of each result in f64, None if it is unknown or not compared."""
        none: list[np.ndarray | None] = [None] * len(results)
        is_compared = [
            isinstance(v.type, TensorType) and v.type.element.is_float and v.type.element.bits <= MOST_BITS
            for v in operation.results
        ]
        if not any(is_compared) or not rounds(operation):
            return none
        if operation.name in _ITSELF:
            t = operation.operands[0].type
            if not isinstance(t, TensorType) or t.element.is_complex:
                return none
            return [np.asarray(cast(operands[0], t.element, ELEMENT_TYPES["f64"], Policy()))]
        if target(operation) == QUANTIZE:
            return [quotients(operation.attributes, operands[0], results), *none[1:]]
        plan = self._plan(operation)
        if plan is None:
            return none
        try:
            found = machine.run(plan, [widen(x, v.type) for x, v in zip(operands, operation.operands, strict=True)])
        except Error:
            return none
        return [x if c and x.dtype == np.float64 else None for x, c in zip(found, is_compared, strict=True)]


def _has_wide(operation: Operation) -> bool:
    """Whether the op is a function of its operands that can be computed in f64."""
    record = lookup(operation.name)
    if record is None or record.has_effects or record.traits.effects is not Effects.NOTHING:
        return False
    return not target(operation) and (record.is_pure or bool(operation.regions))
