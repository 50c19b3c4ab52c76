"""The draws of stochastic rounding, computed by the program itself: Philox 4x64 in integers of 64 bits.

`ops.draws` defines them, and `docs/policy.md` says how. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...ops.draws import FIRST_BITS, REST_BITS
from .loops import loop
from .tensor import UI64, Tensor, concatenate, constant, iota

if TYPE_CHECKING:
    from .rewrite import Emulation

_ROUNDS = 10
_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_FIRST, _REST = 1, 2  # kinds of counters


def draw(e: Emulation, shape: Sequence[int]) -> Tensor:
    """Return the draws of the next rounding, of an array of this shape: 62 bits each, as ui64."""
    if e.drawn is not None:
        return e.drawn
    number, e.roundings = e.roundings, e.roundings + 1
    return draws_of(e.policy.seed, number, shape)


def draws_of(seed: int, number: int | Tensor, shape: Sequence[int]) -> Tensor:
    """Return the draws of a rounding of a run from its seed and its number."""
    size = math.prod(shape)
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64).tolist()
    each = 64 // FIRST_BITS
    words = _blocks(key, number, _FIRST, -(-size // (4 * each)))  # (blocks, 4)
    parts = [((words >> (FIRST_BITS * i)) & ((1 << FIRST_BITS) - 1)).expand(2) for i in range(each)]
    first = concatenate(parts, 2).reshape((math.prod(words.shape) * each,)).slice(0, 0, size)
    words = _blocks(key, number, _REST, -(-size // 4))
    rest = (words >> (64 - REST_BITS)).reshape((math.prod(words.shape),)).slice(0, 0, size)
    return ((first << REST_BITS) | rest).reshape(shape)


def numbered_loop(
    e: Emulation, count: int, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor]
) -> list[Tensor]:
    """Repeat `body` as `loop` does; the roundings of each iteration follow those of the one before."""
    if e.policy.rounding != "stochastic":
        return loop(count, body, state)

    def numbered(index: Tensor, number: Tensor, *state: Tensor) -> list[Tensor]:
        e.roundings = number
        following = body(index, *state)
        return [e.number(), *following]

    e.roundings, *results = loop(count, numbered, [e.number(), *state])
    return results


def _blocks(key: Sequence[int], number: int | Tensor, kind: int, count: int) -> Tensor:
    """Return the first blocks of four words of a kind: ui64 of shape (count, 4)."""
    shape = (count,)
    second = number.broadcast(shape) if isinstance(number, Tensor) else constant(number, UI64, shape)
    c = [iota(UI64, shape) + 1, second, constant(kind, UI64, shape), constant(0, UI64, shape)]

    def mix(index: Tensor, *c: Tensor) -> list[Tensor]:
        number = index.to(UI64)
        keys = [number * weyl + k for weyl, k in zip(_WEYL, key, strict=True)]
        (high0, low0), (high1, low1) = (_product(c[2 * i], _MULTIPLIERS[i]) for i in range(2))
        return [high1 ^ c[1] ^ keys[0], low1, high0 ^ c[3] ^ keys[1], low0]

    c = loop(_ROUNDS, mix, c)  # written once, since a compiler takes long for ten
    return concatenate([word.expand(1) for word in c], 1)


def _product(x: Tensor, y: int) -> tuple[Tensor, Tensor]:
    """Return the high and the low 64 bits of products."""
    half = (1 << 32) - 1
    x_low, x_high, y_low, y_high = x & half, x >> 32, y & half, y >> 32
    low, middle, other = x_low * y_low, x_high * y_low, x_low * y_high
    carry = (low >> 32) + (middle & half) + other
    return x_high * y_high + (middle >> 32) + (carry >> 32), x * y
