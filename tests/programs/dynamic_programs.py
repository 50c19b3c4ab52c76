"""Programs whose types leave sizes open, with their inputs and what numpy makes of these."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

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
