"""Loops: each iteration gives what its body gives alone; results against Python, numpy and JAX."""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

from ..thinned import thinned

F8, BF16, I16 = jnp.float8_e4m3fnuz, jnp.bfloat16, np.int16
RNG = np.random.default_rng(7)
TABLE = RNG.standard_normal((5, 4)).astype(np.float32)
MATRIX = (RNG.standard_normal((4, 4)) / 4).astype(np.float32)
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38]


def random_array(dtype: Any, *shape: int) -> np.ndarray:
    """Numbers with NaN, infinities, both zeros and subnormals among them; for integers small ones."""
    if np.issubdtype(np.dtype(dtype), np.integer):
        return RNG.integers(-3, 9, shape).astype(dtype)
    x = RNG.standard_normal(shape).astype(np.float32)
    x.reshape(-1)[: x.size // 4] = np.resize(SPECIAL, x.size // 4)
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def bits(x: Any) -> bytes:
    """The bits, with one NaN for all."""
    x = np.asarray(x)
    if x.dtype.kind not in "iub":
        x = x.copy()
        x[np.isnan(x.astype(np.complex128))] = np.nan
    return np.ascontiguousarray(x).tobytes()


def load(function: Callable[..., Any], *arguments: Any) -> interp.LoadedProgram:
    return interp.load(jax.jit(function).lower(*arguments).as_text())


def run(function: Callable[..., Any], *arguments: Any) -> list[np.ndarray]:
    """The results. No argument is overwritten."""
    before = [np.array(a) for a in arguments]
    with jax.enable_x64(True):
        program = load(function, *arguments)
    results = program(*arguments)
    assert [np.asarray(a).tobytes() for a in arguments] == [b.tobytes() for b in before]
    return [np.asarray(r) for r in results]


MAPPED: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "chain": (lambda v: jnp.where(v > 0, jnp.exp(-v), v / 3) - jnp.abs(v), (4,)),
    "softmax": (lambda v: jax.nn.softmax(v.astype(np.float32)), (7,)),
    "argmax": (lambda v: jnp.argmax(v), (9,)),
    "sort": (lambda v: jnp.sort(v, 0), (5, 2)),
    "pad": (lambda v: jnp.pad(v, ((1, 2), (0, 1))), (3, 4)),
    "pool": (lambda v: lax.reduce_window(v, np.asarray(0, v.dtype), lax.add, (3,), (2,), "SAME"), (9,)),
    "cumulative sum": (lambda v: jnp.cumsum(v), (9,)),
    "gather of a shared table": (lambda v: jnp.asarray(TABLE)[jnp.argsort(v)[:2]], (4,)),
    "scatter by its own indices": (lambda v: jnp.zeros(6, v.dtype).at[jnp.argsort(v)].add(v), (4,)),
    "slice at its own place": (lambda v: lax.dynamic_slice(v, (jnp.argmax(v),), (2,)), (6,)),
    "three branches": (
        lambda v: lax.switch(jnp.argmax(v), [lambda u: u + 1, lambda u: u * u[0], lambda u: u[:1] - u], v),
        (5,),
    ),
    "branches in a branch": (
        lambda v: lax.cond(v[0] > 0, lambda u: lax.cond(u[1] > 0, lambda t: t, lambda t: t + t, u), lambda u: -u, v),
        (3,),
    ),
    "inner loop": (lambda v: lax.fori_loop(0, 11, lambda i, c: c * v + i.astype(v.dtype), v), (3,)),
    "inner loop of its own length": (
        lambda v: lax.while_loop(lambda c: c > 1, lambda c: c * np.asarray(0.5, c.dtype), jnp.minimum(v[0], 99)),
        (2,),
    ),
}


@pytest.mark.parametrize(
    ("name", "dtype"),
    thinned(
        itertools.product(MAPPED, (np.float32, BF16, F8, np.int32)),
        lambda name, dtype: list(MAPPED).index(name) % 4 == [np.float32, BF16, F8, np.int32].index(dtype),
    ),
)
@np.errstate(all="ignore")
def test_map_gives_the_bits_of_single_iterations(name: str, dtype: Any) -> None:
    body, shape = MAPPED[name]
    x = random_array(dtype, 17, *shape)
    single = load(body, x[0])
    (found,) = load(lambda x: lax.map(body, x), x)(x)
    assert bits(found) == bits(np.stack([single(v)[0] for v in x]))


