"""Batch normalization, against the specification's composition followed step by step in exact arithmetic.

Each step is rounded, to the element type or, for f16, bf16 and f32, to f64.
"""

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.op import Call, OpError, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.types import TensorType, element_type

from .. import oracle
from ..oracle_batch_norm import BatchNorm
from ..run_op import FLOATS, codes, from_codes, tensor, type_of
from ..thinned import TYPICAL, thinned

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
    kernel = record.function(Call(record.name, types, tuple(results), attributes, policy=policy))
    with np.errstate(all="ignore"):
        result = kernel(*operands)
    result = result if len(results) > 1 else (result,)
    assert [type_of(np.asarray(x)) for x in result] == results
    return result


def agree(element: str, result: np.ndarray, expected: list[oracle.Value]) -> bool:
    fmt = oracle.FORMATS[element]
    pairs = zip(codes(result).ravel().tolist(), expected, strict=True)
    return all(oracle.same(fmt, code, oracle.encode(fmt, v)) for code, v in pairs)


def operands(element: str, seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Numbers around one; every fourth time any codes at all."""
    rng = np.random.default_rng(seed)
    if seed % 4 == 3:
        return [from_codes(rng.integers(0, 2**63, s, np.uint64), element) for s in shapes]
    return [
        rng.choice([-1.5, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2, 3, 0.7], s).astype(element_type(element).dtype)
        for s in shapes
    ]


def listed(element: str, arrays: list[np.ndarray]) -> list[list[oracle.Value]]:
    return [[oracle.decode(oracle.FORMATS[element], c) for c in codes(x).ravel().tolist()] for x in arrays]


CASES = [((6,), 0), ((4, 3), 1), ((3, 4), 0), ((2, 2, 2), 2), ((2, 3, 2, 2), 1), ((1, 2), 1), ((0, 2), 1), ((3, 0), 1)]
GIVEN = pytest.mark.parametrize(("shape", "feature"), CASES, ids=str)


@pytest.mark.parametrize("name", ["inference", "training", "grad"])
@pytest.mark.parametrize(
    ("element", "shape", "feature"),
    thinned(
        ((str(t), *case) for t in FLOATS for case in CASES),
        lambda element, shape, _: shape == (3, 4) or element in (*TYPICAL, "f16", "f32", "f64"),
    ),
)
def test_every_step_is_rounded(element: str, shape: tuple[int, ...], feature: int, name: str) -> None:
    features = (shape[feature],)
    epsilon = oracle.decode(oracle.FORMATS[element], oracle.encode(oracle.FORMATS[element], oracle.Fraction(EPSILON)))
    steps = "f64" if element in ("f16", "bf16", "f32") else element
    reference = BatchNorm(oracle.FORMATS[steps], shape, feature, float(epsilon))
    takes = [shape, *[features] * {"inference": 4, "training": 2, "grad": 3}[name], *[shape] * (name == "grad")]
    results = [tensor(element, *s) for s in (shape, features, features)][: 1 if name == "inference" else 3]
    for seed in range(4):
        values = operands(element, seed, *takes)
        actual = run(f"batch_norm_{name}", values, results, feature, Policy())
        for ours, expected in zip(actual, getattr(reference, name)(*listed(element, values)), strict=True):
            assert agree(element, ours, expected)


def test_the_examples_of_the_specification() -> None:
    x = np.array([[[1.0, 2], [3, 4]], [[3, 4], [1, 2]]])
    one, f64, features = np.ones(2), tensor("f64", 2, 2, 2), tensor("f64", 2)
    mean, policy = np.array([2.0, 3]), Policy()
    normalized = np.array([[[0.0, 0], [2, 2]], [[2, 2], [0, 0]]])
    (actual,) = run("batch_norm_inference", [x, one, one, mean, one], [f64], 2, policy, 0.0)
    assert np.array_equal(actual, normalized)
    actual = run("batch_norm_training", [x, one, one], [f64, features, features], 2, policy, 0.0)
    assert [r.tolist() for r in actual] == [normalized.tolist(), [2, 3], [1, 1]]
    gradient = np.full_like(x, 0.1)
    actual = run("batch_norm_grad", [x, one, mean, one, gradient], [f64, features, features], 2, policy, 0.0)
    for ours, expected in zip(actual, (np.zeros_like(x), [0, 0], [0.4, 0.4]), strict=True):
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
        ("batch_norm_inference", [X, F, F, F, tensor("f64", 3)], [X], 1, "expected element type "),
        ("batch_norm_inference", [X, F, F, F, F], [F], 1, "shape"),
        ("batch_norm_inference", [tensor("i32", 3)] * 5, [tensor("i32", 3)], 0, "expected an element type of float"),
        ("batch_norm_training", [X, F, F], [X, F, tensor("f32", 4)], 1, "does not fit the features"),
        ("batch_norm_training", [X, F, F], [X, F, tensor("f64", 3)], 1, "expected element type "),
        ("batch_norm_grad", [X, F, F, F, F], [X, F, F], 1, "shape"),
        ("batch_norm_grad", [X, F, F, tensor("f32", 4), X], [X, F, F], 1, "does not fit the features"),
    ],
)
def test_errors(name: str, types: list[TensorType], results: list[TensorType], feature: int, message: str) -> None:
    record = lookup(name)
    assert record is not None
    attributes = {"epsilon": 0.0, "feature_index": feature}
    with pytest.raises(OpError, match=message):
        record.function(Call(record.name, tuple(types), tuple(results), attributes))


def test_no_step_overflows_where_the_result_is_finite() -> None:
    """16384 / sqrt(1/16) is 65536, which f16 lacks; times 2^-7, and 3, it is 515. The mean of 70,000 ones is one."""
    x, one = np.array([[16384.0], [1]], np.float16), tensor("f16", 1)
    features = [np.array([v], np.float16) for v in (2**-7, 3, 0, 0.0625)]
    (result,) = run("batch_norm_inference", [x, *features], [type_of(x)], 1, Policy(), 0.0)
    assert result.ravel().tolist() == [515, 3.03125]
    many, ones = np.ones((70_000, 1), np.float16), [np.ones(1, np.float16)] * 2
    _, mean, variance = run("batch_norm_training", [many, *ones], [type_of(many), one, one], 1, Policy())
    assert (mean.tolist(), variance.tolist()) == ([1], [0])
