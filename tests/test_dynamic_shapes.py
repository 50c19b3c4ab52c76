"""Programs whose types leave sizes open, run with the sizes of their inputs: against numpy, JAX and by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.compile import specialize
from minihlo.interp.errors import ExecutionError, InputError, ResourceError
from minihlo.interp.system import memory
from minihlo.ops.registry import EXACT, Call, Kernel, Op
from minihlo.ops.types import ELEMENT_TYPES, TensorType

F8 = np.dtype(ml_dtypes.float8_e4m3fn)
SIZES = (3, 1, 5, 0)


def numbers(*shape: int) -> np.ndarray:
    """Small integers, of which sums and products are exact in any order."""
    rng = np.random.default_rng(sum(shape))
    return rng.integers(-4, 5, shape).astype(np.float32)


@dataclasses.dataclass
class Case:
    """A program, its inputs for a size, and what it computes by numpy."""

    text: str
    inputs: Callable[[int], list[np.ndarray]]
    expected: Callable[..., Any]
    sizes: tuple[int, ...] = SIZES


def main(arguments: str, results: str, body: str) -> str:
    """The text of a program; the last line of `body` returns."""
    return f"func.func @main({arguments}) -> ({results}) {{\n{body}\n}}"


def windows(x: np.ndarray, size: int) -> np.ndarray:
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=1)


def scattered(x: np.ndarray, at: np.ndarray, updates: np.ndarray) -> np.ndarray:
    x = x.copy()
    np.add.at(x, at[:, 0], updates)
    return x


CASES = {
    "elementwise": Case(
        main(
            "%x: tensor<?x4xf32>, %y: tensor<?x4xf32>",
            "tensor<?x4xf32>, tensor<?x4xi1>",
            """%a = stablehlo.multiply %x, %y : tensor<?x4xf32>
            %b = stablehlo.maximum %a, %x : tensor<?x4xf32>
            %c = stablehlo.compare LT, %x, %y : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xi1>
            %d = stablehlo.select %c, %b, %y : tensor<?x4xi1>, tensor<?x4xf32>
            return %d, %c : tensor<?x4xf32>, tensor<?x4xi1>""",
        ),
        lambda n: [numbers(n, 4), numbers(n + 1, 4)[:n]],
        lambda x, y: (np.where(x < y, np.maximum(x * y, x), y), x < y),
    ),
    "minifloats": Case(
        main(
            "%x: tensor<?xf8E4M3FN>",
            "tensor<?xf32>",
            """%a = stablehlo.add %x, %x : tensor<?xf8E4M3FN>
            %b = stablehlo.convert %a : (tensor<?xf8E4M3FN>) -> tensor<?xf32>
            return %b : tensor<?xf32>""",
        ),
        lambda n: [np.arange(n).astype(np.float32).astype(F8)],
        lambda x: 2 * x.astype(np.float32),
        (0, 1, 7, 16),
    ),
    "mean of rows": Case(
        main(
            "%x: tensor<?x?xf32>",
            "tensor<?xf32>",
            """%zero = stablehlo.constant dense<0.0> : tensor<f32>
            %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
              : (tensor<?x?xf32>, tensor<f32>) -> tensor<?xf32>
            %n = stablehlo.get_dimension_size %x, dim = 1 : (tensor<?x?xf32>) -> tensor<i32>
            %count = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
            %m = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
            %shape = stablehlo.reshape %m : (tensor<i32>) -> tensor<1xi32>
            %counts = stablehlo.dynamic_broadcast_in_dim %count, %shape, dims = []
              : (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
            %mean = stablehlo.divide %sum, %counts : tensor<?xf32>
            return %mean : tensor<?xf32>""",
        ),
        lambda n: [numbers(n, 2 * n)],
        lambda x: x.sum(1) / np.float32(x.shape[1]),
    ),
    "moved": Case(
        main(
            "%x: tensor<?x4xf32>",
            "tensor<4x?xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x2xf32>, tensor<?x9xf32>, tensor<1x2xf32>",
            """%t = stablehlo.transpose %x, dims = [1, 0] : (tensor<?x4xf32>) -> tensor<4x?xf32>
            %r = stablehlo.reverse %x, dims = [0] : tensor<?x4xf32>
            %c = stablehlo.concatenate %x, %r, dim = 0 : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
            %i = stablehlo.constant dense<7> : tensor<i32>
            %one = stablehlo.constant dense<1.0> : tensor<f32>
            %p = stablehlo.pad %x, %one, low = [1, 0], high = [0, 2], interior = [0, 1]
              : (tensor<?x4xf32>, tensor<f32>) -> tensor<?x9xf32>
            %s = stablehlo.dynamic_slice %p, %i, %i, sizes = [1, 2]
              : (tensor<?x9xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
            %zero = stablehlo.constant dense<0> : tensor<i64>
            %start = stablehlo.constant dense<[0, 1]> : tensor<2xi64>
            %stride = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
            %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x4xf32>) -> tensor<i32>
            %m = stablehlo.convert %n : (tensor<i32>) -> tensor<i64>
            %rows = stablehlo.reshape %m : (tensor<i64>) -> tensor<1xi64>
            %columns = stablehlo.constant dense<4> : tensor<1xi64>
            %limit = stablehlo.concatenate %rows, %columns, dim = 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
            %d = stablehlo.real_dynamic_slice %x, %start, %limit, %stride
              : (tensor<?x4xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<?x2xf32>
            return %t, %r, %c, %d, %p, %s : tensor<4x?xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<?x2xf32>,
              tensor<?x9xf32>, tensor<1x2xf32>""",
        ),
        lambda n: [numbers(n, 4)],
        lambda x: (
            x.T,
            x[::-1],
            np.concatenate([x, x[::-1]]),
            x[:, 1::2],
            (
                p := np.insert(
                    np.pad(np.insert(x, [1, 2, 3], 1, axis=1), ((1, 0), (0, 2)), constant_values=1), 0, 0, 0
                )[1:]
            ),
            p[-1:, 7:],
        ),
    ),
    "products": Case(
        main(
            "%x: tensor<?x4xf32>, %y: tensor<4x?xf32>",
            "tensor<?x?xf32>, tensor<?x?xf32>",
            """%a = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
              : (tensor<?x4xf32>, tensor<4x?xf32>) -> tensor<?x?xf32>
            %b = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1]
              : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x?xf32>
            return %a, %b : tensor<?x?xf32>, tensor<?x?xf32>""",
        ),
        lambda n: [numbers(n, 4), numbers(4, n + 2)],
        lambda x, y: (x @ y, x @ x.T),
    ),
    "taken and put": Case(
        main(
            "%x: tensor<?x2xf32>, %at: tensor<?x1xi32>",
            "tensor<?x2xf32>, tensor<?x2xf32>",
            """%g = "stablehlo.gather"(%x, %at) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
              collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
              slice_sizes = array<i64: 1, 2>} : (tensor<?x2xf32>, tensor<?x1xi32>) -> tensor<?x2xf32>
            %s = "stablehlo.scatter"(%x, %at, %g) ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %c = stablehlo.add %a, %b : tensor<f32>
                stablehlo.return %c : tensor<f32>
              }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
              scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}
              : (tensor<?x2xf32>, tensor<?x1xi32>, tensor<?x2xf32>) -> tensor<?x2xf32>
            return %g, %s : tensor<?x2xf32>, tensor<?x2xf32>""",
        ),
        lambda n: [numbers(n, 2), np.arange(2 * n, dtype=np.int32)[:, None] % n],
        lambda x, at: (x[at[:, 0]], scattered(x, at, x[at[:, 0]])),
        (3, 1, 5),
    ),
    "windows": Case(
        main(
            "%x: tensor<?x6xf32>",
            "tensor<?x4xf32>, tensor<?x6xf32>",
            """%low = stablehlo.constant dense<0xFF800000> : tensor<f32>
            %w = "stablehlo.reduce_window"(%x, %low) ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %c = stablehlo.maximum %a, %b : tensor<f32>
                stablehlo.return %c : tensor<f32>
              }) {window_dimensions = array<i64: 1, 3>} : (tensor<?x6xf32>, tensor<f32>) -> tensor<?x4xf32>
            %s = "stablehlo.sort"(%x) ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
              }) {dimension = 0 : i64} : (tensor<?x6xf32>) -> tensor<?x6xf32>
            return %w, %s : tensor<?x4xf32>, tensor<?x6xf32>""",
        ),
        lambda n: [numbers(n, 6)],
        lambda x: (windows(x, 3).max(-1), np.sort(x, 0)),
    ),
    "convolution": Case(
        main(
            "%x: tensor<?x6x1xf32>, %k: tensor<3x1x1xf32>",
            "tensor<?x4x1xf32>",
            """%c = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {}
              {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
              : (tensor<?x6x1xf32>, tensor<3x1x1xf32>) -> tensor<?x4x1xf32>
            return %c : tensor<?x4x1xf32>""",
        ),
        lambda n: [numbers(n, 6, 1), numbers(3, 1, 1)],
        lambda x, k: (windows(x[..., 0], 3) @ k[:, 0, 0])[..., None],
    ),
    "a loop that doubles": Case(
        main(
            "%x: tensor<?xi32>",
            "tensor<?xi32>",
            """%zero = stablehlo.constant dense<0> : tensor<i32>
            %one = stablehlo.constant dense<1> : tensor<i32>
            %three = stablehlo.constant dense<3> : tensor<i32>
            %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<?xi32>
            cond {
              %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %j = stablehlo.add %i, %one : tensor<i32>
              %w = stablehlo.concatenate %v, %v, dim = 0 : (tensor<?xi32>, tensor<?xi32>) -> tensor<?xi32>
              stablehlo.return %j, %w : tensor<i32>, tensor<?xi32>
            }
            return %r#1 : tensor<?xi32>""",
        ),
        lambda n: [np.arange(n, dtype=np.int32)],
        lambda x: np.tile(x, 8),
    ),
    "branches and functions": Case(
        """func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
          %y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
          return %y : tensor<?xf32>
        }
        """
        + main(
            "%x: tensor<?xf32>, %p: tensor<i1>",
            "tensor<?xf32>",
            """%r = "stablehlo.if"(%p) ({
                %y = func.call @twice(%x) : (tensor<?xf32>) -> tensor<?xf32>
                stablehlo.return %y : tensor<?xf32>
              }, {
                %y = stablehlo.negate %x : tensor<?xf32>
                stablehlo.return %y : tensor<?xf32>
              }) : (tensor<i1>) -> tensor<?xf32>
            return %r : tensor<?xf32>""",
        ),
        lambda n: [numbers(n), np.array(n % 2 == 0)],
        lambda x, p: np.tile(x, 2) if p else -x,
        (2, 3, 0),
    ),
    "sizes as indices": Case(
        main(
            "%x: tensor<?x1xf32>, %y: tensor<?xf32>",
            "tensor<?x?xf32>, index, tensor<2xi32>, tensor<i32>",
            """%xs = shape.shape_of %x : tensor<?x1xf32> -> tensor<2xindex>
            %ys = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
            %w = shape.cstr_broadcastable %xs, %ys : tensor<2xindex>, tensor<1xindex>
            %r = shape.assuming %w -> (tensor<?x?xf32>) {
              %s = shape.broadcast %xs, %ys : tensor<2xindex>, tensor<1xindex> -> tensor<2xindex>
              %a = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0, 1]
                : (tensor<?x1xf32>, tensor<2xindex>) -> tensor<?x?xf32>
              %b = stablehlo.dynamic_broadcast_in_dim %y, %s, dims = [1]
                : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
              %c = stablehlo.add %a, %b : tensor<?x?xf32>
              shape.assuming_yield %c : tensor<?x?xf32>
            }
            %zero = arith.constant 0 : index
            %n = tensor.dim %y, %zero : tensor<?xf32>
            %shape = shape.shape_of %r : tensor<?x?xf32> -> tensor<2xindex>
            %e = shape.num_elements %shape : tensor<2xindex> -> index
            %t = arith.addi %e, %n : index
            %pair = tensor.from_elements %t, %n : tensor<2xindex>
            %i = arith.index_cast %pair : tensor<2xindex> to tensor<2xi32>
            %one = arith.constant 1 : index
            %last = tensor.extract %i[%one] : tensor<2xi32>
            %l = tensor.from_elements %last : tensor<i32>
            return %r, %t, %i, %l : tensor<?x?xf32>, index, tensor<2xi32>, tensor<i32>""",
        ),
        lambda n: [numbers(n, 1), numbers(2 * n)],
        lambda x, y: (
            x + y,
            np.array(x.size * y.size + y.size),
            np.array([x.size * y.size + y.size, y.size], np.int32),
            np.array(y.size, np.int32),
        ),
    ),
    "bounded": Case(
        main(
            "%x: tensor<?x2xf32, #stablehlo.bounds<5, ?>>",
            "tensor<2x?xf32, #stablehlo.bounds<?, 5>>, tensor<?x2xf32, #stablehlo.bounds<5, ?>>, tensor<2x?xf32, "
            "#stablehlo.bounds<?, 3>>",
            """%r = stablehlo.reshape %x : (tensor<?x2xf32, #stablehlo.bounds<5, ?>>)
              -> tensor<2x?xf32, #stablehlo.bounds<?, 5>>
            %a = stablehlo.add %x, %x : tensor<?x2xf32, #stablehlo.bounds<5, ?>>
            %one = stablehlo.constant dense<1.0> : tensor<f32>
            %b = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> tensor<2x?xf32, #stablehlo.bounds<?, 3>>
            return %r, %a, %b : tensor<2x?xf32, #stablehlo.bounds<?, 5>>, tensor<?x2xf32, #stablehlo.bounds<5, ?>>,
              tensor<2x?xf32, #stablehlo.bounds<?, 3>>""",
        ),
        lambda n: [numbers(n, 2)],
        lambda x: (x.reshape(2, -1) if x.size else np.zeros((2, 0), np.float32), x + x, np.ones((2, 3), np.float32)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_sizes(name: str) -> None:
    case = CASES[name]
    program = interp.load(case.text)
    for size in (*case.sizes, case.sizes[0]):
        inputs = case.inputs(size)
        expected = case.expected(*inputs)
        found = program(*inputs)
        for f, e in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
            assert (f.dtype, f.shape) == (e.dtype, e.shape)
            assert np.array_equal(f, e), (size, f, e)


def test_more_sizes_than_are_remembered() -> None:
    program = interp.load(CASES["products"].text)
    for size in [*range(40), *range(40)]:
        x, y = CASES["products"].inputs(size)
        assert np.array_equal(program(x, y)[0], x @ y)


# -- programs that JAX exports -----------------------------------------------------------------------------------------

EXPORTED: dict[str, Callable[[Any], Any]] = {
    "product": lambda x: x @ x.T + x.shape[0],
    "prefix sums": lambda x: jnp.cumsum(x, 0),
    "sorted": lambda x: jnp.sort(x, 0),
    "loop": lambda x: jax.lax.fori_loop(0, 3, lambda i, v: v + i, x),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c + row, c), jnp.zeros(4), x),
    "pairs": lambda x: x[1:, ::2].reshape(-1),
    "argmax": lambda x: jnp.argmax(x, 0),
}


