"""Operations made of others: maps, scans, normalizations, iota, checks, and the broadcasting forms of CHLO."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import lookup, ops
from ...ops.ordering import value_keys
from ...ops.reductions import normalization
from ...ops.tables import all_codes
from ...ops.types import ElementType, TensorType
from ..program import Operation, Region, Value
from .draws import draw, numbered_loop
from .folds import Combiner
from .lookup import look_up, operate
from .rewrite import Emulation
from .rounding import exact_of_integer, round_number
from .rules import attributes_of, carrier, constant_of, element_of, emulates, number_of, refuses, rules, types_of
from .tensor import F32, I64, Tensor, constant, insert, iota

_FAR = 1 << 61  # from the keys of all numbers

refuses("it draws numbers of the interpreter's own generator", "rng")
refuses("it is computed in f64 by the host's library", "cholesky", "triangular_solve", "fft")
refuses("a file of minifloats is compared", "check.expect_serialized_eq")
refuses("functions of minifloats are not run in parallel", "interpreter.run_parallel", "async_start")


@emulates("map")
def map_(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The body on arrays, or on one element after the other."""
    (region,), (result,), shape = operation.regions, operation.results, operands[0].shape
    if e.binder.body(region).vectorised is not None or not shape:
        (found,) = e.apply(region, operands)
        return [found if found.shape == shape else found.broadcast(shape)]
    element, flat = carrier(element_of(result)), [x.reshape((x.size,)) for x in operands]

    def body(index: Tensor, done: Tensor) -> list[Tensor]:
        return [done.with_row(e.apply(region, [x.row(index) for x in flat])[0], index)]

    (done,) = numbered_loop(e, flat[0].size, body, [constant(0, element, flat[0].shape)])
    return [done.reshape(shape)]


