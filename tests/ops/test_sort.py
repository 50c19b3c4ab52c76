"""sort against Python's sorted and, for the comparators that JAX writes, against XLA on the CPU."""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.types import ELEMENT_TYPES

from .. import oracle
from ..run_op import INTEGERS, TYPES, codes, from_codes, tensor
from ..thinned import thinned


def sort(*arrays: np.ndarray, elements: tuple[str, ...], body: str, dimension: int = -1) -> list[np.ndarray]:
    """Sorts; `body` computes %z from %x0, %y0, %x1, …"""
    shape = "".join(f"{n}x" for n in arrays[0].shape)
    types = ", ".join(f"tensor<{shape}{e}>" for e in elements)
    names = [f"%a{i}" for i in range(len(arrays))]
    parameters = ", ".join(f"{n}: tensor<{shape}{e}>" for n, e in zip(names, elements, strict=True))
    arguments = ", ".join(f"%x{i}: tensor<{e}>, %y{i}: tensor<{e}>" for i, e in enumerate(elements))
    text = f"""
    func.func @main({parameters}) -> ({types}) {{
      %r:{len(arrays)} = "stablehlo.sort"({", ".join(names)}) ({{
      ^bb0({arguments}):
        {body}
        stablehlo.return %z : tensor<i1>
      }}) {{dimension = {dimension} : i64, is_stable = true}} : ({types}) -> ({types})
      return {", ".join(f"%r#{i}" for i in range(len(arrays)))} : {types}
    }}"""
    results = load(text)(*arrays)
    assert [(r.shape, r.dtype) for r in results] == [(a.shape, a.dtype) for a in arrays]
    return results


def compared(direction: str, element: str, kind: str = "NOTYPE", of: int = 0) -> str:
    kind = "" if kind == "NOTYPE" else f", {kind}"
    t = f"tensor<{element}>"
    return f"%z = stablehlo.compare {direction}, %x{of}, %y{of}{kind} : ({t}, {t}) -> tensor<i1>"


def order_of(keys: list, descends: bool = False) -> list[int]:
    """The stable order, by Python."""
    if not descends:
        return sorted(range(len(keys)), key=keys.__getitem__)
    return sorted(range(len(keys) - 1, -1, -1), key=keys.__getitem__)[::-1]  # equal ones are turned round twice


@pytest.mark.parametrize("length", [*range(10), 31, 64, 65])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_stable_at_every_length(length, direction):
    keys = np.random.default_rng(length).integers(-3, 4, length).astype(np.int32)
    values = np.arange(length, dtype=np.int16)
    actual = sort(keys, values, elements=("i32", "i16"), body=compared(direction, "i32"))
    expected = order_of(keys.tolist(), direction == "GT")
    assert actual[1].tolist() == expected
    assert actual[0].tolist() == [keys[i] for i in expected]


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integers(element):
    x = from_codes(np.random.default_rng(2).integers(0, 2**64, 50, np.uint64), element)
    numbers = [int(v) for v in x]
    for direction in ("LT", "GT"):
        (actual,) = sort(x, elements=(element.name,), body=compared(direction, element.name))
        assert [int(v) for v in actual] == sorted(numbers, reverse=direction == "GT")


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_float], ids=str)
def test_floats(element):
    x = from_codes(np.random.default_rng(2).integers(0, 2**64, 200, np.uint64), element)
    x = x[~np.isnan(x.astype(float))]
    place = np.arange(len(x), dtype=np.int32)
    for direction in ("LT", "GT"):
        body = compared(direction, element.name, "FLOAT")
        actual = sort(x, place, elements=(element.name, "i32"), body=body)
        expected = order_of(x.astype(float).tolist(), direction == "GT")
        assert actual[1].tolist() == expected
        assert codes(actual[0]).tolist() == codes(x[expected]).tolist()


@pytest.mark.parametrize("name", ["f8E5M2", "f8E4M3FN", "bf16", "f32"])
def test_total_order(name):
    t = ELEMENT_TYPES[name]
    top = 1 << (t.bits - 1)
    raw = np.random.default_rng(2).integers(0, 2**t.bits, 300, np.uint64)
    raw[:8] = [0, top, 2 * top - 1, top - 1, 0, top, 2 * top - 2, top - 2]
    (actual,) = sort(from_codes(raw, name), elements=(name,), body=compared("LT", name, "TOTALORDER"))
    negative, positive = sorted((c for c in raw if c >= top), reverse=True), sorted(c for c in raw if c < top)
    assert codes(actual).tolist() == [*negative, *positive]


