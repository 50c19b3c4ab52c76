"""Loops whose states do not all hang on each other: a recurrence for each part, with the bits of turn by turn.

What is expected is made by a loop in Python over a program of one turn, or by numpy on integers.
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
from minihlo.interp.compile.passes.components import components, users
from minihlo.interp.program import Location, Operation, Region, Value
from minihlo.ops.types import ELEMENT_TYPES, TensorType

RNG = np.random.default_rng(21)
MATRIX = (RNG.standard_normal((5, 5)) / 3).astype(np.float32)
LARGE = RNG.standard_normal(9000).astype(np.float32)
BF16, F8 = jnp.bfloat16, jnp.float8_e4m3fn


def codes(x: Any) -> bytes:
    return np.ascontiguousarray(x).tobytes()


def _key_first(c: Any, v: Any) -> Any:
    key, state = c
    key, draw = jax.random.split(key)
    state = state * 0.5 + jax.random.normal(draw, (5,)) + v
    return (key, state), state


def _draws(c: Any, v: Any) -> Any:
    """The numbers that are drawn for all turns take little memory, what they are computed of would take much."""
    key, state = c
    key, draw = jax.random.split(key)
    state = jnp.argmax(state[:, None] + jax.random.gumbel(draw, (5, 60)), 1) * 0.5 + v
    return (key, state), state


def _sums_last(c: Any, v: Any) -> Any:
    """As the backward pass of a cell: what is added up needs the state, which does not need it."""
    h, weights, bias = c
    h = jnp.tanh(MATRIX @ h + v)
    return (h, weights + jnp.outer(h, v), bias + h * h), None


def _chain(c: Any, v: Any) -> Any:
    a, b, d = c
    return (a * 0.9 + v, b * 0.5 - jnp.exp(a), d * 0.25 + b * a), (a, d)


def _used_twice(c: Any, v: Any) -> Any:
    """What the last state needs of the first is needed after the loop too, and made of more there."""
    a, b, d = c
    x = MATRIX @ a
    return (a * 0.9 + v, b * 0.5 - jnp.exp(a), d * 0.25 + b * x), jnp.sum(x) * 2


def _circle(c: Any, v: Any) -> Any:
    """The first two need each other; the last hands on what another computes."""
    a, b, d = c
    return (b * 0.5 + v, a - 1, a), d


def _no_batch(c: Any, v: Any) -> Any:
    """Between the states there is what cannot be made for all turns at once: a function of f64."""
    a, b = c
    a = a * 0.5 + v
    return (a, b + jnp.exp(a.astype(np.float64)).astype(np.float32)), b


def _large(c: Any, v: Any) -> Any:
    a, b = c
    return (a * 0.5 + v[0], b + jnp.sin(a[0]) * LARGE), None


def _loop_between(c: Any, v: Any) -> Any:
    a, b = c
    halved = lax.while_loop(lambda s: s > 1, lambda s: s / 2, a[0] * a[0])
    return (a * 0.5 + v, b * halved), halved


def _many(c: Any, v: Any) -> Any:
    """More parts than there are recurrences: those that do not need each other are one."""
    return tuple(c[0] * 0.5 + v if i == 0 else x + c[0] * i for i, x in enumerate(c)), c[3]


def _branches(c: Any, v: Any) -> Any:
    """No NaN changes its sign: of two NaN that are added it is the processor's choice which one is the sum."""
    a, b = c
    return (v - a * 0.5, lax.cond(a[0] > 0, lambda: b + a, lambda: b * 0.5)), b[1]


ZEROS = np.zeros(5, np.float32)
#: A body, the first state, and of how many recurrences its plan speaks.
BODIES: dict[str, tuple[Callable[..., Any], Any, int]] = {
    "a key first": (_key_first, (np.array([1, 2], np.uint32), ZEROS), 2),
    "sums last": (_sums_last, (ZEROS, np.zeros((5, 5), np.float32), ZEROS), 3),
    "a chain": (_chain, (ZEROS, ZEROS, ZEROS), 3),
    "a chain of bf16": (_chain, tuple(ZEROS.astype(BF16) for _ in range(3)), 3),
    "a chain of f8E4M3FN": (_chain, tuple(ZEROS.astype(F8) for _ in range(3)), 3),
    "used twice": (_used_twice, (ZEROS, ZEROS, ZEROS), 3),
    "a circle": (_circle, (ZEROS, ZEROS, ZEROS), 2),
    "no batch": (_no_batch, (ZEROS, ZEROS), 2),
    "large": (_large, (ZEROS, LARGE), 2),
    "a loop between": (_loop_between, (ZEROS, ZEROS + 1), 2),
    "many": (_many, (ZEROS,) * 12, 2),
    "branches": (_branches, (ZEROS, ZEROS), 2),
    "many draws": (_draws, (np.array([1, 2], np.uint32), ZEROS), 2),
}


