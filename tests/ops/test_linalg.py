"""cholesky and triangular_solve: exact cases in fractions, factors multiplied out again, and XLA on CPU."""

import itertools
import math
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.types import TensorType, element_type

from .. import oracle
from ..run_op import FLOATS, bind, codes, run, tensor, type_of

RNG = np.random.default_rng(11)
HOST = ["f32", "f64", "complex<f32>", "complex<f64>"]


def make(values: Any, element: str) -> np.ndarray:
    return np.array(values).astype(element_type(element).dtype)


def random(element: str, *shape: int) -> np.ndarray:
    x = RNG.standard_normal(shape)
    return make(x + 1j * RNG.standard_normal(shape) if element.startswith("complex") else x, element)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.clongdouble if x.dtype.kind == "c" else np.longdouble)


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.swapaxes(-2, -1).conj()


def cholesky(a: np.ndarray, lower: bool = True) -> np.ndarray:
    return run("cholesky", a, result=type_of(a), lower=lower)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16", "f8E5M2", "f8E4M3FN", "complex<f32>", "complex<f64>"])
def test_the_example_of_the_specification(element: str) -> None:
    if element.startswith("f8"):  # these hold neither 26 nor 70
        a, expected = [[1, 2, 3], [2, 8, 8], [3, 8, 14]], [[1, 0, 0], [2, 2, 0], [3, 1, 2]]
    else:
        a, expected = [[1, 2, 3], [2, 20, 26], [3, 26, 70]], [[1, 0, 0], [2, 4, 0], [3, 5, 6]]
    assert np.array_equal(cholesky(make(a, element)), make(expected, element))
    assert np.array_equal(cholesky(make(a, element), lower=False), make(expected, element).T)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("element", HOST)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (7, 7), (40, 40), (3, 2, 5, 5)], ids=str)
def test_factors_give_the_matrix_again(element: str, shape: tuple[int, ...], lower: bool) -> None:
    m = random(element, *shape)
    a = (wide(m) @ adjoint(wide(m)) + shape[-1] * np.eye(shape[-1])).astype(m.dtype)
    actual = cholesky(a, lower)
    zero = np.triu(actual, 1) if lower else np.tril(actual, -1)
    assert not zero.any()
    assert (np.diagonal(actual, axis1=-2, axis2=-1).real > 0).all()
    again = wide(actual) @ adjoint(wide(actual)) if lower else adjoint(wide(actual)) @ wide(actual)
    epsilon = np.finfo(m.dtype).eps * (1 if m.itemsize in (4, 8) and m.dtype.char in "fF" else shape[-1])
    assert np.abs(again - a).max() <= 2 * epsilon * np.abs(a).max()


@pytest.mark.parametrize("element", HOST)
@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read(element: str, lower: bool) -> None:
    m = random(element, 4, 4)
    a = m @ adjoint(m) + make(4 * np.eye(4), element)
    junk = np.triu(np.full_like(a, np.nan), 1)
    assert np.array_equal(cholesky(a + (junk if lower else junk.T), lower), cholesky(a, lower))


def test_lapack_reads_the_same_triangle_and_fails_alike() -> None:
    a = make([[[4, 99], [2, 5]], [[1, 99], [2, 1]], [[np.nan, 0], [0, 1]]], "f32")
    expected = jax.lax.linalg.cholesky(a, symmetrize_input=False)  # which clears the other triangle after
    assert np.array_equal(np.tril(cholesky(a)), expected, equal_nan=True)


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "f8E4M3FN", "complex<f64>"])
def test_what_is_not_positive_definite_is_nan(element: str) -> None:
    """All of the matrix, and no other of the batch."""
    good, singular, negative = [[4, 2], [2, 5]], [[1, 1], [1, 1]], [[-1, 0], [0, 1]]
    zero, missing = [[0, 0], [0, 0]], [[np.nan, 0], [0, 1]]
    a = make([[good, singular, negative], [zero, missing, good]], element)
    actual = cholesky(a)
    assert np.isnan(actual.astype(np.complex128)).all((-2, -1)).tolist() == [[False, True, True], [True, True, False]]
    assert np.array_equal(actual[0, 0], make([[2, 0], [1, 2]], element))
    assert np.isnan(cholesky(make([[1, 0], [np.nan, 1]], element)).astype(np.complex128)).all()


@pytest.mark.parametrize("element", ["f32", "f8E4M3FN", "complex<f64>"])
@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 0), (0, 2, 2)], ids=str)
def test_cholesky_of_nothing(element: str, shape: tuple[int, ...]) -> None:
    assert cholesky(np.zeros(shape, element_type(element).dtype)).size == 0


def root(x: Fraction) -> Fraction:
    """The square root of a positive number: 300 places, and one more that tells whether it goes on."""
    scaled = x * 4**300
    whole = math.isqrt(int(scaled))
    return Fraction(2 * whole + (whole * whole != scaled), 2**301)


