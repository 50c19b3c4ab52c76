"""What JAX calls by name in programs that it exports for GPUs, against its own results on the CPU."""

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.lax import linalg as internal

from minihlo.interp import load

from ..thinned import thinned
from .test_lapack import PROGRAMS, linear, matrices, times


def agree(f: Callable[..., Any], platform: str, *arrays: np.ndarray) -> None:
    """The program for the platform gives here what the program for the CPU gives on XLA."""
    exported = export.export(jax.jit(f), platforms=[platform], disabled_checks=_CHECKS)(*arrays)
    ours, theirs = load(exported)(*arrays), jax.tree.leaves(jax.jit(f)(*arrays))
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        assert (mine.shape, mine.dtype) == (yours.shape, yours.dtype)
        epsilon = np.finfo(mine.dtype).eps if mine.dtype.kind in "fc" else 0.0
        np.testing.assert_allclose(mine, yours, 200 * epsilon, 200 * epsilon)


def _unstable(*names: str) -> list[Any]:
    return [export.DisabledSafetyCheck.custom_call(f"{v}{n}") for v in ("cu", "hip") for n in names]


_CHECKS = _unstable(
    "hybrid_eig_real", "hybrid_eig_comp", "hybrid_geqp3", "solver_gesvdp_ffi", "_cholesky_update_ffi",
    "solver_syrk_ffi", "_tridiagonal_solve_perturbed", "_lu_pivots_to_permutation", "solver_geev_ffi",
    "solver_ormqr_ffi", "solver_gesdd_ffi", "solver_gesvd_ffi", "solver_gesvdj_ffi", "solver_sytrd_ffi",
    "sparse_gtsv2_ffi",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "platform"),
    thinned(
        itertools.product((n for n in PROGRAMS if n not in ("schur", "hessenberg")), ("cuda", "rocm")),
        lambda name, platform: platform == ("cuda", "rocm")[len(name) % 2],
    ),
)
def test_programs_for_gpus(name: str, platform: str) -> None:
    if name == "reflectors" and not hasattr(internal, "ormqr"):
        pytest.skip("this JAX has no ormqr")
    f, shapes = PROGRAMS[name]
    dtype = np.complex64 if (platform == "rocm") ^ (list(PROGRAMS).index(name) % 2 == 0) else np.float32
    agree(f, platform, *(matrices(*s, dtype=dtype) for s in shapes))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("algorithm", ["QR", "JACOBI", "POLAR"])
@pytest.mark.parametrize("shape", [(5, 3), (2, 3, 5), (4, 4)])
def test_singular_values(shape: tuple[int, ...], algorithm: str, full: bool) -> None:
    a = matrices(*shape, dtype=np.complex64)
    find = functools.partial(linear.svd, full_matrices=full)

    def on_gpu(a: Any) -> Any:
        u, s, vt = find(a, algorithm=linear.SvdAlgorithm[algorithm])
        k = s.shape[-1]
        (alone,) = (linear.svd(a, compute_uv=False, algorithm=linear.SvdAlgorithm[algorithm]),)
        return u, s, vt, times(u[..., :k] * s[..., None, :], vt[..., :k, :]), alone

    exported = export.export(jax.jit(on_gpu), platforms=["cuda"], disabled_checks=_CHECKS)(a)
    u, s, vt, product, alone = load(exported)(a)
    theirs = jax.jit(find)(a)
    assert [x.shape for x in (u, s, vt)] == [x.shape for x in theirs]
    for mine, yours in ((s, theirs[1]), (product, a), (alone, s)):
        np.testing.assert_allclose(mine, yours, 1e-5, 1e-5)


@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_more_routines(platform: str) -> None:
    vendor = {"cuda": "cu", "rocm": "hip"}[platform]
    a = matrices(4, 4)
    agree(lambda a: linear.lu_pivots_to_permutation(jnp.array([[2, 3, 2], [0, 1, 2]], jnp.int32), 5), platform, a)
    agree(lambda a: linear.eig(a, compute_left_eigenvectors=False)[0], platform, a)
    if vendor == "cu":
        r = np.triu(a).astype(np.float32)
        actual = load(
            export.export(jax.jit(linear.cholesky_update), platforms=["cuda"], disabled_checks=_CHECKS)(r, a[0])
        )(r, a[0])[0]
        np.testing.assert_allclose(actual.T @ actual, r.T @ r + np.outer(a[0], a[0]), 1e-5, 1e-5)
        np.testing.assert_array_equal(np.tril(actual, -1), 0)
    agree(lambda a: linear.symmetric_product(a, a, alpha=2.0, beta=0.5), platform, a)


