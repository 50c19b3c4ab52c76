"""Faults of sums, planted in results that f64 gives: what a backend computes instead, and how that is reported.

Every fault is a function of the op's exact arithmetic in f64, which shares nothing with the code that judges.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.diff.report import OpReport

FN, FNUZ, E5M2, F4 = jnp.float8_e4m3fn, jnp.float8_e4m3fnuz, jnp.float8_e5m2, jnp.float4_e2m1fn
TYPES = [FN, FNUZ, E5M2, F4, jnp.bfloat16, jnp.float16, jnp.float32]
OWN = Minihlo("minihlo", interp.Policy())
Results = list[np.ndarray]


def by_type(*types: Any) -> Any:
    """A test for each type; of the types that are like others it is exhaustive."""
    few = (FN, jnp.bfloat16, jnp.float32)
    each = [t if t in few else pytest.param(t, marks=pytest.mark.exhaustive) for t in types]
    return pytest.mark.parametrize("dtype", each, ids=lambda t: jnp.dtype(t).name)


def sample(dtype: Any, *shape: int, seed: int = 0) -> np.ndarray:
    """Random numbers of a type."""
    return (np.random.default_rng(seed).normal(size=shape) / 2).astype(dtype)


def op_of(function: Any, *args: np.ndarray, op: str, backend: Any) -> OpReport:
    """What is reported of the only op of a function whose name ends so."""
    report = interp.compare(function, *args, backend=backend)
    (result,) = [o for o in report.ops if o.op.endswith(op)]
    return result


@dataclasses.dataclass
class Planted:
    """minihlo, except that the results of the ops whose text matches are those of a fault."""

    op: str
    fault: Callable[[list[np.ndarray], np.ndarray], np.ndarray]  #: of the operands' codes and the right codes
    name: str = "planted"
    has_changed: bool = False

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> Results:
        right = OWN.evaluate(text, arrays)
        if not re.search(self.op, text):
            return right
        result = np.array(self.fault([np.array(x) for x in arrays], right[0].copy()), right[0].dtype, order="C")
        self.has_changed |= not np.array_equal(result, right[0])
        return [result]


def numbers(codes: np.ndarray, dtype: Any) -> np.ndarray:
    """Codes as f64."""
    return np.array(codes, order="C").view(dtype).astype(np.float64)


def rounded(x: Any, dtype: Any) -> np.ndarray:
    """Codes of f64, rounded once: to the nearest of all numbers of the type, of ties the even code."""
    x, width = np.asarray(x, np.float64), np.dtype(dtype).itemsize
    if width == 4:
        return x.astype(np.float32).view(np.uint32)
    codes = (
        np.arange(1 << 8 * width, dtype=f"u{width}") if width == 2 else np.arange(_COUNT.get(dtype, 256), dtype="u1")
    )
    with np.errstate(all="ignore"):
        values = codes.view(dtype).astype(np.float64)
    finite = np.isfinite(values) & ~np.signbit(values)
    grid, names = values[finite], codes[finite]
    order = np.argsort(grid, kind="stable")
    grid, names = grid[order], names[order]
    size = np.abs(np.where(np.isfinite(x), x, 0.0))
    above = np.clip(np.searchsorted(grid, size), 1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    middle = (low + high) / 2
    up = (size > middle) | ((size == middle) & (names[above] % 2 == 0))
    result = names[np.where(up, above, above - 1)]
    step = grid[-1] - grid[-2]
    beyond = (size >= grid[-1] + step / 2) | ~np.isfinite(x)
    special = codes[np.isnan(values) | np.isinf(values)]
    if len(special):
        infinite = codes[np.isposinf(values)]
        result = np.where(beyond, infinite[0] if len(infinite) else special[0], result)
    sign = np.array([-1.0]).astype(dtype).view(f"u{width}")[0] ^ np.array([1.0]).astype(dtype).view(f"u{width}")[0]
    has_minus_zero = np.signbit(np.array([sign], f"u{width}").view(dtype).astype(np.float64))[0]
    minus = np.signbit(x) & ~np.isnan(x) & ((result != 0) | bool(has_minus_zero))
    return np.where(minus, result | sign, result).astype(f"u{width}")


_COUNT: dict[Any, int] = {ml_dtypes.float4_e2m1fn: 16}


def subnormal(codes: np.ndarray, dtype: Any) -> np.ndarray:
    x = np.abs(numbers(codes, dtype))
    return (x > 0) & (x < float(ml_dtypes.finfo(dtype).smallest_normal))


def convolved(x: np.ndarray, y: np.ndarray, **how: Any) -> np.ndarray:
    """A convolution of NHWC and HWIO in f64."""
    with jax.enable_x64(True):
        given = {"window_strides": (1, 1), "padding": "SAME"} | how
        return np.asarray(
            jax.lax.conv_general_dilated(
                jnp.asarray(x, jnp.float64),
                jnp.asarray(y, jnp.float64),
                **given,
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
        )
