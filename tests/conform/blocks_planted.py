"""A backend of operations on blocks with one planted fault. It shares nothing with the tester's oracle."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from minihlo import interp
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform.result import CaseResult
from minihlo.ops.types import ELEMENT_TYPES

from . import planted
from .planted import Arrays

#: Changes an operation, its operands or its result.
Before = Callable[[Operation, list[np.ndarray]], tuple[Operation, list[np.ndarray]]]
After = Callable[[Operation, Arrays, np.ndarray], np.ndarray]


def numbers(codes: np.ndarray, element: str) -> np.ndarray:
    """The values of codes, as f64."""
    if element == "i8":
        return codes.view(np.int8) / 64.0
    return np.asarray(codes).view(ELEMENT_TYPES[element].dtype).astype(np.float64)


def typed(codes: np.ndarray, element: str) -> np.ndarray:
    return np.asarray(codes).view(np.int8 if element == "i8" else ELEMENT_TYPES[element].dtype)


def bits_of(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, order="C")
    return x.view(f"u{x.dtype.itemsize}").reshape(x.shape)


def scales_of(codes: np.ndarray, element: str, block: int, k: int) -> np.ndarray:
    return np.repeat(numbers(codes, element), block, axis=1)[:, :k]


def right(operation: Operation, arrays: Arrays) -> np.ndarray:
    """The right codes, by minihlo's functions; of a dot the exact sum, rounded once."""
    facts = operation.attributes
    if operation.op == "quantize":
        rule = None if facts["scale"] == "own" else facts["scale"]
        parts = interp.quantize(typed(arrays[0], operation.operands[0]), facts["format"], _axis(facts), scale=rule)
        return bits_of(parts[("elements", "scales", "tensor_scale").index(facts["gives"])])
    if operation.op == "dequantize":
        given = [typed(x, t) for x, t in zip(arrays, operation.operands, strict=True)]
        more = {"tensor_scale": given[2]} if len(given) > 2 else {}
        found = interp.dequantize(given[0], given[1], facts["format"], _axis(facts), format=operation.result, **more)
        return bits_of(found)
    x, y, s, t = arrays
    k = x.shape[1]
    with np.errstate(all="ignore"):
        left = numbers(x, operation.operands[0]) * scales_of(s, operation.operands[2], facts["blocks"][0], k)
        right_ = numbers(y.T, operation.operands[1]) * scales_of(t.T, operation.operands[3], facts["blocks"][1], k)
        return bits_of(interp.cast(sums(left[:, None] * right_[None]), operation.result))


def sums(products: np.ndarray) -> np.ndarray:
    """The sums along the last dimension, rounded to odd in f64, so that they can be rounded once more."""
    with np.errstate(all="ignore"):
        total = products.sum(axis=-1)
    for at in np.ndindex(total.shape):
        if np.isfinite(total[at]):
            near = math.fsum(products[at])
            rest = math.fsum([*products[at], -near])
            is_even = not np.float64(near).view(np.uint64) & 1
            total[at] = np.nextafter(near, rest * np.inf) if rest and is_even else near
    return total


def _axis(facts) -> int | tuple[int, ...]:
    return (-2, -1) if len(facts["block"]) == 2 else -1


class Planted(planted.Operations):
    """Right but for a fault."""

    def __init__(self, before: Before | None = None, after: After | None = None) -> None:
        self.before, self.after = before, after

    def operate(self, operation: Operation, arrays: Arrays) -> np.ndarray:
        given = [np.asarray(x) for x in arrays]
        changed, operands = self.before(operation, given) if self.before else (operation, given)
        found = right(changed, operands)
        return self.after(operation, given, found) if self.after else found


def run(backend, signature: str, only: Sequence[str] = ()) -> dict[str, CaseResult]:
    """The results of a case, by form."""
    return {r.form: r for r in planted.run(backend, signature, only)}
