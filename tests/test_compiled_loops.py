"""Loops on whole numbers that are compiled give the bits that Python gives."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import compiled_loops, planner
from minihlo.ops.engine import compiled, speed
from minihlo.ops.types import ELEMENT_TYPES

from .conftest import Tune, tuned

TYPES = ("i32", "ui32", "i8", "ui8", "i16", "i4", "ui4", "i2", "i1")
STAND_IN = types.SimpleNamespace(boolean=bool, int64=int, njit=lambda *_, **__: lambda function: function)


@pytest.fixture(params=["numba", "python"])
def at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    """Loops are compiled before their first turn, by numba or something that leaves them Python; and come back soon."""
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "numba", STAND_IN)
        monkeypatch.setattr(compiled, "is_available", lambda: True)
    elif not compiled.is_available():
        pytest.skip("numba is not installed")
    tune(loop_seconds=0)
    tune(loop_turns=3)


def loops(plan: planner.Plan) -> list[compiled_loops.CompiledLoop]:
    scope: dict[str, Any] = plan.entry.__globals__
    return list({id(v): v for v in scope.values() if isinstance(v, compiled_loops.CompiledLoop)}.values())


def random_loop(rng: np.random.Generator) -> tuple[str, list[np.ndarray]]:
    """A loop that carries some numbers and uses others from around it."""
    t = str(rng.choice(TYPES))
    ops = ["and", "or", "xor", "add", "multiply", "maximum", "minimum"]
    if t != "i1":
        ops += ["subtract", "shift_left", "shift_right_logical", "shift_right_arithmetic", "divide", "remainder"]
    values, lines = ["%x", "%y", "%p", "%q"], []
    for n in range(rng.integers(3, 9)):
        a, b = (str(rng.choice(values)) for _ in range(2))
        kind = rng.integers(0, 5)
        if kind == 0:
            lines.append(f"%c{n} = stablehlo.compare {rng.choice(['LT', 'GE', 'EQ'])}, {a}, {b} : (@, @) -> tensor<i1>")
            lines.append(f"%v{n} = stablehlo.select %c{n}, {b}, {a} : tensor<i1>, @")
        elif kind == 1:
            lines.append(f"%w{n} = stablehlo.convert {a} : (@) -> tensor<i32>")
            lines.append(f"%u{n} = stablehlo.add %w{n}, %i : tensor<i32>")
            lines.append(f"%v{n} = stablehlo.convert %u{n} : (tensor<i32>) -> @")
        elif kind == 2:
            name = "not" if t[0] == "u" or t == "i1" else str(rng.choice(["negate", "abs", "not", "sign"]))
            lines.append(f"%v{n} = stablehlo.{name} {a} : @")
        else:
            lines.append(f"%v{n} = stablehlo.{rng.choice(ops)} {a}, {b} : @")
        values.append(f"%v{n}")
    body = "\n".join(lines).replace("@", f"tensor<{t}>")
    text = f"""func.func @main(%s: tensor<{t}>, %z: tensor<{t}>, %p: tensor<{t}>, %n: tensor<i32>)
        -> (tensor<i32>, tensor<{t}>, tensor<{t}>) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %q = stablehlo.constant dense<{"true" if t == "i1" else rng.integers(1, 2 if t == "i2" else 4)}> : tensor<{t}>
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
    else:
        low = -(1 << (element.bits - 1)) if t[0] == "i" else 0
        numbers = [rng.integers(low, low + (1 << element.bits), ()) for _ in range(3)]
    return text, [*(np.asarray(n).astype(element.dtype) for n in numbers), np.asarray(rng.integers(0, 12), np.int32)]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("seed", range(24))
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
def test_of_nested_loops_the_inner_one_is_compiled() -> None:
    program = interp.load(NESTED)
    results = program(np.asarray(3, np.int32), np.asarray(0.5, np.float32))
    (loop,) = loops(program.plan())
    assert loop._run is not None
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


def test_without_a_compiler_or_with_one_that_fails(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    text, arrays = random_loop(np.random.default_rng(2))
    program = interp.load(text).program
    assert loops(planner.plan(program, speed=speed.Speed(compiled=False))) == []
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    tune(loop_seconds=0)
    monkeypatch.setitem(sys.modules, "numba", None)
    plan = planner.plan(program)
    (loop,) = loops(plan)
    wanted = machine.run(planner.plan(program, speed=speed.NONE), arrays)
    assert [r.tobytes() for r in machine.run(plan, arrays)] == [r.tobytes() for r in wanted]
    assert not loop.is_set


@pytest.mark.parametrize("is_there", [True, False])
def test_a_long_loop_is_compiled_where_it_can_be(is_there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what its turns need of each other runs as Python, and the rest for all turns at once."""
    monkeypatch.setattr(compiled, "is_available", lambda: is_there)
    text, _ = random_loop(np.random.default_rng(3))
    counted = text.replace("compare LT, %i, %n", "compare LT, %i, %k").replace("%one =", "%k =", 1)
    counted = counted.replace("%k = stablehlo.constant dense<1>", "%k = stablehlo.constant dense<99>")
    counted = counted.replace("%zero =", "%one = stablehlo.constant dense<1> : tensor<i32>\n      %zero =", 1)
    assert len(loops(planner.plan(interp.load(counted).program))) == is_there
