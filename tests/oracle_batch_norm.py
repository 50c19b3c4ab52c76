"""Batch normalization for the oracle: the specification's compositions, one element after another."""

import math
from collections.abc import Sequence

import numpy as np

from . import oracle
from .oracle import Format, Fraction, Value

Values = Sequence[Value]


class BatchNorm:
    """Of elements in row-major order; every step is rounded to the format."""

    def __init__(self, fmt: Format, shape: tuple[int, ...], feature: int, epsilon: float) -> None:
        self._fmt = fmt
        self._feature_of = [index[feature] for index in np.ndindex(shape)]
        self.features, self._epsilon = shape[feature], self.rounded(Fraction(epsilon))
        self._count = self.rounded(Fraction(math.prod(shape) // shape[feature] if shape[feature] else 0))

    def rounded(self, x: Value) -> Value:
        """What a step makes of an exact result."""
        return oracle.decode(self._fmt, oracle.encode(self._fmt, x))

    def _step(self, op: str, x: Value, y: Value) -> Value:
        return self.rounded(oracle.BINARY[op](x, y))

    def _sum(self, xs: Values) -> list[Value]:
        totals = [self.rounded(oracle.ZERO)] * self.features
        for f, x in zip(self._feature_of, xs, strict=True):
            totals[f] = self._step("add", totals[f], x)
        return totals

    def _mean(self, xs: Values) -> list[Value]:
        return [self._step("divide", total, self._count) for total in self._sum(xs)]

    def _centered(self, xs: Values, mean: Values) -> list[Value]:
        return [self._step("subtract", x, mean[f]) for f, x in zip(self._feature_of, xs, strict=True)]

    def _deviations(self, variance: Values) -> list[Value]:
        return [self.rounded(oracle.UNARY["sqrt"](self._step("add", v, self._epsilon))) for v in variance]

    def inference(self, xs: Values, scale: Values, offset: Values, mean: Values, variance: Values) -> list[list[Value]]:
        step, deviation, result = self._step, self._deviations(variance), []
        for f, c in zip(self._feature_of, self._centered(xs, mean), strict=True):
            result.append(step("add", step("multiply", scale[f], step("divide", c, deviation[f])), offset[f]))
        return [result]

    def training(self, xs: Values, scale: Values, offset: Values) -> list[list[Value]]:
        mean = self._mean(xs)
        variance = self._mean([self._step("multiply", c, c) for c in self._centered(xs, mean)])
        return [*self.inference(xs, scale, offset, mean, variance), mean, variance]

    def grad(self, xs: Values, scale: Values, mean: Values, variance: Values, gradient: Values) -> list[list[Value]]:
        step, deviation, centered = self._step, self._deviations(variance), self._centered(xs, mean)
        sums = self._sum(gradient)
        products = self._sum([step("multiply", g, c) for g, c in zip(gradient, centered, strict=True)])
        operand, through = [], []
        for f, g, c in zip(self._feature_of, gradient, centered, strict=True):
            part = step("divide", step("multiply", products[f], c), step("add", variance[f], self._epsilon))
            rest = step("subtract", step("subtract", step("multiply", g, self._count), sums[f]), part)
            factor = step("divide", step("divide", scale[f], deviation[f]), self._count)
            operand.append(step("multiply", factor, rest))
            through.append(step("multiply", g, step("divide", c, deviation[f])))
        return [operand, self._sum(through), sums]
