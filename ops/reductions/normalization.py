"""Batch normalization: the specification's own compositions of other ops.

The steps of f16, bf16 and f32 are those of f64, in which none overflows where the result is finite, and each result is
rounded once. The steps of f64 and of minifloats are rounded to the type, as the specification writes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import cast
from ..op import Accuracy, Body, Call, Run, kernel_of, op
from ..policy import Policy
from ..require import require, require_dimensions, require_element, require_shape
from ..types import ELEMENT_TYPES, TensorType
from .folds import fold_of

_STEPS = Accuracy("f16, bf16 and f32 computed in f64 and rounded once; others rounded at each step")
_F64 = ELEMENT_TYPES["f64"]


class _Steps:
    """The ops of the compositions over one operand type. A value for each feature is shaped to broadcast along it."""

    def __init__(self, call: Call) -> None:
        self._call, t = call, call.tensor()
        self._element = t.element
        if t.element.bits in (16, 32):
            call, t = dataclasses.replace(call, policy=Policy()), TensorType(t.shape, _F64)
        rank, self._feature = len(t.shape), int(call.attribute("feature_index"))
        require_dimensions("feature_index", (self._feature,), rank)
        self._steps, self._type = call, t
        self._across = tuple(-1 if d == self._feature else 1 for d in range(rank))
        self.add, self.subtract, self.multiply, self.divide = map(self._bind, ("add", "subtract", "multiply", "divide"))
        self.sqrt = self._bind("sqrt", 1)
        # A constant of the program has the operand's type, and is rounded to nearest, whatever the policy.
        epsilon = cast(np.array(float(call.attribute("epsilon"))), _F64, self._element, Policy())
        self.epsilon = cast(epsilon, self._element, t.element, Policy())
        self._zero, scalar = self._constant(0.0), TensorType((), t.element)
        body = Body((scalar,) * 2, (scalar,), "stablehlo.add", vectorised=lambda x, y: (self.add(x, y),))
        self._fold = fold_of(call, body)

    def run(self, formula: Callable[..., Any]) -> Run:
        """A kernel: the formula of the steps and the operands, its results rounded to the type."""
        policy, random = self._call.policy, self._call.random

        def narrow(x: np.ndarray) -> np.ndarray:
            return cast(x, self._type.element, self._element, policy, random.draws(policy))

        def run(*values: np.ndarray) -> Any:
            results = formula(self, *(cast(x, self._element, self._type.element, policy) for x in values))
            return tuple(map(narrow, results)) if isinstance(results, tuple) else narrow(results)

        return run

    def check(self, first: int, *results: int) -> None:
        """Operands from `first` on and these results have one element for each feature; all have one element type."""
        tensors = [self._call.tensor(i) for i in range(1, len(self._call.operands))]
        require_element(self._call, *tensors, *(self._call.result(i) for i in range(len(self._call.results))))
        for t in (*tensors[first - 1 :], *(self._call.result(i) for i in results)):
            self.check_features(t)

    def check_features(self, t: TensorType) -> None:
        operand = self._call.tensor()
        expected = TensorType((operand.shape[self._feature],), operand.element)
        require(t.agrees(expected), f"{t} does not fit the features of {operand} (expected {expected})")

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
        return cast(np.array(value), _F64, self._type.element, Policy())

    def _bind(self, name: str, operands: int = 2) -> Run:
        return kernel_of(self._steps.like(name, (self._type,) * operands, (self._type,)))


@op("batch_norm_inference", "float", values="numbers", accuracy=_STEPS, operands=5)
def batch_norm_inference(call: Call) -> Run:
    """scale * (operand - mean) / sqrt(variance + epsilon) + offset, for each feature its own scale, mean and so on.

    (C1) feature_index is a dimension. (C2) one element type. (C3-C6) scale, offset, mean and variance have an element
    for each feature. (C7) the result has the operand's type.
    """
    steps = _Steps(call)
    steps.check(1)
    require_shape(call, call.tensor().shape)
    return steps.run(normalize)


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
    return steps.run(normalize_by_own)


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
    return steps.run(gradients)


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
