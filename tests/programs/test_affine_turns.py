"""Recurrences of integers whose turns are composed: checksums, generators, sums, remainders, against Python's own."""

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing

_TURNS = 1500
#: A turn of Python's integers, and of JAX's; they are written once where operators mean the same.
Turn = Callable[[Any, Any], Any]


def wrapped(x: int, dtype: Any) -> int:
    info = np.iinfo(dtype)
    return (x - int(info.min)) % (1 << info.bits) + int(info.min)


def run(turn: Turn, start: int, rows: np.ndarray, without: str = "compiled") -> tuple[list[int], int, str]:
    """The states before each turn and at the end, and the listing of the plan."""
    step = lambda c, v: (turn(c, v), c)  # noqa: E731
    first = rows.dtype.type(start)
    program = interp.load(jax.jit(lambda rows: lax.scan(step, first, rows)).lower(rows), without=without)
    last, before = program(rows)
    return before.tolist(), int(last), listing(program.plan())


def exact(turn: Turn, start: int, rows: np.ndarray) -> tuple[list[int], int]:
    """The same with Python's integers, wrapped after each turn."""
    states, state = [], start
    for row in rows.tolist():
        states.append(state)
        state = wrapped(turn(state, row), rows.dtype)
    return states, state


def numbers(dtype: str, small: bool = False) -> np.ndarray:
    rng, info = np.random.default_rng(5), np.iinfo(dtype)
    low, high = (-1000, 1000) if small and info.min else (0, 1000) if small else (int(info.min), int(info.max))
    rows = rng.integers(low, high, _TURNS, dtype, endpoint=True)
    rows[:2] = low, high
    return rows


def checksum(c: Any, v: Any, of: Callable[[int], Any] = int) -> Any:
    """A cyclic redundancy check of four bits a turn; `of` makes constants."""
    c = c ^ v
    for _ in range(4):
        c = (c >> of(1)) ^ ((c & of(1)) * of(0xEDB88320))
    return c


def chosen_checksum(c: Any, v: Any) -> Any:
    """The same of JAX's integers, by a choice, as people write it."""
    c = c ^ v
    for _ in range(4):
        c = jnp.where(c & 1 == 1, (c >> 1) ^ np.uint32(0xEDB88320), c >> 1)
    return c


def shifted(c: Any, v: Any, of: Callable[[int], Any] = int) -> Any:
    """Xorshift, and a rotation."""
    full = of(0xFFFFFFFF)
    c = (c ^ (c << of(13))) & full
    c = c ^ (c >> of(17))
    c = ((c << of(5)) & full | (c >> of(27))) ^ v
    return c ^ of(0x9E3779B9)


BITS = {"checksum": checksum, "xorshift and a rotation": shifted}
SUMS: dict[str, Turn] = {
    "generator": lambda c, v: c * 1664525 + 1013904223 + (v & 0),
    "sum of products": lambda c, v: (c << 3) - c * 5 - v * 7 + 3,
    "own factors": lambda c, v: c * v - (v ^ 5),
    "low bits": lambda c, v: (c * 1103515245 + v) & 0x7FFFFF,
    "negated": lambda c, v: -(~c + v),
}
MODULAR: dict[str, Turn] = {
    "digits": lambda c, v: (c * 31 + v) % 1000003,
    "sum": lambda c, v: (c + v) % 65521,
    "difference": lambda c, v: (v - c * 3) % 97,
}


@pytest.mark.parametrize("turn", BITS.values(), ids=BITS)
def test_bits(turn: Callable[..., Any]) -> None:
    rows = numbers("uint32")
    *found, text = run(lambda c, v: turn(c, v, np.uint32), 2**32 - 1, rows)
    assert tuple(found) == exact(turn, 2**32 - 1, rows)
    assert "turns composed: they are affine over the bits" in text


def test_bits_by_choices() -> None:
    rows = numbers("uint32")
    *found, text = run(chosen_checksum, 7, rows)
    assert tuple(found) == exact(checksum, 7, rows)
    assert "affine over the bits" in text


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize("turn", SUMS.values(), ids=SUMS)
def test_sums(turn: Turn, dtype: str) -> None:
    rows = numbers(dtype)
    for start in (1, int(rows[0])):
        *found, text = run(turn, start, rows)
        assert tuple(found) == exact(turn, start, rows)
        assert "affine over integers modulo a power of two" in text


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_narrow_sums(dtype: str) -> None:
    turn: Turn = lambda c, v: (c * 5 - v) * 3 + 17  # noqa: E731
    rows = numbers(dtype)
    *found, text = run(turn, 100, rows)
    assert tuple(found) == exact(turn, 100, rows)
    assert "turns composed" in text


