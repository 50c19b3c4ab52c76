"""Dynamic shapes: ops whose types leave sizes open are specialized when they run, once for each set of sizes.

A program for any batch size says `tensor<?x4xf32>`. The sizes are known when it runs, and an op is bound then, for
tensors of these sizes: it goes through the same checks and takes the same short cuts as in a program that states them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from ...ops.engine.amortised import Recent
from ...ops.op import Call, Op, OpError
from ...ops.traits import Kernel, Run
from ...ops.types import TensorType, Type

Sizes = tuple[tuple[int, ...], ...]


def bind(record: Op, call: Call) -> Kernel:
    """The kernel of a use of an op; its types may leave sizes open. Raises OpError as `record.kernel` does."""
    if record.any_sizes:
        return Kernel(_guarded(record.function(call), call), traits=record.traits)
    tensors = [i for i, t in enumerate(call.operands) if isinstance(t, TensorType)]
    if _are_static(call.operands):
        return record.kernel(call)
    if record.is_elementwise:
        return Kernel(_elementwise(record.function(call), call))

    def bound(sizes: Sizes) -> Run:
        operands = list(call.operands)
        for i, shape in zip(tensors, sizes, strict=True):
            operands[i] = TensorType(shape, call.tensor(i).element)
        return record.function(dataclasses.replace(call, operands=tuple(operands)))

    return Kernel(_remembered(call, tensors, bound))


def _elementwise(kernel: Run, call: Call) -> Run:
    """The kernel itself takes any sizes: what is left to check is that they agree, and that there is memory."""

    def checked(sizes: Sizes) -> Run:
        for shape in sizes:
            if shape != sizes[0]:
                raise OpError(f"operands have shapes {list(sizes[0])} and {list(shape)} (expected the same)")
        for i in range(len(call.results)):
            call.reserve(TensorType(sizes[0], call.result(i).element))
        return kernel

    return _remembered(call, [i for i, t in enumerate(call.operands) if isinstance(t, TensorType) and t.shape], checked)


def _remembered(call: Call, places: Iterable[int], bind: Callable[[Sizes], Run]) -> Run:
    """The kernels that `bind` makes for the sizes of the operands at `places`, each when it is wanted first.

    These sizes must determine those of the results, which are checked against their types once.
    """
    kernels: Recent[Sizes, Run] = Recent()
    at = [i + (1 if call.bodies else 0) for i in places]  # the regions come first

    def first_use(sizes: Sizes, values: tuple[Any, ...]) -> Any:
        kernel = bind(sizes)
        results = kernel(*values)
        _require_types("the result", (results,) if len(call.results) == 1 else results, call.results)
        kernels.keep(sizes, kernel)
        return results

    # This runs before every op, so the common cases are written out.
    def of_one(*values: Any) -> Any:
        sizes = (values[first].shape,)
        kernel = kernels.get(sizes)
        return first_use(sizes, values) if kernel is None else kernel(*values)

    def of_two(x: Any, y: Any) -> Any:
        sizes = x.shape, y.shape
        kernel = kernels.get(sizes)
        return first_use(sizes, (x, y)) if kernel is None else kernel(x, y)

    def of_any(*values: Any) -> Any:
        sizes = tuple([values[i].shape for i in at])
        kernel = kernels.get(sizes)
        return first_use(sizes, values) if kernel is None else kernel(*values)

    first = at[0]
    return of_one if len(at) == 1 else of_two if at == [0, 1] and len(call.operands) == 2 else of_any


def _guarded(kernel: Run, call: Call) -> Run:
    """Control flow, where a value can get another type that says more of its sizes than it had before."""
    same = all(
        body.arguments in ((), call.operands) and (body.results == call.results or _are_static(body.results))
        for body in call.bodies
    )
    if same and (call.operands == call.results or not any(body.arguments for body in call.bodies)):
        return kernel

    def entered(region: Callable[..., Any], types: tuple[Type, ...]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            _require_types("an argument of the region", values, types)
            return region(*values)

        return run if types else region

    def guarded(regions: tuple[Callable[..., Any], ...], *values: Any) -> Any:
        pairs = zip(regions, call.bodies, strict=True)
        results = kernel(tuple(entered(region, body.arguments) for region, body in pairs), *values)
        _require_types("the result", (results,) if len(call.results) == 1 else results, call.results)
        return results

    return guarded


def _are_static(types: Iterable[Type]) -> bool:
    return all(t.is_static for t in types if isinstance(t, TensorType))


def _require_types(what: str, values: Iterable[Any], types: Iterable[Type]) -> None:
    for value, t in zip(values, types, strict=True):
        if isinstance(t, TensorType) and not t.admits(value.shape):
            raise OpError(f"{what} has shape {list(value.shape)}, which does not fit {t}")
