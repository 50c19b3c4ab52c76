"""convert of every type to every other, arrays and scalars. `test_exact_conversions` has boundaries and policies."""

import math
from fractions import Fraction

import numpy as np
import pytest

from minihlo.ops import cast
from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .. import oracle
from ..run_op import TYPES, bind, codes, from_codes, run, tensor, type_of


@pytest.fixture(autouse=True)
def _as_the_machine_runs():
    with np.errstate(all="ignore"):
        yield


def converted(x: np.ndarray, target: ElementType | str, **policy) -> np.ndarray:
    return run("convert", x, result=tensor(target, *x.shape), policy=Policy(**policy))


def check_floats(x: np.ndarray, result: np.ndarray, expected: list[int], fmt: oracle.Format) -> None:
    """Equal codes, or both NaN of one sign where the format has signed NaN."""
    one_nan = fmt.nan in ("sign", "last")
    for value, a, b in zip(x, codes(result).tolist(), expected, strict=True):
        same_sign = one_nan or (a ^ b) & fmt.sign_bit == 0
        message = f"{value!r} ({value.tobytes()[::-1].hex()}) -> {a:#x}, not {b:#x}"
        assert oracle.same(fmt, a, b), message
        assert same_sign, message


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


def check_conversion(x: np.ndarray, result: np.ndarray) -> None:
    source, target = type_of(x).element, type_of(result).element
    values = numbers(x)
    if target.is_complex:
        check_conversion(x, np.ascontiguousarray(result.real))
        if source.is_complex:
            check_conversion(np.ascontiguousarray(x.imag), np.ascontiguousarray(result.imag))
        else:
            assert (codes(np.ascontiguousarray(result.imag)) == 0).all()
    elif target.is_float:
        fmt = oracle.FORMATS[target.name]
        check_floats(x, result, [oracle.encode(fmt, v) for v in values], fmt)
    elif target.bits == 1:
        assert result.tolist() == [v != 0 for v in values]  # NaN too
    else:
        is_signed = target.name[0] == "i"
        if source.is_float or source.is_complex:
            expected = [oracle.to_integer(v, target.bits, is_signed) for v in values]
        else:
            expected = [int(v) for v in values]
        assert codes(result).tolist() == [v & ((1 << target.bits) - 1) for v in expected]


@pytest.mark.parametrize("target", TYPES, ids=str)
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_every_pair(source: ElementType, target: ElementType) -> None:
    x = sample(source)
    actual = converted(x, target)
    if source == target:
        assert actual.tobytes() == x.tobytes()  # NaN payloads too
        return
    check_conversion(x, actual)
    assert converted(x[::-2].reshape(-1, 1), target).tobytes() == actual[::-2].tobytes()
    assert converted(x[:0], target).size == 0
    kernel = bind("convert", [tensor(source)], tensor(target))
    for i in range(0, x.size, 7):
        scalars = kernel(x[i : i + 1].reshape(())), kernel(x[i])  # 0-d arrays, and scalars of numpy
        for scalar in scalars:
            assert (scalar.shape, scalar.dtype) == ((), target.dtype)
            assert scalar.tobytes() == actual[i].tobytes()


def test_shape_must_stay() -> None:
    with pytest.raises(OpError, match=r"\[2\], got \[3\]"):
        bind("convert", [tensor("f32", 2)], tensor("f8E5M2", 3))


FP8 = ("f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ")
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
            actual = int(codes(converted(np.array(x).astype(ELEMENT_TYPES[source].dtype), target, overflow=overflow)))
            is_nan = oracle.is_nan_code(oracle.FORMATS[target], actual)
            assert is_nan if row[i] == "NaN" else actual == row[i], (target, x)


def test_f4_of_the_documents() -> None:
    x = np.array([np.inf, -np.inf, 7, -100, np.nan, -np.nan, -0.0], np.float32)
    assert codes(converted(x, "f4E2M1FN", overflow="onnx")).tolist() == [0x7, 0xF, 0x7, 0xF, 0x7, 0x7, 0x8]


def integers(name: str) -> list[int]:
    """The ends of the type, and what lies near powers of two and halfway between numbers of fewer bits."""
    bits, is_signed = int(name.lstrip("ui")), name.startswith("i")
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    near = {least, least + 1, most, most - 1, 0}
    for power in range(bits + 1):
        for below in (2, 3, 4, 8, 9, 11, 12, 24, 25):
            half = (1 << power) + (1 << max(power - below, 0))
            near |= {sign * (half + step) for step in (-1, 0, 1) for sign in (1, -1)}
    return sorted(n for n in near if least <= n <= most)


@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f8E5M2", "f8E4M3FN"])
@pytest.mark.parametrize("source", ["i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_integers_are_rounded_once(source: str, target: str) -> None:
    numbers, fmt = integers(source), oracle.FORMATS[target]
    old, new = ELEMENT_TYPES[source], ELEMENT_TYPES[target]
    for rounding in ("nearest_even", "toward_zero", "up", "down"):
        x = np.resize(np.array(numbers, old.dtype), 150_000)  # in blocks, and by what takes many at a time
        with np.errstate(over="ignore"):
            actual = cast.cast(x, old, new, Policy(rounding=rounding)).view(f"u{new.dtype.itemsize}")[: len(numbers)]
        wanted = [oracle.encode(fmt, Fraction(n), rounding) for n in numbers]
        assert actual.tolist() == wanted, rounding


@pytest.mark.parametrize("target", ["i4", "ui4", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_are_cut_to_the_nearest_integer_of_the_type(dtype: type, target: str) -> None:
    near = np.array(integers(target), np.float64).astype(dtype)
    x = np.concatenate([near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf)), near + dtype(0.5)])
    x = np.concatenate([x, np.array([np.nan, np.inf, -np.inf, -0.0, -0.5, 1e30, -1e30], dtype)])
    new, every = ELEMENT_TYPES[target], integers(target)
    source = ELEMENT_TYPES[f"f{8 * x.itemsize}"]
    wanted = [0 if math.isnan(v) else min(max(v, every[0]), every[-1]) for v in x.tolist()]
    actual = cast.cast(np.resize(x, 150_000), source, new, Policy())[: len(x)]
    assert [int(v) for v in actual] == [int(v) for v in wanted]


def test_many_f16_are_converted_as_by_numpy() -> None:
    """All f16, and all f32 that differ before the bits that decide a tie, with something behind these and nothing."""
    f16, f32 = ELEMENT_TYPES["f16"], ELEMENT_TYPES["f32"]
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = cast.cast(halves, f16, f32, Policy())
    assert np.array_equal(wide.view(np.uint32), halves.astype(np.float32).view(np.uint32))
    for behind in (0, 1, 0x7FF):
        x = (np.arange(1 << 21, dtype=np.uint32) << 11 | behind).view(np.float32)
        with np.errstate(all="ignore"):
            wanted = x.astype(np.float16)
        assert np.array_equal(cast.cast(x, f32, f16, Policy()).view(np.uint16), wanted.view(np.uint16))
