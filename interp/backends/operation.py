"""The interface of backends that compute single operations.

A backend that takes StableHLO has the method `evaluate` (`minihlo.interp.backends.Backend`) and does not use this
module. A library of functions, such as numpy's, torch or ONNX, is an `OperationBackend`: it sets `takes = "operations"`
and computes one operation at a time. Both raise BackendError if they give no result: `refused` for an operation that
they do not support, `died` and `slow` for a child process that crashed or gave no answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..oracle.blocks import BLOCKS


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation, by StableHLO's names.

    Operands and results are arrays of *codes*: bool for `i1`, else the unsigned integer of the width that stores the
    type (uint8 for all of 8 bits and less, uint16 …). A code is the bit pattern: -1 of `i4` is 0x0F, 1.0 of `f32`
    0x3F800000.

    Arrays of elementwise ops have up to three dimensions, and may be views of others: transposed, reversed (with
    negative strides), broadcast (with strides of zero), slices. The result has the shape of the operands.

    | op | attributes | arrays |
    | --- | --- | --- |
    | elementwise ops on 1, 2 and 3 operands, `convert` | none | of one shape; an operand may have rank 0: a scalar |
    | `compare` | `comparison_direction`: EQ …; `compare_type`: FLOAT, TOTALORDER | two of one shape; gives bool |
    | `select`, `clamp` | none | three; select's first is bool |
    | `reduce` | `body`: add, multiply, maximum, minimum | [rows, k], along the last dimension, from 0, 1, -inf or inf |
    | `cumulative` | `body`: the same | [rows, k], along the last dimension: as many results as operands |
    | `dot_general` | none | [rows, k] and [k, columns] |
    | `convolution` | none | [batch, width, features] and [window, features, outputs]; stride 1, no padding |
    | `sort` | none | [rows, k], ascending along the last dimension, in the total order |
    | `quantize` | `format`, `block`, `scale`: a rule or own; `gives` | [rows, k]: the output named by `gives` |
    | `dequantize` | `format`, `block` | elements, scales, and the scale of the tensor if the format has one |
    | `scaled_dot` | `formats`, `blocks` | [rows, k], [k, columns], scales [rows, blocks] and [blocks, columns] |

    For the last three `format` is the name of a block format and `block` the shape of a block; blocks lie along k, and
    the last one may be shorter. `gives` is elements, scales or tensor_scale: each is requested separately.
    """

    op: str
    operands: tuple[str, ...]  #: element types, by MLIR's names
    result: str
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def from_json(fields: Mapping[str, Any]) -> Operation:
    """Return the operation whose fields have been JSON, which has lists for tuples."""
    attributes = {k: tuple(v) if isinstance(v, list) else v for k, v in fields["attributes"].items()}
    return Operation(fields["op"], tuple(fields["operands"]), fields["result"], attributes)


def result_shape(operation: Operation, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape of the result of an operation on operands of these shapes."""
    first = shapes[0]
    match operation.op:
        case "reduce":
            return first[:-1]
        case "cumulative" | "sort":
            return first
        case "dot_general" | "scaled_dot":
            return *first[:-1], shapes[1][-1]
        case "dequantize":
            return first
        case "quantize":
            scales = BLOCKS[operation.attributes["format"]].scale_shape((first[0], first[1]))
            return {"elements": first, "scales": scales, "tensor_scale": ()}[operation.attributes["gives"]]
        case "convolution":
            return first[0], first[1] - shapes[1][0] + 1, shapes[1][2]
    return np.broadcast_shapes(*shapes)


def attribute_text(value: Any) -> str:
    """Return an attribute as one word: the values of a tuple with commas between them."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


class OperationBackend(Protocol):
    """A backend without StableHLO."""

    #: The kind of backend. A backend without this attribute takes "programs".
    takes: str  #: "operations"
    #: The time limit of one call in seconds, which the tester sets. A backend in this process may ignore it.
    seconds: float

    @property
    def name(self) -> str:
        """The name that the command line knows it by."""
        ...

    def operate(self, operation: Operation, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Return the codes of the result. Raises BackendError("refused", reason) for an unsupported operation."""
        ...

    def close(self) -> None:
        """Release the resources of the backend. It can be used again."""
        ...
