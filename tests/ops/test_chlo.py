"""CHLO's ops that are no functions of one number: top_k, ragged_dot, scan, mulhi, constants and broadcasting."""

import itertools
import random
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.ops.op import Body, Call, OpError, lookup
from minihlo.ops.types import TensorType

from .. import oracle
from ..jaxlib_versions import since_0_10
from ..oracle import FORMATS, MINIFLOATS
from ..oracle_chlo import UNARY
from ..run_op import FLOATS, INTEGERS, codes, from_codes, run, tensor, type_of


def top_k(x: np.ndarray, k: int, index: str = "i32") -> tuple[np.ndarray, np.ndarray]:
    shape = (*x.shape[:-1], k)
    results = TensorType(shape, type_of(x).element), tensor(index, *shape)
    record = lookup("chlo.top_k")
    assert record is not None
    values, indices = record.function(Call("chlo.top_k", (type_of(x),), results, {"k": k}))(x)
    for result, t in zip((values, indices), results, strict=True):
        assert (result.shape, result.dtype) == (t.shape, t.element.dtype)
    return values, indices


@pytest.mark.parametrize("element", MINIFLOATS)
def test_top_k_of_minifloats_is_in_total_order(element: str) -> None:
    fmt, generator = FORMATS[element], random.Random(1)
    row = [generator.randrange(1 << fmt.bits) for _ in range(700)]
    keys = [oracle.total_order(fmt, c) for c in row]
    order = sorted(range(700), key=lambda i: (-keys[i], i))
    for k in (0, 1, 7, 300, 700):
        values, indices = top_k(from_codes(row, element), k)
        assert indices.tolist() == order[:k]
        assert codes(values).tolist() == [row[i] for i in order[:k]]


@pytest.mark.parametrize("element", [t.name for t in INTEGERS])
def test_top_k_of_integers(element: str) -> None:
    rows = from_codes(np.random.default_rng(2).integers(0, 1 << 63, (3, 2, 90)), element)
    rows[1, 1] = rows[0, 0, 0]
    for k in (1, 5, 90):
        values, indices = top_k(rows, k)
        for place in itertools.product(range(3), range(2)):
            row = [int(v) for v in rows[place]]
            order = sorted(range(90), key=lambda i: (-row[i], i))[:k]
            assert indices[place].tolist() == order
            assert [int(v) for v in values[place]] == [row[i] for i in order]


def test_top_k_of_booleans() -> None:
    values, indices = top_k(np.array([[False, True, False, True], [False] * 4]), 3)
    assert values.tolist() == [[True, True, False], [False] * 3]
    assert indices.tolist() == [[1, 3, 0], [0, 1, 2]]


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("k", [1, 9, 120])
def test_top_k_is_xlas(element: str, k: int) -> None:
    special = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf]
    if element != "bf16":  # where the processor computes in bf16 (AVX512_BF16), XLA sorts subnormals as zeros
        special += [1e-40, -1e-40]
    x = np.random.default_rng(3).choice([*special, 1, 2, -3], (4, 120)).astype(tensor(element).element.dtype)
    with jax.enable_x64(element == "f64"):
        # XLA's CPU compiler rewrites small cases; it must agree with its own sort.
        wanted = [np.asarray(v) for v in jax.lax.top_k(jnp.asarray(x), k)]
    actual = top_k(x, k)
    assert np.array_equal(actual[1], wanted[1])
    assert np.array_equal(codes(actual[0]), codes(wanted[0]))


def test_top_k_of_nothing() -> None:
    for shape in ((0, 5), (3, 0)):
        values, _ = top_k(np.zeros(shape, np.float32), 0)
        assert values.size == 0


def test_top_k_refuses() -> None:
    with pytest.raises(OpError, match=r"k is 4 \(expected at most"):
        top_k(np.zeros(3, np.float32), 4)
    with pytest.raises(OpError, match="expected an element type of i1, integer, float, got complex<f32>"):
        top_k(np.zeros(3, np.complex64), 1)
    with pytest.raises(OpError, match="element type i32"):
        top_k(np.zeros(3, np.float32), 1, "i8")


Numbers = tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int], int, Sequence[int]]


