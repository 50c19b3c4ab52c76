"""Ops that move values: every element type, bit for bit, against the specification's formulas index by index."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy
from minihlo.ops.types import ElementType, TensorType, TokenType, TupleType

from ..places import padded
from ..run_op import TYPES, bind, codes, from_codes, run, tensor, type_of

ANY = pytest.mark.parametrize("element", TYPES, ids=str)


def any_bits(element: ElementType, *shape: int) -> np.ndarray:
    """Elements of any bits: numbers, signaling NaN, infinities, zeros of both signs."""
    rng = np.random.default_rng(5)
    if element.bits > 64:
        return rng.integers(0, 2**64, (*shape, 2), np.uint64).view(element.dtype)[..., 0]
    x = rng.integers(0, 2**64, shape, np.uint64)
    if element.is_float and x.size:
        infinity_and_some = ((1 << element.format.exponent_bits) - 1 << element.format.mantissa_bits) + np.uint64(1)
        x.flat[0] = infinity_and_some  # a signaling NaN in the types of IEEE 754
    return from_codes(x, element)


def check_moves(x: np.ndarray, result: np.ndarray, source: Callable[..., tuple[int, ...]]) -> None:
    """Each element of `result` has the bits of the element of `x` whose index `source` tells."""
    expected = [codes(x[source(*i)]).tobytes() for i in np.ndindex(result.shape)]
    assert [codes(result[i]).tobytes() for i in np.ndindex(result.shape)] == expected


@ANY
def test_views(element: ElementType) -> None:
    x = any_bits(element, 2, 3, 4)
    for y in (x, x.transpose(), x[::-1, :, ::2], np.broadcast_to(x[:1], (5, 3, 4))):  # views of other arrays as well
        a, b, c = y.shape
        check_moves(
            y, run("transpose", y, permutation=(2, 0, 1), result=tensor(element, c, a, b)), lambda i, j, k: (j, k, i)
        )
        check_moves(
            y,
            run("reverse", y, dimensions=np.array([2, 0]), result=type_of(y)),
            lambda i, j, k, a=a, c=c: (a - 1 - i, j, c - 1 - k),
        )
        check_moves(y, run("reshape", y, result=tensor(element, a * b, c)), lambda i, k, b=b: (i // b, i % b, k))
    actual = run("broadcast_in_dim", x[:, :1], broadcast_dimensions=(3, 2, 0), result=tensor(element, 4, 5, 7, 2))
    check_moves(x[:, :1], actual, lambda i, j, k, m: (m, 0, i))
    actual = run("broadcast", x[0], broadcast_sizes=(2, 1), result=tensor(element, 2, 1, 3, 4))
    check_moves(x[0], actual, lambda i, j, k, m: (k, m))


@ANY
def test_scalars(element: ElementType) -> None:
    x = any_bits(element)
    for actual in (
        run("transpose", x, permutation=(), result=tensor(element)),
        run("reverse", x, dimensions=(), result=tensor(element)),
        run("broadcast_in_dim", x, broadcast_dimensions=(), result=tensor(element)),
        run("pad", x, x, edge_padding_low=(), edge_padding_high=(), interior_padding=(), result=tensor(element)),
    ):
        check_moves(x, actual, lambda: ())
    check_moves(x, run("reshape", x, result=tensor(element, 1, 1)), lambda i, j: ())
    check_moves(x, run("broadcast_in_dim", x, broadcast_dimensions=(), result=tensor(element, 2, 3)), lambda i, j: ())


@ANY
def test_no_elements(element: ElementType) -> None:
    x = any_bits(element, 0, 3)
    assert run("transpose", x, permutation=(1, 0), result=tensor(element, 3, 0)).size == 0
    assert run("reshape", x, result=tensor(element, 7, 0)).size == 0
    assert run("reverse", x, dimensions=(0, 1), result=type_of(x)).size == 0
    one = any_bits(element, 1)
    assert run("broadcast_in_dim", one, broadcast_dimensions=(1,), result=tensor(element, 2, 0)).size == 0
    check_moves(any_bits(element, 2, 3), run("concatenate", x, any_bits(element, 2, 3), x, dimension=0,
                result=tensor(element, 2, 3)), lambda i, j: (i, j))  # fmt: skip


@ANY
def test_concatenate(element: ElementType) -> None:
    x, y = any_bits(element, 2, 3), any_bits(element, 2, 5)
    actual = run("concatenate", x, y, x[:, ::-1], dimension=1, result=tensor(element, 2, 11))
    whole = np.empty((2, 11), element.dtype)
    for j in range(11):
        whole[:, j] = x[:, j] if j < 3 else y[:, j - 3] if j < 8 else x[:, 10 - j]
    assert codes(actual).tobytes() == codes(whole).tobytes()


@ANY
def test_pad_every_type(element: ElementType) -> None:
    x, value = any_bits(element, 2, 3), any_bits(element)
    check_pad(x, value, (1, -1), (0, 2), (2, 1))


AMOUNTS = list(itertools.product(range(-4, 4), range(-4, 4), range(3)))


@pytest.mark.parametrize("size", range(5))
def test_pad_every_amount(size: int) -> None:
    x, value = np.arange(1, size + 1, dtype=np.int8), np.array(-1, np.int8)
    for low, high, interior in AMOUNTS:
        if low + high + size + max(size - 1, 0) * interior >= 0:
            check_pad(x, value, (low,), (high,), (interior,))
        else:
            with pytest.raises(OpError, match="negative"):
                run("pad", x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=interior,
                    result=tensor("i8", 0))  # fmt: skip


def check_pad(x: np.ndarray, value: np.ndarray, low: tuple, high: tuple, interior: tuple) -> None:
    expected = padded(x, value, low, high, interior)
    result = run("pad", x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=interior,
                 result=TensorType(expected.shape, type_of(x).element))  # fmt: skip
    assert codes(result).tobytes() == codes(expected).tobytes(), (x.shape, low, high, interior)


@ANY
def test_constant_is_its_value(element: ElementType) -> None:
    x = any_bits(element, 2, 3)
    assert bind("constant", [], type_of(x), value=x)() is x


# The first sixteen integers by hand, where not all are held: each becomes the nearest, a tie the even code.
IOTA = {
    "f4E2M1FN": [0, 1, 2, 3, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6],
    "f6E2M3FN": [0, 1, 2, 3, 4, 5, 6, 7, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5, 7.5],
    "f6E3M2FN": [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 12, 12, 14, 16],
    "f8E5M2": [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 12, 12, 14, 16],
    "f8E5M2FNUZ": [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 10, 12, 12, 12, 14, 16],
    "f8E8M0FNU": [np.nan, 1, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16],
    "i2": [0, 1, -2, -1] * 4,
    "ui2": [0, 1, 2, 3] * 4,
    "i4": [*range(8), *range(-8, 0)],
}


@pytest.mark.parametrize("element", [t for t in TYPES if t.bits > 1], ids=str)
def test_iota(element: ElementType) -> None:
    values = IOTA.get(element.name, range(16))
    expected = np.array(values, np.float64).astype(np.complex128 if element.is_complex else np.float64)
    for shape, dimension in (((16,), 0), ((16, 3), 0), ((2, 16), 1), ((0,), 0), ((3, 0), 0)):
        actual = run("iota", iota_dimension=dimension, result=tensor(element, *shape))
        across = [1] * len(shape)
        across[dimension] = -1
        np.testing.assert_array_equal(
            actual.astype(expected.dtype), np.broadcast_to(expected[: shape[dimension]].reshape(across), shape)
        )


def test_long_iota() -> None:
    size = (1 << 20) + 5  # more than is computed at once
    np.testing.assert_array_equal(run("iota", iota_dimension=0, result=tensor("f32", size)), np.arange(size))
    actual = run("iota", iota_dimension=0, result=tensor("f16", size)).astype(np.float64)
    assert actual[2047:2052].tolist() == [2047, 2048, 2048, 2050, 2052]
    assert actual[65519] == 65504
    assert np.isinf(actual[65520:]).all()


def test_iota_by_policy() -> None:
    def of(**policy) -> list[float]:
        actual = run("iota", iota_dimension=0, result=tensor("f4E2M1FN", 8), policy=Policy(**policy))
        return actual.astype(float).tolist()

    assert of(rounding="toward_zero") == [0, 1, 2, 3, 4, 4, 6, 6]
    assert of(rounding="nearest_away") == [0, 1, 2, 3, 4, 6, 6, 6]
    assert {tuple(of(rounding="stochastic", seed=s)) for s in range(9)} <= {(0, 1, 2, 3, 4, x, 6, 6) for x in (4, 6)}


def test_tuples_tokens_and_barriers() -> None:
    x, t = np.arange(3, dtype=np.int32), tensor("i32", 3)
    pair = TupleType((t, TokenType()))
    assert bind("tuple", [t, TokenType()], pair)(x, None) == (x, None)
    assert bind("get_tuple_element", [pair], t, index=0)((x, None)) is x
    assert bind("get_tuple_element", [pair], TokenType(), index=1)((x, None)) is None
    assert bind("after_all", [TokenType()] * 2, TokenType())(None, None) is None
    assert bind("after_all", [], TokenType())() is None
    assert bind("create_token", [], TokenType())() is None
    assert bind("optimization_barrier", [t], t)(x) is x
    assert bind("optimization_barrier", [], None)() == ()


I32 = [tensor("i32", 2, 3)]
ERRORS = [
    ("constant", [], tensor("i32", 2), {}, "'value' is missing"),
    ("constant", [], tensor("i32", 2), {"value": 3}, "dense elements"),
    ("constant", [], tensor("i32", 2), {"value": np.zeros(2, np.int64)}, "int64"),
    ("constant", [], tensor("i32", 2), {"value": np.zeros(3, np.int32)}, r"\[3\], got \[2\]"),
    ("iota", [], tensor("i32", 2), {"iota_dimension": 1}, "from 0 to 0, got"),
    ("iota", [], tensor("i32"), {"iota_dimension": 0}, "from 0 to -1, got"),
    ("iota", [], tensor("i1", 2), {"iota_dimension": 0}, "expected an element type of integer, float, complex, got i1"),
    ("reshape", I32, tensor("i32", 7), {}, "does not have the size"),
    ("reshape", I32, tensor("f32", 6), {}, "expected element type i32, got f32"),
    ("transpose", I32, tensor("i32", 3, 2), {"permutation": (1, 1)}, "expected a permutation"),
    ("transpose", I32, tensor("i32", 2, 3), {"permutation": (1, 0)}, r"expected a result of shape \[3, 2\]"),
    ("broadcast_in_dim", I32, tensor("i32", 2, 3, 4), {"broadcast_dimensions": (0,)}, "broadcast_dimensions for each"),
    ("broadcast_in_dim", I32, tensor("i32", 2, 3, 4), {"broadcast_dimensions": (0, 3)}, "from 0 to "),
    ("broadcast_in_dim", I32, tensor("i32", 2, 3, 4), {"broadcast_dimensions": (0, 0)}, "without repetition"),
    ("broadcast_in_dim", I32, tensor("i32", 2, 3, 4), {"broadcast_dimensions": (0, 2)}, "expected 1 or 4"),
    ("broadcast", I32, tensor("i32", 2, 3, 4), {"broadcast_sizes": (4,)}, r"expected a result of shape \[4, 2, 3\]"),
    ("concatenate", [], tensor("i32", 2), {"dimension": 0}, "at least one"),
    ("concatenate", I32, tensor("i32", 2, 3), {"dimension": 2}, "from 0 to "),
    ("concatenate", [*I32, tensor("i32", 2, 4)], tensor("i32", 4, 3), {"dimension": 0}, "does not fit"),
    ("concatenate", [*I32, tensor("f32", 2, 3)], tensor("i32", 4, 3), {"dimension": 0}, "expected element type"),
    ("concatenate", I32 * 2, tensor("i32", 2, 3), {"dimension": 0}, r"expected a result of shape \[4, 3\]"),
    ("reverse", I32, tensor("i32", 2, 3), {"dimensions": (0, 0)}, "without repetition"),
    ("reverse", I32, tensor("i32", 2, 3), {"dimensions": (-1,)}, "from 0 to "),
    ("tuple", I32, tensor("i32", 2, 3), {}, "expected a result of tuple<tensor<2x3xi32>>"),
    ("get_tuple_element", I32, tensor("i32", 2, 3), {"index": 0}, "expected a tuple"),
    ("get_tuple_element", [TupleType((*I32,))], I32[0], {"index": 1}, "expected the index of an element"),
    ("get_tuple_element", [TupleType((*I32,))], TokenType(), {"index": 0}, "expected a result of tensor"),
    ("optimization_barrier", I32, tensor("i32", 2), {}, "operands' types"),
    ("after_all", I32, TokenType(), {}, "tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "result", "attributes", "message"), ERRORS)
def test_errors(name, operands, result, attributes, message) -> None:
    with pytest.raises(OpError, match=message):
        bind(name, operands, result, **attributes)


@pytest.mark.parametrize(
    ("value", "low", "interior", "result", "message"),
    [
        (tensor("i32", 1), (0, 0), (0, 0), tensor("i32", 2, 3), "expected a scalar"),
        (tensor("f32"), (0, 0), (0, 0), tensor("i32", 2, 3), "expected element type"),
        (tensor("i32"), (0,), (0, 0), tensor("i32", 2, 3), "expected padding for each"),
        (tensor("i32"), (0, 0), (0, -1), tensor("i32", 2, 3), "expected interior_padding of at least 0"),
        (tensor("i32"), (1, 0), (0, 0), tensor("i32", 2, 3), r"expected a result of shape \[3, 3\]"),
    ],
)
def test_pad_errors(value, low, interior, result, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("pad", [*I32, value], result, edge_padding_low=low, edge_padding_high=(0, 0), interior_padding=interior)