@pytest.mark.parametrize("name", BODIES)
@np.errstate(all="ignore")
def test_the_bits_are_those_of_each_turn(name):
    body, first, count = BODIES[name]
    dtype = jax.tree.leaves(first)[-1].dtype
    rng = np.random.default_rng([21, *name.encode()])  # the same rows, whichever tests ran before
    rows = (rng.standard_normal((24, 5)) * 2).astype(dtype)
    rows[3], rows[7, 2], rows[9, 1] = 0, np.nan, -0.0
    with jax.enable_x64(name == "no batch"):
        whole = jax.jit(lambda c, v: lax.scan(body, c, v)).lower(first, rows).as_text()
        turn = interp.load(jax.jit(body).lower(first, rows[0]).as_text())
    leaves, width = jax.tree.leaves(first), len(jax.tree.leaves(first))
    results = interp.load(whole)(*leaves, rows)
    state, given = list(leaves), []
    for row in rows:
        found = [np.asarray(r) for r in turn(*state, row)]
        state = found[:width]
        given.append(found[width:])
    expected = [*state, *(np.stack(g) for g in zip(*given, strict=True))]
    for result, value in zip(results, expected, strict=True):
        assert codes(result) == codes(value)
    assert listing(interp.load(whole).plan()).count("24 turns over rows") == count


def test_integers_are_those_of_numpy():
    def body(c: Any, v: Any) -> Any:
        a, b, d = c
        return (a * 3 + v, b ^ a, d + b), (d, b)

    rows, start = np.arange(50, dtype=np.uint32).reshape(25, 2), np.array([5, 7], np.uint32)
    text = jax.jit(lambda c, v: lax.scan(body, (c, c, c), v)).lower(start, rows).as_text()
    a = b = d = start
    seen: list[tuple[Any, Any]] = []
    for v in rows:
        seen.append((d, b))
        a, b, d = a * np.uint32(3) + v, b ^ a, d + b
    expected = [a, b, d, np.stack([s[0] for s in seen]), np.stack([s[1] for s in seen])]
    for result, value in zip(interp.load(text)(start, rows), expected, strict=True):
        assert np.asarray(result).tolist() == value.tolist()


def _turn(needs: np.ndarray) -> tuple[Region, list[Operation]]:
    """A turn of states each of which is made of those that it needs, by one operation."""
    t, place = TensorType((), ELEMENT_TYPES["f32"]), Location("test", 1, 1)
    arguments = tuple(Value(t) for _ in needs)
    made = [
        Operation(
            "stablehlo.add", tuple(a for a, n in zip(arguments, row, strict=True) if n), (Value(t),), {}, (), place
        )
        for row in needs
    ]
    return Region(arguments, made, tuple(o.results[0] for o in made)), made


@pytest.mark.parametrize("seed", range(40))
def test_components_are_those_of_all_ways(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 9))
    needs = rng.random((count, count)) < rng.choice([0.1, 0.2, 0.4])
    reaches = needs | np.eye(count, dtype=bool)
    for k, i, j in itertools.product(range(count), repeat=3):  # Warshall's way
        reaches[i, j] |= reaches[i, k] and reaches[k, j]
    turn, made = _turn(needs)
    groups = components(turn, range(count), most=count)
    assert sorted(itertools.chain(*groups)) == list(range(count))
    for at, group in enumerate(groups):
        later = list(itertools.chain(*groups[at + 1 :]))
        assert not reaches[np.ix_(group, later)].any()
        assert all((reaches[i, j] and reaches[j, i]) == (j in group) for i in group for j in range(count))
    few = components(turn, range(count), most=1)
    for at, group in enumerate(few):
        assert not reaches[np.ix_(group, list(itertools.chain(*few[at + 1 :])))].any()
    masks = users(turn, {k: [turn.returns[i] for i in group] for k, group in enumerate(groups)})
    assert [masks[o] for o in made] == [1 << k for i in range(count) for k, g in enumerate(groups) if i in g]


def test_numbers_of_many_turns_are_kept() -> None:
    """The running maximum is handed on by itself, however many turns there are: exponentials are of all at once."""

    def turn(c: Any, v: Any) -> Any:
        largest = jnp.maximum(c[0], v)
        return (largest, c[1] * jnp.exp(c[0] - largest) + jnp.exp(v - largest)), None

    def f(x: Any) -> Any:
        return lax.scan(turn, (np.float32(-np.inf), np.float32(0)), x)[0]

    text = listing(interp.load(jax.jit(f).lower(jax.ShapeDtypeStruct((300_000,), np.float32))).plan())
    assert "exponential" in text
    turns = [part for part in text.split("\n\n") if part.startswith("# turns")]
    assert len(turns) == 2
    assert not any("exponential" in part for part in turns)
