"""Ops as cases of the conformance tester, and on backends that compute single operations (`backends.operation`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import lookup
from ...ops.types import QuantizedType, TensorType
from ..backends import BackendError
from ..backends import operation as conform
from ..backends.codes import codes, to_typed
from ..oracle.case import OpCase
from ..program import Operation

_ATTRIBUTES = ("comparison_direction", "compare_type")


def operate(backend: Any, operation: Operation, operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of an op. Raises BackendError, also for an op that such backends are not asked for."""
    case = case_of(operation)
    if case is None or case.op == "reduce_precision":
        raise BackendError("refused", f"{backend.name} is asked for elementwise ops and products of matrices only")
    asked = conform.Operation(case.op, case.operands, case.result, dict(case.attributes))
    shape = operation.results[0].type
    assert isinstance(shape, TensorType)
    arrays = [
        codes(x if x.ndim <= 1 or _is_product(operation) else x.ravel(), t)
        for x, t in zip(operands, asked.operands, strict=True)
    ]
    array = to_typed(np.asarray(backend.operate(asked, arrays)), asked.result)
    return [array.reshape([d or 0 for d in shape.shape])]


def case_of(operation: Operation) -> OpCase | None:
    """An elementwise op, or a product of matrices, on real types as the tester has it; None for any other op."""
    types = [v.type for v in (*operation.operands, *operation.results)]
    record = lookup(operation.name)
    if record is None or not operation.name.startswith("stablehlo.") or len(operation.results) != 1:
        return None
    elements = [t.element for t in types if isinstance(t, TensorType)]
    if len(elements) != len(types) or any(e.is_complex or isinstance(e, QuantizedType) for e in elements):
        return None
    if not (record.is_elementwise or _is_product(operation)):
        return None
    *operands, result = (e.name for e in elements)
    given = {k: str(operation.attributes[k]) for k in _ATTRIBUTES if k in operation.attributes}
    if "comparison_direction" in given and elements[0].is_float:
        given["compare_type"] = "TOTALORDER" if given.get("compare_type") == "TOTALORDER" else "FLOAT"
    return OpCase(operation.name.removeprefix("stablehlo."), tuple(operands), result, tuple(given.items()))


def _is_product(operation: Operation) -> bool:
    """Whether an op is the plain product of two matrices."""
    ranks = [len(v.type.shape) for v in operation.operands if isinstance(v.type, TensorType)]
    numbers = operation.attributes.get("dot_dimension_numbers") or {}
    dimensions = [tuple(int(d) for d in numbers.get(name, ())) for name in _DIMENSIONS]
    return operation.name == "stablehlo.dot_general" and ranks == [2, 2] and dimensions == [(), (), (1,), (0,)]


_DIMENSIONS = [f"{side}_{kind}_dimensions" for kind in ("batching", "contracting") for side in ("lhs", "rhs")]
