"""Loops over a few elements that compute with single numbers: no bit depends on it.

What is expected is computed by numpy in a loop in Python, by sorting, by JAX's generator of random numbers on whole
numbers, or by the same program without optimizations, which calls numpy's array functions.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile import scalars
from minihlo.interp.compile.group import Attributes
from minihlo.interp.compile.kernels import Kernels
from minihlo.ops.engine import compiled
from minihlo.ops.engine.speed import NAMES
from minihlo.ops.policy import Policy
from minihlo.ops.random_stream import RandomStream
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from ..conftest import STAND_IN, Tune
from .test_recurrences import codes, plan_of, text_of

RNG = np.random.default_rng(31)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3e38], np.float32)
F8, I16 = jnp.float8_e4m3fn, np.int16
NOTE = "single numbers"
KEY = np.array([3, 9], np.uint32)
TURN = np.array([[0.6, -0.8], [0.3, 0.4]], np.float32)


def rows_of(count: int, *shape: int) -> np.ndarray:
    """Rows of numbers of both signs; the last ones are special."""
    rows = RNG.standard_normal((count, *shape)).astype(np.float32)
    rows[-8:] = RNG.choice(SPECIAL, (8, *shape))
    return rows


def results_of(text: str, *arguments: Any, without: str = "") -> list[bytes]:
    found = interp.load(text, without=without)(*arguments)
    return [codes(v) for v in (found if isinstance(found, tuple | list) else [found])]


#: A body that takes a state and a row, the first state, and the rows.
BODIES: dict[str, tuple[Any, Any, np.ndarray]] = {
    "moved": (
        lambda c, v: (jnp.concatenate([c[1:], c[:1] + v[:1]])[::-1].reshape(3, 1).T[0], c),
        np.zeros(3, np.float32),
        rows_of(40, 2),
    ),
    "padded": (
        lambda c, v: (lax.pad(c[:2] * v, np.float32(2), [(1, 0, 0)]), c[0]),
        np.ones(3, np.float32),
        rows_of(40),
    ),
    "a matrix": (lambda c, v: (c.T * 0.5 + v, c.sum(0)), np.ones((2, 2), np.float32), rows_of(40, 2)),
    "sums": (lambda c, v: (v - c.sum() / 7, (v.max(), c.min())), np.zeros(5, np.float32), rows_of(40, 5)),
    "sums of rows": (
        lambda c, v: (c + (c[:, None] * v).sum(1) / 3, v.prod(0)),
        np.ones(2, np.float32),
        rows_of(40, 2, 9),
    ),
    "argmax": (lambda c, v: (c * 0.5 + jnp.argmax(c * v), c), np.zeros(5, np.float32), rows_of(40, 5)),
    "functions": (lambda c, v: (jnp.tanh(c + v), jnp.exp(v) * jnp.sin(c)), np.zeros(3, np.float32), rows_of(40, 3)),
    "extremes": (lambda c, v: (jnp.maximum(-c, v), jnp.minimum(c, v)), np.zeros(4, np.float32), rows_of(40, 4)),
    "a product": (lambda c, v: (jnp.outer(c, v)[0] + c, c @ v + v[0] * c[1]), np.ones(3, np.float32), rows_of(40, 3)),
    "f64": (
        lambda c, v: (c / 3 + v, jnp.where(c > v, c, v)),
        np.ones(3),
        RNG.standard_normal((40, 3)),
    ),
    "codes": (lambda c, v: ((c * F8(0.5) + v), c[::-1]), np.ones(3, F8), rows_of(40, 3).astype(F8)),
    "i16": (
        lambda c, v: (c * I16(5) + v, (c >> I16(1)) ^ v),
        np.ones(3, I16),
        RNG.integers(-(2**15), 2**15, (40, 3)).astype(I16),
    ),
    "remainders": (
        lambda c, v: ((c * 5 + v) % 97, c // (v | 1)),
        np.ones(3, np.int32),
        RNG.integers(-(2**31), 2**31, (40, 3)).astype(np.int32),
    ),
    "f16": (
        lambda c, v: (c * np.float16(0.75) + v, (c[0] / v[1] - c[2], c.max())),
        np.ones(3, np.float16),
        rows_of(40, 3).clip(-60000, 60000).astype(np.float16),
    ),
    "f16 and other types": (
        lambda c, v: (jnp.tanh(c * 2 - v).astype(np.float16), (c > 0.5, c.astype(F8), c.astype(np.int32))),
        np.ones(3, np.float16),
        np.arange(120, dtype=np.float32).reshape(40, 3) * 0.07 - 4,
    ),
    "one number as several types": (
        lambda c, v: (c.astype(np.uint8) * 3 + c.astype(np.int16) + v, c.astype(np.float32).sum()),
        np.ones(3, np.int32),
        RNG.integers(-(2**31), 2**31, (40, 3)).astype(np.int32),
    ),
    "booleans": (lambda c, v: (c ^ (v > c.all()), c.any()), np.zeros(3, bool), rows_of(40, 3)),
    "numbers of two types": (
        lambda c, v: ((c[0] + (v > 0), c[1] * 0.5 + c[0].astype(np.float32)), c[1]),
        (np.zeros(3, np.int32), np.zeros(3, np.float32)),
        rows_of(40, 3),
    ),
    "at computed places": (
        lambda c, v: (lax.dynamic_update_slice(c, v[:2] + c[1], (v[0].astype(np.int32),)), c[v[1].astype(np.int32)]),
        np.zeros(4, np.float32),
        rows_of(40, 2),
    ),
    "windows of a matrix": (
        lambda c, v: (
            lax.dynamic_update_slice(c, lax.dynamic_slice(c, (v[0], 1), (1, 2)) + 1.5, (v[1], v[0])),
            lax.dynamic_slice(c, (v[1], v[0]), (2, 1)),
        ),
        np.arange(9, dtype=np.float32).reshape(3, 3),
        RNG.integers(-3, 6, (40, 2)).astype(np.int32),
    ),
    "elements that are written": (
        lambda c, v: (c.at[v[0]].add(c[v[1]] * 0.5, mode="drop").at[v[1], None].set(1.25, mode="drop"), c.sum()),
        np.array([1, np.nan, -0.0, 3], np.float32),
        RNG.integers(-6, 7, (40, 2)).astype(np.int32),
    ),
    "elements of a matrix": (
        lambda c, v: (c.at[v[0], v[1]].multiply(-1.5, mode="drop").at[v[1]].max(c[0], mode="drop"), c[:, 0]),
        np.arange(9, dtype=np.float32).reshape(3, 3) - 4,
        RNG.integers(-5, 5, (40, 2)).astype(np.int32),
    ),
    "a filter": (
        lambda c, v: ((TURN @ c[0] + v, TURN @ c[1] @ TURN.T + np.float32(0.01)), (c[1][0] @ v, v[None] @ c[1])),
        (np.array([1, -0.0], np.float32), np.eye(2, dtype=np.float32)),
        rows_of(40, 2),
    ),
    "products of three tensors": (
        lambda c, v: ((jnp.einsum("abc,ac->ba", c, v) @ c[:, :, 1] + c[0])[None] * 0.25, c[0]),
        np.arange(8, dtype=np.float32).reshape(2, 2, 2)[:1] - 3,
        rows_of(40, 1, 2),
    ),
    "functions of what is large and small": (
        lambda c, v: (jnp.stack([jnp.exp(c[1] * 40), jnp.tanh(c[0] * v) * 1e-30, jnp.log1p(v)]), c),
        np.array([-3, 1e-30, -2], np.float32),
        rows_of(40),
    ),
    "a branch": (
        lambda c, v: (lax.cond(v[0] > 0, lambda: c + v, lambda: c * 0.5 - v[::-1]), c[0]),
        np.ones(3, np.float32),
        rows_of(40, 3),
    ),
    "a loop in a turn": (
        lambda c, v: (lax.while_loop(lambda a: a.sum() < v[0], lambda a: a * 1.5 + 0.25, c) * 0.25, c.sum()),
        np.ones(3, np.float32),
        np.abs(RNG.standard_normal((40, 3))).astype(np.float32) * 20,
    ),
}


def scanned(name: str) -> tuple[Any, tuple[Any, np.ndarray]]:
    body, state, rows = BODIES[name]
    return lambda state, rows: lax.scan(body, state, rows), (state, rows)


@pytest.mark.parametrize("name", BODIES)
def test_turns_give_the_bits_of_arrays(name: str) -> None:
    with jax.enable_x64(name == "f64"):
        function, arguments = scanned(name)
        text, flat = text_of(function, *arguments), jax.tree.leaves(arguments)
        assert NOTE in plan_of(function, *arguments)
    expected = results_of(text, *flat, without=",".join(NAMES))
    for without in ("", "scalars", "turns", "tables,blocks", "compiled"):
        assert results_of(text, *flat, without=without) == expected


def compiled_loops(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The loops that are compiled from now on, before their first turn, by what leaves them Python."""
    taken: list[Any] = []

    def njit(*_: Any, **__: Any) -> Any:
        return lambda function: taken.append(function) or function

    compiled.is_available()  # so that it is remembered whether there is a compiler, before this stands for it
    monkeypatch.setitem(sys.modules, "numba", types.SimpleNamespace(**{**vars(STAND_IN), "njit": njit}))
    monkeypatch.setattr(compiled, "is_available", lambda: True)
    return taken