def exported(function: Callable[[Any], Any], constraints: tuple[str, ...] = ()) -> interp.LoadedProgram:
    shape = jax.export.symbolic_shape("b, 4", constraints=constraints)
    traced = jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, jnp.float32))
    return interp.load(traced.mlir_module())


@pytest.mark.parametrize("name", EXPORTED)
def test_programs_that_jax_exports(name: str) -> None:
    program = exported(EXPORTED[name])
    for size in (1, 4):
        x = numbers(size, 4)
        for f, e in zip(program(x), jax.tree.leaves(EXPORTED[name](x)), strict=True):
            assert f.dtype == e.dtype
            assert np.array_equal(f, e)


def test_assertions_of_exported_programs() -> None:
    program = exported(lambda x: x + x, ("b >= 3",))
    assert program(numbers(3, 4))[0].shape == (3, 4)
    with pytest.raises(ExecutionError, match=r"custom_call: Input shapes do not match .* 'b' = 2 from specification"):
        program(numbers(2, 4))


# -- what does not fit -------------------------------------------------------------------------------------------------


def broken(arguments: str, results: str, body: str, *values: np.ndarray) -> str:
    """The message of the error that a program ends with."""
    with pytest.raises(ExecutionError) as error:
        interp.load(main(arguments, results, body))(*values)
    return str(error.value)


