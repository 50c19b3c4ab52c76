"""Batch normalization, against the specification's composition followed step by step in exact arithmetic."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.policy import Policy
from minihlo.ops.registry import Call, OpError, lookup
from minihlo.ops.types import TensorType, element_type

from . import oracle
from .run_op import FLOATS, codes, from_codes, tensor, type_of

ELEMENTS = pytest.mark.parametrize("element", [str(t) for t in FLOATS])
EPSILON = float(np.float32(0.1))


def run(
    name: str,
    operands: list[np.ndarray],
    results: list[TensorType],
    feature: int,
    policy: Policy,
    epsilon: float = EPSILON,
) -> tuple[np.ndarray, ...]:
    record = lookup(name)
    assert record is not None
    attributes = {"epsilon": epsilon, "feature_index": feature}
    types = tuple(type_of(x) for x in operands)
    kernel = record.kernel(Call(record.name, types, tuple(results), attributes, policy=policy))
    with np.errstate(all="ignore"):
        found = kernel(*operands)
    found = found if len(results) > 1 else (found,)
    assert [type_of(np.asarray(x)) for x in found] == results
    return found


class Reference:
    """The compositions on lists of codes: one code after another, as the specification's text reads."""

    def __init__(self, element: str, shape: tuple[int, ...], feature: int) -> None:
        self.fmt, self.shape, self.axis = oracle.FORMATS[element], shape, feature
        self.epsilon = oracle.encode(self.fmt, oracle.Fraction(EPSILON))
        self.places = [i[feature] for i in np.ndindex(shape)]  # the feature of each element, in row-major order
        count = math.prod(shape) // shape[feature] if shape[feature] else 0
        self.count = oracle.encode(self.fmt, oracle.Fraction(count))

    def step(self, function: Callable[..., oracle.Value], *xs: int) -> int:
        return oracle.encode(self.fmt, function(*(oracle.decode(self.fmt, x) for x in xs)))

    def add(self, x: int, y: int) -> int:
        return self.step(oracle.add, x, y)

    def subtract(self, x: int, y: int) -> int:
        return self.step(oracle.BINARY["subtract"], x, y)

    def multiply(self, x: int, y: int) -> int:
        return self.step(oracle.multiply, x, y)

    def divide(self, x: int, y: int) -> int:
        return self.step(oracle.divide, x, y)

    def deviation(self, variance: int) -> int:
        return self.step(oracle.UNARY["sqrt"], self.add(variance, self.epsilon))

    def sum(self, xs: list[int]) -> list[int]:
        totals = [oracle.encode(self.fmt, oracle.ZERO)] * self.shape[self.axis]
        for place, x in zip(self.places, xs, strict=True):
            totals[place] = self.add(totals[place], x)
        return totals

    def mean(self, xs: list[int]) -> list[int]:
        return [self.divide(total, self.count) for total in self.sum(xs)]

    def inference(
        self, xs: list[int], scale: list[int], offset: list[int], mean: list[int], variance: list[int]
    ) -> list[int]:
        results = []
        for f, x in zip(self.places, xs, strict=True):
            normalized = self.divide(self.subtract(x, mean[f]), self.deviation(variance[f]))
            results.append(self.add(self.multiply(scale[f], normalized), offset[f]))
        return results

    def training(self, xs: list[int], scale: list[int], offset: list[int]) -> list[list[int]]:
        mean = self.mean(xs)
        centered = [self.subtract(x, mean[f]) for f, x in zip(self.places, xs, strict=True)]
        variance = self.mean([self.multiply(c, c) for c in centered])
        return [self.inference(xs, scale, offset, mean, variance), mean, variance]

    def grad(
        self, xs: list[int], scale: list[int], mean: list[int], variance: list[int], gradient: list[int]
    ) -> list[list[int]]:
        centered = [self.subtract(x, mean[f]) for f, x in zip(self.places, xs, strict=True)]
        normalized = [self.divide(c, self.deviation(variance[f])) for f, c in zip(self.places, centered, strict=True)]
        sums = self.sum(gradient)
        products = self.sum([self.multiply(g, c) for g, c in zip(gradient, centered, strict=True)])
        operand = []
        for f, g, c in zip(self.places, gradient, centered, strict=True):
            i5 = self.divide(self.multiply(products[f], c), self.add(variance[f], self.epsilon))
            i6 = self.subtract(self.subtract(self.multiply(g, self.count), sums[f]), i5)
            factor = self.divide(self.divide(scale[f], self.deviation(variance[f])), self.count)
            operand.append(self.multiply(factor, i6))
        through = self.sum([self.multiply(g, n) for g, n in zip(gradient, normalized, strict=True)])
        return [operand, through, sums]


