"""Recurrences of wrapping integers with bitwise operations, composed window by window, against Python's integers."""

import dataclasses
import itertools
import operator
import random
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.bit_windows import Pattern, windows
from minihlo.interp.compile.explain import listing
from minihlo.ops.engine.powers import OwnFactors, Powers
from minihlo.ops.engine.speed import DEFAULT, entered
from minihlo.ops.engine.tuning import DEFAULT as TUNING

_DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
OF_BITS = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}
#: A turn of a state and a row; `of` makes constants.
Turn = Callable[..., Any]


def wrapped(x: int, dtype: Any) -> int:
    info = np.iinfo(dtype)
    return (x - int(info.min)) % (1 << info.bits) + int(info.min)


def exact(turn: Turn, start: int, rows: np.ndarray, dtype: str) -> list[int]:
    """The state before each turn and the last one."""
    states = [start]
    for row in rows.tolist():
        states.append(wrapped(turn(states[-1], row, of=int), dtype))
    return states


def check(turn: Turn, starts: Iterable[int], rows: np.ndarray, dtype: str, block: int = 600) -> bool:
    """Compare states and the last state alone with Python's; says whether turns are composed."""
    of, first = np.dtype(dtype).type, np.zeros((), dtype)
    tuning = dataclasses.replace(TUNING, composed_ops=1, composed_block=block)
    with jax.enable_x64(True), entered(dataclasses.replace(DEFAULT, compiled=False, tuning=tuning)):

        def kept(c: Any, rows: Any) -> Any:
            return lax.scan(lambda c, v: (turn(c, v, of=lambda n: of(wrapped(n, dtype))), c), c, rows)

        every = interp.load(jax.jit(kept).lower(first, rows))
        alone = interp.load(jax.jit(lambda c, rows: kept(c, rows)[0]).lower(first, rows))
        for start in starts:
            want = exact(turn, start, rows, dtype)
            last, before = every(of(start), rows)
            assert [*before.tolist(), int(last)] == want
            assert int(alone(of(start), rows)[0]) == want[-1]
        return "affine over integers modulo a power of two" in listing(alone.plan())


def numbers(dtype: str, count: int, low: int | None = None, high: int | None = None, seed: int = 0) -> np.ndarray:
    info = np.iinfo(dtype)
    low, high = int(info.min) if low is None else low, int(info.max) if high is None else high
    rows = np.random.default_rng(seed).integers(low, high, count, dtype, endpoint=True)
    rows[:2] = low, high
    return rows


TURNS: dict[str, Turn] = {
    "one bit": lambda c, v, of: (c * of(3) + v) ^ of(1),
    "high bits alike": lambda c, v, of: (c * of(3) + v) ^ of(-3),
    "bits apart": lambda c, v, of: (c * of(5) - v) ^ of(0x25),
    "set": lambda c, v, of: ((c + v) | of(6)) * of(7),
    "cleared": lambda c, v, of: (c * of(9) + v) & of(-4),
    "low bits kept": lambda c, v, of: (c * of(9) + v) & of(0x1F),
    "some low bits kept": lambda c, v, of: (v - c) & of(0x16),
    "even": lambda c, v, of: (c * of(12) + v) ^ of(3),
    "twice": lambda c, v, of: (((c ^ of(2)) * of(5) + v) | of(1)) - of(3) * (c ^ of(1)),
    "added again": lambda c, v, of: c + (c & of(3)) * v,
    "product of parts": lambda c, v, of: (c | of(3)) * (c & of(0x7F)) + v,
}


@pytest.mark.parametrize("turn", TURNS.values(), ids=TURNS)
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_constants(turn: Turn, dtype: str) -> None:
    starts = 1, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    assert check(turn, starts, numbers(dtype, 1300), dtype)


def test_one_and_two_turns_in_a_block() -> None:
    for block, count in itertools.product((1, 16), (16, 17)):
        assert check(TURNS["bits apart"], [77], numbers("int16", count), "int16", block)


@pytest.mark.parametrize("name", ["xor", "or", "and"])
@pytest.mark.parametrize(("low", "high"), [(0, 255), (0, 0), (-4, -1), (-5, 6)])
def test_rows_whose_range_is_known_when_it_runs(name: str, low: int, high: int) -> None:
    """Of rows with both signs each bit differs: turns are made one after the other."""

    def turn(c: Any, v: Any, of: Any) -> Any:
        return (c ^ v if name == "xor" else c | v if name == "or" else c & v) * of(16777619) + of(1)

    for dtype in ("int32", "int8"):
        high = min(high, 127) if dtype == "int8" else high
        assert check(turn, [-123, 5], numbers(dtype, 700, low, high), dtype)


def test_one_program_on_rows_of_other_ranges() -> None:
    """Windows follow from the rows of each call."""
    step = lambda h, v: ((h ^ v) * np.uint32(16777619), None)  # noqa: E731
    f = jax.jit(lambda h, rows: lax.scan(step, h, rows)[0])
    rows = numbers("uint32", 2000, 0, 3)
    program = interp.load(f.lower(np.uint32(7), rows), without="compiled")
    for high in (3, 255, 0, 2**32 - 1, 17):
        rows = numbers("uint32", 2000, 0, high)
        assert int(program(np.uint32(7), rows)[0]) == exact(lambda h, v, of: (h ^ v) * 16777619, 7, rows, "uint32")[-1]