@pytest.mark.parametrize("element", [str(t) for t in FLOATS if t.bits <= 8])
def test_minifloat_factors_are_rounded_once(element: str) -> None:
    """Every 1 by 1 matrix, and L of [[a, b], [b, c]] for as many a, b and c."""
    fmt = oracle.FORMATS[element]
    every = np.arange(1 << fmt.bits)
    dtype = element_type(element).dtype
    actual = codes(cholesky(every.astype(np.uint8).view(dtype).reshape(-1, 1, 1))).ravel()
    for code, ours in zip(every.tolist(), actual.tolist(), strict=True):
        value = oracle.decode(fmt, code)
        if value == oracle.INF:
            continue  # of which the host makes what it likes
        expected = root(Fraction(value)) if value > 0 else oracle.NAN
        assert oracle.same(fmt, ours, oracle.encode(fmt, expected)), hex(code)
    triples = RNG.integers(0, 1 << fmt.bits, (300, 3)).tolist()
    a = np.array([[[x, y], [y, z]] for x, y, z in triples], np.uint8).view(dtype)
    for triple, ours in zip(triples, codes(cholesky(a)).reshape(-1, 4).tolist(), strict=True):
        x, y, z = (oracle.decode(fmt, c) for c in triple)
        if not all(isinstance(v, Fraction) for v in (x, y, z)) or x <= 0 or x * z <= y * y:
            continue
        diagonal = root(Fraction(x))
        expected = [diagonal, oracle.divide(y, diagonal), oracle.ZERO, root(z - y * y / x)]
        order = [expected[0], expected[2], expected[1], expected[3]]
        for place, (code, value) in enumerate(zip(ours, order, strict=True)):
            if (place, element) != (1, "f8E8M0FNU"):  # which has no zero
                assert oracle.same(fmt, code, oracle.encode(fmt, value)), (triple, place)


@pytest.mark.parametrize(
    ("operand", "result", "message"),
    [
        (tensor("f32", 3), tensor("f32", 3), "rank 2 or more"),
        (tensor("f32", 2, 3), tensor("f32", 2, 3), "square"),
        (tensor("f32", 2, 2), tensor("f64", 2, 2), "expected element type "),
        (tensor("f32", 2, 2), tensor("f32", 2, 3), "shape"),
        (tensor("i32", 2, 2), tensor("i32", 2, 2), "expected an element type of float"),
    ],
)
def test_cholesky_errors(operand: TensorType, result: TensorType, message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind("cholesky", [operand], result, lower=True)


CASES = list(itertools.product([True, False], [True, False], [True, False], ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]))


def solve(
    a: np.ndarray,
    b: np.ndarray,
    left: bool = True,
    lower: bool = True,
    unit: bool = False,
    transpose: str = "NO_TRANSPOSE",
) -> np.ndarray:
    attributes = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": transpose}
    return run("triangular_solve", a, b, result=type_of(b), **attributes)


def coefficients(a: np.ndarray, lower: bool, unit: bool, transpose: str) -> np.ndarray:
    """op(a), as the specification defines it."""
    a = np.tril(wide(a)) if lower else np.triu(wide(a))
    if unit:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    return {"NO_TRANSPOSE": a, "TRANSPOSE": a.swapaxes(-2, -1), "ADJOINT": adjoint(a)}[transpose]


@pytest.mark.parametrize(("left", "lower", "unit", "transpose"), CASES)
def test_small_integers_are_solved_exactly(left: bool, lower: bool, unit: bool, transpose: str) -> None:
    """x is chosen and b computed from it; the diagonal holds powers of two, so every step is exact."""
    for element in (*HOST, "f16", "bf16", "f8E4M3FN", "f8E5M2FNUZ"):
        a = RNG.integers(-1, 2, (2, 3, 3)).astype(float)
        a[:, range(3), range(3)] = RNG.choice([1.0, 2.0, -1.0], (2, 3))
        x = RNG.integers(-1, 2, (2, *((3, 2) if left else (2, 3)))).astype(float)
        if element.startswith("complex"):
            a, x = a + 1j * np.round(random("f64", *a.shape) * (1 - np.eye(3))), x * (1 - 2j)
        m = coefficients(a, lower, unit, transpose)
        b = m @ x if left else x @ m
        a = np.where(np.triu(np.ones((3, 3)), 1) if lower else np.tril(np.ones((3, 3)), -1), np.nan, a)
        a, b = make(a, element), make(b.astype(complex if element.startswith("complex") else float), element)
        assert np.array_equal(solve(a, b, left, lower, unit, transpose), make(x, element)), element


