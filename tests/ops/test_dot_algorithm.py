"""The `algorithm` attribute of dot_general, against numpy and ml_dtypes."""

import functools

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy

from ..run_op import bind, tensor
from .test_dot import KEPT, LARGE_AND_SMALL, LOST, matmul, numbers, random_array


def algorithm(lhs: str, rhs: str, accumulation: str, lhs_count: int = 1, rhs_count: int = 1, products: int = 1) -> dict:
    return {
        "lhs_precision_type": lhs, "rhs_precision_type": rhs, "accumulation_type": accumulation,
        "lhs_component_count": lhs_count, "rhs_component_count": rhs_count, "num_primitive_operations": products,
        "allow_imprecise_accumulation": False,
    }  # fmt: skip


def tf32(x: np.ndarray) -> np.ndarray:
    """f32 to 11 bits of precision, as the nearest multiple of 2**(exponent - 10)."""
    exponent = np.frexp(x)[1] - 11
    return np.ldexp(np.rint(np.ldexp(x.astype(np.float64), -exponent)), exponent).astype(np.float32)


def pair_of(element: str = "f32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    dtype = tensor(element).element.dtype
    return random_array(dtype, rng, 13, 40), random_array(dtype, rng, 40, 7)


def test_algorithm_precision() -> None:
    x, y = pair_of()
    for name, rounded in (
        ("bf16", lambda v: v.astype(ml_dtypes.bfloat16).astype(np.float32)),
        ("f16", lambda v: v.astype(np.float16).astype(np.float32)),
        ("f8E5M2", lambda v: v.astype(ml_dtypes.float8_e5m2).astype(np.float32)),
        ("tf32", tf32),
        ("f32", lambda v: v),
    ):
        expected = rounded(x) @ rounded(y)
        np.testing.assert_array_equal(matmul(x, y, "f32", algorithm=algorithm(name, name, "f32")), expected)
        actual = matmul(x, y, "bf16", algorithm=algorithm(name, name, "f32"))
        np.testing.assert_array_equal(actual, expected.astype(ml_dtypes.bfloat16))
    double = matmul(x, y, "f64", algorithm=algorithm("f64", "f64", "f64"))
    np.testing.assert_array_equal(double, x.astype(np.float64) @ y.astype(np.float64))
    halves = matmul(x, y, "f32", algorithm=algorithm("f32", "bf16", "f32"))
    np.testing.assert_array_equal(halves, x @ y.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_algorithm_wins_over_the_policy() -> None:
    for accumulate in ("exact", "element", "f32"):
        product = functools.partial(matmul, *LARGE_AND_SMALL, "f64", Policy(accumulate=accumulate))
        assert product(algorithm=algorithm("f8E5M2", "f8E5M2", "f32"))[0, 0] == LOST
        assert product(algorithm=algorithm("f32", "f32", "f64"))[0, 0] == KEPT
        empty = product(algorithm=dict.fromkeys(algorithm("f32", "f32", "f32")))
        assert empty[0, 0] == (LOST if accumulate == "f32" else KEPT)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_algorithm_accumulates_in_sixteen_bits(name: str) -> None:
    x, y = pair_of(name)
    total = np.zeros((13, 7), x.dtype)
    for k in range(40):
        total = (total.astype(np.float32) + (x[:, k, None] * y[None, k]).astype(np.float32)).astype(x.dtype)
    np.testing.assert_array_equal(matmul(x, y, "f32", algorithm=algorithm(name, name, name)), total.astype(np.float32))


def test_algorithm_components() -> None:
    """Each more product brings the result nearer; and the products are those that the names of the algorithms say."""
    x, y = pair_of()
    exact = x.astype(np.float64) @ y.astype(np.float64)
    errors = {}
    cases = [("bf16", 1, 1), ("bf16", 2, 3), ("bf16", 3, 6), ("bf16", 3, 9), ("tf32", 1, 1), ("tf32", 2, 3)]
    for name, count, products in cases:
        actual = matmul(x, y, "f32", algorithm=algorithm(name, name, "f32", count, count, products))
        errors[name, products] = float(np.abs(actual - exact).max())
    assert errors["bf16", 1] > 100 * errors["bf16", 3] > 100 * errors["bf16", 6] > 0
    assert errors["tf32", 1] > 100 * errors["tf32", 3]
    assert max(errors["bf16", 6], errors["bf16", 9], errors["tf32", 3]) < 1e-5

    def parts(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        high = v.astype(ml_dtypes.bfloat16).astype(np.float32)
        return high, (v - high).astype(ml_dtypes.bfloat16).astype(np.float32)

    (x_high, x_low), (y_high, y_low) = parts(x), parts(y)
    three = (x_low @ y_high + x_high @ y_low) + x_high @ y_high
    np.testing.assert_array_equal(matmul(x, y, "f32", algorithm=algorithm("bf16", "bf16", "f32", 2, 2, 3)), three)


@pytest.mark.parametrize(("products", "count"), [(3, 2), (4, 2), (6, 3), (9, 3)])
def test_products_of_one_component_are_of_as_many_as_it_takes(products: int, count: int) -> None:
    """As JAX writes BF16_BF16_F32_X3, X6 and X9."""
    x, y = pair_of()
    short, long = (matmul(x, y, "f32", algorithm=algorithm("bf16", "bf16", "f32", n, n, products)) for n in (1, count))
    np.testing.assert_array_equal(short, long)


def test_algorithm_components_of_infinities() -> None:
    """The residue of an infinity is NaN, which must not reach the result."""
    x, y = np.array([[np.inf, 1], [-np.inf, 2], [np.nan, 1]], np.float32), np.array([[1], [3]], np.float32)
    for count, products in ((2, 3), (3, 6), (3, 9)):
        actual = matmul(x, y, "f32", algorithm=algorithm("bf16", "bf16", "f32", count, count, products))
        np.testing.assert_array_equal(actual, np.array([[np.inf], [-np.inf], [np.nan]], np.float32))


def test_algorithm_of_integers() -> None:
    x = np.array([[1, 2], [3, 4]])
    for name in ("tf32", "f32", "f16"):
        assert matmul(x, x, "i64", algorithm=algorithm(name, name, "f32")).tolist() == [[7, 10], [15, 22]]
        mixed = matmul(x.astype(np.uint8), x > 1, "f32", algorithm=algorithm(name, name, "f32"))
        assert mixed.tolist() == [[2, 3], [4, 7]]


def test_wrong_algorithms() -> None:
    operands, result = [tensor("f32", 2, 3), tensor("f32", 3, 4)], tensor("f32", 2, 4)
    good = algorithm("f32", "f32", "f32")
    for attributes, message in (
        ({"algorithm": "fast"}, "expected algorithm to be a structure"),
        ({"algorithm": good, "precision_config": ("HIGH", "DEFAULT")}, "DEFAULT"),
        ({"algorithm": {"lhs_precision_type": "f32"}}, "got none for rhs_precision_type"),
        ({"algorithm": algorithm("f33", "f32", "f32")}, "lhs_precision_type: expected an element type, got 'f33'"),
        ({"algorithm": algorithm("f32", "i8", "f32")}, "rhs_precision_type to be a float type or tf32, got i8"),
        ({"algorithm": algorithm("tf32", "tf32", "tf32")}, "accumulation_type tf32"),
        ({"algorithm": algorithm("bf16", "bf16", "f32", 0)}, "lhs_component_count of 1 to 16, got 0"),
        ({"algorithm": algorithm("bf16", "bf16", "f32", 2, 2, 2)}, r"num_primitive_operations may be 1, 3, 4\)"),
        ({"algorithm": algorithm("bf16", "bf16", "f32", 1, 1, 2)}, r"num_primitive_operations may be 1\)"),
    ):
        with pytest.raises(OpError, match=message):
            bind("dot_general", operands, result, dot_dimension_numbers=numbers(), **attributes)
    wide = [tensor("complex<f32>", 2, 3), tensor("complex<f32>", 3, 4)]
    with pytest.raises(OpError, match="complex"):
        bind("dot_general", wide, tensor("complex<f32>", 2, 4), dot_dimension_numbers=numbers(), algorithm=good)
