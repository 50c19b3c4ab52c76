"""Converts of f32 to minifloats that take the clipping before them along.

The rule. Rounding to odd to bfloat16 keeps all that a minifloat can see, and an order relative to every number of
bfloat16; sign changes commute with it. So where f32 is clipped by such numbers, negated or made absolute, and then
converted, all that is one lookup in a table of the 65,536 codes of bfloat16, which has to be gone through for the
convert alone.

Measured with numpy alone on a busy machine, on 10**6 elements, ms: quantize (largest of all, divide, clip, convert) 3.5
and 2.8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.engine.amortised import Amortised
from ...ops.engine.cast import by_blocks, through_bf16
from ...ops.kernel import Kernel
from ...ops.types import ELEMENT_TYPES, TensorType
from ..program import Operation
from .fusible import PutOff, frozen

#: The table is made once so many elements have gone the long way.
_WORTH = 1 << 16


def narrowed(operation: Operation, kernel: Kernel, fusion: PutOff) -> tuple[Operation, Kernel] | None:
    """A convert of what is clipped, as one op on what is not; None where it is no such convert."""
    if operation.name != "stablehlo.convert" or not _is_narrowing(operation):
        return None
    steps: list[Callable[[Any], Any]] = [kernel.call]
    key: list[Any] = []
    (source,) = operation.operands
    while (node := fusion.pending.get(source)) is not None and node.kernel.facts.by_order:
        operands = node.operation.operands
        numbers = [fusion.scalar(v) for v in operands]
        open_places = [i for i, number in enumerate(numbers) if number is None]
        if len(open_places) != 1 or not all(number is None or _is_short(number) for number in numbers):
            break
        (place,) = open_places
        if len(operands) == 3 and place != 1:
            break
        steps.append(_applied(node.kernel, numbers, place))
        key.append((node.operation.name, place, *(None if n is None else n.tobytes() for n in numbers)))
        source = operands[place]
    if not key:
        return None
    attributes = {**operation.attributes, "before": repr(frozen(key))}
    made = Operation(operation.name, (source,), operation.results, attributes, (), operation.location)
    clipping = _Narrowing(steps[::-1], operation.results[0].type.element.dtype)  # type: ignore[union-attr]
    return made, Kernel(clipping, of_bfloat16=clipping.entries)


def _is_narrowing(operation: Operation) -> bool:
    source, target = operation.operands[0].type, operation.results[0].type
    return (
        isinstance(source, TensorType)
        and isinstance(target, TensorType)
        and source.element == ELEMENT_TYPES["f32"]
        and target.element.is_minifloat
    )


def _is_short(number: np.ndarray) -> bool:
    """Whether a number of f32 is one of bfloat16."""
    return number.dtype == np.float32 and not int(number.view(np.uint32)) & 0xFFFF


def _applied(kernel: Kernel, numbers: list[np.ndarray | None], place: int) -> Callable[[Any], Any]:
    before, after = numbers[:place], numbers[place + 1 :]
    run = kernel.call
    return lambda x: run(*before, x, *after)


class _Narrowing:
    """The ops one after the other, and once that pays, all of them by a table."""

    def __init__(self, steps: list[Callable[[Any], Any]], dtype: np.dtype) -> None:
        self._steps, self._dtype = steps, dtype
        self._table = Amortised(self._entries, _WORTH, nbytes=lambda table: table.nbytes)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        table = self.entries(x.size)
        return self._walk(x) if table is None else by_blocks(x, self._dtype, lambda part: through_bf16(part, table))

    def entries(self, size: int) -> np.ndarray | None:
        """The table of the codes of bfloat16, if there is one or it is made for so many elements."""
        return self._table.get(size)

    def _entries(self) -> np.ndarray:
        return self._walk((np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32))

    def _walk(self, x: np.ndarray) -> np.ndarray:
        for step in self._steps:
            x = step(x)
        return x
