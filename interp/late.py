"""Ops on tensors whose types leave sizes open: bound when they run, once for each set of sizes that comes.

A program for any batch size says `tensor<?x4xf32>`. What its values really are is known when it runs, so an op is then
bound for tensors of those sizes: it meets every check and short cut that it has in a program that states them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..ops.registry import Call, Kernel, Op, OpError
from ..ops.types import TensorType, TupleType, Type

#: A use of an op sees the same few sizes again and again: kernels for so many are kept.
_KEPT = 16

Sizes = tuple[tuple[int, ...], ...]


def bind(record: Op, call: Call) -> Kernel:
    """The kernel of a use of an op, at once where the types tell all sizes. Raises OpError as `record.kernel` does."""
    if record.any_sizes:
        return _guarded(record.kernel(call), call)
    places = tuple(i for i, t in enumerate(call.operands) if isinstance(t, TensorType) and not t.is_static)
    if not places:
        return record.kernel(call)
    if record.is_elementwise:
        kernel = record.kernel(call)
        places = tuple(i for i, t in enumerate(call.operands) if isinstance(t, TensorType) and t.shape)
        return _remembered(places, 0, lambda sizes: _same_shape(kernel, call, sizes))
    return _remembered(places, 1 if call.bodies else 0, lambda sizes: _bound(record, call, places, sizes))


def _remembered(places: tuple[int, ...], first: int, bind: Callable[[Sizes], Callable[..., Any]]) -> Kernel:
    """A kernel that binds another for the sizes of the values at `places`; the values come after `first` regions.

    `bind` gives what is called the first time, when the results are looked at, and it may then return another kernel
    to call from now on, as its attribute `then`.
    """
    kernels: dict[Sizes, Kernel] = {}
    at = tuple(i + first for i in places)

    def kernel(*values: Any) -> Any:
        sizes = tuple([values[i].shape for i in at])
        found = kernels.get(sizes)
        if found is not None:
            return found(*values)
        made = bind(sizes)
        results = made(*values)
        if len(kernels) >= _KEPT:
            kernels.clear()
        kernels[sizes] = made
        return results

    return kernel