def test_inputs_must_fit() -> None:
    program = interp.load(CASES["bounded"].text)
    for shape, message in (((6, 2), r"\[at most 5, 2\].*bounds<5, \?>>, got \[6, 2\]"), ((3, 3), "got"), ((3,), "got")):
        with pytest.raises(InputError, match=message):
            program(numbers(*shape))


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (0, 4)])
def test_operands_of_other_sizes(shape: tuple[int, ...]) -> None:
    """Above all numpy must not broadcast."""
    add = "%r = stablehlo.add %x, %y : tensor<?x4xf32>\nreturn %r : tensor<?x4xf32>"
    message = broken("%x: tensor<?x4xf32>, %y: tensor<?x4xf32>", "tensor<?x4xf32>", add, numbers(2, 4), numbers(*shape))
    assert message == f"<string>:2:6: stablehlo.add: operands have shapes [2, 4] and {list(shape)} (expected the same)"


def test_contracted_sizes_differ() -> None:
    dot = """%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
      : (tensor<?x?xf32>, tensor<?x?xf32>) -> tensor<?x?xf32>
    return %r : tensor<?x?xf32>"""
    message = broken("%x: tensor<?x?xf32>, %y: tensor<?x?xf32>", "tensor<?x?xf32>", dot, numbers(2, 4), numbers(3, 2))
    assert "<string>:2:6: stablehlo.dot_general: contracting dimension" in message


