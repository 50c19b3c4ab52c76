"""The check ops and custom calls: what passes, what fails and what is said of it."""

import math
import uuid

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import CheckFailure, ProgramError
from minihlo.ops.op import CheckError, OpError
from minihlo.ops.programs.checks import INFINITELY_FAR, ulp_distance
from minihlo.ops.programs.custom_call import target
from minihlo.ops.types import ELEMENT_TYPES

from ..run_op import TYPES, bind, from_codes, tensor, type_of

INF, NAN = math.inf, math.nan


def of(element: str, values) -> np.ndarray:
    return np.array(values).astype(ELEMENT_TYPES[element].dtype)


def fails(name: str, *arrays: np.ndarray, **attributes) -> str:
    """What a check says, "" if it holds."""
    kernel = bind(name, [type_of(x) for x in arrays], None, **attributes)
    try:
        assert kernel(*arrays) == ()
    except CheckError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_equal_is_equal(element):
    low = 0.5 if element.name == "f8E8M0FNU" else 0  # which has no zero
    x = of(element.name, [[low, 1], [1, low]])
    assert fails("check.expect_eq", x, x.copy()) == ""
    assert fails("check.expect_eq_const", x, value=x.copy()) == ""
    assert "1 of 4 elements" in fails("check.expect_eq", x, of(element.name, [[low, 1], [1, 1]]))
    scalar = of(element.name, 1)
    assert fails("check.expect_eq", scalar, scalar) == ""
    assert fails("check.expect_eq", scalar, of(element.name, low)) != ""


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_minifloat], ids=str)
def test_equality_of_every_pair_of_minifloats(element):
    values = from_codes(np.arange(1 << element.bits), element)
    numbers = values.astype(np.float64)
    for i in range(len(values)):
        expected = int((numbers != numbers[i]).sum())  # NaN is not NaN, and -0 is 0
        message = fails("check.expect_eq", values, np.full_like(values, values[i]))
        assert (f"; {expected} of {len(values)} elements" in message) if expected else not message


def test_nothing_is_equal_to_nothing():
    nothing = np.empty((0, 2), np.float32)
    assert fails("check.expect_eq", nothing, nothing) == ""


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "f8E5M2"])
def test_almost_equal(name):
    x = of(name, [1.0, NAN, INF, -INF, -0.0])
    assert fails("check.expect_almost_eq", x, x.copy()) == ""
    assert fails("check.expect_almost_eq_const", x, value=of(name, [1.0, -NAN, INF, -INF, 0.0])) == ""
    for other in ([1.25, NAN, INF, -INF, 0], [1, 1, INF, -INF, 0], [1, NAN, -INF, -INF, 0], [1, NAN, NAN, -INF, 0]):
        assert "; 1 of 5 elements" in fails("check.expect_almost_eq", x, of(name, other))
    assert fails("check.expect_almost_eq", x, of(name, [1.25, NAN, INF, -INF, 0]), tolerance=0.25) == ""
    largest = of(name, [float(2**15)])
    assert fails("check.expect_almost_eq", largest, of(name, [INF]), tolerance=1e30) != ""


def test_the_default_tolerance():
    five = of("f64", 5.0)
    assert fails("check.expect_almost_eq_const", five, value=of("f64", 5.00009)) == ""
    assert fails("check.expect_almost_eq_const", five, value=of("f64", 5.00011)) != ""


def test_almost_equal_complex_numbers_and_integers():
    z = of("complex<f64>", [1 + 2j])
    assert fails("check.expect_almost_eq", z, z + 0.00005 + 0.00005j) == ""
    assert fails("check.expect_almost_eq", z, z + 0.0002j) != ""
    assert fails("check.expect_almost_eq", of("i64", [2**62]), of("i64", [2**62 + 1])) != ""
    assert fails("check.expect_almost_eq", of("ui8", [3]), of("ui8", [5]), tolerance=2.0) == ""


