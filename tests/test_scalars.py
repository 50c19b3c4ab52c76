"""Functions of single numbers in loops are rounded correctly, as those of arrays are."""

from __future__ import annotations

import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile import scalars
from minihlo.interp.compile.explain import listing
from minihlo.ops.kernel import Kernel
from minihlo.ops.registry import ops
from minihlo.ops.types import ELEMENT_TYPES

from .test_recurrences import text_of

RNG = np.random.default_rng(24)
NAMES = sorted(o.name for o in ops().values() if o.facts.scalar is not None and o.facts.scalar.wide is not None)
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