def test_slice_reaches_beyond() -> None:
    """numpy would cut the slice short."""
    cut = """%r = stablehlo.slice %x [1:4] : (tensor<?xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"""
    assert "cannot take 1 to 4 of 3" in broken("%x: tensor<?xf32>", "tensor<3xf32>", cut, numbers(3))


def test_results_that_claim_more() -> None:
    negated = """%r = stablehlo.negate %x : (tensor<?xf32>) -> tensor<3xf32>
    return %r : tensor<3xf32>"""
    program = interp.load(main("%x: tensor<?xf32>", "tensor<3xf32>", negated))
    assert program(numbers(3))[0].shape == (3,)
    with pytest.raises(ExecutionError, match=r"negate: the result has shape \[2\], which does not fit tensor<3xf32>"):
        program(numbers(2))


def test_loops_whose_sizes_are_fixed() -> None:
    loop = """%t = stablehlo.constant dense<true> : tensor<i1>
    %r = "stablehlo.while"(%x) ({
      ^bb0(%a: tensor<?xf32>):
        stablehlo.return %t : tensor<i1>
      }, {
      ^bb0(%a: tensor<2xf32>):
        %b = stablehlo.concatenate %a, %a, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
        stablehlo.return %b : tensor<4xf32>
      }) : (tensor<?xf32>) -> tensor<?xf32>
    return %r : tensor<?xf32>"""
    message = broken("%x: tensor<?xf32>", "tensor<?xf32>", loop, numbers(2))
    assert message.endswith(
        "stablehlo.while: an argument of the region has shape [4], which does not fit tensor<2xf32>"
    )


