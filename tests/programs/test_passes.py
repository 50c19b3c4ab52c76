"""Each pass makes of a region another one that computes the same: a program in, a program out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.passes.cse import eliminate_common_subexpressions
from minihlo.interp.passes.dce import eliminate_dead_code
from minihlo.interp.passes.fold_constants import fold_constants
from minihlo.interp.passes.fuse import TABLE, fuse
from minihlo.interp.passes.inline import called_once, inline
from minihlo.interp.planner import plan
from minihlo.interp.program import CONSTANT, Operation, Region
from minihlo.ops.op import Call, lookup
from minihlo.ops.policy import Policy

V, W = "tensor<4x30xf8E4M3FN>", "tensor<4x30xf32>"
F = "tensor<4xf32>"


def region_of(text: str) -> Region:
    result = interp.load(text).program.functions["main"].body
    assert result is not None
    return result


def body(lines: str, arguments: str, returns: str, types: str) -> Region:
    """The region of a function `@main`."""
    return region_of(f"func.func @main({arguments}) -> ({types}) {{\n{lines}\nreturn {returns} : {types}\n}}")


def names(region: Region) -> list[str]:
    return [operation.name.partition(".")[2] for operation in region.operations]


def kernel_of(operation: Operation) -> Callable[..., Any]:
    record = lookup(operation.name)
    assert record is not None
    types = [tuple(v.type for v in values) for values in (operation.operands, operation.results)]
    return record.function(Call(operation.name, *types, operation.attributes))


def fold(region: Region) -> Region:
    return fold_constants(region, kernel_of)


def inlined(text: str) -> tuple[Region, Region]:
    program = interp.load(text).program
    region = program.functions["main"].body
    assert region is not None
    return region, inline(program, region, called_once(program))


def test_a_call_becomes_the_operations_of_the_function() -> None:
    before, after = inlined("""
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
      %z = stablehlo.add %y, %x : tensor<4xf32>
      return %z : tensor<4xf32>
    }
    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
      %b = stablehlo.sqrt %a : tensor<4xf32>
      %c = stablehlo.negate %b : tensor<4xf32>
      return %c : tensor<4xf32>
    }""")
    assert names(after) == ["sqrt", "negate", "add"]
    sqrt, negate, add = after.operations
    assert (sqrt.operands, negate.operands) == (before.arguments, sqrt.results)
    assert (negate.results, add) == (before.operations[0].results, before.operations[1])


def test_a_function_that_returns_its_argument_becomes_a_barrier() -> None:
    before, after = inlined("""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }""")
    (barrier,) = after.operations
    assert (barrier.operands, barrier.results) == (before.arguments, before.returns)


def test_a_recursive_function_is_not_inlined() -> None:
    before, after = inlined("""func.func @main(%x: tensor<f32>) -> tensor<f32> {
      %y = func.call @main(%x) : (tensor<f32>) -> tensor<f32>
      return %y : tensor<f32>
    }""")
    assert names(after) == names(before) == ["call"]


CONSTANTS = f"""
  %c = stablehlo.constant dense<2.0> : {F}
  %d = stablehlo.multiply %c, %c : {F}
  %e = stablehlo.negate %d : {F}
  %r = stablehlo.add %x, %e : {F}"""


def test_operations_on_constants_become_constants() -> None:
    before = body(CONSTANTS, f"%x: {F}", "%r", F)
    after = fold(before)
    assert names(after) == ["constant", "constant", "constant", "add"]
    assert [o.results for o in after.operations] == [o.results for o in before.operations]
    assert [o.attributes["value"].tolist() for o in after.operations[:3]] == [[2.0] * 4, [4.0] * 4, [-4.0] * 4]
    assert (after.operations[2].operands, after.operations[2].origin) == ((), before.operations[2])
    assert after.operations[3] is before.operations[3]


def test_constants_are_folded_in_regions() -> None:
    before = body(
        """
      %c = stablehlo.constant dense<3> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %d = stablehlo.add %c, %c : tensor<i32>
        %go = stablehlo.compare LT, %i, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      } do {
        %n = stablehlo.add %i, %c : tensor<i32>
        stablehlo.return %n : tensor<i32>
      }""",
        "%x: tensor<i32>",
        "%r",
        "tensor<i32>",
    )
    loop, old = fold(before).operations[1], before.operations[1]
    assert names(loop.regions[0]) == ["constant", "compare"]
    assert loop.regions[0].operations[0].attributes["value"] == 6
    assert loop.regions[1] is old.regions[1]
    assert (loop.origin, loop.operands, loop.results) == (old, old.operands, old.results)


def test_large_results_are_not_folded() -> None:
    """More than a MiB."""
    t = "tensor<300000xf32>"
    region = body(CONSTANTS.replace(F, t), f"%x: {t}", "%r", t)
    assert fold(region) is region


def test_stochastic_rounding_keeps_the_operations() -> None:
    text = f"func.func @main(%x: {F}) -> {F} {{\n{CONSTANTS}\nreturn %r : {F}\n}}"
    planned = plan(interp.load(text).program, policy=Policy(rounding="stochastic"))
    assert names(planned.regions[0][1]) == ["constant", "multiply", "negate", "add"]


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (f"%a = stablehlo.tanh %x : {F}\n%b = stablehlo.tanh %x : {F}", 1),
        (f"%a = stablehlo.tanh %x : {F}\n%b = stablehlo.tanh %y : {F}", 2),
        (f"%a = stablehlo.add %x, %y : {F}\n%b = stablehlo.add %y, %x : {F}", 2),
        # A chain of equal operations, on equal constants.
        (
            "\n".join(
                f"%c{n} = stablehlo.constant dense<1.5> : {F}\n%p{n} = stablehlo.power %x, %c{n} : {F}\n"
                f"%{n} = stablehlo.divide %y, %p{n} : {F}"
                for n in "ab"
            ),
            2,
        ),
        # Constants of other bits.
        (
            "\n".join(
                f"%c{n} = stablehlo.constant dense<{z}> : {F}\n%{n} = stablehlo.atan2 %c{n}, %x : {F}"
                for n, z in (("a", "0.0"), ("b", "-0.0"))
            ),
            2,
        ),
        # Other attributes.
        (f"%a = stablehlo.iota dim = 0 : {F}\n%b = stablehlo.reverse %a, dims = [0] : {F}", 2),
        # A barrier gives new values, as `jax.checkpoint` asks for.
        (
            f"%z = stablehlo.optimization_barrier %x : {F}\n%a = stablehlo.tanh %x : {F}\n%b = stablehlo.tanh %z : {F}",
            3,
        ),
    ],
)
def test_equal_operations_are_computed_once(lines: str, count: int) -> None:
    before = body(lines, f"%x: {F}, %y: {F}", "%a, %b", f"{F}, {F}")
    after = eliminate_common_subexpressions(before)
    assert len([o for o in after.operations if o.name != CONSTANT]) == count
    if count == len(before.operations):
        assert after is before


def test_random_numbers_are_drawn_each_time() -> None:
    text = """func.func @main() -> (tensor<64xf32>, tensor<64xf32>) {
      %low = stablehlo.constant dense<0.0> : tensor<f32>
      %high = stablehlo.constant dense<1.0> : tensor<f32>
      %shape = stablehlo.constant dense<64> : tensor<1xi64>
      %a = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      %b = stablehlo.rng %low, %high, %shape, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      return %a, %b : tensor<64xf32>, tensor<64xf32>
    }"""
    assert names(eliminate_common_subexpressions(region_of(text))).count("rng") == 2
    a, b = interp.load(text)()
    assert not np.array_equal(a, b)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "returned twice": lambda x: (jnp.exp(x), jnp.exp(x), jnp.exp(x) + 1),
    "in branches": lambda x: lax.cond(x[0] > 0, lambda v: (jnp.cos(v), v), lambda v: (v, jnp.cos(v) + jnp.cos(v)), x),
    "around a loop": lambda x: (jnp.exp(x), lax.fori_loop(0, 20, lambda i, c: c * 0.5 + jnp.exp(x), x), jnp.exp(x)),
    "in a body": lambda x: lax.reduce(x, np.float32(0), lambda a, b: (a + b) * 0.5 + (a + b) * 0.5, (0,)),
    "several operands": lambda x: lax.sort((x, x, jnp.negative(x), jnp.negative(x)), num_keys=1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_program_as_written(name: str) -> None:
    """A listener sees every operation as it is written: no pass is applied."""
    x = np.array([0.5, -1.25, 3.0], np.float32)
    program = interp.load(jax.jit(FUNCTIONS[name]).lower(x).as_text())
    results, written = program(x), program.run(program.plan(listener=lambda *_: None), [x])
    assert [r.tobytes() for r in results] == [w.tobytes() for w in written]
    before = [r.copy() for r in results]
    results[0][...] = 7  # results of equal values are arrays of their own
    assert all(np.array_equal(r, b) for r, b in zip(results[1:], before[1:], strict=True))


UNUSED = """func.func @main(%x: tensor<3x3xf32>, %i: tensor<f32>) -> tensor<3x3xf32> {
  %d = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %r = stablehlo.reduce(%d init: %i) applies stablehlo.add across dimensions = [1]
    : (tensor<3x3xf32>, tensor<f32>) -> tensor<3xf32>
  %a = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<3xf32>) -> tensor<3x3xf32>
  %b = stablehlo.negate %x : tensor<3x3xf32>
  return %b : tensor<3x3xf32>
}"""


def test_dead_code_is_removed() -> None:
    assert names(eliminate_dead_code(region_of(UNUSED))) == ["negate"]
    needed = region_of(UNUSED.replace("negate %x", "negate %a"))
    assert eliminate_dead_code(needed) is needed


def test_dead_code_is_verified() -> None:
    """A tensor that cannot be held is refused, whether it is needed or not."""
    large = "tensor<1000000x1000000x3x3xf32>"
    text = UNUSED.replace(
        "%b =", f"%c = stablehlo.broadcast_in_dim %a, dims = [2, 3] : (tensor<3x3xf32>) -> {large}\n%b ="
    )
    with pytest.raises(interp.ResourceError, match="broadcast_in_dim"):
        interp.load(text).plan()


def test_captured_values_are_needed() -> None:
    t = "tensor<f32>"
    region = region_of(f"""func.func @main(%x: {t}, %p: tensor<i1>) -> {t} {{
      %d = stablehlo.tanh %x : {t}
      %r = "stablehlo.if"(%p) ({{ stablehlo.return %d : {t} }}, {{ stablehlo.return %x : {t} }}) : (tensor<i1>) -> {t}
      return %r : {t}
    }}""")
    assert eliminate_dead_code(region) is region


def test_a_loop_that_nothing_needs_is_removed() -> None:
    """From 0 on it would not end."""
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %c = stablehlo.constant dense<3> : tensor<i32>
      %r = stablehlo.while(%i = %x) : tensor<i32>
      cond {
        %p = stablehlo.compare NE, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %j = stablehlo.multiply %i, %i : tensor<i32>
        stablehlo.return %j : tensor<i32>
      }
      return %c : tensor<i32>
    }"""
    assert interp.load(text)(np.int32(0))[0] == 3
    assert "while" in names(eliminate_dead_code(region_of(text.replace("return %c", "return %r"))))


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_effects_stay(in_a_loop: bool) -> None:
    seen = []

    def call(i: Any, y: Any) -> Any:
        jax.debug.callback(lambda v: seen.append(int(v)), i, ordered=True)
        return y * 2

    def f(x: jax.Array) -> jax.Array:
        lax.fori_loop(0, 2, call, x) if in_a_loop else call(7, x)
        return -x

    interp.jit(f)(np.ones(3, np.float32))
    assert seen == ([0, 1] if in_a_loop else [7])