def ragged_dot(x: np.ndarray, y: np.ndarray, sizes: np.ndarray, numbers: Numbers, *shape: int) -> np.ndarray:
    names = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting", "lhs_ragged", "rhs_group")
    lists = (*numbers[:4], (numbers[4],), numbers[5])
    structure = {f"{n}_dimensions": tuple(v) for n, v in zip(names, lists, strict=True)}
    result = TensorType(shape, type_of(x).element)
    return run("chlo.ragged_dot", x, y, sizes, result=result, ragged_dot_dimension_numbers=structure)


def jax_ragged_dot(x: np.ndarray, y: np.ndarray, sizes: np.ndarray, numbers: Numbers) -> np.ndarray:
    structure = jax.lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=((numbers[2], numbers[3]), (numbers[0], numbers[1])),
        lhs_ragged_dimensions=[numbers[4]],
        rhs_group_dimensions=list(numbers[5]),
    )
    return np.asarray(jax.lax.ragged_dot_general(x, y, jnp.asarray(sizes), structure, precision="highest"))


CASES = {
    "free": ((11, 5), (3, 5, 7), [4, 4, 3], ((), (), (1,), (1,), 0, (0,))),
    "free, some rows in no group": ((11, 5), (3, 5, 7), [4, 0, 3], ((), (), (1,), (1,), 0, (0,))),
    "free, batches": ((2, 11, 5), (3, 2, 5, 7), [4, 4, 3], ((0,), (1,), (2,), (2,), 1, (0,))),
    "free, sizes of each batch": ((2, 6, 5), (3, 2, 5, 4), [[1, 2, 3], [6, 0, 0]], ((0,), (1,), (2,), (2,), 1, (0,))),
    "free, sizes of each outer row": ((3, 4, 5), (2, 5, 6), [[1, 3], [4, 0], [0, 2]], ((), (), (2,), (1,), 1, (0,))),
    "free, before another": ((5, 3, 4), (2, 4, 6), [2, 2], ((), (), (2,), (1,), 0, (0,))),
    "free, odd orders": ((5, 2, 11), (7, 5, 3, 2), [4, 4, 3], ((1,), (3,), (0,), (1,), 2, (2,))),
    "contracting": ((6, 11), (11, 4), [4, 4, 2], ((), (), (1,), (0,), 1, ())),
    "contracting, batches": ((2, 6, 11), (2, 11, 4), [[4, 4, 3], [0, 1, 5]], ((0,), (0,), (2,), (1,), 2, ())),
    "contracting, two": ((6, 3, 4), (3, 4, 5), [[1, 2], [4, 0], [0, 3]], ((), (), (1, 2), (0, 1), 2, ())),
    "batching": ((6, 3, 4), (6, 4, 5), [2, 4], ((0,), (0,), (2,), (1,), 0, ())),
}


@pytest.mark.parametrize("case", CASES)
def test_ragged_dot_is_jaxs(case: str) -> None:
    x_shape, y_shape, sizes, numbers = CASES[case]
    generator = np.random.default_rng(4)
    x, y = (generator.integers(-8, 9, shape).astype(np.float32) for shape in (x_shape, y_shape))
    sizes = np.array(sizes, np.int32)
    wanted = jax_ragged_dot(x, y, sizes, numbers)
    assert np.array_equal(ragged_dot(x, y, sizes, numbers, *wanted.shape), wanted)


@pytest.mark.parametrize("element", [t.name for t in FLOATS if t.is_minifloat])
def test_ragged_dot_of_minifloats_rounds_once(element: str) -> None:
    fmt, generator = FORMATS[element], random.Random(5)
    codes_of = [c for c in range(1 << fmt.bits) if oracle.is_finite(oracle.decode(fmt, c))]
    x, y = ([generator.choice(codes_of) for _ in range(n)] for n in (6 * 4, 2 * 4 * 3))
    numbers: Numbers = ((), (), (1,), (1,), 0, (0,))
    actual = ragged_dot(
        from_codes(x, element).reshape(6, 4),
        from_codes(y, element).reshape(2, 4, 3),
        np.array([2, 3], np.int64),
        numbers,
        *(6, 3),
    )
    for row, column in itertools.product(range(6), range(3)):
        group = 0 if row < 2 else 1
        terms = [(x[row * 4 + k], y[(group * 4 + k) * 3 + column]) for k in range(4)] if row < 5 else []
        total = sum((oracle.Fraction(oracle.decode(fmt, a) * oracle.decode(fmt, b)) for a, b in terms), oracle.ZERO)
        got = int(codes(actual)[row, column])
        wanted = oracle.encode(fmt, total)
        assert oracle.same(fmt, got, wanted) or {got, wanted} == {0, fmt.sign_bit}


