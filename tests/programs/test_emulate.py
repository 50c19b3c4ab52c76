"""Emulated programs give the interpreter's bits on XLA's CPU, and compute with no minifloat."""

import itertools
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.parse.parser import make_context
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.policy import Policy
from tests.emulated import check
from tests.thinned import rotated, thinned

WITHOUT_SIX = [name for name in MINIFLOATS if FORMATS[name].bits != 6]
POLICIES = [
    Policy(),
    Policy(overflow="saturate"),
    Policy(rounding="toward_zero"),
    Policy(rounding="up", overflow="onnx"),
    Policy(rounding="down"),
    Policy(rounding="nearest_away", overflow="satfinite"),
    Policy(rounding="stochastic", seed=7),
]


def _name(policy: Policy) -> str:
    return f"{policy.rounding}-{policy.overflow}"


def _unary(op: str, source: str, target: str, size: int) -> str:
    a, b = f"tensor<{size}x{source}>", f"tensor<{size}x{target}>"
    kind = f"({a}) -> {b}" if op == "convert" else b
    return f"func.func @main(%x: {a}) -> {b} {{\n%r = stablehlo.{op} %x : {kind}\nreturn %r : {b}\n}}"


def _numbers(name: str, wide: type) -> np.ndarray:
    """Every number of a format, all midpoints, their neighbours, random bits, and what is special."""
    values = np.arange(1 << FORMATS[name].bits).astype(np.uint8).view(FORMATS[name].dtype).astype(np.float64)
    values = np.unique(values[np.isfinite(values)])
    ends = np.concatenate([values, -values, 2 * values[-1:], [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]])
    middles = (values[1:] + values[:-1]) / 2
    exact = np.concatenate([ends, middles]).astype(wide)
    near = [np.nextafter(exact, wide(to)) for to in (np.inf, -np.inf)]
    rng = np.random.default_rng(0)
    size = np.dtype(wide).itemsize
    random = rng.integers(0, 1 << 8, 4000 * size, np.uint8).view(wide)
    normal = rng.standard_normal(4000).astype(wide)
    return np.concatenate([exact, *near, random, normal])


@pytest.mark.parametrize(
    ("name", "policy"),
    thinned(
        itertools.product(WITHOUT_SIX, POLICIES),
        lambda name, policy: (WITHOUT_SIX.index(name) + POLICIES.index(policy)) % 5 == 0,
    ),
    ids=lambda v: v if isinstance(v, str) else _name(v),
)
def test_conversions_of_wide_floats_round_once(name: str, policy: Policy) -> None:
    for source, wide in (("f32", np.float32), ("f64", np.float64)):
        with np.errstate(all="ignore"):
            x = _numbers(name, wide)
        check(_unary("convert", source, name, x.size), [x], policy)


@pytest.mark.parametrize("policy", POLICIES[1:], ids=_name)
@pytest.mark.parametrize("target", ["f16", "bf16"])
def test_conversions_to_wide_floats_follow_the_policy(target: str, policy: Policy) -> None:
    """A device rounds to nearest even only."""
    with np.errstate(all="ignore"):
        x = _numbers("f8E5M2", np.float32)
    check(_unary("convert", "f32", target, x.size), [x], policy)


@pytest.mark.parametrize("op", ["add", "subtract"])
def test_compilers_know_constant_zeros(op: str) -> None:
    for zero in ("0.0", "-0.0"):
        text = f"""func.func @main(%x: tensor<256xf8E4M3>) -> tensor<256xf8E4M3> {{
          %y = stablehlo.constant dense<{zero}> : tensor<256xf8E4M3>
          %r = stablehlo.{op} %x, %y : tensor<256xf8E4M3>\nreturn %r : tensor<256xf8E4M3> }}"""
        check(text, [np.arange(256).astype(np.uint8).view(FORMATS["f8E4M3"].dtype)])


