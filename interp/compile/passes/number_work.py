"""What loops on single numbers cost beside loops on arrays, and which operations have expressions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ....ops.registry import OpError
from ....ops.types import QuantizedType, TensorType, Type
from ...program import Operation, Value
from .. import scalars
from ..group import Attributes
from .fusible import elements_of
from .loops import KernelOf


class Unfit(Exception):
    """A loop stays as it is."""


def is_small(t: Type) -> bool:
    """Whether values of a type have a few elements that can be held as plain numbers."""
    if not isinstance(t, TensorType) or not t.is_static or isinstance(t.element, QuantizedType):
        return False
    return 0 < t.size <= tuning().number_elements and scalars.form(TensorType((), t.element)) is not None


def count_of(value: Value) -> int:
    """How many numbers stand for a tensor of a few elements; 0 where it is there as it is."""
    return value.type.size if is_small(value.type) and value.type.shape else 0  # type: ignore[union-attr]


class Work:
    """What is known while a loop becomes one of numbers: `source` is the loop, `saved` and `spent` are µs of a turn."""

    def __init__(self, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, compiles: bool) -> None:
        self.constants, self.policy, self._kernel_of, self._compiles = constants, policy, kernel_of, compiles
        self._expressions: dict[Any, bool] = {}

    def begin(self, loop: Operation) -> None:
        """Begin a loop."""
        self.source, self._count, self._is_compiled = loop.origin or loop, 0, self._compiles
        self.saved = self._spent = 0.0

    def pays(self) -> bool:
        """Whether numbers are less work than arrays."""
        now = tuning()
        is_compiled = self._is_compiled and self._count <= now.loop_lines
        return self.saved > (self._spent / now.numbers_compiled if is_compiled else self._spent)

    def count(self) -> None:
        """Count an operation on numbers. Raises Unfit where there are too many."""
        self._count += 1
        if self._count > tuning().number_ops:
            raise Unfit

    def spend(self, cost: float, is_number: bool = True) -> None:
        """Take note of the µs that numbers cost in a turn, and whether compiled code knows what is done."""
        self._spent += cost
        self._is_compiled &= is_number

    def has_expression(self, operation: Operation) -> bool:
        """Whether an elementwise operation on single numbers is one expression."""
        attributes, elements = Attributes(operation.attributes), elements_of(operation)
        key = operation.name, attributes, elements
        if key not in self._expressions:
            self._expressions[key] = self._has(operation.name, attributes, elements)
        return self._expressions[key]

    def _has(self, name: str, attributes: Attributes, elements: Sequence[Any]) -> bool:
        types = tuple([TensorType((), e) for e in elements])
        if not all(map(scalars.form, types)):
            return False
        try:
            kernel = self._kernel_of(name, attributes, types)
        except OpError:
            return False
        names = [f"x{i}" for i in range(len(elements) - 1)]
        use = scalars.Use(elements[:-1], elements[-1], names, attributes, self.policy, kernel, lambda _: "k")
        return scalars.expression(name, use) is not None