def test_ragged_dot_cuts_sizes_off() -> None:
    x, y = np.ones((4, 1), np.float32), np.array([[[1]], [[2]], [[3]]], np.float32)
    numbers: Numbers = ((), (), (1,), (1,), 0, (0,))
    actual = ragged_dot(x, y, np.array([1, -5, 90]), numbers, 4, 1)
    assert actual.ravel().tolist() == [1, 3, 3, 3]
    big = np.array([1, 2**64 - 1, 1], np.uint64)
    assert ragged_dot(x, y, big, numbers, 4, 1).ravel().tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("sizes", "numbers", "message"),
    [
        ([4, 4, 3], ((), (), (1,), (1,), 0, ()), "expected one free dimension"),
        ([4, 4], ((), (), (1,), (1,), 0, (0,)), "expected 2 groups"),
        ([[4, 4, 3]], ((), (), (1,), (1,), 0, (0,)), "expected one list"),
        ([4, 4, 3], ((), (), (1,), (2,), 0, (0,)), "differ in batching or contracting"),
        ([4, 4, 3], ((), (), (9,), (1,), 0, (0,)), "from 0 to 1, got 9"),
        ([4, 4, 3], ((), (), (1,), (1,), 7, (0,)), "from 0 to 1, got 7"),
        ([4.0], ((), (), (1,), (1,), 0, (0,)), "lists of integers"),
    ],
)
def test_ragged_dot_refuses(sizes: list, numbers: Numbers, message: str) -> None:
    x, y = np.zeros((11, 5), np.float32), np.zeros((3, 5, 7), np.float32)
    with pytest.raises(OpError, match=message):
        ragged_dot(x, y, np.array(sizes), numbers, 11, 7)


def scan_program(shape: str, carry: str, dimension: int, more: str = "", body: str = "stablehlo.add %c, %x") -> str:
    return f"""func.func @main(%a: tensor<{shape}>, %i: tensor<{carry}>) -> (tensor<{shape}>, tensor<{carry}>) {{
      %0:2 = chlo.scan(%a) inits(%i) dimension={dimension} {more} {{
      ^bb0(%x: tensor<{carry}>, %c: tensor<{carry}>):
        %s = {body} : tensor<{carry}>
        stablehlo.return %c, %s : tensor<{carry}>, tensor<{carry}>
      }} : (tensor<{shape}>, tensor<{carry}>) -> (tensor<{shape}>, tensor<{carry}>)
      return %0#0, %0#1 : tensor<{shape}>, tensor<{carry}>
    }}"""


def test_scan_gives_outputs_and_carries() -> None:
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    init = np.full((2, 4), 100, np.int32)
    before, last = load(scan_program("2x3x4xi32", "2x4xi32", 1))(a, init)
    sums = init[:, None] + np.concatenate([np.zeros((2, 1, 4), int), np.cumsum(a, axis=1)], axis=1)
    assert before.tolist() == sums[:, :-1].tolist()
    assert last.tolist() == sums[:, -1].tolist()


@since_0_10
def test_scan_backwards() -> None:
    backwards = "attributes {is_reverse = true}"
    before, last = load(scan_program("4xf32", "f32", 0, backwards, "stablehlo.subtract %x, %c"))(
        np.array([1, 2, 4, 8], np.float32), np.float32(1)
    )
    assert before.tolist() == [5, -3, 7, 1]
    assert last == 1 - 5


