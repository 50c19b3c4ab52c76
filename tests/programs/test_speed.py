"""Every optimization gives the bits that the plain way gives."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops import cast
from minihlo.ops import op as registry
from minihlo.ops.engine.amortised import Amortised
from minihlo.ops.engine.speed import NAMES, NONE, Speed
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, type_of_dtype

from ..conftest import Tune, tuned
from ..thinned import TYPICAL, thinned
from . import fusible_programs, loop_programs

ALONE = {name: Speed().without(",".join(n for n in NAMES if n != name)) for name in NAMES}
SETTINGS = {"all": Speed(), **ALONE}
POLICIES = (
    Policy(),
    Policy(rounding="toward_zero", overflow="saturate"),
    Policy(arithmetic="upcast"),
    Policy(rounding="stochastic"),
)


@pytest.fixture
def eager(tune: Tune) -> None:
    """Tables at the first element, blocks of four; rows and reductions are fused or compiled, however few there are."""
    tune(group_call_cost=1 << 20)
    tune(block=4)
    tune(rows_pay=0)
    tune(fold_columns=3, fold_part=1)
    tune(fuse_many=0)
    tune(compiled_from=1)
    tune(compiled_worth=0)
    tune(lookup_few=0)


def bits(x: np.ndarray) -> bytes:
    """Which of two NaN numpy hands on goes by where in a vector register they come to stand: all are one here."""
    element = type_of_dtype(x.dtype)
    if element.is_float and element.bits >= 16:
        x = np.where(np.isnan(x), np.array(np.nan).astype(x.dtype), x)
    return x.tobytes()


def ways(program: interp.LoadedProgram) -> set[str]:
    """The executors by which groups of a program run, with those that they fall back on."""
    return {decision.executor for chosen in program.plan().chosen for decision in chosen.decision.chain()}


def results(program: Any, arrays: list[np.ndarray], speed: Speed, policy: Policy) -> list[tuple[Any, ...]]:
    plan = planner.plan(program.program, policy=policy, speed=tuned(speed))
    # A second run finds tables that the first has made.
    first, second = (machine.run(plan, arrays) for _ in range(2))
    reported = [[(r.dtype, r.shape, bits(r)) for r in run] for run in (first, second)]
    assert reported[0] == reported[1]
    return reported[0]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", thinned(range(60), lambda seed: seed < 24))
def test_fusible_programs_give_the_same_bits_in_every_setting(seed: int) -> None:
    text, arrays = fusible_programs.program(seed)
    program, policy = interp.load(text), POLICIES[seed % len(POLICIES)]
    wanted = results(program, arrays, NONE, policy)
    for name, speed in SETTINGS.items():
        assert results(program, arrays, speed, policy) == wanted, (name, text)


@pytest.mark.parametrize("seed", thinned(range(60), lambda seed: seed < 30))
def test_loops_give_the_same_bits_in_every_setting(seed: int) -> None:
    text, arrays = loop_programs.program(seed)
    program, policy = interp.load(text), POLICIES[seed % len(POLICIES)]
    before = [a.tobytes() for a in arrays]
    wanted = results(program, arrays, NONE, policy)
    for name, speed in SETTINGS.items():
        assert results(program, arrays, speed, policy) == wanted, (name, text)
    assert [a.tobytes() for a in arrays] == before


@pytest.mark.usefixtures("eager")
def test_fusible_programs_are_fused() -> None:
    labels = set()
    for seed in range(40):
        labels |= ways(interp.load(fusible_programs.program(seed)[0]))
    assert {"table", "blocks", "fold"} <= labels


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("op", "wide", "t"),
    thinned(
        [
            *(("maximum", "f32", t.name) for t in ELEMENT_TYPES.values() if t.is_minifloat),
            *((op, "bf16", t) for op in ("maximum", "minimum") for t in ("f8E5M2", "f8E4M3FNUZ")),
        ],
        lambda op, wide, t: t in TYPICAL if wide == "f32" else (op == "maximum") == (t == "f8E5M2"),
    ),
)
def test_softmax_goes_by_ranks(wide: str, op: str, t: str) -> None:
    text = f"""
    func.func @main(%x: tensor<9x40x{t}>) -> (tensor<9x40x{t}>, tensor<9x{wide}>) {{
      %init = stablehlo.constant dense<-2.0> : tensor<{wide}>
      %w = stablehlo.convert %x : (tensor<9x40x{t}>) -> tensor<9x40x{wide}>
      %n = stablehlo.negate %w : tensor<9x40x{wide}>
      %m = stablehlo.reduce(%n init: %init) applies stablehlo.{op} across dimensions = [1]
        : (tensor<9x40x{wide}>, tensor<{wide}>) -> tensor<9x{wide}>
      %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<9x{wide}>) -> tensor<9x40x{wide}>
      %d = stablehlo.subtract %n, %b : tensor<9x40x{wide}>
      %e = stablehlo.exponential %d : tensor<9x40x{wide}>
      %r = stablehlo.convert %e : (tensor<9x40x{wide}>) -> tensor<9x40x{t}>
      return %r, %m : tensor<9x40x{t}>, tensor<9x{wide}>
    }}"""
    program, element = interp.load(text), ELEMENT_TYPES[t]
    assert "ranks" in ways(program)
    codes = np.random.default_rng(7).integers(0, 1 << element.bits, (9, 40), np.uint8)
    codes[:4] &= 0x3F  # rows of numbers, or of one NaN at most
    x = [codes.view(element.dtype)]
    assert results(program, x, Speed(), Policy()) == results(program, x, NONE, Policy())


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("op", ["maximum", "minimum"])
@pytest.mark.parametrize(("narrow", "wide"), [("f8E3M4", "f64"), ("f8E5M2", "f64"), ("i8", "ui64"), ("i8", "i64")])
def test_extremes_of_numbers_of_64_bits(narrow: str, wide: str, op: str) -> None:
    """NaN win over every number, and whole numbers are below 2**64 or of either sign."""
    text = f"""
    func.func @main(%x: tensor<40x256x{narrow}>) -> tensor<256x{wide}> {{
      %init = stablehlo.constant dense<{1.0 if wide == "f64" else 1}> : tensor<{wide}>
      %w = stablehlo.convert %x : (tensor<40x256x{narrow}>) -> tensor<40x256x{wide}>
      %m = stablehlo.reduce(%w init: %init) applies stablehlo.{op} across dimensions = [0]
        : (tensor<40x256x{wide}>, tensor<{wide}>) -> tensor<256x{wide}>
      return %m : tensor<256x{wide}>
    }}"""
    program = interp.load(text)
    assert "ranks" in ways(program)
    codes = np.random.default_rng(7).integers(0, 256, (40, 256), np.uint8)
    codes[:, 128:] &= 0x3F  # numbers alone, of one sign
    (actual,) = program(codes.view(ELEMENT_TYPES[narrow].dtype))
    numbers = codes.view(ELEMENT_TYPES[narrow].dtype).astype(ELEMENT_TYPES[wide].dtype)
    wanted = (np.max if op == "maximum" else np.min)(numbers, axis=0, initial=1)
    np.testing.assert_array_equal(actual, wanted)


#: Seeds of programs that take some hundred times as long as others.
_LONG = (2, 5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("index", thinned(range(40), lambda seed: seed < 17 and seed not in _LONG))
def test_programs_of_all_ops_give_the_same_bits_in_every_setting(index: int) -> None:
    program = fusible_programs.tool("builder").random_program(11, index)
    loaded, policy = interp.load(program.module(everything=index % 2 == 0).named()), POLICIES[index % len(POLICIES)]
    arrays = list(program.arrays)
    wanted = results(loaded, arrays, NONE, policy)
    for name, speed in SETTINGS.items():
        assert results(loaded, arrays, speed, policy) == wanted, name


# -- what groups are made of -------------------------------------------------------------------------------------------


def chain(shape: tuple[int, ...], t: str, *ops: str) -> str:
    dims = f"tensor<{''.join(f'{n}x' for n in shape)}{t}>"
    lines = [
        f"%{i + 1} = stablehlo.{op} %{i}{', %0' if op in ('add', 'multiply') else ''} : {dims}"
        for i, op in enumerate(ops)
    ]
    return f"func.func @main(%0: {dims}) -> {dims} {{ {' '.join(lines)} return %{len(ops)} : {dims} }}"


def test_a_chain_on_one_minifloat_is_one_table_that_equal_groups_share() -> None:
    text = chain((300,), "f8E4M3FNUZ", "exponential", "multiply", "tanh", "add")
    plans = [interp.load(t).plan() for t in (text, text, text.replace("tanh", "sqrt"))]
    tables = [[k.__closure__ for n, k in p.entry.__globals__.items() if n.startswith("k")] for p in plans]
    assert [len(t) for t in tables] == [1, 1, 1]
    actual = [next(c.cell_contents for c in t[0] if isinstance(c.cell_contents, Amortised)) for t in tables]
    assert actual[0] is actual[1] is not actual[2]


def test_tables_are_bounded_and_made_anew(tune: Tune) -> None:
    tune(most_bytes=600)
    x = np.arange(256, dtype=np.uint8).view(interp.cast([0], "f8E5M2").dtype)
    programs = [interp.load(chain((256,), "f8E5M2", *ops)) for ops in itertools.permutations(("tanh", "sqrt", "log"))]
    wanted = [machine.run(planner.plan(p.program, speed=NONE), [x])[0].tobytes() for p in programs]
    for _ in range(3):
        assert [p(x)[0].tobytes() for p in programs] == wanted


@pytest.mark.parametrize("t", ["f32", "f8E5M2"])
def test_a_failure_in_a_group_is_reported_at_its_op(t: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: np.ndarray) -> np.ndarray:
        raise registry.OpError("out of order")

    broken = dataclasses.replace(registry.ops()["stablehlo.tanh"], bind=lambda _: fail)
    monkeypatch.setitem(registry._OPS, "stablehlo.tanh", broken)
    text = chain((1 << 16,), t, "negate", "tanh", "floor").replace(" %2 =", "\n%2 =").replace("%3 =", "\n%3 =")
    program = interp.load(text, without="compiled")
    assert ways(program) & {"blocks", "table"}
    with pytest.raises(interp.ExecutionError, match=r"^<string>:2:6: stablehlo.tanh: out of order$"):
        program(np.zeros(1 << 16, ELEMENT_TYPES[t].dtype))


def test_what_nothing_needs_is_not_computed() -> None:
    text = chain((3,), "f32", "tanh").replace("return %1", "return %0")
    plan = interp.load(text).plan()
    assert not any("k0" in source.text for source in plan.sources.values())


def test_names_of_means() -> None:
    assert Speed().without("tables, threads") == Speed(tables=False, threads=1)
    with pytest.raises(ValueError, match=r"expected an optimization \(tables, blocks"):
        Speed().without("fast")


# -- loops -------------------------------------------------------------------------------------------------------------


def test_a_loop_on_integers_calls_no_kernel() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %c = stablehlo.constant dense<70000> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %go = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %y = stablehlo.multiply %i, %i : tensor<i32>
        stablehlo.return %y : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    program = interp.load(text)
    (source,) = [s.text for s in program.plan().sources.values() if s.label == "@main"]
    turn = source.partition("while True:")[2].partition("\n    return")[0]
    assert "v2 * v2" in turn or " * " in turn
    assert "(" + "k" not in turn.replace("(k0)", "")
    assert program(np.int32(3))[0] == 43046721


def test_an_array_that_a_loop_carries_is_written_in_place_and_its_first_value_stays() -> None:
    text = """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %seven = stablehlo.constant dense<7.0> : tensor<1xf32>
      %first = stablehlo.negate %x : tensor<4xf32>
      %r:2 = stablehlo.while(%i = %zero, %y = %first) : tensor<i32>, tensor<4xf32>
      cond {
        %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %z = stablehlo.dynamic_update_slice %y, %seven, %i
          : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
      }
      return %first, %r#1 : tensor<4xf32>, tensor<4xf32>
    }"""
    x = np.ones(4, np.float32)
    for turns, wanted in ((0, [-1, -1, -1, -1]), (2, [7, 7, -1, -1]), (9, [7, 7, 7, 7])):
        first, last = interp.load(text)(x, np.int32(turns))
        assert (first.tolist(), last.tolist(), x.tolist()) == ([-1] * 4, wanted, [1] * 4)


def test_a_failure_in_a_loop_is_reported_at_its_op() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %c = stablehlo.constant dense<5> : tensor<i32>
        %go = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %y = stablehlo.add %i, %one : tensor<i32>
        check.expect_eq_const %y, dense<2> : tensor<i32>
        stablehlo.return %y : tensor<i32>
      }
      return %r : tensor<i32>
    }"""
    with pytest.raises(interp.CheckFailure, match=r"^<string>:10:9: check.expect_eq_const: "):
        interp.load(text)(np.int32(1))


