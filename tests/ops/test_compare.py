"""compare, select and clamp against ml_dtypes' own values, Python's comparisons and orders written out by hand."""

import math
import operator

import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.ordering import total_keys, value_keys
from minihlo.ops.types import ELEMENT_TYPES

from ..run_op import INTEGERS, TYPES, bind, codes, run, tensor

DIRECTIONS = {d: getattr(operator, d.lower()) for d in ("EQ", "NE", "GE", "GT", "LE", "LT")}
SMALL_INTEGERS = [t for t in INTEGERS if t.bits <= 8]


def compare(x: np.ndarray, y: np.ndarray, direction: str, kind: str = "NOTYPE", **more):
    attributes = {"comparison_direction": direction, "compare_type": kind}
    return run("compare", x, y, result=tensor("i1", *x.shape), **attributes, **more)


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat(values, len(values)), np.tile(values, len(values))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_float_comparison_of_wide_types(name):
    dtype = ELEMENT_TYPES[name].dtype
    tiny = 2.0**-14  # a normal number of every one of them
    values = np.array([-math.nan, -math.inf, -2, -1, -tiny, -0.0, 0.0, tiny, 1, 1.5, math.inf, math.nan], dtype)
    x, y = pairs(values)
    for direction, test in DIRECTIONS.items():
        expected = [test(float(a), float(b)) for a, b in zip(x, y, strict=True)]
        assert compare(x, y, direction, "FLOAT").tolist() == expected
        for a, b, e in list(zip(x, y, expected, strict=True))[::7]:
            assert compare(np.array(a), np.array(b), direction) == e


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_total_order_of_every_16_bit_code(name):
    order = np.concatenate([np.arange(0xFFFF, 0x7FFF, -1), np.arange(0x8000)]).astype(np.uint16)
    values = order.view(ELEMENT_TYPES[name].dtype)
    assert compare(values[:-1], values[1:], "LT", "TOTALORDER").all()
    assert not compare(values[1:], values[:-1], "LE", "TOTALORDER").any()
    assert compare(values, values.copy(), "EQ", "TOTALORDER").all()


ORDERS = {
    "f32": "FFFFFFFF FFC00000 FF800001 FF800000 FF7FFFFF 80000001 80000000 0 1 7F7FFFFF 7F800000 7F800001",
    "f64": "FFF8000000000000 FFF0000000000000 8000000000000001 8000000000000000 0 1 7FF0000000000000 7FF8000000000001",
}


@pytest.mark.parametrize(("name", "order"), ORDERS.items())
def test_total_order_of_wide_types(name, order):
    size = ELEMENT_TYPES[name].bits // 8
    values = np.array([int(c, 16) for c in order.split()], f"u{size}").view(f"f{size}")
    (x, y), (i, j) = pairs(values), pairs(np.arange(len(values)))
    for direction, test in DIRECTIONS.items():
        assert compare(x, y, direction, "TOTALORDER").tolist() == test(i, j).tolist()
        scalars = [bool(compare(a, b, direction, "TOTALORDER")) for a, b in zip(x, y, strict=True)]
        assert scalars == test(i, j).tolist()


@pytest.mark.parametrize("element", SMALL_INTEGERS, ids=str)
def test_integers_of_up_to_8_bits(element):
    low = -(1 << (element.bits - 1)) if element.name[0] == "i" else 0
    numbers = np.arange(low, low + (1 << element.bits))
    x, y = pairs(numbers)
    for direction, test in DIRECTIONS.items():
        result = compare(x.astype(element.dtype), y.astype(element.dtype), direction)
        np.testing.assert_array_equal(result, test(x, y))


@pytest.mark.parametrize("name", ["i16", "i32", "i64", "ui16", "ui32", "ui64"])
def test_integers_at_the_ends(name):
    dtype = ELEMENT_TYPES[name].dtype
    ends = np.iinfo(dtype)
    numbers = sorted({int(ends.min), int(ends.min) + 1, 0, 1, 2, int(ends.max) - 1, int(ends.max)})
    x, y = pairs(np.array(numbers, dtype))
    kind = "UNSIGNED" if name[0] == "u" else "SIGNED"
    for direction, test in DIRECTIONS.items():
        expected = [test(a, b) for a in numbers for b in numbers]
        assert compare(x, y, direction, kind).tolist() == expected


def test_booleans():
    x, y = pairs(np.array([False, True]))
    assert compare(x, y, "LT", "UNSIGNED").tolist() == [False, True, False, False]
    assert compare(x, y, "GE").tolist() == [True, False, True, True]


@pytest.mark.parametrize("name", ["complex<f32>", "complex<f64>"])
def test_complex_numbers_are_compared_part_by_part(name):
    parts = [-math.inf, -1.0, -0.0, 0.0, 2.0, math.nan]
    values = [complex(a, b) for a in parts for b in parts]
    x, y = pairs(np.array(values, ELEMENT_TYPES[name].dtype))
    for direction, test in DIRECTIONS.items():
        strictly = operator.gt if direction[0] == "G" else operator.lt

        def expected(a, b, test=test, strictly=strictly, direction=direction):
            if direction in ("EQ", "NE"):
                return test(a, b)
            return strictly(a.real, b.real) or (a.real == b.real and test(a.imag, b.imag))

        assert compare(x, y, direction, "FLOAT").tolist() == [expected(a, b) for a in values for b in values]


def test_compare_of_nothing():
    nothing = np.empty((0, 3), np.float32)
    assert compare(nothing, nothing, "LT").shape == (0, 3)
    assert compare(nothing, nothing, "LT", "TOTALORDER").shape == (0, 3)