def test_scan_of_minifloats_rounds_each_step() -> None:
    program = scan_program("40xf8E5M2", "f8E5M2", 0)
    ones = from_codes([0x3C] * 40, "f8E5M2")
    before, last = load(program)(ones, from_codes(0, "f8E5M2"))
    assert [float(v) for v in before[:11]] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8]  # 8 + 1 is a tie, and goes to 8
    assert float(last) == 8


def test_scan_of_nothing() -> None:
    before, last = load(scan_program("0x3xf32", "3xf32", 0))(np.zeros((0, 3), np.float32), np.ones(3, np.float32))
    assert (before.shape, last.tolist()) == ((0, 3), [1, 1, 1])


def test_scan_without_inputs() -> None:
    t = tensor("i32")
    step = Body((t,), (t, t))
    call = Call("chlo.scan", (t,), (tensor("i32", 3), t), {"dimension": 0, "scan_dim_size": 3}, (step,))
    record = lookup("chlo.scan")
    assert record is not None
    powers, last = record.function(call)((lambda c: (c, 2 * c),), np.array(1, np.int32))
    assert (powers.tolist(), int(last)) == ([1, 2, 4], 8)
    with pytest.raises(OpError, match="expected scan_dim_size where"):
        record.function(Call("chlo.scan", (t,), (tensor("i32", 3), t), {"dimension": 0}, (step,)))


@pytest.mark.parametrize(
    ("dimension", "result", "message"),
    [
        (1, (4,), "expected a dimension of"),
        (0, (4, 2), "the body has type"),
        (0, (5,), "expected one size of dimension 0"),
    ],
)
def test_scan_refuses(dimension: int, result: tuple[int, ...], message: str) -> None:
    t = tensor("f32")
    record = lookup("chlo.scan")
    assert record is not None
    operands, results = (tensor("f32", 4), t), (tensor("f32", *result), t)
    with pytest.raises(OpError, match=message):
        record.function(Call("chlo.scan", operands, results, {"dimension": dimension}, (Body((t, t), (t, t)),)))


@pytest.mark.parametrize("element", [t.name for t in INTEGERS])
def test_mulhi(element: str) -> None:
    t = tensor(element).element
    low = -(1 << (t.bits - 1)) if element[0] == "i" else 0
    generator = random.Random(6)
    values = [low + n for n in range(1 << t.bits)] if t.bits <= 4 else []
    values = values or [
        low,
        low + 1,
        0,
        1,
        low + (1 << t.bits) - 1,
        *(low + generator.getrandbits(t.bits) for _ in range(60)),
    ]
    pairs = list(itertools.product(values, values))
    x, y = (np.array(column, object).astype(t.dtype) for column in zip(*pairs, strict=True))
    actual = run("chlo.mulhi", x, y, result=type_of(x))
    assert [int(v) for v in actual] == [(a * b) >> t.bits for a, b in pairs]


def test_constants() -> None:
    text = """func.func @main(%a: tensor<2x3xf8E4M3FN>, %b: tensor<2xui64>, %c: tensor<i1>)
        -> (tensor<2xi4>, tensor<2x3xf8E4M3FN>, tensor<2xui64>, tensor<i1>) {
      %0 = chlo.constant dense<[3, -3]> : tensor<2xi4>
      %1 = "chlo.constant_like"(%a) {value = 1.125 : f8E4M3FN} : (tensor<2x3xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>
      %2 = "chlo.constant_like"(%b) {value = 18446744073709551615 : ui64} : (tensor<2xui64>) -> tensor<2xui64>
      %3 = "chlo.constant_like"(%c) {value = true} : (tensor<i1>) -> tensor<i1>
      return %0, %1, %2, %3 : tensor<2xi4>, tensor<2x3xf8E4M3FN>, tensor<2xui64>, tensor<i1>
    }"""
    arguments = np.zeros((2, 3), tensor("f8E4M3FN").element.dtype), np.zeros(2, np.uint64), np.array(False)
    pair, like, ones, yes = load(text)(*arguments)
    assert [int(v) for v in pair] == [3, -3]
    assert codes(like).tolist() == [[0x39] * 3] * 2
    assert ones.tolist() == [2**64 - 1] * 2
    assert yes