@pytest.mark.parametrize(("left", "lower", "unit", "transpose"), CASES)
@pytest.mark.parametrize("element", HOST)
def test_solutions_give_b_again(element: str, left: bool, lower: bool, unit: bool, transpose: str) -> None:
    for n, k, batch in ((1, 1, ()), (5, 3, (2, 3)), (70, 4, ())):
        a = random(element, *batch, n, n) / make(n, element) + make(np.eye(n), element)
        b = random(element, *batch, *((n, k) if left else (k, n)))
        x = wide(solve(a, b, left, lower, unit, transpose))
        m = coefficients(a, lower, unit, transpose)
        again = m @ x if left else x @ m
        scale = np.abs(m).max() * np.abs(x).max() * 2 * n
        assert np.abs(again - b).max() <= np.finfo(b.dtype).eps * scale


def test_zero_on_the_diagonal_divides() -> None:
    actual = solve(make([[0, 0], [1, 1]], "f32"), make([[1, 0], [2, 2]], "f32"))
    assert np.array_equal(actual, [[np.inf, np.nan], [-np.inf, np.nan]], equal_nan=True)


@pytest.mark.parametrize("element", [str(t) for t in FLOATS if t.bits <= 8])
def test_minifloat_solutions_are_rounded_once(element: str) -> None:
    """a x = b for every pair of finite codes, and two unknowns for some."""
    fmt = oracle.FORMATS[element]
    dtype = element_type(element).dtype
    finite = [c for c in range(1 << fmt.bits) if isinstance(oracle.decode(fmt, c), Fraction)]
    nonzero = [c for c in finite if oracle.decode(fmt, c)]
    a = np.array(nonzero, np.uint8).view(dtype).reshape(-1, 1, 1)
    b = np.broadcast_to(np.array(finite, np.uint8).view(dtype), (len(nonzero), 1, len(finite)))
    actual = codes(solve(a, b))[:, 0]
    values = {c: Fraction(oracle.decode(fmt, c)) for c in finite}
    for i, divisor in enumerate(nonzero[::5]):
        for dividend, ours in zip(finite, actual[5 * i].tolist(), strict=True):
            quotient = oracle.divide(values[dividend], values[divisor])
            assert oracle.same(fmt, ours, oracle.encode(fmt, quotient)), (hex(dividend), hex(divisor))
    for _ in range(200):
        x, z = RNG.choice(nonzero, 2).tolist()
        y, u, v = RNG.choice(finite, 3).tolist()
        ours = codes(
            solve(np.array([[x, 0], [y, z]], np.uint8).view(dtype), np.array([[u], [v]], np.uint8).view(dtype))
        )
        first = values[u] / values[x]
        second = (values[v] - values[y] * first) / values[z]
        if second == 0 or abs(second) < 2**-40 * abs(values[v] / values[z]):
            continue  # the sign of a zero and what cancels are f64's
        for value, code in zip((first, second), ours.ravel().tolist(), strict=True):
            expected = oracle.divide(values[u], values[x]) if value == 0 else value
            assert oracle.same(fmt, code, oracle.encode(fmt, expected))


@pytest.mark.parametrize(("a", "b"), [((0, 0), (0, 3)), ((2, 2), (2, 0)), ((0, 2, 2), (0, 2, 1))], ids=str)
def test_solve_nothing(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    assert solve(np.ones(a, np.float32), np.ones(b, np.float32)).size == 0


ATTRIBUTES = {"left_side": True, "lower": True, "unit_diagonal": False, "transpose_a": "NO_TRANSPOSE"}


@pytest.mark.parametrize(
    ("a", "b", "result", "changed", "message"),
    [
        (tensor("f32", 2, 2), tensor("f64", 2, 2), tensor("f64", 2, 2), {}, "expected element type "),
        (tensor("f32", 2), tensor("f32", 2), tensor("f32", 2), {}, "rank"),
        (tensor("f32", 2, 2), tensor("f32", 1, 2, 2), tensor("f32", 1, 2, 2), {}, "rank"),
        (tensor("f32", 2, 3), tensor("f32", 2, 2), tensor("f32", 2, 2), {}, "expected 2x2"),
        (tensor("f32", 3, 3), tensor("f32", 2, 3), tensor("f32", 2, 3), {}, "expected 2x2"),
        (tensor("f32", 2, 2), tensor("f32", 2, 3), tensor("f32", 2, 3), {"left_side": False}, "expected 3x3"),
        (tensor("f32", 4, 2, 2), tensor("f32", 3, 2, 2), tensor("f32", 3, 2, 2), {}, "expected 3x2x2"),
        (tensor("f32", 2, 2), tensor("f32", 2, 3), tensor("f32", 2, 2), {}, "shape"),
        (tensor("f32", 2, 2), tensor("f32", 2, 3), tensor("f32", 2, 3), {"transpose_a": "NONE"}, "transpose_a"),
    ],
)
def test_solve_errors(a: TensorType, b: TensorType, result: TensorType, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind("triangular_solve", [a, b], result, **(ATTRIBUTES | changed))
