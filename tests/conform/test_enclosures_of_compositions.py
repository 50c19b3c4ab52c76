"""Enclosures of compositions, solvers and transforms hold other algorithms in f32, and not results that are wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from minihlo.interp.enclose import Enclosure, enclose
from minihlo.interp.parse import parser

F32, BF16 = np.float32, jnp.bfloat16
RNG = np.random.default_rng(0)


def enclosures(text: str, *arrays: np.ndarray) -> list[Enclosure]:
    return enclose(parser.parse(text), arrays)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F32)


def positive(n: int, least: float = 2.0) -> np.ndarray:
    x = normal(n, n)
    return (x @ x.T + least * np.eye(n, dtype=F32)).astype(F32)


def inexact(name: str, t: str) -> str:
    """Return operations that give `%NAME` from the argument `%NAMEi`, as the same numbers with an error."""
    return f"""%{name}z = stablehlo.constant dense<0.0> : {t}
      %{name}s = stablehlo.exponential %{name}z : {t}
      %{name} = stablehlo.multiply %{name}i, %{name}s : {t}\n"""


def case(
    body: str, types: str, arrays: Sequence[np.ndarray], results: str = ""
) -> Callable[[bool], tuple[str, Sequence[np.ndarray]]]:
    """Return a program, with operands that are known exactly or not."""

    def program(is_exact: bool) -> tuple[str, Sequence[np.ndarray]]:
        names, kinds = "abcde"[: len(arrays)], types.split()
        takes = ", ".join(f"%{n}{'' if is_exact else 'i'}: {t}" for n, t in zip(names, kinds, strict=True))
        gives = results or kinds[-1]
        before = "" if is_exact else "".join(inexact(n, t) for n, t in zip(names, kinds, strict=True))
        count = gives.count("tensor")
        returned = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r"
        return f"func.func @main({takes}) -> ({gives}) {{\n {before} {body}\n return {returned} : {gives}\n}}", arrays

    return program


def traced(f: Callable[..., Any], *arrays: np.ndarray) -> Callable[[bool], tuple[str, Sequence[np.ndarray]]]:
    """Return the program of a function of JAX, with operands that are known exactly or not."""

    def program(is_exact: bool) -> tuple[str, Sequence[np.ndarray]]:
        given = f if is_exact else lambda *a: f(*(x * jnp.exp(0 * x) for x in a))
        return jax.jit(given).lower(*arrays).as_text(), arrays

    return program


SQUARE, TALL, FEATURES = "tensor<6x6xf32>", "tensor<6x3xf32>", "tensor<5xf32>"
A, B = np.tril(positive(6)), normal(6, 3)
X, SCALE, OFFSET, MEAN, VARIANCE = (
    normal(40, 5) + F32(30),
    normal(5),
    normal(5),
    normal(5),
    positive(5).diagonal().copy(),
)
NORM, EPSILON = "tensor<40x5xf32>", "epsilon = 0.001 : f32, feature_index = 1 : i64"


def _factor(a: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor by columns, every step of which is rounded to f32."""
    factor = np.zeros_like(a)
    for j in range(len(a)):
        column = a[j:, j] - sum(factor[j:, k] * factor[j, k] for k in range(j))
        factor[j:, j] = column / np.sqrt(column[0])
    return factor


def _product_and_sum(x: np.ndarray, scale: Any, offset: Any, mean: Any, variance: Any) -> np.ndarray:
    factor = scale / np.sqrt(variance + F32(0.001))
    return x * factor + (offset - mean * factor)


