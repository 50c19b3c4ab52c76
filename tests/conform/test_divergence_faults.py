"""Faults planted in sums, functions and conversions: each is FAIL, and has the right diagnosis or none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.conform.result import ACCURACY, DIVERGENT, FAIL
from minihlo.interp.diff.report import OpReport

from ..thinned import rotated
from .divergence_faults import (
    E5M2,
    F4,
    FN,
    FNUZ,
    TYPES,
    Planted,
    by_type,
    convolved,
    numbers,
    op_of,
    rounded,
    sample,
    subnormal,
)

Fault = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]


def fails(result: OpReport, backend: Planted, diagnosis: str) -> None:
    """It is FAIL, and a diagnosis, if there is one, is the right one."""
    assert backend.has_changed
    assert result.verdict == FAIL, str(result.notes)
    assert set(result.notes) <= {diagnosis}, result.notes


def without(x: np.ndarray, y: np.ndarray, k: slice) -> np.ndarray:
    x = x.copy()
    x[:, k] = 0
    return x @ y


def scaled(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = x @ y
    result[:, 2] *= 1.05
    return result


def part(which: Any) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        result = x @ y
        result[which] = 0
        return result

    return of


ZERO = "every result is zero"
#: What is computed, and the diagnosis.
PRODUCTS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], str]] = {
    "zeros": (lambda x, y: 0 * (x @ y), ZERO),
    "half zeros": (part(np.s_[:, 24:]), "all wrong results are in the second half of dimension 1"),
    "a column of zeros": (part(np.s_[:, 3]), "all wrong results are at index 3 of dimension 1"),
    "a row of zeros": (part(np.s_[5]), "all wrong results are at index 5 of dimension 0"),
    "a lane of zeros": (
        part(np.s_[:, 15::16]),
        "all wrong results are at indices of dimension 1 that are 15 modulo 16",
    ),
    "shifted": (lambda x, y: np.roll(x @ y, 1, 1), "each result is that of the last index of dimension 1"),
    "transposed": (lambda x, y: x @ y.T, "operand 1 is transposed"),
    "last k": (lambda x, y: without(x, y, np.s_[-1:]), "the last term is left out"),
    "lane of k": (lambda x, y: without(x, y, np.s_[15::16]), "every term is left out whose index modulo 16 is 15"),
    "a column off by 5 %": (scaled, "all wrong results are at index 2 of dimension 1"),
}


@pytest.mark.parametrize(("fault", "dtype"), rotated(PRODUCTS, TYPES))
def test_products(fault: str, dtype: Any) -> None:
    result = jnp.float32 if dtype == F4 else dtype  # in f4 nearly all of these are 6
    compute, diagnosis = PRODUCTS[fault]
    x, y = sample(dtype, 48, 48), sample(dtype, 48, 48, seed=1)
    exact = compute(x.astype(np.float64), y.astype(np.float64))
    backend = Planted("dot_general", lambda *_: rounded(exact, result))
    f = lambda a, b: jax.lax.dot(a, b, preferred_element_type=result)  # noqa: E731
    fails(op_of(f, x, y, op="dot_general", backend=backend), backend, diagnosis)


def cut(x: np.ndarray, dtype: Any) -> np.ndarray:
    """Codes of f64, rounded toward zero."""
    codes = rounded(x, dtype)
    return np.where(np.abs(numbers(codes, dtype)) > np.abs(x), codes - 1, codes)


def saturated(x: np.ndarray, dtype: Any) -> np.ndarray:
    most = float(ml_dtypes.finfo(dtype).max)
    return rounded(np.clip(x, -most, most), dtype)


def flushed(x: np.ndarray, dtype: Any) -> np.ndarray:
    codes = rounded(x, dtype)
    return np.where(subnormal(codes, dtype), 0, codes)


SATURATED = "results beyond the largest number become the largest number"
WRITTEN: dict[str, tuple[Callable[[np.ndarray, Any], np.ndarray], float, str]] = {
    "toward zero": (cut, 1.0, "results are rounded toward zero, and not to nearest even"),
    "saturated": (saturated, 2.0**30, SATURATED),
    "saturated below": (lambda x, t: np.where(x < 0, saturated(x, t), rounded(x, t)), 2.0**30, ""),
    "zero beyond": (lambda x, t: np.where(np.isfinite(numbers(rounded(x, t), t)), rounded(x, t), 0), 2.0**30, ""),
    "the sign": (lambda x, t: rounded(-x, t), 1.0, ""),
}


@by_type(FN, FNUZ, E5M2, jnp.float16)
@pytest.mark.parametrize("fault", WRITTEN)
def test_how_products_are_written(fault: str, dtype: Any) -> None:
    write, size, diagnosis = WRITTEN[fault]
    x, y = sample(np.float64, 16, 24), sample(np.float64, 24, 16, seed=1)
    limits = ml_dtypes.finfo(dtype)
    by = {2.0**30: float(limits.max) ** 0.5, 2.0**-30: float(limits.smallest_normal) ** 0.5, 1.0: 1.0}[size]
    x, y = (x * by).astype(dtype), (y * by).astype(dtype)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    backend = Planted("dot_general", lambda *_: write(exact, dtype))
    fails(op_of(jnp.dot, x, y, op="dot_general", backend=backend), backend, diagnosis)


@by_type(FN, FNUZ, E5M2, jnp.float16)
def test_flushed_products(dtype: Any) -> None:
    """Flushed subnormal results are a choice of f16 and a fault of FP8, where every code counts."""
    x, y = sample(np.float64, 16, 24), sample(np.float64, 24, 16, seed=1)
    by = float(ml_dtypes.finfo(dtype).smallest_normal) ** 0.5
    x, y = (x * by).astype(dtype), (y * by).astype(dtype)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    backend = Planted("dot_general", lambda *_: flushed(exact, dtype))
    result = op_of(jnp.dot, x, y, op="dot_general", backend=backend)
    assert backend.has_changed
    note = (
        "subnormal numbers are taken as zero"
        if dtype == jnp.float16
        else "results that are subnormal are flushed to zero"
    )
    assert (result.verdict, set(result.notes) - {note}) == (DIVERGENT if dtype == jnp.float16 else FAIL, set())


@pytest.mark.parametrize(
    ("dtype", "other"), [(FN, FNUZ), (FNUZ, FN), (E5M2, FN), (jnp.bfloat16, jnp.float16), (jnp.float16, jnp.bfloat16)]
)
@pytest.mark.parametrize("which", [(0, 1), (0,)])
def test_operands_read_as_another_type(dtype: Any, other: Any, which: tuple[int, ...]) -> None:
    def fault(arrays: list[np.ndarray], _: np.ndarray) -> np.ndarray:
        x, y = (numbers(a, other if i in which else dtype) for i, a in enumerate(arrays))
        return rounded(x @ y, dtype)

    names = {FN: "f8E4M3FN", FNUZ: "f8E4M3FNUZ", E5M2: "f8E5M2", jnp.bfloat16: "bf16", jnp.float16: "f16"}
    of = "operands are" if len(which) == 2 else "operand 0 is"
    backend = Planted("dot_general", fault)
    actual = op_of(jnp.dot, sample(dtype, 16, 24), sample(dtype, 24, 16, seed=1), op="dot_general", backend=backend)
    assert backend.has_changed
    assert actual.verdict == FAIL
    (note,) = actual.notes  # types that have all of these numbers in common are named together
    read, _, right = note.removeprefix(f"{of} read as ").partition(", and not as ")
    assert (names[other] in read.split(" or "), right) == (True, names[dtype]), note


@pytest.mark.parametrize("dtype", [FN, E5M2], ids=lambda t: jnp.dtype(t).name)
def test_operands_that_are_flushed(dtype: Any) -> None:
    def fault(arrays: list[np.ndarray], _: np.ndarray) -> np.ndarray:
        x, y = (np.where(subnormal(a, dtype), 0.0, numbers(a, dtype)) for a in arrays)
        return rounded(x @ y, dtype)

    small = float(ml_dtypes.finfo(dtype).smallest_normal)
    x, y = (sample(np.float64, 16, 24) * small).astype(dtype), sample(dtype, 24, 16, seed=1)
    backend = Planted("dot_general", fault)
    fails(
        op_of(jnp.dot, x, y, op="dot_general", backend=backend),
        backend,
        "operands that are subnormal are flushed to zero",
    )


def test_the_sign_of_zero() -> None:
    x, y = sample(FN, 8, 8), sample(FN, 8, 8, seed=1)
    x[2:4] = 0
    backend = Planted("dot_general", lambda _, right: np.where(right == 0, 0x80, right))
    fails(op_of(jnp.dot, x, y, op="dot_general", backend=backend), backend, "zeros have the wrong sign")


def test_batches() -> None:
    x, y = sample(FN, 4, 12, 20), sample(FN, 4, 20, 12, seed=1)
    exact = np.roll(x.astype(np.float64), 1, 0) @ y.astype(np.float64)
    backend = Planted("dot_general", lambda *_: rounded(exact, FN))
    actual = op_of(jax.lax.batch_matmul, x, y, op="dot_general", backend=backend)
    fails(actual, backend, "operand 0 is taken from the last batch")


def padded(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return convolved(np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), constant_values=1.0), y, padding="VALID")


def but_last_channel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    y = y.copy()
    y[:, :, -1] = 0
    return convolved(x, y)


CONVOLUTIONS: dict[str, tuple[dict[str, Any], Callable[[np.ndarray, np.ndarray], np.ndarray], str]] = {
    "zeros": ({}, lambda x, y: 0 * convolved(x, y), ZERO),
    "shifted channels": (
        {},
        lambda x, y: np.roll(convolved(x, y), 1, 3),
        "each result is that of the last index of dimension 3",
    ),
    "reversed": ({}, lambda x, y: convolved(x, y[::-1, ::-1]), "the kernel is reversed"),
    "padded with 1": ({}, padded, ""),
    "the last channel": ({}, but_last_channel, "every term is left out whose index modulo 8 is 7"),
    "no strides": ({"window_strides": (2, 2)}, lambda x, y: convolved(x, y)[:, :5, :5], ""),
    "no dilation": ({"rhs_dilation": (2, 2)}, convolved, ""),
    "another group": (
        {"feature_group_count": 2},
        lambda x, y: convolved(np.roll(x, 8, 3), y, feature_group_count=2),
        "the kernel of the last group of features is taken",
    ),
}


@pytest.mark.parametrize(("fault", "dtype"), rotated(CONVOLUTIONS, (FN, E5M2, F4, jnp.bfloat16, jnp.float32)))
def test_convolutions(fault: str, dtype: Any) -> None:
    how, compute, diagnosis = CONVOLUTIONS[fault]
    groups = how.get("feature_group_count", 1)
    x, y = sample(dtype, 2, 10, 10, 8 * groups), sample(dtype, 3, 3, 8, 6, seed=1)
    exact = compute(x.astype(np.float64), y.astype(np.float64))
    backend = Planted("stablehlo.convolution", lambda *_: rounded(exact, dtype))

    def f(a: Any, b: Any) -> Any:
        given = {"window_strides": (1, 1), "padding": "SAME"} | how
        return jax.lax.conv_general_dilated(a, b, **given, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    actual = op_of(f, x, y, op="convolution", backend=backend)
    assert backend.has_changed
    assert actual.verdict == FAIL
    # Groups that are rotated among operands are rotated among kernels too, and among results.
    assert groups > 1 or set(actual.notes) <= {diagnosis}, actual.notes


def in_order(x: np.ndarray, dtype: Any, init: float = 0.0) -> np.ndarray:
    """Rows added up in a type, each step rounded."""
    total = np.full(x.shape[0], init)
    for i in range(x.shape[1]):
        total = numbers(rounded(total + x[:, i], dtype), dtype)
    return total


REDUCTIONS: dict[str, tuple[Callable[[np.ndarray, Any], np.ndarray], str]] = {
    "zeros": (lambda x, t: 0 * in_order(x, t), ZERO),
    "half zeros": (
        lambda x, t: np.where(np.arange(len(x)) < len(x) // 2, in_order(x, t), 0),
        "all wrong results are in the second half of dimension 0",
    ),
    "one zero": (lambda x, t: np.where(np.arange(len(x)) == 7, 0, in_order(x, t)), ""),
    "shifted": (lambda x, t: np.roll(in_order(x, t), 1), "each result is that of the last index of dimension 0"),
    "the last": (lambda x, t: in_order(x[:, :-1], t), "the last term is left out"),
    "the first": (lambda x, t: in_order(x[:, 1:], t), "the first term is left out"),
    "from one": (lambda x, t: in_order(x, t, 1.0), "the initial value is 1, and not as given"),
    "a lane": (
        lambda x, t: in_order(np.where(np.arange(x.shape[1]) % 8 == 7, 0, x), t),
        "every term is left out whose index modulo 8 is 7",
    ),
}


@pytest.mark.parametrize(
    ("fault", "dtype"), rotated(REDUCTIONS, (FN, E5M2, FNUZ, jnp.bfloat16, jnp.float16, jnp.float32))
)
def test_reductions(fault: str, dtype: Any) -> None:
    compute, diagnosis = REDUCTIONS[fault]
    x = sample(dtype, 32, 50)
    exact = compute(x.astype(np.float64), dtype)
    backend = Planted(r"stablehlo.reduce\(", lambda *_: rounded(exact, dtype))
    f = lambda a: jax.lax.reduce(a, np.zeros((), dtype), jax.lax.add, (1,))  # noqa: E731
    fails(op_of(f, x, op=".reduce", backend=backend), backend, diagnosis)


@by_type(FN, E5M2, jnp.bfloat16, jnp.float32)
def test_windows_scatters_and_what_they_select(dtype: Any) -> None:
    x = sample(dtype, 24, 40)
    f = lambda a: jax.lax.reduce_window(a, np.zeros((), dtype), jax.lax.add, (3, 5), (1, 2), "SAME")  # noqa: E731
    for fault, diagnosis in (
        (lambda _, r: 0 * r, ZERO),
        (lambda _, r: np.roll(r, 1, 1), "each result is that of the last index of dimension 1"),
    ):
        backend = Planted("stablehlo.reduce_window", fault)
        fails(op_of(f, x, op="reduce_window", backend=backend), backend, diagnosis)
    places = np.random.default_rng(2).integers(0, 24, 90)
    updates = sample(dtype, 90, 40, seed=3)

    def missing(arrays: list[np.ndarray], _: np.ndarray) -> np.ndarray:
        totals = numbers(arrays[0], dtype)
        for i, row in zip(places[:-1], updates[:-1].astype(np.float64), strict=True):
            totals[i] = numbers(rounded(totals[i] + row, dtype), dtype)
        return rounded(totals, dtype)

    for fault in (lambda _, r: 0 * r, missing):
        backend = Planted("stablehlo.scatter", fault)
        actual = op_of(lambda a, i, u: a.at[i].add(u), x, places, updates, op="scatter", backend=backend)
        assert backend.has_changed
        assert actual.verdict == FAIL
    if dtype != FN:
        pool = lambda a: jax.lax.reduce_window(a, np.array(-np.inf, dtype), jax.lax.max, (3, 3), (2, 2), "SAME")  # noqa: E731
        backend = Planted("stablehlo.select_and_scatter", lambda _, r: 0 * r)
        grad = jax.grad(lambda a: pool(a).astype(jnp.float32).sum())
        assert op_of(grad, x, op="select_and_scatter", backend=backend).verdict == FAIL


@by_type(FN, E5M2, FNUZ, jnp.bfloat16, jnp.float16)
@pytest.mark.parametrize("function", [jnp.exp, jnp.cos, jax.lax.tanh, jax.lax.logistic])
def test_functions_that_are_always_one_code_off(function: Any, dtype: Any) -> None:
    width = np.dtype(dtype).itemsize
    x = np.arange(1 << min(8 * width, 12), dtype=f"u{width}").view(dtype)
    x = x[np.isfinite(x.astype(np.float32)) & (np.abs(x.astype(np.float32)) < 3)]
    x[0] = 0
    backend = Planted("stablehlo", lambda _, right: right + 1)
    report = interp.compare(function, x, backend=backend)
    assert report.verdict == FAIL
    off = 1 if function in (jnp.exp, jnp.cos) else 0
    assert any(e.index == (0,) or not off for e in report.failures[0].worst) or report.failures[0].differing > 4


def test_exact_values_of_functions_of_f32() -> None:
    x = np.array([0.0, 1.0, 0.5], np.float32)
    backend = Planted("stablehlo.exponential", lambda _, right: right + 1)
    (actual,) = interp.compare(jnp.exp, x, backend=backend).ops
    assert (actual.verdict, dict(actual.verdicts)) == (FAIL, {ACCURACY: 2, FAIL: 1})  # exp(0) is 1
