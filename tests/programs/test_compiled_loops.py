"""Loops on whole numbers that are compiled give the bits that Python gives."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.interp.compile.compiled_loops import loops as compiled_loops
from minihlo.interp.compile.executors.composition import Composition
from minihlo.interp.compile.executors.recurrence import RecurrenceRunner
from minihlo.interp.compile.explain import listing
from minihlo.ops.engine import compiled, speed
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import STAND_IN, Tune, tuned

TYPES = ("i32", "ui32", "i8", "ui8", "i16", "i4", "ui4", "i2", "i1", "f32", "f64")
SPECIAL = (0.0, -0.0, 1.0, -2.5, 1e-45, -3e38, np.inf, -np.inf, np.nan, -np.nan)


@pytest.fixture
def at_once(compiler: str, tune: Tune) -> str:
    """Loops are compiled before their first turn, and come back soon."""
    tune(loop_seconds=0, vector_steps=0)
    tune(loop_turns=3)
    return compiler


def loops(plan: planner.Plan) -> list[compiled_loops.CompiledLoop]:
    scope: dict[str, Any] = plan.entry.__globals__
    return list({id(v): v for v in scope.values() if isinstance(v, compiled_loops.CompiledLoop)}.values())


def random_loop(rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """A loop that carries some numbers and uses others from around it."""
    t = str(rng.choice(TYPES))
    is_float = t[0] == "f"
    ops = ["add", "multiply", "maximum", "minimum"]
    if is_float:
        ops += ["subtract", "divide"]
    else:
        ops += ["and", "or", "xor"]
    if t != "i1" and not is_float:
        ops += ["subtract", "shift_left", "shift_right_logical", "shift_right_arithmetic", "divide", "remainder"]
    values, lines = ["%x", "%y", "%p", "%q"], []
    for n in range(rng.integers(3, 9)):
        a, b = (str(rng.choice(values)) for _ in range(2))
        kind = rng.integers(0, 5)
        if kind == 0:
            lines.append(f"%c{n} = stablehlo.compare {rng.choice(['LT', 'GE', 'EQ'])}, {a}, {b} : (@, @) -> tensor<i1>")
            lines.append(f"%v{n} = stablehlo.select %c{n}, {b}, {a} : tensor<i1>, @")
        elif kind == 1:
            if is_float:
                lines.append(f"%c{n} = stablehlo.compare GT, {a}, {b} : (@, @) -> tensor<i1>")
                lines.append(f"%w{n} = stablehlo.convert %c{n} : (tensor<i1>) -> tensor<i32>")
            else:
                lines.append(f"%w{n} = stablehlo.convert {a} : (@) -> tensor<i32>")
            lines.append(f"%u{n} = stablehlo.add %w{n}, %i : tensor<i32>")
            lines.append(f"%v{n} = stablehlo.convert %u{n} : (tensor<i32>) -> @")
        elif kind == 2:
            names = ["negate", "abs"] if is_float else ["negate", "abs", "not", "sign"]
            name = "not" if t[0] == "u" or t == "i1" else str(rng.choice(names))
            lines.append(f"%v{n} = stablehlo.{name} {a} : @")
        else:
            lines.append(f"%v{n} = stablehlo.{rng.choice(ops)} {a}, {b} : @")
        values.append(f"%v{n}")
    one = "true" if t == "i1" else "1.5" if is_float else rng.integers(1, 2 if t == "i2" else 4)
    body = "\n".join(lines).replace("@", f"tensor<{t}>")
    text = f"""func.func @main(%s: tensor<{t}>, %z: tensor<{t}>, %p: tensor<{t}>, %n: tensor<i32>)
        -> (tensor<i32>, tensor<{t}>, tensor<{t}>) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %q = stablehlo.constant dense<{one}> : tensor<{t}>
      %r:3 = stablehlo.while(%i = %zero, %x = %s, %y = %z) : tensor<i32>, tensor<{t}>, tensor<{t}>
      cond {{
        %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        {body}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, {values[-1]}, {values[-2]} : tensor<i32>, tensor<{t}>, tensor<{t}>
      }}
      return %r#0, %r#1, %r#2 : tensor<i32>, tensor<{t}>, tensor<{t}>
    }}"""
    element = ELEMENT_TYPES[t]
    if t == "i1":
        numbers = [rng.integers(0, 2, ()) == 1 for _ in range(3)]
    elif is_float:
        numbers = [rng.choice([*SPECIAL, *rng.standard_normal(10)]) for _ in range(3)]
    else:
        low = -(1 << (element.bits - 1)) if t[0] == "i" else 0
        numbers = [rng.integers(low, low + (1 << element.bits), ()) for _ in range(3)]
    return text, [*(np.asarray(n).astype(element.dtype) for n in numbers), np.asarray(rng.integers(0, 12), np.int32)]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("seed", range(40))
def test_random_loops(seed: int) -> None:
    text, arrays = random_loop(np.random.default_rng(seed))
    program = interp.load(text).program
    wanted = machine.run(planner.plan(program, speed=speed.NONE), arrays)
    plan = planner.plan(program, speed=tuned(speed.Speed()))
    (loop,) = loops(plan)
    for _ in range(2):
        found = machine.run(plan, arrays)
        assert [(r.dtype, r.tobytes()) for r in found] == [(r.dtype, r.tobytes()) for r in wanted], text
    assert loop._run is not None


NESTED = """func.func @main(%x: tensor<i32>, %f: tensor<f32>) -> (tensor<i32>, tensor<f32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %ten = stablehlo.constant dense<10> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %y = %x, %g = %f) : tensor<i32>, tensor<i32>, tensor<f32>
  cond {
    %go = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %go : tensor<i1>
  } do {
    %s:2 = stablehlo.while(%k = %zero, %z = %y) : tensor<i32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %k, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %k1 = stablehlo.add %k, %one : tensor<i32>
      %z1 = stablehlo.multiply %z, %ten : tensor<i32>
      stablehlo.return %k1, %z1 : tensor<i32>, tensor<i32>
    }
    %h = stablehlo.add %g, %f : tensor<f32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %s#1, %h : tensor<i32>, tensor<i32>, tensor<f32>
  }
  return %r#1, %r#2 : tensor<i32>, tensor<f32>
}"""


@pytest.mark.usefixtures("at_once")
def test_nested_loops_are_compiled_together() -> None:
    program = interp.load(NESTED)
    results = program(np.asarray(3, np.int32), np.asarray(0.5, np.float32))
    outer, _ = sorted(loops(program.plan()), key=lambda loop: -len(loop._text or ""))
    assert outer.is_compiled
    assert (outer._text or "").count("while True:") == 1
    product = 3 * 10**45 % 2**32
    assert [r.item() for r in results] == [product - 2**32 * (product >= 2**31), 5.5]


def test_a_loop_is_python_until_it_has_taken_long(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    monkeypatch.setitem(sys.modules, "numba", STAND_IN)
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    text, arrays = random_loop(np.random.default_rng(1))
    found = {}
    for seconds in (1e9, 1e-9):  # the second program has taken long after its first run
        tune(loop_seconds=seconds)
        program = interp.load(text)
        first = [r.tobytes() for r in program(*arrays)]
        (loop,) = loops(program.plan())
        assert not loop.is_compiled
        assert [r.tobytes() for r in program(*arrays)] == first
        found[seconds] = loop.is_compiled
    assert found == {1e9: False, 1e-9: True}


def test_affine_turns_are_composed_until_they_are_compiled(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    monkeypatch.setitem(sys.modules, "numba", STAND_IN)
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    f = lambda y: lax.fori_loop(0, 3000, lambda i, y: (y * 3 + i) ^ 5, y)  # noqa: E731
    text, state, found = jax.jit(f).lower(np.int32(0)).as_text(), np.array([7], np.int32), {}
    for i in range(3000):
        state = (state * 3 + np.int32(i)) ^ np.int32(5)
    for seconds in (1e9, 1e-9):
        tune(loop_seconds=seconds)
        program = interp.load(text)
        for _ in range(2):
            assert [r.item() for r in program(np.asarray(7, np.int32))] == state.tolist()
        (run,) = {id(v): v for v in program.plan().entry.__globals__.values() if isinstance(v, Composition)}.values()
        assert run.compiled is not None
        found[seconds] = run.compiled.is_ready
    assert found == {1e9: False, 1e-9: True}


def test_loops_in_compiled_loops_are_not_composed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    inner = lambda y: lax.fori_loop(0, 3000, lambda i, y: (y * 3 + i) ^ 5, y)  # noqa: E731
    f = lambda y: lax.fori_loop(0, 20, lambda i, y: inner(y) >> i, y)  # noqa: E731
    plan = planner.plan(interp.load(jax.jit(f).lower(np.int32(0)).as_text()).program)
    assert len(loops(plan)) == 2
    assert "turns composed" not in listing(plan)


def test_without_a_compiler_or_with_one_that_fails(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    text, arrays = random_loop(np.random.default_rng(2))
    program = interp.load(text).program
    assert loops(planner.plan(program, speed=speed.Speed(compiled=False))) == []
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    tune(loop_seconds=0, vector_steps=0)
    monkeypatch.setitem(sys.modules, "numba", None)
    plan = planner.plan(program)
    (loop,) = loops(plan)
    wanted = machine.run(planner.plan(program, speed=speed.NONE), arrays)
    assert [r.tobytes() for r in machine.run(plan, arrays)] == [r.tobytes() for r in wanted]
    assert not loop.is_set


def _crc(c: Any, v: Any) -> Any:
    turn = lambda _, b: jnp.where(b & 1 == 1, (b >> 1) ^ 0x6DB88320, b >> 1)  # noqa: E731
    return lax.fori_loop(0, 8, turn, c ^ v), c


def _kalman(c: Any, v: Any) -> Any:
    p = c[1] + np.float32(0.1)
    gain = p / (p + 1)
    return (c[0] + gain * (v - c[0]), (1 - gain) * p), (c[0], v > c[0])


F32, I32 = np.float32, np.int32
SCANS: dict[str, tuple[Any, Any, Any]] = {
    "average": (lambda c, v: (c * F32(0.9) + v, c), F32(0), F32),
    "largest": (lambda c, v: (jnp.maximum(c, -v) / 2, c), F32(0), F32),
    "filter": (_kalman, (F32(0), F32(1)), F32),
    "branch": (lambda c, v: (lax.cond(v > 0, lambda c: c + v, lambda c: c * F32(0.5), c), c), F32(0), F32),
    "remainder": (lambda c, v: ((c * 5 + v) % 97, c), I32(1), I32),
    "unsigned": (lambda c, v: (c * np.uint32(1664525) + v, c ^ v), np.uint32(1), np.uint32),
    "checksum": (_crc, I32(-1), I32),
    "boolean": (lambda c, v: ((c ^ (v > 0)) | (v > 1), c), np.bool_(0), F32),
    "bytes": (lambda c, v: (c * np.int8(3) + v, c), np.int8(1), np.int8),
    "no rows": (lambda c, _: (c * F32(1.5) - 1, c), F32(3), None),
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("special", [False, True])
def test_turns_of_recurrences(name: str, special: bool, tune: Tune) -> None:
    """Those with a NaN, whose bits are up to the compiler, are made as Python."""
    tune(compiled_turns=7)
    turn, start, dtype = SCANS[name]
    rng = np.random.default_rng(5)
    numbers = rng.standard_normal(20) * 3 if dtype is F32 else rng.integers(0, 100, 20)
    rows = None if dtype is None else numbers.astype(dtype)
    if special and dtype is F32:
        rows[[3, 5, 9, 12, 15]] = [-0.0, 1e-45, np.inf, -np.nan, np.nan]
    text = jax.jit(lambda s, x: lax.scan(turn, s, x, length=20)).lower(start, rows).as_text()
    arrays = [np.asarray(v) for v in jax.tree.leaves((start, rows))]
    program = interp.load(text).program
    wanted = machine.run(planner.plan(program, speed=speed.Speed(compiled=False)), arrays)
    for by_arrays, by_turns in zip(machine.run(planner.plan(program, speed=speed.NONE), arrays), wanted, strict=True):
        np.testing.assert_array_equal(by_turns, by_arrays)  # which of two NaN is up to numpy, for arrays and numbers
    plan = planner.plan(program, speed=tuned(speed.Speed()))
    for _ in range(2):
        found = machine.run(plan, arrays)
        assert [(r.dtype, r.tobytes()) for r in found] == [(r.dtype, r.tobytes()) for r in wanted]
    runners = [v for v in plan.entry.__globals__.values() if isinstance(v, RecurrenceRunner)]
    assert runners
    assert all(r.compiled is not None and r.compiled.is_ready for r in runners)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_long_loop_is_compiled_where_it_can_be(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what its turns need of each other runs as Python, and the rest for all turns at once."""
    monkeypatch.setattr(compiled, "is_available", lambda: is_there)
    text, _ = random_loop(np.random.default_rng(3))
    counted = text.replace("compare LT, %i, %n", "compare LT, %i, %k").replace("%one =", "%k =", 1)
    counted = counted.replace("%k = stablehlo.constant dense<1>", "%k = stablehlo.constant dense<99>")
    counted = counted.replace("%zero =", "%one = stablehlo.constant dense<1> : tensor<i32>\n      %zero =", 1)
    assert len(loops(planner.plan(interp.load(counted).program))) == is_there


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("%m = stablehlo.shift_right_arithmetic %w, %k : tensor<i64>", lambda w: np.where(w < 0, -1, 0)),
        (
            "%p = stablehlo.multiply %w, %k : tensor<i64>\n"
            "%m = stablehlo.shift_right_arithmetic %p, %c33 : tensor<i64>",
            lambda w: (w * np.int64(6364136223846793005)) >> 33,
        ),
        (
            "%p = stablehlo.multiply %w, %k : tensor<i64>\n%m = stablehlo.remainder %p, %c33 : tensor<i64>",
            lambda w: np.fmod(w * np.int64(6364136223846793005), 33),
        ),
    ],
)
@pytest.mark.usefixtures("at_once")
def test_integers_of_64_bits_within_turns(between: str, expected: Any) -> None:
    """The compiler's integers of 64 bits do not have room for what is cut to 64 bits afterwards."""
    program = interp.load(
        f"""
        func.func @main(%a: tensor<40xi32>) -> tensor<i32> {{
          %z = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n = stablehlo.constant dense<40> : tensor<i32>
          %k = stablehlo.constant dense<6364136223846793005> : tensor<i64>
          %c33 = stablehlo.constant dense<33> : tensor<i64>
          %r:2 = stablehlo.while(%i = %z, %s = %one) : tensor<i32>, tensor<i32>
            cond {{ %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %t : tensor<i1> }}
            do {{ %slice = stablehlo.dynamic_slice %a, %i, sizes = [1] : (tensor<40xi32>, tensor<i32>) -> tensor<1xi32>
                 %e = stablehlo.reshape %slice : (tensor<1xi32>) -> tensor<i32>
                 %x = stablehlo.xor %s, %e : tensor<i32>
                 %w = stablehlo.convert %x : (tensor<i32>) -> tensor<i64>
                 {between}
                 %next = stablehlo.convert %m : (tensor<i64>) -> tensor<i32>
                 %j = stablehlo.add %i, %one : tensor<i32>
                 stablehlo.return %j, %next : tensor<i32>, tensor<i32> }}
          return %r#1 : tensor<i32>
        }}
        """
    )
    a, state = np.random.default_rng(0).integers(-(2**31), 2**31, 40).astype(np.int32), np.int32(1)
    with np.errstate(over="ignore"):
        for e in a:
            state = np.asarray(expected(np.int64(state ^ e))).astype(np.int32)
    for _ in range(2):
        assert program(a)[0] == state
