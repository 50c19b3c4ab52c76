"""Fused groups as keys of tables, and how each operation runs and why."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.interp.compile.choose import choose, why_alone
from minihlo.interp.compile.executors.ways import EXECUTORS
from minihlo.interp.compile.group import GROUP, Attributes, Group, Lookup, Step
from minihlo.ops.engine.compiled import is_available
from minihlo.ops.engine.speed import DEFAULT, NONE, Speed

from ..conftest import Tune, tuned
from .passes_cases import NUMPY, F, V, fused, region_of

# -- groups as keys ----------------------------------------------------------------------------------------------------


def group_of(shape: str, op: str = "multiply", number: str = "2.0") -> Group:
    v = f"tensor<{shape}xf8E4M3FN>"
    body = f"""
      %c = stablehlo.constant dense<{number}> : {v}
      %e = stablehlo.exponential %x : {v}
      %r = stablehlo.{op} %e, %c : {v}"""
    return fused(body, f"%x: {v}", "%r", v).operations[-1].attributes["group"]


def test_groups_are_keys() -> None:
    group = group_of("300")
    assert (group, hash(group)) == (group_of("300"), hash(group_of("300")))
    other = group_of("5x6")
    assert group != other
    assert (group.function, hash(group.function)) == (other.function, hash(other.function))
    unlike = [group_of("300", "add"), group_of("300", number="0.0"), group_of("300", number="-0.0")]
    assert len({group.function, *(g.function for g in unlike)}) == 4
    with pytest.raises(dataclasses.FrozenInstanceError):
        group.shape = (2,)  # type: ignore[misc]


def test_attributes_tell_groups_apart() -> None:
    def comparing(direction: str) -> Step | Lookup:
        body = f"""
          %p = stablehlo.compare {direction}, %x, %y : ({V}, {V}) -> tensor<4x300xi1>
          %r = stablehlo.select %p, %x, %y : tensor<4x300xi1>, {V}"""
        return fused(body, f"%x: {V}, %y: {V}", "%r", V).operations[-1].attributes["group"].function.steps[0]

    assert comparing("LT") == comparing("LT") != comparing("GT")


def test_arrays_in_attributes_are_compared_by_their_bits() -> None:
    def key(*numbers: float) -> Attributes:
        return Attributes({"value": np.array(numbers, np.float32)})

    assert (key(1, np.nan), hash(key(1, np.nan))) == (key(1, np.nan), hash(key(1, np.nan)))
    assert len({key(0.0), key(-0.0), key(0.0, 0.0), Attributes({}), Attributes({"value": 0.0})}) == 5


# -- choose ------------------------------------------------------------------------------------------------------------


def decided(body: str, arguments: str, returns: str, types: str, speed: Speed = NUMPY) -> list[tuple[str, str]]:
    operations = [o for o in fused(body, arguments, returns, types, speed).operations if o.name == GROUP]
    decisions = [choose(operation, speed) for operation in operations]
    assert {d.executor for decision in decisions for d in decision.chain()} <= set(EXECUTORS)
    return [(decision.executor, decision.reason) for decision in decisions]


def affine(shape: str, scale: str, dims: str) -> tuple[str, str, str, str]:
    v, w, s = f"tensor<{shape}xf8E5M2>", f"tensor<{shape}xf32>", f"tensor<{scale}xf32>"
    body = f"""
      %w = stablehlo.convert %x : ({v}) -> {w}
      %b = stablehlo.broadcast_in_dim %s, dims = [{dims}] : ({s}) -> {w}
      %m = stablehlo.multiply %w, %b : {w}
      %r = stablehlo.convert %m : ({w}) -> {v}"""
    return body, f"%x: {v}, %s: {s}", "%r", v


def test_a_table_of_pairs() -> None:
    v = "tensor<1000000xf8E4M3FN>"
    body = f"%a = stablehlo.add %x, %y : {v}\n%r = stablehlo.tanh %a : {v}"
    wanted = "table of 65,536 entries: two f8E4M3FN inputs, 1,000,000 elements"
    assert decided(body, f"%x: {v}, %y: {v}", "%r", v) == [("table", wanted)]
    narrow = body.replace("f8E4M3FN", "f4E2M1FN").replace("%x, %y", "%x, %x")
    (one,) = decided(narrow, f"%x: {v}".replace("f8E4M3FN", "f4E2M1FN"), "%r", v.replace("f8E4M3FN", "f4E2M1FN"))
    assert one[1] == "table of 256 entries: one f4E2M1FN input, 1,000,000 elements"
    (without,) = decided(body, f"%x: {v}, %y: {v}", "%r", v, Speed(compiled=False, tables=False))
    assert without[0] == "blocks"


def test_tables_for_rows_and_columns() -> None:
    (rows,), (columns,) = decided(*affine("4x1000", "4", "0")), decided(*affine("4000x20", "20", "1"))
    reason = "a table of 256 entries for each of 4 rows: only one f8E5M2 input varies along a row, 4,000 elements"
    assert rows == ("rows", reason)
    reason = (
        "a table of 256 entries for each of 20 columns: only one f8E5M2 input varies down a column, 80,000 elements"
    )
    assert columns == ("columns", reason)


def test_blocks_of_wide_inputs() -> None:
    body = f"%a = stablehlo.add %x, %y : {F}\n%r = stablehlo.sqrt %a : {F}"
    assert decided(body, f"%x: {F}, %y: {F}", "%r", F) == [("blocks", "one block: two f32 inputs, 1,200 elements")]


def test_what_is_reduced_and_needed_after_is_computed_once_if_that_pays() -> None:
    def times(value: str, speed: Speed = NUMPY) -> int:
        half, wide, rows = "tensor<100x300xf16>", "tensor<100x300xf32>", "tensor<100xf32>"
        body = f"""
          %d = stablehlo.subtract %x, %y : {half}
          %e = stablehlo.exponential %d : {half}
          %w = stablehlo.convert {value} : ({half}) -> {wide}
          %z = stablehlo.constant dense<0.0> : tensor<f32>
          %s = stablehlo.reduce(%w init: %z) applies stablehlo.add across dimensions = [1]
            : ({wide}, tensor<f32>) -> {rows}
          %h = stablehlo.convert %s : ({rows}) -> tensor<100xf16>
          %b = stablehlo.broadcast_in_dim %h, dims = [0] : (tensor<100xf16>) -> {half}
          %r = stablehlo.divide {value}, %b : {half}"""
        operations = fused(body, f"%x: {half}, %y: {half}", "%r", half, speed).operations
        names = [o.name for o in operations]
        names += [s.name for o in operations if o.name == GROUP for s in o.attributes["group"].function.steps]
        return names.count("stablehlo.subtract")

    assert times("%e") == 1
    assert times("%d") == 2  # a difference alone is computed again
    assert times("%e", Speed()) == (2 if is_available() else 1)


@pytest.mark.parametrize(
    ("op", "t", "why"),
    [
        ("stablehlo.reverse %x, dims = [0]", "tensor<4xf32>", "not elementwise"),
        ("stablehlo.negate %x", "tensor<4xcomplex<f32>>", "complex elements"),
        ("stablehlo.negate %x", "tensor<f32>", "single numbers"),
        ("stablehlo.negate %x", "tensor<0xf32>", "no elements"),
        ("stablehlo.exponential %x", "tensor<4xf64>", "its elements are not computed one by one"),
        ("stablehlo.negate %x", "tensor<4xf32>", "no operation beside it to fuse with"),
    ],
)
def test_why_an_operation_runs_alone(op: str, t: str, why: str) -> None:
    (operation,) = region_of(f"%r = {op} : {t}", f"%x: {t}", "%r", t).operations
    assert why_alone(operation) == f"alone: {why}"
    assert choose(operation, NUMPY).executor == "alone"


def test_kernels_of_equal_operations_are_shared() -> None:
    v = "tensor<4xf8E5M2>"
    body = f"""%a = stablehlo.add %x, %x : {v}
      %b = stablehlo.reverse %a, dims = [0] : {v}
      %c = stablehlo.add %b, %b : {v}"""
    plan = interp.load(f"func.func @main(%x: {v}) -> {v} {{\n{body}\nreturn %c : {v}\n}}").plan()
    calls = [k for name, k in plan.entry.__globals__.items() if name.startswith("k")]
    assert len(calls) == 3
    assert calls[0] is calls[2]
    x = interp.cast([1, 2, 3, -4], "f8E5M2")
    assert plan.entry(x)[0].astype(float).tolist() == [-16, 12, 8, 4]


# -- results put into place --------------------------------------------------------------------------------------------


def test_results_of_blocks_are_put_into_place(tune: Tune) -> None:
    tune(half_many=16, half_block=100, fuse_many=16, block=1 << 6, function_small=8, function_block=50)
    wide, half, turned = "tensor<20x30xf32>", "tensor<20x30xf16>", "tensor<30x20xf32>"
    text = f"""func.func @main(%x: {wide}, %t: {turned}, %row: tensor<30xf32>)
        -> ({wide}, {wide}, {half}, {wide}, {wide}, {wide}, {half}) {{
      %a = stablehlo.transpose %t, dims = [1, 0] : ({turned}) -> {wide}
      %b = stablehlo.broadcast_in_dim %row, dims = [1] : (tensor<30xf32>) -> {wide}
      %sum = stablehlo.add %x, %a : {wide}
      %exp = stablehlo.exponential %sum : {wide}
      %power = stablehlo.power %exp, %b : {wide}
      %h = stablehlo.convert %power : ({wide}) -> {half}
      %of_row = stablehlo.tanh %b : {wide}
      %own = stablehlo.multiply %a, %a : {wide}
      %twice = stablehlo.add %h, %h : {half}
      return %sum, %power, %h, %of_row, %own, %sum, %twice : {wide}, {wide}, {half}, {wide}, {wide}, {wide}, {half}
    }}"""
    rng = np.random.default_rng(5)
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in ((20, 30), (30, 20), (30,))]
    program = interp.load(text).program
    plain, *others = (
        machine.run(planner.plan(program, speed=tuned(speed)), operands)
        for speed in (NONE, DEFAULT, DEFAULT.without("compiled"), DEFAULT.without("compiled,threads"))
    )
    for other in others:
        assert [(x.dtype, x.tobytes()) for x in other] == [(x.dtype, x.tobytes()) for x in plain]


def test_blocks_hold_no_second_copy_of_a_result() -> None:
    t = "tensor<1048576xf32>"
    text = f"func.func @main(%x: {t}) -> {t} {{ %r = stablehlo.exponential %x : {t} return %r : {t} }}"
    plan = planner.plan(interp.load(text).program, speed=DEFAULT.without("compiled,threads"))
    operand = np.ones(1 << 20, np.float32)

    def peak() -> int:
        tracemalloc.start()
        machine.run(plan, [operand])
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return result

    peak()
    assert peak() < operand.nbytes + 16 * DEFAULT.tuning.function_block + 2 * DEFAULT.tuning.block
