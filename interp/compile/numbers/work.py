"""Estimates whether a loop costs less on single numbers than on arrays, and which operations have such expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import OpError
from ....ops.policy import Policy
from ....ops.types import ElementType, QuantizedType, TensorType, Type
from ...program import Operation, Value
from .. import scalars
from ..group import Attributes
from ..passes.fusible import elements_of
from ..passes.loops import KernelOf
from ..uses import Known


class Unfit(Exception):
    """Raised where a loop cannot be rewritten."""


def is_small(t: Type) -> bool:
    """Whether a type has so few elements, of such a type, that they can be held as plain Python numbers."""
    if not isinstance(t, TensorType) or not t.is_static or isinstance(t.element, QuantizedType):
        return False
    return 0 < t.size <= tuning().number_elements and scalars.form(TensorType((), t.element)) is not None


def count_of(value: Value) -> int:
    """The number of elements of a small tensor; 0 for scalars and larger tensors, which are not taken apart."""
    return value.type.size if is_small(value.type) and value.type.shape else 0  # type: ignore[union-attr]


class Work:
    """The state of rewriting one loop, `source`.

    `saved` is the time that calls on arrays take in an iteration, and `_spent` that of numbers, both in µs.
    """

    def __init__(self, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, compiles: bool) -> None:
        self.constants, self.policy, self._kernel_of, self._compiles = constants, policy, kernel_of, compiles
        self._expressions: dict[Any, bool] = {}

    def begin(self, loop: Operation) -> None:
        """Begin to rewrite a loop."""
        self.source, self._count, self._is_compiled = loop.origin or loop, 0, self._compiles
        self.saved = self._spent = 0.0
        self.captured: Known = {}

    def pays(self) -> bool:
        """Whether the loop takes less time on numbers than on arrays."""
        now = tuning()
        is_compiled = self._is_compiled and self._count <= now.loop_lines
        return self.saved > (self._spent / now.numbers_compiled if is_compiled else self._spent)

    def count(self) -> None:
        """Count an operation on numbers. Raises Unfit above the limit of operations."""
        self._count += 1
        if self._count > tuning().number_ops:
            raise Unfit

    def spend(self, cost: float, is_number: bool = True) -> None:
        """Add the µs that an operation takes in an iteration; `is_number`: whether it can be compiled."""
        self._spent += cost
        self._is_compiled &= is_number

    def has_expression(self, operation: Operation) -> bool:
        """Whether an elementwise operation can be written as one expression of single numbers."""
        attributes, elements = Attributes(operation.attributes), elements_of(operation)
        key = operation.name, attributes, elements
        if key not in self._expressions:
            self._expressions[key] = self._has(operation.name, attributes, elements)
        return self._expressions[key]

    def folded(self, operation: Operation, operands: Sequence[Value], element: ElementType) -> np.ndarray | None:
        """What an elementwise operation gives for single numbers that are constants; None where one is not."""
        if self.policy.rounding == "stochastic" or any(v not in self.constants for v in operands):
            return None
        types = (*(v.type for v in operands), TensorType((), element))
        kernel = self._kernel_of(operation.name, Attributes(operation.attributes), types)
        with np.errstate(all="ignore"):
            return np.asarray(kernel(*(self.constants[v] for v in operands)))

    def products(self, operation: Operation) -> Sequence[Sequence[tuple[int, int]]] | None:
        """`Kernel.products` of an operation."""
        types = tuple([v.type for v in (*operation.operands, *operation.results)])
        try:
            products = self._kernel_of(operation.name, Attributes(operation.attributes), types).products
        except OpError:
            return None
        return None if products is None else products()

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
