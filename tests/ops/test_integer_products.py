"""Products by the processor's tiles and by 16-bit words are exact: integers say what they are.

A processor without such a unit skips its tests; the digits and words that numbers are split into are always tested.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.engine import compiled, speed, tiles, words
from minihlo.ops.engine.native import words as native
from minihlo.ops.policy import OVERFLOWS, ROUNDINGS, Policy
from minihlo.ops.products import by_integers

from .. import oracle
from ..conftest import Tune
from ..run_op import codes, from_codes, run, tensor
from .test_dot import finite_codes, matmul
from .test_dot_exact import check_exact

PAIRS = [(x, y) for x in oracle.MINIFLOATS for y in oracle.MINIFLOATS]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_digits_of_every_size(count: int) -> None:
    most = 127 * sum(256**i for i in range(count))
    assert tiles.digits_of(most) == count
    assert tiles.digits_of(most + 1) == count + 1
    values = np.array([0, 1, -1, 127, -127, most, -most, most - 128, 3 - most, most + 1, most * 200])
    numbers = 256 ** np.arange(count) @ tiles.digits(values, count).view(np.int8)
    assert numbers.tolist() == [*values[:-2].tolist(), 0, 0]
    assert tiles.digits(np.array([-128]), 1).tolist() == [[128]]


def test_words_of_every_size() -> None:
    values = np.zeros(256, np.int64)
    values[:9] = [0, 5, -5, 32767, -32767, 4096, -12288, 32767 * 8, 32768 * 8]
    high, low = _planes(words.split(values, 3))
    assert high[:9].tolist() == [0, 0, 0, 0, 0, 512, -1536, 32767, 0]
    assert low[:9].tolist() == [0, 5, -5, 32767, -32767, 0, 0, 0, 0]
    whole, none = _planes(words.split(values, 0))
    assert whole[:7].tolist() == values[:7].tolist()
    assert not none.any()


def _planes(how: words.Split) -> np.ndarray:
    """The high and the low words of each code."""
    return how.table[:, 0] + how.table[:, 1].view(np.int8).astype(np.int64) * 256


@functools.cache
def _absent() -> str | None:
    """Why there are no tiles here; a kernel that does not compile raises."""
    try:
        tiles.Tiles(compiled._digest)
    except tiles.NoTilesError as error:
        return str(error)
    return None


@pytest.fixture
def by_tiles(tune: Tune) -> tiles.Tiles:
    """The tiles, which are for small products too."""
    if not compiled.is_available():
        pytest.skip("numba is not installed")
    tune(tile_from=0, compiled_worth=0, compiled_from=1, exact_few=0, exact_few_plain=0)
    if (absent := _absent()) is not None:
        pytest.skip(absent)
    found = compiled.tiles(1)
    assert found is not None
    return found


@pytest.fixture
def by_words(tune: Tune) -> words.Words:
    """The sums of 16-bit words, which are for small products too, and for any number of low words; no tiles."""
    pytest.importorskip("llvmlite")
    if not words.is_there():
        pytest.skip("the processor has no sums of 16-bit products")
    tune(word_from=0, word_worth=0, word_lists=4, tile_from=1 << 60, exact_few=0, exact_few_plain=0)
    found = words.words(1)
    assert found is not None
    return found


@pytest.fixture(params=["tiles", "words"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Has an element for each product by the unit."""
    found = request.getfixturevalue(f"by_{request.param}")
    calls: list[int] = []
    product = found.product

    def counted(*args: Any, **known: bool) -> Any:
        result = product(*args, **known)
        if isinstance(result, np.ndarray):
            calls.append(1)
        return result

    monkeypatch.setattr(found, "product", counted)
    return calls


