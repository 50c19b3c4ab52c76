"""Random recurrences over small vectors, written in JAX: what compiled turns know, in many shapes and types."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 3e38, 1.0], np.float32)
_SHAPES = (), (1,), (2,), (3,), (5,), (8,), (16,), (33,), (2, 2), (3, 5), (6, 6), (1, 7), (4, 1), (2, 3, 4)
_UNARY = (
    jnp.negative, jnp.abs, jnp.exp, jnp.tanh, lax.logistic, jnp.log1p, jnp.sqrt, lax.rsqrt, jnp.floor, jnp.sign,
    jnp.sin, jnp.cos, lambda x: jnp.log(jnp.abs(x) + 0.5), lambda x: x * x, jnp.square, jnp.expm1, jnp.round,
)  # fmt: skip
_BINARY = jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum
_WHOLE = (
    jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.bitwise_xor, jnp.bitwise_and, jnp.bitwise_or,
    lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic,
)  # fmt: skip
_FLOATS = (np.float32,) * 3 + (jnp.bfloat16, np.float16)
_TYPES = (np.float32,) * 6 + (np.int32, np.uint32, np.bool_, np.int8, np.uint8, jnp.bfloat16, np.float16)

Arguments = tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]


def random_recurrence(seed: int, turns: int) -> tuple[Callable[..., Any], Arguments]:
    """A scan of a random body, and its states and rows."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    is_special, is_tame = draw.random() < 0.25, draw.random() < 0.7
    data = _Data(draw, numbers, is_special)
    states = tuple([data.of(draw.choice(_SHAPES), draw.choice(_TYPES)) for _ in range(draw.randint(1, 3))])
    rows = tuple([data.of((turns, *draw.choice(_SHAPES)), draw.choice(_TYPES)) for _ in range(draw.randint(1, 2))])
    weights = [data.of(draw.choice(_SHAPES[4:]), np.float32) for _ in range(2)]
    count, body_seed = draw.randint(1, 8), draw.getrandbits(32)

    def body(carried: Sequence[Any], row: Sequence[Any]) -> tuple[Any, Any]:
        choose = random.Random(body_seed)
        values = [*carried, *row, *weights]
        for _ in range(count):
            made = _made(choose, values)
            if made is not None and made.size <= 128:
                values.append(made)
        found = []
        for state in carried:
            value = _shaped(choose.choice(values[-4:]), state.shape)
            value = _typed(value, state.dtype)
            if is_tame and state.dtype == np.float32:
                value = jnp.tanh(value) if choose.random() < 0.5 else value * jnp.float32(0.3) + state
            found.append(value)
        kept = tuple(choose.sample(values[len(carried) :], k=min(2, len(values) - len(carried))))
        return tuple(found), kept

    return lambda first, every: lax.scan(body, first, every), (states, rows)


