"""`interp.profile`: every number against counts element by element, in fractions; wherever an operation stands."""

import math
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.numerics.profile import Profile, profile
from minihlo.interp.numerics.profile_tensors import TensorProfile
from minihlo.ops.minifloat.formats import FORMATS as OURS
from tests import oracle
from tests.numerics.profile_oracle import assert_same, counts
from tests.oracle_numbers import FORMATS, decode

NARROW = [name for name, f in FORMATS.items() if f.bits <= 16]


def numbers(size: int = 300) -> np.ndarray:
    """f32 of all magnitudes, with zeros, infinities, NaN, and ties of each format's ends."""
    rng = np.random.default_rng(7)
    spread = rng.normal(size=size) * np.exp2(rng.integers(-30, 20, size))
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 448, 464, 465, -480, 240, 248, 57344, 61440, 6, 7, 2.0**-10]
    wide = [3.38953139e38, 3.4e38, 1e-40, 2.0**-133, 2.0**-134, 1.5 * 2.0**-127]
    return np.array([*special, *wide, *spread], np.float32)


def codes(x: Any) -> list[int]:
    x = np.ascontiguousarray(x)
    return [int(c) for c in x.reshape(-1).view(f"u{x.dtype.itemsize}")]


def values(x: Any) -> list[Any]:
    """The elements of an array as values of the oracle."""
    x = np.ascontiguousarray(x)
    name = next(f.name for f in OURS.values() if f.dtype == x.dtype)
    return [decode(FORMATS[name], c & ((1 << FORMATS[name].bits) - 1)) for c in codes(x)]


def only(p: Profile, op: str, form: str | None = None) -> TensorProfile:
    (tensor,) = [t for t in p.tensors if t.short == op and (form is None or t.statistics.format.name == form)]
    return tensor


@pytest.mark.parametrize("name", NARROW)
def test_a_conversion_is_counted_as_by_hand(name: str) -> None:
    x = numbers()
    text = f"""func.func @main(%x: tensor<{x.size}xf32>) -> tensor<{x.size}x{name}> {{
      %0 = stablehlo.convert %x : (tensor<{x.size}xf32>) -> tensor<{x.size}x{name}>
      return %0 : tensor<{x.size}x{name}>
    }}"""
    p = profile(text, x)
    tensor = only(p, "convert")
    assert_same(tensor.statistics.data(), counts(name, codes(p.results[0]), values(x)))
    assert (tensor.statistics.elements, tensor.executions) == (x.size, 1)


@pytest.mark.parametrize(
    "name", [n if FORMATS[n].bits <= 8 else pytest.param(n, marks=pytest.mark.exhaustive) for n in NARROW]
)
def test_every_code_of_an_argument_is_counted_as_by_hand(name: str) -> None:
    fmt = OURS[name]
    x = np.arange(1 << fmt.bits, dtype=fmt.code_dtype).view(fmt.dtype)
    t = f"tensor<{x.size}x{name}>"
    p = profile(f"func.func @main(%x: {t}) -> {t} {{ return %x : {t} }}", x)
    (tensor,) = p.tensors
    assert_same(tensor.statistics.data(), counts(name, codes(x)))
    assert (tensor.op, tensor.statistics.compared) == ("argument", 0)


@pytest.mark.exhaustive
def test_many_codes_are_counted_as_few() -> None:
    x = np.tile(np.arange(1 << 16, dtype=np.uint16).view(jnp.bfloat16), 2)
    t = f"tensor<{x.size}xbf16>"
    (tensor,) = profile(f"func.func @main(%x: {t}) -> {t} {{ return %x : {t} }}", x).tensors
    once = counts("bf16", codes(x[: 1 << 16]))
    got = tensor.statistics.data()
    assert {k: got[k] for k in ("zeros", "nans", "subnormals", "infinities")} == {
        k: 2 * once[k] for k in ("zeros", "nans", "subnormals", "infinities")
    }
    assert got["histogram"] == {k: 2 * n for k, n in once["histogram"].items()}


@pytest.mark.parametrize(("name", "op"), [("f8E4M3FN", "multiply"), ("f8E5M2", "add"), ("f8E4M3FNUZ", "multiply"),
                                          ("f16", "add"), ("bf16", "multiply"), ("f4E2M1FN", "subtract")])  # fmt: skip
