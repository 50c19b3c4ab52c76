"""Scatters against a plain loop over the updates and ml_dtypes."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from ..places import Numbers, dims, listed, random_numbers
from ..run_op import INTEGERS, TYPES, bounds, codes, from_codes, tensor
from ..windows import extreme

SEED = 11
Combine = Callable[[Any, Any], Any]

#: Bodies that compute %z from %x, what is there, and %y, the update; none but the first two is free of order.
BODIES: dict[str, tuple[str, Combine]] = {
    "add": ("%z = stablehlo.add %x, %y : T", lambda x, y: x + y),
    "maximum": ("%z = stablehlo.maximum %x, %y : T", max),
    "subtract": ("%z = stablehlo.subtract %x, %y : T", lambda x, y: x - y),
    "reversed": ("%z = stablehlo.subtract %y, %x : T", lambda x, y: y - x),
    "two ops": ("%t = stablehlo.add %x, %x : T\n %z = stablehlo.subtract %t, %y : T", lambda x, y: 2 * x - y),
    "set": ("%z = stablehlo.convert %y : T", lambda x, y: y),
    "constant": ("%z = stablehlo.constant dense<7> : T", lambda x, y: 7),
    "not elementwise": (
        """%t = stablehlo.broadcast_in_dim %x, dims = [] : (T) -> tensor<2xi32>
        %s = stablehlo.slice %t [0:1] : (tensor<2xi32>) -> tensor<1xi32>
        %v = stablehlo.reshape %s : (tensor<1xi32>) -> T
        %z = stablehlo.subtract %y, %v : T""",
        lambda x, y: y - x,
    ),
}


def numbers_text(n: Numbers) -> str:
    return (
        f"update_window_dims = {listed(n.window_axes)}, inserted_window_dims = {listed(n.dropped)}, "
        f"input_batching_dims = {listed(n.batching)}, scatter_indices_batching_dims = {listed(n.of_indices)}, "
        f"scatter_dims_to_operand_dims = {listed(n.mapped)}, index_vector_dim = {n.vector}"
    )


def program(n: Numbers, body: str, element: str = "i32", index: str = "i64", wide: str = "") -> str:
    wide = wide or element
    types = [f"tensor<{dims(shape)}{e}>" for shape, e in ((n.shape, element), (n.indices, index), (n.whole, element))]
    result = f"tensor<{dims(n.shape)}{wide}>"
    body = re.sub(r"\bT\b", f"tensor<{wide}>", body)
    return f"""
    func.func @main(%a: {types[0]}, %i: {types[1]}, %u: {types[2]}) -> {result} {{
      %r = "stablehlo.scatter"(%a, %i, %u) ({{
      ^bb0(%x: tensor<{wide}>, %y: tensor<{wide}>):
        {body}
        stablehlo.return %z : tensor<{wide}>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<{numbers_text(n)}>}}
        : ({", ".join(types)}) -> {result}
      return %r : {result}
    }}""".replace("%z = stablehlo.convert %y : tensor<i32>", "").replace(
        "return %z", "return %y" if "convert %y" in body else "return %z"
    )


def by_formula(x: np.ndarray, indices: np.ndarray, updates: np.ndarray, n: Numbers, combine: Combine) -> np.ndarray:
    """In the order of the updates; every element in or out of bounds by itself."""
    result = x.copy()
    for index in np.ndindex(n.whole):
        at = n.element(index, indices, clamp=False)
        if all(0 <= i < size for i, size in zip(at, n.shape, strict=True)):
            old, new = result[at], updates[index]
            with np.errstate(all="ignore"):
                result[at] = combine(int(old), int(new)) if x.dtype.kind == "i" else combine(old, new)
    return result


def random_case(rng: np.random.Generator, empty: bool = False) -> tuple[Numbers, np.ndarray, np.ndarray, np.ndarray]:
    n = random_numbers(rng, empty)
    x, updates = (rng.integers(-9, 10, shape, np.int32) for shape in (n.shape, n.whole))
    return n, x, rng.integers(-2, 6, n.indices), updates


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("name", BODIES)
def test_any_numbers(name: str, empty: bool) -> None:
    rng = np.random.default_rng(SEED)
    body, combine = BODIES[name]
    for _ in range(15 if empty else 50):
        n, x, indices, updates = random_case(rng, empty)
        before = x.copy()
        (actual,) = load(program(n, body))(x, indices, updates)
        np.testing.assert_array_equal(actual, by_formula(x, indices, updates, n, combine), err_msg=f"{n} {indices}")
        np.testing.assert_array_equal(x, before)


def elements(size: int, count: int) -> Numbers:
    """Single elements of a vector."""
    return Numbers((size,), (1,), (), (0,), (), (), (0,), 1, (count, 1))


def rows(size: int, width: int, count: int) -> Numbers:
    return Numbers((size, width), (1, width), (1,), (0,), (), (), (0,), 1, (count, 1))


#: Few collisions, many, all on one element, and some far apart.
CROWDS = pytest.mark.parametrize(("size", "count"), [(3000, 2000), (300, 3000), (5, 1000), (1, 300), (40_000, 300)])


def crowded(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """Indices; in a large tensor, only of every hundredth element."""
    step = 100 if size > 10_000 else 1
    return rng.integers(0, -(-size // step), (count, 1)) * step


@CROWDS
@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2fnuz", "float4_e2m1fn", "bfloat16", "float16", "float32"]
)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "maximum"])
def test_collisions_in_order(name: str, op: str, size: int, count: int) -> None:
    """Rounded after every update, in order, bit for bit; results are taken from ml_dtypes' scalars."""
    rng = np.random.default_rng(SEED)
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    element = next(str(t) for t in TYPES if t.dtype == dtype)
    n, combine = elements(size, count), getattr(np, op)
    x, updates = (rng.choice([-1, 1], k).astype(dtype) * rng.uniform(0.5, 2, k).astype(dtype) for k in (size, count))
    indices = crowded(rng, size, count)
    (actual,) = load(program(n, BODIES.get(op, (f"%z = stablehlo.{op} %x, %y : T",))[0], element))(x, indices, updates)
    expected = by_formula(x, indices, updates, n, combine)
    assert codes(actual).tolist() == codes(expected).tolist()


@CROWDS
@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "multiply", "and", "or", "xor", "subtract"])
def test_collisions_of_integers(op: str, size: int, count: int) -> None:
    rng = np.random.default_rng(SEED)
    python = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__, "maximum": max, "minimum": min,
              "and": int.__and__, "or": int.__or__, "xor": int.__xor__}[op]  # fmt: skip
    n, indices = elements(size, count), crowded(rng, size, count)
    for element in (t for t in INTEGERS if t.bits in (4, 8, 64) and not (op == "subtract" and t.bits == 64)):
        low, high = bounds(element)
        x, updates = (
            from_codes(rng.integers(0, 1 << 63, k, np.uint64) >> np.uint64(5), element) for k in (size, count)
        )
        expected = [int(v) for v in x]
        for i, u in zip(indices[:, 0], updates, strict=True):
            expected[i] = (python(expected[i], int(u)) - low) % (high - low + 1) + low
        (actual,) = load(program(n, f"%z = stablehlo.{op} %x, %y : T", str(element)))(x, indices, updates)
        assert [int(v) for v in actual] == expected


