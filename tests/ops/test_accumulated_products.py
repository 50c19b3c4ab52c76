"""Products of matrices by an accumulator, a part of the rows at a time."""

import numpy as np
import pytest

from minihlo.ops.accumulators import units
from minihlo.ops.accumulators.product import product
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots

from .slow_accumulator import Slow
from .test_accumulators_slow import RECORDS

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
    bits = 32 if "32" in name else 16 if "16" in name else 8
    x, y = (
        rng.integers(0, 1 << bits, s).astype(f"u{bits // 8}") for s in ((batch, rows, length), (batch, length, columns))
    )
    x[:, : rows // 2] &= (1 << bits - 1) - 1 >> 1  # half of the rows have no infinities or NaN
    y[..., : columns // 2] &= (1 << bits - 1) - 1 >> 1
    return x, y, rng.standard_normal((batch, rows, columns)).astype(np.float32)


@pytest.mark.parametrize(("chip", "name", "result"), CASES)
def test_products_are_those_of_single_dots(chip: str, name: str, result: str) -> None:
    record = units.find(chip, name, name, result).record
    for shape in ((1, 300, 37, 200), (7, 3, 40, 2), (1, 1, 5, 9), (2, 3, 0, 4), (0, 2, 3, 4), (1, 2, 3, 0)):
        x, y, c = operands(name, shape, 1)
        got = product(record, x, y, name, name, c)
        wanted = dots(record, x[:, :, None], y.swapaxes(1, 2)[:, None], name, name, c)
        assert got.dtype == wanted.dtype
        assert same(got, wanted)


@pytest.mark.parametrize("c", [-0.0, 0.0, -1e-45, np.nan, -np.inf])
def test_products_and_sums_of_zero(c: float) -> None:
    """A sum of terms that is exactly zero is +0; a result that rounds to zero keeps its sign."""
    x = np.array([0.0, -0.0, -(2.0**-24), 2.0**-24], np.float16).reshape(1, 1, 4).repeat(3, 1)
    y = np.array([-0.0, 1.0, 2.0**-24, 2.0**-24], np.float16).reshape(1, 4, 1).repeat(9, 2)
    start = np.full((1, 3, 9), c, np.float32)
    for text in ("step=4,bits=23,least=-133", "step=2,bits=9,least=0", *RECORDS):
        record = Accumulator.from_text(text)
        got = product(record, x, y, "f16", "f16", start)
        wanted = Slow(record, "f16", "f16").dot(x[0, 0].tolist(), y[0, :, 0].tolist(), float(start[0, 0, 0]))
        assert same(got, np.full((1, 3, 9), wanted, got.dtype)), (text, got.flat[0], wanted)
