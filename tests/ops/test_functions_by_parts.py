"""Functions of f32, computed in f64 part by part, are correctly rounded wherever an element stands."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.elementwise.ziv import ziv
from minihlo.ops.engine.speed import Speed
from minihlo.ops.minifloat import functions
from minihlo.ops.minifloat.formats import FORMATS

from .. import oracle
from ..conftest import Tune, tuned

F32 = oracle.FORMATS["f32"]
NAMES = sorted(oracle.FUNCTIONS.keys() - {"sqrt"})
#: Zero, the smallest and largest subnormal and normal numbers, one and its neighbours, where exp ends, infinity, NaN.
CODES = [0, 1, 0x7FFFFF, 0x800000, 0x00800001, 0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x42B17217, 0x42B17218,
         0x42AEAC50, 0x42CE8ECF, 0x42CFF1B5, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]  # fmt: skip
SEED = 16


def check(name: str, result: np.ndarray, *operands: np.ndarray) -> None:
    codes = [x.view(np.uint32).tolist() for x in operands]
    of = oracle.UNARY[name] if len(operands) == 1 else oracle.BINARY[name]
    for got, *given in zip(result.view(np.uint32).tolist(), *codes, strict=True):
        wanted = oracle.encode(F32, of(*[oracle.decode(F32, c) for c in given]))
        assert oracle.same(F32, got, wanted), (name, [hex(c) for c in given], hex(got), hex(wanted))


def numbers(count: int) -> np.ndarray:
    rng = np.random.default_rng(SEED)
    some = np.concatenate([rng.uniform(-100, 90, count), rng.standard_normal(count)]).astype(np.float32)
    return np.concatenate([np.array([c | s for c in CODES for s in (0, 1 << 31)], np.uint32).view(np.float32), some])


@pytest.mark.parametrize("name", NAMES)
def test_a_single_function_of_a_large_array(name: str, tune: Tune) -> None:
    tune(block=16, function_block=5)
    x = numbers(30)
    t = f"tensor<{x.size}xf32>"
    text = f"func.func @main(%x: {t}) -> {t} {{\n%r = stablehlo.{name} %x : {t}\nreturn %r : {t}\n}}"
    plan = planner.plan(interp.load(text).program, speed=tuned(Speed(compiled=False)))
    assert [c.decision.executor for c in plan.chosen] == ["blocks"]
    (result,) = machine.run(plan, [x])
    check(name, result, x)


@pytest.mark.parametrize("error", [-15, 0, 15])
def test_ties_are_decided_by_the_exact_function(error: int, tune: Tune) -> None:
    """Squares of 13 bits have 25 or 26: many are ties; so are odd halves of the smallest subnormal number."""
    tune(function_block=100)

    def wide(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        np.power(x, y, out)
        code = out.view(np.int64)
        code += np.where((out != 0) & np.isfinite(out), error, 0)

    odd = np.arange(4097, 8192, 22, dtype=np.float32)
    subnormal = np.arange(1, 4096, 34, dtype=np.float32) * np.float32(2.0**-75)
    x = np.concatenate([odd, odd * np.float32(2.0**-60), subnormal, np.array([0, np.inf], np.float32)])
    check("power", ziv(functions.power, wide, FORMATS["f32"], 2)(x, np.float32(2)), x, np.full(x.size, 2, np.float32))


def test_operands_lie_as_they_like() -> None:
    x, y = numbers(8)[:40].reshape(4, 10), numbers(8)[:10]
    kernel = ziv(functions.atan2, np.arctan2, FORMATS["f32"], 2)
    for a, b in ((x, y), (x.T, y[:4]), (x[::2, ::3], y[:1]), (y[0], x), (x[:0], y), (np.asarray(y[3]), y[7])):
        result = kernel(np.asarray(a), np.asarray(b))
        assert result.shape == np.broadcast_shapes(np.shape(a), np.shape(b))
        check("atan2", result.reshape(-1), *[np.ravel(v).copy() for v in np.broadcast_arrays(a, b)])