def test_eigenvectors_of_a_real_matrix_are_packed() -> None:
    """cuSOLVER gives the vectors of a pair of eigenvalues as a real and an imaginary column."""
    text = """func.func @main(%a: tensor<2x2xf32>) -> (tensor<2xcomplex<f32>>, tensor<2x2xf32>) {
      %0:5 = stablehlo.custom_call @cusolver_geev_ffi(%a) {mhlo.backend_config = {left = false, right = true}} :
        (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xcomplex<f32>>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<i32>)
      return %0#1, %0#3 : tensor<2xcomplex<f32>>, tensor<2x2xf32>
    }"""
    a = np.array([[0.6, -0.8], [0.8, 0.6]], np.float32)
    w, v = load(text)(a)
    assert w[0].imag > 0
    vectors = np.stack([v[:, 0] + 1j * v[:, 1], v[:, 0] - 1j * v[:, 1]], -1)
    np.testing.assert_allclose(a @ vectors, vectors * w, 1e-6, 1e-6)


@pytest.mark.parametrize(("flag", "lower"), [(r"\00", True), (r"\01", False)])
def test_flags_as_bytes(flag: str, lower: bool) -> None:
    """As in programs of 2023: the triangle is the second number of a structure, and a workspace is a result."""
    config = r"\00\00\00\00" + flag + r"\00\00\00\01\00\00\00\02\00\00\00\00\00\00\00"
    text = f"""func.func @main(%a: tensor<2x2xf32>) -> (tensor<2xf32>, tensor<i32>) {{
      %0:4 = stablehlo.custom_call @cusolver_syevj(%a) {{api_version = 2 : i32, backend_config = "{config}"}} :
        (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<i32>, tensor<17xui8>)
      return %0#1, %0#2 : tensor<2xf32>, tensor<i32>
    }}"""
    a = np.array([[1, 2], [0, 1]], np.float32)  # the lower triangle is that of a diagonal matrix
    w, info = load(text)(a)
    np.testing.assert_allclose(w, [1, 1] if lower else [-1, 3], 1e-6)
    assert info == 0


def test_eigenvalues_as_on_tpu() -> None:
    text = """func.func @main(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>) {
      %0:2 = stablehlo.custom_call @Eigh(%a) {backend_config = "1,1,100,1e-6"} :
        (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>)
      return %0#0, %0#1 : tensor<2x2xf32>, tensor<2xf32>
    }"""
    v, w = load(text)(np.array([[4, 2], [2, 3]], np.float32))
    np.testing.assert_allclose(w, (7 + np.array([-1, 1]) * np.sqrt(17)) / 2, 1e-6)
    np.testing.assert_allclose(v * w @ v.T, [[4, 2], [2, 3]], 1e-5)


def test_random_bits_of_gpus() -> None:
    """The published vectors of Threefry-2x32 (Random123's kat_vectors), with a key for each element."""
    key = np.array([[0, 0xFFFFFFFF, 0x13198A2E], [0, 0xFFFFFFFF, 0x03707344]], np.uint32)
    counter = np.array([[0, 0xFFFFFFFF, 0x243F6A88], [0, 0xFFFFFFFF, 0x85A308D3]], np.uint32)
    expected = [[0x6B200159, 0x1CB996FC, 0xC4923A9C], [0x99BA4EFE, 0xBB002BE7, 0x483DF7A0]]
    t = "tensor<3xui32>"
    text = f"""func.func @main(%a: {t}, %b: {t}, %c: {t}, %d: {t}) -> ({t}, {t}) {{
      %0:2 = stablehlo.custom_call @cu_threefry2x32_ffi(%a, %b, %c, %d) : ({t}, {t}, {t}, {t}) -> ({t}, {t})
      return %0#0, %0#1 : {t}, {t}
    }}"""
    assert [r.tolist() for r in load(text)(*key, *counter)] == expected
