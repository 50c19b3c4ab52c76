"""Matrices that lie across, and rows of f16 and bf16, by code that LLVM makes: as numpy has them."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo.ops.engine import blocks, compiled, half_extremes
from minihlo.ops.engine.native import half_rows, squares
from minihlo.ops.types import ELEMENT_TYPES

from .conftest import Tune

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
