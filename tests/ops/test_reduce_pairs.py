"""Bodies of several ops reduce long rows in pairs of neighbours, however a program is run; short rows in order."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from minihlo import interp

from . import reference

RNG = np.random.default_rng(16)
Body = Callable[[Any, Any], Any]
#: What a program runs without; or operation by operation for a listener.
SETTINGS = ("", "tables", "watched")


def codes(x: Any) -> bytes:
    """The bits, with one NaN for all."""
    return np.where(np.isnan(x), np.float32(np.nan), x).tobytes()


def in_order(body: Body, start: Any, rows: Sequence[Any]) -> Any:
    for row in rows:
        start = body(start, row)
    return start


def in_pairs(body: Body, start: Any, rows: Sequence[Any]) -> Any:
    rows = list(rows)
    while len(rows) > 1:
        last = rows[-1:] if len(rows) % 2 else []
        rows = [body(rows[i], rows[i + 1]) for i in range(0, len(rows) - 1, 2)] + last
    return body(start, rows[0])


def expected(body: Body, start: Any, rows: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return (in_order if len(rows) < 32 else in_pairs)(body, start, rows)


def results(text: str, setting: str, *arrays: Any) -> list[np.ndarray]:
    """Of a program run without some optimizations, or operation by operation for a listener."""
    if setting != "watched":
        return [np.asarray(v) for v in interp.load(text, without=setting)(*arrays)]
    program = interp.load(text)
    return [np.asarray(v) for v in program.run(program.plan(listener=lambda *_: None), arrays)]


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def welford(where: Callable[..., Any]) -> Body:
    def body(p: Any, q: Any) -> Any:
        n, d = p[0] + q[0], q[1] - p[1]
        share = q[0] / where(n == 0, np.float32(1), n)
        return n, p[1] + d * share, p[2] + q[2] + d * d * p[0] * share

    return body


@pytest.mark.parametrize("special", [1.0, np.nan, np.inf, 1e-45])
@pytest.mark.parametrize("shape", [(0,), (1,), (31,), (32,), (33,), (300,), (20, 30)])
def test_accumulators_that_mix(shape, special):
    x = RNG.standard_normal(shape).astype(np.float32)
    x.reshape(-1)[5:6] = special
    inputs, zero = (np.ones_like(x), x, np.zeros_like(x)), np.float32(0)
    rows = [tuple(np.float32(v) for v in row) for row in zip(*(v.reshape(-1) for v in inputs), strict=True)]
    totals = expected(welford(np.where), (zero,) * 3, rows) if rows else (zero,) * 3

    def run(*inputs):
        return lax.reduce(inputs, (zero,) * 3, welford(jnp.where), range(x.ndim))

    text = text_of(run, *inputs)  # jnp.where is a function of the program
    for setting in SETTINGS:
        assert [codes(v) for v in results(text, setting, *inputs)] == [codes(np.float32(t)) for t in totals], setting


TYPES = [jnp.bfloat16, jnp.float16, np.float64, np.int32, np.int8, ml_dtypes.float8_e5m2]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: np.dtype(t).name)
def test_types(dtype):
    """Two accumulators; a body that is not symmetric, so that each place counts."""
    dtype = np.dtype(dtype)
    x = (RNG.standard_normal((2, 45)) * 3).astype(dtype)
    wide = np.float64 if dtype.kind != "i" and dtype.name != "float64" else dtype

    def rounded(v: Any) -> Any:
        return np.asarray(v).astype(dtype)

    def product(a: Any, b: Any) -> Any:
        return rounded(a.astype(wide) * b.astype(wide))

    def body(p: Any, q: Any) -> Any:
        third = product(p[1], q[0])
        return rounded(p[0].astype(wide) - q[0].astype(wide)), rounded(third.astype(wide) + q[1].astype(wide))

    rows = [(x[0, i : i + 1], x[1, i : i + 1]) for i in range(45)]
    one = np.ones(1, dtype)
    wanted = expected(body, (one, one), rows)

    def run(a, b):
        return lax.reduce((a, b), (dtype.type(1),) * 2, lambda p, q: (p[0] - q[0], p[1] * q[0] + q[1]), (0,))

    with jax.enable_x64(dtype.itemsize == 8):
        text = text_of(run, *x)
    for setting in SETTINGS:
        assert [v.tobytes() for v in results(text, setting, *x)] == [w.tobytes() for w in wanted]


PROGRAM = """
func.func @main(%x: tensor<40xTYPE>, %i: tensor<TYPE>) -> tensor<TYPE> {
  %two = stablehlo.constant dense<2.0> : tensor<TYPE>
  %c = stablehlo.constant dense<-2.0> : tensor<TYPE>
  %three = stablehlo.negate %c : tensor<TYPE>
  %r = "stablehlo.reduce"(%x, %i) ({
  ^bb0(%p: tensor<TYPE>, %q: tensor<TYPE>):
    %h = stablehlo.multiply %q, FACTOR : tensor<TYPE>
    %s = stablehlo.subtract %p, %h : tensor<TYPE>
    stablehlo.return %s : tensor<TYPE>
  }) {dimensions = array<i64: 0>} : (tensor<40xTYPE>, tensor<TYPE>) -> tensor<TYPE>
  return %r : tensor<TYPE>
}"""


@pytest.mark.parametrize(
    ("factor", "order"), [("%two", in_pairs), ("%three", in_order)], ids=["a constant", "a computed value"]
)
def test_values_from_around_a_body(factor, order):
    """The order hangs on the program, not on what is folded when it is planned."""
    x = RNG.standard_normal(40).astype(np.float32)
    wanted = order(lambda p, q: np.float32(p - q * np.float32(2)), np.float32(3), x)
    text = PROGRAM.replace("TYPE", "f32").replace("FACTOR", factor)
    for setting in SETTINGS:
        assert results(text, setting, x, np.float32(3))[0].tobytes() == wanted.tobytes(), setting


@pytest.mark.parametrize("element", ["f8E5M2", "bf16"])
def test_stochastic_rounding_draws_for_all_pairs_at_once(element):
    """Every way draws the same, and the mean of many sums is that of exact ones."""
    text = PROGRAM.replace("TYPE", element).replace("FACTOR", "%two").replace("subtract", "add")
    dtype = np.dtype(ml_dtypes.float8_e5m2 if element == "f8E5M2" else ml_dtypes.bfloat16)
    x, zero = np.full(40, 1.0625).astype(dtype), np.asarray(0, dtype)
    found = []
    for seed in range(20):
        policy = interp.Policy(rounding="stochastic", seed=seed)
        each = [np.asarray(interp.load(text, without=setting)(x, zero, policy=policy)[0]) for setting in SETTINGS[:-1]]
        assert len({v.tobytes() for v in each}) == 1
        found.append(float(each[0]))
    # A pair of p and q is p + 2 q: the number of a place is multiplied by 2 for each level on whose right it stands.
    exact = in_pairs(lambda p, q: p + 2 * q, 0.0, [float(v) for v in x])
    assert len(set(found)) > 1
    assert abs(np.mean(found) / exact - 1) < 0.1


@pytest.mark.parametrize("expression", ["%q, %p", "%p, %q"])
def test_a_body_of_one_operation_is_folded_in_order(expression):
    text = f"""
    func.func @main(%x: tensor<40xf32>, %i: tensor<f32>) -> tensor<f32> {{
      %r = "stablehlo.reduce"(%x, %i) ({{
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.subtract {expression} : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) {{dimensions = array<i64: 0>}} : (tensor<40xf32>, tensor<f32>) -> tensor<f32>
      return %r : tensor<f32>
    }}"""
    x = RNG.standard_normal(40).astype(np.float32)
    body = (lambda p, q: p - q) if expression == "%p, %q" else (lambda p, q: q - p)
    for setting in SETTINGS:
        assert results(text, setting, x, np.float32(3))[0].tobytes() == in_order(body, np.float32(3), x).tobytes()


def test_short_rows_are_those_of_the_reference_interpreter():
    x = RNG.standard_normal((6, 31)).astype(np.float32)

    def run(x):
        return lax.reduce(x, np.float32(0), lambda p, q: jnp.sqrt(p * p + q * q), (1,))

    text = text_of(run, x)
    (reference_result,) = reference.evaluate([(text, [x])])[0]
    assert np.asarray(interp.load(text)(x)[0]).tobytes() == np.asarray(reference_result).tobytes()