#: A body, the first state, and a row.
SCANNED: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "average": (lambda c, v: (0.9 * c + v, c), np.float32(0), np.float32(0)),
    "running sum": (lambda c, v: (c + v, (c, c + v)), np.float32(1), np.float32(0)),
    "running product": (lambda c, v: (c * v, c), BF16(1), BF16(0)),
    "no output": (lambda c, v: (0.5 * c + v, None), np.zeros(3, np.float32), np.zeros(3, np.float32)),
    "f8": (lambda c, v: (c * F8(0.75) + v, c[::-1]), np.ones(5, F8), np.zeros(5, F8)),
    "f8 and f32": (lambda c, v: ((c.astype(np.float32) * 0.5 + v).astype(F8), c), F8(1), np.float32(0)),
    "f8 maximum": (lambda c, v: (jnp.maximum(c, v), jnp.where(c > v, c / v, v)), np.ones(5, F8), np.zeros(5, F8)),
    "several states": (lambda c, v: ((c[1] + v, c[0] * v - c[1]), c[1]), (np.float32(0), np.float32(2)), np.float32(0)),
    "row before": (lambda c, v: (v, v - c), np.float32(3), np.float32(0)),
    "booleans": (lambda c, v: (c != (v > 0), c), np.bool_(True), np.float32(0)),
    "cell": (
        lambda c, v: ((h := jnp.tanh(MATRIX @ c + MATRIX.T @ v)), h * 2),
        np.zeros(4, np.float32),
        np.zeros(4, np.float32),
    ),
    "f16 and other types": (
        lambda c, v: (jnp.tanh(c * 2 - v).astype(np.float16), (c > 0.5, c.astype(F8), c.astype(np.int32))),
        np.ones(3, np.float16),
        np.zeros(3, np.float16),
    ),
    "computed places": (
        lambda c, v: (lax.dynamic_update_slice(c, v[:2] + c[1], (v[0].astype(np.int32),)), c[v[1].astype(np.int32)]),
        np.zeros(4, np.float32),
        np.zeros(2, np.float32),
    ),
    "branch": (
        lambda c, v: (lax.cond(v[0] > 0, lambda: c + v, lambda: c * 0.5 - v[::-1]), c[0]),
        np.ones(3, np.float32),
        np.zeros(3, np.float32),
    ),
    "complex": (lambda c, v: (c * (v * np.float32(0.3)) - v, c), np.complex64(0), np.complex64(0)),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", SCANNED)
@np.errstate(all="ignore")
def test_scan_gives_the_bits_of_single_iterations(name: str, reverse: bool) -> None:
    body, first, row = SCANNED[name]
    rows = random_array(np.asarray(row).dtype, 40, *np.shape(row))
    single = load(body, first, rows[0])
    state, given = [np.asarray(c) for c in jax.tree.leaves(first)], []
    width = len(state)
    for row in rows[::-1] if reverse else rows:
        results = [np.asarray(r) for r in single(*state, row)]
        state = results[:width]
        given.append(results[width:])
    expected = [*state, *(np.stack(g) for g in zip(*(given[::-1] if reverse else given), strict=True))]
    program, leaves = load(lambda c, v: lax.scan(body, c, v, reverse=reverse), first, rows), jax.tree.leaves(first)
    for _ in range(2):
        assert [bits(r) for r in program(*leaves, rows)] == [bits(e) for e in expected]


def wrapped(x: int, dtype: Any) -> int:
    info = np.iinfo(dtype)
    return (x - int(info.min)) % (1 << info.bits) + int(info.min)


def checksum(c: Any, v: Any, of: Callable[[int], Any]) -> Any:
    """A cyclic redundancy check of four bits an iteration; `of` makes constants."""
    c = c ^ v
    for _ in range(4):
        c = (c >> of(1)) ^ ((c & of(1)) * of(0xEDB88320))
    return c


INTEGERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "checksum": ("uint32", checksum),
    "xorshift": ("uint32", lambda c, v, of: ((c ^ (c << of(13))) & of(2**32 - 1)) >> of(17) ^ (c << of(5)) ^ v),
    "generator": ("int32", lambda c, v, of: (c * of(1664525) + v) * of(22695477) - (c ^ v) * of(3)),
    "remainder": ("int64", lambda c, v, of: (c * of(31) + v) % of(1000003)),
    "narrow": ("int8", lambda c, v, of: (c * of(5) - v) * of(3) + (c & v)),
    "bits": ("uint16", lambda c, v, of: ((c + v) | of(6)) * of(7) ^ (c >> of(3))),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_those_of_python(name: str) -> None:
    dtype, step = INTEGERS[name]
    of, info = np.dtype(dtype).type, np.iinfo(dtype)
    rows = RNG.integers(int(info.min), int(info.max), 300, dtype, endpoint=True)
    states = [7]
    for row in rows.tolist():
        states.append(wrapped(step(states[-1], row, int), dtype))
    last, before = run(lambda v: lax.scan(lambda c, v: (step(c, v, of), c), of(7), v), rows)
    assert [*before.tolist(), int(last)] == states


def test_inner_loops_of_different_lengths() -> None:
    def collatz(n: Any) -> Any:
        def step(c: Any) -> Any:
            return jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1, jnp.maximum(c[2], c[0])

        return lax.while_loop(lambda c: c[0] > 1, step, (n, jnp.int32(0), n))[1:]

    numbers = np.arange(60, dtype=np.int32)[::-1].copy()
    lengths, largest = run(lambda n: lax.map(collatz, n), numbers)
    for n, length, most in zip(numbers.tolist(), lengths, largest, strict=True):
        k, top, steps = n, n, 0
        while k > 1:
            top, k, steps = max(top, k), k // 2 if k % 2 == 0 else 3 * k + 1, steps + 1
        assert (length, most) == (steps, top), n


def test_a_branch_that_is_not_chosen_is_not_run() -> None:
    def body(v: Any) -> Any:
        return lax.cond(v > 0, lambda u: lax.while_loop(lambda c: c < 100, lambda c: c * 2, u), lambda u: u, v)

    x = np.array([1, 0, -3, 5, 0], np.float32)  # of 0 the loop would never end
    assert run(lambda x: lax.map(body, x), x)[0].tolist() == [128, 0, -3, 160, 0]


def test_an_index_that_is_no_branch_chooses_the_last() -> None:
    text = """func.func @main(%i: tensor<i32>, %x: tensor<2xi32>) -> tensor<2xi32> {
      %c = "stablehlo.case"(%i) ({
        %p = stablehlo.add %x, %x : tensor<2xi32>
        stablehlo.return %p : tensor<2xi32>
      }, {
        %p = stablehlo.negate %x : tensor<2xi32>
        stablehlo.return %p : tensor<2xi32>
      }) : (tensor<i32>) -> tensor<2xi32>
      return %c : tensor<2xi32>
    }"""
    program, x = interp.load(text), np.array([3, 4], np.int32)
    assert [program(np.int32(i), x)[0].tolist() for i in (-1, 0, 1, 2)] == [[-3, -4], [6, 8], [-3, -4], [-3, -4]]


def test_keys_that_are_split_in_a_loop() -> None:
    def step(key: Any, _: Any) -> Any:
        key, draw = jax.random.split(key)
        return key, jax.random.bits(draw, (3,))

    draws = jax.jit(lambda key: lax.scan(step, key, None, 20))
    key = np.array([3, 9], np.uint32)
    for found, expected in zip(load(draws, key)(key), draws(key), strict=True):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(40,), (5, 7), (3, 1, 4), (1,)])
