"""reduce against a plain loop over the elements in row-major order, in the arithmetic of ml_dtypes, numpy or Python."""

import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .. import oracle
from ..places import dims
from ..run_op import TYPES, codes, from_codes, tensor

MINIFLOATS = [t for t in TYPES if t.is_minifloat]
SHAPES = [
    ((5,), (0,)),
    ((3, 4), (0,)),
    ((3, 4), (1,)),
    ((3, 4), (1, 0)),
    ((2, 3, 4), (2, 0)),
    ((2, 3, 4), (1,)),
    ((3, 4), ()),
    ((), ()),
]


def program(shapes: str, kept: str, body: str, dimensions: tuple[int, ...], element: str, out: str = "") -> str:
    """A reduction of one operand; `body` computes %z from %x and %y."""
    e, o = element, out or element
    return f"""
    func.func @main(%a: tensor<{shapes}{e}>, %i: tensor<{e}>) -> tensor<{kept}{o}> {{
      %r = "stablehlo.reduce"(%a, %i) ({{
      ^bb0(%x: tensor<{o}>, %y: tensor<{o}>):
        {body}
        stablehlo.return %z : tensor<{o}>
      }}) {{dimensions = array<i64: {", ".join(map(str, dimensions))}>}}
        : (tensor<{shapes}{e}>, tensor<{e}>) -> tensor<{kept}{o}>
      return %r : tensor<{kept}{o}>
    }}""".replace("array<i64: >", "array<i64>")


def reduce(
    x: np.ndarray,
    init: Any,
    body: str,
    dimensions: tuple[int, ...],
    element: str,
    out: str = "",
    policy: Policy | None = None,
) -> np.ndarray:
    kept = tuple(n for d, n in enumerate(x.shape) if d not in dimensions)
    if body in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"):
        body = f"%z = stablehlo.{body} %x, %y : tensor<{out or element}>"
    text = program(dims(x.shape), dims(kept), body, dimensions, element, out)
    (result,) = load(text)(x, np.asarray(init, x.dtype), policy=policy)
    assert (result.shape, result.dtype) == (kept, ELEMENT_TYPES[out or element].dtype)
    return result


def loop(x: np.ndarray, init: Any, step: Callable[[Any, Any], Any], dimensions: tuple[int, ...]) -> dict[tuple, Any]:
    """The results by their index: accumulators that take the elements one after the other."""
    results = {}
    for index in itertools.product(*map(range, x.shape)):
        place = tuple(i for d, i in enumerate(index) if d not in dimensions)
        results[place] = step(results.get(place, init), x[index])
    return results


def assert_same(result: np.ndarray, expected: dict[tuple, Any]) -> None:
    """The same codes, or both NaN."""
    assert result.size == len(expected)
    for place, value in expected.items():
        value = np.asarray(value, result.dtype)
        both_nan = value != value and result[place] != result[place]
        assert both_nan or value.tobytes() == result[place].tobytes(), (place, value, result[place])


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def random_codes(element: ElementType, shape: tuple[int, ...], seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if element.bits > 64:
        return rng.normal(size=(*shape, 2)).view(element.dtype)[..., 0]
    return from_codes(rng.integers(0, 2**64, shape, np.uint64), element)


def by_oracle(name: str, element: ElementType) -> Callable[[Any, Any], Any]:
    """A step on elements as the oracle has it."""
    fmt = oracle.FORMATS[element.name]

    def step(x: Any, y: Any) -> Any:
        values = (oracle.decode(fmt, int(codes(np.asarray(v, element.dtype)))) for v in (x, y))
        return from_codes(oracle.encode(fmt, oracle.BINARY[name](*values)), element)[()]

    return step


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_float or t.is_complex], ids=str)
def test_sums_are_rounded_at_each_step(element):
    rng = np.random.default_rng(11)
    for shape, dimensions in SHAPES:
        x = (rng.normal(size=shape) * 10.0 ** rng.integers(-1, 2, shape)).astype(element.dtype)
        init = element.dtype.type(0.5)
        assert_same(reduce(x, init, "add", dimensions, element.name), loop(x, init, operator.add, dimensions))


