"""Groups of operations on the bits of few ui32, packed into one integer, against numpy's ui32."""

import random
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing

_NAMES = ["add", "subtract", "xor", "or", "and", "not", "multiply", "left", "right", "rotate", "square"]


def chain(arguments: list[Any], seed: int, mixed: bool) -> Any:
    """Some 30 operations on arguments and what they give; `mixed`: with some that are not of bits in between."""
    rng, values = random.Random(seed), [*arguments]
    for i in range(30):
        x, y = (values[-1] if i else values[0]), rng.choice(values)
        n, shift = np.uint32(rng.randrange(1 << 32)), np.uint32(rng.randrange(1, 32))
        name = rng.choice(_NAMES if mixed else _NAMES[:-1])
        values.append(
            {
                "add": lambda x=x, y=y: x + y,
                "subtract": lambda x=x, y=y: y - x,
                "xor": lambda x=x, y=y: x ^ y,
                "or": lambda x=x, y=y: x | (y & np.uint32(0xFF00FF)),
                "and": lambda x=x, y=y: x & (y | np.uint32(0xFFFF00)),
                "not": lambda x=x: ~x,
                "multiply": lambda x=x, n=n: x * (n | np.uint32(1)),
                "left": lambda x=x, y=y, shift=shift: (x << shift) + y,
                "right": lambda x=x, y=y, shift=shift: (x >> shift) - y,
                "rotate": lambda x=x, shift=shift: (x << shift) | (x >> (np.uint32(32) - shift)),
                "square": lambda x=x, y=y: x * y,
            }[name]()
        )
    return values[-1], values[len(values) // 2]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("shapes", [((5,), (5,)), ((1,), (1,)), ((3, 4), (1, 4)), ((64,), ()), ((2, 3), (2, 1))])
def test_chains(shapes: tuple[tuple[int, ...], ...], mixed: bool) -> None:
    rng = np.random.default_rng(3)
    for seed in range(4):
        arguments = [rng.integers(0, 1 << 32, shape, np.uint32) for shape in shapes]
        arguments[0].flat[0] = 2**32 - 1

        def f(*xs: Any, seed: int = seed) -> Any:
            return chain([xs[0], *(lax.broadcast_in_dim(x, shapes[0], _along(x.shape)) for x in xs[1:])], seed, mixed)

        wanted = chain([arguments[0], *(np.broadcast_to(x, shapes[0]) for x in arguments[1:])], seed, mixed)
        program = interp.load(jax.jit(f).lower(*arguments))
        for found, expected in zip(program(*arguments), wanted, strict=True):
            assert np.array_equal(np.asarray(found), expected), seed
        assert "in one integer" in listing(program.plan())


def _along(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(range(len(shape)))


def test_random_bits_of_few_and_of_many() -> None:
    """Bits of a key for 10 numbers are packed, for 1,000 not; the first numbers of JAX are the same."""
    for count in (10, 1000):
        f = jax.jit(lambda data, count=count: jax.random.bits(jax.random.wrap_key_data(data), (count,)))
        data = np.array([0, 7], np.uint32)
        program = interp.load(f.lower(data))
        assert np.array_equal(np.asarray(program(data)[0]), np.asarray(f(data)))
        assert ("in one integer" in listing(program.plan())) == (count == 10)