@pytest.mark.parametrize("element", TYPES, ids=str)
def test_set_moves_bits_as_they_are(element: ElementType) -> None:
    """NaN with their payloads; the last update of an element stays."""
    rng = np.random.default_rng(SEED)
    if element.bits > 64:
        x, updates = (rng.integers(0, 1 << 63, 2 * k, np.uint64).view(element.dtype) for k in (300, 400))
    else:
        x, updates = (from_codes(rng.integers(0, 1 << 63, k, np.uint64) >> np.uint64(3), element) for k in (300, 400))
    n, indices = elements(300, 400), rng.integers(-1, 301, (400, 1))
    (actual,) = load(program(n, "", str(element)).replace("%z", "%y"))(x, indices, updates)
    expected = [v.tobytes() for v in x]
    for i, u in zip(indices[:, 0].tolist(), updates, strict=True):
        if 0 <= i < 300:
            expected[i] = u.tobytes()
    assert actual.tobytes() == b"".join(expected)


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_every_type_of_index(element: ElementType) -> None:
    low, high = bounds(element)
    values = sorted({v for v in (low, low + 1, -2, -1, 0, 1, 2, 3, high - 1, high) if low <= v <= high})
    indices = from_codes(np.array([v % (1 << 64) for v in values], np.uint64), element)
    n = Numbers((3,), (2,), (1,), (), (), (), (0,), 1, indices.shape)
    updates = np.arange(2 * len(values), dtype=np.int32).reshape(-1, 2) + 1
    expected = [0, 0, 0]
    for v, pair in zip(values, updates.tolist(), strict=True):
        for place, u in zip((v, v + 1), pair, strict=True):
            if 0 <= place < 3:
                expected[place] += u
    body = BODIES["add"][0]
    zeros = np.zeros(3, np.int32)
    assert load(program(n, body, index=str(element)))(zeros, indices, updates)[0].tolist() == expected
    one = Numbers((3,), (2,), (0,), (), (), (), (0,), 0, ())  # a single window goes another way
    actual = [
        load(program(one, body, index=str(element)))(zeros, i, u)[0] for i, u in zip(indices, updates, strict=True)
    ]
    assert sum(actual).tolist() == expected


