"""Programs as other makers write them: MHLO, CHLO's ops as custom calls, Shardy's ops, GSPMD, several modules."""

import io
from typing import Any

import numpy as np
import pytest

from minihlo.interp import ExecutionError, InputError, ProgramError, load
from minihlo.interp.parse import parser

X = np.array([0.5, -1, 2, 0.5], np.float32)


def run(text: str | bytes, *arrays: Any, function: str | None = None) -> list[Any]:
    return [r.tolist() for r in load(text)(*arrays, function=function)]


def of_one(line: str, results: str = "tensor<4xf32>") -> str:
    returned = ", ".join(f"%0#{i}" for i in range(results.count("tensor")))
    return f"func.func @main(%x: tensor<4xf32>) -> ({results}) {{\n {line}\n return {returned} : {results}\n}}"


# Values of mpmath to 30 digits, rounded to f32.
ERF = [0.5204998850822449, -0.842700779438019, 0.9953222870826721, 0.5204998850822449]
TAN = [0.5463024973869324, -1.5574077367782593, -2.185039758682251, 0.5463024973869324]


@pytest.mark.parametrize(("name", "expected"), [("erf", ERF), ("tan", TAN), ("square", [0.25, 1, 4, 0.25])])
@pytest.mark.parametrize("dialect", ["mhlo", "chlo"])
def test_functions_as_custom_calls(dialect: str, name: str, expected: list[float]) -> None:
    line = (
        f"%0 = stablehlo.custom_call @{dialect}.{name}(%x) {{{dialect}.attributes = {{}}, {dialect}.version = 1 : i64}}"
    )
    (actual,) = run(of_one(f"{line} : (tensor<4xf32>) -> tensor<4xf32>"), X)
    np.testing.assert_allclose(actual, expected, 1.2e-7)


@pytest.mark.parametrize(("largest", "expected"), [("true", [[2, 0.5], [2, 0]]), ("false", [[-1, 0.5], [1, 0]])])
@pytest.mark.parametrize(
    "line",
    [
        "%0:2 = stablehlo.custom_call @mhlo.topk(%x) {{mhlo.attributes = {{k = 2 : i64, largest = {0}}}}} : "
        "(tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)",
        "%0:2 = mhlo.topk(%x, k = 2, largest = {0}) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)",
    ],
)
def test_top_k(line: str, largest: str, expected: list[Any]) -> None:
    """Of equal elements the first one counts."""
    assert run(of_one(line.format(largest), "tensor<2xf32>, tensor<2xi32>"), X) == expected


def test_a_custom_call_that_stands_for_no_op() -> None:
    call = "stablehlo.custom_call @mhlo.nothing(%x) : (tensor<4xf32>) -> tensor<4xf32>"
    with pytest.raises(ProgramError, match=r"got 'mhlo\.nothing'"):
        run(of_one(f"%0 = {call}"), X)


@pytest.mark.parametrize(
    ("line", "result", "expected"),
    [
        ("%0 = mhlo.negate %x : tensor<4xf32>", "tensor<4xf32>", [-0.5, 1, -2, -0.5]),
        ("%0 = mhlo.erf %x : tensor<4xf32>", "tensor<4xf32>", ERF),
        ("%0 = mhlo.copy %x : tensor<4xf32>", "tensor<4xf32>", [0.5, -1, 2, 0.5]),
        (
            "%c = mhlo.constant dense<0.0> : tensor<f32>\n %0 = mhlo.reduce(%x init: %c) applies mhlo.add across "
            "dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>",
            "tensor<f32>",
            2,
        ),
        (
            '%0 = "mhlo.dot_general"(%x, %x) {dot_dimension_numbers = #mhlo.dot<lhs_contracting_dimensions = [0], '
            "rhs_contracting_dimensions = [0]>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>",
            "tensor<f32>",
            5.5,
        ),
        (
            '%0 = "mhlo.fusion"(%x) ({ ^bb0(%a: tensor<4xf32>): %b = mhlo.add %a, %a : tensor<4xf32>\n mhlo.return %b '
            ": tensor<4xf32> }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<4xf32>) -> tensor<4xf32>",
            "tensor<4xf32>",
            [1, -2, 4, 1],
        ),
        (
            '%0 = "mhlo.fusion"(%x) ({ %b = mhlo.add %x, %x : tensor<4xf32>\n mhlo.return %b '
            ": tensor<4xf32> }) {fusion_kind = #mhlo<fusion_kind kLoop>} : (tensor<4xf32>) -> tensor<4xf32>",
            "tensor<4xf32>",
            [1, -2, 4, 1],
        ),
        (
            "%t = mhlo.create_token : !mhlo.token\n "
            "%0 = mhlo.add_dependency %x, %t : (tensor<4xf32>, !mhlo.token) -> tensor<4xf32>",
            "tensor<4xf32>",
            [0.5, -1, 2, 0.5],
        ),
    ],
)
def test_mhlo(line: str, result: str, expected: Any) -> None:
    text = of_one(line, result)
    np.testing.assert_allclose(run(text, X)[0], expected, 1.2e-7)
    module, data = parser.module(text), io.BytesIO()
    module.operation.write_bytecode(data)
    before = str(module)
    for source in (module, data.getvalue()):
        np.testing.assert_allclose(load(source)(X)[0], expected, 1.2e-7)
    assert str(module) == before  # a module of the caller's stays as it is