@pytest.mark.parametrize(
    ("name", "source"),
    rotated(
        ["f8E4M3FN", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN"], ["i1", "i8", "ui8", "i16", "i32", "ui32", "i64", "ui64"]
    ),
)
def test_conversions_of_integers(name: str, source: str) -> None:
    rng = np.random.default_rng(1)
    dtype = np.dtype("bool" if source == "i1" else source.replace("i", "int"))
    x = rng.integers(0, 256, 800 * dtype.itemsize, np.uint8)
    x = x > 100 if source == "i1" else np.concatenate([x.view(dtype), np.arange(100).astype(dtype)])
    check(_unary("convert", source, name, x.size), [x])


@pytest.mark.parametrize(
    ("op", "policy"),
    rotated(["negate", "exponential", "tanh", "rsqrt", "sign", "abs"], [POLICIES[0], POLICIES[4], POLICIES[6]]),
)
def test_functions_of_every_code(op: str, policy: Policy) -> None:
    for name in ("f8E4M3FNUZ", "f8E5M2", "f8E3M4", "f4E2M1FN"):
        x = np.arange(1 << FORMATS[name].bits).astype(np.uint8).view(FORMATS[name].dtype)
        check(_unary(op, name, name, x.size), [x], policy)


@pytest.mark.parametrize("op", ["add", "multiply", "divide", "maximum", "remainder"])
def test_operations_on_all_pairs(op: str) -> None:
    for name in ("f8E4M3FN", "f8E5M2FNUZ"):
        codes = np.arange(256).astype(np.uint8).view(FORMATS[name].dtype)
        x, y = np.repeat(codes, 256), np.tile(codes, 256)
        t = f"tensor<65536x{name}>"
        text = f"func.func @main(%x: {t}, %y: {t}) -> {t} {{\n%r = stablehlo.{op} %x, %y : {t}\nreturn %r : {t}\n}}"
        check(text, [x, y])
        check(text, [x, y], Policy(rounding="stochastic"))


PROGRAMS = {
    "comparisons": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> (tensor<8xi1>, tensor<8xf8E4M3FN>) {
  %a = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<8xf8E4M3FN>, tensor<8xf8E4M3FN>) -> tensor<8xi1>
  %b = stablehlo.select %a, %x, %y : tensor<8xi1>, tensor<8xf8E4M3FN>
  %l = stablehlo.constant dense<-1.0> : tensor<f8E4M3FN>
  %c = stablehlo.clamp %l, %b, %y : (tensor<f8E4M3FN>, tensor<8xf8E4M3FN>, tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN>
  return %a, %c : tensor<8xi1>, tensor<8xf8E4M3FN>
}""",
    "a loop, a branch and a call": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8xf8E4M3FN>
    cond {
      %p = stablehlo.compare LT, %i, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %n = stablehlo.add %i, %one : tensor<i32>
      %odd = stablehlo.and %i, %one : tensor<i32>
      %is = stablehlo.compare EQ, %odd, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %w = "stablehlo.if"(%is) ({
        %a = stablehlo.multiply %v, %y : tensor<8xf8E4M3FN>
        stablehlo.return %a : tensor<8xf8E4M3FN>
      }, {
        %a = func.call @f(%v) : (tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN>
        stablehlo.return %a : tensor<8xf8E4M3FN>
      }) : (tensor<i1>) -> tensor<8xf8E4M3FN>
      stablehlo.return %n, %w : tensor<i32>, tensor<8xf8E4M3FN>
    }
  return %r#1 : tensor<8xf8E4M3FN>
}
func.func private @f(%x: tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN> {
  %a = stablehlo.add %x, %x : tensor<8xf8E4M3FN>
  return %a : tensor<8xf8E4M3FN>
}""",
    "a scatter to a scalar": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> tensor<f8E4M3FN> {
  %a = stablehlo.constant dense<1.0> : tensor<f8E4M3FN>
  %i = stablehlo.constant dense<> : tensor<0x8xi32>
  %r = "stablehlo.scatter"(%a, %i, %x) ({ ^bb0(%p: tensor<f8E4M3FN>, %q: tensor<f8E4M3FN>):
    stablehlo.return %q : tensor<f8E4M3FN>
  }) {scatter_dimension_numbers = #stablehlo.scatter<>}
    : (tensor<f8E4M3FN>, tensor<0x8xi32>, tensor<8xf8E4M3FN>) -> tensor<f8E4M3FN>
  return %r : tensor<f8E4M3FN>
}""",
    "moves": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> (tensor<2x3xf8E4M3FN>, tensor<2xi32>) {
  %z = stablehlo.constant dense<0x7F> : tensor<f8E4M3FN>
  %a = stablehlo.pad %x, %z, low = [1], high = [-3], interior = [0]
    : (tensor<8xf8E4M3FN>, tensor<f8E4M3FN>) -> tensor<6xf8E4M3FN>
  %b = stablehlo.reshape %a : (tensor<6xf8E4M3FN>) -> tensor<3x2xf8E4M3FN>
  %c = stablehlo.transpose %b, dims = [1, 0] : (tensor<3x2xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>
  %d = stablehlo.reshape %y : (tensor<8xf8E4M3FN>) -> tensor<2x4xf8E4M3FN>
  %e = stablehlo.bitcast_convert %d : (tensor<2x4xf8E4M3FN>) -> tensor<2xi32>
  return %c, %e : tensor<2x3xf8E4M3FN>, tensor<2xi32>
}""",
    "a group with constants and wider types": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> tensor<8xf8E5M2> {
  %k = stablehlo.constant dense<0.7> : tensor<8xf32>
  %a = stablehlo.convert %x : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
  %b = stablehlo.convert %y : (tensor<8xf8E4M3FN>) -> tensor<8xf32>
  %c = stablehlo.multiply %a, %k : tensor<8xf32>
  %d = stablehlo.divide %c, %b : tensor<8xf32>
  %e = stablehlo.logistic %d : tensor<8xf32>
  %f = stablehlo.convert %e : (tensor<8xf32>) -> tensor<8xf8E5M2>
  return %f : tensor<8xf8E5M2>
}""",
    "six bits within": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> tensor<8xf8E4M3FN> {
  %a = stablehlo.convert %x : (tensor<8xf8E4M3FN>) -> tensor<8xf6E3M2FN>
  %b = stablehlo.multiply %a, %a : tensor<8xf6E3M2FN>
  %c = stablehlo.convert %b : (tensor<8xf6E3M2FN>) -> tensor<8xf8E4M3FN>
  return %c : tensor<8xf8E4M3FN>
}""",
    "no elements": """
func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf8E4M3FN>) -> tensor<0xf8E4M3FN> {
  %a = stablehlo.slice %x [3:3] : (tensor<8xf8E4M3FN>) -> tensor<0xf8E4M3FN>
  %b = stablehlo.add %a, %a : tensor<0xf8E4M3FN>
  return %b : tensor<0xf8E4M3FN>
}""",
}  # fmt: skip


@pytest.mark.parametrize("title", PROGRAMS)
def test_programs(title: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.integers(0, 256, 8, np.uint8).view(ml_dtypes.float8_e4m3fn) for _ in range(2))
    check(PROGRAMS[title], [x, y])


@pytest.mark.parametrize("title", PROGRAMS)
def test_no_operation_computes_on_a_minifloat(title: str) -> None:
    text = emulate_text(PROGRAMS[title])
    with make_context(text.__contains__):
        module = ir.Module.parse(text)
        found: list[str] = []

        def visit(op: ir.Operation) -> ir.WalkResult:
            values = [*op.operands, *op.results]
            if any("f8E" in str(v.type) or "f6E" in str(v.type) for v in values):
                found.append(op.name)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
    assert set(found) <= {"stablehlo.bitcast_convert", "func.return"}


def test_a_function_is_one_lookup_in_xla() -> None:
    text = emulate_text(PROGRAMS["a group with constants and wider types"])
    assert text.count('"stablehlo.gather"') == 1
    assert "logistic" not in text


def test_codes_at_the_boundary() -> None:
    text = emulate_text(_unary("tanh", "f6E3M2FN", "f6E3M2FN", 64), codes=True)
    assert "@main(%arg0: tensor<64xui8>) -> tensor<64xui8>" in text
    codes = np.arange(64).astype(np.uint8)
    ours = interp.load(_unary("tanh", "f6E3M2FN", "f6E3M2FN", 64))(codes.view(ml_dtypes.float6_e3m2fn))
    assert interp.load(text)(codes)[0].tobytes() == ours[0].tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_unary("tanh", "f6E3M2FN", "f6E3M2FN", 64), "expected a type of four or eight bits at the boundary"),
        (
            "func.func @main(%x: tensor<?xf8E4M3FN>) -> tensor<?xf8E4M3FN> {\nreturn %x : tensor<?xf8E4M3FN>\n}",
            "expected arguments of known sizes",
        ),
    ],
)
def test_refusals_name_the_place(text: str, message: str) -> None:
    with pytest.raises(interp.ProgramError, match=message) as error:
        emulate_text(text, file="x.mlir")
    assert str(error.value).startswith("x.mlir:1:")