def tables(lines: str, arguments: str, returns: str, types: str) -> list[list[str]]:
    """The operations of each table, and the names of all others."""
    region = fuse(body(lines, arguments, returns, types))
    inner = [names(o.regions[0]) for o in region.operations if o.name == TABLE]
    return [*inner, [o.name.partition(".")[2] for o in region.operations if o.name not in (TABLE, CONSTANT)]]


def test_a_chain_of_one_input_is_one_table() -> None:
    lines = f"""
      %two = stablehlo.constant dense<2.0> : {W}
      %w = stablehlo.convert %x : ({V}) -> {W}
      %e = stablehlo.exponential %w : {W}
      %m = stablehlo.multiply %e, %two : {W}
      %n = stablehlo.subtract %m, %w : {W}
      %unused = stablehlo.tanh %n : {W}
      %r = stablehlo.convert %n : ({W}) -> {V}"""
    before = body(lines, f"%x: {V}", "%r", V)
    after = fuse(before)
    table = after.operations[-1]
    assert (table.name, table.operands, table.results) == (TABLE, before.arguments, before.returns)
    assert table.origin is before.operations[-1]
    (inner,) = table.regions
    assert [n for n in names(inner) if n != "constant"] == ["convert", "exponential", "multiply", "subtract", "convert"]
    assert all(v.shape == () for o in inner.operations for v in (*o.operands, *o.results))
    origins = [o.origin.results[0] for o in inner.operations if o.origin is not None]
    assert origins == [o.results[0] for o in before.operations if names(before)[before.operations.index(o)] in
                       ("convert", "exponential", "multiply", "subtract")]  # fmt: skip