def test_mhlo_that_cannot_be_converted() -> None:
    with pytest.raises(ProgramError, match=r":2:\d+: mhlo\.bitcast: this op of MHLO has no counterpart in StableHLO"):
        run(of_one("%0 = mhlo.bitcast %x : (tensor<4xf32>) -> tensor<8xf16>", "tensor<8xf16>"), X)


@pytest.mark.parametrize(
    "line",
    [
        "sdy.constant dense<1.5> : tensor<4xf32>",
        'sdy.all_gather [{"x"}] %cut out_sharding=<@mesh, [{}]> : tensor<4xf32>',
        'sdy.all_slice [{"x"}] %x out_sharding=<@mesh, [{"x"}]> : tensor<4xf32>',
        'sdy.all_reduce {"x"} %x out_sharding=<@mesh, [{}]> : tensor<4xf32>',
        'sdy.collective_permute %cut out_sharding=<@mesh, [{"x"}]> : tensor<4xf32>',
        'sdy.reduce_scatter [{"x"}] %x out_sharding=<@mesh, [{"x"}]> : tensor<4xf32>',
        'sdy.named_computation<"f">(%x) (%a: tensor<4xf32>) {\n sdy.return %a : tensor<4xf32>\n } : '
        "(tensor<4xf32>) -> tensor<4xf32>",
    ],
)
def test_ops_of_shardy_on_whole_values(line: str) -> None:
    body = of_one('%cut = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<4xf32>\n %0 = ' + line)
    text = f'module {{\n sdy.mesh @mesh = <["x"=2]>\n{body}}}'
    assert run(text, X) == [[1.5] * 4 if "constant" in line else X.tolist()]


GSPMD = """module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<4x2xf32>) -> (tensor<2x2xf32>, tensor<4xui32>, tensor<4x2xf32>) {
    %0 = stablehlo.custom_call @Sharding(%x) {mhlo.sharding = "DEVICES"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.custom_call @SPMDFullToShardShape(%0) {mhlo.sharding = "{manual}"} :
      (tensor<4x2xf32>) -> tensor<2x2xf32>
    %2 = "stablehlo.all_reduce"(%1) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids,
      channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %4 = stablehlo.custom_call @SPMDShardToFullShape(%2) {mhlo.sharding = "{replicated}"} :
      (tensor<2x2xf32>) -> tensor<2x2xf32>
    %5 = func.call @number() : () -> tensor<2xui32>
    %6 = stablehlo.custom_call @SPMDShardToFullShape(%5) {mhlo.sharding = "DEVICES_OF_VECTORS"} :
      (tensor<2xui32>) -> tensor<4xui32>
    %7 = stablehlo.concatenate %4, %4, dim = 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
    %8 = stablehlo.custom_call @Sharding(%7) {mhlo.sharding = "DEVICES"} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %9 = stablehlo.custom_call @SPMDFullToShardShape(%8) {mhlo.sharding = "{manual}"} :
      (tensor<4x2xf32>) -> tensor<2x2xf32>
    %10 = stablehlo.subtract %9, %1 : tensor<2x2xf32>
    %11 = stablehlo.custom_call @SPMDShardToFullShape(%10) {mhlo.sharding = "DEVICES"} :
      (tensor<2x2xf32>) -> tensor<4x2xf32>
    return %4, %6, %11 : tensor<2x2xf32>, tensor<4xui32>, tensor<4x2xf32>
  }
  func.func private @number() -> tensor<2xui32> {
    %0 = stablehlo.partition_id : tensor<ui32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<2xui32>
    return %1 : tensor<2xui32>
  }
}"""


