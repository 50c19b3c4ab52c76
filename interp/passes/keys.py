"""Keys of attributes and regions: equal where two operations compute the same from the same operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from ...ops.op import lookup
from ..program import CONSTANT, Region, Value


def key_of_attributes(attributes: Mapping[str, Any]) -> Hashable:
    """Return a key that is equal where all attributes are; arrays are compared by their bits."""
    return tuple([(name, _key(value)) for name, value in sorted(attributes.items())])


def _key(value: Any) -> Hashable:
    if isinstance(value, Mapping):
        return key_of_attributes(value)
    if isinstance(value, tuple | list):
        return tuple(map(_key, value))
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def key_of_region(region: Region, outer: Callable[[Value], Hashable] = lambda value: value) -> Hashable | None:
    """Return a key that is equal for regions of the same operations; `outer` gives the keys of captured values.

    None where an operation is not pure, is a call, or has regions itself.
    """
    names: dict[Value, int] = {v: i for i, v in enumerate(region.arguments)}
    lines: list[Hashable] = []
    for operation in region.operations:
        record = lookup(operation.name)
        is_pure = operation.name == CONSTANT or (record is not None and record.is_pure and not record.traits.is_call)
        if operation.regions or not is_pure:
            return None
        operands = tuple([names[v] if v in names else outer(v) for v in operation.operands])
        types = tuple([r.type for r in operation.results])
        lines.append((operation.name, key_of_attributes(operation.attributes), operands, types))
        names |= {r: len(names) + i for i, r in enumerate(operation.results)}
    returned = tuple([names[v] if v in names else outer(v) for v in region.returns])
    return tuple([v.type for v in region.arguments]), tuple(lines), returned
