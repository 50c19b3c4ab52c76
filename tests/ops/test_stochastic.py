"""Stochastic rounding: draws are a function of seed, rounding and place, and every way gives what fractions give."""

import functools
import math
import operator
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES

N = 3000
SEED = 11
STOCHASTIC = Policy(rounding="stochastic", seed=SEED)
TYPES = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
}


@functools.cache
def philox(block: int, number: int, kind: int) -> np.ndarray:
    """The block of a counter, by numpy's generator, which steps its counter before it computes."""
    key = np.random.SeedSequence(SEED).generate_state(2, np.uint64)
    counter = (block | number << 64 | kind << 128) - 1
    words = np.array([counter >> 64 * i & (1 << 64) - 1 for i in range(4)], np.uint64)
    return np.random.Philox(key=key, counter=words).random_raw(4)


@functools.cache
def draw(place: int, number: int = 0) -> Fraction:
    """The draw of a place, as docs/policy.md defines it."""
    first = int(philox(place // 16 + 1, number, 1)[place % 16 // 4]) >> 16 * (place % 4) & 0xFFFF
    rest = int(philox(place // 4 + 1, number, 2)[place % 4]) >> 18
    return Fraction(first << 46 | rest, 1 << 62)


def rounded(value: Fraction, fmt: str, place: int, number: int = 0) -> Fraction:
    """A finite value between numbers of the format, rounded by the draw of a place."""
    precision, least, largest = FACTS[fmt]
    size = abs(value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - precision, least)
    exponent += size >= Fraction(2) ** (exponent + precision)
    step = Fraction(2) ** exponent
    low = size // step
    size = (low + (draw(place, number) < size / step - low)) * step
    assert size <= largest
    return size if value > 0 else -size


#: Significant bits, the exponent of the smallest number, and the largest number.
FACTS = {
    "f8E4M3FN": (4, -9, 448),
    "f8E5M2": (3, -16, 57344),
    "f8E4M3FNUZ": (4, -10, 240),
    "f4E2M1FN": (2, -1, 6),
    "bf16": (8, -133, Fraction(2) ** 128),
    "f16": (11, -24, 65504),
}


def exactly(x: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in x.reshape(-1)]


def operands(fmt: str, shape: tuple[int, ...] = (N,), spread: int = 2) -> np.ndarray:
    rng = np.random.default_rng(len(fmt))
    return (rng.normal(size=shape) * 2.0 ** rng.integers(-spread, 1, shape)).astype(TYPES[fmt])


def run(text: str, *arrays: np.ndarray) -> np.ndarray:
    return interp.load(text)(*arrays, policy=STOCHASTIC)[0]


def binary(name: str, fmt: str) -> str:
    t = f"tensor<{N}x{fmt}>"
    return f"func.func @main(%x: {t}, %y: {t}) -> {t} {{ %r = stablehlo.{name} %x, %y : {t}\n return %r : {t} }}"


def conversion(source: str, fmt: str, n: int = N) -> str:
    x, r = f"tensor<{n}x{source}>", f"tensor<{n}x{fmt}>"
    return f"func.func @main(%x: {x}) -> {r} {{ %r = stablehlo.convert %x : ({x}) -> {r}\n return %r : {r} }}"


def test_the_oracle_of_draws_is_tried() -> None:
    """Half of the draws of many places are below one half, those of two places, numbers and kinds differ."""
    found = [draw(i) for i in range(2000)]
    assert len(set(found)) == 2000
    assert 900 < sum(d < Fraction(1, 2) for d in found) < 1100
    assert draw(0, 1) not in found


@pytest.mark.parametrize("fmt", TYPES)
@pytest.mark.parametrize("name", ["add", "multiply", "divide"])
def test_elementwise(name: str, fmt: str) -> None:
    x, y = operands(fmt), operands(fmt)[::-1].copy()
    if name == "divide":
        y[np.abs(y.astype(float)) < 1] = 1
    ways = {"add": operator.add, "multiply": operator.mul, "divide": operator.truediv}
    program = binary(name, fmt)
    found = run(program, x, y)
    loaded = interp.load(program)
    many = {loaded(x, y, policy=STOCHASTIC)[0].tobytes() for _ in range(30)}  # some by a table
    wanted = [rounded(ways[name](a, b), fmt, i) for i, (a, b) in enumerate(zip(exactly(x), exactly(y), strict=True))]
    assert exactly(found.astype(np.float64)) == wanted
    assert many == {found.tobytes()}


@pytest.mark.parametrize("fmt", TYPES)
@pytest.mark.parametrize("source", ["f32", "f64", "bf16", "f8E4M3", "i32"])
def test_convert(source: str, fmt: str) -> None:
    rng, dtype = np.random.default_rng(1), ELEMENT_TYPES[source].dtype
    x = rng.normal(size=N) * 2.0 ** rng.integers(-30, 1, N) if source != "i32" else rng.integers(-5, 6, N)
    found = exactly(run(conversion(source, fmt), x.astype(dtype)).astype(np.float64))
    assert found == [v and rounded(v, fmt, i) for i, v in enumerate(exactly(x.astype(dtype)))]


@pytest.mark.parametrize("fmt", TYPES)
def test_functions_far_below_the_smallest_number(fmt: str) -> None:
    """e to a power, between -7 and less than what f64 has: nearly all of it is zero."""
    lowest = -120 if fmt == "bf16" else -50
    x = np.linspace(lowest, lowest / 4, N).astype(TYPES[fmt])
    text = f"func.func @main(%x: tensor<{N}x{fmt}>) -> tensor<{N}x{fmt}> {{ %r = stablehlo.exponential %x : "
    program = interp.load(text + f"tensor<{N}x{fmt}>\n return %r : tensor<{N}x{fmt}> }}")
    wanted = [rounded(Fraction(math.exp(v)), fmt, i) for i, v in enumerate(x.astype(np.float64))]
    for _ in range(30):  # the last by a table
        found = program(x, policy=STOCHASTIC)[0]
        assert exactly(found.astype(np.float64)) == wanted
    deep = np.full(N, {"bf16": -760, "f16": -760, "f4E2M1FN": -6, "f8E5M2": -760}.get(fmt, -200)).astype(TYPES[fmt])
    if fmt != "f4E2M1FN":
        assert not program(deep, policy=STOCHASTIC)[0].astype(np.float64).any()


@pytest.mark.parametrize("fmt", TYPES)
@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
def test_exact_numbers_are_not_drawn(overflow: str, fmt: str) -> None:
    most = 2.0**100 if fmt == "bf16" else 1e30
    x = np.tile(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, most, -most, 1.0], np.float32), 40)
    program = interp.load(conversion("f32", fmt, 320))
    policies = (Policy(rounding="stochastic", overflow=overflow), Policy(overflow=overflow))
    found, wanted = (program(x, policy=p)[0] for p in policies)
    assert found.tobytes() == wanted.tobytes()


def reduction(fmt: str, shape: tuple[int, int]) -> str:
    t, kept = f"tensor<{shape[0]}x{shape[1]}x{fmt}>", f"tensor<{shape[1]}x{fmt}>"
    return f"""func.func @main(%x: {t}) -> {kept} {{
      %c = stablehlo.constant dense<0.0> : tensor<{fmt}>
      %r = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0] : ({t}, tensor<{fmt}>) -> {kept}
      return %r : {kept} }}"""


def window(fmt: str, shape: tuple[int, int]) -> str:
    t = f"tensor<{shape[0]}x{shape[1]}x{fmt}>"
    return f"""func.func @main(%x: {t}) -> {t} {{
      %c = stablehlo.constant dense<0.0> : tensor<{fmt}>
      %r = "stablehlo.reduce_window"(%x, %c) ({{
        ^bb0(%a: tensor<{fmt}>, %b: tensor<{fmt}>):
          %s = stablehlo.add %a, %b : tensor<{fmt}>
          stablehlo.return %s : tensor<{fmt}>
      }}) {{window_dimensions = array<i64: {shape[0]}, 1>,
           padding = dense<[[{shape[0] - 1}, 0], [0, 0]]> : tensor<2x2xi64>}} : ({t}, tensor<{fmt}>) -> {t}
      return %r : {t} }}"""


@pytest.mark.parametrize("fmt", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(600, 1), (40, 3), (20, 100)], ids=str)
def test_sums(shape: tuple[int, int], fmt: str) -> None:
    """Few accumulators and many, and running sums: row i, column j has place i * columns + j."""
    x = operands(fmt, shape, 6)
    values, path = np.array(exactly(x)).reshape(shape), []
    totals = [Fraction(0)] * shape[1]
    for i, row in enumerate(values):
        totals = [
            total + v and rounded(total + v, fmt, i * shape[1] + j)
            for j, (total, v) in enumerate(zip(totals, row, strict=True))
        ]
        path += totals
    assert exactly(run(reduction(fmt, shape), x).astype(np.float64)) == totals
    assert exactly(run(window(fmt, shape), x).astype(np.float64)) == path


def test_a_tie_of_the_first_bits_is_decided_by_the_rest() -> None:
    """Fractions that begin with the first 16 bits of the draw, and go on above and below the rest of it."""
    x, wanted = np.empty(2000), []
    for i in range(len(x)):
        drawn = draw(i)
        first = int(drawn * 65536)
        fraction = Fraction(first, 65536) + Fraction(1 + 2 * (i % 2), 1 << 18)  # 14 bits of the rest are compared
        x[i] = float(8 + fraction)
        wanted.append(8 + (drawn < fraction))
    assert exactly(run(conversion("f64", "f8E4M3FN", 2000), x).astype(np.float64)) == wanted
    assert len({w == 8 for w in wanted[::2]}) == 2
