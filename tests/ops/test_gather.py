"""Gathers with any dimension numbers against the specification's formulas."""

from typing import Any

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import ExecutionError
from minihlo.ops.op import OpError
from minihlo.ops.types import ElementType

from ..places import Numbers, random_numbers
from ..run_op import INTEGERS, TYPES, bind, bounds, codes, from_codes, run, tensor

SEED = 1


def attributes(n: Numbers) -> dict[str, Any]:
    return {
        "offset_dims": n.window_axes,
        "collapsed_slice_dims": n.dropped,
        "operand_batching_dims": n.batching,
        "start_indices_batching_dims": n.of_indices,
        "start_index_map": n.mapped,
        "index_vector_dim": n.vector,
    }


def gather(x: np.ndarray, indices: np.ndarray, n: Numbers, element: str = "i32") -> np.ndarray:
    result = tensor(element, *n.whole)
    return run("gather", x, indices, dimension_numbers=attributes(n), slice_sizes=n.sizes, result=result)


def by_formula(x: np.ndarray, indices: np.ndarray, n: Numbers) -> np.ndarray:
    result = np.empty(n.whole, x.dtype)
    for index in np.ndindex(n.whole):
        result[index] = x[n.element(index, indices, clamp=True)]
    return result


def numbered(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)


def random_case(rng: np.random.Generator, empty: bool = False) -> tuple[np.ndarray, np.ndarray, Numbers]:
    n = random_numbers(rng, empty)
    return numbered(n.shape), rng.integers(-2, 7, n.indices), n


