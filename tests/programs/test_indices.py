"""Loops of few turns that are written out, and 64-bit indices computed in 32 bits: the numbers stay those of Python."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine.speed import NONE, Speed

from ..conftest import Tune, tuned


def run(text: str, *arrays: np.ndarray, speed: Speed | None = None) -> tuple[str, list[np.ndarray]]:
    """The generated Python, and the results."""
    plan = planner.plan(interp.load(text).program, speed=speed or tuned(Speed()))
    return "\n".join(source.text for source in plan.sources.values()), list(machine.run(plan, list(arrays)))


def counters(element: str, rows: int, columns: int, factor: int, more: int, shift: int) -> str:
    wide, u32 = f"tensor<{rows}x{columns}x{element}>", f"tensor<{rows}x{columns}xui32>"
    constants = "".join(
        f"%{n} = stablehlo.constant dense<{v}> : {wide}\n" for n, v in (("f", factor), ("m", more), ("s", shift))
    )
    return f"""func.func @main() -> ({u32}, {u32}) {{
    {constants}%i = stablehlo.iota dim = 0 : {wide}
    %j = stablehlo.iota dim = 1 : {wide}
    %a = stablehlo.multiply %f, %i : {wide}
    %b = stablehlo.add %a, %j : {wide}
    %c = stablehlo.add %b, %m : {wide}
    %d = stablehlo.shift_right_logical %c, %s : {wide}
    %low = stablehlo.convert %c : ({wide}) -> {u32}
    %high = stablehlo.convert %d : ({wide}) -> {u32}
    return %low, %high : {u32}, {u32}
    }}"""


@pytest.mark.parametrize("element", ["ui64", "i64"])
@pytest.mark.parametrize(
    ("factor", "more", "shift", "is_small"),
    [(5, 0, 32, True), (5, 7, 2, True), (1, (1 << 32) - 7, 1, True), (1, (1 << 32) - 6, 1, False),
     (1 << 31, 3, 32, False), (5, 7, 64, False)],
)  # fmt: skip
def test_indices_of_64_bits(element: str, factor: int, more: int, shift: int, is_small: bool, tune: Tune) -> None:
    tune(fuse_many=1, fold_bytes=8)
    text, (low, high) = run(counters(element, 3, 5, factor, more, shift))
    numbers = [factor * i + j + more for i in range(3) for j in range(5)]
    assert low.dtype == high.dtype == np.uint32
    assert low.ravel().tolist() == [n % (1 << 32) for n in numbers]
    assert high.ravel().tolist() == [(n >> shift) % (1 << 32) if shift < 64 else 0 for n in numbers]
    # Of small ones nothing is shifted to the right in 64 bits.
    kernels = planner.plan(interp.load(counters(element, 3, 5, factor, more, shift)).program, speed=tuned(Speed()))
    wide = [c for c in kernels.chosen if element in c.decision.reason]
    assert bool(wide) != is_small


def loop(turns: int, body: str, result: str = "%y, %x") -> str:
    t = "tensor<2x3xui32>"
    return f"""func.func @main(%a: {t}, %b: {t}, %k: tensor<ui32>) -> ({t}, {t}, tensor<ui32>) {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %amounts = stablehlo.constant dense<[3, 7, 11, 13]> : tensor<4xui32>
    %r:5 = stablehlo.while(%n = %zero, %x = %a, %y = %b, %s = %amounts, %c = %k)
      : tensor<i32>, {t}, {t}, tensor<4xui32>, tensor<ui32>
    cond {{
      %end = stablehlo.constant dense<{turns}> : tensor<i32>
      %p = stablehlo.compare LT, %n, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    }} do {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      %m = stablehlo.add %n, %one : tensor<i32>
      {body}
      stablehlo.return %m, {result}, %s, %e : tensor<i32>, {t}, {t}, tensor<4xui32>, tensor<ui32>
    }}
    return %r#1, %r#2, %r#4 : {t}, {t}, tensor<ui32>
    }}"""


MIX = """%first = stablehlo.slice %s [1:2] : (tensor<4xui32>) -> tensor<1xui32>
      %amount = stablehlo.reshape %first : (tensor<1xui32>) -> tensor<ui32>
      %by = stablehlo.broadcast_in_dim %amount, dims = [] : (tensor<ui32>) -> tensor<2x3xui32>
      %up = stablehlo.shift_left %x, %by : tensor<2x3xui32>
      %sum = stablehlo.add %up, %y : tensor<2x3xui32>
      %kk = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui32>) -> tensor<2x3xui32>
      %z = stablehlo.xor %sum, %kk : tensor<2x3xui32>
      %e = stablehlo.add %c, %c : tensor<ui32>"""


@pytest.mark.parametrize("turns", [2, 5, 8, 9])
@pytest.mark.parametrize("result", ["%y, %z", "%z, %z", "%x, %z", "%y, %x"])
def test_loops_of_few_turns(turns: int, result: str, tune: Tune) -> None:
    tune(fuse_many=6)
    a, b = np.array([[1, 2, 3], [4, 5, 0xFFFFFFFF]], np.uint32), np.arange(6, dtype=np.uint32).reshape(2, 3)
    k = np.array(0x90000001, np.uint32)
    text, (x, y, c) = run(loop(turns, MIX, result), a, b, k)
    assert ("while" in text) == (turns > 8)
    left, right, number = a.ravel().tolist(), b.ravel().tolist(), int(k)
    for _ in range(turns):
        z = [((p << 7) + q) % (1 << 32) ^ number for p, q in zip(left, right, strict=True)]
        names = {"%x": left, "%y": right, "%z": z}
        left, right = (names[n] for n in result.split(", "))
        number = 2 * number % (1 << 32)
    assert (x.ravel().tolist(), y.ravel().tolist(), int(c)) == (left, right, number)


def test_what_is_read_as_another_type_is_not_written_over(tune: Tune) -> None:
    """The bit cast is the memory of the sum; an op that could write over the sum comes while the cast is needed."""
    tune(fuse_many=1, block=8)
    u, f = "tensor<40xui32>", "tensor<40xf32>"
    text = f"""func.func @main(%a: {u}) -> {f} {{
    %one = stablehlo.constant dense<1> : {u}
    %s = stablehlo.add %a, %one : {u}
    %f = stablehlo.bitcast_convert %s : ({u}) -> {f}
    %t = stablehlo.xor %s, %one : {u}
    %g = stablehlo.bitcast_convert %t : ({u}) -> {f}
    %r = stablehlo.subtract %f, %g : {f}
    return %r : {f}
    }}"""
    a = np.arange(0x3F800000, 0x3F800000 + 40, dtype=np.uint32)
    (result,) = run(text, a, speed=tuned(Speed(compiled=False)))[1]
    wanted = (a + 1).view(np.float32) - ((a + 1) ^ 1).view(np.float32)
    assert result.tolist() == wanted.tolist()
    assert wanted.any()
    assert run(text, a, speed=NONE)[1][0].tolist() == wanted.tolist()
