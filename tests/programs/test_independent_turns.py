"""Loops whose turns are independent: all turns at once give the bits of the turns one after the other.

What is expected is made by a loop in Python that runs the body of one turn by itself, a program without any loop, or by
numpy where that rounds as the specification says.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing

from ..conftest import Tune
from ..thinned import thinned

F8, BF16 = jnp.float8_e4m3fnuz, jnp.bfloat16
COUNT = 23
RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((5, 4)).astype(np.float32)


def special(dtype: Any, *shape: int) -> np.ndarray:
    """Numbers with NaN, infinities, both zeros and subnormals among them; for integers small ones."""
    if np.issubdtype(np.dtype(dtype), np.integer):
        return RNG.integers(-3, 9, shape).astype(dtype)
    x = RNG.standard_normal(shape).astype(np.float32)
    x.reshape(-1)[: x.size // 4] = np.resize([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38], x.size // 4)
    return x.astype(dtype)


def codes(x: Any) -> bytes:
    """The bits, with one NaN for all."""
    x = np.asarray(x)
    if x.dtype.kind not in "iub":
        x = x.copy()
        x[np.isnan(x.astype(np.float64))] = np.nan
    return np.ascontiguousarray(x).tobytes()


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def plan_of(function: Callable[..., Any], *arguments: Any) -> str:
    """What `--print-plan` prints."""
    return listing(interp.load(text_of(function, *arguments)).plan())


BODIES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "elementwise": (lambda v: v * v + 1, ()),
    "chain": (lambda v: jnp.where(v > 0, jnp.exp(-v), v / 3) - jnp.abs(v), (4,)),
    "scalar predicate": (lambda v: lax.select(v[0] > 0, v, -v), (4,)),
    "clamp by its own numbers": (lambda v: lax.clamp(v[0], v, v[1]), (4,)),
    "sum": (lambda v: v.sum(), (9,)),
    "sum of columns": (lambda v: v.sum(0), (9, 3)),
    "largest": (lambda v: v.max(1), (3, 5)),
    "softmax": (lambda v: jax.nn.softmax(v.astype(np.float32)), (7,)),
    "argmax": (lambda v: jnp.argmax(v), (9,)),
    "sort": (lambda v: jnp.sort(v, 0), (5, 2)),
    "transpose": (lambda v: v.T + 1, (3, 4)),
    "reshape": (lambda v: v.reshape(6, 2)[::-1], (3, 4)),
    "pad": (lambda v: jnp.pad(v, ((1, 2), (0, 1))), (3, 4)),
    "concatenate": (lambda v: jnp.concatenate([v, 2 * v, jnp.zeros_like(v)], 1), (3, 4)),
    "pool": (lambda v: lax.reduce_window(v, np.asarray(0, v.dtype), lax.add, (3,), (2,), "SAME"), (9,)),
    "cumulative sum": (lambda v: jnp.cumsum(v), (9,)),
    "gather by its own indices": (lambda v: v[jnp.argsort(v[:3])], (4,)),
    "gather of a shared table": (lambda v: jnp.asarray(TABLE)[jnp.argsort(v)[:2]], (4,)),
    "gather at shared indices": (lambda v: v[jnp.array([2, 0, 2])], (4, 2)),
    "scatter by its own indices": (lambda v: jnp.zeros(6, v.dtype).at[jnp.argsort(v)].add(v), (4,)),
    "scatter at shared indices": (lambda v: v.at[jnp.array([2, 0, 2])].add(v[:3]), (4,)),
    "slice at its own place": (lambda v: lax.dynamic_slice(v, (jnp.argmax(v),), (2,)), (6,)),
    "slice of a shared table": (lambda v: lax.dynamic_slice(jnp.asarray(TABLE), (jnp.argmax(v), 1), (2, 2)), (6,)),
    "products": (lambda v: v @ v.T, (3, 5)),
    "product with shared matrix": (lambda v: v @ jnp.asarray(TABLE, v.dtype), (5,)),
    "shared matrix times": (lambda v: jnp.asarray(TABLE, v.dtype) @ v, (4,)),
    "matrices with shared matrix": (lambda v: v @ jnp.asarray(TABLE, v.dtype), (3, 5)),
    "two branches": (lambda v: lax.cond(v[0] > 0, lambda u: u * 2, lambda u: -u[::-1], v), (4,)),
    "three branches": (
        lambda v: lax.switch(jnp.argmax(v), [lambda u: u + 1, lambda u: u * u[0], lambda u: u[:1] - u], v),
        (5,),
    ),
    "branches in a branch": (
        lambda v: lax.cond(v[0] > 0, lambda u: lax.cond(u[1] > 0, lambda t: t, lambda t: t + t, u), lambda u: -u, v),
        (3,),
    ),
    "branches on a number": (lambda v: lax.cond(v > 0, lambda u: (u, v * v), lambda u: (v * 3, u), v)[0], ()),
    "inner loop": (lambda v: lax.fori_loop(0, 11, lambda i, c: c * v + i.astype(v.dtype), v), (3,)),
    "inner loop of independent turns": (lambda v: lax.map(lambda u: u * 3 - v[0], v), (4,)),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        itertools.product(BODIES, (np.float32, BF16, F8, np.int32)),
        lambda name, dtype: dtype is np.float32 or list(BODIES).index(name) % 2 == 0,
    ),
)
@np.errstate(all="ignore")
def test_map_gives_the_bits_of_each_turn(name, dtype):
    body, shape = BODIES[name]
    x = special(dtype, COUNT, *shape)
    turn = interp.load(text_of(body, x[0]))
    expected = np.stack([np.asarray(turn(v))[0] for v in x])
    for result in loops(lambda x: lax.map(body, x), x):
        assert codes(result) == codes(expected)


def test_most_bodies_become_no_loop():
    """Else the test above compares a loop with itself."""
    loops = [
        name
        for name, (body, shape) in BODIES.items()
        if "while True" in plan_of(lambda x, b=body: lax.map(b, x), special(np.float32, COUNT, *shape))
    ]
    assert loops == ["inner loop"]


def test_a_branch_that_may_not_end_is_entered_only_where_it_is_chosen():
    def body(v):
        return lax.cond(v > 0, lambda u: lax.while_loop(lambda c: c < 100, lambda c: c * 2, u), lambda u: u, v)

    x = np.array([1, 0, -3, 5, 0], np.float32)  # of 0 the loop would never end
    for result in loops(lambda x: lax.map(body, x), x):
        assert result.tolist() == [128, 0, -3, 160, 0]


def test_a_loop_that_all_turns_share_is_entered_only_where_it_is_chosen():
    def body(v, k):
        return lax.cond(v > 0, lambda u: u + lax.while_loop(lambda c: c < 100, lambda c: c * 2, k), lambda u: u, v)

    x = np.array([-1, 0, -3, -5], np.float32)
    mapped, zero = jax.jit(lambda x, k: lax.map(lambda v: body(v, k), x)), np.float32(0)
    assert "side by side" not in plan_of(mapped, x, zero)  # else what follows would not end: of 0 the loop never does
    (result,) = interp.load(text_of(mapped, x, zero))(x, zero)
    assert np.asarray(result).tolist() == x.tolist()


def test_an_index_that_is_no_branch_chooses_the_last():
    text = """func.func @main(%x: tensor<5xi32>) -> tensor<5xi32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %start = stablehlo.constant dense<0> : tensor<5xi32>
      %r:2 = stablehlo.while(%i = %zero, %a = %start) : tensor<i32>, tensor<5xi32>
      cond {
        %n = stablehlo.constant dense<5> : tensor<i32>
        %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %v1 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<5xi32>, tensor<i32>) -> tensor<1xi32>
        %v = stablehlo.reshape %v1 : (tensor<1xi32>) -> tensor<i32>
        %c = "stablehlo.case"(%v) ({
          %p = stablehlo.add %v1, %v1 : tensor<1xi32>
          stablehlo.return %p : tensor<1xi32>
        }, {
          %p = stablehlo.multiply %v1, %v1 : tensor<1xi32>
          stablehlo.return %p : tensor<1xi32>
        }, {
          %p = stablehlo.negate %v1 : tensor<1xi32>
          stablehlo.return %p : tensor<1xi32>
        }) : (tensor<i32>) -> tensor<1xi32>
        %b = stablehlo.dynamic_update_slice %a, %c, %i : (tensor<5xi32>, tensor<1xi32>, tensor<i32>) -> tensor<5xi32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, tensor<5xi32>
      }
      return %r#1 : tensor<5xi32>
    }"""
    for without in ("", "turns"):
        result = interp.load(text, without=without)(np.array([-7, 0, 1, 2, 9], np.int32))
        assert np.asarray(result).reshape(-1).tolist() == [7, 0, 1, -2, -9]
    assert "5 turns side by side" in listing(interp.load(text).plan())


def test_the_plan_says_why():
    plan = plan_of(lambda x: lax.map(lambda v: v * v + 1, x), special(np.float32, 1000))
    assert "1,000 turns side by side: no turn needs what another one computes" in plan


def loops(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """The results with turns side by side, and one after the other."""
    text = text_of(function, *arguments)
    found = [interp.load(text)(*arguments), interp.load(text, without="turns")(*arguments)]
    return [r[0] if isinstance(r, list) and len(r) == 1 else r for r in found]


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_are_those_of_the_turns(reverse):
    x, y = special(np.float32, COUNT, 3), special(np.float32, COUNT)

    def run(x, y):
        return lax.scan(lambda c, v: (c, (v[0] * v[1], -v[1])), 0, (x, y), reverse=reverse)[1]

    with np.errstate(all="ignore"):
        expected = x * y[:, None], -y
    for results in loops(run, x, y):
        assert [codes(r) for r in results] == [codes(e) for e in expected]


def test_some_rows_of_an_array_are_written():
    x, start = np.arange(20, dtype=np.float32), np.full((10, 3), 7, np.float32)

    def forward(x, a):
        return lax.fori_loop(2, 6, lambda i, a: lax.dynamic_update_slice(a, x[i] * jnp.ones((1, 3)), (i + 1, 0)), a)

    expected = start.copy()
    for i in range(2, 6):
        expected[i + 1] = x[i]
    for result in loops(forward, x, start):
        assert np.array_equal(result, expected)


def test_columns_backwards():
    x, start = np.arange(20, dtype=np.float32), np.full((3, 8), 7, np.float32)

    def backwards(x, a):
        return lax.fori_loop(1, 5, lambda i, a: lax.dynamic_update_slice(a, x[2 * i] * jnp.ones((3, 1)), (0, 7 - i)), a)

    expected = start.copy()
    for i in range(1, 5):
        expected[:, 7 - i] = x[2 * i]
    for result in loops(backwards, x, start):
        assert np.array_equal(result, expected)


def test_starts_that_do_not_fit_are_moved():
    """All turns beyond the end write the last row, so the last one wins; nothing of that is a row of its own."""
    x = np.arange(9, dtype=np.float32)

    def run(x):
        return lax.fori_loop(0, 9, lambda i, a: lax.dynamic_update_slice(a, x[i][None], (i,)), jnp.zeros(5))

    for result in loops(run, x):
        assert result.tolist() == [0, 1, 2, 3, 8]


def test_updates_of_one_element_are_combined_in_the_order_of_the_turns():
    x = special(np.float32, 50)
    x[np.abs(x) > 1e30] = 1
    x[np.isnan(x)] = 2
    places = RNG.integers(0, 4, 50).astype(np.int32)
    expected = np.zeros(4, np.float32)
    for place, v in zip(places, x, strict=True):
        expected[place] += np.float32(v * 3)

    def run(x, places):
        return lax.fori_loop(0, 50, lambda i, a: a.at[places[i]].add(x[i] * 3), jnp.zeros(4))

    for result in loops(run, x, places):
        assert codes(result) == codes(expected)


def test_the_last_update_of_an_element_stays():
    places = np.array([1, 2, 1, 1, 0, 9, 2], np.int32)

    def run(places):
        return lax.fori_loop(0, 7, lambda i, a: a.at[places[i]].set(i), jnp.full(4, -1))

    for result in loops(run, places):
        assert result.tolist() == [4, 3, 6, -1]


def test_what_a_turn_reads_of_the_turn_before_keeps_the_loop():
    """A Fibonacci sequence within the array that is written."""

    def run(a):
        return lax.fori_loop(2, 20, lambda i, a: a.at[i].set(a[i - 1] + a[i - 2]), a)

    start = np.zeros(20, np.int32)
    start[:2] = 1
    expected = start.copy()
    for i in range(2, 20):
        expected[i] = expected[i - 1] + expected[i - 2]
    for result in loops(run, start):
        assert np.array_equal(result, expected)


def test_numbers_that_count_have_their_last_value():
    def run(x):
        return lax.while_loop(
            lambda c: c[0] < 12,
            lambda c: (c[0] + 1, c[1] - 3, c[2].at[c[0]].set(x[c[0]] + c[1].astype(x.dtype))),
            (2, jnp.uint8(5), x),
        )

    x = np.arange(12, dtype=np.float32)
    expected, small = x.copy(), np.uint8(5)
    with np.errstate(over="ignore"):
        for i in range(2, 12):
            expected[i] = x[i] + small
            small = np.uint8(small - np.uint8(3))
    for count, last, array in loops(run, x):
        assert (int(count), int(last)) == (12, int(small))
        assert np.array_equal(array, expected)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_few_turns(turns):
    x = np.arange(3, dtype=np.float32)

    def run(x):
        return lax.fori_loop(0, turns, lambda i, a: a.at[i].set(x[i] * 2), jnp.full(3, 9.0))

    expected = np.full(3, 9, np.float32)
    expected[:turns] = 2 * x[:turns]
    for result in loops(run, x):
        assert np.array_equal(result, expected)


def test_random_numbers_of_many_keys():
    keys = RNG.integers(0, 2**32, (9, 2), np.uint32)

    def draw(key):
        return jax.random.uniform(jax.random.wrap_key_data(key), (5,))

    expected = np.stack([draw(k) for k in keys])  # JAX's own
    for result in loops(lambda keys: lax.map(draw, keys), keys):
        assert codes(result) == codes(expected)


def test_a_state_becomes_what_stays_the_same():
    """A turn hands on a value that no turn changes in the place of another one, and nothing else uses it."""
    program = interp.load(
        """
        func.func @main(%x: tensor<20xf32>, %y: tensor<20xf32>, %n: tensor<i32>) -> tensor<20xf32> {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %count = stablehlo.constant dense<40> : tensor<i32>
          %r:3 = stablehlo.while(%a = %x, %i = %zero, %b = %y) : tensor<20xf32>, tensor<i32>, tensor<20xf32>
            cond { %t = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
                   stablehlo.return %t : tensor<i1> }
            do { %j = stablehlo.add %i, %one : tensor<i32>
                 stablehlo.return %a, %j, %a : tensor<20xf32>, tensor<i32>, tensor<20xf32> }
          return %r#2 : tensor<20xf32>
        }
        """
    )
    x = np.arange(20, dtype=np.float32)
    assert program(x, -x, np.int32(0))[0].tolist() == x.tolist()


def test_what_would_take_too_much_memory_stays_a_loop():
    x = np.zeros((1000, 300), np.float32)
    plan = plan_of(lambda x: lax.map(lambda v: jnp.cumsum(jnp.sort(v[:, None] * v, 1), 1).sum(), x), x)
    assert "while True" in plan


def test_rows_that_would_take_too_much_memory_stay_in_the_turns(tune: Tune) -> None:
    """What the inner loop of a turn takes is not computed for all turns of the outer one then."""

    def f(x: jax.Array) -> jax.Array:
        inner = lambda i, j, x: x.at[(i + j) % 64].set(x[(i * j) % 64] ^ (i + j))  # noqa: E731
        return lax.fori_loop(0, 70, lambda i, x: lax.fori_loop(0, 90, lambda j, x: inner(i, j, x), x), x)

    expected = x = np.arange(64, dtype=np.int32)
    expected = expected.copy()
    for i, j in itertools.product(range(70), range(90)):
        expected[(i + j) % 64] = expected[i * j % 64] ^ (i + j)
    for most, stays in ((1 << 20, False), (1 << 13, True)):
        tune(rows_bytes=most)
        assert ("while True" in plan_of(f, x)) == stays
        assert interp.load(jax.jit(f).lower(x).as_text())(x)[0].tolist() == expected.tolist()


@pytest.mark.parametrize("reversed_first", [False, True])
def test_complex_numbers(reversed_first: bool) -> None:
    """All turns at once, also of what lies backwards in memory, round as each turn by itself does."""
    x = (RNG.standard_normal(300) + 1j * RNG.standard_normal(300)).astype(np.complex64)

    def body(y):
        return y * y * (0.3 - 2j) - y / (1 + y.real)

    def function(v):
        return lax.map(body, v[::-1] if reversed_first else v)

    single = interp.jit(body)
    turns = [single(y) for y in (x[::-1] if reversed_first else x)]
    assert np.asarray(interp.jit(function)(x)).tobytes() == np.stack(turns).tobytes()
    assert "side by side" in plan_of(function, x)