def test_arithmetic_is_counted_as_by_hand(name: str, op: str) -> None:
    fmt, n = OURS[name], 1500
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 1 << fmt.bits, n).astype(fmt.code_dtype).view(fmt.dtype) for _ in range(2))
    t = f"tensor<{n}x{name}>"
    text = f"func.func @main(%x: {t}, %y: {t}) -> {t} {{ %0 = stablehlo.{op} %x, %y : {t}\n return %0 : {t} }}"
    p = profile(text, x, y)
    function = {"multiply": oracle.multiply, "add": oracle.add}.get(op, lambda a, b: oracle.add(a, oracle.negate(b)))
    exact = [function(a, b) for a, b in zip(values(x), values(y), strict=True)]
    assert_same(only(p, op).statistics.data(), counts(name, codes(p.results[0]), exact))


def test_a_dot_and_a_sum_are_counted_as_by_hand() -> None:
    rng = np.random.default_rng(4)
    a, b = (rng.normal(size=s).astype(jnp.float8_e4m3fn) for s in ((6, 20), (20, 5)))

    def f(a: Any, b: Any) -> Any:
        c = jax.lax.dot(a, b, preferred_element_type=jnp.bfloat16)
        return c, jax.lax.reduce(c, jnp.bfloat16(0), jax.lax.add, (0,))

    p = profile(f, a, b)
    x, y = (np.array(values(m), object).reshape(m.shape) for m in (a, b))
    assert_same(only(p, "dot_general").statistics.data(), counts("bf16", codes(p.results[0]), (x @ y).ravel().tolist()))
    sums = np.array(values(p.results[0]), object).reshape(6, 5).sum(axis=0).tolist()
    assert_same(only(p, "reduce").statistics.data(), counts("bf16", codes(p.results[1]), sums))


def small(x: Any) -> Any:
    return (x * jnp.bfloat16(2.0**-9)).astype(jnp.float8_e4m3fn)


PLACES: dict[str, Any] = {
    "jit": lambda x: jax.jit(small)(x),
    "vmap": lambda x: jax.vmap(small)(x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c, small(row)), 0, x)[1],
    "map": lambda x: jax.lax.map(small, x),
    "cond": lambda x: jax.lax.cond(x[0, 0] == x[0, 0], small, lambda x: x.astype(jnp.float8_e4m3fn), x),
    "while": lambda x: jax.lax.while_loop(
        lambda s: s[0] < 4, lambda s: (s[0] + 1, s[1].at[s[0]].set(small(x[s[0]]))),
        (0, jnp.zeros((4, 8), jnp.float8_e4m3fn)))[1],
    "remat": lambda x: jax.checkpoint(small)(x),
    "interp.jit": lambda x: interp.jit(small)(x),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_operation_is_counted_wherever_it_stands(place: str) -> None:
    x = np.random.default_rng(5).normal(size=(4, 8)).astype(jnp.bfloat16)
    p = profile(PLACES[place], x)
    tensors = [t for t in p.tensors if t.short == "convert" and t.statistics.format.name == "f8E4M3FN" and t.executions]
    exact = [v * Fraction(1, 512) for v in values(x)]
    got = np.asarray(p.results[0])
    np.testing.assert_array_equal(got.view(np.uint8), (x * jnp.bfloat16(2.0**-9)).astype(got.dtype).view(np.uint8))
    assert len(tensors) == 1
    assert_same(tensors[0].statistics.data(), counts("f8E4M3FN", codes(got), exact))
    assert tensors[0].executions == (4 if place in ("scan", "map", "while") else 1)
    assert tensors[0].source == "return (x * jnp.bfloat16(2.0**-9)).astype(jnp.float8_e4m3fn)"


def test_each_device_of_a_manual_computation_is_counted() -> None:
    text = """
    sdy.mesh @mesh = <["x"=4]>
    func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf8E5M2> {
      %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>]
        manual_axes={"x"} (%a: tensor<2x4xf32>) {
        %1 = stablehlo.convert %a : (tensor<2x4xf32>) -> tensor<2x4xf8E5M2>
        sdy.return %1 : tensor<2x4xf8E5M2>
      } : (tensor<8x4xf32>) -> tensor<8x4xf8E5M2>
      return %0 : tensor<8x4xf8E5M2>
    }"""
    x = (np.random.default_rng(8).normal(size=(8, 4)) * 1e-5).astype(np.float32)
    p = profile(text, x)
    assert_same(only(p, "convert").statistics.data(), counts("f8E5M2", codes(p.results[0]), values(x)))
    assert only(p, "convert").executions == 4


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2)])
def test_scalars_and_empty_tensors_are_counted(shape: tuple[int, ...]) -> None:
    x = np.full(shape, 1e-4, np.float32)
    s = only(profile(lambda x: x.astype(jnp.float8_e4m3fn), x), "convert").statistics
    assert (s.elements, s.underflows) == (x.size, x.size)
    assert s.data()["scale_exponent"] == (22 if x.size else None)  # 448 = 1.75 * 2^8; 1e-4 = 1.64 * 2^-14