class _Data:
    def __init__(self, draw: random.Random, numbers: np.random.Generator, is_special: bool) -> None:
        self._draw, self._numbers, self._is_special = draw, numbers, is_special

    def of(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        dtype = np.dtype(dtype)
        if dtype == np.bool_:
            return self._numbers.random(shape) < 0.5
        if dtype.kind in "iu":
            return self._numbers.integers(0, 200, shape).astype(dtype)
        array = self._numbers.standard_normal(shape).astype(np.float32)
        if self._is_special:
            places = self._numbers.random(shape) < self._draw.choice([0.01, 0.2])
            array = np.where(places, self._numbers.choice(_SPECIAL, shape), array)
        with np.errstate(all="ignore"):
            return array.astype(dtype)


def _made(draw: random.Random, values: Sequence[Any]) -> Any:
    """The result of a random operation; None where it does not fit."""
    x = draw.choice(values)
    return draw.choice(_KINDS)(draw, values, x)


def _is_float(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jnp.floating)


def _as_f32(x: Any) -> Any:
    return x.astype(np.float32)


def _typed(x: Any, dtype: Any) -> Any:
    with np.errstate(over="ignore", invalid="ignore"):  # of constants, which numpy casts
        return x if x.dtype == dtype else x.astype(dtype)


def _shaped(x: Any, shape: tuple[int, ...]) -> Any:
    size = int(np.prod(shape))
    if x.shape == shape:
        return x
    flat = jnp.ravel(x)
    return jnp.reshape(jnp.tile(flat, -(-size // flat.size))[:size], shape)


def _unary(draw: random.Random, _: Sequence[Any], x: Any) -> Any:
    return draw.choice(_UNARY)(jnp.asarray(_typed(x, draw.choice(_FLOATS))))


def _binary(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    y = _typed(_shaped(draw.choice(values), x.shape), x.dtype)
    if x.dtype == np.bool_:
        return draw.choice([jnp.logical_and, jnp.logical_or, jnp.logical_xor])(x, y)
    if _is_float(x):
        return draw.choice(_BINARY)(x, y)
    return draw.choice(_WHOLE)(x, y) if x.dtype.itemsize == 4 else _as_f32(x) + _as_f32(y)


def _compared(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    y = _typed(_shaped(draw.choice(values), x.shape), x.dtype)
    truth = draw.choice([jnp.less, jnp.less_equal, jnp.equal, jnp.not_equal, jnp.greater, jnp.greater_equal])(x, y)
    return jnp.where(truth, x, y) if draw.random() < 0.7 else truth


def _converted(draw: random.Random, _: Sequence[Any], x: Any) -> Any:
    return _typed(x, np.dtype(draw.choice(_TYPES)))


def _moved(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    return draw.choice(
        [
            lambda: jnp.transpose(x),
            lambda: jnp.flip(x),
            lambda: jnp.concatenate([jnp.ravel(x), jnp.ravel(_typed(draw.choice(values), x.dtype))]),
            lambda: jnp.ravel(x)[:: draw.randint(1, 3)],
            lambda: jnp.roll(x, 1),
            lambda: x[None] + jnp.zeros((2, *x.shape), x.dtype),
            lambda: jnp.pad(jnp.ravel(x), (1, 2)),
        ]
    )()


def _reduced(draw: random.Random, _: Sequence[Any], x: Any) -> Any:
    if not x.ndim or x.dtype == np.bool_:
        return None
    axis = draw.choice([None, *range(x.ndim)])
    kind = draw.choice([jnp.sum, jnp.max, jnp.min, jnp.argmax, jnp.argmin, jnp.mean, jax.nn.logsumexp])
    return kind(_as_f32(x), axis=axis)


def _product(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    dtype = draw.choice(_FLOATS)
    x, y = _typed(x, dtype), _typed(draw.choice(values), dtype)
    if not x.ndim:
        return None
    rows, length = (1, x.size) if x.ndim == 1 else (int(np.prod(x.shape[:-1])), x.shape[-1])
    kind = draw.randrange(4)
    if kind == 0:
        return jnp.dot(jnp.ravel(x), _shaped(y, (x.size,)))
    columns = draw.choice([1, 2, 5, 8])
    x = jnp.ravel(x) if x.ndim == 1 else jnp.reshape(x, (rows, length))
    if kind == 1:
        return x @ _shaped(y, (length, columns))
    if kind == 2:
        return x @ _shaped(y, (columns, length)).T
    return _shaped(y, (columns, length)) @ jnp.ravel(x)[:length]


def _window(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    if not x.ndim:
        return None
    index = _index(draw, values)
    sizes = [draw.randint(1, n) for n in x.shape]
    starts = [index] * x.ndim
    if draw.random() < 0.5:
        return lax.dynamic_slice(x, starts, sizes)
    return lax.dynamic_update_slice(x, _typed(_shaped(draw.choice(values), tuple(sizes)), x.dtype), starts)


def _index(draw: random.Random, values: Sequence[Any]) -> Any:
    """A number that says where, in range or not."""
    index = jnp.ravel(draw.choice(values))[0]
    return _typed(index, np.int32) if _is_float(index) or index.dtype == np.bool_ else index


def _scattered(draw: random.Random, values: Sequence[Any], x: Any) -> Any:
    """An element or a row that is written, or combined with what is there; nothing where it is out of bounds."""
    if not x.ndim:
        return None
    at = [_index(draw, values) % 16 for _ in range(draw.randint(1, x.ndim))]
    place = jnp.asarray(x).at[tuple(at)]
    new = _typed(_shaped(draw.choice(values), x.shape[len(at) :]), x.dtype)
    ways = [place.set] if x.dtype == np.bool_ else [place.set, place.add, place.max]
    return draw.choice(ways)(new, mode="drop", wrap_negative_indices=False)


_KINDS = (
    _unary, _unary, _binary, _binary, _binary, _compared, _converted, _moved, _moved, _reduced, _reduced, _product,
    _product, _window, _scattered,
)  # fmt: skip
