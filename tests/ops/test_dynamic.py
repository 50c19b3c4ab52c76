"""Ops with computed shapes: against numpy and the specification's examples, for several sizes of one program."""

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import ExecutionError
from minihlo.ops.op import Call, OpError, Run, lookup
from minihlo.ops.types import TensorType, element_type

from ..places import padded
from ..run_op import TYPES, codes, from_codes

F8 = np.dtype(ml_dtypes.float8_e4m3fn)


def bind(name: str, operands: list[str], result: str, **attributes: Any) -> Run:
    """The kernel of an op on types such as `?x3xf32`."""
    record = lookup(name)
    assert record is not None
    types = [typed(t) for t in operands]
    return record.function(Call(record.name, tuple(types), (typed(result),), attributes))


def typed(text: str) -> TensorType:
    dims, element = re.fullmatch(r"((?:(?:\d+|\?)x)*)(.*)", text).groups()  # type: ignore[union-attr]
    return TensorType(tuple(None if d == "?" else int(d) for d in dims.split("x")[:-1]), element_type(element))


def ints(*values: int, dtype: str = "i8") -> np.ndarray:
    return np.array(values, dtype)


def same(result: np.ndarray, expected: np.ndarray) -> bool:
    """Type, shape and bits."""
    result = np.asarray(result)
    return (result.dtype, result.shape) == (expected.dtype, expected.shape) and result.tobytes() == expected.tobytes()


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_broadcast_moves_bits(element: Any) -> None:
    x = from_codes([[1, 3, 2]], element) if element.bits <= 64 else np.array([[1, 3j, 2]])
    kernel = bind(
        "dynamic_broadcast_in_dim", [f"1x3x{element}", "3xi64"], f"?x3x?x{element}", broadcast_dimensions=(2, 1)
    )
    for sizes in ((2, 3, 2), (0, 3, 5), (1, 3, 1)):
        assert same(kernel(x, ints(*sizes)), np.broadcast_to(x.reshape(1, 3, 1), sizes))


def test_broadcast_of_unknown_sizes() -> None:
    kernel = bind(
        "dynamic_broadcast_in_dim",
        ["?x?xf32", "2xi32"],
        "?x?xf32",
        broadcast_dimensions=(0, 1),
        known_expanding_dimensions=(0,),
        known_nonexpanding_dimensions=(1,),
    )
    for n in range(20):  # more sizes than kernels are kept for
        x = np.arange(n, dtype=np.float32).reshape(1, n)
        assert same(kernel(x, ints(3, n)), np.broadcast_to(x, (3, n)))
    with pytest.raises(OpError, match="cannot become size 3"):
        kernel(np.ones((2, 2), np.float32), ints(3, 2))
    with pytest.raises(OpError, match="does not fit"):
        kernel(np.ones((2, 2), np.float32), ints(-1, 2))


