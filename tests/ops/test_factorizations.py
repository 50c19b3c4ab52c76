"""Factorizations of larger matrices, which LAPACK makes one by one, and on one thread of the host's BLAS."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from minihlo.interp import load
from minihlo.ops.products import linalg
from minihlo.ops.programs import xla_targets

SHAPES = ((1, 1), (2, 2), (3, 5, 5), (5, 3), (16, 16), (20, 33), (33, 20), (3, 17, 17), (2, 2, 40, 16), (80, 16, 16))
TYPES = (np.float32, np.float64, np.complex64, np.complex128)


def numbers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def by_steps(a: np.ndarray) -> list[np.ndarray]:
    """LU of matrices that are copied so often that they are factored step by step, all at once."""
    return [x[0] for x in xla_targets.lu(np.repeat(a[None], 5 * min(a.shape[-2:]), 0))]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_lu_is_a_factorization(shape: tuple[int, ...], dtype: Any) -> None:
    """L U is the matrix with its rows in order; the largest number of what is left of a column is its pivot."""
    a = numbers(shape, dtype)
    factors, pivots, order = xla_targets.lu(a)
    m, n = shape[-2:]
    k = min(m, n)
    assert factors.dtype == dtype
    assert pivots.dtype == order.dtype == np.int32
    assert pivots.shape == (*shape[:-2], k)
    assert order.shape == shape[:-1]
    eps = np.finfo(dtype).eps
    for at in np.ndindex(*shape[:-2]):
        wide = factors[at].astype(np.complex128)
        lower, upper = np.tril(wide[:, :k], -1) + np.eye(m, k), np.triu(wide[:k])
        np.testing.assert_allclose(lower @ upper, a[at][order[at]], rtol=0, atol=50 * eps)
        sizes = np.abs(lower.real) + np.abs(lower.imag)
        assert (np.abs(np.tril(lower, -1)) <= 1.5).all()
        assert sizes.max() <= 2
        rows = np.arange(m)
        for i, pivot in enumerate(pivots[at]):
            assert pivot >= i
            rows[[i, pivot]] = rows[[pivot, i]]
        np.testing.assert_array_equal(rows, order[at])


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", [(16, 16), (40, 17), (3, 20, 20)], ids=str)
def test_reflectors_make_orthogonal_columns(shape: tuple[int, ...], dtype: Any) -> None:
    a = numbers(shape, dtype)
    packed, taus = xla_targets.qr(a)
    q, r = xla_targets.householder_product(packed, taus), np.triu(packed)[..., : shape[-1], :]
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(q @ r, a, rtol=0, atol=100 * eps)
    np.testing.assert_allclose(np.swapaxes(q, -1, -2).conj() @ q, np.eye(shape[-1]) + 0 * r, rtol=0, atol=50 * eps)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64], ids=lambda t: t.__name__)
def test_one_by_one_as_step_by_step(dtype: Any) -> None:
    """Both compute in f64: the pivots are the same, and the numbers but for the last bit."""
    for shape in SHAPES:
        a = numbers(shape, dtype, 1)
        factors, *places = xla_targets.lu(a)
        expected, *others = by_steps(a)
        for mine, other in zip(places, others, strict=True):
            np.testing.assert_array_equal(mine, other)
        np.testing.assert_array_max_ulp(factors.view(np.float32), expected.view(np.float32), 1)


def test_singular_and_not_finite() -> None:
    singular = np.tile(np.arange(1, 21, dtype=np.float32), (20, 1))
    factors, pivots, _ = xla_targets.lu(singular)
    assert (np.diagonal(factors)[1:] == 0).all()
    np.testing.assert_array_equal(pivots, np.arange(20))
    for bad in (np.nan, np.inf):
        a = numbers((20, 20), np.float32)
        a[3, 4] = bad
        with np.errstate(all="ignore"):
            mine, expected = xla_targets.lu(a), by_steps(a)
        for x, y in zip(mine, expected, strict=True):
            np.testing.assert_array_equal(x, y)


def solving(name: str, operands: int = 1, results: str = "tensor<24x24xf32>") -> Callable[[], object]:
    takes = ", ".join(f"%{n}: tensor<24x24xf32>" for n in "ab"[:operands])
    text = {
        "cholesky": "stablehlo.cholesky %a, lower = true : tensor<24x24xf32>",
        "triangular_solve": '"stablehlo.triangular_solve"(%a, %b) {left_side = true, lower = true, '
        "unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : "
        "(tensor<24x24xf32>, tensor<24x24xf32>) -> tensor<24x24xf32>",
    }[name]
    program = load(f"func.func @main({takes}) -> {results} {{\n%r = {text}\nreturn %r : {results}\n}}")
    a = 24 * np.eye(24, dtype=np.float32) + 1
    return lambda: program(*[a] * operands)


@pytest.mark.parametrize(
    ("module", "name", "run"),
    [
        (np.linalg, "eigh", lambda: xla_targets.eigh(numbers((20, 20), np.float32))),
        (np.linalg, "eig", lambda: xla_targets.eig(numbers((20, 20), np.float32))),
        (np.linalg, "svd", lambda: xla_targets.svd(numbers((20, 20), np.float32))),
        (np.linalg, "qr", lambda: xla_targets.qr(numbers((20, 20), np.float32))),
        (np.linalg, "cholesky", solving("cholesky")),
        (linalg, "_substitute", solving("triangular_solve", 2)),
        (xla_targets, "each", lambda: xla_targets.lu(numbers((20, 20), np.float32))),
        (xla_targets, "each", lambda: xla_targets.hessenberg(numbers((20, 20), np.float32))),
        (np, "copy", None),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_factorizations_run_on_one_thread(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, run: Callable[[], object] | None
) -> None:
    """OpenBLAS's threads spin while they wait: beside busy processes a factorization takes 100 times as long by two."""
    libraries = ThreadpoolController().select(internal_api="openblas")
    seen: list[int] = []
    inner = getattr(module, name)

    def watched(*arguments: Any, **keywords: Any) -> Any:
        seen.extend(library.get_num_threads() for library in libraries.lib_controllers)
        return inner(*arguments, **keywords)

    with libraries.limit(limits=2):
        if run is None:
            watched(np.ones(1))
            assert set(seen) == {2}
            return
        run()  # loads scipy, where it is needed
        monkeypatch.setattr(module, name, watched)
        run()
        assert seen
        assert set(seen) == {1}
        assert {library.get_num_threads() for library in libraries.lib_controllers} == {2}
