"""Fused groups as data: what they are computed from, the steps of each element, and what they give.

A group is immutable and hashable. Whatever runs it derives from it: the lookup table, whose key its function is, the
generated Python, the body over arrays, the program of the compiled machine, the step of a scan. It holds no kernel:
those of its steps are found from the declarations of their operations when the group is emitted (`kernels.py`).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from ...ops.op import lookup
from ...ops.types import ElementType, TensorType
from ..program import Operation
from .leaf import MOST_BITS, Leaf, Shape, width

#: The operations that passes put into a region, beside those that programs have.
GROUP, RANK, UNRANK, SPREAD, SCAN, TURNS, RECURRENCE, LOOPS = (
    f"minihlo.{name}" for name in ("group", "rank", "unrank", "spread", "scan", "turns", "recurrence", "loops")
)
UNPACK, PACK, NUMBER, ROWS = (f"minihlo.{name}" for name in ("unpack", "pack", "number", "rows"))

#: What an element costs, in nanoseconds: a lookup, an op on floats, one that is computed in f64 and rounded, one on
#: integers.
LOOKUP_COST, _FLOAT, FUNCTION_COST, _INTEGER = 0.5, 0.15, 6.0, 0.1


class Attributes(Mapping[str, Any]):
    """The attributes of an operation as a key: equal where all values are, arrays by their bits."""

    __slots__ = ("_key", "_values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._key = tuple((k, _frozen(v)) for k, v in sorted(values.items())) if values else ()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self._key == other._key

    def __repr__(self) -> str:
        return repr(dict(self._values))


def _frozen(value: Any) -> Hashable:
    if isinstance(value, Function | Ranked):
        return value
    if isinstance(value, Mapping):
        return tuple((k, _frozen(v)) for k, v in sorted(value.items()))
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    if isinstance(value, np.ndarray | np.generic):
        return str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


@dataclasses.dataclass(frozen=True)
class Constant:
    """A single number."""

    element: ElementType
    data: bytes

    @staticmethod
    def of(array: np.ndarray, element: ElementType) -> Constant:
        """The constant with the bits of an array."""
        return Constant(element, array.tobytes())

    @property
    def array(self) -> np.ndarray:
        """The number as an array of rank 0."""
        return np.frombuffer(self.data, self.element.dtype)[0, ...]


@dataclasses.dataclass(frozen=True)
class Step:
    """One elementwise operation of a function; `operands` are numbers of the function's values.

    `types` are those of the operands and then of the result. Tensors have the shape of the group, which is written
    (None,); operands may be single numbers, of shape ().
    """

    name: str
    attributes: Attributes
    operands: tuple[int, ...]
    types: tuple[TensorType, ...]

    @property
    def elements(self) -> tuple[ElementType, ...]:
        """The element types of operands and result."""
        return tuple(t.element for t in self.types)

    @property
    def element(self) -> ElementType:
        """The element type of the result."""
        return self.types[-1].element


@dataclasses.dataclass(frozen=True)
class Lookup:
    """A part of a function that is a lookup table: a function of one or two codes."""

    function: Function
    operands: tuple[int, ...]

    @property
    def element(self) -> ElementType:
        """The element type of the result."""
        return self.function.results[0]


@dataclasses.dataclass(frozen=True)
class Function:
    """What a group does to each element, wherever it stands.

    Its values are numbered: the leaves, then the constants, then the results of the steps in their order.
    """

    leaves: tuple[ElementType, ...]
    constants: tuple[Constant, ...]
    steps: tuple[Step | Lookup, ...]
    outputs: tuple[int, ...]

    @property
    def first_step(self) -> int:
        """The number of the first step's result."""
        return len(self.leaves) + len(self.constants)

    @property
    def results(self) -> tuple[ElementType, ...]:
        """The element types of the outputs."""
        values = [*self.leaves, *(c.element for c in self.constants), *(s.element for s in self.steps)]
        return tuple(values[i] for i in self.outputs)

    @property
    def bits(self) -> int:
        """How many bits index the cases; more than any table has where a leaf has too many."""
        return sum(width(element) or MOST_BITS + 1 for element in self.leaves)

    @property
    def cases(self) -> int:
        """The entries of a lookup table of one output: a single leaf has a whole byte."""
        return 1 << (max(self.bits, 8) if len(self.leaves) == 1 else self.bits)

    @property
    def pays_as_table(self) -> bool:
        """Whether a lookup table of all cases is small enough, and quicker than the steps."""
        if not 0 < self.bits <= MOST_BITS:
            return False
        costs = [c for step in self.steps if (c := cost_of_step(step)) > 0]
        return (len(costs) > 1 and sum(costs) > LOOKUP_COST) or any(map(_is_slow_step, self.steps))


@dataclasses.dataclass(frozen=True)
class Group:
    """A fused operation: the leaves and how they lie along the shape, and the function of their elements."""

    leaves: tuple[Leaf, ...]
    shape: Shape
    function: Function

    @property
    def results(self) -> list[TensorType]:
        """The types of the results."""
        return [TensorType(self.shape, element) for element in self.function.results]


@dataclasses.dataclass(frozen=True)
class Origin:
    """Which op a step of a group comes from, for errors and listings; of a lookup table, those in it too."""

    operation: Operation
    inside: tuple[Origin, ...] = ()


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A reduction of a group's only output, by one operation whose result is of the output's element type."""

    name: str
    dimensions: tuple[int, ...]
    element: ElementType


@dataclasses.dataclass(frozen=True)
class Ranked:
    """The largest or smallest value of a function of one leaf of 8 bits, from an initial value on.

    It is found as the rank that codes have among the function's values (`RANK`), and the rank is turned into the
    value (`UNRANK`), which is an elementwise operation and can be fused. `name` is the op that reduces.
    """

    function: Function
    name: str
    start: Constant


def cost_of_step(step: Step | Lookup) -> float:
    """What a step costs for an element, in nanoseconds."""
    return LOOKUP_COST if isinstance(step, Lookup) else cost_of(step.name, step.elements)


def is_slow(elements: tuple[ElementType, ...]) -> bool:
    """Whether a single operation takes longer than a lookup: of several operands, with a result of f16.

    10**6 elements of `x + 1` take 2.2 ms on one thread, and 0.6 as a lookup.
    """
    return len(elements) > 2 and elements[-1].name == "f16"


def _is_slow_step(step: Step | Lookup) -> bool:
    return isinstance(step, Step) and is_slow(step.elements)


def cost_of(name: str, elements: tuple[ElementType, ...]) -> float:
    """What an operation costs for an element, in nanoseconds; `elements` are the types of operands and result."""
    if name == UNRANK:
        return LOOKUP_COST
    return _cost_of(name, elements)


@functools.lru_cache(1 << 12)
def _cost_of(name: str, elements: tuple[ElementType, ...]) -> float:
    record = lookup(name)
    if record is not None and record.traits.keeps_bits:
        return 0.0
    if any(e.is_float and e.bits <= 16 for e in elements):
        return LOOKUP_COST
    if any(e.is_float for e in elements):
        return FUNCTION_COST if record is not None and record.accuracy.is_near else _FLOAT
    return _INTEGER