@pytest.mark.parametrize("empty", [False, True])
def test_any_numbers(empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(400):
        x, indices, n = random_case(rng, empty)
        np.testing.assert_array_equal(gather(x, indices, n), by_formula(x, indices, n), err_msg=str(n))


@pytest.mark.parametrize("empty", [False, True])
def test_dynamic_gather(empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(100):
        x, indices, n = random_case(rng, empty)
        actual = run("dynamic_gather", x, indices, np.array(n.sizes, np.int32), dimension_numbers=attributes(n),
                    result=tensor("i32", *n.whole))  # fmt: skip
        np.testing.assert_array_equal(actual, by_formula(x, indices, n), err_msg=str(n))


ROWS = Numbers((4, 3), (1, 3), (1,), (0,), (), (), (0,), 1, (5,))
ELEMENTS = Numbers((256,), (1,), (), (0,), (), (), (0,), 1, (300,))


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_bits_are_moved_as_they_are(element: ElementType) -> None:
    """Every code, NaN with their payloads, one by one and in rows."""
    rng = np.random.default_rng(SEED)
    if element.bits > 64:
        x = rng.integers(0, 1 << 63, 512, np.uint64).view(element.dtype)
    else:
        x = from_codes(np.arange(256) if element.bits <= 8 else rng.integers(0, 1 << 63, 256, np.uint64), element)
    indices = rng.integers(-9, 266, 300)
    actual = gather(x, indices, ELEMENTS, str(element))
    assert codes(actual).tobytes() == b"".join(x[min(max(i, 0), 255)].tobytes() for i in indices.tolist())
    rows = gather(x[:12].reshape(4, 3), np.array([3, -1, 9, 0, 2]), ROWS, str(element))
    assert codes(rows).tobytes() == b"".join(x[3 * i : 3 * i + 3].tobytes() for i in (3, 0, 3, 0, 2))
    scalar = Numbers((256,), (1,), (), (0,), (), (), (0,), 0, ())
    assert gather(x, np.array(7), scalar, str(element)).tobytes() == x[7:8].tobytes()


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_every_type_of_index(element: ElementType) -> None:
    """The ends of each type, and beyond the bounds on either side."""
    low, high = bounds(element)
    values = sorted({v for v in (low, low + 1, -1, 0, 1, 2, 3, 5, high - 1, high) if low <= v <= high})
    indices = from_codes(np.array([v % (1 << 64) for v in values], np.uint64), element)
    n = Numbers((5,), (2,), (1,), (), (), (), (0,), 1, indices.shape)
    actual = gather(numbered((5,)), indices, n)
    assert actual.tolist() == [[s, s + 1] for s in (min(max(v, 0), 3) for v in values)]
    for value, row in zip(indices, actual, strict=True):  # a single slice goes another way
        one = Numbers((5,), (2,), (0,), (), (), (), (0,), 0, ())
        assert gather(numbered((5,)), np.asarray(value, indices.dtype), one).tolist() == row.tolist()


def test_operands_that_are_views() -> None:
    x = numbered((3, 4))[:, ::-1].T
    n = Numbers((4, 3), (1, 3), (1,), (0,), (), (), (0,), 1, (2,))
    assert gather(x, np.array([0, 3]), n).tolist() == [[3, 7, 11], [0, 4, 8]]


@pytest.mark.parametrize(
    ("x", "index", "dim", "batch"),
    [((4, 3), (5,), 0, 0), ((4, 3), (5,), 1, 0), ((2, 4, 3), (2, 5), 1, 1), ((2, 4, 3), (2, 5, 2), 2, 1),
     ((2, 3, 4), (2, 3, 2), 2, 2), ((3,), (), 0, 0), ((2, 3), (2,), 1, 1), ((3, 2), (0,), 0, 0)],
)  # fmt: skip
def test_torch_index_select(x: tuple[int, ...], index: tuple[int, ...], dim: int, batch: int) -> None:
    rng = np.random.default_rng(SEED)
    values, indices = numbered(x), rng.integers(0, x[dim], index)
    expected = np.empty(x[:dim] + index[batch:] + x[dim + 1 :], np.int32)
    for at in np.ndindex(expected.shape):
        chosen = indices[at[:batch] + at[dim : dim + len(index) - batch]]
        expected[at] = values[(*at[:dim], chosen, *at[dim + len(index) - batch :])]
    result = tensor("i32", *expected.shape)
    np.testing.assert_array_equal(
        run("torch_index_select", values, indices, dim=dim, batch_dims=batch, result=result), expected
    )
    beyond = run("torch_index_select", values, indices + 100, dim=dim, batch_dims=batch, result=result)
    clamped = run("torch_index_select", values, indices * 0 + x[dim] - 1, dim=dim, batch_dims=batch, result=result)
    np.testing.assert_array_equal(beyond, clamped)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset_dims": (0, 1)}, "offset_dims"),
        ({"offset_dims": (2,)}, "from 0 to 1, got"),
        ({"collapsed_slice_dims": (0, 0)}, "without repetition"),
        ({"collapsed_slice_dims": (2,)}, "from 0 to 1, got"),
        ({"operand_batching_dims": (1,)}, "pairs"),
        ({"operand_batching_dims": (0,), "start_indices_batching_dims": (0,)}, "without repetition"),
        ({"start_index_map": (0, 1)}, "index vectors have 1"),
        ({"start_index_map": (2,)}, "from 0 to 1, got"),
        ({"index_vector_dim": 2}, "index_vector_dim"),
        ({"slice_sizes": (1,)}, "expected slice_sizes for"),
        ({"slice_sizes": (1, 4)}, "expected slice_sizes of at least 0 that fit"),
        ({"slice_sizes": (2, 3)}, "expected 1"),
        ({"slice_sizes": (0, 3)}, "expected 1"),
        ({"slice_sizes": (1, 2)}, "expected a result of shape"),
    ],
)
def test_errors(change: dict[str, Any], message: str) -> None:
    numbers = attributes(ROWS) | {k: v for k, v in change.items() if k != "slice_sizes"}
    with pytest.raises(OpError, match=message):
        bind("gather", [tensor("i32", 4, 3), tensor("i64", 5)], tensor("i32", 5, 3),
             dimension_numbers=numbers, slice_sizes=change.get("slice_sizes", (1, 3)))  # fmt: skip


def test_errors_of_types_and_while_running() -> None:
    numbers = {"dimension_numbers": attributes(ROWS), "slice_sizes": (1, 3)}
    with pytest.raises(OpError, match="integers"):
        bind("gather", [tensor("i32", 4, 3), tensor("f32", 5)], tensor("i32", 5, 3), **numbers)
    with pytest.raises(OpError, match="expected element type"):
        bind("gather", [tensor("i32", 4, 3), tensor("i64", 5)], tensor("f32", 5, 3), **numbers)
    sizes = """func.func @main(%x: tensor<4x3xi32>, %i: tensor<5xi64>, %s: tensor<2xi64>) -> tensor<5x3xi32> {
      %r = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>}
        : (tensor<4x3xi32>, tensor<5xi64>, tensor<2xi64>) -> tensor<5x3xi32>
      return %r : tensor<5x3xi32> }"""
    with pytest.raises(ExecutionError, match=r"2:.*dynamic_gather: .*expected slice_sizes of at least 0 that fit"):
        load(sizes)(numbered((4, 3)), np.zeros(5, int), np.array([1, 4]))
