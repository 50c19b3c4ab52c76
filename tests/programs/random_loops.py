"""Random loops, written in JAX: bodies of random operations on states, rows and counters of many types and shapes."""

import dataclasses
import functools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

DTYPES = tuple(
    map(
        np.dtype,
        (np.int32, np.int32, np.uint32, np.int8, np.uint8, np.float32, np.float32, jnp.bfloat16, np.float16)
        + (jnp.float8_e4m3fn, jnp.float8_e5m2fnuz, np.bool_),
    )
)
SHAPES = (), (), (), (3,), (4,), (2, 3), (5,), (8,), (40,), (3, 7), (1,), (64, 5)
KINDS = "scan", "reversed", "fori", "while", "map", "vmap of while", "nested", "scan of map", "switch"
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-7, 448, -65504, 1e-40, 3e38])
INTEGER = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lax.rem, lax.div, jnp.bitwise_xor,
    jnp.bitwise_and, lax.shift_right_arithmetic, lax.shift_right_logical, lax.shift_left, jnp.floor_divide,
)  # fmt: skip
FLOATING = jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, lax.div, lax.rem, lax.pow, jnp.hypot
LOGICAL = jnp.logical_and, jnp.logical_or, jnp.logical_xor
FUNCTIONS = jnp.negative, jnp.abs, jnp.tanh, lax.floor, jnp.sign, jnp.sqrt, jnp.exp, lax.logistic, lax.log1p, lax.cbrt
COUNTS = jnp.negative, jnp.abs, lambda x: x + x.dtype.type(1), lax.population_count, lax.clz, jnp.invert, jnp.sign


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop of a kind: `function(states, rows)` and its arguments."""

    kind: str
    function: Callable[..., Any]
    states: tuple[np.ndarray, ...]
    rows: tuple[np.ndarray, ...]


def random_loop(seed: int) -> Loop:
    """The loop of a seed."""
    draw = random.Random(seed)
    states = [(draw.choice(SHAPES), draw.choice(DTYPES)) for _ in range(draw.randint(1, 4))]
    rows = [(draw.choice(SHAPES), draw.choice(DTYPES)) for _ in range(draw.randint(1, 2))]
    iterations, kind, count = draw.choice([0, 1, 2, 3, 7, 16, 33, 70]), draw.choice(KINDS), draw.randint(1, 9)
    body = functools.partial(_body, draw.getrandbits(32), count, states)
    numbers = np.random.default_rng(seed)
    first = tuple(_data(numbers, shape, dtype) for shape, dtype in states)
    every = tuple(_data(numbers, (iterations, *shape), dtype) for shape, dtype in rows)
    return Loop(kind, functools.partial(_loop, kind, iterations, body), first, every)


def _data(numbers: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    if dtype == np.bool_:
        return numbers.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        large = numbers.random() < 0.4
        return numbers.integers(-(2**31) if large else -9, 2**31 if large else 10, shape).astype(dtype)
    values = numbers.standard_normal(shape) * 3
    if numbers.random() < 0.4:
        values = np.where(numbers.random(shape) < 0.2, numbers.choice(SPECIAL, shape), values)
    with np.errstate(all="ignore"):
        return values.astype(np.float32).astype(dtype)


def _loop(kind: str, iterations: int, body: Callable[..., Any], states: Any, rows: Any) -> Any:
    if kind in ("scan", "reversed"):
        return lax.scan(body, states, rows, reverse=kind == "reversed")
    if kind == "map":
        return lax.map(lambda row: body(states, row), rows)
    if kind == "scan of map":
        pairs = [jnp.stack([r, r[::-1]], 1) for r in rows]
        return lax.scan(
            lambda c, r: (body(c, tuple(x[0] for x in r))[0], lax.map(lambda x: body(c, x)[1], r)), states, tuple(pairs)
        )

    def step(c: Any) -> Any:
        return (c[0] + 1, *body(c[1:], (c[0],))[0])

    if kind == "vmap of while":
        start = jnp.int32(0), *states
        ends = jnp.arange(5, dtype=jnp.int32) * iterations // 4
        return jax.vmap(lambda end: lax.while_loop(lambda c: c[0] < end, step, start))(ends)
    if kind == "while":
        return lax.while_loop(lambda c: c[0] < iterations, step, (jnp.int32(0), *states))
    if kind == "nested":
        inner = lambda i, c: lax.scan(lambda c, _: body(c, (i,)), c, None, length=3)[0]  # noqa: E731
        return lax.fori_loop(0, min(iterations, 7), inner, states)
    if kind == "switch":
        branches = [lambda i, c: c, lambda i, c: body(c, (i,))[0], lambda i, c: body(c, (-i,))[0]]
        return lax.fori_loop(0, iterations, lambda i, c: lax.switch(i % 3, branches, i, c), states)
    return lax.fori_loop(0, iterations, lambda i, c: body(c, (i,))[0], states)


def _body(seed: int, count: int, states: Any, carried: Sequence[Any], taken: Sequence[Any]) -> Any:
    """An iteration: the next states, and one more value."""
    draw = random.Random(seed)
    values = _operations(draw, [*carried, *taken], 1, count)
    last = values[-4:] if draw.random() < 0.7 else values
    return tuple([_like(draw.choice(last), *state) for state in states]), draw.choice(values)


def _operations(draw: random.Random, values: list[Any], depth: int, count: int) -> list[Any]:
    makers = [_binary] * 7 + [_unary] * 4 + [_converted] * 3 + [_selected] * 2 + [_compared] + [_placed] * 2
    makers += [_moved] * 2 + [_reduced] + [_product]
    for _ in range(count):
        if depth and draw.random() < 0.1:
            values.append(_within(draw, values))
            continue
        value = draw.choice(makers)(draw, values)
        if value is not None and value.size <= 512:
            values.append(value)
    return values


def _like(value: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A value of a shape and dtype, made of another one."""
    if value.dtype != dtype:
        is_whole, was_whole = dtype.kind in "iub", value.dtype.kind in "iub"
        if dtype == np.bool_:
            value = value > value.dtype.type(0) if value.dtype != np.bool_ else value
        elif is_whole and not was_whole:
            wide = value.astype(jnp.float32)
            value = jnp.where(jnp.isnan(wide), 0, jnp.clip(wide, 0 if dtype.kind == "u" else -100, 100)).astype(dtype)
        else:
            value = value.astype(dtype)
    if value.shape != shape:
        size, flat = math.prod(shape), value.reshape(-1)
        value = jnp.tile(flat, -(-size // flat.size))[:size].reshape(shape)
    return value


def _binary(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    b = _like(draw.choice(values), a.shape, a.dtype)
    return draw.choice(LOGICAL if a.dtype == np.bool_ else INTEGER if a.dtype.kind in "iu" else FLOATING)(a, b)


def _unary(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    if a.dtype == np.bool_:
        return ~a
    if a.dtype.kind in "iu":
        return draw.choice(COUNTS)(a)
    return draw.choice(FUNCTIONS)(a)


def _converted(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    return _like(a, a.shape, draw.choice(DTYPES))


def _selected(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    where = _like(draw.choice(values), a.shape, np.dtype(bool))
    return jnp.where(where, a, _like(draw.choice(values), a.shape, a.dtype))


def _compared(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    return draw.choice([jnp.less, jnp.equal, jnp.greater_equal])(a, _like(draw.choice(values), a.shape, a.dtype))


def _placed(draw: random.Random, values: list[Any]) -> Any:
    """An element or a row at a computed place, or an array with it written."""
    a, at = draw.choice(values), _like(draw.choice(values), (), np.dtype(np.int32))
    if not a.ndim:
        return None
    axis, how, other = draw.randrange(a.ndim), draw.randrange(4), draw.choice(values)
    row = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    if how == 0:
        return lax.dynamic_index_in_dim(a, at, axis, keepdims=False)
    if how == 1:
        return lax.dynamic_update_slice_in_dim(a, _like(other, row, a.dtype), at, axis)
    if how == 2:
        return a.at[at].set(_like(other, a.shape[1:], a.dtype), mode="drop")
    return jnp.take(a, _like(other, (2,), np.dtype(np.int32)), axis=axis, mode="clip")


def _moved(draw: random.Random, values: list[Any]) -> Any:
    a, how = draw.choice(values), draw.randrange(6)
    if not a.ndim:
        return jnp.broadcast_to(a, (4,))
    if how == 0:
        return jnp.roll(a, 1, -1)
    if how == 1:
        return jnp.flip(a, draw.randrange(a.ndim))
    if how == 2:
        return a.T
    if how == 3:
        return a[1:] if a.shape[0] > 1 else a
    if how == 4:
        return jnp.concatenate([a, _like(draw.choice(values), a.shape, a.dtype)], draw.randrange(a.ndim))
    return a.reshape(-1)


def _reduced(draw: random.Random, values: list[Any]) -> Any:
    a = draw.choice(values)
    axis = draw.choice([None, *range(a.ndim)])
    if a.dtype == np.bool_:
        return draw.choice([jnp.any, jnp.all])(a, axis=axis)
    how = draw.randrange(5)
    if how == 0:
        return jnp.argmax(a, axis).astype(jnp.int32) if a.ndim else None
    if how == 1 and a.ndim:
        return lax.cumsum(a, draw.randrange(a.ndim))
    total = [jnp.sum, jnp.max, jnp.min, jnp.prod][how - 1](a, axis=axis)
    return total.astype(a.dtype)


def _product(draw: random.Random, values: list[Any]) -> Any:
    a, b = draw.choice(values), draw.choice(values)
    wanted = np.dtype(jnp.float32) if a.dtype.kind not in "iub" else np.dtype(np.int32)
    matrix = _like(b, (3, 4), a.dtype)
    if a.dtype == np.bool_:
        return None
    return lax.dot_general(_like(a, (2, 3), a.dtype), matrix, (((1,), (0,)), ((), ())), preferred_element_type=wanted)


def _within(draw: random.Random, values: list[Any]) -> Any:
    """A branch or a loop within the iteration."""
    a, first, second, count = draw.choice(values), draw.getrandbits(32), draw.getrandbits(32), draw.choice([0, 1, 3, 5])
    shape, dtype, around = a.shape, a.dtype, list(values)

    def part(seed: int, *more: Any) -> Any:
        return _like(_operations(random.Random(seed), [*around, *more], 0, 2)[-1], shape, dtype)

    if draw.random() < 0.5:
        where = _like(draw.choice(values), (), np.dtype(bool))
        return lax.cond(where, lambda: part(first), lambda: part(second))
    if draw.random() < 0.5:
        return lax.fori_loop(0, count, lambda i, c: part(first, i, c), a)
    return lax.while_loop(lambda c: c[0] < count, lambda c: (c[0] + 1, part(first, *c)), (jnp.int32(0), a))[1]