@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        ("f32", 0x3F800000, 0x3F800003, 3),
        ("f32", 0x00000001, 0x80000001, 2),  # across zero
        ("f32", 0x80000000, 0x00000000, 0),
        ("f32", 0x7F7FFFFF, 0xFF7FFFFF, 2 * 0x7F7FFFFF),
        ("f32", 0x7F800000, 0x7F800000, 0),
        ("f32", 0x7F7FFFFF, 0x7F800000, INFINITELY_FAR),
        ("f32", 0x7F800000, 0xFF800000, INFINITELY_FAR),
        ("f32", 0x7FC00000, 0xFF800001, 0),  # NaN
        ("f32", 0x7FC00000, 0x3F800000, INFINITELY_FAR),
        ("f64", 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 2 * 0x7FEFFFFFFFFFFFFF),  # more than 2**63
        ("bf16", 0x3F80, 0x3F7F, 1),
        ("f8E4M3FN", 0x7E, 0x7D, 1),
        ("f8E4M3FN", 0x7E, 0x7F, INFINITELY_FAR),
        ("f8E4M3FNUZ", 0x01, 0x81, 2),
        ("f8E4M3FNUZ", 0x80, 0x7F, INFINITELY_FAR),
        ("f8E8M0FNU", 0xFE, 0x00, 254),
        ("f8E8M0FNU", 0xFE, 0xFF, INFINITELY_FAR),
        ("f4E2M1FN", 0x7, 0xF, 14),
        ("i64", 2**63, 2**63 - 1, 2**64 - 1),  # the smallest and the largest
        ("ui64", 0, 2**64 - 1, 2**64 - 1),
        ("i4", 0x8, 0x7, 15),
        ("i1", 0, 1, 1),
    ],
)
def test_distance(name, x, y, expected):
    # One by one: a list of both would be cut to f64.
    x, y = (np.array([from_codes(np.array(v, np.uint64), name)]).reshape(1) for v in (x, y))
    assert ulp_distance(x, y).tolist() == ulp_distance(y, x).tolist() == [expected]
    assert int(ulp_distance(x[0, ...], y[0, ...])) == expected


def test_distance_of_complex_numbers():
    step = np.spacing(np.float32(1))
    x = np.array([1 + 1j, 1 + 1j, complex(NAN, 1)], np.complex64)
    y = np.array([1 + (1 + 3 * step) * 1j, 1 + 5 * step + 1j, complex(NAN, 2)], np.complex64)
    assert ulp_distance(x, y).tolist() == [3, 5, 1 << 23]


def test_close():
    one, far = of("f32", [1.0]), from_codes([0x3F800003], "f32")
    assert fails("check.expect_close", one, far, max_ulp_difference=3) == ""
    assert "3 ULP apart (must be 0 to 2 ULP apart)" in fails("check.expect_close", one, far, max_ulp_difference=2)
    message = fails("check.expect_close", one, far, min_ulp_difference=4, max_ulp_difference=9)
    assert "(must be 4 to 9 ULP apart)" in message
    most = 2**64 - 1
    for value in (most, -1):  # as an attribute of a type without a sign it may come either way
        limits = {"min_ulp_difference": value, "max_ulp_difference": value}
        assert fails("check.expect_close", one, of("f32", [NAN]), **limits) == ""
        assert fails("check.expect_close", one, one, **limits) != ""


@pytest.mark.parametrize(
    ("name", "x", "y", "message"),
    [
        (
            "f8E4M3FN",
            [[1, 448], [2, 416]],
            [[1, 416], [2, 448]],
            "element [0, 1]: got 0x7E = 448, expected 0x7D = 416, 1 ULP apart (must be equal); 2 of 4 elements",
        ),
        ("f8E5M2", NAN, 1, "got 0x7E = nan, expected 0x3C = 1, not comparable (must be equal)"),
        ("f8E5M2", NAN, NAN, "got 0x7E = nan, expected 0x7E = nan, NaN equals nothing (must be equal)"),
        ("f4E2M1FN", [0.5], [-0.5], "element [0]: got 0x1 = 0.5, expected 0x9 = -0.5, 2 ULP apart"),
        ("f8E8M0FNU", [2.0**-9], [1], "got 0x76 = 0.001953125, expected 0x7F = 1, 9 ULP apart"),
        ("f32", [0.1], [0.2], "got 0x3DCCCCCD = 0.1, expected 0x3E4CCCCD = 0.2"),
        ("i8", [-3], [4], "got -3, expected 4, 7 apart (must be equal); 1 of 1 elements"),
        ("i1", [True], [False], "got True, expected False"),
        ("complex<f32>", [1 + 2j], [1 - 2j], "got (0x3F800000 = 1, 0x40000000 = 2), expected (0x3F800000 = 1, 0xC0"),
    ],
)
def test_messages(name, x, y, message):
    actual = fails("check.expect_eq", of(name, x), of(name, y))
    assert message in actual
    assert "\n" not in actual


def test_a_shape_that_is_not_expected():
    one, two = np.ones(1, np.float32), np.ones(2, np.float32)
    assert fails("check.expect_eq", one, two) == "shape [1] where [2] is expected"


def test_refused():
    with pytest.raises(OpError, match="expected the same type"):
        bind("check.expect_eq", [tensor("f32", 2), tensor("f16", 2)], None)
    with pytest.raises(OpError, match="expected a constant of element type f16 as value"):
        bind("check.expect_eq_const", [tensor("f16", 2)], None, value=np.ones(2, np.float32))
    with pytest.raises(OpError, match="attribute 'value' is missing"):
        bind("check.expect_eq_const", [tensor("f16", 2)], None)
    with pytest.raises(OpError, match="attribute 'max_ulp_difference' is missing"):
        bind("check.expect_close", [tensor("f16", 2)] * 2, None)