def test_without_rows() -> None:
    f = lambda y: lax.fori_loop(0, 10_000, lambda i, y: (y * 3 + i) ^ 1, y)  # noqa: E731
    program, state = interp.load(jax.jit(f).lower(np.int32(1)), without="compiled"), 1
    for i in range(10_000):
        state = wrapped((state * 3 + i) ^ 1, "int32")
    assert int(program(np.int32(1))[0]) == state
    assert "affine over integers modulo a power of two" in listing(program.plan())


def test_what_looks_at_higher_bits_is_not_composed() -> None:
    turns: list[Turn] = [
        lambda c, v, of: (c ^ (c >> of(1))) * of(3) + v,
        lambda c, v, of: (c >> of(3)) + (c | of(1)) + v,
    ]
    for turn in turns:
        assert not check(turn, [5], numbers("int32", 500), "int32")


_OPS = ["xor", "or", "and", "xor", "add", "subtract", "multiply", "left", "not", "negate", "product"]


def random_turn(draw: random.Random, bits: int) -> Turn:
    steps = [
        (
            draw.choice(_OPS),
            draw.randrange(2 + i),
            draw.randrange(2 + i),
            draw.choice([1, 2, 7, 9, -2, 0x35, 3 << bits // 2]),
        )
        for i in range(draw.randint(2, 5))
    ]
    steps[0] = (steps[0][0], 0, *steps[0][2:])

    def turn(c: Any, v: Any, of: Any) -> Any:
        values = [c, v]
        for name, one, other, n in steps:
            x, y = values[one], values[other]
            of_two: dict[str, Callable[[], Any]] = {
                "xor": lambda x=x, n=n: x ^ of(n),
                "or": lambda x=x, n=n: x | of(n),
                "and": lambda x=x, n=n: x & of(n),
                "add": lambda x=x, y=y: x + y,
                "subtract": lambda x=x, y=y: x - y,
                "multiply": lambda x=x, n=n: x * of(n),
                "left": lambda x=x, n=n: x << of(n % 7),
                "not": lambda x=x: ~x,
                "negate": lambda x=x: -x,
                "product": lambda x=x, y=y: x * (y & of(3)),
            }
            values.append(of_two[name]())
        return values[-1]

    return turn


def test_random_turns() -> None:
    draw, composed = random.Random(7), 0
    for seed, dtype in enumerate(3 * _DTYPES):
        turn, high = random_turn(draw, np.iinfo(dtype).bits), draw.choice([None, 15, 127])
        rows = numbers(dtype, 150, 0 if high else None, high, seed)
        composed += check(turn, [int(numbers(dtype, 3, seed=seed)[2])], rows, dtype, 64)
    assert composed > 8


# -- windows themselves ------------------------------------------------------------------------------------------------


def is_affine(name: str, number: int, first: int, end: int) -> bool:
    """Whether an operation is affine in bits from `first` on modulo `2**end`, for all that the bits below may be."""
    of = OF_BITS[name]
    slopes = set[int]()
    for low in range(1 << first):
        values = [of(low + (h << first), number) % (1 << end) for h in range(1 << end - first)]
        steps = {(b - a) % (1 << end) for a, b in itertools.pairwise(values)}
        slopes |= steps
    return len(slopes) <= 1


@pytest.mark.parametrize("name", ["and", "or", "xor"])
def test_windows_are_as_wide_as_can_be(name: str) -> None:
    """Against all numbers of seven bits: a cover by the fewest affine windows, found by trying all."""
    bits = 7
    for number in range(1 << bits):
        affine = {(i, j) for i in range(bits) for j in range(i + 1, bits + 1) if is_affine(name, number, i, j)}
        least = [0] * (bits + 1)
        for first in reversed(range(bits)):
            least[first] = 1 + min(least[j] for i, j in affine if i == first)
        ends = windows(frozenset([Pattern(bits, OF_BITS[name], number)]), bits)
        assert all(w in affine for w in itertools.pairwise((0, *ends))), (name, number, ends)
        assert len(ends) == least[0], (name, number, ends)


# -- powers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
@pytest.mark.parametrize("factor", [0, 1, 2, 6, 3, 147, -1, 128])
def test_powers(dtype: str, factor: int) -> None:
    word = np.dtype(dtype)
    modulus = 1 << 8 * word.itemsize
    powers = Powers(factor % modulus, word)
    for count in (5, 1, 2, 70, 17):
        added = numbers(dtype, max(count, 2), seed=count)[:count]
        own = np.roll(added, 1) ^ word.type(factor % modulus)
        for start in (0, 1, modulus - 1):
            want, want_own = [start], [start]
            for w, f in zip(added.tolist(), own.tolist(), strict=True):
                want.append((factor * want[-1] + w) % modulus)
                want_own.append((f * want_own[-1] + w) % modulus)
            assert powers.after(start, added).tolist() == want
            assert powers.last(start, added) == want[-1]
            assert OwnFactors(own).after(start, added).tolist() == want_own
            assert OwnFactors(own).last(start, added) == want_own[-1]