@pytest.mark.parametrize(
    ("element", "direction", "kind", "message"),
    [
        ("i8", "LT", "UNSIGNED", "i8 cannot be compared as UNSIGNED (expected SIGNED)"),
        ("ui8", "LT", "FLOAT", "ui8 cannot be compared as FLOAT (expected UNSIGNED)"),
        ("f8E5M2", "LT", "SIGNED", "f8E5M2 cannot be compared as SIGNED (expected FLOAT or TOTALORDER)"),
        ("complex<f32>", "LT", "TOTALORDER", "cannot be compared as TOTALORDER"),
        ("f32", "UP", "FLOAT", "expected a comparison_direction of EQ"),
    ],
)
def test_compare_refuses(element, direction, kind, message):
    zeros = np.zeros(1, ELEMENT_TYPES[element].dtype)
    with pytest.raises(OpError) as caught:
        compare(zeros, zeros, direction, kind)
    assert message in str(caught.value)


def test_compare_refuses_operands_that_differ():
    with pytest.raises(OpError, match="of types f32 and f64"):
        bind("compare", [tensor("f32", 2), tensor("f64", 2)], None, comparison_direction="LT")
    with pytest.raises(OpError, match="the same shape"):
        bind("compare", [tensor("f32", 2), tensor("f32", 3)], None, comparison_direction="LT")


def test_keys_of_f64_are_neighbours():
    x = np.array([-math.inf, -5e-324, -0.0, 0.0, 5e-324, 1e-323, 1.0, np.nextafter(1, 2), math.nan, -math.nan])
    f64 = ELEMENT_TYPES["f64"]
    keys = value_keys(x, f64).tolist()
    assert keys[1:6] == [-1, 0, 0, 1, 2]
    assert keys[7] == keys[6] + 1
    assert keys[8] == keys[9] == 2**63 - 1
    assert total_keys(x, f64).tolist()[1:6] == [-2, -1, 0, 1, 2]


@pytest.mark.parametrize("size", [3, 5000])
@pytest.mark.parametrize("element", TYPES, ids=str)
def test_select_moves_bits(element, size):
    rng = np.random.default_rng(1)
    width = element.dtype.itemsize
    limit = 1 << min(element.bits, 8)
    raw = [rng.integers(0, limit, size * width, np.uint16).astype(np.uint8) for _ in range(2)]
    x, y = (r.view(element.dtype) for r in raw)
    pred = rng.integers(0, 2, size).astype(bool)
    result = run("select", pred, x, y, result=tensor(element, size))
    rows = [r.reshape(size, width) for r in raw]
    expected = b"".join((rows[0] if p else rows[1])[i].tobytes() for i, p in enumerate(pred))
    assert result.tobytes() == expected


def test_select_by_a_scalar_and_of_scalars():
    x, y = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    assert run("select", np.array(True), x, y, result=tensor("f32", 2)).tolist() == [1, 2]
    assert run("select", np.False_, x, y, result=tensor("f32", 2)).tolist() == [3, 4]
    assert run("select", np.False_, x[0], y[0], result=tensor("f32")) == 3
    # The body of another op is run over arrays too, and some of them may be constants of rank 0.
    many = np.arange(5000) % 2 == 0
    kernel = bind("select", [tensor("i1", 5000), tensor("f32", 5000), tensor("f32", 5000)], tensor("f32", 5000))
    assert kernel(many, np.array(7, np.float32), np.arange(5000, dtype=np.float32))[:4].tolist() == [7, 1, 7, 3]


def test_select_refuses():
    with pytest.raises(OpError, match="pred is tensor<2xi8>"):
        bind("select", [tensor("i8", 2), tensor("f32", 2), tensor("f32", 2)], None)
    with pytest.raises(OpError, match="expected a scalar or of the shape"):
        bind("select", [tensor("i1", 3), tensor("f32", 2), tensor("f32", 2)], None)
    with pytest.raises(OpError, match="expected the same type"):
        bind("select", [tensor("i1", 2), tensor("f32", 2), tensor("f16", 2)], None)


def test_clamp_with_full_bounds_and_crossed_bounds():
    low, x, high = (np.array(v, np.int32) for v in ([0, 0, 0, 9], [-5, 3, 50, 5], [10, 10, 10, 2]))
    assert run("clamp", low, x, high, result=tensor("i32", 4)).tolist() == [0, 3, 10, 2]
    assert run("clamp", np.array(1, np.int32), x, high, result=tensor("i32", 4)).tolist() == [1, 3, 10, 2]


def test_clamp_of_narrow_integers_zeros_and_nan():
    low, x, high = (np.array(v).astype(ELEMENT_TYPES["i4"].dtype) for v in (-2, [-8, -1, 3, 7], 5))
    assert run("clamp", low, x, high, result=tensor("i4", 4)).astype(int).tolist() == [-2, -1, 3, 5]
    x = np.array([-0.0, math.nan, 1], np.float32)
    zero, nan = np.array(0, np.float32), np.array(math.nan, np.float32)
    result = run("clamp", zero, x, np.array([1, 1, math.nan], np.float32), result=tensor("f32", 3))
    assert codes(result)[0] == 0
    assert np.isnan(result[1:]).all()
    assert np.isnan(run("clamp", zero, x, nan, result=tensor("f32", 3))).all()


def test_clamp_refuses():
    t = tensor("f32", 4)
    with pytest.raises(OpError, match="min is tensor<2xf32>"):
        bind("clamp", [tensor("f32", 2), t, t], t)
    with pytest.raises(OpError, match="max is tensor<4xf16>"):
        bind("clamp", [t, t, tensor("f16", 4)], t)