SIZED = "%r = stablehlo.set_dimension_size %x, %n, dim = 0 : (tensor<5xf32>, tensor<i32>) -> "


def test_bounds_of_results() -> None:
    t = "tensor<?xf32, #stablehlo.bounds<4>>"
    program = interp.load(main("%x: tensor<5xf32>, %n: tensor<i32>", t, f"{SIZED}{t}\nreturn %r : {t}"))
    x = numbers(5)
    assert np.array_equal(program(x, np.int32(4))[0], x[:4])
    with pytest.raises(ExecutionError, match="size 5 does not fit the result"):
        program(x, np.int32(5))
    with pytest.raises(ExecutionError, match="size -1 of a dimension of 5"):
        program(x, np.int32(-1))


def test_shapes_that_do_not_broadcast() -> None:
    body = """%xs = shape.shape_of %x : tensor<?xf32> -> tensor<1xindex>
    %ys = shape.shape_of %y : tensor<?xf32> -> tensor<1xindex>
    %w = shape.cstr_broadcastable %xs, %ys : tensor<1xindex>, tensor<1xindex>
    return"""
    message = broken("%x: tensor<?xf32>, %y: tensor<?xf32>", "", body, numbers(2), numbers(3))
    assert message.endswith("shape.cstr_broadcastable: shapes [2] and [3] do not broadcast together")


