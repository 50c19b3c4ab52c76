"""Functions of few elements take a shorter way than those of many: the bits are the same, and right."""

from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.elementwise.ziv import ziv
from minihlo.ops.minifloat.formats import FORMATS

NAMES = ["exponential", "tanh", "log", "rsqrt", "sine", "logistic", "cbrt", "log_plus_one", "exponential_minus_one"]


def program(name: str, size: int) -> str:
    t = f"tensor<{size}xf32>"
    return f"func.func @main(%x: {t}) -> {t} {{ %r = stablehlo.{name} %x : {t} return %r : {t} }}"


def patterns(count: int) -> np.ndarray:
    rng = np.random.default_rng(8)
    x = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
    x[::3] = rng.standard_normal(len(x[::3])).astype(np.float32)
    x[:10] = 0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1, 2**-126, -(2**-126)
    return x


@pytest.mark.parametrize("name", NAMES)
def test_few_elements_have_the_bits_of_many(name):
    x = patterns(1 << 15)
    (many,) = interp.load(program(name, len(x)), without="compiled")(x)
    few = interp.load(program(name, 256), without="compiled")
    results = [few(part)[0] for part in x.reshape(-1, 256)]
    assert np.concatenate(results).view(np.uint32).tolist() == np.asarray(many).view(np.uint32).tolist()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize("count", [0, 1, 300, 700, 5000])
def test_what_the_host_gets_wrong_near_halfway_is_computed_exactly(dtype, count):
    """A host function that is off by 15 units in the last place of f64, just about halfway between two numbers."""
    fmt = FORMATS[{4: "f32", 2: "bf16" if dtype is ml_dtypes.bfloat16 else "f16"}[np.dtype(dtype).itemsize]]
    half = 2.0 ** -(fmt.mantissa_bits + 1)
    x = np.linspace(1, 1.98, count).astype(dtype)
    wanted = x.astype(np.float64)
    signs = np.resize([1.0, -1.0, 0.0, 15.0, -15.0], count)
    asked: list[int] = []

    def wide(rows: np.ndarray, out: np.ndarray) -> None:
        # Halfway, and up to 15 units above or below; the exact results are the operands.
        out[...] = rows + half + np.resize(signs, rows.shape) * 2.0**-52

    def direct(number):
        asked.append(len(np.atleast_1d(number.sign)))
        return number

    result = ziv(direct, wide, fmt, 1)(x)
    assert result.astype(np.float64).tolist() == wanted.tolist()
    assert sum(asked) == count


@pytest.mark.parametrize("name", NAMES)
def test_a_result_may_be_written_over_its_operand(name):
    """Also where the operand is needed once more, to compute exactly what lies near halfway."""
    x = patterns(4096)
    wanted = interp.load(program(name, len(x)), without="compiled")(x)[0]
    t = f"tensor<{len(x)}xf32>"
    text = f"""func.func @main(%x: {t}, %one: {t}) -> {t} {{
      %y = stablehlo.multiply %x, %one : {t}
      %r = stablehlo.{name} %y : {t}
      %s = stablehlo.multiply %r, %one : {t}
      return %s : {t}
    }}"""
    (got,) = interp.load(text, without="compiled")(x, np.ones_like(x))
    assert np.array_equal(got, wanted, equal_nan=True)
    assert np.signbit(got).tolist() == np.signbit(wanted).tolist()


def test_the_host_s_error_is_mended_in_place():
    fmt = FORMATS["f32"]
    x = np.linspace(1, 1.98, 700).astype(np.float32)

    def wide(rows: np.ndarray, out: np.ndarray) -> None:
        out[...] = rows + 2.0 ** -(fmt.mantissa_bits + 1)

    kernel = ziv(lambda number: number, wide, fmt, 1)
    place = x.copy()
    assert kernel(place, place) is place
    assert place.tolist() == x.tolist()


def test_a_function_of_few_elements_allocates_its_result_alone():
    x = np.linspace(-3, 3, 1 << 13).astype(np.float32)
    t = f"tensor<{len(x)}xf32>"
    text = f"""func.func @main(%x: {t}) -> {t} {{
      %s = stablehlo.multiply %x, %x : {t}
      %y = stablehlo.multiply %s, %x : {t}
      %z = stablehlo.add %y, %x : {t}
      %r = stablehlo.tanh %z : {t}
      %o = stablehlo.multiply %r, %x : {t}
      return %o : {t}
    }}"""
    run = interp.load(text, without="compiled")
    run(x)
    tracemalloc.start()
    try:
        run(x)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2.5 * x.nbytes  # what the group has computed, and its result; in f64 it would be four times as much
