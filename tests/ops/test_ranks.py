"""Largest and smallest codes, however they are found: held against each column's first NaN, or its total order."""

from __future__ import annotations

import numpy as np
import pytest

from minihlo.ops.engine.ranks import minifloat_ranks
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .. import oracle
from ..oracle_numbers import FORMATS, Format, is_nan_code

MINIFLOATS = [t for t in ELEMENT_TYPES.values() if t.is_minifloat]
BYTES = [t for t in MINIFLOATS if t.bits == 8 and t.format.is_signed]
STEPS, COLUMNS = 33, 200


def winner(fmt: Format, column: list[int], largest: bool) -> int:
    nans = [c for c in column if is_nan_code(fmt, c)]
    return nans[0] if nans else (max if largest else min)(column, key=lambda c: oracle.total_order(fmt, c))


def columns(t: ElementType, nans: int) -> np.ndarray:
    """Columns of all codes, of negative and positive ones, and of a few numbers; the first `nans` may have NaN."""
    fmt, rng = FORMATS[t.name], np.random.default_rng(nans)
    codes = rng.integers(0, 1 << t.bits, (STEPS, COLUMNS), np.uint8)
    codes[:, 1::4] |= fmt.sign_bit
    codes[:, 2::4] &= ~fmt.sign_bit & 0xFF
    numbers = [c for c in range(1 << t.bits) if not is_nan_code(fmt, c)]
    codes[:, 3::4] = rng.choice(numbers[::16], codes[:, 3::4].shape)
    numbers_like = [c if not is_nan_code(fmt, c) else (c & fmt.sign_bit) + 1 for c in range(1 << t.bits)]
    codes[:, nans:] = np.array(numbers_like, np.uint8)[codes[:, nans:]]
    return codes


@pytest.mark.parametrize("t", MINIFLOATS, ids=str)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("nans", [0, 8, COLUMNS])
def test_extremes_of_columns(nans: int, largest: bool, t: ElementType) -> None:
    codes, ranks, fmt = columns(t, nans), minifloat_ranks(t, largest), FORMATS[t.name]
    wanted = [winner(fmt, column, largest) for column in codes.T.tolist()]
    for laid in (codes, np.asfortranarray(codes)):
        assert ranks.values.take(ranks.extreme(laid)).view(np.uint8).tolist() == wanted


@pytest.mark.parametrize("t", BYTES, ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_every_pair_of_codes(largest: bool, t: ElementType) -> None:
    """All pairs at once have NaN among them; numbers by themselves are compared as they stand."""
    ranks, fmt = minifloat_ranks(t, largest), FORMATS[t.name]
    numbers = np.array([c for c in range(256) if not is_nan_code(fmt, c)], np.uint8)
    order = sorted(numbers.tolist(), key=lambda c: oracle.total_order(fmt, c), reverse=not largest)
    place = np.full(256, 256)  # NaN win over all
    place[order] = np.arange(len(order))
    for codes in (np.arange(256, dtype=np.uint8), numbers):
        first, second = np.repeat(codes, len(codes)), np.tile(codes, len(codes))
        wanted = np.where(place[first] >= place[second], first, second)
        for times in (1, 4):  # few steps are done in another way
            steps = np.stack([first] * times + [second] * times)
            assert (ranks.values.take(ranks.extreme(steps)).view(np.uint8) == wanted).all()
    (keys,), is_ranked = ranks.comparable(numbers)
    assert not is_ranked
    assert numbers[np.argsort(keys)].tolist() == order
    assert (ranks.of_key[keys].view(np.uint8) == numbers).all()


@pytest.mark.parametrize("t", BYTES, ids=str)
def test_there_are_no_keys_of_nan(t: ElementType) -> None:
    fmt = FORMATS[t.name]
    for code in range(256):
        _, is_ranked = minifloat_ranks(t, True).comparable(np.array([[0, 0x81], [code, 0x40]], np.uint8))
        assert is_ranked == is_nan_code(fmt, code)
    assert not minifloat_ranks(t, True).comparable(np.empty((0, 2), np.uint8))[1]