def test_two_inputs_of_8_bits_are_one_table() -> None:
    lines = f"%a = stablehlo.add %x, %y : {V}\n%r = stablehlo.tanh %a : {V}"
    assert tables(lines, f"%x: {V}, %y: {V}", "%r", V) == [["add", "tanh"], []]


def test_where_three_inputs_meet_the_table_ends() -> None:
    lines = f"""
      %a = stablehlo.multiply %x, %y : {V}
      %b = stablehlo.exponential %a : {V}
      %w = stablehlo.convert %b : ({V}) -> {W}
      %r = stablehlo.add %w, %z : {W}"""
    found = tables(lines, f"%x: {V}, %y: {V}, %z: {W}", "%r", W)
    assert found == [["multiply", "exponential", "convert"], ["add"]]
    lines = f"""
      %a = stablehlo.multiply %x, %y : {V}
      %b = stablehlo.exponential %a : {V}
      %c = stablehlo.add %b, %z : {V}
      %r = stablehlo.tanh %c : {V}"""
    found = tables(lines, f"%x: {V}, %y: {V}, %z: {V}", "%r", V)
    assert found == [["multiply", "exponential"], ["add", "tanh"], []]


def test_a_value_that_is_needed_twice_is_part_of_both_tables() -> None:
    lines = f"""
      %a = stablehlo.exponential %x : {V}
      %b = stablehlo.tanh %a : {V}
      %r = stablehlo.sqrt %a : {V}"""
    assert tables(lines, f"%x: {V}", "%b, %r", f"{V}, {V}") == [["exponential", "tanh"], ["exponential", "sqrt"], []]


