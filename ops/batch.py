"""Many uses of an operation as one: batching rules, which declarations name in their facts.

The uses have operands of the same types. Of some operands each use has its own; these are stacked along a new leading
dimension. The others are the same for all uses. A rule says which attributes a single use must have to give all
results, stacked along a leading dimension, with the same bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .policy import Policy
from .types import TensorType

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Many uses of an operation; all sizes are known.

    operands, results: the types of a single use.
    is_stacked: for each operand, whether each use has its own.
    """

    count: int
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    attributes: Mapping[str, Any]
    is_stacked: tuple[bool, ...]
    policy: Policy

    def shape(self, index: int = 0) -> Shape:
        """The shape of an operand of a single use."""
        return self.operands[index].shape  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True)
class Batched:
    """The single use that stands for many.

    attributes: those that differ from the attributes of each of the many.
    shared: the operands that it takes as they are. The others get the leading dimension, and are repeated along it
        where all uses have the same.
    swapped: whether its operands are in the opposite order.
    zero_at: the place where it takes one more operand, the index 0 of the leading dimension.
    """

    attributes: Mapping[str, Any]
    shared: frozenset[int] = frozenset()
    swapped: bool = False
    zero_at: int | None = None


#: A batching rule; None where there is no single use with the same bits.
Rule = Callable[[Batch], Batched | None]


def shifted(dimensions: Iterable[int]) -> list[int]:
    """Dimensions behind a leading one."""
    return [int(d) + 1 for d in np.ravel(np.asarray(list(dimensions), np.int64))]


def along(*names: str, single: int = 0) -> Rule:
    """The rule of an operation with attributes that name dimensions, one or a list.

    The last `single` operands must be the same for all uses.
    """

    def rule(batch: Batch) -> Batched | None:
        first = len(batch.operands) - single
        if any(batch.is_stacked[first:]):
            return None
        attributes: dict[str, Any] = {}
        for name in names:
            value = batch.attributes[name]
            attributes[name] = np.asarray(value) + 1 if np.ndim(value) else int(value) + 1
        return Batched(attributes, frozenset(range(first, len(batch.operands))))

    return rule


def after_leading(name: str) -> Rule:
    """The rule of an operation with an attribute that names a dimension for each of the operand's."""
    return lambda batch: Batched({name: np.array([0, *shifted(batch.attributes[name])])})


def before(single: int = 0, **values: int | tuple[int, ...] | None) -> Rule:
    """The rule of an operation with attributes that have numbers for each dimension.

    `values` are those of the leading dimension, None where it is the number of uses. The last `single` operands must
    be the same for all uses.
    """

    def rule(batch: Batch) -> Batched | None:
        first = len(batch.operands) - single
        if any(batch.is_stacked[first:]):
            return None
        attributes = {
            name: np.append(batch.count if value is None else value, batch.attributes[name]).astype(np.int64)
            for name, value in values.items()
            if name in batch.attributes
        }
        return Batched(attributes, frozenset(range(first, len(batch.operands))))

    return rule


def as_it_is(_: Batch) -> Batched:
    """The rule of an operation on the last dimensions, or on elements."""
    return Batched({})
