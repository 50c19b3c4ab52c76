"""Dynamic shapes: an op whose types leave sizes open is bound when it runs, once for each set of sizes.

A program for any batch size says `tensor<?x4xf32>`. The sizes are known when it runs. Then the op is bound for tensors
of these sizes and goes through the same checks as in a program that states them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ..ops.op import Call, Op, OpError
from ..ops.traits import Run
from ..ops.types import TensorType, Type

Sizes = tuple[tuple[int, ...], ...]

#: The number of sets of sizes for which an op keeps kernels: a limit of memory.
MOST_KERNELS = 8


def bind(record: Op, call: Call) -> Run:
    """Return the kernel of a use of an op; its types may leave sizes open. Raises OpError as `Op.function` does."""
    if record.any_sizes:
        return record.function(call)
    if are_static(call.operands):
        return record.function(call)
    tensors = [i for i, t in enumerate(call.operands) if isinstance(t, TensorType)]
    if record.is_elementwise:
        return _elementwise(record.function(call), call)

    def bind_sizes(sizes: Sizes) -> Run:
        operands = list(call.operands)
        for i, shape in zip(tensors, sizes, strict=True):
            operands[i] = TensorType(shape, call.tensor(i).element)
        return record.function(dataclasses.replace(call, operands=tuple(operands)))

    return _by_sizes(call, tensors, bind_sizes)


def _elementwise(kernel: Run, call: Call) -> Run:
    """Return a kernel that takes any sizes, and checks that they agree and that there is memory."""

    def check(sizes: Sizes) -> Run:
        for shape in sizes:
            if shape != sizes[0]:
                raise OpError(f"operands have shapes {list(sizes[0])} and {list(shape)} (expected the same)")
        for i in range(len(call.results)):
            call.reserve(TensorType(sizes[0], call.result(i).element))
        return kernel

    return _by_sizes(call, [i for i, t in enumerate(call.operands) if isinstance(t, TensorType) and t.shape], check)


def _by_sizes(call: Call, places: Iterable[int], bind: Callable[[Sizes], Run]) -> Run:
    """Return a kernel that calls those of `bind` for the sizes of the operands at `places`.

    These sizes must determine those of the results, which are checked against their types once.
    """
    kernels: dict[Sizes, Run] = {}
    at = [i + (1 if call.bodies else 0) for i in places]  # the regions come first

    def run(*values: Any) -> Any:
        sizes = tuple([values[i].shape for i in at])
        kernel = kernels.get(sizes)
        if kernel is not None:
            return kernel(*values)
        kernel = bind(sizes)
        results = kernel(*values)
        require_types("the result", (results,) if len(call.results) == 1 else results, call.results)
        while len(kernels) >= MOST_KERNELS:
            kernels.pop(next(iter(kernels)), None)
        kernels[sizes] = kernel
        return results

    return run


def are_static(types: Iterable[Type]) -> bool:
    """Return whether the sizes of all tensors are known."""
    return all(t.is_static for t in types if isinstance(t, TensorType))


def require_types(name: str, values: Iterable[Any], types: Iterable[Type]) -> None:
    """Raise OpError where the shape of a value does not fit its type."""
    for value, t in zip(values, types, strict=True):
        if isinstance(t, TensorType) and not t.admits(value.shape):
            raise OpError(f"{name} has shape {list(value.shape)}, which does not fit {t}")