@pytest.mark.parametrize("height", [0, 3])
def test_empty_windows_and_indices(height: int) -> None:
    """Two windows of a row's `height` elements, all of them at the start: index vectors have no elements."""
    text = f"""func.func @main(%a: tensor<{height}x6xi8>, %u: tensor<1x2x{height}xi8>) -> tensor<{height}x6xi8> {{
      %i = stablehlo.constant dense<> : tensor<0x1x2xi8>
      %r = "stablehlo.scatter"(%a, %i, %u) ({{
      ^bb0(%x: tensor<i8>, %y: tensor<i8>):
        %s = stablehlo.add %x, %y : tensor<i8>
        stablehlo.return %s : tensor<i8>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1],
          index_vector_dim = 0>}}
        : (tensor<{height}x6xi8>, tensor<0x1x2xi8>, tensor<1x2x{height}xi8>) -> tensor<{height}x6xi8>
      return %r : tensor<{height}x6xi8> }}"""
    a, u = np.ones((height, 6), np.int8), np.arange(2 * height, dtype=np.int8).reshape(1, 2, height)
    (actual,) = load(text)(a, u)
    assert actual.tolist() == [[1 + 2 * i + height, 1, 1, 1, 1, 1] for i in range(height)]


def test_several_operands() -> None:
    """An argmax: the greatest value and where it came from; ties keep the first."""
    text = """func.func @main(%a: tensor<4xf8E4M3FN>, %b: tensor<4xi32>, %i: tensor<60x1xi32>,
                              %u: tensor<60xf8E4M3FN>, %v: tensor<60xi32>) -> (tensor<4xf8E4M3FN>, tensor<4xi32>) {
      %r:2 = "stablehlo.scatter"(%a, %b, %i, %u, %v) ({
      ^bb0(%w: tensor<f8E4M3FN>, %x: tensor<i32>, %y: tensor<f8E4M3FN>, %z: tensor<i32>):
        %c = stablehlo.compare GE, %w, %y : (tensor<f8E4M3FN>, tensor<f8E4M3FN>) -> tensor<i1>
        %0 = stablehlo.select %c, %w, %y : tensor<i1>, tensor<f8E4M3FN>
        %1 = stablehlo.select %c, %x, %z : tensor<i1>, tensor<i32>
        stablehlo.return %0, %1 : tensor<f8E4M3FN>, tensor<i32>
      }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}
        : (tensor<4xf8E4M3FN>, tensor<4xi32>, tensor<60x1xi32>, tensor<60xf8E4M3FN>, tensor<60xi32>)
        -> (tensor<4xf8E4M3FN>, tensor<4xi32>)
      return %r#0, %r#1 : tensor<4xf8E4M3FN>, tensor<4xi32> }"""
    rng = np.random.default_rng(SEED)
    dtype = ml_dtypes.float8_e4m3fn
    indices, updates = rng.integers(-1, 5, (60, 1), np.int32), rng.integers(0, 8, 60).astype(dtype)
    best, place = load(text)(
        np.zeros(4, dtype), np.full(4, -1, np.int32), indices, updates, np.arange(60, dtype=np.int32)
    )
    for k in range(4):
        mine = [j for j in range(60) if indices[j, 0] == k]
        first = max(mine, key=lambda j: (float(updates[j]), -j))
        assert (float(best[k]), place[k]) == (float(updates[first]), first)