def test_loops_within_loops_deeper_than_python_allows() -> None:
    body, result = "%y = stablehlo.add %x0, %one : tensor<i32>", "%y"
    for depth in range(24):
        body = f"""
          %r{depth}:2 = stablehlo.while(%i{depth} = %zero, %x{depth} = %x{depth + 1}) : tensor<i32>, tensor<i32>
          cond {{
            %go{depth} = stablehlo.compare LT, %i{depth}, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %go{depth} : tensor<i1>
          }} do {{
            %n{depth} = stablehlo.add %i{depth}, %one : tensor<i32>
            {body}
            stablehlo.return %n{depth}, {result} : tensor<i32>, tensor<i32>
          }}"""
        result = f"%r{depth}#1"
    text = f"""func.func @main(%x24: tensor<i32>) -> tensor<i32> {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      {body}
      return {result} : tensor<i32>
    }}"""
    assert interp.load(text)(np.int32(5))[0] == 6


def test_the_environment_turns_means_off(monkeypatch: pytest.MonkeyPatch) -> None:
    program = interp.load(chain((300,), "f8E5M2", "tanh", "sqrt")).program
    monkeypatch.setenv("MINIHLO_WITHOUT", "tables,blocks")
    plan = planner.plan(program)
    assert (plan.speed.tables, plan.speed.blocks, plan.speed.scalars) == (False, False, True)
    assert not plan.chosen
    monkeypatch.setenv("MINIHLO_WITHOUT", "tables,brakes")
    with pytest.raises(interp.InputError, match=r"^MINIHLO_WITHOUT: expected an optimization"):
        planner.plan(program)
    with pytest.raises(interp.InputError, match=r"^MINIHLO_WITHOUT: expected an optimization"):
        planner.speed_without("tables", "--without")