@emulates("chlo.scan")
def scan(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A loop over the slices."""
    (region,), attributes = operation.regions, operation.attributes
    d, takes = int(attributes["dimension"]), e.binder.body(region).arguments
    inputs = sum(
        isinstance(t, TensorType) and len(t.shape) < len(x.shape) for t, x in zip(takes, operands, strict=True)
    )
    slices = [x.transpose([d, *(i for i in range(len(x.shape)) if i != d)]) for x in operands[:inputs]]
    carries, outputs = operands[inputs:], len(operation.results) - len(operands[inputs:])
    steps = operands[0].shape[d] if inputs else int(attributes["scan_dim_size"])
    collected = []
    for value in operation.results[:outputs]:
        shape = [n or 0 for n in value.shape or ()]
        collected.append(constant(0, carrier(element_of(value)), (steps, *shape[:d], *shape[d + 1 :])))

    def body(index: Tensor, *state: Tensor) -> list[Tensor]:
        at = (steps - 1) - index if attributes.get("is_reverse", False) else index
        given = e.apply(region, [*(x.row(at) for x in slices), *state[outputs:]])
        return [*(c.with_row(v, at) for c, v in zip(state, given[:outputs], strict=False)), *given[outputs:]]

    done = numbered_loop(e, steps, body, [*collected, *carries])
    back = [[*range(1, d + 1), 0, *range(d + 1, len(x.shape))] for x in done[:outputs]]
    return [*(x.transpose(p) for x, p in zip(done, back, strict=False)), *done[outputs:]]


@emulates("iota", "dynamic_iota")
def iota_(e: Emulation, operation: Operation, _: Sequence[Any]) -> Sequence[Any]:
    """Integers, rounded once."""
    (result,), d = operation.results, int(operation.attributes["iota_dimension"])
    shape, fmt = tuple([n or 0 for n in result.shape or ()]), element_of(result).format
    line = exact_of_integer(iota(I64, (shape[d],)))
    draws = draw(e, (shape[d],)) if e.policy.rounding == "stochastic" and math.prod(shape) else None
    return [round_number(line, fmt, e.policy, draws).broadcast(shape, [d])]


@emulates("reverse")
def reverse(_: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Codes in the opposite order."""
    return [operands[0].reverse(*np.ravel(operation.attributes["dimensions"]).tolist())]


# -- checks ------------------------------------------------------------------------------------------------------------


@emulates("check.expect_eq", "check.expect_eq_const", "check.expect_almost_eq", "check.expect_almost_eq_const")
def expect(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The same check of the numbers in f32, which has all of them."""
    numbers = all_codes(types_of(operation)[0]).astype(np.float32)
    return _check(e, operation, operands, numbers, F32)


@emulates("check.expect_close")
def expect_close(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The same check of integers as far apart as the numbers."""
    element = types_of(operation)[0]
    keys = value_keys(all_codes(element), element).astype(np.int64)
    far = np.where(keys == np.iinfo(np.int16).max, 3, np.sign(keys)) * _FAR
    return _check(e, operation, operands, np.where(abs(keys) <= element.format.max_code, keys, far), I64)


def _check(
    e: Emulation, operation: Operation, operands: Sequence[Tensor], numbers: np.ndarray, to: ElementType
) -> list[Any]:
    element, values = types_of(operation)[0], list(operands)
    attributes = {k: v for k, v in attributes_of(e.mlir(operation)).items() if k != "value"}
    if "value" in operation.attributes:
        expected = operation.attributes["value"]
        values.append(constant_of(np.broadcast_to(expected, operands[0].shape), element))
    decoded = [look_up(e, numbers, to, [x], [element]).value for x in values]
    insert(operation.name.removesuffix("_const"), [], decoded, attributes)
    return []


# -- forms with broadcasting -------------------------------------------------------------------------------------------


@emulates(*(name for name in ops() if name.startswith("chlo.broadcast_")))
def broadcasting(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The operation itself on operands of the result's shape."""
    (result,), plain = operation.results, operation.name.removeprefix("chlo.broadcast_")
    attributes, shape = dict(operation.attributes), tuple([n or 0 for n in result.shape or ()])
    given = attributes.pop("broadcast_dimensions", None)
    wide = []
    for x in operands:
        rank = len(x.shape)
        dimensions = list(range(len(shape) - rank, len(shape)))
        if given is not None and rank == len(given) < len(shape):
            dimensions = [int(d) for d in np.ravel(given)]
        wide.append(x.broadcast(shape, dimensions))
    name = next(n for n in (f"stablehlo.{plain}", f"chlo.{plain}") if lookup(n) is not None)
    values = tuple([Value(TensorType(shape, t)) for t in types_of(operation)])
    inner = dataclasses.replace(operation, name=name, operands=values, attributes=attributes)
    return (rules()[0].get(name) or rules()[0]["minihlo.elementwise"])(e, inner, wide)


# -- normalizations ----------------------------------------------------------------------------------------------------


def region_of(name: str, element: ElementType, operation: Operation) -> Region:
    """Return the region of a body that is one operation on two numbers."""
    x, y, z = (Value(TensorType((), element)) for _ in range(3))
    return Region((x, y), [Operation(name, (x, y), (z,), {}, (), operation.location)], (z,))


class _Steps:
    """The steps of normalizations over one operand: tensors of its shape, or with a number for each feature."""

    def __init__(self, e: Emulation, operation: Operation, x: Tensor) -> None:
        self._e, self._operation, self._shape = e, operation, x.shape
        self._element, self._feature = types_of(operation)[0], int(operation.attributes["feature_index"])
        names = ("add", "subtract", "multiply", "divide", "sqrt")
        self.add, self.subtract, self.multiply, self.divide, self.sqrt = (
            functools.partial(self._apply, name) for name in names
        )
        self.epsilon = number_of(float(operation.attributes["epsilon"]), self._element)

    def _apply(self, name: str, *operands: Tensor) -> Tensor:
        shape = max((x.shape for x in operands), key=len)
        wide = [
            x.broadcast(shape, [self._feature] if x.shape else []) if len(x.shape) < len(shape) else x for x in operands
        ]
        return operate(self._e, name, wide, [self._element] * len(wide), self._element)

    def spread(self, x: Tensor) -> Tensor:
        """Return numbers of features as they are: operations broadcast them."""
        return x

    def count(self, x: Tensor) -> Tensor:
        """Return how many elements each feature has."""
        return number_of(x.size // max(self._shape[self._feature], 1), self._element)

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum for each feature."""
        features = self._shape[self._feature]
        start = number_of(0.0, self._element, (features,))
        if not x.size:
            return start
        order = [d for d in range(len(x.shape)) if d != self._feature]
        rows = x.transpose([*order, self._feature]).reshape((x.size // features, features))
        combiner = Combiner.of(self._e, region_of("stablehlo.add", self._element, self._operation))
        return combiner.fold([start], [rows])[0]

    def mean(self, x: Tensor) -> Tensor:
        """Return the mean for each feature."""
        return self.divide(self.sum(x), self.count(x))


@emulates("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def batch_norm(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The specification's compositions, each step a lookup."""
    steps = _Steps(e, operation, operands[0])
    if operation.name == "stablehlo.batch_norm_inference":
        return [normalization.normalize(steps, *operands)]
    is_training = operation.name == "stablehlo.batch_norm_training"
    return (normalization.normalize_by_own if is_training else normalization.gradients)(steps, *operands)
