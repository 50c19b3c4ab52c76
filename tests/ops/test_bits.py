"""Shifts, counts, bit casts and the parts of numbers, against Python's integers and numpy's own views."""

import itertools
import math

import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from ..run_op import INTEGERS, TYPES, bind, codes, from_codes, run, tensor, type_of

EVERY_INTEGER = pytest.mark.parametrize("element", INTEGERS, ids=str)


def some_codes(element: ElementType) -> list[int]:
    """Every code of up to eight bits; of wider types ones, runs of ones, and random codes."""
    if element.bits <= 8:
        return list(range(1 << element.bits))
    mask = (1 << element.bits) - 1
    runs = [((1 << i) - 1) << j & mask for i in range(element.bits + 1) for j in (0, 1, element.bits // 2)]
    rng = np.random.default_rng(3)
    return [*runs, *(mask ^ r for r in runs), *(int(x) & mask for x in rng.integers(0, 2**64, 50, np.uint64))]


def check_codes(result: np.ndarray, expected: list[int], element: ElementType) -> None:
    assert codes(result).ravel().tolist() == [e & ((1 << element.bits) - 1) for e in expected]


def two_complement(code: int, bits: int) -> int:
    return code - (code >> (bits - 1) << bits)


SHIFTS = {
    "shift_left": lambda x, n, bits: x << n if n < bits else 0,
    "shift_right_logical": lambda x, n, _: x >> n,
    "shift_right_arithmetic": lambda x, n, bits: two_complement(x, bits) >> n,
}


@EVERY_INTEGER
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(name: str, element: ElementType) -> None:
    mask = (1 << element.bits) - 1
    amounts = {*range(min(element.bits + 2, mask + 1)), 8, 64, mask, mask - 1, 1 << (element.bits - 1)}  # all unsigned
    if element.bits <= 8:
        amounts = range(1 << element.bits)
    pairs = list(itertools.product(some_codes(element), [n & mask for n in amounts]))
    x, y = (from_codes(np.array(side, np.uint64), element) for side in zip(*pairs, strict=True))
    expected = [SHIFTS[name](a, min(n, 64), element.bits) for a, n in pairs]
    check_codes(run(name, x, y, result=type_of(x)), expected, element)
    check_codes(run(name, x[3:4].reshape(()), y[3:4].reshape(()), result=tensor(element)), expected[3:4], element)
    assert run(name, x[:0], y[:0], result=tensor(element, 0)).size == 0


@EVERY_INTEGER
def test_counts(element: ElementType) -> None:
    every = some_codes(element)
    x = from_codes(np.array(every, np.uint64), element)
    # Of i2, i4 and the like some counts do not fit and wrap.
    check_codes(run("popcnt", x, result=type_of(x)), [c.bit_count() for c in every], element)
    zeros = [element.bits - c.bit_length() for c in every]
    check_codes(run("count_leading_zeros", x, result=type_of(x)), zeros, element)
    check_codes(run("count_leading_zeros", x[0:1].reshape(()), result=tensor(element)), zeros[:1], element)


REAL = [t for t in TYPES if not t.is_complex]
CASTS = [
    (s, t) for s, t in itertools.product(REAL, REAL) if max(s.bits, t.bits) % min(s.bits, t.bits) == 0
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), CASTS, ids=lambda t: str(t))
def test_bitcast(source: ElementType, target: ElementType) -> None:
    """All the bits of the operand as one integer, cut anew."""
    ratio = max(source.bits, target.bits) // min(source.bits, target.bits)
    wide = 3 * 2  # elements of the wider type
    count = wide * (ratio if source.bits < target.bits else 1)
    rng = np.random.default_rng(4)
    every = rng.integers(0, 2**64, count, np.uint64) & np.uint64((1 << source.bits) - 1)
    whole = sum(int(c) << (i * source.bits) for i, c in enumerate(every))
    count_after = count * source.bits // target.bits
    expected = [whole >> (i * target.bits) & ((1 << target.bits) - 1) for i in range(count_after)]
    more = (ratio,) if ratio > 1 else ()
    before, after = ((3, 2, *more), (3, 2)) if source.bits < target.bits else ((3, 2), (3, 2, *more))
    x = from_codes(every, source).reshape(before)
    actual = run("bitcast_convert", x, result=tensor(target, *after))
    check_codes(actual, expected, target)
    np.testing.assert_array_equal(codes(run("bitcast_convert", actual, result=type_of(x))), codes(x))  # and back
    # a view with strides, a scalar, no elements
    odd = x[::-1, ::-1]
    np.testing.assert_array_equal(
        codes(run("bitcast_convert", odd, result=tensor(target, *after))), codes(actual[::-1, ::-1])
    )
    np.testing.assert_array_equal(
        codes(run("bitcast_convert", x[2, 1], result=tensor(target, *after[2:]))), codes(actual[2, 1])
    )
    assert run("bitcast_convert", x[:0], result=tensor(target, 0, *after[1:])).size == 0


def test_bitcast_of_complex() -> None:
    x = from_codes([0x0123456789ABCDEF, 0x0000000011111111], "f64").view(np.complex128)
    actual = run("bitcast_convert", x, result=tensor("complex<f32>", 1, 2))
    assert actual.view(np.uint32).tolist() == [[0x89ABCDEF, 0x01234567, 0x11111111, 0]]
    assert run("bitcast_convert", actual, result=tensor("complex<f64>", 1)).tobytes() == x.tobytes()
    assert run("bitcast_convert", x, result=type_of(x)).tobytes() == x.tobytes()


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (tensor("f32", 3), tensor("i32", 4), r"expected a result of shape \[3\]"),
        (tensor("f32", 3), tensor("i8", 3), r"expected a result of shape \[3, 4\]"),
        (tensor("i8", 3), tensor("f32"), "expected a last dimension of 4 to make f32, got tensor<3xi8>"),
        (tensor("i8"), tensor("f32"), "expected a last dimension of 4"),
        (tensor("i8", 2, 4), tensor("f32", 3), r"expected a result of shape \[2\]"),
        (tensor("f6E2M3FN", 4), tensor("i8", 3), "expected types of which one is a whole number of the others"),
        (tensor("f64"), tensor("complex<f32>"), "both or neither"),
        (tensor("complex<f32>"), tensor("f32", 2), "both or neither"),
    ],
)
def test_bitcast_errors(source, target, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("bitcast_convert", [source], target)


@pytest.mark.parametrize("element", [t for t in INTEGERS if t.name[0] == "i"], ids=str)
def test_abs_of_integers(element: ElementType) -> None:
    every = some_codes(element)
    x = from_codes(np.array(every, np.uint64), element)
    check_codes(run("abs", x, result=type_of(x)), [abs(two_complement(c, element.bits)) for c in every], element)


def test_abs_of_complex() -> None:
    x = np.array([3 + 4j, complex(-np.inf, np.nan), complex(np.nan, 1), -0.0, 1e30 + 1e30j, 5e-324j])
    sizes = np.array([5, np.inf, np.nan, 0, 1e30 * math.sqrt(2), 5e-324])
    np.testing.assert_allclose(run("abs", x, result=tensor("f64", 6)), sizes, rtol=3e-16)
    actual = run("abs", x.astype(np.complex64), result=tensor("f32", 6))
    np.testing.assert_array_equal(actual, np.abs(x.astype(np.complex64).astype(np.complex128)).astype(np.float32))
    assert actual[4] == np.float32(1.4142135e30)  # the square is beyond f32
    assert run("abs", np.array(3 - 4j), result=tensor("f64")) == 5


@pytest.mark.parametrize("part", ["f32", "f64"])
def test_complex_parts(part: str) -> None:
    dtype = ELEMENT_TYPES[part].dtype
    re = np.array([[1, -0.0, np.nan], [np.inf, 2, -3]], dtype)
    im = np.array([[np.nan, 0.0, -0.0], [-np.inf, 5, 7]], dtype)
    z = run("complex", re, im, result=tensor(f"complex<{part}>", 2, 3))
    assert run("real", z, result=type_of(re)).tobytes() == re.tobytes()
    assert run("imag", z, result=type_of(re)).tobytes() == im.tobytes()
    one = run("complex", re[1, 1:2].reshape(()), im[1, 1:2].reshape(()), result=tensor(f"complex<{part}>"))
    assert one == 2 + 5j
    assert run("imag", one, result=tensor(part)) == 5
    assert run("complex", re[:0], im[:0], result=tensor(f"complex<{part}>", 0, 3)).size == 0


F32, C64 = tensor("f32", 3), tensor("complex<f32>", 3)


@pytest.mark.parametrize(
    ("name", "operands", "result", "message"),
    [
        ("shift_left", [tensor("i32", 3), tensor("i8", 3)], tensor("i32", 3), "expected the same"),
        ("shift_left", [F32, F32], F32, "expected an element type of"),
        ("popcnt", [tensor("i32", 3)], tensor("i32", 4), "expected the same"),
        ("count_leading_zeros", [tensor("i1", 3)], tensor("i1", 3), "expected an element type of"),
        ("real", [C64], tensor("f64", 3), "expected a result of f32, got f64"),
        ("imag", [C64], tensor("f32", 4), r"expected a result of shape \[3\]"),
        ("complex", [F32, tensor("f64", 3)], C64, "expected the same"),
        ("complex", [F32, F32], tensor("complex<f64>", 3), "expected a result of complex<f32>"),
        ("complex", [tensor("f16", 3)] * 2, C64, "expected an element type of"),
        ("abs", [C64], C64, "expected a result of f32"),
        ("abs", [tensor("ui8", 3)], tensor("ui8", 3), "expected an element type of"),
        ("is_finite", [F32], F32, "expected a result of"),
        ("is_finite", [C64], tensor("i1", 3), "expected an element type of"),
    ],
)
def test_errors(name, operands, result, message) -> None:
    with pytest.raises(OpError, match=message):
        bind(name, operands, result)