def _norm(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> list[np.ndarray]:
    """Normalize with E[x^2] - mean^2, and as one product and one sum."""
    mean = x.mean(0)
    variance = (x * x).mean(0) - mean * mean
    return [_product_and_sum(x, scale, offset, mean, variance), mean, variance]


def _windows(a: Any) -> Any:
    return jax.lax.reduce_window(a, -jnp.inf, jax.lax.max, (3, 2), (1, 2), "VALID")


def _largest(a: Any) -> list[Any]:
    """Return the two largest of each row, what stands beside the elements in order, and their places."""
    if isinstance(a, np.ndarray):
        largest, places = -np.sort(-a)[:, :2], np.argsort(-a, axis=1)
        return [largest, np.take_along_axis(a + 1, places, 1), places.astype(F32)]
    largest, places = jax.lax.top_k(a, 2)[0], jnp.argsort(-a, axis=1)
    return [largest, jnp.take_along_axis(a + 1, places, 1), places.astype(F32)]


def _gradients(x: np.ndarray, scale: np.ndarray, mean: np.ndarray, variance: np.ndarray, g: np.ndarray) -> list[Any]:
    inverse = 1 / np.sqrt(variance + F32(0.001))
    centered = (x - mean) * inverse
    grad_scale, grad_offset = (g * centered).sum(0), g.sum(0)
    return [scale * inverse * (g - grad_offset / F32(40) - centered * grad_scale / F32(40)), grad_scale, grad_offset]


CASES: dict[str, tuple[Callable[[bool], tuple[str, Sequence[np.ndarray]]], Callable[..., Sequence[np.ndarray]]]] = {
    "triangular_solve of a transposed one": (
        case(
            f"""%r = "stablehlo.triangular_solve"(%a, %b) <{{left_side = false, lower = true, unit_diagonal = true,
              transpose_a = #stablehlo<transpose TRANSPOSE>}}> : ({SQUARE}, tensor<3x6xf32>) -> tensor<3x6xf32>""",
            f"{SQUARE} tensor<3x6xf32>", (A / 8, B.T.copy()),
        ),
        lambda a, b: [b @ np.linalg.inv((np.tril(a, -1) + np.eye(6, dtype=F32)).T)],
    ),
    "cholesky": (
        case(f"%r = stablehlo.cholesky %a, lower = true : {SQUARE}", SQUARE, (positive(6, 0.02),)),
        lambda a: [np.where(np.tri(6) == 1, _factor(a), a)],
    ),
    "fft": (
        traced(jnp.fft.rfft, normal(2, 12)),
        lambda a: [(a @ scipy.linalg.dft(12).astype(np.complex64)[:, :7]).astype(np.complex64)],
    ),
    "batch_norm_training": (case(
        f"""%r:3 = "stablehlo.batch_norm_training"(%a, %b, %c) <{{{EPSILON}}}>
          : ({NORM}, {FEATURES}, {FEATURES}) -> ({NORM}, {FEATURES}, {FEATURES})""",
        f"{NORM} {FEATURES} {FEATURES}", (X, SCALE, OFFSET), f"{NORM}, {FEATURES}, {FEATURES}"), _norm),
    "batch_norm_inference": (case(
        f"""%r = "stablehlo.batch_norm_inference"(%a, %b, %c, %d, %e) <{{{EPSILON}}}>
          : ({NORM}, {FEATURES}, {FEATURES}, {FEATURES}, {FEATURES}) -> {NORM}""",
        f"{NORM} {FEATURES} {FEATURES} {FEATURES} {FEATURES}", (X, SCALE, OFFSET, MEAN, VARIANCE), NORM),
        lambda x, *features: [_product_and_sum(x, *features)]),
    "batch_norm_grad": (case(
        f"""%r:3 = "stablehlo.batch_norm_grad"(%a, %b, %c, %d, %e) <{{{EPSILON}}}>
          : ({NORM}, {FEATURES}, {FEATURES}, {FEATURES}, {NORM}) -> ({NORM}, {FEATURES}, {FEATURES})""",
        f"{NORM} {FEATURES} {FEATURES} {FEATURES} {NORM}", (X, SCALE, MEAN, VARIANCE, normal(40, 5)),
        f"{NORM}, {FEATURES}, {FEATURES}"), _gradients),
    "lgamma": (case("%r = chlo.lgamma %a : tensor<5xf32> -> tensor<5xf32>", FEATURES, (VARIANCE,)),
               lambda a: [np.asarray(jax.lax.lgamma(jnp.asarray(a)))]),
    "broadcast_multiply": (case(f"%r = chlo.broadcast_multiply %a, %b : ({NORM}, {FEATURES}) -> {NORM}",
        f"{NORM} {FEATURES}", (X, SCALE), NORM), lambda a, b: [a * b]),
    "select_and_scatter": (
        traced(lambda a, b: jax.vjp(_windows, a)[1](b)[0], normal(6, 6), normal(4, 3)),
        lambda a, b: [np.asarray(jax.vjp(_windows, a)[1](jnp.asarray(b))[0])],
    ),
    "a factor by LAPACK": (traced(jnp.linalg.cholesky, positive(6)), lambda a: [np.tril(_factor((a + a.T) / 2))]),
    "a solution by LAPACK, of a sum that is not rounded": (
        traced(lambda a, b, c: jax.scipy.linalg.solve_triangular(
            a, (b.astype(BF16) + c.astype(BF16)).astype(F32), trans="T", lower=True), A, B, normal(6, 3)),
        lambda a, b, c: [np.linalg.inv(np.tril(a).T) @ (b.astype(BF16).astype(F32) + c.astype(BF16).astype(F32))],
    ),
    "factors and a solution by LU": (
        traced(lambda a, b: (jax.lax.linalg.lu(a)[0], jnp.linalg.solve(a, b)), A, B),
        lambda a, b: [scipy.linalg.lu_factor(a)[0], np.linalg.solve(a, b)],
    ),
    "singular values": (
        traced(lambda a: jnp.linalg.svd(a, compute_uv=False), normal(6, 4)),
        lambda a: [np.sqrt(np.linalg.eigvalsh(a.T @ a)[::-1])],
    ),
    "a cumulative product": (traced(lambda a: jnp.cumprod(a, 1), B), lambda a: [np.cumprod(a, 1)]),
    "the largest, and where they are": (traced(lambda a: _largest(a * a), B), lambda a: _largest(a * a)),
    "a median": (traced(lambda a: jnp.median(a, 0), X), lambda a: [np.median(a, 0)]),
    "a scatter that multiplies": (
        traced(lambda a, b: a.at[jnp.array([4, 0, 1])].multiply(b[:3]), A, A.T.copy()),
        lambda a, b: [a * np.concatenate([b[1:3], np.ones((2, 6), F32), b[:1], np.ones((1, 6), F32)])],
    ),
    "quantized": (
        case(f"""%q = stablehlo.uniform_quantize %a : ({TALL}) -> tensor<6x3x!quant.uniform<i8:f32, 0.05:3>>
          %r = stablehlo.uniform_dequantize %q : (tensor<6x3x!quant.uniform<i8:f32, 0.05:3>>) -> {TALL}""", TALL, (B,)),
        lambda a: [(np.clip(np.round(a / F32(0.05)) + 3, -128, 127) - 3) * F32(0.05)],
    ),
    "a scatter": (
        traced(lambda a, b: a.at[jnp.array([4, 0, 1])].set(b[:3]), A, A.T.copy()),
        lambda a, b: [np.concatenate([b[1:3], a[2:4], b[:1], a[5:]])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("is_exact", [True, False], ids=["exact", "inexact"])
@pytest.mark.parametrize("name", CASES)
def test_other_algorithms(name: str, is_exact: bool) -> None:
    program, other = CASES[name]
    text, arrays = program(is_exact)
    found = enclosures(text, *arrays)
    for trial in range(20):
        step = (1 + RNG.choice([-1, 0, 1], size=(len(arrays), 1)) * F32(2.0**-23)) if not is_exact and trial else None
        given = arrays if step is None else [(x * F32(s[0])).astype(F32) for x, s in zip(arrays, step, strict=True)]
        for enclosure, theirs in zip(found, other(*given), strict=True):
            assert not enclosure.undecided.any()
            assert enclosure.admits(np.asarray(theirs, enclosure.value.dtype)).all()
            assert not enclosure.admits((theirs * 1.01 + 0.01).astype(enclosure.value.dtype)).all()


def test_complex_sums_and_functions() -> None:
    t = "tensor<4x9xcomplex<f32>>"
    text = f"""func.func @main(%x: {t}, %y: tensor<9x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>> {{
      %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : ({t}, tensor<9x4xcomplex<f32>>) -> tensor<4x4xcomplex<f32>>
      %1 = stablehlo.exponential %0 : tensor<4x4xcomplex<f32>>
      return %1 : tensor<4x4xcomplex<f32>>
    }}"""
    x, y = ((normal(*s) + 1j * normal(*s)).astype(np.complex64) * 2 for s in ((4, 9), (9, 4)))
    (found,) = enclosures(text, x, y)
    assert not found.undecided.any()
    for _ in range(50):
        order, total = RNG.permutation(9), np.zeros((4, 4), np.complex64)
        for k in order:
            total += x[:, k, None] * y[k]
        assert found.admits(np.exp(total.astype(np.complex128)).astype(np.complex64)).all()
    assert not found.admits(np.exp(x[:, 1:] @ y[1:])).any()


def test_scatters_that_meet() -> None:
    """Any of the updates may be the last; a body without an order leaves the element undecided, and no other."""
    text = """func.func @main(%x: tensor<4xf32>, %u: tensor<4xf32>) -> tensor<4xf32> {
      %i = stablehlo.constant dense<[[1], [3], [1], [1]]> : tensor<4x1xi32>
      %r = "stablehlo.scatter"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<
        inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          BODY
      }) : (tensor<4xf32>, tensor<4x1xi32>, tensor<4xf32>) -> tensor<4xf32>
      return %r : tensor<4xf32>
    }"""
    x, u = np.arange(4, dtype=F32), np.array([10, 20, 30, 40], F32)
    (found,) = enclosures(text.replace("BODY", "stablehlo.return %b : tensor<f32>"), x, u)
    assert all(found.admits(np.array([0, v, 2, 20], F32)).all() for v in (10, 30, 40))
    assert not found.undecided.any()
    for wrong in ([0, 1, 2, 20], [0, 40, 2, 3], [0, 41, 2, 20]):
        assert not found.admits(np.array(wrong, F32)).all()
    body = "%s = stablehlo.maximum %b, %b : tensor<f32>\n stablehlo.return %s : tensor<f32>"
    (found,) = enclosures(text.replace("BODY", body), x, u)
    assert found.undecided.tolist() == [False, True, False, False]


def test_a_variance_that_overflows() -> None:
    """1e25 squared is beyond f32; in the other feature the quotients are one and minus one."""
    program = """func.func @main(%x: tensor<2x2xf32>, %s: tensor<2xf32>) -> tensor<2x2xf32> {
      %0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 0.0 : f32, feature_index = 1 : i64}>
        : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
      return %0#0 : tensor<2x2xf32>
    }"""
    (found,) = enclosures(program, np.array([[1e25, 3], [-1e25, 5]], np.float32), np.ones(2, np.float32))
    for given in ([[np.nan, 0], [np.nan, 2]], [[1, 0], [1, 2]]):
        assert found.admits(np.array(given, np.float32)).all()
    assert found.admits(np.full((2, 2), 9, np.float32)).tolist() == [[False, False]] * 2


def test_a_factor_that_vanishes() -> None:
    """1e-20 / sqrt(1e38) is subnormal, so its product with 1e30 may be zero."""
    text, arrays = CASES["batch_norm_inference"][0](True)
    given = [np.full_like(x, v) for x, v in zip(arrays, (1e30, 1e-20, 0, 0, 1e38), strict=True)]
    (found,) = enclosures(text, *given)
    assert [found.admits(np.full_like(X, v)).any() for v in (0, 1e-9, 1)] == [True, True, False]


def test_small_numbers_of_solvers_and_transforms() -> None:
    """Subnormal numbers may be taken as zero, as the half of the operands is here."""
    x = (normal(5, 5) * F32(2.0**-126)).astype(F32)
    flushed = np.where(np.abs(x) < 2.0**-126, 0, x).astype(F32)
    for function in (lambda a: jnp.linalg.svd(a, compute_uv=False), lambda a: jnp.fft.fft(a, axis=0)):
        (found,) = enclosures(jax.jit(function).lower(x).as_text(), x)
        with jax.enable_x64(True):
            theirs = np.asarray(function(jnp.asarray(flushed, np.float64))).astype(found.value.dtype)
        assert not found.undecided.any()
        assert found.admits(theirs).all()
        assert not found.admits(theirs * 99).all()
    x = normal(16) * F32(2.0**125)  # whose sums may overflow before they are divided
    (found,) = enclosures(jax.jit(jnp.fft.ifft).lower(x).as_text(), x)
    exact = np.fft.ifft(x.astype(np.float64)).astype(np.complex64)
    for theirs, is_right in ((exact, True), (np.full_like(exact, np.inf), True), (np.roll(exact, 1), False)):
        assert found.admits(theirs).all() == is_right