def limited(name: str, rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Random codes of numbers that are not too far apart for tiles."""
    found = finite_codes(name, rng, *shape)
    fmt = oracle.FORMATS[name]
    middle = oracle.encode_ratio(fmt, 1, 1, "nearest_even", "ieee")
    return np.where(np.abs((found & 0x7F).astype(int) - middle) < 48, found, middle).astype(np.uint8)


@pytest.mark.parametrize(("lhs", "rhs"), PAIRS)
def test_products_of_every_pair(by: list[int], lhs: str, rhs: str) -> None:
    rng = np.random.default_rng(len(lhs) * 7 + len(rhs))
    for shape in ((1, 1, 1), (17, 66, 3), (3, 130, 18)):
        x, y = limited(lhs, rng, *shape[:2]), limited(rhs, rng, *shape[1:])
        if lhs != "f8E8M0FNU" and shape[1] > 8:
            x[0], x[-1, :2] = 0, 0  # sums that are zero, and a line that begins with zeros
        check_exact(x, y, (lhs, rhs), (lhs, rhs, "f8E5M2", "f4E2M1FN", "bf16", "f16", "f32", "f64"))
    assert by or "f8E8M0FNU" in (lhs, rhs)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", [r for r in ROUNDINGS if r != "stochastic"])
def test_roundings(by: list[int], rounding: str, overflow: str) -> None:
    rng = np.random.default_rng(1)
    policy = Policy(rounding=rounding, overflow=overflow)
    for name in ("f8E4M3FN", "f8E4M3FNUZ", "f8E3M4"):
        x, y = finite_codes(name, rng, 5, 70), finite_codes("f8E4M3", rng, 70, 9)
        check_exact(x, y, (name, "f8E4M3"), (name, "f8E5M2", "f16", "bf16", "f32"), policy)
    assert by


def test_cancelling_terms_and_borders(by: list[int]) -> None:
    """Large terms cancel and leave halves of the last place, and one tiny number beside them."""
    rng = np.random.default_rng(5)
    for name in ("f8E4M3FN", "f8E4M3FNUZ", "f8E3M4", "f6E3M2FN", "f4E2M1FN"):
        x, y = finite_codes(name, rng, 20, 60), finite_codes(name, rng, 60, 20)
        minus = codes(-from_codes(x, name))
        last = np.full((20, 1), 1, np.uint8)
        both, twice = np.hstack([x, minus, last]), np.vstack([y, y, last.T])
        check_exact(both, twice, (name, name), (name, "f8E5M2", "f16", "f32"))
    assert by


def test_ties_that_one_tiny_term_decides(by: list[int]) -> None:
    """64 + 4 is halfway between two f8E4M3FN, and so on for other results; 2**-8 or 2**-32 is added or taken away."""
    halves = {"f8E4M3FN": 4, "f8E5M2": 3, "f8E3M4": 5, "bf16": 8, "f16": 11}
    for result, half in halves.items():
        for sign, all_signs, tiny in itertools.product((1, 0, -1), (1, -1), (4, 16)):
            powers = [[8.0, 2.0 ** (3 - half // 2), 2.0**-tiny], [8.0, 2.0 ** (3 - (half - half // 2)), 2.0**-tiny]]
            x = np.array([powers[0]]).astype(ml_dtypes.float8_e5m2)
            signs = np.array([1, 1, sign]) * all_signs
            y = (np.array([powers[1]]) * signs).T.astype(ml_dtypes.float8_e5m2)
            check_exact(codes(x), codes(y), ("f8E5M2", "f8E5M2"), (result, "f32"))
    assert by


def test_nan_infinities_and_negative_zeros(by: list[int], tune: Tune) -> None:
    rng, before_tiles = np.random.default_rng(6), speed.tuning().tile_from
    for name, rounding in itertools.product(("f8E3M4", "f8E4M3", "f8E4M3FN", "f8E4M3FNUZ"), ("nearest_even", "down")):
        x, y = (rng.integers(0, 256, s, np.uint8) for s in ((40, 9), (9, 40)))
        x[::2], y[:, ::2] = finite_codes(name, rng, 20, 9), finite_codes(name, rng, 9, 20)
        x[0], y[:, 1] = rng.choice([0, 0x80 if name != "f8E4M3FNUZ" else 0], 9), 0
        policy = Policy(rounding=rounding)
        before = len(by)
        for result in (name, "f32", "bf16", "f64"):
            first = codes(matmul(from_codes(x, name), from_codes(y, name), result, policy))
            assert len(by) > before
            tune(tile_from=1 << 60, word_from=1 << 60)
            otherwise = codes(matmul(from_codes(x, name), from_codes(y, name), result, policy))
            tune(tile_from=before_tiles, word_from=0)
            assert (first == otherwise).all(), (name, rounding, result)


def test_layouts_parts_and_threads(by: list[int], tune: Tune) -> None:
    """Operands may lie in memory in any way, and a product of many parts is that of one."""
    rng = np.random.default_rng(10)
    element = tensor("i8").element
    base = rng.integers(-128, 128, (2, 90, 200), np.int8)
    x = [base[:, :40, :70], base[:, 39::-1, 69::-1], base[:, :70, :40].swapaxes(1, 2), base[:, :80:2, :140:2]]
    x += [np.broadcast_to(base[:, :1, :70], (2, 40, 70)), np.broadcast_to(base[:1, :40, 5:6], (2, 40, 70))]
    y = [base[::-1, :70, 3:103], base[:, :70, 199:99:-1], base[:, :70, :200:2]]
    y += [np.ascontiguousarray(base[:, :70, 3:103].swapaxes(1, 2)).swapaxes(1, 2)]
    tune(block=1, tile_terms=1, word_terms=1)
    for a, b in itertools.product(x, y):
        sums = by_integers.integers(a, b, element, element)
        assert sums is not None
        assert (sums == a.astype(np.int64) @ b.astype(np.int64)).all()
    assert len(by) == len(x) * len(y)


@pytest.mark.parametrize("lhs", ["i8", "ui8", "i4", "ui4", "i2", "i1"])
@pytest.mark.parametrize("rhs", ["i8", "ui8", "i4"])
def test_integers(by: list[int], lhs: str, rhs: str) -> None:
    rng = np.random.default_rng(7)

    def numbers(name: str, *shape: int) -> np.ndarray:
        bits = int(name.lstrip("ui"))
        low, high = (-(1 << bits - 1), 1 << bits - 1) if name[0] == "i" and bits > 1 else (0, 1 << bits)
        return rng.choice([low, high - 1, *rng.integers(low, high, 3)], shape)

    x, y = numbers(lhs, 2, 19, 200), numbers(rhs, 2, 200, 35)
    x_type, y_type = tensor(lhs).element, tensor(rhs).element
    numbers_of = {"lhs_batching_dimensions": [0], "rhs_batching_dimensions": [0]}
    numbers_of |= {"lhs_contracting_dimensions": [2], "rhs_contracting_dimensions": [1]}
    for result in ("i32", "i64", "i8", "f32"):
        out = run(
            "dot_general",
            x.astype(x_type.dtype),
            y.astype(y_type.dtype),
            result=tensor(result, 2, 19, 35),
            dot_dimension_numbers=numbers_of,
        )
        expected = x.astype(np.int64) @ y.astype(np.int64)
        assert (out.astype(np.int64) == (expected if result != "i8" else expected.astype(np.int8))).all()
    assert by


def test_what_is_not_for_integers(by: list[int]) -> None:
    """Numbers too far apart, sums of more than 53 bits and rows that are too long take another way, with equal sums."""
    rng = np.random.default_rng(8)
    x, y = finite_codes("f8E5M2", rng, 3, 40), finite_codes("f8E5M2", rng, 40, 3)
    x[0, :2], y[:2, 0] = [1, 0x7B], [1, 0x7B]
    check_exact(x, y, ("f8E5M2", "f8E5M2"), ("f8E5M2", "f32", "f64"))
    assert not by
    long = np.full((1, 1, tiles.LONGEST + 1), 127, np.int8)
    assert tiles.LONGEST == words.LONGEST
    assert by_integers.integers(long, long.swapaxes(1, 2), tensor("i8").element, tensor("i8").element) is None
    full = long[..., :-1]
    sums = by_integers.integers(full, full.swapaxes(1, 2), tensor("i8").element, tensor("i8").element)
    assert sums is not None
    assert sums.item() == 127 * 127 * tiles.LONGEST


def to_odd(sums: np.ndarray, scale: float) -> np.ndarray:
    """The bits of integers times a power of two as f32, rounded to odd."""
    near = (sums.astype(np.float64) * scale).astype(np.float32)
    beyond = np.abs(near.astype(np.float64)) > np.abs(sums) * scale
    return (near.view(np.uint32) - beyond) | (near.astype(np.float64) != sums * scale)


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_sums_are_rounded_once_whatever_their_size(by_tiles: tiles.Tiles, count: int) -> None:
    """Sums of a few and of many bits, side by side, of both signs, near and on the borders of 24 and 30 bits."""
    rng = np.random.default_rng(11)
    most = 127 * sum(256**i for i in range(count))
    values = np.sign(rng.uniform(-1, 1, 256)) * np.minimum(2 ** rng.uniform(0, 8 * count, 256), most)
    values = values.astype(np.int64)
    values[:6] = 0, 1, -1, most, -most, most - 1
    small = np.where(np.abs(values) < 1 << 15, values, values >> 9)
    for numbers, (lines, length, columns) in itertools.product((values, small), ((40, 1, 33), (50, 90, 64))):
        x, y = rng.integers(0, 256, (1, lines, length), np.uint8), rng.integers(0, 256, (1, length, columns), np.uint8)
        digits = tiles.digits(numbers, count), count
        if 2 * count > tiles.BOTH:
            digits = tiles.digits(np.where(np.abs(numbers) < 1 << 23, numbers, 1), 3), 3
        exact = tiles.digits(numbers, count)[0].astype(np.int64) * 0
        for i, row in enumerate(digits[0].view(np.int8)):
            exact += row.astype(np.int64) << (8 * i)
        sums = exact[x] @ exact[y]
        scale = 2.0**-9
        wanted = (sums.astype(np.float64) * scale).astype(np.float32)
        near = by_tiles.product(x, y, digits, digits, tiles.NEAREST, scale)
        assert (near.view(np.uint32) == wanted.view(np.uint32)).all()
        odd = by_tiles.product(x, y, digits, digits, tiles.ODD, scale)
        assert (odd.view(np.uint32) == to_odd(sums, scale)).all()
        assert (by_tiles.product(x, y, digits, digits, tiles.F64, scale) == sums * scale).all()


@pytest.mark.parametrize(("left", "right"), [(0, 0), (3, 0), (0, 5), (6, 6), (4, 9)])
def test_low_words_are_multiplied_where_they_are(by_words: words.Words, left: int, right: int) -> None:
    """Few numbers with low words, many, none in some rows, and sums of every size; whole and in parts."""
    rng = np.random.default_rng(left + right)
    for share, (lines, length, columns) in itertools.product(
        (0.004, 0.1, 1.0), ((1, 1, 1), (9, 65, 33), (40, 130, 96))
    ):
        values = []
        for shift in (left, right):
            v = rng.integers(-3000, 3000, 256) << shift
            is_low = rng.random(256) < share
            values.append(np.where(is_low, rng.integers(-(1 << shift) + 1, 1 << shift, 256), v))
        x, y = rng.integers(0, 256, (2, lines, length), np.uint8), rng.integers(0, 256, (2, length, columns), np.uint8)
        x[:, : lines // 2] = np.argmax(np.abs(values[0]))
        splits = words.split(values[0], left), words.split(values[1], right)
        sums = values[0][x] @ values[1][y]
        result = by_words.product(x, y, *splits, native.F64, -3)
        assert isinstance(result, np.ndarray), result
        assert (result == sums * 2.0**-3).all()
        near = by_words.product(x, y, *splits, native.NEAREST, -40)
        assert isinstance(near, np.ndarray)
        assert (near == (sums * 2.0**-40).astype(np.float32)).all()
        odd = by_words.product(x, y, *splits, native.ODD, -7)
        assert isinstance(odd, np.ndarray)
        assert (odd.view(np.uint32) == to_odd(sums, 2.0**-7)).all()


def test_sums_of_words_that_need_more_than_32_bits_are_not_given(by_words: words.Words) -> None:
    """The largest sum that is given, and what is said of the next."""
    values = np.zeros(256, np.int64)
    values[1], values[2] = 32767, -32767
    whole = words.split(values, 0)
    for code, length, is_given in ((1, 1, True), (2, 1, True), (1, 2, False), (2, 3, False), (2, 900, False)):
        x, y = np.full((1, 1, length), code, np.uint8), np.full((1, length, 1), 1, np.uint8)
        result = by_words.product(x, y, whole, whole, native.F64, 0)
        if is_given:
            assert isinstance(result, np.ndarray)
            assert result.item() == values[code] * 32767
        else:
            assert isinstance(result, float)
            assert result * 2**31 >= length * 32767**2 - 1
    apart = np.zeros((1, 3, 5), np.uint8)
    apart[0, 1, 2] = 1  # one number by itself: the norms are those of a row, not of all
    other = np.full((1, 5, 40), 0, np.uint8)
    other[0, 2, 39] = 2
    result = by_words.product(apart, other, whole, whole, native.I32, 0)
    assert isinstance(result, np.ndarray)
    assert result[0, 1, 39] == -(32767**2)
    assert np.count_nonzero(result) == 1


def test_sums_with_low_words_on_both_sides_may_be_too_large_together(by_words: words.Words) -> None:
    """Both kinds of products with one low word fit 32 bits, and their sum does not."""
    values = np.zeros(256, np.int64)
    values[1], values[2] = 30000 << 10, 30001
    halves = words.split(values, 10)
    x, y = np.array([[[1, 2, 2]]], np.uint8), np.array([[[2], [1], [1]]], np.uint8)
    result = by_words.product(x, y, halves, halves, native.F64, 0)
    if isinstance(result, np.ndarray):
        assert result.item() == (values[x] @ values[y]).item()
    else:
        assert isinstance(result, float)


def test_many_low_words_are_left_to_f64(by_words: words.Words, tune: Tune) -> None:
    tune(word_lists=1)
    values = np.arange(256)
    x = np.full((1, 8, 64), 7, np.uint8)
    assert by_words.product(x, x.swapaxes(1, 2), *[words.split(values, 3)] * 2, native.F64, 0) is None
    assert by_words.product(x, x.swapaxes(1, 2), *[words.split(values * 8, 3)] * 2, native.F64, 0) is not None


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN"])
def test_scaled_data(by_words: words.Words, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Normal numbers scaled to the largest of a format: what training does. Long sums need larger units."""
    seen, product = [], by_words.product

    def recorded(x: np.ndarray, y: np.ndarray, a: words.Split, b: words.Split, *rest: Any) -> Any:
        seen.append((a.shift, b.shift))
        return product(x, y, a, b, *rest)

    monkeypatch.setattr(by_words, "product", recorded)
    rng, top = np.random.default_rng(3), float(ml_dtypes.finfo(tensor(name).element.dtype).max)
    for length in (16, 300, 2000):
        x, y = (rng.standard_normal(s) for s in ((5, length), (length, 6)))
        x, y = (codes((v * (top / np.abs(v).max())).astype(tensor(name).element.dtype)) for v in (x, y))
        check_exact(x, y, (name, name), (name, "f32", "bf16"))
    assert seen
    assert (max(a + b for a, b in seen) > 0) == (name != "f4E2M1FN")