@pytest.mark.parametrize("sizes", [(1 << 40, 1), (1 << 20, 1 << 30), (1 << 62, 1 << 62)])
def test_sizes_beyond_memory(sizes: tuple[int, int]) -> None:
    program = interp.load(
        main(
            "%n: tensor<2xi64>",
            "tensor<?x?xf32>",
            """%one = stablehlo.constant dense<1.0> : tensor<f32>
            %r = stablehlo.dynamic_broadcast_in_dim %one, %n, dims = []
              : (tensor<f32>, tensor<2xi64>) -> tensor<?x?xf32>
            return %r : tensor<?x?xf32>""",
        )
    )
    with pytest.raises(
        ResourceError, match=r"^<string>:3:18: stablehlo.dynamic_broadcast_in_dim: tensor<.*xf32> takes"
    ):
        program(np.array(sizes))
    with pytest.raises(ExecutionError, match="does not fit"):
        program(np.array([-1, 2]))


def test_results_beyond_memory() -> None:
    """The operands are small; the product of all pairs of their elements is not."""
    program = interp.load(CASES["products"].text)
    with pytest.raises(ResourceError, match=r"dot_general: tensor<4194304x4194304xf32> takes 64.0 TiB"):
        program(np.zeros((1 << 22, 4), np.float32), np.zeros((4, 1 << 22), np.float32))


@pytest.mark.parametrize(
    "body",
    [
        "%r = stablehlo.add %x, %x : tensor<?xf32>",
        """%one = stablehlo.constant dense<1.0> : tensor<f32>
        %r = stablehlo.pad %x, %one, low = [1], high = [0], interior = [0]
          : (tensor<?xf32>, tensor<f32>) -> tensor<?xf32>""",
    ],
    ids=["add", "pad"],
)
def test_every_result_needs_room(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = interp.load(main("%x: tensor<?xf32>", "tensor<?xf32>", f"{body}\nreturn %r : tensor<?xf32>"))
    monkeypatch.setattr(memory, "limit", lambda *_: 1 << 20)
    assert program(np.zeros(5, np.float32))
    with pytest.raises(ResourceError, match=r"takes 32.0 MiB, but only 1.0 MiB are available"):
        program(np.zeros(1 << 23, np.float32))


def test_kernels_are_kept_but_not_for_ever() -> None:
    bound: list[Any] = []

    def bind(call: Call) -> Kernel:
        bound.append(call.tensor().shape)
        return lambda x: x

    types = (TensorType((None, 2), ELEMENT_TYPES["f32"]),)
    record = Op("test.same", bind, frozenset(ELEMENT_TYPES.values()), "codes", EXACT, 1, "The operand.")
    kernel = specialize.bind(record, Call(record.name, types, types, {}))
    for n in (1, 2, 1, 2):
        assert kernel(np.zeros((n, 2))).shape == (n, 2)
    assert bound == [(1, 2), (2, 2)]
    for n in (*range(100), 1):
        kernel(np.zeros((n, 2)))
    assert bound.count((1, 2)) == 2
