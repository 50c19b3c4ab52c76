"""reduce_window against plain loops written from the specification and ml_dtypes."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.reductions.axes import Axis, windows

from ..run_op import TYPES, from_codes, tensor
from ..windows import (
    ADD,
    BODIES,
    CHOICE,
    SEED,
    Windows,
    bind,
    by_formula,
    extreme,
    program,
    random_case,
    random_windows,
    wrapped,
)


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_any_windows(name: str, empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    body, combine = BODIES[name]
    for _ in range(15 if empty else 40):
        w, x, init = random_case(rng, empty=empty)
        (actual,) = load(program(w, body))(x, init)
        np.testing.assert_array_equal(actual, by_formula(x, init, w, wrapped(combine)), err_msg=str(w))


POOL = Windows((1, 17, 14), (1, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (0, 1)), (1, 1, 1), (1, 1, 2))


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_float and t.bits <= 16], ids=str)
@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply"])
def test_small_floats(element: Any, op: str) -> None:
    """Every code, rounded at every step as ml_dtypes' scalars are, but for which NaN and the sign of zero."""
    if element.name == "f8E8M0FNU":
        pytest.skip("ml_dtypes has other ideas of what vanishes")
    rng = np.random.default_rng(SEED)
    x = from_codes(rng.permutation(238) if element.bits <= 8 else rng.integers(0, 1 << 16, 238), element)
    x = x.reshape(POOL.shape)
    init = np.array(1).astype(x.dtype)
    if element.bits < 8:
        x = np.where(rng.random(x.shape) < 0.5, init, x)
    (actual,) = load(program(POOL, BODIES.get(op, (f"%z = stablehlo.{op} %x, %y : T",))[0], str(element)))(x, init)
    expected = by_formula(x, init[()], POOL, getattr(np, op))
    assert actual.dtype == expected.dtype
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(actual.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_minifloat], ids=str)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_of_all_pairs_of_numbers(element: Any, op: str) -> None:
    """Also beside a window with NaN, where the op itself folds all windows."""
    codes = np.arange(1 << element.bits)
    numbers = from_codes(codes, element).astype(np.float64)
    ordered = codes[np.lexsort((~np.signbit(numbers), numbers))]  # -0 below +0, and NaN last
    ordered, nan = ordered[~np.isnan(numbers[ordered])], ordered[np.isnan(numbers[ordered])][:1]
    places = np.indices((len(ordered),) * 2).reshape(2, -1)
    best = ordered[places.max(0) if op == "maximum" else places.min(0)]
    init = from_codes(ordered[0 if op == "maximum" else -1], element)
    for beside in (nan[:0], nan):
        pairs = from_codes(np.concatenate([ordered[places.T], np.resize(nan, (len(beside), 2))]), element)
        window = Windows(pairs.shape, (1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1), (1, 1))
        (pooled,) = load(program(window, f"%z = stablehlo.{op} %x, %y : T", str(element)))(pairs, init)
        assert np.array_equal(pooled[: len(best), 0].view(np.uint8), best)
        assert np.isnan(pooled[len(best) :].astype(np.float32)).all()


def test_several_operands() -> None:
    """The greatest of each window and where it is; the first of equals."""
    text = """func.func @main(%a: tensor<8xf8E5M2>, %b: tensor<8xi32>, %i: tensor<f8E5M2>, %j: tensor<i32>)
        -> (tensor<6xf8E5M2>, tensor<6xi32>) {
      %r:2 = "stablehlo.reduce_window"(%a, %b, %i, %j) ({
      ^bb0(%w: tensor<f8E5M2>, %x: tensor<i32>, %y: tensor<f8E5M2>, %z: tensor<i32>):
        %c = stablehlo.compare GE, %w, %y : (tensor<f8E5M2>, tensor<f8E5M2>) -> tensor<i1>
        %0 = stablehlo.select %c, %w, %y : tensor<i1>, tensor<f8E5M2>
        %1 = stablehlo.select %c, %x, %z : tensor<i1>, tensor<i32>
        stablehlo.return %0, %1 : tensor<f8E5M2>, tensor<i32>
      }) {window_dimensions = array<i64: 3>}
        : (tensor<8xf8E5M2>, tensor<8xi32>, tensor<f8E5M2>, tensor<i32>) -> (tensor<6xf8E5M2>, tensor<6xi32>)
      return %r#0, %r#1 : tensor<6xf8E5M2>, tensor<6xi32> }"""
    dtype = ml_dtypes.float8_e5m2
    x = np.array([1, 3, 3, 2, 0, -1, 0, 5]).astype(dtype)
    arrays = x, np.arange(8, dtype=np.int32), np.array(-np.inf).astype(dtype), np.array(-1, np.int32)
    best, place = load(text)(*arrays)
    assert best.astype(float).tolist() == [3, 3, 3, 2, 0, 5]
    assert place.tolist() == [1, 1, 2, 3, 4, 7]


def test_a_wider_body() -> None:
    w = Windows((6,), (3,), (1,), ((0, 0),), (1,), (1,))
    (actual,) = load(program(w, BODIES["add"][0], "i8", wide="i32"))(np.full(6, 127, np.int8), np.array(1, np.int8))
    assert actual.dtype == np.int32
    assert actual.tolist() == [382] * 4
    x = np.full(6, 448, ml_dtypes.float8_e4m3fn)
    (actual,) = load(program(w, BODIES["add"][0], "f8E4M3FN", wide="f32"))(x, x[0, ...])
    assert actual.tolist() == [1792] * 4


