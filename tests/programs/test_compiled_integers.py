"""Whole numbers of 32 and of 8 bits by compiled code, against Python's own integers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast import opcodes, run
from minihlo.ops.engine.fast.recipes import Program
from minihlo.ops.engine.speed import Speed
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle
from ..conftest import Tune, tuned

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")

F32, ALL = oracle.FORMATS["f32"], 1 << 32
CODES = [0, 1, 2, 3, 5, 31, 32, 33, 127, 128, 255, 256, 0xFFFF, 0x10000, 0x1000001, 0x1000003, 0x7FFFFF7F, 0x7FFFFFBF,
         0x7FFFFFC0, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFEDCBA98, 0xFFFFFF00, 0xFFFFFF7F, 0xFFFFFF80, 0xFFFFFFE0,
         0xFFFFFFFE, 0xFFFFFFFF]  # fmt: skip
X, Y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(np.array(CODES, np.uint32), np.array(CODES, np.uint32)))


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[Program]:
    """Every group is for compiled code; gives the programs that ran."""
    tune(compiled_worth=0, fast_from=1, fast_few=1, fast_short=1, fuse_many=0, group_call_cost=1 << 20)
    programs: list[Program] = []
    real = run.Runner.run_blocks

    def noted(self: run.Runner, plan: object, made: Program, *rest: object) -> None:
        programs.append(made)
        real(self, plan, made, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(run.Runner, "run_blocks", noted)
    return programs


def results(arguments: str, result: str, body: str, *arrays: np.ndarray) -> np.ndarray:
    text = f"func.func @main({arguments}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    plan = planner.plan(interp.load(text).program, speed=tuned(Speed(tables=False)))
    return machine.run(plan, list(arrays))[0]


def signed(code: int, bits: int = 32) -> int:
    code %= 1 << bits
    return code - (1 << bits) if code >> (bits - 1) else code


def shifted(by: int, up: Callable[[int], int], out: int) -> int:
    return up(by) if by < 32 else out


def truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (-1 if (x < 0) != (y < 0) else 1)


#: Of codes of 32 bits and of what they mean.
OPS: dict[str, Callable[[int, int, int, int], int]] = {
    "add": lambda a, b, x, y: a + b,
    "subtract": lambda a, b, x, y: a - b,
    "multiply": lambda a, b, x, y: a * b,
    "divide": lambda a, b, x, y: truncated(x, y) if y else -1,
    "remainder": lambda a, b, x, y: x - truncated(x, y) * y if y else x,
    "maximum": lambda a, b, x, y: max(x, y),
    "minimum": lambda a, b, x, y: min(x, y),
    "and": lambda a, b, x, y: a & b,
    "or": lambda a, b, x, y: a | b,
    "xor": lambda a, b, x, y: a ^ b,
    "shift_left": lambda a, b, x, y: shifted(b, lambda n: a << n, 0),
    "shift_right_logical": lambda a, b, x, y: shifted(b, lambda n: a >> n, 0),
    "shift_right_arithmetic": lambda a, b, x, y: shifted(b, lambda n: signed(a) >> n, signed(a) >> 31),
}
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "LT": lambda x, y: x < y,
    "LE": lambda x, y: x <= y,
    "GT": lambda x, y: x > y,
    "GE": lambda x, y: x >= y,
}


def meaning(code: int, element: str) -> int:
    return signed(code) if element == "i32" else code


@pytest.mark.parametrize("element", ["i32", "ui32"])
@pytest.mark.parametrize("name", OPS)
def test_all_pairs_of_unlike_numbers(name: str, element: str, ran: list[Program]) -> None:
    t, dtype = f"tensor<{X.size}x{element}>", ELEMENT_TYPES[element].dtype
    body = f"%n = stablehlo.not %x : {t}\n%m = stablehlo.not %n : {t}\n%r = stablehlo.{name} %m, %y : {t}"
    got = results(f"%x: {t}, %y: {t}", t, body, X.view(dtype), Y.view(dtype))
    for a, b, r in zip(X.tolist(), Y.tolist(), got.view(np.uint32).tolist(), strict=True):
        assert r == OPS[name](a, b, meaning(a, element), meaning(b, element)) % ALL, (name, hex(a), hex(b), hex(r))
    assert ran


@pytest.mark.parametrize("element", ["i32", "ui32"])
@pytest.mark.parametrize("d", [0, 1, 2, 3, 8, 49, 641, 65536, (1 << 31) - 1, 1 << 31, ALL - 7, ALL - 1])
@pytest.mark.parametrize("name", ["divide", "remainder"])
def test_divisions_by_constants(name: str, d: int, element: str, ran: list[Program]) -> None:
    """In f64, 49 * (1 / 49) is below 1."""
    rng, dtype, y = np.random.default_rng(3), ELEMENT_TYPES[element].dtype, meaning(d, element)
    near = np.array([d * k + e for k in (1, 2, 3, ALL // max(d, 1)) for e in (-1, 0, 1)], np.int64) % ALL
    codes = np.concatenate([np.array(CODES, np.uint32), near.astype(np.uint32), rng.integers(0, ALL, 300, np.uint32)])
    t = f"tensor<{codes.size}x{element}>"
    body = f"%d = stablehlo.constant dense<{y}> : {t}\n%n = stablehlo.not %x : {t}\n%r = stablehlo.{name} %n, %d : {t}"
    got = results(f"%x: {t}", t, body, (~codes).view(dtype))
    for a, r in zip(codes.tolist(), got.view(np.uint32).tolist(), strict=True):
        assert r == OPS[name](a, d, meaning(a, element), y) % ALL, (hex(a), hex(r))
    assert ran


@pytest.mark.parametrize("d", [1, 2, 3, 49, 64, 641, (1 << 31) - 1, -1, -3, -8])
def test_floored_divisions(d: int, ran: list[Program]) -> None:
    codes = np.concatenate([np.array(CODES, np.uint32), np.arange(200, dtype=np.uint32) - np.uint32(100)])
    x = codes.view(np.int32)
    quotient, rest = interp.jit(lambda v: ((v ^ 5) // d, (v ^ 5) % d))(x)
    numbers = [signed(c ^ 5) for c in codes.tolist()]
    assert np.asarray(quotient).tolist() == [signed(n // d) for n in numbers]
    assert np.asarray(rest).tolist() == [n % d for n in numbers]
    assert ran


def test_floored_divisions_of_arrays(ran: list[Program]) -> None:
    """JAX's quotient by zero is made of several operations; other divisors are Python's."""
    x, y = X.view(np.int32)[Y != 0], Y.view(np.int32)[Y != 0]
    quotient, rest = interp.jit(lambda v, w: (v // w, v % w))(x, y)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    assert np.asarray(quotient).tolist() == [signed(a // b) for a, b in pairs]
    assert np.asarray(rest).tolist() == [a % b for a, b in pairs]
    assert ran


#: Of a code and of what it means.
COUNTED: dict[str, Callable[[int, int], int]] = {
    "count_leading_zeros": lambda a, x: 32 - a.bit_length(),
    "popcnt": lambda a, x: a.bit_count(),
    "sign": lambda a, x: (x > 0) - (x < 0),
}


@pytest.mark.parametrize("element", ["i32", "ui32"])
@pytest.mark.parametrize("name", COUNTED)
def test_what_is_counted_in_one_number(name: str, element: str, ran: list[Program]) -> None:
    if name == "sign" and element == "ui32":
        pytest.skip("StableHLO has no sign of unsigned numbers")
    codes = np.concatenate([np.array(CODES, np.uint32), np.uint32(1) << np.arange(32, dtype=np.uint32)])
    t = f"tensor<{codes.size}x{element}>"
    body = f"%n = stablehlo.not %x : {t}\n%r = stablehlo.{name} %n : {t}"
    got = results(f"%x: {t}", t, body, (~codes).view(ELEMENT_TYPES[element].dtype))
    assert [r % ALL for r in got.tolist()] == [COUNTED[name](a, meaning(a, element)) % ALL for a in codes.tolist()]
    assert ran


@pytest.mark.parametrize("direction", COMPARED)
def test_comparisons_of_truth_values(direction: str, ran: list[Program]) -> None:
    m, t = f"tensor<{X.size}xi1>", f"tensor<{X.size}xui32>"
    body = f"""%zero = stablehlo.constant dense<5> : {t}
    %p = stablehlo.compare LT, %x, %zero : ({t}, {t}) -> {m}
    %q = stablehlo.compare LT, %y, %zero : ({t}, {t}) -> {m}
    %r = stablehlo.compare {direction}, %p, %q : ({m}, {m}) -> {m}"""
    got = results(f"%x: {t}, %y: {t}", m, body, X, Y)
    assert got.tolist() == [COMPARED[direction](a < 5, b < 5) for a, b in zip(X.tolist(), Y.tolist(), strict=True)]
    assert ran


@pytest.mark.parametrize("element", ["i32", "ui32"])
@pytest.mark.parametrize("direction", COMPARED)
def test_comparisons_choices_and_clamp(direction: str, element: str, ran: list[Program]) -> None:
    t, m, dtype = f"tensor<{X.size}x{element}>", f"tensor<{X.size}xi1>", ELEMENT_TYPES[element].dtype
    body = f"""%p = stablehlo.compare {direction}, %x, %y : ({t}, {t}) -> {m}
    %s = stablehlo.select %p, %x, %y : {m}, {t}
    %one = stablehlo.constant dense<5> : {t}
    %hundred = stablehlo.constant dense<127> : {t}
    %c = stablehlo.clamp %one, %x, %hundred : {t}
    %r = stablehlo.subtract %s, %c : {t}"""
    got = results(f"%x: {t}, %y: {t}", t, body, X.view(dtype), Y.view(dtype))
    for a, b, r in zip(X.tolist(), Y.tolist(), got.view(np.uint32).tolist(), strict=True):
        x, y = meaning(a, element), meaning(b, element)
        assert r == ((a if COMPARED[direction](x, y) else b) - min(max(x, 5), 127)) % ALL, (hex(a), hex(b))
    assert ran


@pytest.mark.parametrize("by", [1, 9, 31])
def test_rotations_are_one_instruction(by: int, ran: list[Program]) -> None:
    t = f"tensor<{X.size}xui32>"
    body = f"""%a = stablehlo.constant dense<{by}> : {t}
    %b = stablehlo.constant dense<{32 - by}> : {t}
    %up = stablehlo.shift_left %x, %a : {t}
    %down = stablehlo.shift_right_logical %x, %b : {t}
    %r = stablehlo.or %down, %up : {t}"""
    got = results(f"%x: {t}", t, body, X)
    assert got.tolist() == [(a << by | a >> (32 - by)) % ALL for a in X.tolist()]
    assert opcodes.ROTATE in ran[-1].code[:, 0]
    assert opcodes.SHIFT_LEFT not in ran[-1].code[:, 0]
    other = body.replace(f"dense<{32 - by}>", f"dense<{(33 - by) % 32}>")
    got = results(f"%x: {t}", t, other, X)
    assert got.tolist() == [(a << by | a >> (33 - by) % 32) % ALL for a in X.tolist()]


@pytest.mark.parametrize("element", ["i32", "ui32", "i8", "ui8"])
def test_conversions_to_and_from_f32(element: str, ran: list[Program]) -> None:
    rng, dtype = np.random.default_rng(2), ELEMENT_TYPES[element].dtype
    codes = np.concatenate([np.array(CODES, np.uint32), rng.integers(0, ALL, 500, np.uint32)]).view(dtype)
    t, f = f"tensor<{codes.size}x{element}>", f"tensor<{codes.size}xf32>"
    body = f"%f = stablehlo.convert %x : ({t}) -> {f}\n%r = stablehlo.negate %f : {f}"
    got = results(f"%x: {t}", f, body, codes)
    for number, r in zip(codes.tolist(), got.tolist(), strict=True):
        wanted = struct.unpack("f", struct.pack("I", oracle.encode(F32, Fraction(abs(number)))))[0]
        assert r == (-wanted if number > 0 else wanted), number
    numbers = [0.0, -0.0, 0.5, -0.5, 0.99999994, -0.99999994, 1.5, -1.5, 127.5, 128.0, -128.5, -129.0, 255.5, 256.0,
               2147483520.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0, 4294967296.0, 1e30, -1e30,
               float("inf"), float("-inf"), float("nan"), 1e-45]  # fmt: skip
    x = np.array([*numbers, *rng.uniform(-3e9, 5e9, 300), *rng.uniform(-300, 300, 300)], np.float32)
    t, f = f"tensor<{x.size}x{element}>", f"tensor<{x.size}xf32>"
    body = f"%f = stablehlo.negate %x : {f}\n%r = stablehlo.convert %f : ({f}) -> {t}"
    got = results(f"%x: {f}", t, body, -x)
    bits, is_signed = 8 * dtype.itemsize, dtype.kind == "i"
    for number, r in zip(x.tolist(), got.tolist(), strict=True):
        value = number if number != number or number in (float("inf"), float("-inf")) else Fraction(number)
        assert r == oracle.to_integer(value, bits, is_signed), number
    assert len(ran) == 2


@pytest.mark.parametrize("source", ["i8", "ui8", "i32", "ui32", "i1"])
@pytest.mark.parametrize("target", ["i8", "ui8", "i32", "ui32", "i1"])
def test_conversions_between_whole_numbers(source: str, target: str, ran: list[Program]) -> None:
    old, new = ELEMENT_TYPES[source].dtype, ELEMENT_TYPES[target].dtype
    x = np.array(CODES, np.uint32)
    x = (x % 2 == 1) if source == "i1" else np.resize(x.view(old), 200)
    s, t, u = (f"tensor<{x.size}x{e}>" for e in (source, target, "i32"))
    body = f"""%a = stablehlo.convert %x : ({s}) -> {t}
    %w = stablehlo.convert %a : ({t}) -> {u}
    %one = stablehlo.constant dense<3> : {u}
    %sum = stablehlo.add %w, %one : {u}
    %r = stablehlo.convert %sum : ({u}) -> {t}"""
    got = results(f"%x: {s}", t, body, x)
    bits = ELEMENT_TYPES[target].bits

    def held(number: int) -> int:
        if target == "i1":
            return int(number != 0)
        return signed(number, bits) if new.kind == "i" else number % (1 << bits)

    assert got.dtype == new
    assert [int(r) for r in got.tolist()] == [held(signed(held(int(n))) + 3) for n in x.tolist()]
    assert ran


@pytest.mark.parametrize("t", ["i8", "ui8", "i4"])
def test_few_steps_on_pairs_of_bytes_are_no_table(t: str, ran: list[Program]) -> None:
    """Also where compiled code does not know them, as those of i4."""
    element = ELEMENT_TYPES[t]
    low, high = (-(1 << element.bits - 1), (1 << element.bits - 1) - 1) if t[0] == "i" else (0, 255)
    values = np.arange(low, high + 1).astype(element.dtype)
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(values, values))
    v, w = f"tensor<{x.size}x{t}>", f"tensor<{x.size}xi32>"
    text = f"""func.func @main(%x: {v}, %y: {v}) -> {v} {{
        %least = stablehlo.constant dense<{low}> : {w}
        %most = stablehlo.constant dense<{high}> : {w}
        %a = stablehlo.convert %x : ({v}) -> {w}
        %b = stablehlo.convert %y : ({v}) -> {w}
        %c = stablehlo.add %a, %b : {w}
        %d = stablehlo.maximum %c, %least : {w}
        %e = stablehlo.minimum %d, %most : {w}
        %r = stablehlo.convert %e : ({w}) -> {v}
        return %r : {v}
    }}"""
    plan = planner.plan(interp.load(text).program, speed=tuned(Speed()))
    assert plan.chosen[-1].decision.executor == "compiled"
    (result,) = machine.run(plan, [x, y])
    wanted = np.clip(x.astype(np.int64) + y.astype(np.int64), low, high)
    assert result.astype(np.int64).tolist() == wanted.tolist()
    assert len(ran) == (t != "i4")
