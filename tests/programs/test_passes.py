"""Each pass makes of a program another one that computes the same: a program in, a program out."""

from __future__ import annotations

import pytest

from minihlo import interp
from minihlo.interp.compile.group import GROUP, RANK, SPREAD, UNRANK, Group
from minihlo.interp.compile.passes.fuse import fuse
from minihlo.interp.compile.passes.inline import inlined
from minihlo.ops.policy import Policy

from .passes_cases import NUMPY, PLAIN, F, V, folded, fused, names, region_of, steps

# -- inline ------------------------------------------------------------------------------------------------------------


def test_a_call_becomes_the_ops_of_the_function() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = stablehlo.add %y, %x : tensor<4xf32>
      return %z : tensor<4xf32>
    }
    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %b = stablehlo.sqrt %a : tensor<4xf32>
      %c = stablehlo.negate %b : tensor<4xf32>
      return %c : tensor<4xf32>
    }"""
    program = interp.load(text).program
    body = program.functions["main"].body
    assert body is not None
    actual = inlined(program, body)
    assert names(actual) == ["sqrt", "negate", "add"]
    sqrt, negate, add = actual.operations
    assert (sqrt.operands, negate.operands) == (body.arguments, sqrt.results)
    assert (negate.results, add) == (body.operations[0].results, body.operations[1])


def test_what_a_function_hands_on_goes_through_a_barrier() -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"""
    program = interp.load(text).program
    body = program.functions["main"].body
    assert body is not None
    (barrier,) = inlined(program, body).operations
    assert (barrier.operands, barrier.results) == (body.arguments, body.returns)


# -- fold_constants ----------------------------------------------------------------------------------------------------


CONSTANTS = """
  %c = stablehlo.constant dense<2.0> : tensor<4xf32>
  %d = stablehlo.multiply %c, %c : tensor<4xf32>
  %e = stablehlo.negate %d : tensor<4xf32>
  %r = stablehlo.add %x, %e : tensor<4xf32>"""


def test_ops_on_constants_become_constants() -> None:
    region = region_of(CONSTANTS, "%x: tensor<4xf32>", "%r", "tensor<4xf32>")
    actual, constants = folded(region)
    assert names(actual) == ["constant", "constant", "constant", "add"]
    assert [o.results for o in actual.operations] == [o.results for o in region.operations]
    assert actual.operations[2].operands == ()
    assert actual.operations[2].origin is region.operations[2]
    assert [constants[o.results[0]].tolist() for o in actual.operations[:3]] == [[2.0] * 4, [4.0] * 4, [-4.0] * 4]
    assert (actual.operations[3], actual.arguments, actual.returns) == (
        region.operations[3], region.arguments, region.returns
    )  # fmt: skip


def test_constants_are_folded_in_regions_too() -> None:
    body = """
      %c = stablehlo.constant dense<3> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %d = stablehlo.add %c, %c : tensor<i32>
        %go = stablehlo.compare LT, %i, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %n = stablehlo.add %i, %c : tensor<i32>
        stablehlo.return %n : tensor<i32>
      }"""
    region = region_of(body, "%x: tensor<i32>", "%r", "tensor<i32>")
    actual, constants = folded(region)
    loop, old = actual.operations[1], region.operations[1]
    assert names(loop.regions[0]) == ["constant", "compare"]
    assert loop.regions[1] is old.regions[1]
    assert (loop.origin, loop.operands, loop.results) == (old, old.operands, old.results)
    assert constants[loop.regions[0].operations[0].results[0]] == 6


@pytest.mark.parametrize(
    ("body", "policy"),
    [
        (CONSTANTS.replace("4xf32", "300000xf32"), PLAIN),  # more than a MiB
        (CONSTANTS, Policy(rounding="stochastic")),  # bits are drawn when it runs
    ],
)
def test_what_is_not_folded(body: str, policy: Policy) -> None:
    t = "tensor<300000xf32>" if "300000" in body else "tensor<4xf32>"
    region = region_of(body, f"%x: {t}", "%r", t)
    actual, constants = folded(region, policy)
    assert actual is region
    assert list(constants) == [region.operations[0].results[0]]


# -- fuse --------------------------------------------------------------------------------------------------------------


def test_a_chain_is_one_group() -> None:
    body = f"""
      %two = stablehlo.constant dense<2.0> : {F}
      %w = stablehlo.convert %x : ({V}) -> {F}
      %e = stablehlo.exponential %w : {F}
      %m = stablehlo.multiply %e, %two : {F}
      %n = stablehlo.subtract %m, %w : {F}
      %unused = stablehlo.tanh %n : {F}
      %r = stablehlo.convert %n : ({F}) -> {V}"""
    actual = fused(body, f"%x: {V}", "%r", V)
    assert names(actual) == ["constant", "group"]
    put = actual.operations[-1]
    group: Group = put.attributes["group"]
    assert (put.operands, put.results) == (actual.arguments, actual.returns)
    assert steps(group) == ["convert", "exponential", "multiply", "subtract", "convert"]
    assert [s.operands for s in group.function.steps] == [(0,), (2,), (3, 1), (4, 2), (5,)]
    assert (group.shape, group.function.outputs, group.leaves[0].axes) == ((4, 300), (6,), (0, 1))
    origins = [o.operation.name for o in put.attributes["origins"]]
    assert origins == [s.name for s in group.function.steps]


