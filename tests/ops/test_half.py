"""f16 and bf16 as f32 and back, against numpy's and ml_dtypes' own conversions; and groups that hold them as f32."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled, half
from minihlo.ops.engine.speed import DEFAULT, NONE
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune, tuned
from ..run_op import run, tensor

HALVES = ("f16", "bf16")


def f32_of_all_kinds() -> np.ndarray:
    """Every place where rounding to f16 or bf16 changes, and its neighbours; random bits; NaN; both signs."""
    places = np.arange(1 << 15, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    steps = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)
    coarse = np.arange(1 << 15, dtype=np.uint32) << 16
    some = [(places[:, None] + steps).ravel(), (coarse[:, None] + np.array([0, 1, 0x7FFF, 0x8000, 0x8001])).ravel()]
    some.append(np.random.default_rng(1).integers(0, 1 << 31, 1 << 17))
    positive = np.concatenate(some).astype(np.uint32)
    return np.concatenate([positive, positive | np.uint32(0x80000000)]).view(np.float32)


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", HALVES)
def test_conversions_of_every_kind_of_number(name: str, with_nan: bool, tune: Tune) -> None:
    tune(half_many=16, half_block=1 << 12)
    dtype, x = ELEMENT_TYPES[name].dtype, f32_of_all_kinds()
    x = x if with_nan else x[~np.isnan(x)]
    wanted = x.astype(dtype)
    assert same_bits(half.narrow(x, dtype), wanted)
    again, back = half.rounded(x, ELEMENT_TYPES[name]), wanted.astype(np.float32)
    assert same_bits(again[~np.isnan(x)], back[~np.isnan(x)])
    assert np.array_equal(np.isnan(again), np.isnan(x))
    few = np.concatenate([np.full(10, -0.0, np.float32), [np.float32(np.nan)], x[:20], np.full(40, 1e30, np.float32)])
    assert same_bits(half.narrow(few, dtype), few.astype(dtype))
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    assert same_bits(half.widen(every), every.astype(np.float32))


@pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")
@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", HALVES)
def test_compiled_conversions(name: str, with_nan: bool, tune: Tune) -> None:
    tune(compiled_worth=0, compiled_from=1)
    dtype, x = ELEMENT_TYPES[name].dtype, f32_of_all_kinds()
    x = x if with_nan else x[~np.isnan(x)]
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    found = compiled.kernels(x.size)
    if found is None or found.halves is None:
        pytest.skip("the processor does not convert f16")
    assert same_bits(half.narrow(x, dtype), x.astype(dtype))
    assert same_bits(half.widen(every), every.astype(np.float32))
    turned = every.reshape(256, 256).T
    assert same_bits(half.widen(turned).T.copy(), turned.T.astype(np.float32))


@pytest.mark.parametrize("name", HALVES)
def test_conversions_of_arrays_in_any_layout(name: str, tune: Tune) -> None:
    tune(half_many=1, half_block=7)
    element = ELEMENT_TYPES[name]
    x = np.random.default_rng(2).standard_normal((6, 10)).astype(np.float32)
    for view in (x, x.T, x[::2, ::-3], x[:0], x[:, :1], np.broadcast_to(x[:1], (5, 10)), x[0, 0, ...]):
        wanted = view.astype(element.dtype)
        assert same_bits(np.ascontiguousarray(half.narrow(view, element.dtype)), np.ascontiguousarray(wanted))
        assert same_bits(np.ascontiguousarray(half.widen(wanted)), np.ascontiguousarray(wanted.astype(np.float32)))
        assert np.array_equal(half.rounded(view, element), wanted.astype(np.float32))


def random_step(rng: np.random.Generator, name: str, values: list[tuple[str, str]], number: int) -> tuple[str, str]:
    """A line that gives %number, and the type of that."""
    halves = [v for v, t in values if t == name]
    wide = [v for v, t in values if t == "f32"]
    shape, (x, y, z) = "tensor<40x60x", rng.choice(halves, 3)
    here, result = f"{shape}{name}>", f"%{number}"
    kind = rng.integers(0, 8)
    if kind < 3:
        op = rng.choice(["add", "multiply", "subtract", "divide", "maximum", "minimum"])
        return f"{result} = stablehlo.{op} {x}, {y} : {here}", name
    if kind == 3:
        return (
            f"{result} = stablehlo.{rng.choice(['negate', 'abs', 'sqrt', 'floor', 'exponential'])} {x} : {here}",
            name,
        )
    if kind == 4:
        line = f"%c{number} = stablehlo.compare LT, {x}, {y} : ({here}, {here}) -> {shape}i1>\n"
        return f"{line}{result} = stablehlo.select %c{number}, {z}, {x} : {shape}i1>, {here}", name
    if kind == 5:
        return f"{result} = stablehlo.clamp {x}, {y}, {z} : {here}", name
    if kind == 6 and wide:
        return f"{result} = stablehlo.convert {rng.choice(wide)} : ({shape}f32>) -> {here}", name
    return f"{result} = stablehlo.convert {x} : ({here}) -> {shape}f32>", "f32"


@pytest.mark.parametrize("name", HALVES)
def test_random_groups(name: str, tune: Tune) -> None:
    """All optimizations and none give the same bits; and a few, so that each representation meets each op."""
    tune(half_many=16, half_block=1000, fuse_many=16, block=1 << 10)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values, lines = [("%x", name), ("%y", name), ("%w", "f32")], []
        for number in range(9):
            line, t = random_step(rng, name, values, number)
            lines.append(line)
            values.append((f"%{number}", t))
        outputs = [values[-1], values[int(rng.integers(3, len(values) - 1))]]
        types = ", ".join(f"tensor<40x60x{t}>" for _, t in outputs)
        arguments = ", ".join(f"{v}: tensor<40x60x{t}>" for v, t in values[:3])
        lines += [f"return {', '.join(v for v, _ in outputs)} : {types}", "}"]
        text = "\n".join([f"func.func @main({arguments}) -> ({types}) {{", *lines])
        dtype = ELEMENT_TYPES[name].dtype
        x, y = rng.standard_normal((2, 40, 60)).astype(dtype)
        y[:20] = rng.integers(0, 1 << 16, (20, 60), np.uint16).view(dtype)
        w = (rng.standard_normal((40, 60)) * 2.0 ** rng.integers(-28, 18, (40, 60))).astype(np.float32)
        program = interp.load(text).program
        plain, *others = (
            machine.run(planner.plan(program, speed=tuned(speed)), [x, y, w])
            for speed in (NONE, DEFAULT, DEFAULT.without("tables"), DEFAULT.without("compiled,threads"))
        )
        for other, (a, b) in itertools.product(others, enumerate(plain)):
            wanted, actual = (np.where(np.isnan(v), np.array(np.nan, v.dtype), v) for v in (b, other[a]))
            assert same_bits(wanted, actual), text


@pytest.mark.parametrize("name", HALVES)
def test_what_goes_by_order_comes_before_rounding(name: str, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that rounding makes zero, subnormal, equal to one another or infinite; no result of a sum is rounded apart
    from what becomes of it, and a choice by a test keeps the bits of NaN."""
    tune(half_many=16, fuse_many=16)
    dtype, rng = ELEMENT_TYPES[name].dtype, np.random.default_rng(5)
    x, y, z = rng.integers(0, 1 << 16, (3, 40, 60), np.uint16).view(dtype)
    x[:30], y[:20] = rng.standard_normal((30, 60)).astype(dtype), rng.standard_normal((20, 60)).astype(dtype)
    z[:10] = x[:10]
    roundings: list[None] = []
    rounded = half.rounded
    monkeypatch.setattr(half, "rounded", lambda *of: roundings.append(None) or rounded(*of))
    t, c = f"tensor<40x60x{name}>", f"stablehlo.constant dense<0.0> : tensor<40x60x{name}>"
    product = f"%p = stablehlo.multiply %x, %y : {t}"
    for count, lines in (
        (0, [f"%c = {c}", f"%r = stablehlo.maximum %p, %c : {t}"]),
        (0, [f"%q = stablehlo.add %x, %y : {t}", f"%r = stablehlo.minimum %p, %q : {t}"]),
        (0, [f"%q = stablehlo.add %x, %z : {t}", f"%r = stablehlo.clamp %y, %p, %q : {t}"]),
        (
            1,
            [
                f"%q = stablehlo.add %x, %y : {t}",
                f"%m = stablehlo.maximum %p, %q : {t}",
                f"%r = stablehlo.subtract %m, %z : {t}",
            ],
        ),
        (1, [f"%f = stablehlo.floor %p : {t}", f"%r = stablehlo.maximum %f, %x : {t}"]),
        (
            0,
            [
                f"%b = stablehlo.compare LT, %x, %z : ({t}, {t}) -> tensor<40x60xi1>",
                f"%r = stablehlo.select %b, %p, %y : tensor<40x60xi1>, {t}",
            ],
        ),
    ):
        body = "\n".join([product, *lines, f"return %r : {t}"])
        program = interp.load(f"func.func @main(%x: {t}, %y: {t}, %z: {t}) -> {t} {{\n{body}\n}}").program
        (wanted,) = machine.run(planner.plan(program, speed=NONE), [x, y, z])
        roundings.clear()
        without = tuned(DEFAULT.without("compiled,threads"))
        (actual,) = machine.run(planner.plan(program, speed=without), [x, y, z])
        assert same_bits(wanted, actual), body
        assert len(roundings) <= count, body


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("share", [0.01, 0.6])
def test_zeros_of_both_signs_among_many_numbers(name: str, share: float) -> None:
    rng, dtype = np.random.default_rng(3), ELEMENT_TYPES[name].dtype
    x, y = rng.standard_normal((2, 500)).astype(dtype)
    for v in (x, y):
        places = rng.random(500) < share
        v[places] = rng.choice([0.0, -0.0], 500)[places]
    x[:2] = y[:2] = np.nan, np.inf
    for op, choose in (("maximum", max), ("minimum", min)):
        for a, b in ((x, y), (x, np.array(0.0, dtype)), (np.array(-0.0, dtype), y), (x.reshape(5, 100), y[:100])):
            a, b = np.broadcast_arrays(a, b) if a.ndim > 1 else (a, b)
            result = run(op, a, b, result=tensor(name, *np.broadcast_shapes(a.shape, b.shape)))
            for u, v, r in zip(*(c.ravel().tolist() for c in np.broadcast_arrays(a, b, result)), strict=True):
                key = choose((u, math.copysign(1, u)), (v, math.copysign(1, v)))
                assert math.isnan(r) if math.isnan(u) or math.isnan(v) else (r, math.copysign(1, r)) == key


def test_one_op_on_many_is_a_group() -> None:
    text = """func.func @main(%x: tensor<{0}>) -> tensor<{0}> {{
      %0 = stablehlo.{1} : tensor<{0}>
      return %0 : tensor<{0}>
    }}"""
    for shape, op, labels in (
        ("400x500xf16", "add %x, %x", ["table"]),  # it depends on 16 bits
        ("400x500xbf16", "add %x, %x", ["blocks"]),
        ("400x500xbf16", "maximum %x, %x", ["blocks"]),
        ("20x10xf16", "add %x, %x", []),
        ("20x10xbf16", "add %x, %x", []),
        ("400x500xf16", "exponential %x", []),
    ):
        plan = planner.plan(interp.load(text.format(shape, op)).program)
        assert [chosen.label for chosen in plan.chosen] == labels, (shape, op)