def test_counts_of_runs_add_up_and_steps_are_kept_apart() -> None:
    f = jax.jit(lambda x: x.astype(jnp.float8_e4m3fn))
    x = numbers()
    from minihlo.interp import plugin
    from minihlo.interp.diff.compare import trace

    plugin.initialize()
    source, arrays, _ = trace(f, (x,), {}, None, None, "minihlo")
    p = Profile()
    p.run(source, arrays)
    p.run(source, [np.zeros_like(x)])
    tensor = only(p, "convert")
    right = counts("f8E4M3FN", [*codes(p.results[0]), *codes(x.astype(jnp.float8_e4m3fn))], [0] * x.size + values(x))
    assert_same(tensor.statistics.data(), right)
    assert [s.elements for s in tensor.steps] == [x.size] * 2
    assert [s.underflow for s in tensor.steps] == [right["underflows"] / x.size, 0]


def test_the_worst_line_comes_first_with_what_would_help() -> None:
    def f(x: Any) -> Any:
        a = x.astype(jnp.float8_e4m3fn)
        b = (x * 2.0**-18).astype(jnp.float8_e4m3fn)
        c = (x * 2.0**12).astype(jnp.float8_e4m3fn)
        return a, b, c

    p = profile(f, np.linspace(1, 8, 64, dtype=np.float32))
    first, second = p.sentences()
    line = f.__code__.co_firstlineno
    assert first == (
        f"{__file__}:{line + 3}: 100 % of the f8E4M3FN results of convert overflow; a scale of 2^-7 would keep them, "
        "f8E5M2 would keep them without a scale"
    )
    assert second.startswith(f"{__file__}:{line + 2}: 100 % of the f8E4M3FN results of convert underflow to zero; ")
    assert "a scale of 2^23 would keep them" in second
    assert str(p).splitlines()[1] == f"1. {first}"


def test_an_infinity_or_nan_of_finite_operands_is_named() -> None:
    def f(x: Any) -> Any:
        y = jnp.exp(x)
        return y / jnp.sum(y)

    p = profile(f, np.full(8, 1000, np.float32))
    assert p.sentences()[0].endswith("100 % of the f32 results of exponential become an infinity or NaN")
    assert only(p, "divide").nonfinite_created == 0
    assert only(p, "divide").statistics.nans == 8


def test_blocks_are_counted_as_by_hand() -> None:
    x = np.zeros((2, 64), np.float32)
    x[0, 0], x[0, 1:5], x[0, 40] = 448, 2.0**-12, 3
    x[1, 0] = 460  # the scale by the floor rule is that of 448, so this saturates; 464 is half a step beyond
    x[1, 1] = 500
    p = profile(lambda x: x.astype(jnp.float8_e5m2), x, blocks=["mxfp8_e4m3", "nvfp4"])
    b = only(p, "convert").blocks["mxfp8_e4m3"].data()
    assert (b["elements"], b["blocks"]) == (128, 4)
    assert (b["underflows"], b["blocks_with_underflow"], b["blocks_lost"]) == (4, 1, 0)
    assert (b["saturations"], b["blocks_with_saturation"]) == (1, 1)
    assert b["scales"] == {"-127": 1, "-7": 1, "0": 2}
    noise = 4 * Fraction(1, 1 << 24) + (460 - 448) ** 2 + (500 - 448) ** 2
    signal = 448**2 + 4 * Fraction(1, 1 << 24) + 9 + 460**2 + 500**2
    assert math.isclose(b["sqnr_db"], 10 * math.log10(signal / noise), rel_tol=1e-12)


def test_what_is_no_program_is_refused_in_one_line() -> None:
    f = jnp.sin
    for call, words in (
        (lambda: profile(3), "expected a function or a program, got int"),
        (lambda: profile(f, np.float32(1), blocks="mxfp9"), "expected a block format"),
        (lambda: profile("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"), "got 0"),
        (lambda: profile(f, np.float32(1), policy="x"), "expected a minihlo.interp.Policy"),
    ):
        with pytest.raises(interp.InputError, match=words):
            call()
