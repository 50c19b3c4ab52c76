"""What JAX calls by name in programs that it lowers for CPUs (LAPACK, top-k), against its own results of them."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.scipy import linalg

from minihlo.interp import ExecutionError, load
from minihlo.ops.programs import xla_targets

from ..thinned import rotated, thinned

linear = lax.linalg


def matrices(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    rng = np.random.default_rng(3)
    x = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return x.astype(dtype)


def times(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


def adjoint(a: Any) -> Any:
    return jnp.swapaxes(a, -1, -2).conj()


def positive(a: Any) -> Any:
    return times(a, adjoint(a)) + 4 * jnp.eye(a.shape[-1], dtype=a.dtype)


def svd(full: bool) -> Callable[..., Any]:
    def f(a: Any) -> Any:
        u, s, vt = jnp.linalg.svd(a, full_matrices=full)
        k = s.shape[-1]
        identity = times(adjoint(u), u), times(vt, adjoint(vt))
        return s, times(u[..., :k] * s[..., None, :], vt[..., :k, :]), identity, jnp.linalg.svd(a, compute_uv=False)

    return f


def svd_by_qr(a: Any) -> Any:
    u, s, vt = linear.svd(a, full_matrices=False, algorithm=linear.SvdAlgorithm.QR)
    return s, times(u * s[..., None, :], vt)


def eigh(a: Any) -> Any:
    w, v = jnp.linalg.eigh(a)
    return w, times(v * w[..., None, :], adjoint(v)), jnp.linalg.eigvalsh(a)


def eig(a: Any) -> Any:
    w, left, right = linear.eig(a)
    scale = jnp.linalg.norm(left, axis=-2), jnp.linalg.norm(right, axis=-2)
    residual = times(a, right) - right * w[..., None, :], times(adjoint(left), a) - w[..., None] * adjoint(left)
    return jnp.sort(w), jnp.sort(jnp.linalg.eigvals(a)), scale, residual


def schur(a: Any) -> Any:
    t, z = jax.scipy.linalg.schur(a, output="complex")
    return times(times(z, t), adjoint(z)), times(adjoint(z), z)


def real_schur(a: Any) -> Any:
    t, z = linear.schur(a)
    return times(times(z, t), adjoint(z)), times(adjoint(z), z)


def tridiagonal(a: Any) -> Any:
    _, d, e, _ = linear.tridiagonal(positive(a))
    return d, abs(e)


def pivoted(a: Any) -> Any:
    q, r, p = linalg.qr(a, pivoting=True)
    return times(q, r), p, abs(r)


def reflected(a: Any, b: Any) -> Any:
    h, taus = linear.geqrf(a) if hasattr(linear, "geqrf") else jax._src.lax.linalg.geqrf(a)
    multiply = jax._src.lax.linalg.ormqr
    return [multiply(h, taus, b, left=True, transpose=t) for t in (False, True)]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "lu": (linear.lu, ((2, 4, 4),)),
    "lu of wide matrices": (linear.lu, ((3, 5),)),
    "cholesky": (lambda a: jnp.linalg.cholesky(positive(a)), ((2, 4, 4),)),
    "upper cholesky": (lambda a: linalg.cholesky(positive(a)), ((4, 4),)),
    "qr": (jnp.linalg.qr, ((2, 5, 3),)),
    "complete qr": (lambda a: jnp.linalg.qr(a, "complete"), ((5, 3),)),
    "pivoted qr": (pivoted, ((5, 3),)),
    **({"reflectors": (reflected, ((5, 3), (5, 2)))} if hasattr(jax._src.lax.linalg, "ormqr") else {}),
    "svd": (svd(False), ((2, 3, 5),)),
    "full svd": (svd(True), ((5, 3),)),
    "svd by qr": (svd_by_qr, ((5, 3),)),
    "eigh": (lambda a: eigh(positive(a)), ((2, 4, 4),)),
    "eig": (eig, ((2, 4, 4),)),
    "schur": (schur, ((4, 4),)),
    "hessenberg": (lambda a: linalg.hessenberg(a, calc_q=True), ((2, 4, 4),)),
    "tridiagonal": (tridiagonal, ((2, 4, 4),)),
    "solve": (jnp.linalg.solve, ((2, 4, 4), (2, 4, 3))),
    "inverse": (jnp.linalg.inv, ((4, 4),)),
    "determinant": (jnp.linalg.slogdet, ((2, 4, 4),)),
    "least squares": (lambda a, b: jnp.linalg.lstsq(a, b)[0], ((5, 3), (5,))),
    "cho_solve": (lambda a, b: linalg.cho_solve(linalg.cho_factor(positive(a)), b), ((4, 4), (4,))),
    "tridiagonal_solve": (lambda a, b: linear.tridiagonal_solve(a[0], a[1] + 4, a[2], b), ((3, 2, 4), (2, 4, 3))),
    "empty": (lambda a: (linear.lu(a), linear.cholesky(a), jnp.linalg.eigvals(a), jnp.linalg.svd(a)), ((2, 0, 0),)),
}


def agree(f: Callable[..., Any], *arrays: np.ndarray) -> None:
    lowered = jax.jit(f).lower(*arrays)
    ours = load(lowered.as_text())(*arrays)
    theirs = jax.tree.leaves(lowered.compile()(*arrays))
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        epsilon = np.finfo(mine.dtype).eps if mine.dtype.kind in "fc" else 0.0
        np.testing.assert_allclose(mine, yours, 200 * epsilon, 200 * epsilon)


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        itertools.product(PROGRAMS, (np.float32, np.complex64)),
        lambda name, dtype: dtype is (np.float32, np.complex64)[list(PROGRAMS).index(name) % 2],
    ),
)
def test_lapack(name: str, dtype: Any) -> None:
    f, shapes = PROGRAMS[name]
    agree(f, *(matrices(*s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize(
    ("name", "dtype"),
    rotated(["lu", "cholesky", "qr", "svd", "eigh", "eig", "solve"], [np.float64, np.complex128]),
)
def test_lapack_in_double_precision(name: str, dtype: Any) -> None:
    f, shapes = PROGRAMS[name]
    with jax.enable_x64(True):
        agree(f, *(matrices(*s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_triangular_solve(trans: int, lower: bool, unit: bool) -> None:
    a, b = matrices(4, 4, dtype=np.complex64), matrices(4, 2, dtype=np.complex64)
    a += 3 * np.eye(4, dtype=np.complex64)
    agree(lambda a, b: linalg.solve_triangular(a, b, trans, lower, unit), a, b)


def test_real_schur_form() -> None:
    agree(real_schur, matrices(5, 5))


def test_pairs_of_eigenvalues() -> None:
    """sgees tells eigenvalues too, which JAX drops: of a rotation they are a pair of conjugates."""
    text = """func.func @main(%a: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %0:6 = stablehlo.custom_call @lapack_sgees_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, sort = 78 : ui8}} :
        (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<i32>, tensor<i32>)
      return %0#2, %0#3 : tensor<2xf32>, tensor<2xf32>
    }"""
    real, imaginary = load(text)(np.array([[0.6, -0.8], [0.8, 0.6]], np.float32))
    np.testing.assert_allclose(real, [0.6, 0.6], 1e-6)
    np.testing.assert_allclose(imaginary, [0.8, -0.8], 1e-6)


def test_what_cannot_be_factored_is_nan() -> None:
    singular = np.ones((3, 3), np.float32)
    agree(linear.lu, singular)
    agree(jnp.linalg.cholesky, -singular)
    for f in (jnp.linalg.cholesky, jnp.linalg.eigh, jnp.linalg.svd, jnp.linalg.eigvals):
        agree(f, np.full((3, 3), np.nan, np.float32))


@pytest.mark.parametrize(
    "f", [lambda a: lax.approx_max_k(a, 3), lambda a: lax.approx_min_k(a, 2, reduction_dimension=0)]
)
def test_approximate_top_k_is_exact(f: Callable[..., Any]) -> None:
    agree(f, matrices(6, 7))


def exported_agrees(f: Callable[..., Any], specs: list[Any], *arrays: np.ndarray) -> None:
    exported = export.export(jax.jit(f))(*specs)
    ours, theirs = load(exported.mlir_module_serialized)(*arrays), jax.tree.leaves(exported.call(*arrays))
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, yours, 1e-5, 1e-5)


def test_symbolic_sizes() -> None:
    (n,) = export.symbolic_shape("n", constraints=["n <= 17"])
    x = matrices(5, 17)
    spec = jax.ShapeDtypeStruct((n, 17), jnp.float32)
    exported_agrees(lambda x: lax.top_k(x, x.shape[0]), [spec], x)
    exported_agrees(lambda x: linear.cholesky(positive(x @ x.T)), [spec], x)
    exported_agrees(lambda x: lax.approx_max_k(x, 2), [spec], x)
    batch = jax.ShapeDtypeStruct((n, 3, 3), jnp.float32)
    exported_agrees(lambda x: (jnp.linalg.qr(x), jnp.linalg.inv(x)), [batch], matrices(4, 3, 3))
    with pytest.raises(ExecutionError, match="shape constraint"):
        load(export.export(jax.jit(lambda x: x + 1))(spec).mlir_module_serialized)(matrices(18, 17))


def test_random_bits_of_a_symbolic_shape() -> None:
    (n,) = export.symbolic_shape("n")
    key, spec = jax.ShapeDtypeStruct((4,), jnp.uint32), jax.ShapeDtypeStruct((3, n), jnp.float32)

    def f(key: Any, x: Any) -> Any:
        return lax.rng_bit_generator(key, x.shape, dtype=np.uint32)

    exported = export.export(jax.jit(f))(key, spec)
    state, x = np.array([1, 2, 3, 4], np.uint32), matrices(3, 10)
    reported = load(jax.jit(lambda k: lax.rng_bit_generator(k, (3, 10), dtype=np.uint32)).lower(key).as_text())(state)
    actual = load(exported.mlir_module_serialized)(state, x)
    assert [r.tolist() for r in actual] == [r.tolist() for r in reported]


# Tridiagonal systems whose elements and solutions are small integers, so that those are exact: the first needs rows to
# be exchanged (its second pivot would be 0), the second in its last rows.
_SYSTEMS = (
    ((0, 2, -2, 3), (1, 4, 1, -1), (2, -1, 1, 0), (8, -3, 5, 1)),
    ((0, 1, -6, 1), (1, -1, 2, 1), (2, 1, -1, 0), (5, -2, -5, 3)),
    ((7, 2, 4, 9), (0, 5, 1, 0), (3, 2, 6, 7), (1, 2, -1, 4)),
)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("perturb", [False, True])
def test_tridiagonal_systems_are_solved_with_pivots(dtype: str, perturb: bool) -> None:
    """Integers have one solution, which is exact; elements outside of the matrix are not read."""
    below, diagonal, above, x = (np.array(v).astype(jnp.dtype(dtype)) for v in zip(*_SYSTEMS, strict=True))
    # The sum of three products of small integers.
    b = diagonal * x
    b[:, 1:] += below[:, 1:] * x[:, :-1]
    b[:, :-1] += above[:, :-1] * x[:, 1:]
    both = np.stack([b, -b], -1)
    actual = xla_targets.tridiagonal_solve(below, diagonal, above, both, perturb)
    assert actual.dtype == jnp.dtype(dtype)
    np.testing.assert_allclose(actual.astype("complex128"), np.stack([x, -x], -1).astype("complex128"), 1e-14, 1e-14)
    below[:, 0] = above[:, -1] = np.nan
    np.testing.assert_array_equal(xla_targets.tridiagonal_solve(below, diagonal, above, both, perturb), actual)


def test_singular_tridiagonal_systems() -> None:
    """The one that is singular is NaN, or large where pivots are to be perturbed; the others are what they are."""
    zero = np.zeros(3, np.float32)
    below, diagonal, above = np.stack([zero, [0, 1, 0], zero]), np.stack([zero, [1, 3, 1], zero + 2]), zero
    diagonal, below, above = (v.astype(np.float32) for v in (diagonal, below, np.stack([zero, [3, 0, 0], zero])))
    b = np.array([[1, 1, 1], [1, 4, 1], [2, 4, 6]], np.float32)[..., None]
    actual = xla_targets.tridiagonal_solve(below, diagonal, above, b)[..., 0]
    assert np.isnan(actual[:2]).all()
    assert actual[2].tolist() == [1, 2, 3]
    actual = xla_targets.tridiagonal_solve(below, diagonal, above, b, True)[..., 0]
    assert (abs(actual[0]) > 1e6).all()
    assert (abs(actual[1, :2]) > 1e6).all()
    assert np.isfinite(actual).all()
    assert actual[2].tolist() == [1, 2, 3]
    assert xla_targets.tridiagonal_solve(zero[None, :0], zero[None, :0], zero[None, :0], b[:1, :0]).shape == (1, 0, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_tridiagonal_systems_give_the_bits_of_many(dtype):
    """Few are solved by LAPACK: with small pivots, one that is singular, some with NaN and infinity."""
    rng = np.random.default_rng(3)
    below, diagonal, above = (rng.standard_normal((30, 7)).astype(dtype) for _ in range(3))
    b = rng.standard_normal((30, 7, 1)).astype(dtype)
    diagonal[:10] *= dtype(1e-3)
    diagonal[10], below[10] = 0, 0
    diagonal[11, 3], above[12, 2], below[13, 4], b[14, 2] = np.inf, np.nan, -np.inf, np.nan
    diagonal[15, 0] = -0.0
    with np.errstate(all="ignore"):
        many = xla_targets.tridiagonal_solve(below, diagonal, above, b)
        for i in range(30):
            one = xla_targets.tridiagonal_solve(*(v[i : i + 1] for v in (below, diagonal, above, b)))
            np.testing.assert_array_equal(one, many[i : i + 1])
            assert np.signbit(one[~np.isnan(one)]).tobytes() == np.signbit(many[i : i + 1][~np.isnan(one)]).tobytes()
