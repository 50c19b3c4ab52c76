"""The windows of convolutions as compiled code lays them out, element by element, and whole convolutions by them."""

from __future__ import annotations

import math
from typing import Any, cast

import jax
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast.patches import lay_patches
from minihlo.ops.products import patches
from minihlo.ops.products.patches import Patches
from minihlo.ops.reductions.axes import Axis

from ..conftest import Tune

needs_numba = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


class _Plain:
    """The compiled kernel as plain Python."""

    def lay_patches(self, source: np.ndarray, out: np.ndarray, *rest: Any) -> None:
        lay_patches(source, out.view(source.dtype).reshape(-1), *rest)


def _random(rng: np.random.Generator, least: int, block: int) -> Patches:
    spatial = int(rng.integers(1, 3))
    groups = [(1, 1), (2, 1), (1, 3)][int(rng.integers(3))]
    batch, feature = int(rng.integers(1, 3)) * groups[1], int(rng.integers(1, 4)) * groups[0]
    axes = tuple(
        Axis(
            *(int(rng.integers(low, high)) for low, high in ((1, 6), (1, 4), (1, 3), (-1, 3), (-1, 3), (1, 3), (1, 3)))
        )
        for _ in range(spatial)
    )
    lhs = tuple(int(d) for d in rng.permutation(spatial + 2))
    shape = [0] * (spatial + 2)
    for d, n in zip(lhs, (batch, feature, *(a.size for a in axes)), strict=True):
        shape[d] = n
    depth = feature // groups[0] * math.prod(a.window for a in axes)
    reversal = tuple(int(r) for r in rng.integers(0, 2, spatial))
    return Patches(tuple(shape), lhs, axes, reversal, groups, depth, least, block)


def _by_definition(p: Patches, x: np.ndarray) -> np.ndarray:
    """Group, batch, places of the windows; places and features within one."""
    x, (features, batches) = x.transpose(p.lhs), p.groups
    batch, depth = x.shape[0] // batches, x.shape[1] // features
    window, counts = [a.window for a in p.axes], [a.count for a in p.axes]
    result = np.zeros((features * batches, batch, *counts, *window, depth), x.dtype)
    for place in np.ndindex(result.shape):
        group, n, c = place[0], place[1], place[-1]
        at = place[2 : 2 + len(counts)], place[2 + len(counts) : -1]
        source = [group * batch + n if batches > 1 else n, c if batches > 1 else group * depth + c]
        for axis, is_reversed, o, k in zip(p.axes, p.reversal, *at, strict=True):
            k = axis.window - 1 - k if is_reversed else k
            source.append((o * axis.stride + k * axis.window_dilation - axis.low) / axis.base_dilation)
        if all(s == int(s) and 0 <= s < n for s, n in zip(source, x.shape, strict=True)):
            result[place] = x[tuple(map(int, source))]
    return result.reshape(*result.shape[: 2 + len(counts)], -1)


@pytest.mark.parametrize("is_large", [False, True])
def test_windows_lie_as_defined(is_large: bool, tune: Tune) -> None:
    tune(convolution_short=1, convolution_apart=1 << 30)
    rng, seen = np.random.default_rng(5), set()
    for _ in range(400):
        # Those that are large are cut into parts of few windows, by columns or rows.
        p = _random(rng, *((1, 8) if is_large else (patches.PART, patches.BLOCK)))
        if p.is_known:
            x = rng.integers(1, 1000, p.shape).astype(np.float32)
            identity = np.broadcast_to(np.eye(p.depth, dtype=np.float32), (math.prod(p.groups), p.depth, p.depth))
            laid = p.products(cast(compiled.Kernels, _Plain()), x, identity, np.matmul)
            np.testing.assert_array_equal(laid, _by_definition(p, x))
            seen.add((len(p.axes), p.groups, p._order is None))
    assert {(d, g) for d, g, _ in seen} == {(d, g) for d in (1, 2) for g in ((1, 1), (2, 1), (1, 3))}
    assert {by_rows for _, _, by_rows in seen} == ({True, False} if is_large else {True})


