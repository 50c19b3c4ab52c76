"""Reductions of what is computed from tensors that are repeated along different dimensions, as `x[:, None] == y`.

The expected values are computed op by op, with every optimization off.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune, tuned

TYPES = ["i8", "ui8", "i32", "f32", "f64", "bf16", "f16", "f8E4M3FN"]
#: What is computed of two numbers, and how it is reduced.
PROGRAMS: dict[str, Callable[..., jax.Array]] = {
    "any equal": lambda z, axis: (z[0] == z[1]).any(axis),
    "all less": lambda z, axis: (z[0] < z[1]).all(axis),
    "how many less": lambda z, axis: (z[0] < z[1]).sum(axis),
    "largest sum": lambda z, axis: (z[0] + z[1]).max(axis),
    "smallest product": lambda z, axis: (z[0] * z[1]).min(axis),
    "sum of differences": lambda z, axis: jax.lax.reduce(
        z[0] - z[1], np.zeros((), z[0].dtype), jax.lax.add, axis if isinstance(axis, tuple) else (axis,)
    ),
}


def _ran(text: str, speed: Speed, *arrays: np.ndarray) -> np.ndarray:
    return machine.run(planner.plan(interp.load(text).program, speed=speed), list(arrays))[0]


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("element", TYPES)
def test_reductions_of_repeated_tensors(element: str, name: str, axis: int | tuple[int, ...], tune: Tune) -> None:
    tune(fuse_many=0, fuse_many_compiled=0, across_short_many=16, fold_part=1 << 9)
    rng, dtype = np.random.default_rng(0), ELEMENT_TYPES[element].dtype
    numbers = rng.integers(-9, 9, (60, 7, 5)) * (1 if element[0] in "iu" else 0.37)
    x, y, z = (numbers[:, :1, :1].astype(dtype), numbers[:1].astype(dtype), numbers[:, :1].astype(dtype))
    if element[0] == "f" or element == "bf16":
        x[5], y[0, 1, 2], y[0, 0, 0] = np.nan, -0.0, 0.0
    for pair in ((x, y), (y, z), (z[:, :, :1], y[:, :, :1])):
        with jax.enable_x64(True):
            lowered = jax.jit(lambda *z: PROGRAMS[name](jnp.broadcast_arrays(*z), axis)).lower(*pair)
        text = lowered.as_text()
        got, wanted = (_ran(text, speed, *pair) for speed in (tuned(Speed()), tuned(NONE)))
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_sums_are_formed_in_order(element: str, tune: Tune) -> None:
    tune(fuse_many=0, fuse_many_compiled=0, across_short_many=16)
    rng, dtype = np.random.default_rng(1), ELEMENT_TYPES[element].dtype
    x, y = (rng.standard_normal(n).astype(dtype) for n in (300, 20))
    with jax.enable_x64(True):
        add = functools.partial(jax.lax.reduce, init_values=np.zeros((), dtype), computation=jax.lax.add)
        text = jax.jit(lambda x, y: add(x[:, None] * y, dimensions=(0,))).lower(x, y).as_text()
    products = x[:, None] * y
    assert _ran(text, tuned(Speed()), x, y).tobytes() == np.add.accumulate(products)[-1].tobytes()


def test_slices_that_are_short_are_not_computed_one_by_one(tune: Tune) -> None:
    """The group and its reduction are one operation, whichever dimension is reduced."""
    tune(fuse_many=0, across_short_many=16)
    for axis in (0, 1):
        lowered = jax.jit(lambda x, y, axis=axis: (x[:, None] == y).any(axis)).lower(
            np.zeros(99, np.int8), np.zeros(5, np.int8)
        )
        plan = planner.plan(interp.load(lowered.as_text()).program, speed=tuned(Speed()))
        assert [c.decision.executor for c in plan.chosen if c.decision.executor != "alone"][-1] == "fold"