def agree(element: str, found: np.ndarray, expected: list[int]) -> bool:
    fmt = oracle.FORMATS[element]
    return all(oracle.same(fmt, a, b) for a, b in zip(codes(found).ravel().tolist(), expected, strict=True))


def operands(element: str, seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Numbers around one; every fourth time any codes at all."""
    rng = np.random.default_rng(seed)
    if seed % 4 == 3:
        return [from_codes(rng.integers(0, 2**63, s, np.uint64), element) for s in shapes]
    return [
        rng.choice([-1.5, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2, 3, 0.7], s).astype(element_type(element).dtype)
        for s in shapes
    ]


def listed(arrays: list[np.ndarray]) -> list[list[int]]:
    return [codes(x).ravel().tolist() for x in arrays]


CASES = [((6,), 0), ((4, 3), 1), ((3, 4), 0), ((2, 2, 2), 2), ((2, 3, 2, 2), 1), ((1, 2), 1), ((0, 2), 1), ((3, 0), 1)]
GIVEN = pytest.mark.parametrize(("shape", "feature"), CASES, ids=str)


@ELEMENTS
@GIVEN
def test_inference(element: str, shape: tuple[int, ...], feature: int) -> None:
    features = (shape[feature],)
    reference = Reference(element, shape, feature)
    for seed in range(4):
        values = operands(element, seed, shape, *[features] * 4)
        (found,) = run("batch_norm_inference", values, [tensor(element, *shape)], feature, Policy())
        assert agree(element, found, reference.inference(*listed(values)))


@ELEMENTS
@GIVEN
def test_training(element: str, shape: tuple[int, ...], feature: int) -> None:
    features = (shape[feature],)
    reference = Reference(element, shape, feature)
    results = [tensor(element, *s) for s in (shape, features, features)]
    for seed in range(4):
        values = operands(element, seed, shape, features, features)
        found = run("batch_norm_training", values, results, feature, Policy())
        for ours, expected in zip(found, reference.training(*listed(values)), strict=True):
            assert agree(element, ours, expected)


@ELEMENTS
@GIVEN
def test_grad(element: str, shape: tuple[int, ...], feature: int) -> None:
    features = (shape[feature],)
    reference = Reference(element, shape, feature)
    results = [tensor(element, *s) for s in (shape, features, features)]
    for seed in range(4):
        values = operands(element, seed, shape, features, features, features, shape)
        found = run("batch_norm_grad", values, results, feature, Policy())
        for ours, expected in zip(found, reference.grad(*listed(values)), strict=True):
            assert agree(element, ours, expected)


def test_the_examples_of_the_specification() -> None:
    x = np.array([[[1.0, 2], [3, 4]], [[3, 4], [1, 2]]])
    one, f64, features = np.ones(2), tensor("f64", 2, 2, 2), tensor("f64", 2)
    mean, policy = np.array([2.0, 3]), Policy()
    normalized = np.array([[[0.0, 0], [2, 2]], [[2, 2], [0, 0]]])
    (found,) = run("batch_norm_inference", [x, one, one, mean, one], [f64], 2, policy, 0.0)
    assert np.array_equal(found, normalized)
    found = run("batch_norm_training", [x, one, one], [f64, features, features], 2, policy, 0.0)
    assert [r.tolist() for r in found] == [normalized.tolist(), [2, 3], [1, 1]]
    gradient = np.full_like(x, 0.1)
    found = run("batch_norm_grad", [x, one, mean, one, gradient], [f64, features, features], 2, policy, 0.0)
    for ours, expected in zip(found, (np.zeros_like(x), [0, 0], [0.4, 0.4]), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-15)


def test_a_count_beyond_the_type_is_nan_or_the_largest() -> None:
    """500 elements: f8E4M3FN has no 500, and f4E2M1FN no NaN."""
    for element, expected in (("f8E4M3FN", [0x7F]), ("f4E2M1FN", [0x00])):
        dtype = element_type(element).dtype
        one, row = tensor(element, 1), np.zeros((500, 1), dtype)
        _, mean, _ = run("batch_norm_training", [row, *[np.ones(1, dtype)] * 2], [type_of(row), one, one], 1, Policy())
        assert codes(mean).tolist() == expected  # 0 / NaN, and 0 / 6


def test_policy_reaches_every_step() -> None:
    """The mean 2/3 lies between 0x32 (0.625) and, nearer to it, 0x33 (0.6875)."""
    up = Policy(rounding="up")
    dtype = element_type("f8E4M3FN").dtype
    x = np.array([[1], [1], [0]], dtype)
    one = tensor("f8E4M3FN", 1)
    arguments = [x, np.ones(1, dtype), np.zeros(1, dtype)], [type_of(x), one, one], 1
    (_, nearest, _), (_, above, _) = (run("batch_norm_training", *arguments, p) for p in (Policy(), up))
    assert (codes(nearest).tolist(), codes(above).tolist()) == ([0x33], [0x33])
    (_, below, _) = run("batch_norm_training", *arguments, Policy(rounding="down"))
    assert codes(below).tolist() == [0x32]


def test_stochastic_rounding_is_reproducible() -> None:
    dtype = element_type("f8E4M3FN").dtype
    x = np.linspace(-3, 3, 40).reshape(8, 5).astype(dtype)
    features = tensor("f8E4M3FN", 5)
    program = [x, np.ones(5, dtype), np.ones(5, dtype)], [type_of(x), features, features], 1
    first, again = (run("batch_norm_training", *program, Policy(rounding="stochastic", seed=4)) for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, again, strict=True))


def test_rows_that_are_not_known() -> None:
    program = """func.func @main(%x: tensor<?x2xf32>, %s: tensor<2xf32>) -> tensor<?x2xf32> {
      %y, %m, %v = "stablehlo.batch_norm_training"(%x, %s, %s) {epsilon = 0.0 : f32, feature_index = 1 : i64}
        : (tensor<?x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<?x2xf32>, tensor<2xf32>, tensor<2xf32>)
      return %y : tensor<?x2xf32>
    }"""
    x = np.array([[1, 3], [3, 7]], np.float32)
    assert interp.load(program)(x, np.ones(2, np.float32))[0].tolist() == [[0, 0], [2, 2]]


X, F = tensor("f32", 4, 3), tensor("f32", 3)


@pytest.mark.parametrize(
    ("name", "types", "results", "feature", "message"),
    [
        ("batch_norm_inference", [X, F, F, F, F], [X], 2, "feature_index"),
        ("batch_norm_inference", [X, F, F, F, F], [X], -1, "feature_index"),
        ("batch_norm_inference", [X, F, F, F, F], [X], 0, "does not fit the features"),
        ("batch_norm_inference", [X, F, F, F, tensor("f32", 1, 3)], [X], 1, "does not fit the features"),
        ("batch_norm_inference", [X, F, F, F, tensor("f64", 3)], [X], 1, "element types"),
        ("batch_norm_inference", [X, F, F, F, F], [F], 1, "shape"),
        ("batch_norm_inference", [tensor("i32", 3)] * 5, [tensor("i32", 3)], 0, "not supported"),
        ("batch_norm_training", [X, F, F], [X, F, tensor("f32", 4)], 1, "does not fit the features"),
        ("batch_norm_training", [X, F, F], [X, F, tensor("f64", 3)], 1, "element types"),
        ("batch_norm_grad", [X, F, F, F, F], [X, F, F], 1, "shape"),
        ("batch_norm_grad", [X, F, F, tensor("f32", 4), X], [X, F, F], 1, "does not fit the features"),
    ],
)
def test_errors(name: str, types: list[TensorType], results: list[TensorType], feature: int, message: str) -> None:
    record = lookup(name)
    assert record is not None
    attributes = {"epsilon": 0.0, "feature_index": feature}
    with pytest.raises(OpError, match=message):
        record.kernel(Call(record.name, tuple(types), tuple(results), attributes))