def test_the_policy_holds_at_each_step():
    x = from_codes([0x38, 0x21, 0x21, 0x21], "f8E4M3FN")  # 1, and 9/64 each: a little more than the step of 1/8
    up = reduce(x, 0, "add", (0,), "f8E4M3FN", policy=Policy(rounding="up"))
    down = reduce(x, 0, "add", (0,), "f8E4M3FN", policy=Policy(rounding="toward_zero"))
    assert (float(up), float(down)) == (1.75, 1.375)
    stochastic = Policy(rounding="stochastic", seed=4)
    sums = reduce(np.tile(x[:, None], 500), 0, "add", (0,), "f8E4M3FN", policy=stochastic).astype(float)
    assert {1.375, 1.5} <= set(sums) <= {1.375, 1.5, 1.625, 1.75}
    assert abs(sums.mean() - (1 + 27 / 64)) < 0.02
    largest = np.full(3, 448, x.dtype)
    assert float(reduce(largest, 0, "add", (0,), "f8E4M3FN", policy=Policy(overflow="saturate"))) == 448


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_float], ids=str)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes(element, name):
    step = by_oracle(name, element)
    for shape, dimensions in [*SHAPES, ((50,), (0,)), ((7, 30), (0,))]:
        x = random_codes(element, shape)
        init = np.asarray(x.flat[0]) if x.size else 0
        assert_same(reduce(x, init, name, dimensions, element.name), loop(x, init, step, dimensions))
    # zeros of both signs
    if not element.format.has_negative_zero:
        return
    x = np.array([[-0.0, 0.0, -0.0], [-0.0, -0.0, 0.0], [-0.0, -0.0, -0.0]], element.dtype)
    init = x[0, 0]
    assert_same(reduce(x, init, name, (0,), element.name), loop(x, init, step, (0,)))
    assert_same(reduce(x, init, name, (1,), element.name), loop(x, init, step, (1,)))