@pytest.mark.parametrize(
    ("matrices", "vectors", "numbers"),
    [
        ("{devices=[2,1]<=[2]}", "{devices=[2]<=[2]}", [0, 0, 1, 1]),
        ("{devices=[2,1]1,0}", "{devices=[2]1,0}", [1, 1, 0, 0]),
        (
            "{devices=[2,1,1]<=[2] last_tile_dims={replicated}}",
            "{devices=[2,1]<=[2] last_tile_dim_replicate}",
            [0, 0, 1, 1],
        ),
    ],
)
def test_gspmd(matrices: str, vectors: str, numbers: list[int]) -> None:
    """Rows 0 and 1 plus rows 2 and 3; the number of each device; and a second group, which shares a part."""
    text = GSPMD.replace("DEVICES_OF_VECTORS", vectors).replace("DEVICES", matrices)
    x = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    total = [[6, 8], [10, 12]]
    assert run(text, x) == [total, numbers, (np.array([*total, *total]) - x).tolist()]


def test_shardings_that_do_not_fit() -> None:
    x = np.zeros((4, 2), np.float32)
    with pytest.raises(ProgramError, match=r"custom_call: expected a part of shape \[4, 1\] by"):
        run(GSPMD.replace("DEVICES_OF_VECTORS", "{devices=[2]<=[2]}").replace("DEVICES", "{devices=[1,2]<=[2]}"), x)
    with pytest.raises(ProgramError, match=r"expected an mhlo\.sharding of 2 devices"):
        run(GSPMD.replace("DEVICES_OF_VECTORS", "{devices=[4]<=[4]}").replace("DEVICES", "{devices=[4,1]<=[4]}"), x)


MODULES = """module @outer {
  func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
    %1 = func.call @f(%0) : (tensor<f32>) -> tensor<f32>
    return %0, %1 : tensor<f32>, tensor<f32>
  }
  func.func private @f(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %x, %x : tensor<f32>
    return %0 : tensor<f32>
  }
  module @inner attributes {mhlo.num_replicas = 1 : i32} {
    func.func @g(%x: tensor<f32>) -> tensor<f32> {
      %0 = func.call @f(%x) : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @f(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.negate %x : tensor<f32>
      return %0 : tensor<f32>
    }
  }
}"""


def test_modules() -> None:
    """A name that two modules have is written with that of the module; a call means the function of its own module."""
    one = np.float32(1)
    assert run(MODULES, one) == [2, 4]
    assert run(MODULES, one, function="g") == [-1]
    assert run(MODULES, one, function="inner::f") == [-1]
    assert run(MODULES, one, function="f") == [2]
    two = "module { func.func @a() {return} }\nmodule { func.func @b() {return} }"
    assert run(two, function="a") == []
    with pytest.raises(InputError, match=r"there is @a, @b"):
        run(two)
    same = "module @p { func.func @a() {return} }\nmodule { func.func @a() {return} }"
    with pytest.raises(InputError, match=r"there is @p::a, @module1::a"):
        run(same)


def test_parts_that_are_returned() -> None:
    """torch_xla returns what is the same on each device without making it whole."""
    text = GSPMD.replace("DEVICES_OF_VECTORS", "{devices=[2]<=[2]}").replace("DEVICES", "{devices=[2,1]<=[2]}")
    text = text.replace("return %4, %6, %11 :", "return %2, %6, %11 :")
    x = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
    assert run(text, x)[0] == [[6, 8], [10, 12]]
    text = text.replace("return %2,", "return %1,")
    with pytest.raises(ExecutionError, match="devices 0 and 1 have different values"):
        run(text, x)


def test_top_k_of_xla() -> None:
    """TopK with a comparator, and results as a tuple."""
    text = """func.func private @gt(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>) -> tensor<i1> {
      %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      return %0 : tensor<i1>
    }
    func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>) {
      %0 = stablehlo.custom_call @TopK(%x) {called_computations = [@gt]} :
        (tensor<2x4xf32>) -> tuple<tensor<2x2xf32>, tensor<2x2xi32>>
      %1 = stablehlo.get_tuple_element %0[0] : (tuple<tensor<2x2xf32>, tensor<2x2xi32>>) -> tensor<2x2xf32>
      %2 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2x2xf32>, tensor<2x2xi32>>) -> tensor<2x2xi32>
      return %1, %2 : tensor<2x2xf32>, tensor<2x2xi32>
    }"""
    x = np.array([[1, 3, 2, 3], [0, -1, 5, 4]], np.float32)
    assert run(text, x) == [[[3, 3], [5, 4]], [[1, 3], [2, 3]]]


def test_marks_of_memory() -> None:
    for name in ("MoveToHost", "MoveToDevice", "InspectSharding"):
        call = f"stablehlo.custom_call @{name}(%x) : (tensor<4xf32>) -> tensor<4xf32>"
        assert run(of_one(f"%0 = {call}"), X) == [X.tolist()]
