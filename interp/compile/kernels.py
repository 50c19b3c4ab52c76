"""The kernels of elementwise operations, found from their declarations by name, attributes, types and policy."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from ...ops.cast import by_blocks, through_bf16
from ...ops.engine.amortised import Amortised
from ...ops.engine.speed import tuning
from ...ops.op import Call, UnsupportedOpError, lookup
from ...ops.policy import Policy
from ...ops.random_stream import RandomStream
from ...ops.traits import Kernel, Run
from ...ops.types import TensorType, Type
from ..program import Operation
from .executors.ranks import RankedReduction
from .group import UNRANK, Attributes, Function, Lookup, Ranked, Reduction, Step
from .leaf import Compute
from .reductions import folding_of


class Kernels:
    """The kernels of a plan, each bound once however many operations use it."""

    def __init__(self, policy: Policy, random: RandomStream) -> None:
        self._policy, self._random = policy, random
        self._kernels: dict[Hashable, Kernel] = {}
        self._ranked: dict[Ranked, RankedReduction] = {}

    def of(self, name: str, attributes: Attributes, types: tuple[Type, ...]) -> Kernel:
        """The kernel of an elementwise op with one result; `types` are those of its operands and of that.

        Raises OpError where the use is not valid.
        """
        key = name, attributes, types
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = self._kernels[key] = self._bound(name, attributes, types)
        return kernel

    def of_operation(self, operation: Operation) -> Kernel:
        """The kernel of an elementwise op of a program. Raises OpError where the op is not valid."""
        types = tuple([v.type for v in (*operation.operands, *operation.results)])
        return self.of(operation.name, Attributes(operation.attributes), types)

    def of_step(self, step: Step, shape: tuple[int | None, ...]) -> Kernel:
        """The kernel of a step of a group that has some shape."""
        types = tuple([TensorType(shape, t.element) if t.shape else t for t in step.types])
        return self.of(step.name, step.attributes, types)

    def ranked(self, ranked: Ranked) -> RankedReduction:
        """What finds ranks and turns them into values."""
        if ranked not in self._ranked:
            folding = folding_of(Reduction(ranked.name, (0,), ranked.start.element), (1,), self._policy)
            assert folding is not None
            (leaf,), compute = ranked.function.leaves, self.evaluated(ranked.function)
            self._ranked[ranked] = RankedReduction(compute, leaf, folding, ranked.start.array)
        return self._ranked[ranked]

    def _evaluated_step(self, step: Step | Lookup) -> Run:
        if isinstance(step, Lookup):
            compute = self.evaluated(step.function)
            return lambda *values: compute(*values)[0]
        assert isinstance(step, Step)
        return self.of_step(step, (None,)).call

    def evaluated(self, function: Function) -> Compute:
        """A function that calls the kernels of its steps one after the other, where no op is asked for by an error."""
        calls = [(self._evaluated_step(step), step.operands) for step in function.steps]
        constants = [constant.array for constant in function.constants]

        def compute(*leaves: np.ndarray) -> tuple[np.ndarray, ...]:
            values: list[Any] = [*leaves, *constants]
            for call, operands in calls:
                values.append(call(*[values[i] for i in operands]))
            return tuple([values[i] for i in function.outputs])

        return compute

    def _bound(self, name: str, attributes: Attributes, types: tuple[Type, ...]) -> Kernel:
        if name == UNRANK:
            return Kernel(self.ranked(attributes["ranked"]).value)
        if "clipped" in attributes:
            clipped, result = attributes["clipped"], types[-1]
            assert isinstance(result, TensorType)
            kernel = ClippingConvert(self.evaluated(clipped), result.element.dtype)
            return Kernel(kernel, of_bfloat16=kernel.entries)
        record = lookup(name)
        if record is None:
            raise UnsupportedOpError("this op is not supported")
        return record.kernel(Call(name, types[:-1], types[-1:], attributes, (), self._policy, self._random))


class ClippingConvert:
    """A convert of f32 that clips first, as narrow.py says: step by step, and by a table once that pays."""

    def __init__(self, steps: Callable[..., tuple[np.ndarray, ...]], dtype: np.dtype) -> None:
        self._steps, self._dtype = steps, dtype
        self._table = Amortised(self._entries, lambda: tuning().narrow_worth, nbytes=lambda table: table.nbytes)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        table = self.entries(x.size)
        if table is None:
            return self._steps(x)[0]
        return by_blocks(x, self._dtype, lambda part: through_bf16(part, table))

    def entries(self, size: int) -> np.ndarray | None:
        """The table of the codes of bfloat16, if there is one or it is made for so many elements."""
        return self._table.get(size)

    def _entries(self) -> np.ndarray:
        return self._steps((np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32))[0]
