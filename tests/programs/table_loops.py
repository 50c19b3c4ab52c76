"""Random loops that read and write elements of arrays, to be run by JAX and, turn by turn, by numpy."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

#: The dtypes of arrays and numbers.
DTYPES = np.int32, np.int32, np.float32, np.uint8, np.bool_, np.int16, np.uint32
_SIZE = 6


class Eager:
    """The operations of loops, one by one on numpy's arrays; an array that is written to is a new one."""

    where = staticmethod(np.where)

    @staticmethod
    def put(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
        index = tuple(int(i) + n if i < 0 else int(i) for i, n in zip(index, array.shape, strict=True))
        new = array.copy()
        if all(0 <= i < n for i, n in zip(index, array.shape, strict=True)):
            new[index] = value
        return new

    @staticmethod
    def get(array: np.ndarray, index: Any) -> Any:
        index = (int(i) + n if i < 0 else int(i) for i, n in zip(index, array.shape, strict=True))
        return array[tuple(min(max(i, 0), n - 1) for i, n in zip(index, array.shape, strict=True))]

    @staticmethod
    def cond(test: Any, yes: Callable[..., Any], no: Callable[..., Any], state: Any) -> Any:
        return yes(state) if test else no(state)

    @staticmethod
    def loop(count: int, turn: Callable[..., Any], state: Any) -> Any:
        for i in range(count):
            state = turn(np.int32(i), state)
        return state

    @staticmethod
    def until(test: Callable[..., Any], turn: Callable[..., Any], state: Any) -> Any:
        while test(state):
            state = turn(state)
        return state

    @staticmethod
    def scan(turn: Callable[..., Any], state: Any, rows: np.ndarray) -> Any:
        outs = []
        for row in rows:
            state, out = turn(state, row)
            outs.append(out)
        return state, np.stack(outs)


class Lazy:
    """The same operations as JAX's."""

    where, cond = staticmethod(jnp.where), staticmethod(lax.cond)

    @staticmethod
    def put(array: Any, index: Any, value: Any) -> Any:
        return array.at[index].set(value)

    @staticmethod
    def get(array: Any, index: Any) -> Any:
        return array[index]

    @staticmethod
    def loop(count: int, turn: Callable[..., Any], state: Any) -> Any:
        return lax.fori_loop(0, count, turn, state)

    until, scan = staticmethod(lax.while_loop), staticmethod(lax.scan)


@dataclasses.dataclass(frozen=True)
class TableLoop:
    """A loop of a seed: `run(operations, *arrays)` gives its results."""

    run: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]