#: Shapes of operands, dimension numbers, strides, padding, dilations of both and groups of features and batches.
_NHWC, _GRADIENT = ("NHWC", "HWIO", "NHWC"), ("CHWN", "IHWO", "HWNC")
CONVOLUTIONS = {
    "plain": ((3, 9, 8, 5), (3, 3, 5, 6), _NHWC, (1, 1), "SAME", (1, 1), (1, 1), 1, 1),
    "large": ((4, 16, 16, 24), (3, 3, 24, 24), _NHWC, (1, 1), "SAME", (1, 1), (1, 1), 1, 1),
    "gradient of a kernel": ((4, 14, 14, 20), (4, 14, 14, 24), _GRADIENT, (1, 1), [(1, 1)] * 2, (1, 1), (1, 1), 1, 1),
    "strides": ((2, 11, 12, 8), (3, 2, 8, 7), _NHWC, (2, 3), [(1, 0), (-1, 2)], (1, 1), (1, 1), 1, 1),
    "gradient of strides": ((2, 8, 8, 12), (3, 3, 12, 7), _NHWC, (1, 1), [(1, 2)] * 2, (2, 2), (1, 1), 1, 1),
    "holes": ((2, 12, 12, 6), (3, 3, 6, 5), _NHWC, (1, 1), "VALID", (1, 1), (2, 3), 1, 1),
    "features in groups": ((2, 10, 10, 12), (3, 3, 4, 9), _NHWC, (1, 1), "SAME", (1, 1), (1, 1), 3, 1),
    "batches in groups": ((4, 10, 10, 3), (3, 3, 3, 8), _NHWC, (1, 1), "SAME", (1, 1), (1, 1), 1, 2),
    "channels first": ((2, 6, 12, 13), (7, 6, 3, 3), ("NCHW", "OIHW", "NCHW"), (1, 1), "SAME", (1, 1), (1, 1), 1, 1),
    "one axis": ((3, 70, 6), (5, 6, 8), ("NHC", "HIO", "NHC"), (1,), "SAME", (1,), (1,), 1, 1),
    "points": ((2, 9, 9, 16), (1, 1, 16, 24), _NHWC, (1, 1), "VALID", (1, 1), (1, 1), 1, 1),
}


@needs_numba
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_have_the_same_bits_with_compiled_code(name: str, dtype: type, tune: Tune) -> None:
    tune(compiled_from=1, compiled_worth=0, block=1, convolution_short=1, convolution_apart=1 << 30)
    left, right, numbers, strides, padding, base, dilation, features, batches = CONVOLUTIONS[name]
    rng = np.random.default_rng(8)
    x, w = rng.normal(size=left).astype(dtype), rng.normal(size=right).astype(dtype)
    x.reshape(-1)[:: x.size // 6 + 1] = [-0.0, np.inf, np.nan, -np.inf, 1e-40, 3e38]

    def convolve(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, strides, padding, base, dilation, numbers, feature_group_count=features, batch_group_count=batches
        )

    with jax.enable_x64(dtype == np.float64):
        text = jax.jit(convolve).lower(x, w).as_text()
    switches = ("compiled", "", "threads")
    expected, *others = (np.ascontiguousarray(interp.load(text, without=off)(x, w)) for off in switches)
    assert np.isnan(expected).any()
    assert not np.isnan(expected).all()
    for other in others:
        np.testing.assert_array_equal(other.view(np.uint8), expected.view(np.uint8))


@needs_numba
def test_convolutions_are_laid_out_by_compiled_code(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(compiled_from=1, compiled_worth=0, convolution_short=1)
    calls = []
    monkeypatch.setattr(Patches, "products", lambda self, *_: calls.append(self.size) or np.zeros((1, 2, 4, 4, 3)))
    x, w = np.ones((2, 6, 6, 5), np.float32), np.ones((3, 3, 5, 3), np.float32)

    def convolve(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", dimension_numbers=_NHWC)

    interp.jit(convolve)(x, w)
    assert calls == [2 * 4 * 4 * 45]
    interp.jit(convolve)(x, np.ones((1, 1, 5, 3), np.float32))  # a matrix as it is
    interp.jit(convolve)(x, np.ones((3, 3, 5, 1), np.float32))  # a vector
    assert len(calls) == 1
