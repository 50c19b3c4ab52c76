"""Faults that no accumulator explains: changing answers, positions that differ, and lost or wrong products."""

from __future__ import annotations

import numpy as np

from ...ops.types import ELEMENT_TYPES
from .dots import TILE, Asker, ProbeFailure
from .operands import codes, number_text, values

#: How often the same matrix products are requested.
_TIMES = 3


def check(asker: Asker, rng: np.random.Generator) -> None:
    """Raise ProbeFailure, in one line with the operands and results, if a backend has such a fault."""
    _answers_again(asker, rng)
    _each_place(asker, rng)
    _single_products(asker)
    _each_position(asker)


def _answers_again(asker: Asker, rng: np.random.Generator) -> None:
    x, y = (_ordinary(asker, t, (1, TILE), rng) for t in (asker.signature.lhs, asker.signature.rhs))
    first = asker.matrices(x, y)
    for _ in range(_TIMES - 1):
        again = asker.matrices(x, y)
        if (first != again).any():
            r = asker.signature.result
            at = tuple(np.argwhere(first != again)[0])
            raise ProbeFailure(
                f"the results change: the same program and operands gave {number_text(first[at], r)} and then "
                f"{number_text(again[at], r)} at row {at[1]}, column {at[2]} "
                f"({(first != again).sum()} of {first.size} differ)"
            )


def _single_products(asker: Asker) -> None:
    """Check single products, all others zero: normal numbers with an ordinary product."""
    s = asker.signature
    x, y = _normal(s.lhs), _normal(s.rhs)
    a, b = values(x, s.lhs), values(y, s.rhs)
    right = a[:, None] * b
    got = asker.ask(*(_alone(c, s.k, 0) for c in _pairs(x, y))).reshape(right.shape)
    have = values(got, s.result)
    fmt = ELEMENT_TYPES[s.result].format
    ordinary = (np.abs(right) >= 2.0**fmt.min_normal_exponent) & (np.abs(right) < 2.0**fmt.max_exponent)
    is_wrong = ordinary & ~_is_near(have, right) & ~_is_out_of_range(have, right, ordinary)
    if not is_wrong.any():
        return
    i, j = np.argwhere(is_wrong)[len(np.argwhere(is_wrong)) // 2]
    which = "every" if (is_wrong == ordinary).all() else f"{is_wrong.sum()} of {ordinary.sum()}"
    same = np.unique(got[ordinary])
    each = f"; each gives {number_text(same[0], s.result)}" if len(same) == 1 and which == "every" else ""
    raise ProbeFailure(
        f"{which} single product{'s are' if which != 'every' else ' is'} wrong{each}: {number_text(x[i], s.lhs)} * "
        f"{number_text(y[j], s.rhs)}, all other products zero, gives {number_text(got[i, j], s.result)}, "
        f"expected {right[i, j]:g}"
    )


def _is_near(have: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Whether results are products rounded to one fraction bit or more, or to a multiple of the least one."""
    size = np.abs(have[np.isfinite(have) & (have != 0)])
    least = size.min() if size.size else 0.0
    with np.errstate(invalid="ignore"):
        return np.abs(have - right) <= np.maximum(np.abs(right) / 2, np.where(np.abs(right) < 2 * least, least, 0.0))


def _is_out_of_range(have: np.ndarray, right: np.ndarray, ordinary: np.ndarray) -> np.ndarray:
    """Whether products are beyond the range of the sums, which may be that of f16 or less.

    From some magnitude on all results are infinities, NaN or the largest number. Smaller products are near.
    """
    size = np.abs(have)
    largest = size[np.isfinite(size)].max(initial=0.0)
    with np.errstate(invalid="ignore"):
        beyond = ordinary & ~_is_near(have, right)
        beyond &= np.isnan(have) | ((size >= largest) & (np.abs(right) > largest) & (have * right > 0))
    if not beyond.any() or beyond.sum() == ordinary.sum():
        return np.zeros(right.shape, bool)
    limit = np.abs(right[beyond]).min()
    over = np.abs(right) > limit
    # A sum that saturates is near to products that are little larger.
    is_all = np.isnan(have[over]) | (size[over] >= largest)
    return beyond if is_all.all() else np.zeros(right.shape, bool)


def _each_position(asker: Asker) -> None:
    s = asker.signature
    one = [codes(np.ones(1), t) for t in (s.lhs, s.rhs)]
    x, y = (np.concatenate([_alone(c, s.k, p) for p in range(s.k)]) for c in one)
    got = asker.ask(x, y)
    bad = np.flatnonzero(got != got[0])
    if len(bad):
        some = ", ".join(map(str, bad[:8])) + (", …" if len(bad) > 8 else "")
        raise ProbeFailure(
            f"position {bad[0]} of k = {s.k} does not behave like position 0: 1 * 1 there, all other products zero, "
            f"gives {number_text(got[bad[0]], s.result)}, at position 0 {number_text(got[0], s.result)} "
            f"(positions {some})"
        )


def _each_place(asker: Asker, rng: np.random.Generator) -> None:
    """Check the same dot in each row and column of a matrix product."""
    s = asker.signature
    x, y = (np.repeat(_ordinary(asker, t, (4, 1), rng), TILE, axis=1) for t in (s.lhs, s.rhs))
    got = asker.matrices(x, y)
    differs = got != got[:, :1, :1]
    if differs.any():
        at = tuple(np.argwhere(differs)[0])
        first, other = number_text(got[at[0], 0, 0], s.result), number_text(got[at], s.result)
        raise ProbeFailure(
            f"the result depends on the place: equal rows by equal columns give {first} at row 0, column 0 "
            f"and {other} at row {at[1]}, column {at[2]}"
        )


def _ordinary(asker: Asker, element: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Return random codes of numbers between 2^-6 and 2^6, as far as the type has them, in rows of k."""
    fmt = ELEMENT_TYPES[element].format
    ends = max(fmt.min_normal_exponent, -6), min(fmt.max_exponent, 6)
    exponents = rng.integers(*ends, size=(*shape, asker.signature.k), endpoint=True)
    signs = rng.choice([-1.0, 1.0], exponents.shape)
    return codes(signs * np.exp2(exponents.astype(np.float64)), element)


def _normal(element: str) -> np.ndarray:
    """Return the codes of normal numbers of both signs: for a wide type some of them."""
    fmt = ELEMENT_TYPES[element].format
    low = 1 << fmt.mantissa_bits
    count = min(fmt.max_code - low + 1, 120)
    positive = np.unique(np.linspace(low, fmt.max_code, count).astype(np.int64))
    return np.concatenate([positive, positive[::7] | fmt.sign_bit]).astype(fmt.code_dtype)


def _pairs(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(x, len(y)), np.tile(y, len(x))


def _alone(c: np.ndarray, k: int, position: int) -> np.ndarray:
    """Return rows of k codes that are zero except at one position."""
    rows = np.zeros((len(c), k), c.dtype)
    rows[:, position] = c
    return rows
