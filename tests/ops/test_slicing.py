"""Slices, fixed and computed: every element type, every place, against the specification's formulas."""

import itertools

import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.types import ElementType

from ..run_op import INTEGERS, TYPES, bind, codes, from_codes, run, tensor

ANY = pytest.mark.parametrize("element", TYPES, ids=str)


def numbered(element: ElementType, *shape: int) -> np.ndarray:
    """Codes from 0 on, as far as they go; an element of 128 bits twice its number."""
    n = np.arange(np.prod(shape, dtype=int))
    if element.bits > 64:
        return np.repeat(n.astype(np.uint64), 2).view(element.dtype).reshape(shape)
    return from_codes(n, element).reshape(shape)


@ANY
def test_slice(element: ElementType) -> None:
    x = numbered(element, 5, 6)
    actual = run("slice", x, start_indices=(1, 0), limit_indices=(4, 6), strides=(1, 4), result=tensor(element, 3, 2))
    assert codes(actual).tobytes() == b"".join(codes(x[i, j]).tobytes() for i in (1, 2, 3) for j in (0, 4))
    scalar = x[0, 1:2].reshape(())
    whole = run("slice", scalar, start_indices=(), limit_indices=(), strides=(), result=tensor(element))
    assert whole.tobytes() == scalar.tobytes()


def test_every_slice() -> None:
    for n in range(5):
        x = np.arange(n)
        for start, limit, stride in itertools.product(range(n + 1), range(n + 1), (1, 2, 3, 9)):
            if start <= limit:
                expected = [start + k * stride for k in range(n) if start + k * stride < limit]
                actual = run("slice", x, start_indices=start, limit_indices=limit, strides=stride,
                            result=tensor("i64", len(expected)))  # fmt: skip
                assert actual.tolist() == expected


@ANY
def test_dynamic_slices(element: ElementType) -> None:
    x, update = numbered(element, 4, 5), numbered(element, 2, 3)[::-1]
    for i, j in itertools.product((-3, 0, 1, 2, 3), (-1, 1, 2, 4)):
        starts = (np.array(i, np.int32), np.array(j, np.int32))
        row, column = min(max(i, 0), 2), min(max(j, 0), 2)
        actual = run("dynamic_slice", x, *starts, slice_sizes=(2, 3), result=tensor(element, 2, 3))
        assert codes(actual).tobytes() == codes(x[row : row + 2, column : column + 3]).tobytes()
        actual = run("dynamic_update_slice", x, update, *starts, result=tensor(element, 4, 5))
        for a, b in np.ndindex(4, 5):
            inside = 0 <= a - row < 2 and 0 <= b - column < 3
            assert actual[a, b].tobytes() == (update[a - row, b - column] if inside else x[a, b]).tobytes()


@pytest.mark.parametrize("index", INTEGERS, ids=str)
def test_starts_of_every_type(index: ElementType) -> None:
    x = np.arange(10)
    for code in {0, 1, 2, (1 << index.bits) - 1, 1 << (index.bits - 1), (1 << (index.bits - 1)) - 1}:
        start = from_codes(code, index)
        number = code - (1 << index.bits) if index.name[0] == "i" and code >> (index.bits - 1) else code
        low = min(max(number, 0), 7)
        actual = run("dynamic_slice", x, start, slice_sizes=(3,), result=tensor("i64", 3))
        assert actual.tolist() == [low, low + 1, low + 2]
        scalar_of_numpy = start[()]
        kernel = bind("dynamic_slice", [tensor("i64", 10), tensor(index)], tensor("i64", 3), slice_sizes=(3,))
        assert kernel(x, scalar_of_numpy).tolist() == [low, low + 1, low + 2]


def test_windows_that_fill_or_are_empty() -> None:
    x, one = np.arange(6).reshape(2, 3), np.array(1)
    for place in (0, 1, 5, -5):
        start = np.array(place)
        actual = run("dynamic_slice", x, start, one, slice_sizes=(2, 3), result=tensor("i64", 2, 3))
        np.testing.assert_array_equal(actual, x)
        actual = run("dynamic_update_slice", x, x + 1, start, one, result=tensor("i64", 2, 3))
        np.testing.assert_array_equal(actual, x + 1)
        actual = run("dynamic_slice", x, start, one, slice_sizes=(0, 3), result=tensor("i64", 0, 3))
        assert actual.size == 0
        actual = run("dynamic_update_slice", x, x[:0], start, one, result=tensor("i64", 2, 3))
        np.testing.assert_array_equal(actual, x)
    scalar = np.array(4.0)
    assert run("dynamic_slice", scalar, slice_sizes=(), result=tensor("f64")) == 4
    assert run("dynamic_update_slice", scalar, scalar + 1, result=tensor("f64")) == 5


I32 = tensor("i32", 2, 3)
INDEX = tensor("i64")


@pytest.mark.parametrize(
    ("starts", "limits", "strides", "result", "message"),
    [
        ((0,), (2, 3), (1, 1), I32, "one for each dimension"),
        ((0, 0), (2, 4), (1, 1), I32, "cannot take 0 to 4 of 3"),
        ((0, 2), (2, 1), (1, 1), I32, "cannot take 2 to 1 of 3"),
        ((-1, 0), (2, 3), (1, 1), I32, "cannot take -1"),
        ((0, 0), (2, 3), (1, 0), I32, "expected positive strides, got 0"),
        ((0, 0), (2, 3), (1, 2), I32, r"expected a result of shape \[2, 2\]"),
        ((0, 0), (2, 3), (1, 1), tensor("f32", 2, 3), "expected element type"),
    ],
)
def test_slice_errors(starts, limits, strides, result, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("slice", [I32], result, start_indices=starts, limit_indices=limits, strides=strides)


@pytest.mark.parametrize(
    ("starts", "sizes", "result", "message"),
    [
        ([INDEX], (1, 1), tensor("i32", 1, 1), "start index for each of 2 dimensions, got 1"),
        ([INDEX, tensor("i32")], (1, 1), tensor("i32", 1, 1), "expected the same"),
        ([tensor("f32")] * 2, (1, 1), tensor("i32", 1, 1), "scalar integer"),
        ([tensor("i64", 1)] * 2, (1, 1), tensor("i32", 1, 1), "scalar integer"),
        ([INDEX] * 2, (1, 4), tensor("i32", 1, 4), "expected slice_sizes that fit"),
        ([INDEX] * 2, (-1, 3), tensor("i32", 1, 3), "expected slice_sizes that fit"),
        ([INDEX] * 2, (1,), tensor("i32", 1), "expected slice_sizes that fit"),
        ([INDEX] * 2, (1, 1), tensor("i32", 1, 2), r"expected a result of shape \[1, 1\]"),
    ],
)
def test_dynamic_slice_errors(starts, sizes, result, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("dynamic_slice", [I32, *starts], result, slice_sizes=sizes)


@pytest.mark.parametrize(
    ("update", "starts", "result", "message"),
    [
        (tensor("f32", 1, 1), [INDEX] * 2, I32, "expected element type"),
        (tensor("i32", 1), [INDEX] * 2, I32, "expected an update that fits"),
        (tensor("i32", 1, 4), [INDEX] * 2, I32, "expected an update that fits"),
        (tensor("i32", 1, 1), [INDEX], I32, "got 1"),
        (tensor("i32", 1, 1), [INDEX] * 2, tensor("i32", 3, 2), r"expected a result of shape \[2, 3\]"),
    ],
)
def test_dynamic_update_slice_errors(update, starts, result, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("dynamic_update_slice", [I32, update, *starts], result)
