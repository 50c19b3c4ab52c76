"""Products of known sizes choose their way once; those of f32 and f64 have the bits of `np.matmul`, from +0."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from minihlo.ops.types import ELEMENT_TYPES

from ..ops.test_dot import numbers
from ..run_op import run, tensor

#: Rows, length and columns: products that BLAS takes whole, on one thread, in parts; with vectors; of few terms.
SIZES = [(16, 64, 256), (33, 65, 190), (260, 270, 300), (7, 9, 5), (1, 40, 30), (30, 40, 1), (1, 12, 1), (2, 5, 2)]


DTYPES = {
    name: ELEMENT_TYPES[name].dtype
    for name in ("bf16", "f16", "f32", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN", "f6E2M3FN")
}


def bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.itemsize}")


def lain(x: np.ndarray) -> list[np.ndarray]:
    """The same numbers in several orders in memory."""
    apart = np.zeros([2 * n + 1 for n in x.shape], x.dtype)[tuple(slice(0, 2 * n, 2) for n in x.shape)]
    apart[...] = x
    return [x, np.asfortranarray(x), apart, np.ascontiguousarray(x[::-1])[::-1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_bits_of_matmul(sizes: tuple[int, int, int], dtype: type) -> None:
    (m, k, n), rng = sizes, np.random.default_rng(1)
    x, y = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    x[0], y[:, 0] = -0.0, 1.0
    result, whole = tensor(f"f{8 * x.itemsize}", m, n), m * k * n < 1 << 24
    for (a, x_sum), (b, y_sum) in itertools.product([(x, 1), (x.T, 0)], [(y, 0), (y.T, 1)]):
        dims = numbers((), (), (x_sum,), (y_sum,))
        for lhs, rhs in zip(lain(a), lain(b), strict=True):
            actual = run("dot_general", lhs, rhs, result=result, dot_dimension_numbers=dims)
            if whole:
                if m * k * n <= 1 << 18:  # in row-major order, whatever they lay in
                    lhs, rhs = np.ascontiguousarray(lhs), np.ascontiguousarray(rhs)
                elif 1 in (m, n):  # numpy would sum vectors with gaps in another order
                    lhs, rhs = (v.copy(order="K") for v in (lhs, rhs))
                expected = np.matmul(lhs if x_sum else lhs.T, rhs.T if y_sum else rhs) + dtype(0)
                np.testing.assert_array_equal(bits(actual), bits(expected))
            else:
                np.testing.assert_allclose(actual, x.astype(np.float64) @ y, rtol=1e-3, atol=1e-3)
            assert not np.signbit(actual[0]).any()  # sums begin with +0


@pytest.mark.parametrize(
    ("shapes", "dims", "matrices"),
    [
        (((3, 8, 6, 20), (3, 6, 20, 9)), ((0, 2), (0, 1), (3,), (2,)), lambda x, y: (x.transpose(0, 2, 1, 3), y)),
        (((4, 30, 12), (4, 12, 25)), ((0,), (0,), (2,), (1,)), lambda x, y: (x, y)),
        (
            ((4, 12, 30), (4, 25, 12)),
            ((0,), (0,), (1,), (2,)),
            lambda x, y: (x.transpose(0, 2, 1), y.transpose(0, 2, 1)),
        ),
        (((1, 12, 30), (1, 12, 25)), ((0,), (0,), (1,), (1,)), lambda x, y: (x.transpose(0, 2, 1), y)),
        (((5, 6, 16), (16, 24)), ((), (), (2,), (0,)), lambda x, y: (x.reshape(30, 16), y)),
        (((5, 6, 24), (5, 6, 16)), ((), (), (0, 1), (0, 1)), lambda x, y: (x.reshape(30, 24).T, y.reshape(30, 16))),
        (
            ((6, 5, 4), (4, 5, 7)),
            ((), (), (2, 1), (0, 1)),
            lambda x, y: (x.transpose(0, 2, 1).reshape(6, 20), y.reshape(20, 7)),
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, tuple) else "",
)
def test_dimensions(
    shapes: tuple[tuple[int, ...], ...],
    dims: tuple[tuple[int, ...], ...],
    matrices: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    free = [x.shape[d] for d in dims[0]] + [n for i, n in enumerate(x.shape) if i not in dims[0] + dims[2]]
    free += [n for i, n in enumerate(y.shape) if i not in dims[1] + dims[3]]
    actual = run("dot_general", x, y, result=tensor("f32", *free), dot_dimension_numbers=numbers(*dims))
    expected = np.matmul(*matrices(x, y)).reshape(free)
    np.testing.assert_array_equal(bits(actual), bits(expected))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize(
    "types", [("bf16", "bf16", "bf16"), ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "f32", "f16")], ids=str
)
def test_bits_of_halves(sizes: tuple[int, int, int], types: tuple[str, str, str]) -> None:
    """Products of f16 and bf16 are those of their numbers in f32, rounded once."""
    (m, k, n), rng = sizes, np.random.default_rng(5)
    x, y = (rng.normal(size=s).astype(DTYPES[t]) for s, t in zip([(m, k), (k, n)], types, strict=False))
    x[-1], y[:, -1] = x[-1] * 200, y[:, -1] * 200  # some sums overflow f16
    result = tensor(types[2], m, n)
    for (a, x_sum), (b, y_sum) in itertools.product([(x, 1), (x.T, 0)], [(y, 0), (y.T, 1)]):
        dims = numbers((), (), (x_sum,), (y_sum,))
        actual = run("dot_general", a, b, result=result, dot_dimension_numbers=dims)
        wide = [v.astype(np.float32) for v in (a, b)]
        sums = run("dot_general", *wide, result=tensor("f32", m, n), dot_dimension_numbers=dims)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(bits(actual), bits(sums.astype(DTYPES[types[2]])))


@pytest.mark.parametrize(
    "types", [("f8E4M3FN", "f8E5M2"), ("f8E4M3FNUZ", "f8E4M3FNUZ"), ("f4E2M1FN", "f6E2M3FN")], ids=str
)
def test_exact_products_of_known_sizes(types: tuple[str, str]) -> None:
    """One rounding of the sums of all products, which f64 holds; NaN and infinities where operands have them."""
    rng = np.random.default_rng(6)
    for m, k, n in [(3, 4, 5), (8, 64, 40), (40, 200, 70)]:
        x, y = (rng.normal(size=s).astype(DTYPES[t]) for s, t in zip([(m, k), (k, n)], types, strict=True))
        for is_special in (False, True):
            if is_special and "f4" not in types[0]:
                x[1, 2], y[0, 3] = np.nan, np.inf
            for (a, x_sum), (b, y_sum) in itertools.product([(x, 1), (x.T, 0)], [(y, 0), (y.T, 1)]):
                dims = numbers((), (), (x_sum,), (y_sum,))
                actual = run("dot_general", a, b, result=tensor("f32", m, n), dot_dimension_numbers=dims)
                with np.errstate(invalid="ignore"):
                    expected = (x.astype(np.float64) @ y.astype(np.float64) + 0).astype(np.float32)
                np.testing.assert_array_equal(actual, expected)
                assert not np.signbit(actual[expected == 0]).any()


def test_a_matrix_by_itself() -> None:
    """BLAS knows such a product, and sums it in another way."""
    x = np.random.default_rng(3).normal(size=(40, 50)).astype(np.float32)
    dims = numbers((), (), (1,), (1,))
    actual = run("dot_general", x, x, result=tensor("f32", 40, 40), dot_dimension_numbers=dims)
    np.testing.assert_array_equal(bits(actual), bits(np.matmul(x, x.T)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("sizes", [(1, 300, 1), (1, 300, 40), (40, 300, 1), (3, 300, 1), (600, 700, 1)], ids=str)
def test_products_with_vectors_do_not_hang_on_how_operands_lie(sizes: tuple[int, int, int], dtype: type) -> None:
    (m, k, n), rng = sizes, np.random.default_rng(4)
    x, y = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    x[0], y[:, 0] = x[0, 0], y[0, 0]
    result = tensor({"f": f"f{8 * x.itemsize}", "c": f"complex<f{4 * x.itemsize}>"}[x.dtype.kind], m, n)
    once = np.broadcast_to(x[0, 0], x.shape) if m == 1 else x, np.broadcast_to(y[0, 0], y.shape) if n == 1 else y
    backwards = [np.ascontiguousarray(v[:, ::-1])[:, ::-1] for v in (x, y)]
    pairs = [(x, y), *zip(lain(x)[2:], lain(y)[2:], strict=True), once, tuple(backwards)]
    every = [run("dot_general", *p, result=result, dot_dimension_numbers=numbers((), (), (1,), (0,))) for p in pairs]
    assert len({a.tobytes() for a in every}) == 1