def test_a_wider_body() -> None:
    """The operands are converted to the body's type first: sums of i8 in i32, of f8 in f32."""
    n, indices = elements(2, 200), np.arange(200).reshape(200, 1) % 2
    body = BODIES["add"][0]
    (actual,) = load(program(n, body, "i8", wide="i32"))(np.full(2, -128, np.int8), indices, np.full(200, 127, np.int8))
    assert actual.dtype == np.int32
    assert actual.tolist() == [12572, 12572]
    x, updates = np.array([448, 0.5], ml_dtypes.float8_e4m3fn), np.full(200, 448, ml_dtypes.float8_e4m3fn)
    (actual,) = load(program(n, body, "f8E4M3FN", wide="f32"))(x, indices, updates)
    assert actual.tolist() == [448 * 101, 44800.5]


def test_a_body_that_uses_what_is_outside() -> None:
    text = program(elements(3, 4), "%t = stablehlo.multiply %y, %f : T\n %z = stablehlo.add %x, %t : T")
    text = text.replace("%u: tensor<4xi32>)", "%u: tensor<4xi32>, %f: tensor<i32>)")
    arrays = (np.zeros(3, np.int32), np.array([[2], [0], [2], [7]]), np.array([1, 2, 3, 4], np.int32))
    assert load(text)(*arrays, np.array(10, np.int32))[0].tolist() == [20, 0, 40]


def test_policies() -> None:
    """Rounding towards zero after every step, and stochastic rounding, which stays near the exact sum."""
    dtype = ml_dtypes.float8_e4m3fn
    text = program(elements(1, 64), BODIES["add"][0], "f8E4M3FN")
    arrays = np.zeros(1, dtype), np.zeros((64, 1), int), np.full(64, 0.75, dtype)
    assert float(load(text)(*arrays, policy=Policy(rounding="toward_zero"))[0][0]) == 8  # 8 + 0.75 is 8 again
    wide = program(elements(1, 300), BODIES["add"][0], "bf16")
    ones = np.zeros(1, ml_dtypes.bfloat16), np.zeros((300, 1), int), np.full(300, 1.5, ml_dtypes.bfloat16)
    assert float(load(wide)(*ones, policy=Policy(rounding="toward_zero"))[0][0]) == 256  # where steps are of 2
    stochastic = Policy(rounding="stochastic", seed=3)
    actual = [float(load(text)(*arrays, policy=stochastic)[0][0]) for _ in range(2)]
    assert actual[0] == actual[1]
    assert 30 < actual[0] < 70
    many = program(elements(20, 1280), BODIES["add"][0], "f8E4M3FN")
    arrays = np.zeros(20, dtype), np.arange(1280).reshape(-1, 1) % 20, np.full(1280, 0.75, dtype)
    sums = load(many)(*arrays, policy=stochastic)[0].astype(float)
    assert 43 < sums.mean() < 53
    assert sums.std() > 1


