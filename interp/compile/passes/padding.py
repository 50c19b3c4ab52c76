"""The pass that merges `pad` into the `reduce_window` that reads it.

Where a tensor is padded with the initial value of the reduction, the padding becomes that of the windows, whose own
padding has this value anyway. Interior padding becomes base dilation. JAX writes the gradient of a sum pool in this
way, and most of the elements to add up would be padding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...program import Operation, Region, Value
from .rewriting import with_operations

_PAD, _WINDOWS = "stablehlo.pad", "stablehlo.reduce_window"


def joined_padding(region: Region, constants: Mapping[Value, Any]) -> Region:
    """The region with paddings merged into windows; the same object where there are none."""
    pads = {o.results[0]: o for o in region.operations if o.name == _PAD}
    if not pads:
        return region
    return with_operations(region, [_joined(o, pads, constants) for o in region.operations])


def _joined(operation: Operation, pads: Mapping[Value, Operation], constants: Mapping[Value, Any]) -> Operation:
    if operation.name != _WINDOWS or len(operation.operands) != 2 or operation.operands[0] not in pads:
        return operation
    init, pad = operation.operands[1], pads[operation.operands[0]]
    shape = pad.operands[0].shape
    if shape is None or not all(shape) or not _is_same(pad.operands[1], init, constants):
        return operation
    pairs = zip(*(_integers(pad, f"edge_padding_{side}", (0,) * len(shape)) for side in ("low", "high")), strict=True)
    inner = np.array([*pairs]).reshape(-1)
    outer = _integers(operation, "padding", (0,) * 2 * len(shape))
    dilations = _integers(operation, "base_dilations", (1,) * len(shape))
    # Negative padding cuts elements off, which a positive padding of the window cannot bring back.
    if (dilations != 1).any() or ((inner < 0) & (outer > 0)).any():
        return operation
    attributes = operation.attributes | {
        "padding": (inner + outer).reshape(-1, 2),
        "base_dilations": _integers(pad, "interior_padding", (0,) * len(shape)) + 1,
    }
    return Operation(
        operation.name,
        (pad.operands[0], init),
        operation.results,
        attributes,
        operation.regions,
        operation.location,
    )


def _integers(operation: Operation, name: str, default: tuple[int, ...]) -> np.ndarray:
    return np.ravel(np.asarray(operation.attributes.get(name, default), np.int64))


def _is_same(x: Value, y: Value, constants: Mapping[Value, Any]) -> bool:
    """Whether two values are one, or constants of the same bits."""
    if x is y:
        return True
    both = x in constants and y in constants and x.type == y.type
    return both and np.asarray(constants[x]).tobytes() == np.asarray(constants[y]).tobytes()