def test_equal_constants_of_a_group_are_one() -> None:
    body = f"""
      %two = stablehlo.constant dense<2.0> : {F}
      %more = stablehlo.constant dense<3.0> : {F}
      %again = stablehlo.constant dense<2.0> : {F}
      %a = stablehlo.add %x, %two : {F}
      %b = stablehlo.multiply %a, %more : {F}
      %r = stablehlo.divide %b, %again : {F}"""
    function = fused(body, f"%x: {F}", "%r", F).operations[-1].attributes["group"].function
    assert [float(c.array) for c in function.constants] == [2.0, 3.0]
    assert [s.operands for s in function.steps] == [(0, 1), (3, 2), (4, 1)]


def test_what_three_inputs_meet_in_has_tables_within_it() -> None:
    body = f"""
      %a = stablehlo.multiply %x, %y : {V}
      %b = stablehlo.exponential %a : {V}
      %w = stablehlo.convert %b : ({V}) -> {F}
      %r = stablehlo.add %w, %z : {F}"""
    actual = fused(body, f"%x: {V}, %y: {V}, %z: {F}", "%r", F)
    (put,) = actual.operations
    group = put.attributes["group"]
    assert steps(group) == ["table", "add"]
    assert [s.name for s in group.function.steps[0].function.steps] == [
        "stablehlo.multiply", "stablehlo.exponential", "stablehlo.convert"
    ]  # fmt: skip


def test_a_reduction_takes_the_group_that_feeds_it() -> None:
    v, s = "tensor<64x300xf32>", "tensor<64xf32>"
    body = f"""
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %m = stablehlo.multiply %x, %y : {v}
      %a = stablehlo.abs %m : {v}
      %r = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : ({v}, tensor<f32>) -> {s}"""
    actual = fused(body, f"%x: {v}, %y: {v}", "%r", s)
    zero, put = actual.operations
    reduction = put.attributes["reduction"]
    assert (reduction.name, reduction.dimensions) == ("stablehlo.add", (1,))
    assert (steps(put.attributes["group"]), put.operands) == (
        ["multiply", "abs"], (*actual.arguments, *zero.results)
    )  # fmt: skip


def test_the_largest_of_a_function_of_codes_is_ranked() -> None:
    v, w, s = "tensor<64x300xf8E5M2>", "tensor<64x300xf32>", "tensor<64xf32>"
    body = f"""
      %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %w = stablehlo.convert %x : ({v}) -> {w}
      %m = stablehlo.reduce(%w init: %low) applies stablehlo.maximum across dimensions = [1]
        : ({w}, tensor<f32>) -> {s}
      %r = stablehlo.negate %m : {s}"""
    actual = fused(body, f"%x: {v}", "%r", s)
    assert names(actual) == ["constant", "rank", "group"]
    _, rank, put = actual.operations
    assert (rank.name, rank.operands, put.operands) == (RANK, actual.arguments, rank.results)
    assert [s.name for s in put.attributes["group"].function.steps] == [UNRANK, "stablehlo.negate"]
    assert rank.attributes["dimensions"] == (1,)


def test_a_broadcast_by_itself_is_a_view() -> None:
    body = "%r = stablehlo.broadcast_in_dim %x, dims = [1] : (tensor<3xf32>) -> tensor<2x3xf32>"
    (put,) = fused(body, "%x: tensor<3xf32>", "%r", "tensor<2x3xf32>").operations
    assert (put.name, put.attributes["axes"]) == (SPREAD, (1,))


def test_regions_are_fused_and_what_has_nothing_to_fuse_stays_the_same_object() -> None:
    body = """
      %r = stablehlo.while(%i = %x) : tensor<4xf32>
      cond {
        %go = stablehlo.constant dense<false> : tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %n = stablehlo.add %i, %i : tensor<4xf32>
        %s = stablehlo.sqrt %n : tensor<4xf32>
        stablehlo.return %s : tensor<4xf32>
      }"""
    region, constants = folded(region_of(body, "%x: tensor<4xf32>", "%r", "tensor<4xf32>"))
    (loop,) = fuse(region, constants, NUMPY, PLAIN).operations
    assert names(loop.regions[1]) == ["group"]
    assert loop.regions[0] is region.operations[0].regions[0]
    body = body.replace("%s = stablehlo.sqrt %n", "%s = stablehlo.reverse %n, dims = [0]")
    alone, constants = folded(region_of(body, "%x: tensor<4xf32>", "%r", "tensor<4xf32>"))
    assert fuse(alone, constants, NUMPY, PLAIN) is alone


def test_repeated_values_that_share_operations_are_one_group() -> None:
    t, column = "tensor<4xui32>", "tensor<4x1xui32>"
    body = f"""
      %s = stablehlo.add %x, %y : {t}
      %m = stablehlo.multiply %s, %y : {t}
      %w = stablehlo.xor %m, %s : {t}
      %n = stablehlo.or %m, %x : {t}
      %a = stablehlo.broadcast_in_dim %w, dims = [0] : ({t}) -> {column}
      %b = stablehlo.broadcast_in_dim %n, dims = [0] : ({t}) -> {column}
      %r = stablehlo.concatenate %a, %b, dim = 1 : ({column}, {column}) -> tensor<4x2xui32>"""
    region = fused(body, f"%x: {t}, %y: {t}", "%r", "tensor<4x2xui32>")
    groups = [o for o in region.operations if o.name == GROUP]
    assert [len(o.results) for o in groups] == [2]
    assert sorted(steps(groups[0].attributes["group"])) == ["add", "multiply", "or", "xor"]