def test_elements_are_moved(dtype: str, shape: tuple[int, ...]) -> None:
    """Each iteration writes an element that it reads elsewhere, at places of which some lie outside."""
    places = RNG.integers(-9, 9, (30, 2, len(shape))).astype(np.int32)
    places[0], places[1] = 0, np.array(shape) - 1
    values = RNG.standard_normal(shape) * 4
    x = (values > 0 if dtype == "bool" else np.abs(values)).astype(jnp.dtype(dtype))

    def step(i: Any, x: Any, places: Any) -> Any:
        value = lax.dynamic_slice(x, tuple(places[i, 0]), (1,) * len(shape), allow_negative_indices=False)
        return x.at[tuple(places[i, 1])].set(value.reshape(()), mode="drop", wrap_negative_indices=False)

    (found,) = run(lambda x, p: lax.fori_loop(0, len(p), lambda i, x: step(i, x, p), x), x, places)
    expected = x.copy()
    for source, target in places:
        value = expected[tuple(np.clip(source, 0, np.array(shape) - 1))]
        if all(0 <= t < n for t, n in zip(target, shape, strict=True)):
            expected[tuple(target)] = value
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8])
@pytest.mark.parametrize("method", ["add", "multiply", "max"])
@np.errstate(all="ignore")
def test_elements_are_combined_in_order(dtype: Any, method: str) -> None:
    places, values = RNG.integers(-3, 9, 40).astype(np.int32), np.abs(RNG.standard_normal(40) * 4).astype(dtype)
    x = np.arange(8).astype(dtype)

    def step(i: Any, x: Any, places: Any, values: Any) -> Any:
        return getattr(x.at[places[i]], method)(values[i] + x[0], mode="drop", wrap_negative_indices=False)

    (found,) = run(lambda x, *v: lax.fori_loop(0, 40, lambda i, x: step(i, x, *v), x), x, places, values)
    for place, value in zip(places, values, strict=True):
        if 0 <= place < len(x):
            combine = {"add": np.add, "multiply": np.multiply, "max": np.maximum}[method]
            x[place] = combine(x[place], value + x[0])
    assert found.tobytes() == x.tobytes()


def test_a_table_is_filled_element_by_element() -> None:
    """The longest common subsequence, by rows and columns."""
    a, b = RNG.integers(0, 3, 12).astype(np.int32), RNG.integers(0, 3, 9).astype(np.int32)

    def lengths(a: Any, b: Any) -> Any:
        def cell(i: Any, j: Any, t: Any) -> Any:
            longer = jnp.maximum(t[i - 1, j], t[i, j - 1])
            return t.at[i, j].set(jnp.where(a[i - 1] == b[j - 1], t[i - 1, j - 1] + 1, longer))

        def row(i: Any, t: Any) -> Any:
            return lax.fori_loop(1, 10, lambda j, t: cell(i, j, t), t)

        return lax.fori_loop(1, 13, row, jnp.zeros((13, 10), jnp.int32))

    (found,) = run(lengths, a, b)
    expected = np.zeros((13, 10), int)
    for i in range(1, 13):
        for j in range(1, 10):
            longer = max(expected[i - 1, j], expected[i, j - 1])
            expected[i, j] = expected[i - 1, j - 1] + 1 if a[i - 1] == b[j - 1] else longer
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 10, 1), (-5, 5, 3), (5, 5, 1), (7, 3, 1), (-9, -2, 2)])
def test_counters(start: int, stop: int, step: int) -> None:
    def count(x: Any) -> Any:
        def body(s: Any) -> Any:
            i, down, total = s
            return i + step, down - 7, total * 3 + x[i] + x[-down] + jnp.where(i < 0, 1, 0)

        return lax.while_loop(lambda s: s[0] < stop, body, (np.int32(start), np.int32(-1), np.int32(1)))

    x = np.arange(20, dtype=np.int32) ** 2
    found = [r.item() for r in run(count, x)]
    i, down, total = start, -1, 1
    while i < stop:
        value = x[np.clip(i + 20 if i < 0 else i, 0, 19)] + x[np.clip(-down, 0, 19)]
        total = wrapped(total * 3 + int(value) + (i < 0), np.int32)
        i, down = i + step, down - 7
    assert found == [i, down, total]


def test_a_counter_wraps() -> None:
    def body(s: Any) -> Any:
        return s[0] + np.int8(50), s[1] + 1

    for limit, expected in ((100, (100, 2)), (120, (wrapped(9 * 50, np.int8), 9))):
        goes_on = lambda s, n=limit: (s[0] < n) & (s[1] < 9)  # noqa: E731
        last, count = run(lambda x, go=goes_on: lax.while_loop(go, body, (x, 0)), np.int8(0))
        assert (last.item(), count.item()) == expected
