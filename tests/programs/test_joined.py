"""Groups that have code of their own, one loop for all ops, give the bits of op by op, and of the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.native import code
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune, tuned
from .compiled_groups import bits, compile_all_groups, function, numbers_of

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")

#: Two and one operands of floats.
_PAIRS = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]
_SINGLE = ["negate", "abs", "sqrt", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[str]:
    """The texts of the loops that ran."""
    compile_all_groups(monkeypatch, tune)
    tune(joined_worth=0, joined_columns=1)
    texts: list[str] = []
    real = code.compiled

    def told(text: str, operands: int) -> Callable[..., int]:
        texts.append(text)
        return real(text, operands)

    monkeypatch.setattr(code, "compiled", told)
    return texts


def _check(text: str, *arrays: np.ndarray, is_exact: bool = False) -> None:
    """Joined and op by op, where of two NaN either will do; or joined and by the machine, all bits."""
    program = interp.load(text).program
    joined = tuned(Speed())
    alone = dataclasses.replace(joined, tuning=dataclasses.replace(joined.tuning, joined_worth=1 << 62))

    def ran(speed: Speed) -> Sequence[np.ndarray]:
        return machine.run(planner.plan(program, speed=speed), list(arrays))

    found, wanted, by_machine = ran(joined), ran(tuned(NONE)), ran(alone)
    for a, b, c in zip(found, wanted, by_machine, strict=True):
        assert (a.dtype, a.shape, bits(a)) == (b.dtype, b.shape, bits(b)), text
        assert not is_exact or a.tobytes() == c.tobytes(), text


def _after(first: str, t: str, size: int, line: str) -> str:
    """An op on x and on what another one makes of y."""
    v = f"tensor<{size}x{t}>"
    return function(f"%x: {v}, %y: {v}", v, f"%n = stablehlo.{first} : {v}\n%r = stablehlo.{line} : {v}", "%r")


@pytest.mark.parametrize("t", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    "line", [*(f"{op} %x, %n" for op in _PAIRS), *(f"{op} %n" for op in _SINGLE), "clamp %n, %x, %x"]
)
def test_ops_on_numbers_of_all_kinds(made: list[str], line: str, t: str) -> None:
    numbers = numbers_of(ELEMENT_TYPES[t].dtype)
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(numbers, numbers))
    _check(_after("negate %y" if "%x" in line else "add %y, %x", t, x.size, line), x, y)
    assert made


@pytest.mark.parametrize("t", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_comparisons(made: list[str], t: str, direction: str) -> None:
    numbers = numbers_of(ELEMENT_TYPES[t].dtype)[::3]
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(numbers, numbers))
    v, m = f"tensor<{x.size}x{t}>", f"tensor<{x.size}xi1>"
    body = (
        f"%p = stablehlo.compare {direction}, %x, %y : ({v}, {v}) -> {m}\n%q = stablehlo.not %p : {m}\n"
        f"%r = stablehlo.select %q, %x, %y : {m}, {v}\n%s = stablehlo.negate %r : {v}"
    )
    _check(function(f"%x: {v}, %y: {v}", f"{m}, {v}", body, "%p, %s"), x, y)
    assert made


@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
def test_nan_that_signals(made: list[str], source: str) -> None:
    """Conversions keep what the machine keeps of them, after ops that hand them on and after such as do not."""
    dtype = ELEMENT_TYPES[source].dtype
    codes = np.arange(1 << 16, dtype=np.uint32) << (16 if source == "f32" else 0) | (source == "f32")
    x = codes.astype(f"u{dtype.itemsize}").view(dtype)
    v, m = f"tensor<{x.size}x{source}>", f"tensor<{x.size}xi1>"
    lines, names, results = [f"%x = stablehlo.select %p, %y, %z : {m}, {v}"], [], []
    lines += [f"%n = stablehlo.negate %x : {v}", f"%a = stablehlo.add %x, %x : {v}"]
    for t in ("f16", "bf16", "f32"):
        if t != source:
            w = f"tensor<{x.size}x{t}>"
            lines += [f"%{k}{t} = stablehlo.convert %{k} : ({v}) -> {w}" for k in "xna"]
            lines += [f"%m{t} = stablehlo.maximum %n{t}, %a{t} : {w}"]
            names, results = [*names, *(f"%{k}{t}" for k in "xnam")], [*results, *[w] * 4]
    text = function(f"%p: {m}, %y: {v}, %z: {v}", ", ".join(results), "\n".join(lines), ", ".join(names))
    _check(text, np.arange(x.size) % 3 > 0, x, x[::-1].copy(), is_exact=True)
    assert made


@pytest.mark.parametrize("t", ["f8E4M3FN", "f8E5M2FNUZ", "f8E3M4"])
def test_rounding_to_minifloats(made: list[str], t: str) -> None:
    x = (np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8001).view(np.float32)
    v, w = f"tensor<{x.size}xf32>", f"tensor<{x.size}x{t}>"
    body = f"%s = stablehlo.add %x, %x : {v}\n%r = stablehlo.convert %s : ({v}) -> {w}"
    _check(function(f"%x: {v}", w, body, "%r"), x)
    assert made


@pytest.mark.parametrize("t", ["i32", "ui32"])
@pytest.mark.parametrize(
    "op",
    ["add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor",
     "shift_left", "shift_right_logical", "shift_right_arithmetic"],
)  # fmt: skip
def test_whole_numbers(made: list[str], op: str, t: str) -> None:
    few = np.array([0, 1, 2, 7, 31, 32, 33, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1], np.uint32)
    x, y = (np.ascontiguousarray(a.reshape(-1)).view(ELEMENT_TYPES[t].dtype) for a in np.meshgrid(few, few))
    _check(_after("xor %y, %x", t, x.size, f"{op} %x, %n"), x, y)
    _check(_after("or %y, %y", t, x.size, f"{op} %x, %n"), x, y)
    assert made


@pytest.mark.parametrize("t", ["i32", "ui32"])
@pytest.mark.parametrize(
    "line", ["count_leading_zeros %n", "popcnt %n", *(f"{op} %n, %d" for op in ("divide", "remainder"))]
)
def test_counts_and_divisions_by_a_constant(made: list[str], line: str, t: str) -> None:
    few = np.arange(-70, 70, dtype=np.int32)
    x = np.concatenate([few, few + np.int32(2**31 - 70), few * np.int32(30_000_001)]).view(ELEMENT_TYPES[t].dtype)
    v = f"tensor<{x.size}x{t}>"
    lines = f"%d = stablehlo.constant dense<49> : {v}\n%n = stablehlo.xor %x, %d : {v}\n%r = stablehlo.{line} : {v}"
    _check(function(f"%x: {v}", v, lines, "%r"), x)
    assert made


def test_conversions_of_whole_numbers(made: list[str]) -> None:
    large = np.array([2**31, -(2**31), 2**32, 1e9, -1e9], np.float32)
    x = np.tile(np.concatenate([numbers_of(large.dtype), large]), 5)
    v = f"tensor<{x.size}xf32>"
    lines, names, results = [f"%x2 = stablehlo.add %x, %x : {v}"], [], []
    for t in ("i32", "ui32", "i8", "ui8"):
        w = f"tensor<{x.size}x{t}>"
        lines += [f"%i{t} = stablehlo.convert %x2 : ({v}) -> {w}", f"%b{t} = stablehlo.convert %i{t} : ({w}) -> {v}"]
        names, results = [*names, f"%i{t}", f"%b{t}"], [*results, w, v]
    _check(function(f"%x: {v}", ", ".join(results), "\n".join(lines), ", ".join(names)), x)
    assert made


@pytest.mark.parametrize("size", [1, 15, 16, 17, 100, 1000])
def test_functions_between_loops(made: list[str], size: int) -> None:
    """What is needed before and after a function; of NaN a block is left to numpy."""
    x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
    x[1, size // 2] = np.nan
    v = f"tensor<3x{size}xf32>"
    body = f"""%a = stablehlo.multiply %x, %x : {v}
    %b = stablehlo.tanh %x : {v}
    %c = stablehlo.exponential %a : {v}
    %d = stablehlo.add %b, %c : {v}
    %e = stablehlo.log %d : {v}
    %f = stablehlo.multiply %e, %a : {v}
    %g = stablehlo.multiply %f, %b : {v}"""
    _check(function(f"%x: {v}", f"{v}, {v}, {v}", body, "%g, %c, %f"), x)
    assert made


@pytest.mark.parametrize("shape", [(1, 1), (5, 1), (7, 33), (40, 16), (3, 200)])
def test_operands_that_are_repeated(made: list[str], shape: tuple[int, int]) -> None:
    """Along rows, along columns, and single numbers, of all widths of elements."""
    rng, (rows, columns) = np.random.default_rng(4), shape
    x = rng.standard_normal(shape).astype(np.float32)
    row, column = rng.standard_normal(columns).astype(np.float16), rng.standard_normal(rows).astype(np.float16)
    single = np.array(rng.integers(0, 2, rows), bool)
    v, h, m = (f"tensor<{rows}x{columns}x{t}>" for t in ("f32", "f16", "i1"))
    body = f"""%a = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<{columns}xf16>) -> {h}
    %b = stablehlo.broadcast_in_dim %column, dims = [0] : (tensor<{rows}xf16>) -> {h}
    %p = stablehlo.broadcast_in_dim %single, dims = [0] : (tensor<{rows}xi1>) -> {m}
    %c = stablehlo.add %a, %b : {h}
    %d = stablehlo.convert %c : ({h}) -> {v}
    %e = stablehlo.multiply %d, %x : {v}
    %f = stablehlo.select %p, %e, %x : {m}, {v}"""
    arguments = f"%x: {v}, %row: tensor<{columns}xf16>, %column: tensor<{rows}xf16>, %single: tensor<{rows}xi1>"
    _check(function(arguments, f"{v}, {m}", body, "%f, %p"), x, row, column, single)
    assert made


def test_code_is_made_once_it_is_worth_it(made: list[str], tune: Tune) -> None:
    tune(joined_worth=10_000)
    x, v = np.ones(1000, np.float32), "tensor<1000xf32>"
    text = function(f"%x: {v}", v, f"%a = stablehlo.add %x, %x : {v}\n%b = stablehlo.multiply %a, %x : {v}", "%b")
    plan = planner.plan(interp.load(text).program, speed=tuned(Speed()))
    for turns in range(6):
        assert len(made) == (turns * 4 * x.size > 10_000)  # it loads, adds, multiplies and stores
        machine.run(plan, [x])
