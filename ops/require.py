"""Checks of the uses of ops: shapes, element types and dimensions. Each raises OpError where it does not hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from .op import Call, OpError
from .traits import Run
from .types import ElementType, TensorType


def require(condition: object, message: str) -> None:
    """Raise OpError with the message where the condition does not hold."""
    if not condition:
        raise OpError(message)


def require_shape(call: Call, expected: tuple[int | None, ...]) -> None:
    """The first result must have this shape; a dimension of unknown size, on either side, fits any."""
    t = call.result()
    within = f" within {shape_text(t.bounds)}" if t.bounds else ""
    require(t.admits(expected), f"expected a result of shape {shape_text(expected)}, got {shape_text(t.shape)}{within}")
    if not t.is_static and None not in expected:
        call.reserve(TensorType(expected, t.element))


def result_shape(call: Call, expected: tuple[int | None, ...]) -> tuple[int, ...]:
    """The shape of the first result, as far as the operands determine it.

    A size that neither they nor the type determine is the bound that the type has for it, as in XLA.
    """
    t = call.result()
    require_shape(call, expected)
    known = zip(expected, t.shape, t.bounds or (None,) * len(t.shape), strict=True)
    shape = tuple(next((n for n in sizes if n is not None), None) for sizes in known)
    require(None not in shape, f"expected a result whose sizes its operands or its type determine, got {t}")
    require_shape(call, shape)
    return shape  # pyright: ignore[reportReturnType]


def shape_text(shape: tuple[int | None, ...]) -> str:
    """A shape as messages write it."""
    return "[" + ", ".join("?" if d is None else str(d) for d in shape) + "]"


def require_element(call: Call, *others: TensorType) -> None:
    """The first operand, the first result and any others must have one element type."""
    element = call.tensor().element
    for t in (call.result(), *others):
        require(t.element == element, f"expected element type {element}, got {t.element}")


def require_same_types(call: Call) -> None:
    """All operands and the first result must have one type."""
    types = [*map(call.tensor, range(len(call.operands))), call.result()]
    same = all(t.element == types[0].element and t.admits(types[0].shape) for t in types)
    require(same, f"operands and result have types {', '.join(map(str, types))} (expected the same)")


def require_dimensions(name: str, dimensions: tuple[int, ...], rank: int) -> None:
    """Each must number a dimension of something of this rank, and none twice."""
    for d in dimensions:
        require(0 <= d < rank, f"expected {name} from 0 to {rank - 1}, got {d}")
    require(len(set(dimensions)) == len(dimensions), f"expected {name} without repetition, got {list(dimensions)}")


def storage(element: ElementType) -> np.dtype:
    """A type of the same width that numpy itself moves: for the types of ml_dtypes unsigned integers."""
    dtype = element.dtype
    return dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")


def identity(value: Any) -> Any:
    """The kernel of an op that changes nothing."""
    return value


def unpack(results: tuple[Any, ...]) -> Any:
    """Results as a kernel returns them: one by itself, several as a tuple."""
    return results[0] if len(results) == 1 else results


def on_arrays(region: Run, dtype: Any) -> Run:
    """A region of one result that takes scalars, as a function of arrays of one shape: it is called for each place."""

    def run(*arrays: np.ndarray) -> tuple[np.ndarray]:
        results = np.empty(arrays[0].shape, dtype)
        for index in np.ndindex(results.shape):
            # With the ellipsis an element is an array: the scalars of ml_dtypes' types are not what kernels take.
            (results[index],) = region(*(x[(*index, ...)] for x in arrays))
        return (results,)

    return run