def test_booleans():
    x = np.array([True, False, True, False, False])
    (actual,) = sort(x, elements=("i1",), body=compared("LT", "i1"))
    assert actual.tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("dimension", [-3, -2, -1, 0, 1, 2])
def test_dimensions(dimension):
    x = np.random.default_rng(4).integers(0, 50, (3, 4, 5)).astype(np.int64)
    (actual,) = sort(x, elements=("i64",), body=compared("LT", "i64"), dimension=dimension)
    assert actual.tolist() == np.sort(x, axis=dimension).tolist()
    assert x.tolist() != actual.tolist()  # the operand is as it was


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1,), (2, 1)])
def test_nothing_to_do(shape):
    x = np.ones(shape, np.float32)
    for actual in sort(x, x, elements=("f32", "f32"), body=compared("LT", "f32")):
        assert actual.tolist() == x.tolist()


# comparators of several ops

SQUARES = """%p = stablehlo.multiply %x0, %x0 : tensor<i32>
        %q = stablehlo.multiply %y0, %y0 : tensor<i32>
        %z = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>"""


@pytest.mark.parametrize("length", [2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 100])
def test_by_an_order_that_no_guess_finds(length):
    x = np.random.default_rng(length).integers(-20, 20, (3, length)).astype(np.int32)
    place = np.tile(np.arange(length, dtype=np.int32), (3, 1))
    actual = sort(x, place, elements=("i32", "i32"), body=SQUARES)
    for row, values, places in zip(x.tolist(), *(f.tolist() for f in actual), strict=True):
        expected = order_of([v * v for v in row])
        assert places == expected
        assert values == [row[i] for i in expected]


def test_by_the_second_operand():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=40).astype(np.float32), rng.integers(0, 9, 40).astype(np.int8)
    actual = sort(x, y, elements=("f32", "i8"), body=compared("LT", "i8", of=1))
    expected = order_of(y.tolist())
    assert actual[0].tolist() == x[expected].tolist()


def test_a_comparator_that_uses_a_value_from_outside():
    text = """
    func.func @main(%a: tensor<2x30xi32>, %b: tensor<2x30xi32>, %k: tensor<i32>)
        -> (tensor<2x30xi32>, tensor<2x30xi32>) {
      %r:2 = "stablehlo.sort"(%a, %b) ({
      ^bb0(%x: tensor<i32>, %y: tensor<i32>, %u: tensor<i32>, %v: tensor<i32>):
        %p = stablehlo.remainder %x, %k : tensor<i32>
        %q = stablehlo.remainder %y, %k : tensor<i32>
        %z = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %z : tensor<i1>
      }) {dimension = 1 : i64, is_stable = true} : (tensor<2x30xi32>, tensor<2x30xi32>)
        -> (tensor<2x30xi32>, tensor<2x30xi32>)
      return %r#0, %r#1 : tensor<2x30xi32>, tensor<2x30xi32>
    }"""
    x = np.random.default_rng(5).integers(0, 100, (2, 30)).astype(np.int32)
    place = np.tile(np.arange(30, dtype=np.int32), (2, 1))
    actual = load(text)(x, place, np.array(7, np.int32))
    assert actual[1].tolist() == [order_of([v % 7 for v in row]) for row in x.tolist()]


@pytest.mark.parametrize(
    "body",
    [
        "%z = stablehlo.constant dense<true> : tensor<i1>",
        "%z = stablehlo.constant dense<false> : tensor<i1>",
        "%p = stablehlo.multiply %x0, %y0 : tensor<f32>\n" + compared("GT", "f32").replace("%x0, %y0", "%p, %x0"),
        compared("NE", "f32"),
        compared("GE", "f32"),
        compared("LT", "f32", "FLOAT"),
    ],
)
@pytest.mark.parametrize("length", [2, 5, 16, 45])
def test_any_comparator_gives_a_permutation(body, length):
    x = np.random.default_rng(length).normal(size=(3, length)).astype(np.float32)
    x[:, 1::3] = math.nan
    place = np.tile(np.arange(length, dtype=np.int32), (3, 1))
    actual = sort(x, place, elements=("f32", "i32"), body=body)
    assert np.sort(actual[1], axis=1).tolist() == place.tolist()
    assert codes(actual[0]).tolist() == codes(np.take_along_axis(x, actual[1], 1)).tolist()
    if "dense<false>" in body:
        assert actual[1].tolist() == place.tolist()


