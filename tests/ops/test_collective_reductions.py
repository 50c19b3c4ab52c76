"""Reductions among processes: their order, types and rounding."""

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.policy import Policy

from .grids import ADD, ADD_I64, groups, program, run


def reduced(arrays: list[np.ndarray], body: str, order: list[int], policy: Policy | None = None) -> list[np.ndarray]:
    """The results of all_reduce, of each process."""
    text = f'%r:1 = "stablehlo.all_reduce"(%x0) {body} {{{groups([order])}}} : (TYPE) -> TYPE'
    t = program("", "TYPE", (len(arrays), 1), [[a] for a in arrays]).partition("%x0: ")[2].partition(")")[0]
    return [x for (x,) in run(text.replace("TYPE", t), t, (len(arrays), 1), [[a] for a in arrays], policy)]


def test_members_are_added_in_the_order_of_the_group():
    # f8E4M3FN has four significant bits: 16 + 1 is 16 (ties to even), and 1 + 1 + 16 is 18.
    arrays = [np.array([v], ml_dtypes.float8_e4m3fn) for v in (16, 1, 1)]
    body = ADD.replace("T", "f8E4M3FN")
    assert [x.view(np.uint8).tolist() for x in reduced(arrays, body, [0, 1, 2])] == [[0x58]] * 3  # 16
    assert [x.view(np.uint8).tolist() for x in reduced(arrays, body, [1, 2, 0])] == [[0x59]] * 3  # 18


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0]])
@pytest.mark.parametrize("size", [1, 3, 500])
def test_f32_is_rounded_after_each_member(order, size):
    values = np.array([1, 1e8, -1e8, 3], np.float32)
    total = np.float32(values[order[0]])
    for i in order[1:]:
        total = np.float32(total + values[i])
    actual = reduced([np.full(size, v, np.float32) for v in values], ADD.replace("T", "f32"), order)
    assert all((x == total).all() and x.shape == (size,) for x in actual)


def test_any_body():
    body = """({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %two = stablehlo.constant dense<2> : tensor<i32>
        %d = stablehlo.multiply %a, %two : tensor<i32>
        %s = stablehlo.subtract %d, %b : tensor<i32>
        stablehlo.return %s : tensor<i32>
    })"""
    actual = reduced([np.array([[i, 10 * i]], np.int32) for i in (1, 2, 3)], body, [2, 0, 1])
    assert [x.tolist() for x in actual] == [[[2 * (2 * 3 - 1) - 2, 2 * (2 * 30 - 10) - 20]]] * 3


def test_a_body_of_a_wider_type():
    body = ADD.replace("T", "f32")
    text = f'%r:1 = "stablehlo.all_reduce"(%x0) {body} {{{groups([[0, 1]])}}} : (tensor<2xf16>) -> tensor<2xf32>'
    inputs = [[np.array([2048, 1], np.float16)], [np.array([1, 2], np.float16)]]
    actual = run(text, "tensor<2xf32>", (2, 1), inputs)
    assert [x.tolist() for (x,) in actual] == [[2049, 3]] * 2  # f16 would have 2048


@pytest.mark.parametrize(
    ("dtype", "name", "values", "total"),
    [
        (bool, "i1", [True, False, True], True),
        (ml_dtypes.int4, "i4", [7, 1, 0], -8),
        (np.uint8, "ui8", [255, 1, 2], 2),
        (np.complex64, "complex<f32>", [1 + 2j, 3j, 1], 2 + 5j),
        (np.float32, "f32", [-0.0, -0.0, -0.0], -0.0),
        (np.float32, "f32", [np.inf, 1, -np.inf], np.nan),
        (ml_dtypes.float8_e5m2fnuz, "f8E5M2FNUZ", [np.nan, 1, 2], np.nan),
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (5,)])
def test_types_and_shapes(dtype, name, values, total, shape):
    arrays = [np.full(shape, v).astype(dtype) for v in values]
    expected = np.full(shape, total).astype(dtype)
    for actual in reduced(arrays, ADD.replace("T", name), [0, 1, 2]):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if not (np.asarray(total) != np.asarray(total)).any():
            assert actual.tobytes() == expected.tobytes()
        else:
            assert np.isnan(actual.astype(np.float32)).all()


def test_groups_of_unlike_length():
    text = (
        f'%r:1 = "stablehlo.all_reduce"(%x0) {ADD_I64} {{{groups([[0, 2], [1, -1]])}}} : (tensor<i64>) -> tensor<i64>'
    )
    actual = run(text, "tensor<i64>", (3, 1), [[np.array(i)] for i in (1, 2, 4)])
    assert [int(x) for (x,) in actual] == [5, 2, 5]


def test_cross_replica_sum():
    t = "tensor<2xf8E4M3FN>"
    text = f'%r:1 = "stablehlo.cross-replica-sum"(%x0) {{{groups([[1, 2, 0]])}}} : ({t}) -> {t}'
    inputs = [[np.array([v, w], ml_dtypes.float8_e4m3fn)] for v, w in ((16, 2), (1, 3), (1, 4))]
    actual = run(text, t, (3, 1), inputs)
    assert [x.astype(float).tolist() for (x,) in actual] == [[18, 9]] * 3


def test_stochastic_rounding_in_groups():
    arrays = [np.full(200, v, ml_dtypes.float8_e4m3fn) for v in (16, 1)]  # 17 is halfway between 16 and 18
    body, policy = ADD.replace("T", "f8E4M3FN"), Policy(rounding="stochastic", seed=3)
    first, second = (np.array(reduced(arrays, body, [0, 1], policy)).astype(float) for _ in range(2))
    assert (first == second).all()
    assert (first[0] == first[1]).all()
    assert set(first[0]) == {16, 18}
    other = reduced(arrays, body, [0, 1], Policy(rounding="stochastic", seed=4))[0].astype(float)
    assert (other != first[0]).any()


@pytest.mark.parametrize("late", [0, 1])
def test_stochastic_rounding_does_not_depend_on_who_is_late(late):
    body = f"""%me = stablehlo.replica_id : tensor<ui32>
      %late = stablehlo.constant dense<{late}> : tensor<ui32>
      %iterations = stablehlo.constant dense<30000> : tensor<ui32>
      %zero = stablehlo.constant dense<0> : tensor<ui32>
      %one = stablehlo.constant dense<1> : tensor<ui32>
      %is = stablehlo.compare EQ, %me, %late : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
      %n = stablehlo.select %is, %iterations, %zero : tensor<i1>, tensor<ui32>
      %w = stablehlo.while(%i = %zero) : tensor<ui32>
      cond {{
        %c = stablehlo.compare LT, %i, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }} do {{
        %j = stablehlo.add %i, %one : tensor<ui32>
        stablehlo.return %j : tensor<ui32>
      }}
      %r:1 = "stablehlo.all_reduce"(%x0) {ADD.replace("T", "f8E4M3FN")} {{{groups([[0, 1]])}}} : (TYPE) -> TYPE"""
    t = "tensor<50xf8E4M3FN>"
    arrays = [np.full(50, v, ml_dtypes.float8_e4m3fn) for v in (16, 1)]
    policy = Policy(rounding="stochastic", seed=3)
    actual = run(body.replace("TYPE", t), t, (2, 1), [[a] for a in arrays], policy)
    expected = reduced(arrays, ADD.replace("T", "f8E4M3FN"), [0, 1], policy)[0]
    assert [x.tobytes() for (x,) in actual] == [expected.tobytes()] * 2
