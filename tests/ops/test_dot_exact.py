"""Exact sums of minifloats in dot_general, against sums of integers."""

import functools
import itertools
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops import threads
from minihlo.ops.blas import matmul as product
from minihlo.ops.policy import OVERFLOWS, Policy
from minihlo.ops.products import exact

from .. import oracle
from ..run_op import codes, from_codes, run, tensor
from .test_dot import EVERY, finite_codes, matmul, numbers

PLACES = 127  # every number of every minifloat is a multiple of 2**-127


@functools.cache
def integers(name: str) -> list[int]:
    """The number of each code, times 2**PLACES; of infinities and NaN, zero."""
    fmt = oracle.FORMATS[name]
    values = [oracle.decode(fmt, code) for code in range(1 << fmt.bits)]
    return [int(Fraction(v) * 2**PLACES) if oracle.is_finite(v) else 0 for v in values]


def check_exact(
    x: np.ndarray, y: np.ndarray, types: tuple[str, str], results: tuple[str, ...], policy: Policy | None = None
) -> None:
    """The product of two matrices of finite numbers' codes is, in each type, the integers' rounded once."""
    policy = policy or Policy()
    xs = [[integers(types[0])[c] for c in row] for row in x.tolist()]
    ys = [[integers(types[1])[c] for c in column] for column in y.T.tolist()]
    sums = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in ys] for row in xs]
    for result in results:
        fmt = oracle.FORMATS[result]
        output = codes(matmul(from_codes(x, types[0]), from_codes(y, types[1]), result, policy))
        for i, j in np.ndindex(output.shape):
            if sums[i][j] or policy.rounding != "down":  # the sign of zeros has a test of its own
                expected = oracle.encode_ratio(fmt, sums[i][j], 1 << 2 * PLACES, policy.rounding, policy.overflow)
                assert oracle.same(fmt, int(output[i, j]), expected), (types, result, i, j, sums[i][j])


@EVERY
def test_exact_of_every_pair(lhs: str) -> None:
    for seed, rhs in enumerate(oracle.MINIFLOATS):
        rng = np.random.default_rng(seed)
        for length in (1, 2, 37):
            x, y = finite_codes(lhs, rng, 3, length), finite_codes(rhs, rng, length, 4)
            check_exact(x, y, (lhs, rhs), (lhs, rhs, "f8E3M4", "bf16", "f16", "f32", "f64"))


@EVERY
def test_exact_roundings(lhs: str) -> None:
    rng = np.random.default_rng(1)
    x, y = finite_codes(lhs, rng, 4, 19), finite_codes("f8E5M2", rng, 19, 5)
    for rounding, overflow in itertools.product(("toward_zero", "up", "down", "nearest_away"), OVERFLOWS):
        check_exact(
            x, y, (lhs, "f8E5M2"), (lhs, "f8E4M3FN", "f16", "f32"), Policy(rounding=rounding, overflow=overflow)
        )


@EVERY
@pytest.mark.parametrize("rhs", ["f8E5M2", "f8E8M0FNU", "f8E4M3FN"])
def test_exact_cancellation(lhs: str, rhs: str) -> None:
    """Large terms that cancel and leave a small one; ties that one tiny term decides."""
    rng = np.random.default_rng(2)
    x, y = finite_codes(lhs, rng, 6, 40), finite_codes(rhs, rng, 40, 6)
    order = rng.permutation(82)
    minus = codes(-from_codes(x, lhs)) if lhs != "f8E8M0FNU" else x
    smallest = [np.full((6, 1), 1 if lhs != "f8E8M0FNU" else 0), np.full((6, 1), 1)]
    x = np.hstack([x, minus, *smallest])[:, order].astype(np.uint8)
    y = np.vstack([y, y, finite_codes(rhs, rng, 2, 6)])[order]
    check_exact(x, y, (lhs, rhs), (lhs, rhs, "f32", "f64"))


@pytest.mark.parametrize("element", ["f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU", "f8E4M3FNUZ", "f4E2M1FN"])
def test_exact_of_long_rows(element: str) -> None:
    top = oracle.FORMATS[element].max_code
    rng = np.random.default_rng(3)
    for length in (5000, 65536):
        x, y = finite_codes(element, rng, 2, length), finite_codes(element, rng, length, 2)
        x[1], y[:, 1] = top, top  # the largest sum there is …
        x[1, 77], y[77, 1] = 1, 1  # … but for a term below all others
        check_exact(x, y, (element, element), ("f32", "f64", "bf16", "f8E5M2", element))


