"""What each kind of MLIR attribute and type becomes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.errors import ProgramError
from minihlo.interp.parse.attributes import Opaque
from minihlo.interp.parse.parser import parse
from minihlo.ops.types import ELEMENT_TYPES, TensorType, TokenType, TupleType

from ..jaxlib_versions import since_0_10


def read(text: str, after: str = "") -> Any:
    """The value of one attribute."""
    program = parse(f'func.func @f() {{ "a.b"() {{x = {text}}} : () -> () return }} {after}')
    body = program.functions["f"].body
    assert body is not None
    return body.operations[0].attributes["x"]


def dense(body: str, t: str) -> np.ndarray:
    value = read(f"dense<{body}> : {t}")
    assert isinstance(value, np.ndarray)
    assert not value.flags.writeable
    return value


def types(text: str) -> tuple:
    return parse(f"func.func private @f({text})").functions["f"].argument_types


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3 : i64", 3),
        ("-1 : i8", -1),
        ("200 : ui8", 200),
        ("18446744073709551615 : ui64", 2**64 - 1),
        ("5 : index", 5),
        ("true", True),
        ("1.5 : f32", 1.5),
        ("0.1 : f64", 0.1),
        ("-0.5 : f8E4M3FN", -0.5),
        ('"a \\22b\\22"', 'a "b"'),
        ('"\\C3\\A9"', "é"),
        ('"\\FF"', "\\xff"),  # not UTF-8
        ("@name", "name"),
        ("@outer::@inner", "outer::inner"),
        ('[1, "a", [2]]', (1, "a", (2,))),
        ("array<i64: 1, -2>", (1, -2)),
        ("array<i1: true, false>", (True, False)),
        ("array<f32: 0.5>", (0.5,)),
        ("array<i32>", ()),
        ("{a = 1, b = {c}}", {"a": 1, "b": {"c": True}}),
        ("unit", True),
        ("tensor<2x?xf32>", TensorType((2, None), ELEMENT_TYPES["f32"])),
        ("f8E5M2", ELEMENT_TYPES["f8E5M2"]),
        ("!stablehlo.token", TokenType()),
        ("#stablehlo<comparison_direction LT>", "LT"),
        ("#stablehlo<precision HIGHEST>", "HIGHEST"),
        ("#stablehlo<transpose ADJOINT>", "ADJOINT"),
        ("#chlo<comparison_type TOTALORDER>", "TOTALORDER"),
        ("#other.thing<1>", Opaque("#other.thing<1>")),
        ("affine_map<(d0) -> (d0)>", Opaque("affine_map<(d0) -> (d0)>")),
        ("() -> f32", Opaque("() -> f32")),
    ],
)
def test_plain(text: str, value: Any) -> None:
    actual = read(text)
    assert actual == value
    assert type(actual) is type(value)


@pytest.mark.parametrize(
    ("text", "fields", "values"),
    [
        (
            "#stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>",
            "lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions rhs_contracting_dimensions",
            ((), (), (1,), (0,)),
        ),
        (
            "#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[f, 1, 0, b]>",
            "input_batch_dimension input_feature_dimension input_spatial_dimensions "
            "kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions "
            "output_batch_dimension output_feature_dimension output_spatial_dimensions",
            (0, 3, (1, 2), 2, 3, (0, 1), 3, 0, (2, 1)),
        ),
        (
            "#stablehlo.gather<offset_dims = [2], start_index_map = [0, 1], index_vector_dim = 2>",
            "offset_dims collapsed_slice_dims operand_batching_dims start_indices_batching_dims start_index_map "
            "index_vector_dim",
            ((2,), (), (), (), (0, 1), 2),
        ),
        (
            "#stablehlo.scatter<update_window_dims = [2], scatter_dims_to_operand_dims = [1, 0]>",
            "update_window_dims inserted_window_dims input_batching_dims scatter_indices_batching_dims "
            "scatter_dims_to_operand_dims index_vector_dim",
            ((2,), (), (), (), (1, 0), 0),
        ),
        (
            "#stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, "
            "lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 3, "
            "allow_imprecise_accumulation = false>",
            "lhs_precision_type rhs_precision_type accumulation_type lhs_component_count rhs_component_count "
            "num_primitive_operations allow_imprecise_accumulation",
            ("tf32", "tf32", "f32", 1, 1, 3, False),
        ),
        ("#stablehlo.channel_handle<handle = 1, type = 2>", "handle type", (1, 2)),
        (
            "#stablehlo.output_operand_alias<output_tuple_indices = [0], operand_index = 1, "
            "operand_tuple_indices = []>",
            "output_tuple_indices operand_index operand_tuple_indices",
            ((0,), 1, ()),
        ),
        (
            "#stablehlo.result_accuracy<ulps = 10, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>",
            "atol rtol ulps mode",
            (0.0, 0.0, 10, "TOLERANCE"),
        ),
    ],
    ids=lambda x: x.partition("<")[0] if isinstance(x, str) and x[0] == "#" else "",
)
def test_structures_have_every_field(text: str, fields: str, values: tuple) -> None:
    assert read(text) == dict(zip(fields.split(), values, strict=True))


@since_0_10
def test_replica_groups_of_a_mesh() -> None:
    mesh = '#stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 4>]>'
    axis = '#stablehlo.axis_ref<name = "x", sub_axis_info = (1)2>'
    assert read(f"#stablehlo.replica_group_mesh_axes<mesh = {mesh}, axes = [{axis}]>") == {
        "mesh": {"axes": ({"name": "x", "size": 4},), "device_ids": None},
        "axes": ({"name": "x", "sub_axis_info": {"pre_size": 1, "size": 2}},),
    }


FLOATS = [t for t in ELEMENT_TYPES.values() if t.is_float and t.bits <= 16 and t.has_dtype]


@pytest.mark.parametrize("t", FLOATS, ids=str)
def test_every_code_of_small_floats_comes_through(t: Any) -> None:
    codes = np.arange(1 << t.bits).astype(t.format.code_dtype)
    for start in range(0, len(codes), 64 if t.bits <= 8 else 512):  # few: MLIR prints decimals, and hex for NaN
        part = codes[start : start + 64]
        actual = dense(f'"0x{part.astype(part.dtype.newbyteorder("<")).tobytes().hex()}"', f"tensor<{len(part)}x{t}>")
        assert actual.dtype == t.dtype
        np.testing.assert_array_equal(actual.view(codes.dtype), part)
    actual = dense(f'"0x{codes.tobytes().hex() * 8}"', f"tensor<{len(codes) * 8}x{t}>")  # as hex
    np.testing.assert_array_equal(actual.view(codes.dtype), np.tile(codes, 8))


@pytest.mark.parametrize(
    ("body", "t", "codes"),
    [
        ("[1.0, -0.0, 448.0, 0x7F]", "tensor<4xf8E4M3FN>", [0x38, 0x80, 0x7E, 0x7F]),
        ("[1.0, 240.0, 0x80]", "tensor<3xf8E4M3FNUZ>", [0x40, 0x7F, 0x80]),  # bias 8, not 7
        ("[1.0, 0x7C, 0xFC, 0x7E]", "tensor<4xf8E5M2>", [0x3C, 0x7C, 0xFC, 0x7E]),
        ("[1.0, -6.0]", "tensor<2xf4E2M1FN>", [0x2, 0xF]),
        ("[7.5, 0.125]", "tensor<2xf6E2M3FN>", [0x1F, 0x01]),
        ("[28.0, 0.0625]", "tensor<2xf6E3M2FN>", [0x1F, 0x01]),
        ("[1.0, 2.0, 0xFF]", "tensor<3xf8E8M0FNU>", [0x7F, 0x80, 0xFF]),
        ("[1.0, 0x7FC1]", "tensor<2xbf16>", [0x3F80, 0x7FC1]),
        ("[1.0, 0x7E01]", "tensor<2xf16>", [0x3C00, 0x7E01]),
        ("[1.0, -0.0, 0x7FC00001, 0xFF800001]", "tensor<4xf32>", [0x3F800000, 0x80000000, 0x7FC00001, 0xFF800001]),
        ("[1.0, 5.0e-324, 0x7FF0000000000001]", "tensor<3xf64>", [0x3FF0000000000000, 1, 0x7FF0000000000001]),
    ],
)
def test_floats_by_their_codes(body: str, t: str, codes: list[int]) -> None:
    actual = dense(body, t)
    assert actual.view(f"u{actual.itemsize}").tolist() == codes


@pytest.mark.parametrize(
    ("body", "t", "dtype", "values"),
    [
        ("[true, false]", "tensor<2xi1>", bool, [True, False]),
        ("[1, -2, -1, 0]", "tensor<4xi2>", ml_dtypes.int2, [1, -2, -1, 0]),
        ("[7, -8, -1]", "tensor<3xi4>", ml_dtypes.int4, [7, -8, -1]),
        ("[3, 0]", "tensor<2xui2>", ml_dtypes.uint2, [3, 0]),
        ("[15, 8]", "tensor<2xui4>", ml_dtypes.uint4, [15, 8]),
        ("[255, 0]", "tensor<2xui8>", np.uint8, [255, 0]),
        ("[-9223372036854775808, 1]", "tensor<2xi64>", np.int64, [-(2**63), 1]),
        ("[18446744073709551615, 1]", "tensor<2xui64>", np.uint64, [2**64 - 1, 1]),
    ],
)
@pytest.mark.parametrize("times", [1, 100], ids=["decimal", "hex"])
def test_integers(body: str, t: str, dtype: Any, values: list[int], times: int) -> None:
    body = ", ".join([body.strip("[]")] * times)
    actual = dense(f"[{body}]", t.replace(str(len(values)), str(len(values) * times), 1))
    assert actual.dtype == dtype
    assert actual.astype(object).tolist() == values * times


@pytest.mark.parametrize("times", [1, 50], ids=["decimal", "hex"])
def test_complex_numbers(times: int) -> None:
    body = ", ".join(["(1.5, -0.0), (0x7FC00001, 0xFF800000)"] * times)
    actual = dense(f"[{body}]", f"tensor<{2 * times}xcomplex<f32>>")
    assert actual.dtype == np.complex64
    assert actual.view("u4").tolist() == [0x3FC00000, 0x80000000, 0x7FC00001, 0xFF800000] * times
    actual = dense("[[(0.1, 5.0e-324)], [(-1.0, 0.0)]]", "tensor<2x1xcomplex<f64>>")
    assert actual.tolist() == [[complex(0.1, 5e-324)], [complex(-1, 0)]]


def test_a_complex_constant_is_found_among_other_attributes() -> None:
    other = '"x = dense<(9.0, 9.0)> : tensor<complex<f32>>"'
    value = read(f'dense<(1.0, 2.0)> : tensor<complex<f32>>, a = {other}, "x = " = 1, z = [1, {{x = 2}}]')
    assert value.tolist() == 1 + 2j


@pytest.mark.parametrize("t", ["i1", "i4", "f32", "bf16", "f8E4M3FN", "complex<f32>"])
def test_a_splat_takes_the_memory_of_one_element(t: str) -> None:
    one = {"i1": "true", "i4": "1", "complex<f32>": "(1.0, 0.0)"}.get(t, "1.0")
    actual = dense(one, f"tensor<1000000x1000000x{t}>")
    assert actual.shape == (1000000, 1000000)
    assert actual.strides == (0, 0)
    assert actual[3, 4] == 1
    assert dense(one, f"tensor<{t}>").shape == ()
    assert dense("", f"tensor<2x0x{t}>").shape == (2, 0)


def test_a_splat_of_a_nan_keeps_its_payload() -> None:
    assert dense("0x7FC00123", "tensor<3xf32>").copy().view("u4").tolist() == [0x7FC00123] * 3
    assert dense("0xFF", "tensor<3xf8E4M3FN>").copy().view("u1").tolist() == [0xFF] * 3


def test_resources() -> None:
    blobs = '{-# dialect_resources: {builtin: {a: "0x040000000000803F00000040", "b 2": "0x01000000FF02"}} #-}'
    assert read("dense_resource<a> : tensor<2xf32>", blobs).tolist() == [1, 2]
    assert read('dense_resource<"b 2"> : tensor<2x1xi8>', blobs).tolist() == [[-1], [2]]
    with pytest.raises(ProgramError, match="expected its data in the program"):
        read("dense_resource<c> : tensor<2xf32>", blobs)
    with pytest.raises(ProgramError, match="expected 12 bytes for tensor<3xf32>, got 8"):
        read("dense_resource<a> : tensor<3xf32>", blobs)


def test_types_of_values() -> None:
    f8, i32 = ELEMENT_TYPES["f8E4M3FN"], ELEMENT_TYPES["i32"]
    assert types("tensor<2x?xf8E4M3FN>, !stablehlo.token, tuple<tensor<i32>, tuple<>>") == (
        TensorType((2, None), f8),
        TokenType(),
        TupleType((TensorType((), i32), TupleType(()))),
    )
    for name, t in ELEMENT_TYPES.items():
        assert types(f"tensor<0x3x{name}>") == (TensorType((0, 3), t),)


def test_types_of_sizes_are_integers() -> None:
    i64, i32 = ELEMENT_TYPES["i64"], ELEMENT_TYPES["i32"]
    assert types("index, !shape.size, tensor<?x2xindex>, i32") == (
        TensorType((), i64),
        TensorType((), i64),
        TensorType((None, 2), i64),
        TensorType((), i32),
    )
    assert types("!shape.shape, !shape.witness") == (TensorType((None,), i64), TensorType((), ELEMENT_TYPES["i1"]))


def test_bounds_of_sizes() -> None:
    (t,) = types("tensor<?x4x?xf32, #stablehlo.bounds<5, ?, ?>>")
    assert isinstance(t, TensorType)
    assert (t.shape, t.bounds) == ((None, 4, None), (5, None, None))
    assert str(t) == "tensor<?x4x?xf32, #stablehlo.bounds<5, ?, ?>>"
    assert t == TensorType((None, 4, None), ELEMENT_TYPES["f32"])  # bounds limit a value; they do not make a new type
    assert [t.admits(shape) for shape in ((5, 4, 9), (6, 4, 9), (5, 3, 9), (5, 4), (None, 4, None))] == [
        *(True, False, False, False, True)
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memref<2xf32>", "type memref<2xf32> is not supported"),
        ("tensor<*xf32>", r"type tensor<\*xf32> is not supported"),
        ("tensor<2xf80>", "type tensor<2xf80> is not supported: f80 is not an element type"),
        ("tensor<2xf32, 7 : i32>", "expected bounds as its encoding, got 7 : i32"),
        ("!other.thing", "type !other.thing is not supported"),
    ],
)
def test_other_types_are_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(ProgramError, match=f"^<string>:1:1: func.func: .*{message}"):
        types(text)