def test_a_body_that_uses_what_is_outside() -> None:
    w = Windows((4,), (2,), (1,), ((0, 0),), (1,), (1,))
    text = program(w, "%t = stablehlo.multiply %y, %f : T\n %z = stablehlo.add %x, %t : T")
    text = text.replace("%i: tensor<i32>)", "%i: tensor<i32>, %f: tensor<i32>)")
    actual = load(text)(np.arange(4, dtype=np.int32), np.array(1, np.int32), np.array(10, np.int32))[0]
    assert actual.tolist() == [11, 31, 51]


def test_rounding() -> None:
    w = Windows((64,), (64,), (1,), ((0, 0),), (1,), (1,))
    x = np.full(64, 0.75, ml_dtypes.float8_e4m3fn)
    text = program(w, BODIES["add"][0], "f8E4M3FN")
    zero = np.zeros((), x.dtype)
    assert float(load(text)(x, zero, policy=Policy(rounding="toward_zero"))[0][0]) == 8  # 8 + 0.75 is 8 again
    assert 30 < float(load(text)(x, zero, policy=Policy(rounding="stochastic"))[0][0]) < 70


@pytest.mark.parametrize("init", [None, 0.0, -0.0], ids=["what loses", "0", "-0"])
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_of_the_host_floats(op: str, element: str, init: float | None) -> None:
    dtype, word = np.dtype(element.replace("f", "float")), np.dtype(element.replace("f", "uint"))
    start = dtype.type((-np.inf if op == "maximum" else np.inf) if init is None else init)
    rng = np.random.default_rng(SEED)
    w = Windows((40, 60), (2, 3), (2, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    run = load(program(w, f"%z = stablehlo.{op} %x, %y : T", element))

    for share, of_nan in ((0.0, 0.0), (0.05, 0.0), (0.0, 0.001), (0.5, 0.3)):  # of zeros, and of NaN of many codes
        x = (abs(rng.normal(size=(40, 60))) * (-1 if op == "maximum" else 1)).astype(dtype)
        x[:9] *= -1
        x[rng.random(x.shape) < share] = -np.inf
        x[rng.random(x.shape) < share] = 0.0
        x[rng.random(x.shape) < share] = -0.0
        x[20, 5::12], x[20, 6::12] = 0.0, -0.0  # a few windows of both
        x[30, 6::12], x[30, 5::12] = 0.0, -0.0
        nan = rng.random(x.shape) < of_nan
        x.view(word)[nan] = np.array(np.nan, dtype).view(word) + rng.integers(0, 99, nan.sum()).astype(word)
        (actual,) = run(x, start)
        np.testing.assert_array_equal(
            actual.view(word), by_formula(x, start, w, extreme(op)).view(word), err_msg=str(share)
        )


_NUMBERS = np.array([-0.0, 0.0, 1, 0.25, -1, 3e38, 1e-45, np.inf, -np.inf, np.nan], np.float32)


def test_sums_of_floats() -> None:
    """Each sum is that of its window from the left, gaps and padding included: bit by bit, but for NaN."""
    rng = np.random.default_rng(SEED)
    for number in range(90):
        w = random_windows(rng)
        x, init = rng.choice(_NUMBERS, w.shape), np.array((0.0, -0.0, 1.0)[number % 3], np.float32)
        expected = by_formula(x, init, w, lambda a, b: np.add(a, b))
        (actual,) = load(program(w, BODIES["add"][0], "f32"))(x, init)
        np.testing.assert_array_equal(actual, expected, err_msg=str(w))
        is_number = expected == expected
        assert np.signbit(actual)[is_number].tolist() == np.signbit(expected)[is_number].tolist()


def test_memory_is_that_of_the_windows() -> None:
    """Far padding, dilation and strides cost nothing where no window comes to."""
    far = 10**12
    axis = Axis(3, 2, far, far, 2 * far, far // 2, far // 2)
    assert axis.count == 4
    view = windows(np.array([1, 2, 3]), 0, [axis])
    assert view.tolist() == [[0, 1, 3, 0], [0, 2, 0, 0]]
    no_copy = np.arange(12).reshape(3, 4)
    assert np.shares_memory(windows(no_copy, 0, [Axis(3, 2), Axis(4, 3)]), no_copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"window_dimensions": (3,)}, "must have 2 numbers"),
        ({"window_strides": (1, 1, 1)}, "must have 2 numbers"),
        ({"padding": np.zeros((1, 2), int)}, "must have 4 numbers"),
        ({"window_dimensions": (0, 2)}, "expected positive"),
        ({"window_strides": (1, -1)}, "expected positive"),
        ({"base_dilations": (1, 0)}, "expected positive"),
        ({"window_dilations": (1, 0)}, "expected positive"),
        ({"window_dimensions": (2, 2)}, "expected a result of shape"),
        ({"operands": (tensor("i32", 4, 5),)}, "initial values"),
        ({"operands": (tensor("i32", 4, 5), tensor("i8"))}, "an initial value is"),
        ({"results": (tensor("i8", 2, 5),)}, "a result is"),
        ({"bodies": ()}, "regions"),
        ({"bodies": (CHOICE,)}, "body has type"),
    ],
)
def test_errors_of_reduce_window(change: dict[str, Any], message: str) -> None:
    plain: dict[str, Any] = {
        "operands": (tensor("i32", 4, 5), tensor("i32")),
        "results": (tensor("i32", 2, 5),),
        "bodies": (ADD,),
    }
    attributes = {"window_dimensions": (3, 1)}
    bind("reduce_window", attributes, **plain)
    changed = attributes | {k: v for k, v in change.items() if k not in plain}
    plain |= {k: v for k, v in change.items() if k in plain}
    with pytest.raises(OpError, match=message):
        bind("reduce_window", changed, **plain)
