"""Products of matrices by an accumulator: tile by tile, and by the compiled kernel where numba is installed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from minihlo.ops.accumulators import units
from minihlo.ops.accumulators.product import product
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.engine import compiled, speed

PLAIN = speed.Speed().without("compiled")
KERNELS = dataclasses.replace(
    speed.Speed(), tuning=dataclasses.replace(speed.Speed().tuning, compiled_from=1, compiled_worth=1)
)
CASES = [
    ("v100", "f16", "f32"),
    ("h100", "f8E4M3FN", "f32"),
    ("h100", "f8E5M2", "f16"),
    ("h100", "bf16", "f32"),
    ("b200", "f8E5M2", "f32"),
    ("cdna2", "f16", "f32"),
    ("cdna3", "f8E4M3FNUZ", "f32"),
]


def same(x: np.ndarray, y: np.ndarray) -> bool:
    nan = np.isnan(x)
    return bool((nan == np.isnan(y)).all()) and x[~nan].tobytes() == y[~nan].tobytes()


def operands(name: str, shape: tuple[int, int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    batch, rows, length, columns = shape
    rng = np.random.default_rng(seed)
    bits = 16 if "16" in name else 8
    x, y = (
        rng.integers(0, 1 << bits, s).astype(f"u{bits // 8}") for s in ((batch, rows, length), (batch, length, columns))
    )
    x[:, : rows // 2] &= (1 << bits - 1) - 1 >> 1  # half of the rows have no infinities or NaN
    y[..., : columns // 2] &= (1 << bits - 1) - 1 >> 1
    return x, y, rng.standard_normal((batch, rows, columns)).astype(np.float32)


@pytest.mark.parametrize(("chip", "name", "result"), CASES)
def test_tiles_give_what_single_dots_give(chip: str, name: str, result: str) -> None:
    record = units.find(chip, name, name, result).record
    for shape in ((1, 300, 37, 200), (7, 3, 40, 2), (1, 1, 5, 9), (2, 3, 0, 4), (0, 2, 3, 4), (1, 2, 3, 0)):
        x, y, c = operands(name, shape, 1)
        with speed.entered(PLAIN):
            got = product(record, x, y, name, name, c)
            wanted = dots(record, x[:, :, None], y.swapaxes(1, 2)[:, None], name, name, c)
        assert got.dtype == wanted.dtype
        assert same(got, wanted)


@pytest.mark.parametrize(("chip", "name", "result"), CASES)
def test_the_compiled_kernel_gives_the_same_bits(chip: str, name: str, result: str) -> None:
    if not compiled.is_available():
        pytest.skip("numba is not installed")
    record = units.find(chip, name, name, result).record
    for shape in ((3, 5, 70, 7), (1, 40, 33, 300), (1, 1, 5, 1)):
        x, y, c = operands(name, shape, 2)
        for start in (None, c):
            with speed.entered(PLAIN):
                wanted = product(record, x, y, name, name, start)
            with speed.entered(KERNELS):
                assert compiled.kernels(1) is not None
                got = product(record, x, y, name, name, start)
            assert same(got, wanted)