def test_jax_at_updates() -> None:
    """What jax.numpy makes of .at[...], run from its own lowering."""

    def function(x, i, j):
        return x.at[i].add(2), x.at[i, j].set(5), x.at[1:3, 2].mul(3), x.at[:, j].max(4), x.at[-1].add(1)

    arrays = np.arange(20, dtype=np.int32).reshape(4, 5), np.array([0, 3, 3]), np.array([4, 1, 1])
    lowered = jax.jit(function).lower(*arrays).as_text()
    arguments = [np.asarray(jnp.asarray(a)) for a in arrays]
    for actual, expected in zip(load(lowered)(*arguments), function(*map(jnp.asarray, arrays)), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("with_nan", [True, False])
@pytest.mark.parametrize("element", [name for name, t in ELEMENT_TYPES.items() if t.is_float and t.has_dtype])
def test_extremes_of_zeros_and_nan(element, with_nan, name):
    """Against a loop on numbers: +0 is above -0, and NaN stays NaN."""
    t, rng = ELEMENT_TYPES[element], np.random.default_rng(3)
    if t.is_minifloat:
        numbers = np.arange(1 << t.bits, dtype=np.uint8).view(t.dtype)
    else:
        numbers = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, np.finfo(np.float16).tiny, -3e4]).astype(t.dtype)
    numbers = numbers if with_nan else numbers[~np.isnan(numbers.astype(np.float64))]
    start, updates = rng.choice(numbers, 60), rng.choice(numbers, 150)
    places = rng.integers(-2, 63, (150, 1)).astype(np.int32)
    n = elements(60, 150)
    (actual,) = load(program(n, f"%z = stablehlo.{name} %x, %y : T", element, "i32"))(start, places, updates)
    expected = by_formula(start, places, updates, n, extreme(name))
    is_number = ~np.isnan(expected.astype(np.float64))
    assert np.array_equal(is_number, ~np.isnan(actual.astype(np.float64)))
    assert codes(actual)[is_number].tolist() == codes(expected)[is_number].tolist()


def bind(n: Numbers, operands: list[Any], results: list[Any], body: Body, **change: Any) -> None:
    numbers = {
        "update_window_dims": n.window_axes,
        "inserted_window_dims": n.dropped,
        "scatter_dims_to_operand_dims": n.mapped,
        "index_vector_dim": n.vector,
    }
    record = lookup("scatter")
    assert record is not None
    record.function(
        Call(
            "stablehlo.scatter",
            tuple(operands),
            tuple(results),
            {"scatter_dimension_numbers": numbers | change},
            (body,),
        )
    )


ADD = Body((tensor("i32"), tensor("i32")), (tensor("i32"),), "stablehlo.add")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"update_window_dims": ()}, "must be 1"),
        ({"update_window_dims": (0,)}, "have size 5 in dimension 0"),
        ({"inserted_window_dims": (0, 0)}, "without repetition"),
        ({"inserted_window_dims": (7,)}, "from 0 to 1, got"),
        ({"scatter_dims_to_operand_dims": (0, 1)}, "index vectors have 1"),
        ({"scatter_dims_to_operand_dims": (3,)}, "from 0 to 1, got"),
        ({"index_vector_dim": 3}, "index_vector_dim"),
        ({"input_batching_dims": (0,), "scatter_indices_batching_dims": (0,)}, "without repetition"),
    ],
)
def test_errors_of_dimension_numbers(change: dict[str, Any], message: str) -> None:
    x, updates = tensor("i32", 4, 3), tensor("i32", 5, 3)
    bind(rows(4, 3, 5), [x, tensor("i64", 5, 1), updates], [x], ADD)
    with pytest.raises(OpError, match=message):
        bind(rows(4, 3, 5), [x, tensor("i64", 5, 1), updates], [x], ADD, **change)


def test_errors_of_types() -> None:
    n, x, i, u = rows(4, 3, 5), tensor("i32", 4, 3), tensor("i64", 5, 1), tensor("i32", 5, 3)
    for operands, results, body, message in (
        ([x, tensor("f32", 5, 1), u], [x], ADD, "integers"),
        ([x, i], [x], ADD, "operands"),
        ([x, i, tensor("i8", 5, 3)], [x], ADD, "same element type"),
        ([x, i, tensor("i32", 6, 3)], [x], ADD, "updates have shape"),
        ([x, i, tensor("i32", 5, 4)], [x], ADD, "at most 3"),
        ([x, i, u], [tensor("i32", 4, 4)], ADD, "differ in shape"),
        ([x, i, u], [x], Body((tensor("i32"),), (tensor("i32"),)), "body"),
    ):
        with pytest.raises(OpError, match=message):
            bind(n, operands, results, body)
    with pytest.raises(ProgramError, match=r"\d+:\d+: expects bounds"):
        load(program(rows(4, 3, 5), BODIES["add"][0]).replace("tensor<5x3xi32>", "tensor<5x4xi32>"))(x, i, u)