def test_stochastic_rounding_in_loops_and_branches() -> None:
    x, y = (np.arange(i, i + 8).astype(ml_dtypes.float8_e4m3fn) / 7 for i in (1, 5))
    text = PROGRAMS["a loop, a branch and a call"]
    check(text, [x, y], Policy(rounding="stochastic"))
    text = text.replace("stablehlo.return %p", "%q = stablehlo.add %v, %v : tensor<8xf8E4M3FN>\n stablehlo.return %p")
    with pytest.raises(interp.ProgramError, match="expected no stochastic rounding in a region"):
        emulate_text(text, Policy(rounding="stochastic"))


def test_emulated_program_in_the_interpreter() -> None:
    """The rewritten program is plain StableHLO, which the interpreter runs too: a third arithmetic beside its two."""
    x = np.random.default_rng(3).standard_normal(999).astype(np.float32)
    text = _unary("convert", "f32", "f8E4M3FN", 999)
    assert interp.load(emulate_text(text))(x)[0].tobytes() == x.astype(ml_dtypes.float8_e4m3fn).tobytes()


def test_broken_rounding_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from minihlo.interp.emulate import rounding

    monkeypatch.setattr(rounding, "_rounds_up", lambda _rounding, _kept, rest, *_: rest < 0)
    x = np.arange(997, dtype=np.int32)
    with pytest.raises(AssertionError, match="differ"):
        check(_unary("convert", "i32", "f8E4M3FN", 997), [x])


