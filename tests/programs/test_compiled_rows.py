"""Compiled groups over rows and columns: operands that rows share, reductions, and operands that lie the other way."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.amortised import Latest
from minihlo.ops.engine.fast import opcodes, run
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from ..conftest import Tune, tuned
from .compiled_groups import MINIFLOATS, bits, check, compile_all_groups, function

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[run.Program]:
    return compile_all_groups(monkeypatch, tune)


@pytest.mark.parametrize("t", MINIFLOATS, ids=lambda t: t.name)
def test_rows_that_share_numbers(ran: list[object], t: ElementType) -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(0, 1 << t.bits, (37, 70), np.uint8).view(t.dtype)
    row, column = rng.standard_normal((37, 1), np.float32), rng.standard_normal(70, np.float32)
    column[::9], row[::5] = np.nan, np.inf
    c, v = f"tensor<37x70x{t}>", "tensor<37x70xf32>"
    body = f"""
      %w = stablehlo.convert %x : ({c}) -> {v}
      %a = stablehlo.broadcast_in_dim %row, dims = [0, 1] : (tensor<37x1xf32>) -> {v}
      %b = stablehlo.broadcast_in_dim %column, dims = [1] : (tensor<70xf32>) -> {v}
      %m = stablehlo.multiply %w, %a : {v}
      %s = stablehlo.add %m, %b : {v}
      %r = stablehlo.convert %s : ({v}) -> {c}"""
    check(function(f"%x: {c}, %row: tensor<37x1xf32>, %column: tensor<70xf32>", f"{c}", body, "%r"), x, row, column)
    assert ran


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("shape", [(1, 900), (9, 100), (33, 7), (17, 24), (2, 3, 40)])
@pytest.mark.parametrize("has_nan", [False, True])
def test_reductions(ran: list[object], op: str, shape: tuple[int, ...], has_nan: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, *shape), np.float32)
    x.reshape(-1)[rng.integers(0, x.size, 20)] = -0.0
    if has_nan:
        x.reshape(-1)[rng.integers(0, x.size, 3)] = np.nan
    v, kept = (f"tensor<{'x'.join(map(str, s))}{'x' if s else ''}f32>" for s in (shape, shape[:-1]))
    body = f"""
      %p = stablehlo.multiply %x, %y : {v}
      %e = stablehlo.exponential %p : {v}
      %r = stablehlo.reduce(%e init: %s) applies stablehlo.{op} across dimensions = [{len(shape) - 1}]
        : ({v}, tensor<f32>) -> {kept}"""
    text = function(f"%x: {v}, %y: {v}, %s: tensor<f32>", kept, body, "%r")
    for exponential in (text, text.replace("exponential", "negate")):
        check(exponential, x, y, np.float32(0.25))
    assert ran


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize(
    ("shape", "dimensions"), [((900, 3), [0]), ((9, 100), [0]), ((4, 33, 7), [1]), ((3, 4, 16, 70), [1, 2])]
)
@pytest.mark.parametrize("has_nan", [False, True])
def test_reductions_of_columns(
    ran: list[run.Program], op: str, shape: tuple[int, ...], dimensions: list[int], has_nan: bool
) -> None:
    """Those of several parts too, each with totals of its own; an operand is the same in all rows."""
    rng = np.random.default_rng(3)
    x, row = rng.standard_normal(shape, np.float32), rng.standard_normal(shape[-1], np.float32)
    x.reshape(-1)[rng.integers(0, x.size, 20)] = -0.0
    if has_nan:
        x.reshape(-1)[rng.integers(0, x.size, 3)] = np.nan
    left = tuple(n for d, n in enumerate(shape) if d not in dimensions)
    v, kept = (f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, left))
    w = f"tensor<{shape[-1]}xf32>"
    body = f"""
      %y = stablehlo.broadcast_in_dim %w, dims = [{len(shape) - 1}] : ({w}) -> {v}
      %p = stablehlo.multiply %x, %y : {v}
      %e = stablehlo.exponential %p : {v}
      %r = stablehlo.reduce(%e init: %s) applies stablehlo.{op} across dimensions = {dimensions}
        : ({v}, tensor<f32>) -> {kept}"""
    text = function(f"%x: {v}, %w: {w}, %s: tensor<f32>", kept, body, "%r")
    for exponential in (text, text.replace("exponential", "negate")):
        check(exponential, x, row, np.float32(0.25))
    assert {opcodes.FOLD_ADD, opcodes.FOLD_MAXIMUM, opcodes.FOLD_MINIMUM} & {int(n[0]) for p in ran for n in p.code}


@pytest.mark.parametrize("t", [t for t in MINIFLOATS if t.format.has_zero], ids=lambda t: t.name)
def test_softmax(ran: list[run.Program], t: ElementType) -> None:
    x = np.random.default_rng(6).integers(0, 1 << t.bits, (19, 50), np.uint8).view(t.dtype)
    c, v, row = f"tensor<19x50x{t}>", "tensor<19x50xf32>", "tensor<19xf32>"
    body = f"""
      %init = stablehlo.constant dense<-1.0> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %w = stablehlo.convert %x : ({c}) -> {v}
      %m = stablehlo.reduce(%w init: %init) applies stablehlo.maximum across dimensions = [1]
        : ({v}, tensor<f32>) -> {row}
      %b = stablehlo.broadcast_in_dim %m, dims = [0] : ({row}) -> {v}
      %d = stablehlo.subtract %w, %b : {v}
      %e = stablehlo.exponential %d : {v}
      %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1]
        : ({v}, tensor<f32>) -> {row}
      %a = stablehlo.broadcast_in_dim %s, dims = [0] : ({row}) -> {v}
      %q = stablehlo.divide %e, %a : {v}
      %r = stablehlo.convert %q : ({v}) -> {c}"""
    check(function(f"%x: {c}", f"{c}, {row}", body, "%r, %s"), x)
    assert opcodes.PAIR_F32 in {int(line[0]) for made in ran for line in made.code}


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("by_column", [False, True])
def test_codes_that_are_repeated_are_looked_up_by_lines(by_column: bool, dtype: type) -> None:
    """As where the bits of bytes are taken apart: a byte for each row, and a mask for each column."""
    rng = np.random.default_rng(8)
    codes = np.broadcast_to(rng.integers(0, 256, (300, 1)).astype(np.uint8), (300, 8))
    codes.flags.writeable = False
    tables = rng.integers(0, 256, (8 if by_column else 300, 256)).astype(dtype)
    made, out = compiled.kernels(codes.size), np.zeros(codes.shape, dtype)
    assert made is not None
    made.look_up_lines(codes, tables, by_column, out)
    lines = np.arange(8) if by_column else np.arange(300)[:, None]
    assert out.tolist() == tables[lines, codes].tolist()


def test_columns_are_looked_up_once_the_other_operands_stay_the_same(
    ran: list[object], monkeypatch: pytest.MonkeyPatch, tune: Tune
) -> None:
    tune(columns_pay=0)
    tune(rows_pay=99)
    full, wide, small = "tensor<300x7xf8E5M2>", "tensor<300x7xf32>", "tensor<7xf32>"
    body = f"""
    %w = stablehlo.convert %x : ({full}) -> {wide}
    %ss = stablehlo.broadcast_in_dim %s, dims = [1] : ({small}) -> {wide}
    %bb = stablehlo.broadcast_in_dim %b, dims = [1] : ({small}) -> {wide}
    %m = stablehlo.multiply %w, %ss : {wide}
    %a = stablehlo.add %m, %bb : {wide}
    %r = stablehlo.convert %a : ({wide}) -> {full}"""
    text = function(f"%x: {full}, %s: {small}, %b: {small}", full, body, "%r")
    rng = np.random.default_rng(8)
    x = rng.integers(0, 256, (300, 7), np.uint8).view(ELEMENT_TYPES["f8E5M2"].dtype)
    operands = [rng.standard_normal(7).astype(np.float32) for _ in range(4)]
    program = interp.load(text).program
    plain, quick = (planner.plan(program, speed=tuned(s)) for s in (NONE, Speed()))
    made: list[int] = []
    real = Latest.at
    monkeypatch.setattr(Latest, "at", lambda *rest: made.append(1) or real(*rest))
    for pair, is_by_columns in ((0, False), (0, True), (2, False), (0, False), (0, True)):
        arrays = [x, *operands[pair : pair + 2]]
        made.clear()
        ran.clear()
        assert bits(machine.run(quick, arrays)[0]) == bits(machine.run(plain, arrays)[0])
        assert (bool(made), not ran) == (is_by_columns, is_by_columns)


@pytest.mark.parametrize("dimensions", [[0], [1], [0, 1]])
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_operands_that_lie_the_other_way_round(ran: list[run.Program], op: str, dimensions: list[int]) -> None:
    """A transposed operand, part of another array, beside a row, a column and one that lies straight."""
    rng = np.random.default_rng(12)
    x, y = rng.standard_normal((31, 19), np.float32), rng.standard_normal((19, 31), np.float32)
    row, column = rng.standard_normal((1, 31), np.float32), rng.standard_normal((19, 1), np.float32)
    v, kept = "tensor<19x31xf32>", "".join(f"{n}x" for d, n in enumerate((19, 31)) if d not in dimensions)
    body = f"""
      %t = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<31x19xf32>) -> {v}
      %a = stablehlo.broadcast_in_dim %row, dims = [0, 1] : (tensor<1x31xf32>) -> {v}
      %b = stablehlo.broadcast_in_dim %column, dims = [0, 1] : (tensor<19x1xf32>) -> {v}
      %m = stablehlo.multiply %t, %a : {v}
      %n = stablehlo.subtract %m, %b : {v}
      %p = stablehlo.multiply %n, %y : {v}
      %q = stablehlo.reduce(%p init: %s) applies stablehlo.{op} across dimensions = {dimensions}
        : ({v}, tensor<f32>) -> tensor<{kept}f32>
      %r = stablehlo.divide %n, %y : {v}"""
    arguments = f"%x: tensor<31x19xf32>, %y: {v}, %row: tensor<1x31xf32>, %column: tensor<19x1xf32>, %s: tensor<f32>"
    text = function(arguments, f"{v}, tensor<{kept}f32>", body, "%r, %q")
    check(text, x, y, row, column, np.array(0.5, np.float32))
    assert len(ran) > (dimensions != [0, 1])


def test_single_numbers_that_are_scalars_of_numpy(ran: list[run.Program]) -> None:
    """What a reduction of all elements gives can be no array, which compiled code must not take for one."""
    x = np.random.default_rng(4).standard_normal((40, 50), np.float32)
    v, s = "tensor<40x50xf32>", "tensor<f32>"
    body = f"""
      %zero = stablehlo.constant dense<0.0> : {s}
      %m = stablehlo.reduce(%x init: %zero) applies stablehlo.maximum across dimensions = [0, 1] : ({v}, {s}) -> {s}
      %d = stablehlo.divide %m, %m : {s}
      %b = stablehlo.broadcast_in_dim %d, dims = [] : ({s}) -> {v}
      %p = stablehlo.multiply %x, %b : {v}
      %r = stablehlo.add %p, %b : {v}"""
    check(function(f"%x: {v}", v, body, "%r"), x)
    assert ran


def test_memory_of_registers(ran: list[object], tune: Tune) -> None:
    """Registers are kept from call to call, by each thread its own, and grow with programs that need more."""
    tune(fast_elements=2048)
    threads = ThreadPoolExecutor(4)
    plans = []
    for count in (3, 40, 7):
        lines = "".join(f"%a{i} = stablehlo.add %x, %c{i} : tensor<2x700xf32>\n" for i in range(count))
        sums = "".join(f"%s{i} = stablehlo.multiply %s{i - 1}, %a{i} : tensor<2x700xf32>\n" for i in range(1, count))
        constants = "".join(f"%c{i} = stablehlo.constant dense<{i}.5> : tensor<2x700xf32>\n" for i in range(count))
        body = f"{constants}{lines}%s0 = stablehlo.negate %a0 : tensor<2x700xf32>\n{sums}"
        text = function("%x: tensor<2x700xf32>", "tensor<2x700xf32>", body, f"%s{count - 1}")
        plans.append(planner.plan(interp.load(text).program, speed=tuned(Speed(threads=1))))
    x = np.random.default_rng(6).standard_normal((2, 700), np.float32)
    wanted = []
    for count in (3, 40, 7):
        total = -(x + np.float32(0.5))
        with np.errstate(over="ignore"):
            for i in range(1, count):
                total = total * (x + np.float32(i + 0.5))
        wanted.append(total.tobytes())

    def each(_: int) -> list[bytes]:
        return [machine.run(plan, [x])[0].tobytes() for plan in plans]

    for found in threads.map(each, range(40)):
        assert found == wanted
    assert ran
    each(0)
    tracemalloc.start()
    try:
        each(0)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 6 * x.nbytes  # three results as bytes, one as an array; 40 registers would be 40 times as much
