"""convert and reduce_precision, against exact oracles: fractions for every pair of types, and sorted tables of values
where every boundary between two results is tried."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from minihlo.ops.policy import OVERFLOWS, ROUNDINGS, Policy
from minihlo.ops.registry import OpError
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from . import oracle
from .run_op import FLOATS, INTEGERS, TYPES, bind, codes, from_codes, run, tensor, type_of


@pytest.fixture(autouse=True)
def _as_the_machine_runs():
    with np.errstate(all="ignore"):
        yield


DETERMINISTIC = [r for r in ROUNDINGS if r != "stochastic"]


def converted(x: np.ndarray, target: ElementType | str, **policy) -> np.ndarray:
    return run("convert", x, result=tensor(target, *x.shape), policy=Policy(**policy))


def check_floats(x: np.ndarray, found: np.ndarray, expected: list[int], fmt: oracle.Format) -> None:
    """Equal codes, or both NaN of one sign where the format has signed NaN."""
    one_nan = fmt.nan in ("sign", "last")
    for value, a, b in zip(x, codes(found).tolist(), expected, strict=True):
        same_sign = one_nan or (a ^ b) & fmt.sign_bit == 0
        message = f"{value!r} ({value.tobytes()[::-1].hex()}) -> {a:#x}, not {b:#x}"
        assert oracle.same(fmt, a, b), message
        assert same_sign, message


# -- every pair of types -----------------------------------------------------------------------------------------------


def sample(element: ElementType) -> np.ndarray:
    """Every code of up to eight bits; of wider types random codes, special values and the ends of integers' ranges."""
    if element.is_complex:
        part = sample(element.part)
        z = np.empty(part.size, element.dtype)
        z.real, z.imag = part, part[::-1]
        return z
    if element.bits <= 8:
        return from_codes(np.arange(1 << element.bits), element)
    rng = np.random.default_rng(1)
    random = from_codes(
        rng.integers(0, 2**64, 60, np.uint64) >> rng.integers(0, element.bits, 60).astype("u8"), element
    )
    if element.is_integer:
        i = np.iinfo(element.dtype)
        return np.append(random, np.array([i.min, i.min + 1, i.max, i.max - 1, 0, 1, i.max // 2 + 1], element.dtype))
    ends = [
        s * (2.0**k + d) for s in (1, -1) for k in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63, 64) for d in (0, -1, -0.5)
    ]
    return np.append(random, np.array([*ends, 0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan]).astype(element.dtype))


def numbers(x: np.ndarray) -> list[oracle.Value]:
    """The values of an array; of complex numbers their real parts."""
    element = type_of(x).element
    if element.is_complex:
        return numbers(np.ascontiguousarray(x.real))
    if not element.is_float:
        return [Fraction(int(v)) for v in x]
    fmt = oracle.FORMATS[element.name]
    return [oracle.decode(fmt, int(c)) for c in codes(x)]


def check_conversion(x: np.ndarray, found: np.ndarray) -> None:
    source, target = type_of(x).element, type_of(found).element
    values = numbers(x)
    if target.is_complex:
        check_conversion(x, np.ascontiguousarray(found.real))
        if source.is_complex:
            check_conversion(np.ascontiguousarray(x.imag), np.ascontiguousarray(found.imag))
        else:
            assert (codes(np.ascontiguousarray(found.imag)) == 0).all()
    elif target.is_float:
        fmt = oracle.FORMATS[target.name]
        check_floats(x, found, [oracle.encode(fmt, v) for v in values], fmt)
    elif target.bits == 1:
        assert found.tolist() == [v != 0 for v in values]  # NaN too
    else:
        is_signed = target.name[0] == "i"
        if source.is_float or source.is_complex:
            expected = [oracle.to_integer(v, target.bits, is_signed) for v in values]
        else:
            expected = [int(v) for v in values]
        assert codes(found).tolist() == [v & ((1 << target.bits) - 1) for v in expected]


@pytest.mark.parametrize("target", TYPES, ids=str)
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_every_pair(source: ElementType, target: ElementType) -> None:
    x = sample(source)
    found = converted(x, target)
    if source == target:
        assert found.tobytes() == x.tobytes()  # NaN payloads too
        return
    check_conversion(x, found)
    assert converted(x[::-2].reshape(-1, 1), target).tobytes() == found[::-2].tobytes()
    assert converted(x[:0], target).size == 0
    kernel = bind("convert", [tensor(source)], tensor(target))
    for i in range(0, x.size, 7):
        scalars = kernel(x[i : i + 1].reshape(())), kernel(x[i])  # 0-d arrays, and scalars of numpy
        for scalar in scalars:
            assert (scalar.shape, scalar.dtype) == ((), target.dtype)
            assert scalar.tobytes() == found[i].tobytes()


def test_shape_must_stay() -> None:
    with pytest.raises(OpError, match=r"\[3\] \(expected \[2\]\)"):
        bind("convert", [tensor("f32", 2)], tensor("f8E5M2", 3))


# -- every boundary ----------------------------------------------------------------------------------------------------


@functools.cache
def magnitudes(name: str) -> np.ndarray:
    """The values of the codes from 0 to the largest, exact in f64; and what would come next in a wider range."""
    fmt = oracle.FORMATS[name]
    values = [float(oracle.decode(fmt, c)) for c in range(fmt.max_code + 1)]
    return np.array([*values, 2.0**128 if name == "f8E8M0FNU" else 2 * values[-1] - values[-2]])


def nearest(x: np.ndarray, name: str) -> list[int]:
    """The codes of finite f64 numbers in a format of up to 16 bits other than f8E8M0FNU: nearest, ties to even."""
    fmt, values = oracle.FORMATS[name], magnitudes(name)
    middle = (values[1:] + values[:-1]) / 2  # exact: one bit more
    size = np.abs(x)
    code = np.searchsorted(middle, size, "left")
    tie = (code < len(middle)) & (middle[np.minimum(code, len(middle) - 1)] == size)
    code += tie & (code % 2 == 1)
    beyond = code > fmt.max_code
    code = np.where(np.signbit(x) & ((code > 0) | (fmt.nan != "sign")), code | fmt.sign_bit, code)
    ends = [oracle.encode(fmt, end) for end in (oracle.INF, -oracle.INF)]
    return np.where(beyond, np.where(np.signbit(x), ends[1], ends[0]), code).tolist()


def boundaries(target: str, source: np.dtype, limit: int | None = None) -> np.ndarray:
    """Numbers of a float type at and beside each value of a format and each middle between two, of both signs."""
    values = magnitudes(target)
    if limit is not None and len(values) > limit:
        keep = np.random.default_rng(2).choice(len(values) - 20, limit, replace=False)
        values = values[np.sort(np.concatenate([[0, 1], keep, np.arange(-18, 0)]))]
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2, values[-1:] * 4]).astype(np.float64)
    points = points.astype(source)
    points = points[np.isfinite(points)]
    points = np.unique(np.concatenate([np.nextafter(points, source.type(np.inf)), points,
                                       np.nextafter(points, source.type(-np.inf))]))  # fmt: skip
    return np.concatenate([points, -points]).astype(source)