@pytest.mark.parametrize(
    ("lines", "t"),
    [
        ("%r = stablehlo.exponential %x : T", V),  # an operation alone has a table of its own
        ("%a = stablehlo.exponential %x : T\n%r = stablehlo.tanh %a : T", W),  # more than 16 bits
        ("%a = stablehlo.exponential %x : T\n%r = stablehlo.tanh %a : T", "tensor<f8E4M3FN>"),  # a number
        ("%a = stablehlo.exponential %x : T\n%r = stablehlo.reverse %a, dims = [0] : T", V),  # not elementwise
        ("%a = stablehlo.add %x, %x : T\n%r = stablehlo.multiply %a, %x : T", "tensor<4xi8>"),  # cheap as they are
    ],
)
def test_operations_that_are_not_fused(lines: str, t: str) -> None:
    region = body(lines.replace("T", t), f"%x: {t}", "%r", t)
    assert fuse(region) is region


def test_regions_are_fused() -> None:
    before = body(
        f"""
      %r = stablehlo.while(%i = %x) : {V}
      cond {{
        %go = stablehlo.constant dense<false> : tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        %n = stablehlo.add %i, %i : {V}
        %s = stablehlo.sqrt %n : {V}
        stablehlo.return %s : {V}
      }}""",
        f"%x: {V}",
        "%r",
        V,
    )
    (loop,) = fuse(before).operations
    assert [o.name for o in loop.regions[1].operations] == [TABLE]
    assert loop.regions[0] is before.operations[0].regions[0]


def test_equal_groups_share_a_table() -> None:
    """Whatever the shape; other constants make another table."""
    text = """func.func @main(%x: tensor<300xf8E5M2>) -> tensor<300xf8E5M2> {
      %c = stablehlo.constant dense<2.0> : tensor<300xf8E5M2>
      %e = stablehlo.exponential %x : tensor<300xf8E5M2>
      %r = stablehlo.multiply %e, %c : tensor<300xf8E5M2>
      return %r : tensor<300xf8E5M2>
    }"""
    kernels = []
    for other in (text, text.replace("300", "7"), text.replace("2.0", "0.0"), text.replace("2.0", "-0.0")):
        steps = plan(interp.load(other).program).entry.__self__.steps
        (step,) = [s for s in steps if "run" in s.__code__.co_freevars]
        kernels.append(step.__closure__[step.__code__.co_freevars.index("run")].cell_contents)
    assert kernels[0] is kernels[1]
    assert len(set(map(id, kernels))) == 3