# -- casts by blocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pair", [("f32", "f8E4M3FN"), ("f64", "f8E5M2"), ("f8E3M4", "f64"), ("i32", "f6E2M3FN"), ("f8E4M3", "i4")]
)
def test_casts_by_blocks_are_the_whole_cast(pair: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    source, target = (ELEMENT_TYPES[name] for name in pair)
    x = np.random.default_rng(1).integers(-40, 40, (9, 6, 11)).astype(np.float32)
    x = cast.cast(x, ELEMENT_TYPES["f32"], source, Policy())
    for laid in (x, x.T, x[::2, :, ::-1], x[0, 0], x[:, :0]):
        wanted = cast.cast(laid, source, target, Policy())
        tune(block=5)
        actual = cast.cast(laid, source, target, Policy())
        monkeypatch.undo()
        assert (actual.dtype, actual.shape, actual.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


# -- results written over what nothing needs ---------------------------------------------------------------------------


def test_nothing_that_is_needed_is_written_over() -> None:
    # %s has the shape of a column wherever blocks are computed, %t is needed twice and %w is returned as well.
    wide, column = "tensor<600x300xf32>", "tensor<600xf32>"
    text = f"""
    func.func @main(%x: {wide}, %a: {column}, %b: {column}) -> ({wide}, {wide}) {{
      %aa = stablehlo.broadcast_in_dim %a, dims = [0] : ({column}) -> {wide}
      %bb = stablehlo.broadcast_in_dim %b, dims = [0] : ({column}) -> {wide}
      %s = stablehlo.multiply %aa, %bb : {wide}
      %t = stablehlo.subtract %x, %s : {wide}
      %u = stablehlo.multiply %t, %t : {wide}
      %v = stablehlo.add %s, %u : {wide}
      %w = stablehlo.divide %v, %t : {wide}
      %r = stablehlo.subtract %w, %x : {wide}
      return %r, %w : {wide}, {wide}
    }}"""
    program, rng = interp.load(text), np.random.default_rng(4)
    shapes = ((600, 300), (600,), (600,))
    x, a, b = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    before = x.tobytes(), a.tobytes(), b.tobytes()
    s = (a * b)[:, None]
    t = x - s
    w = (s + t * t) / t
    for _ in range(2):
        actual = program(x, a, b)
        assert [r.tobytes() for r in actual] == [(w - x).tobytes(), w.tobytes()]
    assert (x.tobytes(), a.tobytes(), b.tobytes()) == before
    (source,) = [s.text for s in program.plan().sources.values() if s.label == "blocks"]
    calls = [line.partition("(")[2].rstrip(")\n ").split(", ") for line in source.splitlines() if " = k" in line]
    assert sum(len(c) == 3 and "out=" not in c[2] for c in calls) == 1, source  # %v over %u
    assert sum("out=" in c[-1] for c in calls) == 2, source
