"""Functions of single numbers in loops are rounded correctly, as those of arrays are."""

from __future__ import annotations

import math

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile import scalars
from minihlo.interp.compile.explain import listing
from minihlo.ops.op import ops
from minihlo.ops.traits import Kernel
from minihlo.ops.types import ELEMENT_TYPES

from .test_recurrences import text_of

RNG = np.random.default_rng(24)
NAMES = sorted(o.name for o in ops().values() if o.traits.scalar is not None and o.traits.scalar.wide is not None)
EXACT = {
    "stablehlo.atan2": mpmath.atan2,
    "stablehlo.cosine": mpmath.cos,
    "stablehlo.exponential": mpmath.exp,
    "stablehlo.exponential_minus_one": mpmath.expm1,
    "stablehlo.log": mpmath.log,
    "stablehlo.log_plus_one": mpmath.log1p,
    "stablehlo.logistic": lambda x: 1 / (1 + mpmath.exp(-x)),
    "stablehlo.power": mpmath.power,
    "stablehlo.rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "stablehlo.sine": mpmath.sin,
    "stablehlo.sqrt": mpmath.sqrt,
    "stablehlo.tan": mpmath.tan,
    "stablehlo.tanh": mpmath.tanh,
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3.4e38, -3.4e38, 88.72, 88.73, -87.4, -104.0]
#: Results of these lie near halfway: cos(2**-12), exp(2**-24), …
POWERS = [s * 2.0**-k for k in range(1, 40) for s in (1, -1)] + [1 + 2.0**-k for k in range(1, 24)]


def programs(name: str, rows: list[np.ndarray]) -> tuple[str, str]:
    """The function of each number, in turns that hang on the turn before, so that they stay; and that of arrays."""
    function, stands_for = (lax.tanh, "stablehlo.tanh") if len(rows) == 1 else (lax.atan2, "stablehlo.atan2")

    def turn(c, values):
        return c + 1, function(jnp.where(c >= 0, values[0], 0), *values[1:])

    turns = text_of(lambda *rows: lax.scan(turn, jnp.float32(0), rows)[1], *rows)
    return turns.replace(stands_for, name), text_of(function, *rows).replace(stands_for, name)


def numbers(name: str) -> list[np.ndarray]:
    bits = RNG.integers(0, 1 << 32, 600, np.uint32).view(np.float32)
    x = np.concatenate([np.float32(SPECIAL), np.float32(POWERS), bits, RNG.standard_normal(600).astype(np.float32) * 4])
    return [x, RNG.permutation(x)] if name in ("stablehlo.atan2", "stablehlo.power") else [x]


def test_all_functions_are_here():
    assert set(NAMES) == set(EXACT)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_of_single_numbers(name):
    rows = numbers(name)
    turns, of_arrays = programs(name, rows)
    plan = listing(interp.load(turns).plan())
    assert f"{name}\n" in plan.split("# @main")[0]
    (found,) = interp.load(turns)(*rows)
    assert np.asarray(found).tobytes() == np.asarray(interp.load(of_arrays)(*rows)[0]).tobytes()
    for i in [*range(len(SPECIAL), len(SPECIAL) + len(POWERS)), *range(700, 740)]:
        operands = [float(r[i]) for r in rows]
        if not all(map(np.isfinite, operands)):
            continue
        with mpmath.workprec(400):
            try:
                exact = EXACT[name](*map(mpmath.mpf, operands))
            except ZeroDivisionError:
                continue
        if isinstance(exact, mpmath.mpf) and 2.0**-120 < abs(exact) < 2.0**120:
            with mpmath.workprec(24):
                assert float(+exact) == float(found[i]), operands


@pytest.mark.parametrize(("units", "is_exact"), [(0, True), (8, True), (-15, True), (40, False), (-40, False)])
def test_what_lies_near_halfway_is_computed_exactly(units, is_exact):
    """The error of f64 may be 16 units in its last place."""

    def wide(x: float) -> float:
        return (x + 2.0**-24) * (1 + units * 2.0**-52)

    function = scalars._rounded_once(wide, Kernel(lambda _: np.asarray(np.float32(-1))), ELEMENT_TYPES["f32"], 1)
    for x in np.float32([1, 1 + 2.0**-22, 1.5, 2 - 2.0**-23]):
        assert (function(x) == -1) == is_exact


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["i4", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64"])
def test_floats_become_integers_in_loops(target: str, source: str) -> None:
    """Truncated; what is too large is the nearest end of the range, and NaN is 0."""
    element = ELEMENT_TYPES[target]
    low = 0 if target[0] == "u" else -(1 << (element.bits - 1))
    high = low + (1 << element.bits) - 1
    ends = [float(v + d) for v in (low, high, high + 1) for d in (-1, -0.5, 0, 0.5, 1)]
    numbers = [0.0, -0.0, 0.99, -0.99, 7.5, -7.9, 1e-45, 1e30, -1e30, math.inf, -math.inf, math.nan, *ends]
    x = np.array(numbers, ELEMENT_TYPES[source].dtype)
    n = len(x)
    text = f"""
        func.func @main(%x: tensor<{n}x{source}>, %order: tensor<{n}xi32>) -> tensor<{n}x{target}> {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %n = stablehlo.constant dense<{n}> : tensor<i32>
          %empty = stablehlo.constant dense<0> : tensor<{n}x{target}>
          %r:2 = stablehlo.while(%i = %zero, %a = %empty) : tensor<i32>, tensor<{n}x{target}>
            cond {{ %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %t : tensor<i1> }}
            do {{ %s = stablehlo.dynamic_slice %order, %i, sizes = [1] : (tensor<{n}xi32>, tensor<i32>) -> tensor<1xi32>
                 %p = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>
                 %e = stablehlo.dynamic_slice %x, %p, sizes = [1] :
                   (tensor<{n}x{source}>, tensor<i32>) -> tensor<1x{source}>
                 %f = stablehlo.reshape %e : (tensor<1x{source}>) -> tensor<{source}>
                 %g = stablehlo.convert %f : (tensor<{source}>) -> tensor<{target}>
                 %h = stablehlo.reshape %g : (tensor<{target}>) -> tensor<1x{target}>
                 %b = stablehlo.dynamic_update_slice %a, %h, %p :
                   (tensor<{n}x{target}>, tensor<1x{target}>, tensor<i32>) -> tensor<{n}x{target}>
                 %j = stablehlo.add %i, %one : tensor<i32>
                 stablehlo.return %j, %b : tensor<i32>, tensor<{n}x{target}> }}
          return %r#1 : tensor<{n}x{target}>
        }}
        """
    order = np.random.default_rng(0).permutation(n).astype(np.int32)
    # The loop itself, whose turns are not put side by side.
    (found,) = interp.load(text, without="turns")(x, order)
    whole = [0 if v != v else high if v == math.inf else low if v == -math.inf else int(v) for v in x.tolist()]
    assert [int(v) for v in found] == [min(max(v, low), high) for v in whole]
