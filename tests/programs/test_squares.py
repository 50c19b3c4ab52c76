"""Matrices that lie across, extremes and sums of rows, by code that LLVM makes: as numpy has them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.engine import blocks, compiled, half_extremes
from minihlo.ops.engine.native import half_rows, row_sums, squares
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(16, 16), (17, 47), (129, 64), (300, 31), (256, 512)])
def test_matrices_laid_the_other_way_round(tune: Tune, shape: tuple[int, int], dtype: type) -> None:
    tune(across_side=16, across_worth=0, across_many=0)
    rows, columns = shape
    numbers = np.random.default_rng(3).integers(0, 256, (rows, columns + 5)).astype(dtype)
    assert squares.squares(rows * columns, numbers.itemsize) is not None
    for x in (np.ascontiguousarray(numbers[:, :columns]), numbers[:, 3 : 3 + columns]):
        result = blocks.in_order(x.T)
        assert result.flags.c_contiguous
        assert result.tolist() == [[x[i, j].item() for i in range(rows)] for j in range(columns)]


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("shape", [(3, 1), (40, 31), (20, 32), (9, 500)])
def test_extremes_of_rows(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], largest: bool, t: str) -> None:
    """Of all signs, of one sign, and of zeros of both; rows with NaN are told."""
    element, rng = ELEMENT_TYPES[t], np.random.default_rng(5)
    monkeypatch.setattr(half_extremes, "kernels", lambda _: True)
    assert half_rows.extremes(largest) is not None
    infinity = int(np.array(np.inf, element.dtype).view(np.uint16))
    for signs, sizes in ((0x8000, infinity + 1), (0, infinity + 1), (0x8000, 2), (0x8000, 0x7FFF)):
        codes = rng.integers(0, sizes, shape) | rng.choice([signs, 0x8000 if sizes > 2 else 0], shape)
        x = codes.astype(np.uint16).view(element.dtype)
        found, nan = half_extremes.extreme(x.T, element, largest)
        with np.errstate(invalid="ignore"):  # some NaN signal
            numbers, found = x.astype(np.float64), found.astype(np.float64)
        assert nan.tolist() == np.flatnonzero(np.isnan(numbers).any(axis=1)).tolist()
        for row, number in zip(numbers, found, strict=True):
            if not np.isnan(row).any():
                assert number == (max if largest else min)(row)
                zeros = np.signbit(row[row == 0])
                assert number != 0 or np.signbit(number) == (zeros.all() if largest else zeros.any())


@pytest.mark.parametrize("t", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(1, 3), (15, 16), (16, 31), (17, 15), (50, 100)])
def test_sums_of_rows(tune: Tune, shape: tuple[int, int], t: str) -> None:
    """One element after the other, of all kinds of numbers; only the rows that are asked for."""
    tune(across_worth=0, compiled_from=1)
    dtype, rng = ELEMENT_TYPES[t].dtype, np.random.default_rng(7)
    add = row_sums.adding(shape[0] * shape[1], t)
    assert add is not None
    numbers = rng.standard_normal(shape) * 2.0 ** rng.integers(-40, 40, shape)
    special = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e-7], shape)
    zeros = rng.choice([0.0, -0.0], shape)
    for x in (rng.standard_normal(shape), numbers, np.where(rng.random(shape) < 0.02, special, numbers), zeros):
        with np.errstate(over="ignore"):
            wide = np.concatenate([x, x], 1).astype(dtype)
        rows = wide[:, shape[1] // 2 :][:, : shape[1]]
        totals = rng.choice([0.0, -0.0, 1e-3], shape[0]).astype(np.float32)
        wanted, all_totals = totals.copy(), np.concatenate([totals, [np.float32(5)]])
        with np.errstate(invalid="ignore", over="ignore"):
            for column in rows.T:
                wanted = wanted + column.astype(np.float32)
        add(all_totals[:-1], rows)
        got = all_totals[:-1]
        assert all_totals[-1] == 5
        assert np.isnan(got).tolist() == np.isnan(wanted).tolist()
        assert (
            np.where(np.isnan(got), 0, got).view(np.uint32).tolist()
            == np.where(np.isnan(wanted), 0, wanted).view(np.uint32).tolist()
        )


@pytest.mark.parametrize("t", ["f32", "f16", "bf16"])
def test_sums_of_rows_in_programs(monkeypatch: pytest.MonkeyPatch, tune: Tune, t: str) -> None:
    tune(compiled_from=1, compiled_worth=0, across_worth=0, fast_few=1, fast_from=1, fuse_many_compiled=1, fast_alone=0)
    ran: list[str] = []
    real = row_sums.adding

    def adding(size: int, kind: str) -> object:
        ran.append(kind)
        return real(size, kind)

    monkeypatch.setattr(row_sums, "adding", adding)
    x = np.random.default_rng(8).standard_normal((83, 2, 70)).astype(ELEMENT_TYPES[t].dtype)
    wanted = np.zeros((83, 2), np.float32)
    for i in range(70):
        wanted = wanted + x[:, :, i].astype(np.float32)
    got = interp.jit(lambda v: v.astype(jnp.float32).sum(-1))(x)
    assert np.asarray(got).tolist() == wanted.tolist()
    assert set(ran) == {t}
