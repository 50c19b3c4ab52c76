"""Loops that hand a state on from turn to turn: what is taken out of them changes no bit.

What is expected is made by a loop in Python that runs the body of one turn by itself, a program without any loop, or by
numpy where that rounds as the specification says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.executors.recurrence import RecurrenceRunner, chunks
from minihlo.interp.compile.explain import listing
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from ..conftest import Tune
from ..thinned import thinned

F8, BF16 = jnp.float8_e4m3fnuz, jnp.bfloat16
RNG = np.random.default_rng(11)
MATRIX = (RNG.standard_normal((4, 4)) / 4).astype(np.float32)
F32 = TensorType((), ELEMENT_TYPES["f32"])


def text_of(function: Callable[..., Any], *arguments: Any) -> str:
    return jax.jit(function).lower(*arguments).as_text()


def plan_of(function: Callable[..., Any], *arguments: Any) -> str:
    return listing(interp.load(text_of(function, *arguments)).plan())


def codes(x: Any) -> bytes:
    """The bits, with one NaN for all."""
    x = np.asarray(x)
    if x.dtype.kind not in "iub":
        x = x.copy()
        x[np.isnan(x.astype(np.float64))] = np.nan
    return np.ascontiguousarray(x).tobytes()


def _collatz(c: Any, v: Any) -> Any:
    return lax.while_loop(lambda s: s[1] > 1, lambda s: (s[0] + 1, s[1] // 2), (c, v + 7))[0], c


#: A body, the first state, and the shape of a row.
BODIES: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "average": (lambda c, v: (0.9 * c + v, c), np.float32(0), np.zeros(1, np.float32)[0]),
    "sum": (lambda c, v: (c + v, c * 2), np.float32(1), np.float32(0)),
    "running sum": (lambda c, v: (c + v, (c, c + v)), np.float32(1), np.float32(0)),
    "running sum, the other way": (lambda c, v: (v + c, c), np.float32(1), np.float32(0)),
    "running sum of rows": (lambda c, v: (c + v, c), np.zeros(3, np.float32), np.zeros(3, np.float32)),
    "running product in bf16": (lambda c, v: (c * v, c), BF16(1), BF16(0)),
    "running difference": (lambda c, v: (c - v, c), np.float32(1), np.float32(0)),
    "the other difference": (lambda c, v: (v - c, c), np.float32(1), np.float32(0)),
    "running sum of integers": (lambda c, v: (c + v * 2**28, c), np.int32(1), np.int32(0)),
    "average that is not kept": (lambda c, v: (0.5 * c + v, None), np.float32(0), np.float32(0)),
    "states of numbers in bf16": (lambda c, v: (c * BF16(0.75) + v, c), BF16(0), BF16(0)),
    "f16": (lambda c, v: (c * np.float16(0.75) + v, -c), np.float16(1), np.float16(0)),
    "f8 and f32": (lambda c, v: ((c.astype(np.float32) * 0.5 + v).astype(F8), c), F8(1), np.float32(0)),
    "two states": (lambda c, v: ((c[0] + v, 0.5 * c[1] + c[0] * v), c[1]), (np.float32(0),) * 2, np.float32(0)),
    "the row before": (lambda c, v: (v, v - c), np.float32(3), np.float32(0)),
    "a random generator": (lambda c, v: (c * 1664525 + 1013904223, c ^ v), np.int32(1), np.int32(0)),
    "booleans": (lambda c, v: (c != (v > 0), c), np.bool_(True), np.float32(0)),
    "largest": (lambda c, v: (jnp.maximum(c, v), c), np.float32(-1), np.float32(0)),
    "reset": (lambda c, v: (jnp.where(v > 1, 0, 0.9 * c + v), c), np.float32(0), np.float32(0)),
    "a row of numbers": (
        lambda c, v: (0.5 * c + jnp.exp(v), c.sum()),
        np.zeros(3, np.float32),
        np.zeros(3, np.float32),
    ),
    "a cell": (
        lambda c, v: ((h := jnp.tanh(MATRIX @ c + MATRIX.T @ v)), h * 2),
        np.zeros(4, np.float32),
        np.zeros(4, np.float32),
    ),
    "a matrix": (lambda c, v: (c + jnp.outer(v, v), None), np.zeros((4, 4), np.float32), np.zeros(4, np.float32)),
    "a loop within": (_collatz, np.int32(0), np.int32(0)),
}


def rows(like: Any, count: int) -> np.ndarray:
    """Rows of numbers, with NaN, infinities and zeros among those of scalars in f32."""
    shape = (count, *np.shape(like))
    if np.asarray(like).dtype.kind == "i":
        return RNG.integers(0, 99, shape).astype(np.int32)
    x = RNG.standard_normal(shape).astype(np.float32)
    return x.astype(np.asarray(like).dtype)


@pytest.mark.parametrize("count", [thinned((15,), lambda _: False)[0], 16, 40, 4500])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_scan_gives_the_bits_of_each_turn(name, reverse, count):
    body, state, row = BODIES[name]
    if reverse and count != 40:
        pytest.skip("one length is enough")
    xs = rows(row, count)
    turn = interp.load(text_of(body, state, xs[0]))
    carried, kept = jax.tree.leaves(state), []
    for x in xs[::-1] if reverse else xs:
        results = turn(*[np.asarray(c) for c in carried], x)
        results = list(results) if isinstance(results, list | tuple) else [results]
        carried = results[: len(carried)]
        kept.append(results[len(carried) :])
    kept = kept[::-1] if reverse else kept
    expected = [*carried, *(np.stack(column) for column in zip(*kept, strict=True))]

    def run(state, xs):
        return lax.scan(body, state, xs, reverse=reverse)

    text, arguments = text_of(run, state, xs), [*map(np.asarray, jax.tree.leaves(state)), xs]
    for without in ("", "turns", "tables"):
        program = interp.load(text, without=without)
        for _ in range(3):  # chunks that do not settle are given up
            assert [codes(r) for r in program(*arguments)] == [codes(e) for e in expected]


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0, 1e-45])
@pytest.mark.parametrize("count", [600, 5003, 20000])
def test_an_average_is_that_of_numpy(count, special):
    x, c = RNG.standard_normal(count).astype(np.float32), np.float32(0)
    x[count // 3] = special
    expected = np.empty_like(x)
    with np.errstate(all="ignore"):
        for i, v in enumerate(x):
            expected[i] = c
            c = np.float32(0.9) * c + v
    last, kept = interp.load(text_of(lambda x: lax.scan(lambda c, v: (0.9 * c + v, c), 0.0, x), x))(x)
    assert codes(last) == codes(c)
    assert codes(kept) == codes(expected)


@pytest.mark.parametrize("factor", [0.5, 0.9, 1])
def test_chunks_run_side_by_side_until_they_settle(factor):
    """The runner by itself: chunks make most turns where the state forgets, and none of them where it does not.

    One that forgets slowly changes at the start of every chunk in the first passes, by less in each.
    """
    count, factor, settles = 4000, np.float32(factor), factor < 1
    x, made = RNG.standard_normal(count).astype(np.float32), []

    def turns(c, values, number):
        made.append(number)
        kept = []
        for v in values:
            kept.append(c)
            c = factor * c + v
        return c, kept

    def turn(c, v):
        return factor * c + v, c

    runner = RecurrenceRunner(count, [F32], [F32], [F32])
    for _ in range(3):
        last, kept = runner((turns, turn), np.float32(0), x)
        c, expected = turns(np.float32(0), x, 0)
        assert codes(last) == codes(c)
        assert codes(kept) == codes(np.array(expected))
    number, length = chunks(count)
    in_order = [n for n in made if n]
    assert set(in_order) == {count - number * length} if settles else in_order[-1] == count


def test_what_hangs_on_no_state_is_taken_out():
    xs, matrix = rows(np.zeros(40, np.float32), 40), np.eye(40, dtype=np.float32)
    plan = plan_of(
        lambda xs: lax.scan(lambda c, v: ((h := jnp.tanh(matrix @ c + matrix.T @ v)), h * 2), xs[0] * 0, xs), xs
    )
    inside = plan[plan.index("# turns") :].partition("\n\n")[0]
    products = [
        [line for line in text.splitlines() if " = k" in line and "dot_general" in line] for text in (inside, plan)
    ]
    assert [*map(len, products)] == [1, 2]
    assert "40 turns over rows, one after the other" in plan
    assert "while True" not in plan


def test_the_plan_says_in_how_many_chunks():
    xs = rows(np.float32(0), 10000)
    plan = plan_of(lambda xs: lax.scan(BODIES["average"][0], np.float32(0), xs), xs)
    assert "100 chunks of 100 turns, where their states settle; else 10,000 turns over rows" in plan


def test_too_few_turns_for_two_chunks_are_made_one_after_the_other(tune):
    tune(chunked_turns=1, chunk_turns=64)
    xs, c, expected = rows(np.float32(0), 40), np.float32(0), []
    for x in xs:
        expected.append(c)
        c = np.float32(0.9) * c + x
    run = interp.load(text_of(lambda xs: lax.scan(BODIES["average"][0], np.float32(0), xs), xs))
    last, kept = run(xs)
    assert codes(kept) == codes(np.array(expected))
    assert codes(last) == codes(c)
    assert "chunks" not in listing(run.plan())


def test_turns_that_take_long_are_tried_in_chunks_from_fewer_on():
    def plan(body, *shape):
        xs = rows(np.zeros(shape, np.float32), 1000)
        return plan_of(lambda xs: lax.scan(body, np.zeros(shape, np.float32), xs), xs)

    assert "chunks" not in plan(lambda c, v: (0.5 * c + v, None))
    assert "15 chunks of 64 turns" in plan(lambda c, v: (jnp.tanh(c + v), None), 8)


def test_a_loop_that_reads_the_array_that_it_writes():
    def run(a):
        return lax.fori_loop(2, 60, lambda i, a: a.at[i].set(a[i - 1] - 3 * a[i - 2]), a)

    start = np.zeros(60, np.int32)
    start[:2] = 1
    expected = start.copy()
    with np.errstate(over="ignore"):
        for i in range(2, 60):
            expected[i] = expected[i - 1] - np.int32(3) * expected[i - 2]
    (result,) = np.asarray(interp.load(text_of(run, start))(start)).reshape(1, -1)
    assert np.array_equal(result, expected)


def test_an_argument_is_not_written_over():
    start = np.zeros(30, np.float32)
    program = interp.load(text_of(lambda a: lax.fori_loop(0, 30, lambda i, a: a.at[i].set(a.sum() + i), a), start))
    first = np.asarray(program(start)).copy()
    assert not start.any()
    assert np.array_equal(np.asarray(program(start)), first)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_single_numbers_are_compared_as_arrays_are(name, dtype):
    """As plain numbers in a loop, and as whole arrays: both zeros, infinities, subnormals, NaN of both signs."""
    numbers = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-45, -1e-45], dtype)
    numbers = np.append(numbers, -numbers[6])
    x, y = (v.reshape(-1) for v in np.meshgrid(numbers, numbers))
    element = "f32" if dtype is np.float32 else "f64"
    t, n = f"tensor<100x{element}>", f"tensor<{element}>"
    cut = "sizes = [1] : ({0}, tensor<i32>) -> tensor<1x{1}>"
    loop = f"""func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %end = stablehlo.constant dense<100> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, {t}
      cond {{
        %go = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %p = stablehlo.dynamic_slice %a, %i, {cut.format(t, element)}
        %q = stablehlo.dynamic_slice %y, %i, {cut.format(t, element)}
        %u = stablehlo.reshape %p : (tensor<1x{element}>) -> {n}
        %v = stablehlo.reshape %q : (tensor<1x{element}>) -> {n}
        %w = stablehlo.{name} %u, %v : {n}
        %c = stablehlo.reshape %w : ({n}) -> tensor<1x{element}>
        %b = stablehlo.dynamic_update_slice %a, %c, %i : ({t}, tensor<1x{element}>, tensor<i32>) -> {t}
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, {t}
      }}
      return %r#1 : {t}
    }}"""
    whole = f"""func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %w = stablehlo.{name} %x, %y : {t}
      return %w : {t}
    }}"""
    (expected,) = np.asarray(interp.load(whole)(x, y)).reshape(1, -1)
    is_nan = np.isnan(x) | np.isnan(y)
    larger = np.where(x > y, x, y) if name == "maximum" else np.where(x < y, x, y)
    zeros = (x == 0) & (y == 0)
    negative = (np.signbit(x) & np.signbit(y)) if name == "maximum" else (np.signbit(x) | np.signbit(y))
    larger[zeros] = np.where(negative, -0.0, 0.0)[zeros]
    larger[is_nan] = np.nan
    assert codes(expected) == codes(larger)
    for without in ("", "turns", "scalars"):
        (found,) = np.asarray(interp.load(loop, without=without)(x, y)).reshape(1, -1)
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("shape", [(), (3,), (255,), (16, 16), (20, 30)], ids=str)
def test_a_sum_over_turns_whose_last_state_alone_is_kept(shape: tuple[int, ...], dtype: type) -> None:
    rng = np.random.default_rng(5)
    start, *rows = (rng.normal(size=(51, *shape)) * 40).astype(dtype)
    before, wanted = start.copy(), start
    with np.errstate(over="ignore"):  # of single numbers numpy warns
        for row in rows:
            wanted = wanted + row
    text = text_of(lambda x, v: lax.scan(lambda c, r: (c + r, None), x, v)[0], start, np.array(rows))
    (found,) = interp.load(text)(start, np.array(rows))
    assert np.asarray(found).dtype == dtype
    assert codes(found) == codes(wanted)
    assert codes(start) == codes(before)


@pytest.mark.parametrize(("turns", "few"), [(7, 2), (7, 7), (5, 1), (64, 3)])
def test_lists_of_some_turns(tune: Tune, turns: int, few: int) -> None:
    """Rows are made lists for some turns at a time, and of those some are run before their results are put in place."""
    tune(list_turns=turns, list_bytes=1, list_parts=23 // few, chunked_turns=1 << 20)
    rng = np.random.default_rng(12)
    x, n = rng.standard_normal((23, 40), np.float32), rng.standard_normal(23, np.float32)

    def turn(state: Any, row: Any) -> Any:
        h, s = state
        h = jnp.maximum(h * row[0], h[::-1]) + row[1]
        s = s * row[1] + h[3]
        return (h, s), (h, s, row[1] > 0)

    start = np.linspace(-1, 1, 40, dtype=np.float32), np.float32(0.25)
    actual = interp.jit(lambda start, rows: jax.lax.scan(turn, start, rows))(start, (x, n))
    (h, s), given = start, []
    for row, number in zip(x, n, strict=True):
        h = np.maximum(h * row, h[::-1]) + number
        s = s * number + h[3]
        given.append((h, s, number > 0))
    wanted = (h, s), tuple(np.array(values) for values in zip(*given, strict=True))
    for found, value in zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(found, value)
