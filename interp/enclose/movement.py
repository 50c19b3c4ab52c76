"""Operations that move elements: which go where, the interpreter says on their indices."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ops.types import ELEMENT_TYPES, QuantizedType, TensorType, Type
from ..program import BARRIER, Operation
from .retype import element_of
from .values import Enclosure, causes_of, exactly_known, join, value_of

if TYPE_CHECKING:
    from .evaluate import Evaluator

_I64 = ELEMENT_TYPES["i64"]
#: The operands whose elements are moved, of operations that have others; of the rest all are.
_MOVED: Mapping[str, tuple[int, ...]] = {
    "gather": (0,), "dynamic_gather": (0,), "dynamic_slice": (0,), "dynamic_update_slice": (0, 1), "pad": (0, 1),
    "dynamic_pad": (0, 1), "torch_index_select": (0,), "real_dynamic_slice": (0,), "dynamic_broadcast_in_dim": (0,),
    "dynamic_reshape": (0,), "set_dimension_size": (0,), "select": (1, 2), "scatter": (0, 2),
}  # fmt: skip
#: Operations that move elements from places that they clamp, and of how many of these any may be meant.
_CLAMPED, _MOST_PLACES = ("gather", "dynamic_slice"), 64


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
    is_known = all(map(exactly_known, others))
    if not is_movable or not data or not (is_known or name in _CLAMPED):
        return e.undecide(operation, operands)
    if len(elements) != 1 or any(element_of(v.type) not in elements for v in operation.results):
        return e.undecide(operation, operands)
    ends = np.cumsum([x.value.size for x in data])
    indices = [np.arange(end - x.value.size, end).reshape(x.value.shape) for x, end in zip(data, ends, strict=True)]

    def places(others: Sequence[Any]) -> Sequence[np.ndarray]:
        given = iter(others)
        arrays = [indices[at.index(i)] if i in at else next(given) for i in range(len(operands))]
        return e.run_as(operation, arrays, _I64, at)

    own = places(list(map(value_of, others)))
    found = [_take(e, v.type, data, p) for v, p in zip(operation.results, own, strict=True)]
    return found if is_known else [_between(e, operation, found[0], data, others, lambda x: places(x)[0])]


def _between(
    e: Evaluator, operation: Operation, found: Enclosure, data: Sequence[Enclosure], others: Sequence[Enclosure],
    places: Callable[[Sequence[np.ndarray]], np.ndarray],
) -> Enclosure:  # fmt: skip
    """Return elements at indices that are not decided: any of those between, or undecided where there are many.

    A place grows with each index, which is clamped: where it is the same at both ends, it is so between.
    """
    most, ends = max(data[0].value.shape, default=0), []
    for x in others:
        low, high, _ = x.bounds()
        low, high = np.where(x.undecided, 0.0, low), np.where(x.undecided, np.iinfo(x.value.dtype).max, high)
        ends.append([np.clip(v, 0, most).astype(x.value.dtype) for v in (low, high)])
    numbers = operation.attributes.get("dimension_numbers", {})
    free = len(numbers.get("start_index_map", ())) or sum(int((low != high).any()) for low, high in ends)
    count = int(max((high - low).max(initial=0) for low, high in ends))
    if free > 1 or count > _MOST_PLACES:
        differs = np.not_equal(*(places([pair[i] for pair in ends]) for i in range(2)))
        return dataclasses.replace(found, since=e.since(operation, differs, found.since))
    for i in range(count + 1):
        at = places([np.minimum(low + low.dtype.type(i), high) for low, high in ends])
        found = join(found, _take(e, found.type, data, at))
    return found


def _take(e: Evaluator, t: Type, data: Sequence[Enclosure], places: np.ndarray) -> Enclosure:
    """Return the elements at places among those of several enclosures, one after the other."""
    assert isinstance(t, TensorType)

    def pick(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(a) for a in arrays])[places]

    value = pick([x.value for x in data])
    low = high = nan = since = None
    if any(x.low is not None for x in data):
        low, high, nan = (pick(list(part)) for part in zip(*(x.within() for x in data), strict=True))
    beyond = None
    if any(x.beyond is not None for x in data):
        beyond = pick([np.zeros(x.value.shape, bool) if x.beyond is None else x.beyond for x in data])
    if any(x.since is not None for x in data):
        since = pick(list(map(causes_of, data)))
    return Enclosure(t, value, low, high, nan, since, e.causes, beyond)


def _move_values(name: str, operation: Operation, operands: Sequence[Any]) -> list[Any]:
    if name == "get_tuple_element":
        return [operands[0][int(operation.attributes["index"])]]
    return [tuple(operands)] if name == "tuple" else list(operands) if operation.name == BARRIER else [None]