def random_table_loop(seed: int) -> TableLoop:
    """A loop over two or three arrays and a number."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    arrays, are_alike = [], draw.random() < 0.6  # which can change places then
    dtype, shape = np.dtype(np.int32), (_SIZE,)
    for i in range(draw.randint(2, 3)):
        if not (i and are_alike):
            dtype = np.dtype(draw.choice(DTYPES))
            shape = draw.choice([(_SIZE,), (_SIZE,), (4, 5), (40,)])
        values = numbers.standard_normal(shape) * 3 if dtype.kind == "f" else numbers.integers(0, 9, shape)
        arrays.append(values.astype(dtype))
    shapes, dtypes = [a.shape for a in arrays], [a.dtype for a in arrays]
    kind, count = draw.choice(["loop", "scan", "until", "nested", "nested scan"]), draw.choice([0, 1, 2, 5, 40])
    plan = draw.getrandbits(32)
    if seed % 5 == 3 and count:
        kind = "scan of scans"

    def turn(np_: Any, i: Any, state: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        return _turn(np_, random.Random(plan), shapes, dtypes, i, state)

    def inner(np_: Any, state: Any, row: Any) -> Any:
        """A loop within a turn that keeps something of each of its own."""
        state, outs = np_.scan(lambda s, i: turn(np_, i + row, s), state, np.arange(3, dtype=np.int32))
        return state, np_.get(outs, (row % np.int32(3),))

    def run(np_: Any, rows: Any, *tables: Any) -> Any:
        state = (*tables, np.int32(1))
        if kind == "loop":
            return np_.loop(count, lambda i, s: turn(np_, i, s)[0], state)
        if kind == "scan of scans":
            return np_.scan(lambda s, r: inner(np_, s, r), state, rows[:count])
        if kind in ("scan", "nested scan") and count:
            again = kind == "nested scan"
            return np_.scan(
                lambda s, r: turn(np_, r, np_.loop(3, lambda i, s: turn(np_, i + r, s)[0], s) if again else s),
                state,
                rows[:count],
            )
        if kind == "until":
            some = np_.until(
                lambda s: s[0] < count,
                lambda s: (s[0] + np.int32(1), *turn(np_, s[0], s[1:])[0]),
                (np.int32(0), *state),
            )
            return some[1:]
        return np_.loop(
            min(count, 5), lambda i, s: np_.loop(4, lambda j, s: turn(np_, i + j, s)[0], turn(np_, i, s)[0]), state
        )

    return TableLoop(run, (numbers.integers(-9, 20, 40).astype(np.int32), *arrays))


def _turn(
    np_: Any, draw: random.Random, shapes: list, dtypes: list, i: Any, state: tuple[Any, ...]
) -> tuple[tuple[Any, ...], Any]:
    tables, number = list(state[:-1]), state[-1]
    start = list(tables)
    out = number
    for _ in range(draw.randint(1, 5)):
        a = draw.randrange(len(tables))
        twins = [t for t in range(len(tables)) if shapes[t] == shapes[a] and dtypes[t] == dtypes[a]]
        what = draw.choice(["put", "put", "put", "get", "swap", "old", "old", "cond", "number"])
        index = _index(draw, shapes[a], i, number)
        if what == "put":
            source = draw.choice([tables, start])
            b = draw.randrange(len(tables))
            value = _as(np_, np_.get(source[b], _index(draw, shapes[b], i, number)), dtypes[a])
            tables[a] = np_.put(tables[a], index, _mixed(np_, draw, value, np_.get(tables[a], index), dtypes[a]))
        elif what == "get":
            number = _as(np_, np_.get(tables[a], index), np.dtype(np.int32)) + number % np.int32(7)
        elif what == "swap":
            b = draw.choice(twins)
            tables[a], tables[b] = tables[b], tables[a]
        elif what == "old":
            tables[draw.choice(twins)] = draw.choice([start, tables])[a]
        elif what == "cond":
            value = _as(np_, number, dtypes[a])
            branches = [lambda t, index=index, value=value: np_.put(t, index, value), lambda t: t]
            tables[a] = np_.cond(number % np.int32(2) == 0, *draw.sample(branches, 2), tables[a])
        else:
            number = (number * np.int32(5) + i) % np.int32(11)
        out = draw.choice([number, out])
    return (*tables, number), out


def _index(draw: random.Random, shape: tuple[int, ...], i: Any, number: Any) -> tuple[Any, ...]:
    kinds = [lambda n: i, lambda n: number, lambda n: i % np.int32(n), lambda n: np.int32(draw.randrange(n))]
    return tuple(draw.choice(kinds)(n) for n in shape)


def _as(np_: Any, value: Any, dtype: np.dtype) -> Any:
    """A number of another dtype; of floats the integers below 8 in size, so that all convert alike."""
    if dtype == value.dtype:
        return value
    if dtype == np.bool_:
        return value > value.dtype.type(0)
    if value.dtype.kind == "f":
        value = np_.where(value > 0, np_.where(value < 8, value, 1), 0).astype(np.float32).astype(np.int32)
    return value.astype(dtype)


def _mixed(np_: Any, draw: random.Random, a: Any, b: Any, dtype: np.dtype) -> Any:
    if dtype == np.bool_:
        return draw.choice([lambda: a & b, lambda: a | b, lambda: a ^ b])()
    half = dtype.type(0.5) if dtype.kind == "f" else dtype.type(3)
    return draw.choice([lambda: a, lambda: a * half, lambda: a + b, lambda: np_.where(a < b, a, b)])()