def test_commands(tmp_path: Path) -> None:
    program, out = tmp_path / "p.mlir", tmp_path / "q.mlir"
    program.write_text(PROGRAMS["comparisons"])
    inputs = ["--input", "8xf8E4M3FN=1,2,3,4,-1,nan,0,-0.0", "--input", "8xf8E4M3FN=2"]
    _minihlo("emulate", program, "-o", out)
    plain, there, rewritten = (
        _minihlo("run", path, *inputs, *more)
        for path, more in ((program, ()), (program, ("--on", "jax:cpu")), (out, ()))
    )
    assert plain == there == rewritten
    _minihlo("emulate", program, "-o", tmp_path / "a.mlirbc", "--for-version", "1.0.0")
    assert (tmp_path / "a.mlirbc").read_bytes().startswith(b"ML\xefR")
    assert _minihlo("run", tmp_path / "a.mlirbc", *inputs) == plain
    program.write_text(program.read_text().replace("E4M3FN", "E3M4"))  # which came later
    with pytest.raises(AssertionError, match="--codes leaves out"):
        _minihlo("emulate", program, "-o", out, "--for-version", "1.0.0")


def test_checks_run_on_a_backend(tmp_path: Path) -> None:
    program = tmp_path / "p.mlir"
    program.write_text(
        "func.func @main() {\n%a = stablehlo.constant dense<1.0> : tensor<2xf8E4M3FN>\n"
        "%b = stablehlo.add %a, %a : tensor<2xf8E4M3FN>\n"
        "check.expect_eq_const %b, dense<3.0> : tensor<2xf8E4M3FN>\nreturn\n}\n"
    )
    command = [sys.executable, "-m", "minihlo.interp.cli", "run", str(program), "--on", "jax:cpu"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "p.mlir:4" in result.stderr


def _minihlo(*words: object) -> str:
    command = [sys.executable, "-m", "minihlo.interp.cli", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout
