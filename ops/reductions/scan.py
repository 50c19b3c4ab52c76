"""scan: a body carried along a dimension, from slice to slice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..op import Call, Run, op
from ..require import require, unpack
from ..types import TensorType, Type


@op("chlo.scan", values="regions")
def scan(call: Call) -> Run:
    """The body applied to each slice of the inputs along a dimension and to the values that it carries along.

    The operands are inputs and then first values of the carries; the body takes a slice of each input (without the
    dimension) and the carries, and gives a slice of each output and the next carries; the results are the outputs and
    the last carries. `is_reverse` begins with the last slice. Where there are no inputs, `scan_dim_size` says how many
    slices there are. `is_associative` allows an order of evaluation that is not made use of.
    """
    require(len(call.bodies) == 1, f"has {len(call.bodies)} regions (expected 1)")
    body, dimension = call.bodies[0], int(call.attribute("dimension"))
    tensors = [call.tensor(i) for i in range(len(call.operands))]
    # An input's slice has one dimension less; a carry has the type of its first value.
    inputs = sum(
        isinstance(t, TensorType) and len(t.shape) < len(own.shape)
        for t, own in zip(body.arguments, tensors, strict=False)
    )
    carries = len(tensors) - inputs
    outputs = len(call.results) - carries
    results = [call.result(i) for i in range(len(call.results))]
    length = _length(call, tensors[:inputs], results[: max(outputs, 0)], dimension)
    takes = [*(_slice(t, dimension) for t in tensors[:inputs]), *tensors[inputs:]]
    gives = [*(_slice(t, dimension) for t in results[:outputs]), *results[outputs:]]
    wanted = f"({', '.join(map(str, takes))}) -> ({', '.join(map(str, gives))})"
    fits = outputs >= 0 and _agree(body.arguments, takes) and _agree(body.results, gives)
    require(fits, f"the body has type {body} (expected {wanted})")
    empty = [tuple(0 if n is None else n for n in t.shape) for t in gives[:outputs]]
    dtypes = [t.element.dtype for t in gives[:outputs]]
    backwards = bool(call.attributes.get("is_reverse", False))

    def kernel(regions: tuple[Callable[..., tuple[Any, ...]], ...], *values: np.ndarray) -> Any:
        step, carried = regions[0], values[inputs:]
        steps = values[0].shape[dimension] if inputs else length
        slices = [np.moveaxis(x, dimension, 0) for x in values[:inputs]]
        collected = [np.empty((steps, *shape), dtype) for shape, dtype in zip(empty, dtypes, strict=True)]
        for count, i in enumerate(range(steps - 1, -1, -1) if backwards else range(steps)):
            given = step(*(x[i, ...] for x in slices), *carried)
            carried = given[outputs:]
            if count == 0:
                collected = [np.empty((steps, *v.shape), d) for v, d in zip(given[:outputs], dtypes, strict=True)]
            for whole, part in zip(collected, given[:outputs], strict=True):
                whole[i] = part
        return unpack((*(np.moveaxis(x, 0, dimension) for x in collected), *carried))

    return kernel


def _length(call: Call, inputs: list[TensorType], outputs: list[TensorType], dimension: int) -> int:
    """How many slices there are, 0 where that is known only when it runs."""
    sizes: set[int | None] = set()
    for t in (*inputs, *outputs):
        require(0 <= dimension < len(t.shape), f"expected a dimension of {t}, got {dimension}")
        sizes.add(t.shape[dimension])
    given = call.attributes.get("scan_dim_size")
    if given is not None and int(given) >= 0:
        sizes.add(int(given))
    else:
        require(inputs, "expected scan_dim_size where there are no inputs, got none")
    known = sorted(s for s in sizes if s is not None)
    require(len(known) <= 1, f"expected one size of dimension {dimension}, got {known}")
    return known[0] if known else 0


def _slice(t: TensorType, dimension: int) -> TensorType:
    return TensorType(t.shape[:dimension] + t.shape[dimension + 1 :], t.element)


def _agree(types: Sequence[Type], expected: list[TensorType]) -> bool:
    """Whether the types can be the same."""
    pairs = zip(types, expected, strict=False)
    return len(types) == len(expected) and all(
        isinstance(t, TensorType) and t.element == e.element and t.agrees(e) for t, e in pairs
    )