@pytest.mark.parametrize("name", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("body", ["multiply", "subtract"])
@pytest.mark.parametrize("shape", [(40_000,), (20_000, 3), (7, 300)], ids=str)
def test_complex_products_in_order(name, body, shape):
    rng = np.random.default_rng(5)
    x = np.exp(1j * rng.uniform(0, 6, shape)).astype(ELEMENT_TYPES[name].dtype)
    x[5, ...] *= 1.5
    init = x.dtype.type(0.5 - 2j)
    total = np.full(shape[1:] or (1,), init)
    step = {"multiply": np.multiply, "subtract": np.subtract}[body]
    for row in x.reshape(len(x), -1):
        total = step(total, row)
    text = f"%z = stablehlo.{body} %x, %y : tensor<{name}>"
    assert np.array_equal(np.atleast_1d(reduce(x, init, text, (0,), name)), total)


@pytest.mark.parametrize("name", ["complex<f32>", "complex<f64>"])
def test_complex_extremes_are_lexicographic(name):
    values = [complex(a, b) for a in (-1, 2, 2, 0) for b in (3, -4, 5)]
    x = np.array(values, ELEMENT_TYPES[name].dtype)
    key = lambda v: (v.real, v.imag)  # noqa: E731
    assert complex(reduce(x, values[0], "maximum", (0,), name)) == max(values, key=key)
    assert complex(reduce(x, values[0], "minimum", (0,), name)) == min(values, key=key)


@pytest.mark.parametrize("element", [t for t in TYPES if t.is_integer], ids=str)
def test_integers_wrap(element):
    low = -(1 << (element.bits - 1)) if element.name[0] == "i" else 0
    steps = {
        "add": operator.add,
        "multiply": operator.mul,
        "maximum": max,
        "minimum": min,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
    for shape, dimensions in SHAPES:
        x = random_codes(element, shape)
        numbers = np.asarray(x.astype(object))
        for name, step in steps.items():
            actual = reduce(x, 1, name, dimensions, element.name)
            wrap = lambda a, b, step=step: (step(int(a), int(b)) - low) % (1 << element.bits) + low  # noqa: E731
            for place, value in loop(numbers, 1, wrap, dimensions).items():
                assert int(actual[place]) == value


def test_a_body_without_symmetry_is_applied_from_the_left():
    body = "%w = stablehlo.add %x, %x : tensor<i32>\n %z = stablehlo.subtract %w, %y : tensor<i32>"
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    for dimensions in [(0,), (1,), (0, 1)]:
        assert_same(reduce(x, 5, body, dimensions, "i32"), loop(x, 5, lambda a, v: 2 * a - int(v), dimensions))
    sole = "%z = stablehlo.subtract %x, %y : tensor<i32>"
    assert reduce(x, 100, sole, (1,), "i32").tolist() == [94, 78, 62]


@pytest.mark.parametrize("shape", [(9,), (9, 2), (5000,), (300, 200)])
def test_a_sum_of_squares_of_minifloats(shape):
    body = "%w = stablehlo.multiply %y, %y : tensor<f8E5M2>\n %z = stablehlo.add %x, %w : tensor<f8E5M2>"
    x = np.random.default_rng(8).normal(size=shape).astype(ELEMENT_TYPES["f8E5M2"].dtype)
    total = np.zeros(shape[1:], x.dtype)
    for row in x:
        total = total + row * row
    assert codes(reduce(x, 0, body, (0,), "f8E5M2")).tolist() == codes(total).tolist()


def test_a_body_that_ignores_its_arguments():
    body = "%z = stablehlo.constant dense<3.0> : tensor<f32>"
    assert reduce(np.zeros((2, 3), np.float32), 0, body, (0,), "f32").tolist() == [3, 3, 3]
    last = "%z = stablehlo.negate %y : tensor<f32>"
    assert reduce(np.array([[1, 2], [3, 4]], np.float32), 0, last, (1,), "f32").tolist() == [-2, -4]


def test_a_body_that_uses_a_value_from_outside():
    text = """
    func.func @main(%a: tensor<2x3xf32>, %i: tensor<f32>) -> tensor<2xf32> {
      %r = "stablehlo.reduce"(%a, %i) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %w = stablehlo.multiply %y, %i : tensor<f32>
        %z = stablehlo.add %x, %w : tensor<f32>
        stablehlo.return %z : tensor<f32>
      }) {dimensions = array<i64: 1>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
      return %r : tensor<2xf32>
    }"""
    (actual,) = load(text)(np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array(10, np.float32))
    assert actual.tolist() == [70, 160]


@pytest.mark.parametrize(
    ("source", "target", "numbers", "expected"),
    [("i8", "i32", [100, 100, 100], 301), ("f8E4M3FN", "f32", [448, 448, 0.125], 897.125), ("i4", "i8", [7, 7, 7], 22)],
)
def test_inputs_are_converted_to_the_type_of_the_body(source, target, numbers, expected):
    x = np.array(numbers).astype(ELEMENT_TYPES[source].dtype)
    assert float(reduce(x, np.array(1).astype(x.dtype), "add", (0,), source, target)) == expected


@pytest.mark.parametrize("body", ["add", "maximum", "%z = stablehlo.subtract %x, %y : tensor<f8E4M3FN>"])
def test_dimensions_of_size_zero(body):
    dtype = ELEMENT_TYPES["f8E4M3FN"].dtype
    assert reduce(np.empty((0, 2), dtype), 3, body, (0,), "f8E4M3FN").astype(float).tolist() == [3, 3]
    assert reduce(np.empty((0, 2), dtype), 3, body, (1,), "f8E4M3FN").shape == (0,)
    assert reduce(np.empty((0, 2), dtype), 3, body, (0, 1), "f8E4M3FN") == 3


def bind(operands: int, results: int, body: Body, dimensions: tuple[int, ...]):
    t = tensor("f32", 2, 3)
    given = (t,) * (operands // 2) + (tensor("f32"),) * (operands - operands // 2)
    call = Call("stablehlo.reduce", given, (tensor("f32", 2),) * results, {"dimensions": dimensions}, (body,))
    return lookup("reduce").function(call)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("operands", "results", "arguments", "dimensions", "message"),
    [
        (3, 1, 2, (1,), "expected 2N operands and N results, got 3 and 1"),
        (0, 0, 0, (), "got 0 and 0"),
        (2, 1, 2, (2,), "expected dimensions from 0 to 1, got 2"),
        (2, 1, 2, (1, 1), "expected dimensions without repetition, got [1, 1]"),
        (2, 1, 3, (1,), "the body has type (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>)"),
    ],
)
def test_refused(operands, results, arguments, dimensions, message):
    body = Body((tensor("f32"),) * arguments, (tensor("f32"),) * max(results, 1))
    with pytest.raises(OpError) as caught:
        bind(operands, results, body, dimensions)
    assert message in str(caught.value)


def test_the_parser_refuses_what_the_specification_does():
    with pytest.raises(ProgramError):
        reduce(np.zeros((2, 3), np.float32), 0, "add", (2,), "f32")


@pytest.mark.parametrize("columns", [1, 3, 40])
def test_sums_of_negative_zeros_are_negative(columns):
    assert np.signbit(reduce(np.full((5, columns), -0.0, np.float32), -0.0, "add", (0,), "f32")).all()