def test_checks_in_a_program():
    text = """
    func.func @main(%x: tensor<2xf8E5M2>) {
      %y = stablehlo.constant dense<[1.0, 1.75]> : tensor<2xf8E5M2>
      check.expect_eq %x, %y : tensor<2xf8E5M2>
      check.expect_eq_const %x, dense<[1.0, 1.75]> : tensor<2xf8E5M2>
      check.expect_almost_eq %x, %y, tolerance = 0.1 : tensor<2xf8E5M2>
      check.expect_almost_eq_const %x, dense<[1.0, 1.5]> : tensor<2xf8E5M2> {tolerance = 0.25 : f64}
      check.expect_close %x, %y, max_ulp_difference = 0 : tensor<2xf8E5M2>, tensor<2xf8E5M2>
      return
    }"""
    assert load(text)(of("f8E5M2", [1, 1.75])) == []
    with pytest.raises(CheckFailure) as caught:
        load(text)(of("f8E5M2", [1, 1.5]))
    assert ":4:" in str(caught.value)
    assert "check.expect_eq: element [1]: got 0x3E = 1.5, expected 0x3F = 1.75, 1 ULP apart" in str(caught.value)


CALL = """
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> RESULT {
  %r = stablehlo.custom_call @TARGET(%x, %y) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> RESULT
  return %r : RESULT
}"""
CALL_WITHOUT_RESULT = """
func.func @main(%x: tensor<2xf32>, %y: tensor<2xf32>) {
  stablehlo.custom_call @TARGET(%x, %y) {has_side_effect = true} : (tensor<2xf32>, tensor<2xf32>) -> ()
  return
}"""


@pytest.mark.parametrize(
    ("name", "near", "far"),
    [
        ("check.expect_eq", 0.0, 2**-23),
        ("check.expect_close", 3 * 2**-23, 4 * 2**-23),
        ("check.expect_almost_eq", 0.0009, 0.0011),
    ],
)
def test_custom_calls_that_check(name, near, far):
    program = load(CALL_WITHOUT_RESULT.replace("TARGET", name))
    x = np.ones(2, np.float32)
    assert program(x, (x + near).astype(np.float32)) == []
    with pytest.raises(CheckFailure, match=r"stablehlo\.custom_call: element \[0\]: got 0x3F800000 = 1, expected"):
        program(x, (x + far).astype(np.float32))


def test_check_eq_gives_true_or_fails():
    program = load(CALL.replace("TARGET", "check.eq").replace("RESULT", "tensor<i1>"))
    x = np.ones(2, np.float32)
    assert program(x, x + np.float32(0.00005))[0] == np.True_
    with pytest.raises(CheckFailure):
        program(x, x + np.float32(0.0002))
    whole = load(CALL.replace("TARGET", "check.eq").replace("RESULT", "tensor<i1>").replace("f32", "i32"))
    assert whole(np.ones(2, np.int32), np.ones(2, np.int32))[0] == np.True_
    with pytest.raises(CheckFailure):
        whole(np.ones(2, np.int32), np.array([1, 2], np.int32))


def test_an_unknown_target():
    with pytest.raises(ProgramError, match="custom_call: expected a known target, got 'nobody'"):
        load(CALL_WITHOUT_RESULT.replace("TARGET", "nobody"))(np.ones(2, np.float32), np.ones(2, np.float32))


def test_a_target_of_ones_own():
    name = f"mine_{uuid.uuid4().hex}"

    @target(name)
    def _(x: np.ndarray, y: np.ndarray, factor: int = 1) -> np.ndarray:
        return x * factor + y if x[0] else x

    with pytest.raises(ValueError, match="declared twice"):
        target(name)(lambda: None)
    text = CALL.replace("TARGET", name).replace("RESULT", "tensor<2xf32>")
    x, y = np.array([1, 2], np.float32), np.array([10, 20], np.float32)
    assert load(text)(x, y)[0].tolist() == [11, 22]
    configured = text.replace("has_side_effect = true", "api_version = 4 : i32, backend_config = {factor = 3 : i32}")
    assert load(configured)(x, y)[0].tolist() == [13, 26]
    with pytest.raises(Exception, match=r"gave an array of float32 \[2\] \(expected tensor<3xf32>\)"):
        load(CALL.replace("TARGET", name).replace("RESULT", "tensor<3xf32>"))(x, y)
    with pytest.raises(Exception, match=r"gave 1 results \(expected 0\)"):
        load(CALL_WITHOUT_RESULT.replace("TARGET", name))(x, y)