def test_loops_of_numbers_are_what_the_compiler_takes(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    names = [n for n in BODIES if n != "f64"]
    texts = {n: (text_of(scanned(n)[0], *scanned(n)[1]), jax.tree.leaves(scanned(n)[1])) for n in names}
    expected = {n: results_of(text, *flat, without="compiled") for n, (text, flat) in texts.items()}
    lines = compiled_loops(monkeypatch)
    tune(loop_seconds=0, vector_steps=0)
    taken = set()
    for name, (text, flat) in texts.items():
        before = len(lines)
        assert results_of(text, *flat) == expected[name]
        taken |= {name} if len(lines) > before else set()
    assert taken >= {"moved", "padded", "sums", "remainders", "extremes", "a loop in a turn", "elements of a matrix"}


def test_long_loops_are_not_compiled(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> None:
    function, arguments = scanned("remainders")
    text, lines = text_of(function, *arguments), compiled_loops(monkeypatch)
    tune(loop_seconds=0, vector_steps=0)
    tune(loop_lines=1)
    results_of(text, *arguments)
    assert lines == []


def test_loops_that_end_by_their_data() -> None:
    def halved(x: Any) -> Any:
        return lax.while_loop(
            lambda s: (s[0] < 50) & (jnp.abs(s[1]).max() > 0.01), lambda s: (s[0] + 1, s[1][::-1] * 0.75), (0, x)
        )

    x = np.array([1.5, -2.0, 0.3, 7.0, -0.1], np.float32)
    assert NOTE in plan_of(halved, x)
    turns, expected = 0, x.copy()
    while turns < 50 and np.abs(expected).max() > np.float32(0.01):
        turns, expected = turns + 1, expected[::-1] * np.float32(0.75)
    found = interp.jit(halved)(x)
    assert (int(found[0]), np.asarray(found[1]).tobytes()) == (turns, expected.tobytes())


def test_a_system_of_equations_step_by_step() -> None:
    def step(y: Any, _: Any) -> Any:
        return y + 0.01 * jnp.array([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 2.5 * y[2]]), y

    start, f = np.array([1, 2, 20], np.float32), np.float32
    a, b, c = (f(v) for v in start)
    expected = []
    for _ in range(100):
        expected.append([a, b, c])
        slopes = f(10) * (b - a), a * (f(28) - c) - b, a * b - f(2.5) * c
        a, b, c = (x + f(0.01) * s for x, s in zip((a, b, c), slopes, strict=True))
    states = interp.jit(lambda y: lax.scan(step, y, None, 100)[1])(start)
    assert np.asarray(states).tobytes() == np.array(expected, f).tobytes()


def test_keys_that_are_split_turn_by_turn() -> None:
    def turn(key: Any, _: Any) -> Any:
        key, draw = jax.random.split(key)
        return key, jax.random.bits(draw, (3,))

    def draws(key: Any) -> Any:
        return lax.scan(turn, key, None, 20)

    assert NOTE in plan_of(draws, KEY)
    found, expected = interp.jit(draws)(KEY), jax.jit(draws)(KEY)
    assert [codes(v) for v in found] == [codes(v) for v in expected]


def test_neighbours_are_swapped_until_they_are_sorted() -> None:
    def swapped(j: Any, b: Any) -> Any:
        low, high = jnp.minimum(b[j], b[j + 1]), jnp.maximum(b[j], b[j + 1])
        return lax.dynamic_update_slice(b, jnp.stack([low, high]), (j,))

    x = RNG.permutation(8).astype(np.float32)
    found = interp.jit(lambda x: lax.fori_loop(0, 8, lambda _, b: lax.fori_loop(0, 7, swapped, b), x))(x)
    assert np.asarray(found).tolist() == sorted(x.tolist())


def test_a_loop_that_takes_long_is_compiled_and_keeps_its_bits() -> None:
    def run(x: Any) -> Any:
        return lax.fori_loop(0, 30000, lambda i, c: c[::-1] * 0.999 + x, x * 0)

    x, f = np.array([0.25, -1.0, 3.0], np.float32), np.float32
    c = [f(0)] * 3
    for _ in range(30000):
        c = [v * f(0.999) + w for v, w in zip(c[::-1], x, strict=True)]
    function = interp.jit(run)
    for _ in range(4):
        assert np.asarray(function(x)).tobytes() == np.array(c, f).tobytes()


def test_large_loops_stay_loops_over_arrays() -> None:
    def run(x: Any) -> Any:
        return lax.scan(lambda c, v: (jnp.tanh(c * 0.5 + v), c), x[0] * 0, x)

    assert NOTE not in plan_of(run, rows_of(20, 64))
    assert NOTE not in plan_of(run, rows_of(20, 32))  # 32 functions cost more than one call on an array


HALF, BOOL = ELEMENT_TYPES["f16"], ELEMENT_TYPES["i1"]
FUNCTIONS = ("tanh", "exponential", "log", "logistic", "sqrt", "rsqrt", "sine", "negate", "abs")


@pytest.mark.parametrize("name", [f"stablehlo.{name}" for name in FUNCTIONS])
def test_functions_of_single_numbers_of_f16_are_those_of_arrays(name: str) -> None:
    kernels, known = Kernels(Policy(), RandomStream()), {}

    def name_of(value: Any) -> str:
        known[f"k{len(known)}"] = value
        return f"k{len(known) - 1}"

    whole, single = ((TensorType(shape, HALF),) * 2 for shape in ((None,), ()))
    use = scalars.Use((HALF,), HALF, ["x"], {}, Policy(), kernels.of(name, Attributes({}), single), name_of)
    function = eval(f"lambda x: {scalars.expression(name, use)}", known)
    codes_of_f16 = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = np.asarray(kernels.of(name, Attributes({}), whole)(codes_of_f16))
        found = np.array([function(x) for x in codes_of_f16], np.float16)
    assert codes(found) == codes(expected)


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_single_numbers_are_ordered_totally_as_arrays_are(name: str, direction: str) -> None:
    element, known = ELEMENT_TYPES[name], {}

    def name_of(value: Any) -> str:
        known[f"k{len(known)}"] = value
        return f"k{len(known) - 1}"

    kernels = Kernels(Policy(), RandomStream())
    attributes = Attributes({"comparison_direction": direction, "compare_type": "TOTALORDER"})
    of_arrays, of_numbers = (
        kernels.of("stablehlo.compare", attributes, tuple(TensorType(shape, e) for e in (element, element, BOOL)))
        for shape in ((None,), ())
    )
    use = scalars.Use((element, element), BOOL, ["x", "y"], attributes, Policy(), of_numbers, name_of)
    function = eval(f"lambda x, y: {scalars.expression('stablehlo.compare', use)}", known)
    some = np.array([0.0, -0.0, 1, -1, 1.5, 6e-8, -6e-8, np.inf, -np.inf, np.nan, -np.nan], element.dtype)
    some = np.concatenate([some, (some[-2:].view(element.format.code_dtype) + 1).view(element.dtype)])  # other NaN
    x, y = (a.ravel() for a in np.meshgrid(some, some))
    found = [function(a, b) for a, b in zip(x, y, strict=True)]
    assert all(type(f) is bool for f in found)
    assert found == of_arrays(x, y).tolist()