@pytest.mark.parametrize("name", ["f8E4M3FNUZ", "f8E5M2", "bf16", "f32"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_what_cannot_be_compared_comes_last(name, direction):
    x = np.random.default_rng(7).normal(size=(2, 40)).astype(np.float32)
    x[0, ::3], x[1, 7], x[:, 1::5] = math.nan, math.nan, 0.5
    x = x.astype(ELEMENT_TYPES[name].dtype)
    place = np.tile(np.arange(40, dtype=np.int32), (2, 1))
    actual = sort(x, place, elements=(name, "i32"), body=compared(direction, name, "FLOAT"))
    for row, order in zip(x.astype(float), actual[1].tolist(), strict=True):
        numbers = [i for i in range(40) if not math.isnan(row[i])]
        expected = sorted(numbers, key=lambda i: row[i] if direction == "LT" else -row[i])
        assert order == [*expected, *(i for i in range(40) if math.isnan(row[i]))]


def both(function: Any, *arrays: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The results of the same program here and on XLA's CPU."""
    lowered = jax.jit(function).lower(*arrays)
    expected = jax.tree.leaves(jax.jit(function)(*arrays))
    return load(lowered.as_text())(*arrays), [np.asarray(e) for e in expected]


def floats(name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = np.random.default_rng(9).normal(size=shape).astype(ELEMENT_TYPES[name].dtype)
    special = [math.nan, 0.0, -0.0, math.inf, -math.inf, -math.nan, 1.0, 1.0]
    x.flat[: len(special)] = np.array(special).astype(x.dtype)
    return x


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f16", "bf16", "f32"])
def test_jax_sort_and_argsort(name):
    x = floats(name, (4, 33))
    for function in (jnp.sort, jnp.argsort, lambda v: jnp.sort(v, descending=True), lambda v: jnp.sort(v, axis=0)):
        (actual,), (expected,) = both(function, x)
        np.testing.assert_array_equal(actual.astype(float), expected.astype(float))


@pytest.mark.parametrize(
    ("operands", "arguments", "dimension", "message"),
    [
        (0, 0, 0, "expected at least one operand"),
        (1, 2, 2, "expected a dimension of a tensor of rank 2, got 2"),
        (1, 2, -3, "expected a dimension of a tensor of rank 2, got -3"),
        (2, 2, 0, "the comparator has type (tensor<f32>, tensor<f32>) -> (tensor<i1>)"),
    ],
)
def test_refused(operands, arguments, dimension, message):
    t = (tensor("f32", 2, 3),) * operands
    body = Body((tensor("f32"),) * arguments, (tensor("i1"),))
    call = Call("stablehlo.sort", t, t, {"dimension": dimension}, (body,))
    with pytest.raises(OpError) as caught:
        lookup("sort").function(call)  # type: ignore[union-attr]
    assert message in str(caught.value)


def test_the_comparator_gives_one_boolean():
    with pytest.raises(ProgramError):
        sort(np.zeros(2, np.float32), elements=("f32",), body=compared("LT", "f32").replace("i1", "i8"))


@pytest.mark.parametrize("name", ["i8", "i32", "i64", "ui8", "ui32", "ui64", "f8E4M3FN", "bf16", "f32", "f64", "i1"])
@pytest.mark.parametrize("compared_as", [np.less, np.greater])
def test_an_order_of_numpy_s_is_found_with_few_questions(name, compared_as):
    questions = []

    def comparator(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray]:
        questions.append(x.size)
        return (compared_as(x, y),)

    t = ELEMENT_TYPES[name]
    x = from_codes(np.random.default_rng(2).integers(0, 2**64, 500, np.uint64), t)
    x[np.isnan(x.astype(float))] = 1
    body = Body((tensor(name),) * 2, (tensor("i1"),), vectorised=comparator)
    call = Call("stablehlo.sort", (tensor(name, 500),), (tensor(name, 500),), {"dimension": 0}, (body,))
    actual = lookup("sort").function(call)((None,), x)  # type: ignore[union-attr]
    assert actual.astype(object).tolist() == sorted(x.astype(object).tolist(), reverse=compared_as is np.greater)
    assert sum(questions) <= 2.5 * 500


# many elements of eight bits, which are sorted by counting

EIGHT_BITS = [
    t for t in TYPES if t.dtype.itemsize == 1 and t.bits != 1 and not t.is_complex and (t.is_float or t.bits == 8)
]


def numbers(x: np.ndarray, t) -> list:
    """The elements as Python numbers."""
    return [v.item() for v in x.reshape(-1).astype(np.float64 if t.is_float else np.int64)]


@pytest.mark.parametrize(
    ("direction", "shape", "t"),
    thinned(
        itertools.product(("LT", "GT"), ((66_000,), (60, 1200), (3300, 20)), EIGHT_BITS),
        lambda direction, shape, t: shape == (60, 1200) or t.name in ("f8E5M2", "f8E8M0FNU", "i8"),
    ),
    ids=str,
)
def test_many(direction, shape, t):
    """Numbers, zeros of either sign among them, which are equal and stay in order."""
    x = np.random.default_rng(1).integers(0, 1 << t.bits, shape, np.uint8).view(t.dtype)
    if t.is_float:
        x = np.where(np.isnan(x.astype(np.float32)), np.array(1, t.dtype), x)
    (actual,) = sort(x, elements=(t.name,), body=compared(direction, t.name))
    rows = x.reshape(-1, shape[-1])
    wanted = [codes(row)[order_of(numbers(row, t), direction == "GT")] for row in rows]
    assert np.array_equal(codes(actual).reshape(rows.shape), wanted)


@pytest.mark.parametrize("t", [t for t in EIGHT_BITS if t.is_float], ids=str)
def test_many_in_total_order_with_positions(t):
    x = np.random.default_rng(2).integers(0, 1 << t.bits, 66_000, np.uint8).view(t.dtype)
    place = np.arange(x.size, dtype=np.int32)
    actual, order = sort(x, place, elements=(t.name, "i32"), body=compared("LT", t.name, "TOTALORDER"))
    keys = [oracle.total_order(oracle.FORMATS[t.name], c) for c in codes(x).tolist()]
    wanted = order_of(keys)
    assert order.tolist() == wanted
    assert codes(actual).tolist() == codes(x)[wanted].tolist()


def test_many_by_what_depends_on_the_second_operand_too():
    x = np.random.default_rng(3).integers(-2, 2, 66_000).astype(np.int8)
    y = np.random.default_rng(4).integers(0, 9, x.size).astype(np.int32)
    body = f"""{compared("LT", "i8").replace("%z", "%a")} {compared("EQ", "i8").replace("%z", "%b")}
        {compared("GT", "i32", of=1).replace("%z", "%c")}
        %d = stablehlo.and %b, %c : tensor<i1> %z = stablehlo.or %a, %d : tensor<i1>"""
    actual = sort(x, y, elements=("i8", "i32"), body=body)
    wanted = order_of(list(zip(x.tolist(), (-y).tolist(), strict=True)))
    assert [f.tolist() for f in actual] == [v[wanted].tolist() for v in (x, y)]


@pytest.mark.parametrize("name", ["f8E4M3FNUZ", "f8E5M2", "f8E4M3FN"])
@pytest.mark.parametrize("shape", [(66_000,), (500, 140)])
def test_many_as_jax_sorts(shape, name):
    """JAX's comparator takes zeros as equal, and all NaN, which come last."""
    t = ELEMENT_TYPES[name]
    x = np.random.default_rng(6).integers(0, 256, shape, np.uint8).view(t.dtype)
    (actual,) = load(jax.jit(jnp.sort).lower(x).as_text())(x)
    values = x.astype(np.float32)
    keys = np.where(np.isnan(values), np.inf, np.where(values == 0, 0, values)), np.isnan(values)
    assert np.array_equal(codes(actual), np.take_along_axis(codes(x), np.lexsort(keys), -1))
