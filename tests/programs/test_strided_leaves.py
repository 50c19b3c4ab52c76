"""Compiled groups read slices, and what is repeated, where they lie."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast import run
from minihlo.ops.engine.fast.layouts import layout_of
from minihlo.ops.engine.speed import Speed

from ..conftest import Tune, tuned
from .compiled_groups import compile_all_groups

needs_numba = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[run.Program]:
    return compile_all_groups(monkeypatch, tune)


def places(shape: tuple[int, ...], leaf: np.ndarray, first: int | None = None) -> None:
    """Reading row by row from where each begins gives the leaf's elements, in order."""
    view = leaf.reshape((1,) * (len(shape) - leaf.ndim) + leaf.shape)
    layout = layout_of(shape, [view], first)
    base = leaf.base if leaf.base is not None and not layout.copied[0] else None
    if base is None:
        flat = np.ascontiguousarray(leaf).reshape(-1)
        offset = 0
    else:
        flat = base.reshape(-1)
        offset = (leaf.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // leaf.itemsize
    (starts,), (steps,), width = layout.starts(), layout.steps, layout.sizes[-1]
    got = [flat[offset + start + np.arange(width) * steps[-1]] for start in starts]
    np.testing.assert_array_equal(np.array(got).reshape(shape), np.broadcast_to(leaf, shape))


def test_places_of_rows() -> None:
    whole = np.arange(6 * 8 * 100, dtype=np.float32).reshape(6, 8, 100)
    for leaf, shape in [
        (whole, (6, 8, 100)),
        (whole[1:5, 2:7, 10:90], (4, 5, 80)),
        (whole[:, :, :64], (6, 8, 64)),
        (whole[::2, ::3], (3, 3, 100)),
        (whole[:, :, ::2], (6, 8, 50)),
        (whole[:, 3:4, :], (6, 8, 100)),
        (whole[:, :, 5:6], (6, 8, 100)),
        (whole[0], (6, 8, 100)),
        (whole[::-1], (6, 8, 100)),
        (whole[:, :, 3:7], (6, 8, 4)),
        (whole.transpose(0, 2, 1), (6, 100, 8)),
    ]:
        places(shape, leaf)
        laid = (1,) * (len(shape) - leaf.ndim) + leaf.shape
        for first in range(len(shape)):  # along a row a leaf is whole or repeated
            if laid[first:] in (shape[first:], (1,) * (len(shape) - first)):
                places(shape, leaf, first)


@needs_numba
@pytest.mark.parametrize("columns", [40, 64, 130])
def test_slices_and_repeats(ran: list[run.Program], columns: int) -> None:
    """Slices along rows and columns, a row and a column that are repeated, and a number."""
    rng, rows = np.random.default_rng(columns), 9
    wide, own = rng.standard_normal((2 * rows, 4 * columns)), rng.standard_normal((rows, columns))
    row, column = rng.standard_normal(columns), rng.standard_normal((rows, 1))
    arrays = [x.astype(np.float32) for x in (wide, own, row, column)]
    t, w = f"tensor<{rows}x{columns}xf32>", f"tensor<{2 * rows}x{4 * columns}xf32>"
    text = f"""func.func @main(%w: {w}, %o: {t}, %r: tensor<{columns}xf32>, %c: tensor<{rows}x1xf32>) -> ({t}, {t}) {{
      %a = stablehlo.slice %w [3:{rows + 3}, {columns}:{2 * columns}] : ({w}) -> {t}
      %b = stablehlo.slice %w [0:{2 * rows}:2, {2 * columns}:{3 * columns}] : ({w}) -> {t}
      %rs = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<{columns}xf32>) -> {t}
      %cs = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<{rows}x1xf32>) -> {t}
      %p = stablehlo.multiply %a, %rs : {t}
      %q = stablehlo.subtract %p, %b : {t}
      %s = stablehlo.multiply %q, %cs : {t}
      %u = stablehlo.add %s, %o : {t}
      %v = stablehlo.maximum %u, %a : {t}
      return %u, %v : {t}, {t}
    }}"""
    x, y, z, c = arrays
    a, b = x[3 : rows + 3, columns : 2 * columns], x[::2, 2 * columns : 3 * columns]
    total = (a * z - b) * c + y
    plan = planner.plan(interp.load(text).program, speed=tuned(Speed()))
    for _ in range(3):
        got = machine.run(plan, list(arrays))
        np.testing.assert_array_equal(got[0], total)
        np.testing.assert_array_equal(got[1], np.maximum(total, a))
    assert ran