def test_conjugate() -> None:
    z = np.array([1 + 2j, complex(np.inf, -0.0)], np.complex64)
    actual = run("chlo.conj", z, result=type_of(z))
    assert codes(actual.imag).tolist() == codes(-z.imag).tolist()
    assert actual.real.tolist() == z.real.tolist()


BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2")
OF_INTEGERS = ("and", "or", "xor", "shift_left", "shift_right_logical", "shift_right_arithmetic")


@pytest.mark.parametrize("op", BINARY + OF_INTEGERS + ("chlo.next_after",))
def test_broadcasts_as_numpy(op: str) -> None:
    dtype = np.int32 if op in OF_INTEGERS else np.float32
    generator = np.random.default_rng(7)
    name = op.removeprefix("chlo.")
    for x_shape, y_shape in (
        ((2, 3), (3,)),
        ((), (4,)),
        ((2, 1), (1, 3)),
        ((5,), (5,)),
        ((3, 1, 2), (4, 1)),
        ((0, 1), (3,)),
    ):
        x, y = (generator.integers(1, 9, shape).astype(dtype) for shape in (x_shape, y_shape))
        whole = [np.ascontiguousarray(v) for v in np.broadcast_arrays(x, y)]
        result = type_of(whole[0])
        wanted = run(op, *whole, result=result)
        assert np.array_equal(run(f"chlo.broadcast_{name}", x, y, result=result), wanted)


def test_broadcast_dimensions() -> None:
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10, 20], np.float32)
    actual = run("chlo.broadcast_add", x, y, result=type_of(x), broadcast_dimensions=(0,))
    assert actual.tolist() == (x + y[:, None]).tolist()


def test_broadcast_compare_complex_and_select() -> None:
    text = """func.func @main(%x: tensor<2x1xf32>, %y: tensor<3xf32>, %p: tensor<i1>)
        -> (tensor<2x3xi1>, tensor<2x3xcomplex<f32>>, tensor<2x3xf32>) {
      %0 = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction LT>}
        : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xi1>
      %1 = chlo.broadcast_complex %x, %y : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xcomplex<f32>>
      %2 = chlo.broadcast_select %p, %x, %y : (tensor<i1>, tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x3xf32>
      return %0, %1, %2 : tensor<2x3xi1>, tensor<2x3xcomplex<f32>>, tensor<2x3xf32>
    }"""
    x, y = np.array([[1], [3]], np.float32), np.array([0, 2, 4], np.float32)
    less, z, chosen = load(text)(x, y, np.array(False))
    assert less.tolist() == (x < y).tolist()
    assert z.tolist() == (x + 1j * y).tolist()
    assert chosen.tolist() == [[0, 2, 4]] * 2


@pytest.mark.parametrize("element", ["f8E4M3FN", "f4E2M1FN", "f8E8M0FNU"])
def test_broadcasts_minifloats(element: str) -> None:
    count = 1 << FORMATS[element].bits
    every = from_codes(range(count), element)
    grid = np.broadcast_arrays(every[:, None], every)
    result = tensor(element, count, count)
    wanted = run("multiply", *map(np.ascontiguousarray, grid), result=result)
    actual = run("chlo.broadcast_multiply", every.reshape(count, 1), every, result=result)
    assert np.array_equal(codes(actual), codes(wanted))


def test_broadcast_refuses() -> None:
    x, y = np.zeros((2, 3), np.float32), np.zeros(2, np.float32)
    with pytest.raises(OpError, match="expected operands that broadcast"):
        run("chlo.broadcast_add", x, y, result=type_of(x))
    with pytest.raises(OpError, match="broadcast_dimensions"):
        run("chlo.broadcast_add", x, y, result=type_of(x), broadcast_dimensions=(5,))


@pytest.mark.parametrize("op", ["erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i1e"])
def test_wider_formats_expand(op: str) -> None:
    values = [0.25, 0.5, 0.875]
    t = "tensor<3xf32>"
    text = f'func.func @main(%a: {t}) -> {t} {{ %r = "chlo.{op}"(%a) : ({t}) -> {t} return %r : {t} }}'
    actual = load(text)(np.array(values, np.float32))[0]
    wanted = [float(UNARY[op](oracle.Fraction(v))) for v in values]
    assert np.allclose(actual, wanted, rtol=1e-5)
