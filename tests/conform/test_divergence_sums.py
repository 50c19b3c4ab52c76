"""Sums that are right, in any order, type or unit that is allowed: none of these is a failure."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp
from minihlo.interp.conform.result import ACCURACY, PASS

from .divergence_faults import E5M2, F4, FN, TYPES, Planted, by_type, op_of, rounded, sample


def by_f16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float64)


def aligned(x: np.ndarray, y: np.ndarray, bits: int, size: int) -> np.ndarray:
    """As tensor cores of NVIDIA's: the terms of a step and the sum so far are cut off below the largest's last bit."""
    total = np.zeros((len(x), y.shape[1]))
    for first in range(0, x.shape[1], size):
        terms = x[:, first : first + size, None] * y[first : first + size]
        every = np.concatenate([terms, total[:, None]], axis=1)
        unit = 2.0 ** (np.frexp(np.abs(every).max(axis=1))[1] - 1 - bits)
        total = (np.trunc(every / unit[:, None]) * unit[:, None]).sum(axis=1)
    return total


@by_type(FN, E5M2)
def test_sums_that_are_allowed(dtype: Any) -> None:
    x, y = sample(dtype, 96, 320), sample(dtype, 320, 96, seed=1)
    wide = x.astype(np.float64), y.astype(np.float64)
    exact = wide[0] @ wide[1]
    order = np.random.default_rng(0).permutation(320)
    single = np.zeros((96, 96), np.float32)
    for k in order:
        single += np.outer(*(v.astype(np.float32) for v in (x[:, k], y[k])))
    for sums, verdicts in (
        (exact, {PASS}),
        (single.astype(np.float64), {PASS}),
        (by_f16(exact), {PASS, ACCURACY}),
        (aligned(*wide, 13, 32), {PASS, ACCURACY}),
        (aligned(wide[0][:, order], wide[1][order], 13, 16), {PASS, ACCURACY}),
    ):
        backend = Planted("dot_general", lambda *_, sums=sums: rounded(sums, dtype))
        actual = op_of(jnp.dot, x, y, op="dot_general", backend=backend)
        assert actual.verdict in verdicts, actual.notes


def test_sums_of_f32_whose_errors_agree() -> None:
    """A tenth, twenty thousand times: off by much more than the square root of their number."""
    x = np.full((3, 20_000), 0.1, np.float32)
    total = np.zeros(3, np.float32)
    for i in range(x.shape[1]):
        total += x[:, i]
    assert abs(float(total[0]) - 2000) > 0.05
    backend = Planted(r"stablehlo.reduce\(", lambda *_: total.view(np.uint32))
    assert op_of(lambda a: a.sum(1), x, op=".reduce", backend=backend).verdict == PASS


@by_type(*TYPES)
def test_xla_on_cpus_is_not_accused(dtype: Any) -> None:
    def f(x: Any, y: Any, image: Any, kernel: Any, places: Any) -> Any:
        zero = np.zeros((), dtype)
        return (
            x @ y,
            jax.lax.reduce(x, zero, jax.lax.add, (1,)),
            jax.lax.reduce(x, np.ones((), dtype), jax.lax.add, (0, 1)),
            jax.lax.cumsum(x, 1),
            jax.lax.reduce_window(x, zero, jax.lax.add, (3, 5), (1, 2), "SAME"),
            jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            x.at[places].add(x[:20]),
        )

    arrays = sample(dtype, 40, 300), sample(dtype, 300, 30), sample(dtype, 2, 9, 9, 4), sample(dtype, 3, 3, 4, 5)
    report = interp.compare(f, *arrays, np.arange(20) % 7, backend="cpu")
    assert report.failures == [], str(report)


@by_type(FN, F4, jnp.bfloat16, jnp.float32)
def test_the_reference_is_not_accused(dtype: Any) -> None:
    def f(x: Any, y: Any, image: Any, kernel: Any) -> Any:
        dimensions = ("NHWC", "HWIO", "NHWC")
        return (
            x @ y,
            jax.lax.reduce(x, np.zeros((), dtype), jax.lax.add, (1,)),
            jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME", dimension_numbers=dimensions),
        )

    arrays = sample(dtype, 12, 40), sample(dtype, 40, 12), sample(dtype, 1, 5, 5, 3), sample(dtype, 3, 3, 3, 2)
    report = interp.compare(f, *arrays, backend="reference")
    assert report.failures == [], str(report)
