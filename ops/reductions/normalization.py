"""Batch normalization: the specification's own compositions of other ops, each step rounded to the element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..cast import cast
from ..op import Accuracy, Body, Call, Run, kernel_of, op
from ..policy import Policy
from ..require import require, require_dimensions, require_element, require_shape
from ..types import ELEMENT_TYPES, TensorType
from .folds import fold_of

_STEPS = Accuracy("each step of its composition is rounded")


class _Steps:
    """The ops of the compositions over one operand type. A value for each feature is shaped to broadcast along it."""

    def __init__(self, call: Call) -> None:
        self._call, t = call, call.tensor()
        rank, self._feature = len(t.shape), int(call.attribute("feature_index"))
        require_dimensions("feature_index", (self._feature,), rank)
        self._type = t
        self._features = TensorType((t.shape[self._feature],), t.element)
        self._across = tuple(-1 if d == self._feature else 1 for d in range(rank))
        self.add, self.subtract, self.multiply, self.divide = map(self._bind, ("add", "subtract", "multiply", "divide"))
        self.sqrt = self._bind("sqrt", 1)
        self.epsilon = self._constant(float(call.attribute("epsilon")))
        self._zero, scalar = self._constant(0.0), TensorType((), t.element)
        body = Body((scalar,) * 2, (scalar,), "stablehlo.add", vectorised=lambda x, y: (self.add(x, y),))
        self._fold = fold_of(call, body)

    def check(self, first: int, *results: int) -> None:
        """Operands from `first` on and these results have one element for each feature; all have one element type."""
        tensors = [self._call.tensor(i) for i in range(1, len(self._call.operands))]
        require_element(self._call, *tensors, *(self._call.result(i) for i in range(len(self._call.results))))
        for t in (*tensors[first - 1 :], *(self._call.result(i) for i in results)):
            self.check_features(t)

    def check_features(self, t: TensorType) -> None:
        n = self._features.shape[0]
        fits = len(t.shape) == 1 and (t.shape[0] == n or None in (t.shape[0], n))
        require(fits, f"{t} does not fit the features of {self._type} (expected {self._features})")

    def spread(self, features: np.ndarray) -> np.ndarray:
        return features.reshape(self._across)

    def sum(self, x: np.ndarray) -> np.ndarray:
        """The sum for each feature."""
        count = x.shape[self._feature]
        start = np.broadcast_to(self._zero, (count,))
        if not x.size:
            return start
        return self._fold(lambda *_: (), [start], [np.moveaxis(x, self._feature, -1).reshape(-1, count)])[0]

    def mean(self, x: np.ndarray) -> np.ndarray:
        """The mean for each feature."""
        return self.divide(self.sum(x), self.count(x))

    def count(self, x: np.ndarray) -> np.ndarray:
        """How many elements each feature has."""
        features = x.shape[self._feature]
        # Without features there is no result to see it in.
        return self._constant(float(x.size // features if features else 0)).reshape((1,))

    def _constant(self, value: float) -> np.ndarray:
        # Constants of a program are rounded to nearest, whatever the policy.
        return cast(np.array(value), ELEMENT_TYPES["f64"], self._type.element, Policy())

    def _bind(self, name: str, operands: int = 2) -> Run:
        return kernel_of(self._call.like(name, (self._type,) * operands, (self._type,)))


@op("batch_norm_inference", "float", values="numbers", accuracy=_STEPS, operands=5)
def batch_norm_inference(call: Call) -> Run:
    """scale * (operand - mean) / sqrt(variance + epsilon) + offset, for each feature its own scale, mean and so on.

    (C1) feature_index is a dimension. (C2) one element type. (C3-C6) scale, offset, mean and variance have an element
    for each feature. (C7) the result has the operand's type.
    """
    steps = _Steps(call)
    steps.check(1)
    require_shape(call, call.tensor().shape)
    return lambda *values: normalize(steps, *values)


def normalize(steps: Any, x: Any, *features: Any) -> Any:
    """The operand normalized. `steps` has the operations on arrays, as `_Steps`."""
    scale, offset, mean, variance = map(steps.spread, features)
    deviation = steps.sqrt(steps.add(variance, steps.epsilon))
    normalized = steps.divide(steps.subtract(x, mean), deviation)
    return steps.add(steps.multiply(scale, normalized), offset)


@op("batch_norm_training", "float", values="numbers", accuracy=_STEPS, operands=3)
def batch_norm_training(call: Call) -> Run:
    """The operand normalized by its own mean and variance for each feature, and those two.

    (C1) feature_index is a dimension. (C2) one element type. (C3-C6) scale, offset, mean and variance have an element
    for each feature. (C7) the output has the operand's type.
    """
    steps = _Steps(call)
    steps.check(1, 1, 2)
    require_shape(call, call.tensor().shape)
    return lambda *values: normalize_by_own(steps, *values)


def normalize_by_own(steps: Any, x: Any, scale: Any, offset: Any) -> tuple[Any, Any, Any]:
    """The operand normalized by its own mean and variance, and those."""
    mean = steps.mean(x)
    centered = steps.subtract(x, steps.spread(mean))
    variance = steps.mean(steps.multiply(centered, centered))
    return normalize(steps, x, scale, offset, mean, variance), mean, variance


@op("batch_norm_grad", "float", values="numbers", accuracy=_STEPS, operands=5)
def batch_norm_grad(call: Call) -> Run:
    """The gradients of batch_norm_training's operand, scale and offset, from that of its output.

    (C1) feature_index is a dimension. (C2) one element type. (C3) operand, grad_output and grad_operand have one shape.
    (C4, C5) scale, mean, variance, grad_scale and grad_offset have an element for each feature.
    """
    steps = _Steps(call)
    steps.check(5, 1, 2)
    for i in (1, 2, 3):
        steps.check_features(call.tensor(i))
    require_shape(call, call.tensor().shape)
    require_shape(call, call.tensor(4).shape)
    return lambda *values: gradients(steps, *values)


def gradients(steps: Any, x: Any, scale: Any, mean: Any, variance: Any, gradient: Any) -> tuple[Any, Any, Any]:
    """The gradients of the operand, the scale and the offset."""
    add, subtract, multiply, divide = steps.add, steps.subtract, steps.multiply, steps.divide
    scale, mean, variance = map(steps.spread, (scale, mean, variance))
    centered = subtract(x, mean)
    shifted = add(variance, steps.epsilon)
    deviation = steps.sqrt(shifted)
    count = steps.count(x)
    grad_offset = steps.sum(gradient)
    through_scale = steps.sum(multiply(gradient, centered))
    rest = subtract(multiply(gradient, count), steps.spread(grad_offset))
    rest = subtract(rest, divide(multiply(steps.spread(through_scale), centered), shifted))
    grad_operand = multiply(divide(divide(scale, deviation), count), rest)
    grad_scale = steps.sum(multiply(gradient, divide(centered, deviation)))
    return grad_operand, grad_scale, grad_offset
