"""Operations that move elements: which go where, the interpreter says on their indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES, QuantizedType, TensorType, Type
from ..program import BARRIER, Operation
from .retype import element_of
from .values import Enclosure, causes_of, exactly_known, value_of

if TYPE_CHECKING:
    from .evaluate import Evaluator

_I64 = ELEMENT_TYPES["i64"]
#: The operands whose elements are moved, of operations that have others; of the rest all are.
_MOVED: Mapping[str, tuple[int, ...]] = {
    "gather": (0,), "dynamic_gather": (0,), "dynamic_slice": (0,), "dynamic_update_slice": (0, 1), "pad": (0, 1),
    "dynamic_pad": (0, 1), "torch_index_select": (0,), "real_dynamic_slice": (0,), "dynamic_broadcast_in_dim": (0,),
    "dynamic_reshape": (0,), "set_dimension_size": (0,), "select": (1, 2),
}  # fmt: skip


def move(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Return results whose elements are those of operands: which, the operation says on their indices."""
    name = operation.name.removeprefix("stablehlo.")
    at = [i for i in _MOVED.get(name, range(len(operands))) if i < len(operands)]
    others = [x for i, x in enumerate(operands) if i not in at]
    data = [operands[i] for i in at]
    is_movable = all(isinstance(x, Enclosure) for x in operands) and all(
        isinstance(v.type, TensorType) and not isinstance(v.type.element, QuantizedType) for v in operation.results
    )
    if name in ("tuple", "get_tuple_element", "after_all", "create_token") or operation.name == BARRIER:
        return _move_values(name, operation, operands)
    elements = {x.element for x in data if isinstance(x, Enclosure)}
    if not is_movable or not data or not all(map(exactly_known, others)):
        return e.undecide(operation, operands)
    if len(elements) != 1 or any(element_of(v.type) not in elements for v in operation.results):
        return e.undecide(operation, operands)
    ends = np.cumsum([x.value.size for x in data])
    indices = [np.arange(end - x.value.size, end).reshape(x.value.shape) for x, end in zip(data, ends, strict=True)]
    arrays = [indices[at.index(i)] if i in at else value_of(x) for i, x in enumerate(operands)]
    places = e.run_as(operation, arrays, _I64, at)
    return [_take(e, v.type, data, p) for v, p in zip(operation.results, places, strict=True)]


def _take(e: Evaluator, t: Type, data: Sequence[Enclosure], places: np.ndarray) -> Enclosure:
    """Return the elements at places among those of several enclosures, one after the other."""
    assert isinstance(t, TensorType)

    def pick(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(a) for a in arrays])[places]

    value = pick([x.value for x in data])
    low = high = nan = since = None
    if any(x.low is not None for x in data):
        low, high, nan = (pick(list(part)) for part in zip(*(x.bounds() for x in data), strict=True))
    if any(x.since is not None for x in data):
        since = pick(list(map(causes_of, data)))
    return Enclosure(t, value, low, high, nan, since, e.causes)


def _move_values(name: str, operation: Operation, operands: Sequence[Any]) -> list[Any]:
    if name == "get_tuple_element":
        return [operands[0][int(operation.attributes["index"])]]
    return [tuple(operands)] if name == "tuple" else list(operands) if operation.name == BARRIER else [None]