@pytest.mark.parametrize(
    ("operands", "result", "attributes", "message"),
    [
        (["1x3xf32", "3xi64"], "?x?x?xf64", {}, "expected element type "),
        (["1x3xf32", "3xf32"], "?x?x?xf32", {}, "list of integers"),
        (["1x3xf32", "1x3xi64"], "?x?x?xf32", {}, "list of integers"),
        (["1x3xf32", "3xi64"], "?x?x?xf32", {"known_expanding_dimensions": (2,)}, "from 0 to 1, got"),
        (
            ["1x3xf32", "3xi64"],
            "?x?x?xf32",
            {"known_expanding_dimensions": (0,), "known_nonexpanding_dimensions": (1, 0)},
            "without repetition",
        ),
    ],
)
def test_broadcast_errors(operands: list[str], result: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind("dynamic_broadcast_in_dim", operands, result, broadcast_dimensions=(2, 1), **attributes)


@pytest.mark.parametrize("element", [t for t in TYPES if t.bits > 1], ids=str)
def test_iota(element: Any) -> None:
    kernel = bind("dynamic_iota", ["2xi64"], f"?x?x{element}", iota_dimension=1)
    for rows, columns in ((2, 3), (0, 3), (3, 0), (1, 1), (2, 3)):
        actual = kernel(ints(rows, columns))
        assert (actual.shape, actual.dtype) == ((rows, columns), element.dtype)
        expected = {0: 0, 1: 1, 2: 2 if element.name != "i2" else -2}
        for j in range(columns):
            if (j, element.name) != (0, "f8E8M0FNU"):  # which has no zero
                assert (actual[:, j].astype(complex) == expected[j]).all()


def test_iota_errors() -> None:
    kernel = bind("dynamic_iota", ["2xi64"], "?x3xf32", iota_dimension=0)
    with pytest.raises(OpError, match=r"shape \[2, 4\], which does not fit"):
        kernel(ints(2, 4))
    with pytest.raises(OpError, match="from 0 to "):
        bind("dynamic_iota", ["1xi64"], "?xf32", iota_dimension=1)(ints(2))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u8"])
def test_sizes_may_be_of_any_integer_type(dtype: str) -> None:
    sizes = np.dtype(dtype)
    element = {"i": "i", "u": "ui"}[sizes.kind] + str(8 * sizes.itemsize)
    kernel = bind("dynamic_reshape", ["6xf8E4M3FN", f"2x{element}"], "?x?xf8E4M3FN")
    x = np.arange(6, dtype=np.uint8).view(F8)
    assert same(kernel(x, np.array([2, 3], sizes)), x.reshape(2, 3))
    assert same(kernel(x, np.array([6, 1], sizes)), x.reshape(6, 1))


def test_reshape() -> None:
    kernel = bind("dynamic_reshape", ["?x?xf8E4M3FN", "1xi32"], "?xf8E4M3FN")
    for shape in ((2, 3), (0, 4), (1, 1)):
        x = np.arange(np.prod(shape), dtype=np.uint8).view(F8).reshape(shape)
        assert same(kernel(x, ints(x.size)), x.ravel())
    to_scalar = bind("dynamic_reshape", ["1xf8E4M3FN", "0xi32"], "f8E4M3FN")
    assert to_scalar(np.ones(1, F8), ints(dtype="i4")).shape == ()
    with pytest.raises(OpError, match="does not have the size"):
        kernel(np.ones((2, 3), F8), ints(5))


def test_pad() -> None:
    kernel = bind("dynamic_pad", ["?x?xi16", "i16", *["2xi64"] * 3], "?x?xi16")
    for shape in ((2, 3), (1, 1), (0, 2)):
        x = np.arange(1, 1 + np.prod(shape), dtype=np.int16).reshape(shape)
        for amounts in (((0, 1), (2, 1), (1, 2)), ((0, 0), (0, 0), (0, 0)), ((-1, 2), (3, -1), (0, 1))):
            expected = padded(x, np.array(-7, np.int16), *amounts)
            assert same(kernel(x, np.array(-7, np.int16), *(ints(*a) for a in amounts)), expected)


@pytest.mark.parametrize("element", [t for t in TYPES if t.bits <= 64], ids=str)
def test_pad_moves_bits(element: Any) -> None:
    x, value = from_codes([1, 0, 1], element), from_codes(1, element)
    kernel = bind("dynamic_pad", [f"3x{element}", str(element), *["1xi64"] * 3], f"?x{element}")
    assert (
        codes(kernel(x, value, ints(1), ints(0), ints(1))).tolist()
        == codes(from_codes([1, 1, 1, 0, 1, 1], element)).tolist()
    )


def test_pad_errors() -> None:
    kernel = bind("dynamic_pad", ["?xf32", "f32", *["1xi64"] * 3], "?xf32")
    x, zero = np.ones(3, np.float32), np.zeros((), np.float32)
    with pytest.raises(OpError, match=r"shape \[-1\], which does not fit"):
        kernel(x, zero, ints(-4), ints(0), ints(0))
    with pytest.raises(OpError, match="interior_padding of at least 0"):
        kernel(x, zero, ints(3), ints(0), ints(-1))
    with pytest.raises(OpError, match="expected 1 elements"):
        bind("dynamic_pad", ["?xf32", "f32", "2xi64", "1xi64", "1xi64"], "?xf32")


def test_slice() -> None:
    kernel = bind("real_dynamic_slice", ["?x4xf8E4M3FN", *["2xi32"] * 3], "?x?xf8E4M3FN")
    for rows in (5, 3):
        x = np.arange(4 * rows, dtype=np.uint8).view(F8).reshape(rows, 4)
        for start, limit, stride in (((0, 0), (rows, 4), (1, 1)), ((1, 0), (3, 4), (2, 3)), ((2, 4), (2, 4), (1, 9))):
            expected = x[start[0] : limit[0] : stride[0], start[1] : limit[1] : stride[1]]
            assert same(kernel(x, ints(*start), ints(*limit), ints(*stride)), expected)


@pytest.mark.parametrize(
    ("start", "limit", "stride"), [(-1, 2, 1), (0, 6, 1), (3, 2, 1), (0, 2, 0), (2, 0, -1), (6, 6, 1)]
)
def test_slice_errors(start: int, limit: int, stride: int) -> None:
    kernel = bind("real_dynamic_slice", ["?xf32", *["1xi32"] * 3], "?xf32")
    with pytest.raises(OpError):
        kernel(np.ones(5, np.float32), ints(start), ints(limit), ints(stride))


def test_slice_must_have_the_size_of_the_result() -> None:
    kernel = bind("real_dynamic_slice", ["5xf32", *["1xi32"] * 3], "2xf32")
    assert kernel(np.arange(5.0, dtype=np.float32), ints(1), ints(3), ints(1)).tolist() == [1, 2]
    with pytest.raises(OpError, match=r"shape \[3\], which does not fit tensor<2xf32>"):
        kernel(np.ones(5, np.float32), ints(1), ints(4), ints(1))


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_get_dimension_size(element: Any) -> None:
    x = np.zeros((2, 0, 5), element.dtype)
    for types in (f"2x0x5x{element}", f"?x?x?x{element}"):
        for d in range(3):
            actual = bind("get_dimension_size", [types], "i32", dimension=d)(x)
            assert (actual, actual.dtype, actual.shape) == (x.shape[d], np.int32, ())


def test_set_dimension_size() -> None:
    x = np.arange(6, dtype=np.uint8).view(F8).reshape(2, 3)
    kernel = bind("set_dimension_size", ["2x3xf8E4M3FN", "i32"], "2x?xf8E4M3FN", dimension=1)
    for n in range(4):
        assert same(kernel(x, np.int32(n)), x[:, :n])
    for n in (-1, 4):
        with pytest.raises(OpError, match="expected from 0 to 3"):
            kernel(x, np.int32(n))
    static = bind("set_dimension_size", ["2x3xf8E4M3FN", "i32"], "2x3xf8E4M3FN", dimension=0)
    assert same(static(x, np.int32(2)), x)
    with pytest.raises(OpError, match="size 1 does not fit the result"):
        static(x, np.int32(1))


@pytest.mark.parametrize(
    ("name", "operands", "result", "dimension", "message"),
    [
        ("get_dimension_size", ["2xf32"], "i32", 1, "from 0 to "),
        ("get_dimension_size", ["f32"], "i32", 0, "from 0 to "),
        ("get_dimension_size", ["2xf32"], "i64", 0, "expected tensor<i32>"),
        ("set_dimension_size", ["2xf32", "i32"], "?xf32", -1, "from 0 to "),
        ("set_dimension_size", ["2xf32", "1xi32"], "?xf32", 0, "scalar integer"),
        ("set_dimension_size", ["2xf32", "i32"], "?xf64", 0, "expected element type "),
        ("set_dimension_size", ["2x3xf32", "i32"], "?x4xf32", 0, "shape"),
    ],
)
def test_size_errors(name: str, operands: list[str], result: str, dimension: int, message: str) -> None:
    with pytest.raises(OpError, match=message):
        bind(name, operands, result, dimension=dimension)


def test_errors_tell_the_place() -> None:
    program = interp.load("""func.func @main(%x: tensor<?xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
      %r = stablehlo.dynamic_reshape %x, %n : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
      return %r : tensor<?xf32>
    }""")
    with pytest.raises(
        ExecutionError, match=r":2:\d+: stablehlo.dynamic_reshape: tensor<3xf32> does not have the size"
    ):
        program(np.ones(3, np.float32), np.array([4], np.int32))