@pytest.mark.parametrize(("lhs", "rhs"), [("f8E5M2", "f8E5M2"), ("f8E4M3FN", "f8E5M2"), ("f8E4M3FN", "f8E4M3FN")])
def test_exact_at_the_limits(lhs: str, rhs: str) -> None:
    """Large terms among small ones, of every two sizes: in a sum of a few bits too many the small ones are lost."""
    x_top, y_top = (oracle.FORMATS[name].max_code for name in (lhs, rhs))
    step = 1 << oracle.FORMATS[rhs].mantissa_bits
    sizes = np.array([(c, d) for c in range(step - 1, y_top + 1, step) for d in range(1, c, step)], np.uint8)
    is_large = np.random.default_rng(15).permutation(np.arange(126) % 2 == 0)
    ends = np.full((2, len(sizes)), [[y_top], [1]])  # against zeros: they add nothing but to the range
    for small in (1, x_top // 2):
        x = np.hstack([np.where(is_large, x_top, small), [0, 0]])[None].astype(np.uint8)
        y = np.vstack([np.where(is_large[:, None], sizes[:, 0], sizes[:, 1]), ends]).astype(np.uint8)
        check_exact(x, y, (lhs, rhs), ("f64",))
        for column in range(len(sizes)):  # alone, so that the range is that of the two sizes
            check_exact(x[:, :-2], y[:-2, column, None], (lhs, rhs), ("f64",))


def test_exact_ties() -> None:
    """A tie that a term of 2**-32, more than 60 bits away, decides."""
    powers = {"f32": 6, "bf16": 22, "f16": -1}
    for result, half in powers.items():
        top = 30 if result != "f16" else 10
        terms = [top, half, -32]
        for sign, up in ((1, 1), (-1, 0), (0, 0)):
            x = np.array([[2.0 ** (t // 2) for t in terms]]).astype(ml_dtypes.float8_e5m2)
            y = np.array([[2.0 ** (t - t // 2)] for t in terms]).astype(ml_dtypes.float8_e5m2)
            y[2] *= sign
            for all_signs in (1, -1):
                actual = matmul(x, y * np.array(all_signs, y.dtype), result)[0, 0]
                assert float(actual) == all_signs * (2.0**top + up * 2.0 ** (half + 1)), (result, sign)


def test_exact_results_by_hand() -> None:
    x = np.array([[57344, 1, -57344]], ml_dtypes.float8_e5m2)
    y = np.array([[57344], [2.0**-16], [57344]], ml_dtypes.float8_e5m2)
    assert float(matmul(x, y, "f32")[0, 0]) == 2.0**-16
    # 16 + 1 lies between f8E4M3FN's 16 and 18, and is a tie; what tips it is 2**-18.
    x = np.array([[16, 1, 2.0**-9]], ml_dtypes.float8_e4m3fn)
    for tip, expected in ((1, 18), (-1, 16), (0, 16)):
        y = np.array([[1], [1], [tip * 2.0**-9]], ml_dtypes.float8_e4m3fn)
        assert float(matmul(x, y, "f8E4M3FN")[0, 0]) == expected
    huge = from_codes([[0xFE, 0x00]], "f8E8M0FNU")  # 2**127 and 2**-127
    assert codes(matmul(huge, huge.T, "f64"))[0, 0] == (1023 + 254) << 52
    assert codes(matmul(huge, huge.T, "f64", Policy(rounding="up")))[0, 0] == ((1023 + 254) << 52) + 1


@EVERY
def test_every_product(lhs: str) -> None:
    """Sums of one product, of every pair of codes: infinities and NaN too, and every zero is +0."""
    for rhs in oracle.MINIFLOATS:
        bits = [oracle.FORMATS[name].bits for name in (lhs, rhs)]
        x, y = from_codes(np.arange(1 << bits[0])[:, None], lhs), from_codes(np.arange(1 << bits[1])[None], rhs)
        with np.errstate(all="ignore"):
            expected = x.astype(np.float64) * y.astype(np.float64) + 0
        actual = matmul(x, y, "f64")
        np.testing.assert_array_equal(actual, expected)
        finite = np.isfinite(expected)
        assert (codes(actual)[finite] == codes(expected)[finite]).all()


@pytest.mark.parametrize("element", ["f8E5M2", "f8E4M3FN", "f8E4M3FNUZ", "f8E3M4", "f8E8M0FNU"])
def test_special_values_in_sums(element: str) -> None:
    """As f64 gives them, in which the sums of these few numbers are exact."""
    rng = np.random.default_rng(4)
    fmt = oracle.FORMATS[element]
    some = [fmt.max_code + 1 & 0xFF, fmt.sign_bit + fmt.max_code + 1 & 0xFF, 0xFF, fmt.sign_bit]
    many = [0x38, 0x80 * fmt.is_signed + 0x39, 0x3A, 0x3B, 0x40] * 12
    for _ in range(20):
        pair = [from_codes(rng.choice(some + many, shape), element) for shape in ((9, 11), (11, 9))]
        with np.errstate(all="ignore"):
            wide = [v.astype(np.float64) for v in pair]
            expected = (wide[0][:, :, None] * wide[1][None]).sum(1)
        np.testing.assert_array_equal(matmul(*pair, "f64"), expected)


def test_special_values_beside_a_wide_range() -> None:
    x = np.array([[57344, 2.0**-16, np.inf], [57344, 2.0**-16, 0], [np.nan, 0, 0]], ml_dtypes.float8_e5m2)
    y = np.array([[57344, 1, 1], [2.0**-16, 1, -np.inf], [1, 0, 1]], ml_dtypes.float8_e5m2)
    expected = [[np.inf, np.nan, np.nan], [57344.0**2 + 2.0**-32, 57344 + 2.0**-16, -np.inf], [np.nan] * 3]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(matmul(x, y, "f32"), np.array(expected).astype(np.float32))


def test_sign_of_zero_sums() -> None:
    zeros = {"+0": [[0x00, 0x00]], "-0": [[0x80, 0x80]], "both": [[0x00, 0x80]], "cancelled": [[0x38, 0xB8]]}
    ones = from_codes([[0x38], [0x38]], "f8E4M3FN")
    for result, negative_zero in (("f8E4M3FN", 0x80), ("f32", 1 << 31), ("f64", 1 << 63), ("f8E4M3FNUZ", 0)):
        for name, x in zeros.items():
            x = from_codes(x, "f8E4M3FN")
            assert codes(matmul(x, ones, result))[0, 0] == 0
            assert codes(matmul(x, ones, result, Policy(accumulate="f32")))[0, 0] == 0
            down = codes(matmul(x, ones, result, Policy(rounding="down")))[0, 0]
            assert down == (0 if name == "+0" else negative_zero), (result, name)
    none = matmul(*(from_codes(np.zeros(s), "f8E5M2") for s in ((1, 0), (0, 1))), "f32", Policy(rounding="down"))
    assert codes(none)[0, 0] == 0


def test_stochastic_sums() -> None:
    """1.25 in f4E2M1FN is 1 half of the time and 1.5 the other; the seed decides which."""
    x, y = np.full((1, 5), 0.5, ml_dtypes.float4_e2m1fn), np.full((5, 1000), 0.5, ml_dtypes.float4_e2m1fn)
    actual = matmul(x, y, "f4E2M1FN", Policy(rounding="stochastic")).astype(np.float32)
    assert set(actual.ravel().tolist()) == {1.0, 1.5}
    assert 400 < (actual == 1).sum() < 600
    assert (actual == matmul(x, y, "f4E2M1FN", Policy(rounding="stochastic")).astype(np.float32)).all()


def test_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows at a time, the result is the same."""
    rng = np.random.default_rng(5)
    x, y = (from_codes(rng.integers(0, 256, shape), "f8E5M2") for shape in ((5, 9, 30), (5, 30, 11)))
    whole = {}
    for size in (1 << 26, 99, 60, 1):
        monkeypatch.setattr(exact, "_MOST_WORDS", size)
        for a, b, result in ((x, y, "f8E5M2"), (x, y, "f64"), (codes(x), codes(y), "i32")):
            actual = run("dot_general", a, b, result=tensor(result, 5, 9, 11),
                        dot_dimension_numbers=numbers((0,), (0,), (2,), (1,)))  # fmt: skip
            whole.setdefault(result, codes(actual))
            nan = np.isnan(actual.astype(np.float64))
            assert ((codes(actual) == whole[result]) | nan).all()


SHAPES = [(1, 200, 64, 64), (3, 70, 33, 300), (2, 600, 9, 129), (70, 50, 40, 90), (2, 130, 300, 257), (1, 5, 2000, 999)]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_in_pieces_are_the_whole_product(shape: tuple[int, int, int, int]) -> None:
    batch, rows, length, columns = shape
    rng = np.random.default_rng(2)
    x = rng.integers(-99, 100, (batch, rows, length)).astype(np.float64)
    y = rng.integers(-99, 100, (batch, length, columns)).astype(np.float64)
    wanted = np.einsum("bij,bjk->bik", x.astype(np.int64), y.astype(np.int64))
    transposed = tuple(np.ascontiguousarray(v.swapaxes(1, 2)).swapaxes(1, 2) for v in (x, y))
    for a, b in ((x, y), transposed):
        for count in (0, 1, 3):
            token = threads.limit.set(count)
            assert (product(a, b) == wanted).all()
            threads.limit.reset(token)


@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
def test_infinite_sums(overflow: str) -> None:
    """Sums that f32 holds exactly are formed in another way than those that it does not."""
    for finite in ([1.0, 1.0], [15.5, 2.0**-6]):
        x = np.array([[np.inf, 1.0, -np.inf]]).astype(ml_dtypes.float8_e3m4)
        y = np.array([[1.0, *finite]]).T.astype(ml_dtypes.float8_e3m4)
        y = np.concatenate([y, -y], 1)
        y[2] = 0.5
        y[2, 0] = -0.5
        result = matmul(x, y, "f32", Policy(overflow=overflow))
        largest = np.finfo(np.float32).max if overflow == "saturate" else np.inf
        assert result[0].tolist() == [largest, -largest]