@pytest.mark.parametrize("turn", MODULAR.values(), ids=MODULAR)
def test_remainders(turn: Turn) -> None:
    """Where sums can leave i32, they wrap, and turns are made one after the other."""
    for small in (True, False):
        rows = numbers("int32", small)
        for start in (1, -5, 10**6):
            *found, text = run(turn, start, rows)
            assert tuple(found) == exact_wrapped(turn, start, rows)
            assert "affine over integers modulo another number" in text


def exact_wrapped(turn: Turn, start: int, rows: np.ndarray) -> tuple[list[int], int]:
    """With numpy's i32, whose sums and products wrap."""
    states, state = [], np.full(1, start, np.int32)
    with np.errstate(over="ignore"):
        for i in range(len(rows)):
            states.append(int(state[0]))
            state = turn(state, rows[i : i + 1]).astype(np.int32)
    return states, int(state[0])


@dataclasses.dataclass(frozen=True)
class Step:
    """An operation of a random turn: its name, which values it takes, and a constant."""

    name: str
    one: int
    other: int
    constant: int


_NAMES = "xor and or add subtract multiply left right not odd masked remainder choose".split()  # noqa: SIM905
_OF_BITS, _OF_SUMS = ["xor", "left", "right", "odd", "and", "not"], ["add", "subtract", "multiply", "masked"]


def applied(step: Step, values: list[Any], where: Callable[[Any, Any, Any], Any], of: Callable[[int], Any]) -> Any:
    x, y, n = values[step.one], values[step.other], step.constant
    c = of(n)
    simple: dict[str, Callable[[], Any]] = {
        "xor": lambda: x ^ y,
        "and": lambda: x & c,
        "or": lambda: x | c,
        "add": lambda: x + y,
        "subtract": lambda: x - y,
        "multiply": lambda: x * (y if n % 3 == 0 else c),
        "left": lambda: x << of(n % 32),
        "right": lambda: x >> of(n % 32),
        "not": lambda: x ^ of(0xFFFFFFFF),
        "odd": lambda: where((x & of(1)) == 1, y ^ c, y),
        "masked": lambda: x & of((1 << (n % 31 + 1)) - 1),
        "remainder": lambda: x % of(n % 1000 + 2),
        "choose": lambda: where(values[1] & of(1) == 0, x, y),
    }
    return simple[step.name]()


def test_random_turns() -> None:
    """Random operations on the state and a row: some are affine, and none may be taken for it that is not."""
    rng, composed = random.Random(3), 0
    rows = numbers("uint32")[:1000]
    for _ in range(40):
        names = rng.choice([_NAMES, _OF_BITS, _OF_SUMS])
        steps = [
            Step(rng.choice(names), rng.randrange(2 + i), rng.randrange(2 + i), rng.randrange(1 << 32))
            for i in range(rng.randint(3, 5))
        ]
        steps[0] = dataclasses.replace(steps[0], one=0)

        def turn(c: Any, v: Any, where: Any, of: Any, wrap: Any, steps: list[Step] = steps) -> Any:
            values = [c, v]
            for step in steps:
                values.append(wrap(applied(step, values, where, of)))
            return values[-1]

        def of_jax(c: Any, v: Any, turn: Any = turn) -> Any:
            return turn(c, v, jnp.where, np.uint32, lambda x: x)

        def of_python(c: int, v: int, turn: Any = turn) -> int:
            return turn(c, v, lambda p, x, y: x if p else y, int, lambda x: x & 0xFFFFFFFF)

        *found, text = run(of_jax, 12345, rows)
        assert tuple(found) == exact(of_python, 12345, rows), steps
        composed += "turns composed" in text
    assert composed > 5


def test_without_rows_and_without_other_results() -> None:
    f = lambda c: lax.fori_loop(0, 3000, lambda _, c: c ^ (c << 7) ^ (c >> 9), c)  # noqa: E731
    state = 99
    for _ in range(3000):
        state = (state ^ (state << 7) & 0xFFFFFFFF ^ (state >> 9)) & 0xFFFFFFFF
    program = interp.load(jax.jit(f).lower(np.uint32(99)))
    assert int(program(np.uint32(99))[0]) == state


def test_results_of_states() -> None:
    """What a turn gives beside the state is computed from all states at once."""
    rows = numbers("uint32")
    step = lambda c, v: (c * np.uint32(69069) + v, (c >> np.uint32(16)) % np.uint32(10))  # noqa: E731
    program = interp.load(jax.jit(lambda rows: lax.scan(step, np.uint32(1), rows)).lower(rows))
    last, digits = program(rows)
    states, end = exact(lambda c, v: c * 69069 + v, 1, rows)
    assert int(last) == end
    assert digits.tolist() == [(s >> 16) % 10 for s in states]