NARROW = [t for t in FLOATS if t.bits <= 16]
HOSTS = [ELEMENT_TYPES[n] for n in ("f64", "f32", "f16", "bf16")]


@pytest.mark.parametrize("source", HOSTS, ids=str)
@pytest.mark.parametrize("target", NARROW, ids=str)
def test_boundaries_of_floats(source: ElementType, target: ElementType) -> None:
    if source.bits == 16:
        x = from_codes(np.arange(1 << 16), source)
        x = x[np.isfinite(x.astype(np.float32))]
    else:
        x = boundaries(target.name, source.dtype)
    x = x[np.isfinite(x.astype(np.float64))]
    found, fmt = converted(x, target), oracle.FORMATS[target.name]
    if target.name == "f8E8M0FNU":
        some = slice(None, None, 1 if x.size < 10_000 else 17)
        check_floats(x[some], found[some], [oracle.encode(fmt, v) for v in numbers(x[some])], fmt)
        return
    expected = np.array(nearest(x.astype(np.float64), target.name))
    unlike = codes(found) != expected  # two NaN may be
    check_floats(x[unlike], found[unlike], expected[unlike].tolist(), fmt)
    some = slice(None, None, max(1, x.size // 300))  # the fast oracle by the slow one
    check_floats(x[some], found[some], [oracle.encode(fmt, v) for v in numbers(x[some])], fmt)


def test_f64_to_f32() -> None:
    rng = np.random.default_rng(8)
    single = from_codes(rng.integers(0, 0x7F800000, 1000), "f32").astype(np.float64)
    single = np.append(single, [0, 2.0**-149, 2.0**-126, 3.4028234663852886e38])
    half_step = (np.nextafter(single.astype(np.float32), np.float32(0)).astype(np.float64) + single) / 2
    points = np.concatenate([single, half_step, [3.4028235677973366e38, 2.0**-150, 1e300]])
    points = np.concatenate([np.nextafter(points, 0), points, np.nextafter(points, np.inf)])
    x, fmt = np.concatenate([points, -points]), oracle.FORMATS["f32"]
    for rounding in DETERMINISTIC:
        expected = [oracle.encode(fmt, v, rounding) for v in numbers(x)]
        check_floats(x, converted(x, "f32", rounding=rounding), expected, fmt)


@pytest.mark.parametrize("source", [t for t in INTEGERS if t.bits > 8], ids=str)
@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_boundaries_of_integers(source: ElementType, target: ElementType) -> None:
    info, fmt = np.iinfo(source.dtype), oracle.FORMATS[target.name]
    if target.bits <= 16:
        values = magnitudes(target.name)
        points = {int(v) for v in np.concatenate([values, (values[1:] + values[:-1]) / 2]) if v < 2.0**64}
    else:  # an integer of so many bits more than the format has, at a tie or not
        rng = np.random.default_rng(9)
        heads = (rng.integers(0, 2**64, 250, np.uint64) >> np.uint64(63 - fmt.mantissa_bits)).tolist()
        points = {((h << 1) | 1) << (extra - 1) for h in heads for extra in range(1, 65 - fmt.mantissa_bits, 3)}
        points |= {1 << k for k in range(65)}
    points = sorted(
        {s * (p + d) for p in points for d in (-1, 0, 1) for s in (1, -1)} | {info.min, info.max, info.max - 1}
    )
    points = [p for p in points if info.min <= p <= info.max]
    points = points[:: 1 + len(points) // 3000]
    x = np.array(points, source.dtype)
    check_floats(x, converted(x, target), [oracle.encode_ratio(fmt, p, 1) for p in points], fmt)


# -- every policy ------------------------------------------------------------------------------------------------------

CHOSEN = ("f4E2M1FN", "f6E3M2FN", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E8M0FNU", "f16")


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("rounding", DETERMINISTIC)
@pytest.mark.parametrize("target", CHOSEN)
def test_every_policy(target: str, rounding: str, overflow: str) -> None:
    fmt, policy = oracle.FORMATS[target], {"rounding": rounding, "overflow": overflow}
    for source in ("f64", "f32", "bf16", "i32", "f8E5M2FNUZ"):
        element = ELEMENT_TYPES[source]
        if element.is_integer or element.is_minifloat:
            x = sample(element)
            x = x[:: 1 + x.size // 100]
        else:
            x = boundaries(target, np.dtype(np.float64), 100).astype(element.dtype)
            x = x[:: 1 + x.size // 250]
            x = np.append(x, np.array([np.inf, -np.inf, np.nan, -np.nan]).astype(element.dtype))
        check_floats(x, converted(x, target, **policy), [oracle.encode(fmt, v, **policy) for v in numbers(x)], fmt)


@pytest.mark.parametrize("source", ["f64", "f32", "bf16", "f8E4M3", "i32", "complex<f32>"])
def test_stochastic_rounding(source: str) -> None:
    """Each result is one of the two neighbours, the upper as often as the number is near to it."""
    x = np.repeat(np.array([5.0, 5.5, 4.0, -4.5, 0.25, 6.0]), 4000).astype(ELEMENT_TYPES[source].dtype)
    x = x if source != "i32" else np.repeat(np.array([5, 5, 4, -5, 0, 6], np.int32), 4000)
    found = converted(x, "f4E2M1FN", rounding="stochastic").astype(np.float64).reshape(6, 4000)
    if source == "i32":
        low, high, mean = [4, 4, 4, -6, 0, 6], [6, 6, 4, -4, 0, 6], [5, 5, 4, -5, 0, 6]
    else:
        low, high, mean = [4, 4, 4, -6, 0, 6], [6, 6, 4, -4, 0.5, 6], [5, 5.5, 4, -4.5, 0.25, 6]
    assert ((found == np.c_[low]) | (found == np.c_[high])).all()
    np.testing.assert_allclose(found.mean(1), mean, atol=0.08)  # five standard deviations of the mean


# -- by hand -----------------------------------------------------------------------------------------------------------

FP8 = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ")
LARGEST = (448.0, 240.0, 57344.0, 57344.0)

# The tables of the ONNX pages on casts to FP8: of x, the codes in the four types. A NaN of theirs is any NaN here.
SATURATING = [
    (0.0, (0x00, 0x00, 0x00, 0x00)),
    (-0.0, (0x80, 0x00, 0x80, 0x00)),
    (math.nan, ("NaN", "NaN", "NaN", "NaN")),
    (math.inf, (0x7E, "NaN", 0x7B, "NaN")),
    (-math.inf, (0xFE, "NaN", 0xFB, "NaN")),
    (1e30, (0x7E, 0x7F, 0x7B, 0x7F)),
    (-1e30, (0xFE, 0xFF, 0xFB, 0xFF)),
]
NOT_SATURATING = [
    (0.0, (0x00, 0x00, 0x00, 0x00)),
    (-0.0, (0x80, 0x00, 0x80, 0x00)),
    (math.nan, ("NaN", "NaN", "NaN", "NaN")),
    (math.inf, ("NaN", "NaN", 0x7C, "NaN")),
    (-math.inf, ("NaN", "NaN", 0xFC, "NaN")),
    (1e30, ("NaN", "NaN", 0x7C, "NaN")),
    (-1e30, ("NaN", "NaN", 0xFC, "NaN")),
]


@pytest.mark.parametrize("source", ["f64", "f32", "bf16"])
@pytest.mark.parametrize(("overflow", "table"), [("onnx", SATURATING), ("ieee", NOT_SATURATING)])
def test_tables_of_the_documents(overflow: str, table: list, source: str) -> None:
    for i, target in enumerate(FP8):
        for x, row in table:
            found = int(codes(converted(np.array(x).astype(ELEMENT_TYPES[source].dtype), target, overflow=overflow)))
            is_nan = oracle.is_nan_code(oracle.FORMATS[target], found)
            assert is_nan if row[i] == "NaN" else found == row[i], (target, x)


def test_saturate_makes_infinities_the_largest() -> None:
    x = np.array([np.inf, -np.inf, 1e30, -1e30], np.float32)
    for target, largest in zip(FP8, LARGEST, strict=True):
        found = converted(x, target, overflow="saturate").astype(float)
        assert found.tolist() == [largest, -largest, largest, -largest]


def test_sign_of_nan_stays() -> None:
    for target, nan in (("f8E4M3FN", 0x7F), ("f8E5M2", 0x7E), ("f8E4M3", 0x7C), ("f8E3M4", 0x78)):
        found = codes(converted(from_codes([0x7FC00000, 0xFFC00000], "f32"), target))
        assert (found & 0x80).tolist() == [0, 0x80]
        assert ((found & 0x7F) >= nan).all()


def test_f4_of_the_documents() -> None:
    x = np.array([np.inf, -np.inf, 7, -100, np.nan, -np.nan, -0.0], np.float32)
    assert codes(converted(x, "f4E2M1FN", overflow="onnx")).tolist() == [0x7, 0xF, 0x7, 0xF, 0x7, 0x7, 0x8]


def test_rounds_once() -> None:
    # 432 lies between 416 (0x7D) and 448 (0x7E); f32 would round the number up to it, and then the tie to 448.
    x = np.array([-431.99999999999994, -432.0, 431.99999999999994])
    assert codes(converted(x, "f8E4M3FN")).tolist() == [0xFD, 0xFE, 0x7D]
    # 2**60 and 2**64 give or take one, and ties of f32 that only the last bit of the integer breaks
    x = np.array([(1 << 60) + (1 << 36), (1 << 60) + (1 << 36) + 1, (1 << 63) + (1 << 39) + 1], np.uint64)
    assert converted(x, "f32").tolist() == [2.0**60, 2.0**60 + 2.0**37, 2.0**63 + 2.0**40]


def test_f8e8m0fnu_below_its_smallest() -> None:
    tiny = 2.0**-150
    x = np.array(
        [tiny, np.nextafter(tiny, 1), 2.0**-149, 2.0**-128, 2.0**-127, 1.5 * 2.0**-127, 0.0, -0.0, -1.0, -tiny]
    )
    expected = [0xFF, 0x00, 0x00, 0x00, 0x00, 0x01, 0xFF, 0xFF, 0xFF, 0xFF]
    assert codes(converted(x, "f8E8M0FNU")).tolist() == expected
    single = x.astype(np.float32)[[0, 2, 3, 4, 5, 6]]  # 2**-150 is 0 there
    assert codes(converted(single, "f8E8M0FNU")).tolist() == [0xFF, 0x00, 0x00, 0x00, 0x01, 0xFF]


# -- reduce_precision --------------------------------------------------------------------------------------------------


def reduced(x: np.ndarray, exponent_bits: int, mantissa_bits: int, **policy) -> np.ndarray:
    return run("reduce_precision", x, result=type_of(x), policy=Policy(**policy), exponent_bits=exponent_bits,
               mantissa_bits=mantissa_bits)  # fmt: skip


def test_reduce_precision_by_hand() -> None:
    x = from_codes([0x7FF0 << 48, (1 << 63) - 1, 1, 0], "f64")
    x = np.append(x, [65505.0, 65520.0, -65519.0, 6.2e-5, 6.1e-5, -6.1e-5])
    found = codes(reduced(x, 5, 10)).tolist()
    expected = np.array([0, 0, 0, 0, 65504, np.inf, -65504, 6.198883056640625e-05, 0, -0.0])
    assert found[:2] == codes(x)[:2].tolist()  # infinity, and a NaN bit for bit
    assert found[2:] == codes(expected)[2:].tolist()
    assert codes(reduced(x[1:2], 5, 0)) == 0x7FF0 << 48


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_reduce_precision_as_xla(name: str) -> None:
    element = ELEMENT_TYPES[name]
    fmt = element.format
    if element.bits == 16:
        x = from_codes(np.arange(1 << 16), element)
    else:
        rng = np.random.default_rng(7)
        bits = rng.integers(0, 2**64, 20_000, np.uint64) >> np.uint64(64 - element.bits)
        for i in range(1, fmt.mantissa_bits + 1):  # ties, and beside them
            bits[i * 100 :][:100] &= np.uint64((1 << element.bits) - (1 << i))
        middle = np.linspace(-40, 40, 10_000)  # most of all numbers are beyond any range otherwise
        x = np.concatenate([from_codes(bits, element), (np.exp2(middle) * np.sign(middle)).astype(element.dtype)])
    with jax.enable_x64(True):
        for e, m in [
            (1, 1),
            (2, 3),
            (3, 0),
            (4, 3),
            (5, 2),
            (5, 7),
            (6, 5),
            (8, 6),
            (8, 7),
            (5, 10),
            (7, 20),
            (11, 30),
        ]:
            expected = np.asarray(jax.lax.reduce_precision(jax.numpy.asarray(x), e, m))
            a, b = codes(reduced(x, e, m)), codes(expected)
            nan = np.isnan(x.astype(np.float64))
            np.testing.assert_array_equal(a[~nan], b[~nan], f"e{e}m{m}")
            if m:
                assert np.isnan(reduced(x, e, m)[nan].astype(np.float64)).all()
            else:  # XLA keeps NaN here, where the reference interpreter makes it infinite
                assert (a[nan] == fmt.infinity_code).all()


def reduced_by_value(fmt: oracle.Format, code: int, e: int, m: int, overflow: str) -> int:
    """The definition in numbers: the nearest with m mantissa bits, ties to even, then the range of e exponent bits."""
    value = oracle.decode(fmt, code)
    if math.isnan(value):
        return (fmt.ones - (1 << fmt.mantissa_bits) + 1) if m == 0 and fmt.has_infinity else code
    if math.isinf(value):
        return code
    step = 1 << max(fmt.mantissa_bits - m, 0)
    size = code & fmt.ones
    candidates = [size // step * step, (size // step + 1) * step]
    places = [_magnitude(fmt, c) for c in candidates]
    distances = [abs(p - abs(Fraction(value))) for p in places]
    pick = distances[1] < distances[0] or (distances[0] == distances[1] and candidates[0] // step % 2 == 1)
    result = places[pick]
    if e < fmt.exponent_bits:
        reach = (1 << (e - 1)) - 1
        if result >= Fraction(2) ** (reach + 1):
            result = oracle.INF
        elif result < Fraction(2) ** (1 - reach):
            result = Fraction(0)
    negative = oracle.is_negative(value)
    if result != oracle.INF and result > fmt.max:
        result = oracle.INF
    return oracle.encode(fmt, oracle.signed(result, negative), overflow="ieee" if fmt.has_infinity else overflow)


@functools.cache
def _magnitude(fmt: oracle.Format, code: int) -> Fraction:
    """The value of a code as if the range had no end."""
    field, mantissa = code >> fmt.mantissa_bits, Fraction(code & ((1 << fmt.mantissa_bits) - 1), 1 << fmt.mantissa_bits)
    if field == 0 and fmt.name != "f8E8M0FNU":
        return mantissa * Fraction(2) ** (1 - fmt.bias)
    return (1 + mantissa) * Fraction(2) ** (field - fmt.bias)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("element", [t for t in FLOATS if t.is_minifloat], ids=str)
def test_reduce_precision_of_minifloats(element: ElementType, overflow: str) -> None:
    fmt = oracle.FORMATS[element.name]
    x = from_codes(np.arange(1 << element.bits), element)
    every = list(itertools.product(range(1, fmt.exponent_bits + 2), range(fmt.mantissa_bits + 2)))
    for e, m in every if overflow == "ieee" else every[:: fmt.mantissa_bits + 3]:
        found = codes(reduced(x, e, m, overflow=overflow)).tolist()
        expected = [reduced_by_value(fmt, c, e, m, overflow) for c in range(1 << element.bits)]
        for code, a, b in zip(range(1 << element.bits), found, expected, strict=True):
            assert oracle.same(fmt, a, b), f"e{e}m{m} of {code:#x} is {a:#x}, not {b:#x}"
        if e >= fmt.exponent_bits and m >= fmt.mantissa_bits:
            assert found == list(range(1 << element.bits))
        scalar = x[-1:].reshape(())
        assert codes(reduced(scalar, e, m, overflow=overflow)) == found[-1]


@pytest.mark.parametrize(
    ("result", "bits", "message"),
    [
        (tensor("f32", 2), (0, 3), "exponent_bits is 0"),
        (tensor("f32", 2), (5, -1), "mantissa_bits is -1"),
        (tensor("f32", 3), (5, 3), "the result must be"),
    ],
)
def test_reduce_precision_errors(result, bits, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("reduce_precision", [tensor("f32", 2)], result, exponent_bits=bits[0], mantissa_bits=bits[1])
