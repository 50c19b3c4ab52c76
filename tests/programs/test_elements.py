"""Loops that read and write single elements at computed places; what is expected is computed by numpy, or in Python."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

RNG = np.random.default_rng(31)
TYPES = ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "int32", "int64", "uint8", "int16", "bool"]


def outputs(function: Any, *arguments: Any) -> list[np.ndarray]:
    with jax.enable_x64(True):
        program = interp.load(jax.jit(function).lower(*arguments).as_text())
    before = [np.array(a) for a in arguments]
    found = program(*arguments)
    assert [np.asarray(a).tobytes() for a in arguments] == [b.tobytes() for b in before]  # no argument is written over
    return [np.asarray(r) for r in found] if isinstance(found, tuple | list) else [np.asarray(found)]


def array(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = RNG.standard_normal(shape) * 4
    return (values > 0 if dtype == "bool" else np.abs(values) if dtype == "uint8" else values).astype(jnp.dtype(dtype))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(40,), (5, 7), (3, 1, 4), (1,)])
def test_elements_are_moved(dtype, shape):
    """Each turn writes an element that it reads elsewhere, at places of which some lie outside."""
    places = RNG.integers(-9, 9, (30, 2, len(shape))).astype(np.int32)
    places[0], places[1] = 0, np.array(shape) - 1

    def move(x: Any, places: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            value = lax.dynamic_slice(x, tuple(places[i, 0]), (1,) * len(shape), allow_negative_indices=False)
            return x.at[tuple(places[i, 1])].set(value.reshape(()), mode="drop", wrap_negative_indices=False)

        return lax.fori_loop(0, len(places), turn, x)

    x = array(dtype, shape)
    (found,) = outputs(move, x, places)
    expected = x.copy()
    for source, target in places:
        value = expected[tuple(np.clip(source, 0, np.array(shape) - 1))]
        if all(0 <= t < n for t, n in zip(target, shape, strict=True)):
            expected[tuple(target)] = value
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("way", ["add", "multiply", "max"])
@np.errstate(all="ignore")
def test_elements_are_combined(dtype, way):
    places, values = RNG.integers(-3, 9, 40).astype(np.int32), array(dtype, (40,))
    x = array(dtype, (8,))

    def combine(x: Any, places: Any, values: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            at = x.at[places[i]]
            return getattr(at, way)(values[i] + x[0], mode="drop", wrap_negative_indices=False)

        return lax.fori_loop(0, len(places), turn, x)

    (found,) = outputs(combine, x, places, values)
    for place, value in zip(places, values, strict=True):
        if 0 <= place < len(x):
            new = value + x[0]
            x[place] = {"add": np.add, "multiply": np.multiply, "max": np.maximum}[way](x[place], new)
    assert found.tobytes() == x.tobytes()


def test_an_array_that_is_read_after_it_is_written_keeps_what_was_read():
    """A number is read of the array as it is there, though it is used after the array is written over."""

    def turn(i: Any, carried: Any) -> Any:
        x, seen = carried
        old = x[i]
        x = x.at[i].set(x[(i + 1) % 6] + 1)
        return x, seen.at[i].set(old * 10 + x[i])

    x = np.arange(6, dtype=np.int32)
    found, seen = outputs(lambda x: lax.fori_loop(0, 6, turn, (x, jnp.zeros_like(x))), x)
    expected, expected_seen = x.copy(), np.zeros(6, np.int32)
    for i in range(6):
        old, expected[i] = expected[i], expected[(i + 1) % 6] + 1
        expected_seen[i] = old * 10 + expected[i]
    assert found.tolist() == expected.tolist()
    assert seen.tolist() == expected_seen.tolist()


def test_an_array_of_which_both_are_wanted_is_copied():
    def turn(i: Any, carried: Any) -> Any:
        x, before = carried
        return x.at[i, i].set(x[i, i] * 2 + 1), x

    x = array("float32", (4, 4))
    after, before = outputs(lambda x: lax.fori_loop(0, 4, turn, (x, x)), x)
    expected = x.copy()
    for i in range(4):
        previous = expected.copy()
        expected[i, i] = expected[i, i] * 2 + 1
    assert after.tobytes() == expected.tobytes()
    assert before.tobytes() == previous.tobytes()


def test_tables_are_filled_element_by_element():
    """The longest common subsequence, by rows and columns."""
    a, b = RNG.integers(0, 3, 12).astype(np.int32), RNG.integers(0, 3, 9).astype(np.int32)

    def lengths(a: Any, b: Any) -> Any:
        def cell(i: Any, j: Any, t: Any) -> Any:
            longer = jnp.maximum(t[i - 1, j], t[i, j - 1])
            return t.at[i, j].set(jnp.where(a[i - 1] == b[j - 1], t[i - 1, j - 1] + 1, longer))

        def row(i: Any, t: Any) -> Any:
            return lax.fori_loop(1, 10, lambda j, t: cell(i, j, t), t)

        return lax.fori_loop(1, 13, row, jnp.zeros((13, 10), jnp.int32))

    (found,) = outputs(lengths, a, b)
    expected = np.zeros((13, 10), int)
    for i in range(1, 13):
        for j in range(1, 10):
            longer = max(expected[i - 1, j], expected[i, j - 1])
            expected[i, j] = expected[i - 1, j - 1] + 1 if a[i - 1] == b[j - 1] else longer
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("start", "stop", "step"), [(0, 10, 1), (-5, 5, 3), (5, 5, 1), (7, 3, 1), (0, 1, 1), (-9, -2, 2)]
)
def test_counters_stay_what_they_are(start, stop, step):
    """Loops whose ranges are known, from their first to their last numbers; another number counts along, downwards."""

    def count(x: Any) -> Any:
        def turn(s: Any) -> Any:
            i, down, total = s
            return i + step, down - 7, total * 3 + x[i] + x[-down] + jnp.where(i < 0, 1, 0)

        return lax.while_loop(lambda s: s[0] < stop, turn, (np.int32(start), np.int32(-1), np.int32(1)))

    x = np.arange(20, dtype=np.int32) ** 2
    found = [r.item() for r in outputs(count, x)]
    i, down, total = start, -1, 1
    while i < stop:
        value = x[np.clip(i + 20 if i < 0 else i, 0, 19)] + x[np.clip(-down, 0, 19)]
        total = (total * 3 + int(value) + (i < 0) + 2**31) % 2**32 - 2**31
        i, down = i + step, down - 7
    assert found == [i, down, total]


def test_a_counter_may_leave_its_type():
    """What a turn adds would not fit: the number comes round."""

    def turn(s: Any) -> Any:
        return s[0] + np.int8(50), s[1] + 1

    last, count = outputs(lambda x: lax.while_loop(lambda s: (s[0] < 100) & (s[1] < 9), turn, (x, 0)), np.int8(0))
    assert (last.item(), count.item()) == (100, 2)

    def beyond(x: Any) -> Any:
        return lax.while_loop(lambda s: (s[0] < 120) & (s[1] < 9), turn, (x, 0))

    last, count = outputs(beyond, np.int8(0))
    assert (last.item(), count.item()) == ((9 * 50 + 128) % 256 - 128, 9)


def test_sums_are_brought_into_range_once():
    """Three sums and products of integers in one expression; each alone would leave 32 bits."""
    x = RNG.integers(-(1 << 31), 1 << 31, 200).astype(np.int32)

    def turn(c: Any, v: Any) -> Any:
        new = (c * 1664525 + v) * 22695477 - (c ^ v) * 3
        return new, new >> 3

    last, given = outputs(lambda x: lax.scan(turn, np.int32(7), x), x)
    c, expected = 7, []
    for v in x.tolist():
        c = ((c * 1664525 + v) * 22695477 - (c ^ v) * 3 + 2**31) % 2**32 - 2**31
        expected.append(c >> 3)
    assert last.item() == c
    assert given.tolist() == expected


def test_a_scatter_of_one_number_is_an_assignment():
    text = (
        jax.jit(lambda x: lax.fori_loop(0, 20, lambda i, x: x.at[i, 2 * i].add(x[i - 1, i + 3]), x))
        .lower(np.zeros((20, 40), np.float32))
        .as_text()
    )
    source = "".join(s.text for s in interp.load(text).plan().sources.values())
    assert re.search(r"v\d+\[v\d+, v\d+\] = ", source)


def test_integers_keep_their_own_range_in_a_wider_type():
    x = RNG.integers(-(1 << 31), 1 << 31, 50).astype(np.int32)

    def turn(c: Any, v: Any) -> Any:
        wide = (c * 1664525 + v).astype(jnp.uint64)
        return c ^ v ^ (wide >> 40).astype(jnp.int32), wide

    last, given = outputs(lambda x: lax.scan(turn, np.int32(7), x), x)
    c, expected = 7, []
    for v in x.tolist():
        expected.append(((c * 1664525 + v + 2**31) % 2**32 - 2**31) % 2**64)
        c = (c ^ v ^ (expected[-1] >> 40)) & 0xFFFFFFFF
        c = (c + 2**31) % 2**32 - 2**31
    assert last.item() == c
    assert given.tolist() == expected


def test_an_update_of_one_element_is_an_assignment():
    """At the nearest place that there is; the array of before is still there where something needs it."""
    x, places = RNG.standard_normal((7, 9)).astype(np.float32), RNG.integers(-9, 15, (40, 2)).astype(np.int32)

    def turn(c: Any, p: Any) -> Any:
        new = lax.dynamic_update_slice(c, (c[1, 2] * 0.5 + c[4, 0])[None, None], (p[0], p[1]))
        return new, (c[1, 2], new[1, 2] - c[1, 2])

    f = lambda x, places: lax.scan(turn, x, places)  # noqa: E731
    source = "".join(s.text for s in interp.load(jax.jit(f).lower(x, places).as_text()).plan().sources.values())
    assert re.search(r"\n +v\d+\[.* else .*\] = ", source), source
    last, before, change = outputs(f, x, places)
    c = x.copy()
    for k, place in enumerate(places):
        old, (i, j) = c[1, 2], place + c.shape * (place < 0)  # JAX counts from the end
        c[np.clip(i, 0, 6), np.clip(j, 0, 8)] = old * np.float32(0.5) + c[4, 0]
        assert (before[k], change[k]) == (old, c[1, 2] - old)
    assert last.tolist() == c.tolist()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float8_e4m3fn", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("window", [(1, 4), (3, 1), (2, 2), (1, 1)])
def test_slices_of_a_few_elements_are_read_number_by_number(dtype, window):
    """Rows, columns and blocks at computed places, clamped to the array, which each turn writes to as well."""
    x, places = array(dtype, (6, 40)), RNG.integers(-3, 44, (50, 2)).astype(np.int32)

    def turn(c: Any, p: Any) -> Any:
        read = lax.dynamic_slice(c, (p[0], p[1]), window, allow_negative_indices=False)
        largest = read.reshape(-1)[0]
        for v in read.reshape(-1)[1:]:
            largest = jnp.where(v > largest, v, largest)
        return c.at[p[0] % 6, p[1] % 40].set(largest), read[0, 0]

    last, first = outputs(lambda x, p: lax.scan(turn, x, p), x, places)
    c = x.copy()
    for k, (i, j) in enumerate(places):
        row, column = np.clip(i, 0, 6 - window[0]), np.clip(j, 0, 40 - window[1])
        read = c[row : row + window[0], column : column + window[1]].reshape(-1)
        largest = read[0]
        for v in read[1:]:
            largest = v if v > largest else largest
        assert first[k].tobytes() == read[0].tobytes()
        c[i % 6, j % 40] = largest
    assert last.tobytes() == c.tobytes()


def test_static_slices_with_steps_are_read_number_by_number():
    x = RNG.standard_normal((50, 9)).astype(np.float32)

    def turn(c: Any, i: Any) -> Any:
        a, b, d = c[3:50:20, 2]
        return c.at[i, 2].set(a * b - d), a

    last, given = outputs(lambda x: lax.scan(turn, x, jnp.arange(40, dtype=jnp.int32)), x)
    c = x.copy()
    for i in range(40):
        a, b, d = c[3:50:20, 2].copy()
        assert given[i] == a
        c[i, 2] = a * b - d
    assert last.tobytes() == c.tobytes()
