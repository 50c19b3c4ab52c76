"""Products of few terms, which name what they multiply, and of a matrix and a vector, which are one call of BLAS."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minihlo.ops.op import Call, lookup
from minihlo.ops.types import TensorType

from ..run_op import run, tensor
from .test_dot import einsum, every_layout, numbers, shaped


def test_short_sums_name_their_products() -> None:
    rng, seen, record = np.random.default_rng(13), set(), lookup("stablehlo.dot_general")
    assert record is not None
    for ranks, dims in every_layout():
        x, y = (rng.integers(-6, 7, shape).astype(np.float32) for shape in shaped(ranks, dims))
        expected = einsum(x, y, dims)
        *types, result = (tensor("f32", *a.shape) for a in (x, y, expected))
        attributes = {"dot_dimension_numbers": numbers(*dims)}
        products = record.kernel(Call("stablehlo.dot_general", tuple(types), (result,), attributes)).products
        assert (products is not None) == (math.prod(x.shape[d] for d in dims[2]) <= 4)
        if products is not None:
            found = [sum(x.flat[i] * y.flat[j] for i, j in pairs) for pairs in products()]
            assert found == expected.ravel().tolist()
            seen.add(ranks)
    assert len(seen) == 16


def product(x: np.ndarray, y: np.ndarray, *contracting: int) -> bytes:
    free = [n for a, d in zip((x, y), contracting, strict=True) for i, n in enumerate(a.shape) if i != d]
    dims = numbers((), (), *((d,) for d in contracting))
    result = TensorType(tuple(free), tensor(f"f{x.itemsize * 8}").element)
    return run("dot_general", x, y, result=result, dot_dimension_numbers=dims).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k"), [(2, 5), (5, 2), (8, 8), (7, 33), (64, 65), (9, 300), (600, 500)])
def test_a_matrix_and_a_vector_have_the_bits_of_a_product_of_matrices(m: int, k: int, dtype: type) -> None:
    rng = np.random.default_rng(14)
    a, x, y = (rng.standard_normal(s).astype(dtype) for s in ((m, k), k, m))
    a[0], x[:] = -0.0, np.abs(x)
    turned, spread = np.ascontiguousarray(a.T), np.repeat(a, 2, 1)[:, ::2]
    if k > 4:  # in order otherwise
        wanted = (np.matmul(a[None], x.reshape(1, k, 1)) + 0).tobytes()
        assert not np.signbit(np.frombuffer(wanted, dtype)[0])
        assert product(a, x, 1, 0) == wanted
        assert product(spread, x, 1, 0) == wanted
        assert product(turned, x, 0, 0) == (np.matmul(turned.T[None], x.reshape(1, k, 1)) + 0).tobytes()
    if m > 4:
        assert product(y, a, 0, 0) == (np.matmul(y[None, None], a[None]) + 0).tobytes()
        assert product(y, turned, 0, 1) == (np.matmul(y[None, None], turned.T[None]) + 0).tobytes()
