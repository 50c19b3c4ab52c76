"""dot_general and dot, against numpy and the reference interpreter; exact sums and algorithms have own files."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.policy import Policy

from .. import oracle
from ..run_op import INTEGERS, bind, codes, from_codes, run, tensor
from . import reference

EVERY = pytest.mark.parametrize("lhs", oracle.MINIFLOATS)
FIELDS = ("lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting")


def numbers(*dims: tuple[int, ...]) -> dict:
    """Dimension numbers, in the order of FIELDS; a plain product of matrices where none are given."""
    return {f"{name}_dimensions": d for name, d in zip(FIELDS, dims or ((), (), (1,), (0,)), strict=True)}


def matmul(x: np.ndarray, y: np.ndarray, result: str, policy: Policy | None = None, **attributes) -> np.ndarray:
    """The product of two matrices."""
    t = tensor(result, x.shape[0], y.shape[1])
    return run("dot_general", x, y, result=t, policy=policy, dot_dimension_numbers=numbers(), **attributes)


def finite_codes(name: str, rng: np.random.Generator, *shape: int) -> np.ndarray:
    fmt = oracle.FORMATS[name]
    every = [c for c in range(1 << fmt.bits) if oracle.is_finite(oracle.decode(fmt, c))]
    return rng.choice(np.array(every, np.uint8), shape)


@EVERY
def test_f32_sums(lhs: str) -> None:
    """Summed in f32, rounded once."""
    policy = Policy(accumulate="f32")
    rng = np.random.default_rng(6)
    x, y = (from_codes(finite_codes(lhs, rng, 16, 16), lhs) for _ in range(2))
    with np.errstate(all="ignore"):
        sums = x.astype(np.float32) @ y.astype(np.float32) + 0
        expected = sums.astype(x.dtype)  # ml_dtypes rounds f32 once
    np.testing.assert_array_equal(matmul(x, y, "f32", policy), sums)
    np.testing.assert_array_equal(matmul(x, y, lhs, policy).astype(np.float32), expected.astype(np.float32))


#: In f32 the second term is lost; in f64 it is not.
LARGE_AND_SMALL = (
    np.array([[57344, 2.0**-16]], ml_dtypes.float8_e5m2),
    np.array([[57344], [1]], ml_dtypes.float8_e5m2),
)
LOST, KEPT = 57344.0**2, 57344.0**2 + 2.0**-16


def reference_program(x: np.ndarray, y: np.ndarray, types: tuple[str, str, str], dims: str, result: str) -> str:
    """A dot_general on codes, with a result of codes."""
    shapes = ["x".join(map(str, v.shape)) for v in (x, y)]
    (lhs, rhs), bits = types[:2], oracle.FORMATS[types[2]].bits
    return f"""
      func.func @main(%a: tensor<{shapes[0]}xui8>, %b: tensor<{shapes[1]}xui8>) -> tensor<{result}xi{bits}> {{
        %x = stablehlo.bitcast_convert %a : (tensor<{shapes[0]}xui8>) -> tensor<{shapes[0]}x{lhs}>
        %y = stablehlo.bitcast_convert %b : (tensor<{shapes[1]}xui8>) -> tensor<{shapes[1]}x{rhs}>
        %z = stablehlo.dot_general %x, %y, {dims}
          : (tensor<{shapes[0]}x{lhs}>, tensor<{shapes[1]}x{rhs}>) -> tensor<{result}x{types[2]}>
        %r = stablehlo.bitcast_convert %z : (tensor<{result}x{types[2]}>) -> tensor<{result}xi{bits}>
        return %r : tensor<{result}xi{bits}>
      }}"""


def test_element_sums_against_the_reference_interpreter() -> None:
    """Bit for bit but for which NaN; the order of two contracting dimensions too.

    Into f8E8M0FNU only of that type's middle range: what negative numbers, zero and underflow become there is open.
    """
    eight = [name for name in oracle.MINIFLOATS if name.startswith("f8")]
    types = [(a, a, a) for a in eight] + [(a, "f8E5M2", "f8E4M3FN") for a in eight]
    types += [("f8E4M3FN", "f8E5M2", result) for result in ("f8E3M4", "f8E5M2FNUZ", "f16", "bf16", "f32", "f64")]
    types += [("f8E8M0FNU", "f8E8M0FNU", "f32"), ("f8E8M0FNU", "f8E4M3B11FNUZ", "bf16")]
    rng, cases = np.random.default_rng(8), []
    for lhs, rhs, result in types:
        wide = [rng.integers(0, 256, shape) for shape in ((6, 2, 3), (3, 2, 6))]
        low = 0x70 if result == "f8E8M0FNU" else 0x30
        middle = [low + rng.integers(0, 24, shape) for shape in ((6, 2, 3), (3, 2, 6))]
        signs = [v + 128 * rng.integers(0, 2, v.shape) for v in middle]
        zeros = [np.full((1, 1, 2), 0x80), np.full((2, 1, 1), 0x38)]
        one = [np.full((1, 1, 1), 0x11), np.full((1, 1, 1), 0x7F)]
        pairs = [middle] if result == "f8E8M0FNU" else [wide, middle, signs, zeros, one]
        cases += [((lhs, rhs, result), [v.astype(np.uint8) for v in pair]) for pair in pairs]
    dims = "contracting_dims = [2, 1] x [0, 1]"
    programs = [(reference_program(x, y, t, dims, f"{len(x)}x{y.shape[2]}"), (x, y)) for t, (x, y) in cases]
    answers = reference.evaluate(programs)
    for ((lhs, rhs, result), (x, y)), (expected,) in zip(cases, answers, strict=True):
        fmt = oracle.FORMATS[result]
        actual = codes(
            run("dot_general", from_codes(x, lhs), from_codes(y, rhs), policy=Policy(accumulate="element"),
                result=tensor(result, len(x), y.shape[2]), dot_dimension_numbers=numbers((), (), (2, 1), (0, 1)))
        )  # fmt: skip
        for a, b in zip(actual.ravel().tolist(), expected.ravel().tolist(), strict=True):
            assert oracle.same(fmt, a, b % (1 << fmt.bits)), (lhs, rhs, result, hex(a), hex(b))


def test_element_sums_by_hand() -> None:
    """In f4E2M1FN 0.5 + 0.5 … goes up to 4 and stays there: 4 + 0.5 rounds down again."""
    x, y = np.full((1, 40), 0.5, ml_dtypes.float4_e2m1fn), np.full((40, 1), 1, ml_dtypes.float4_e2m1fn)
    assert float(matmul(x, y, "f4E2M1FN", Policy(accumulate="element"))[0, 0]) == 2
    assert float(matmul(x, y, "f4E2M1FN", Policy(accumulate="element", rounding="up"))[0, 0]) == 6
    assert float(matmul(x, y, "f4E2M1FN")[0, 0]) == 6
    assert float(matmul(x, y, "f32", Policy(accumulate="element"))[0, 0]) == 20


def random_array(dtype: np.dtype, rng: np.random.Generator, *shape: int) -> np.ndarray:
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return rng.normal(size=shape).astype(dtype)


@pytest.mark.parametrize("element", ["f32", "f64", "complex<f32>", "complex<f64>"])
def test_host_types(element: str) -> None:
    rng = np.random.default_rng(9)
    dtype = tensor(element).element.dtype
    x, y = random_array(dtype, rng, 13, 40), random_array(dtype, rng, 40, 7)
    expected = (x.astype(np.clongdouble)[:, :, None] * y.astype(np.clongdouble)[None]).sum(1)
    bound = 40 * np.finfo(dtype).eps * (np.abs(x) @ np.abs(y))
    assert (np.abs(matmul(x, y, element) - expected) <= bound).all()


def test_short_complex_sums_are_in_order() -> None:
    """As the reference interpreter sums them, every step rounded."""
    rng = np.random.default_rng(16)
    x, y = random_array(np.dtype("c8"), rng, 20, 9), random_array(np.dtype("c8"), rng, 9, 20)
    actual = matmul(x, y, "complex<f32>")
    for i, j in np.ndindex(20, 20):
        real = imaginary = np.float32(0)
        for a, b in zip(x[i], y[:, j], strict=True):
            real += a.real * b.real - a.imag * b.imag
            imaginary += a.real * b.imag + a.imag * b.real
        assert (actual[i, j].real, actual[i, j].imag) == (real, imaginary)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_sixteen_bits(element: str) -> None:
    """Summed in f32 and rounded once, also into other types; in f64 if that is the result's."""
    rng = np.random.default_rng(10)
    dtype = tensor(element).element.dtype
    x, y = random_array(dtype, rng, 13, 40), random_array(dtype, rng, 40, 7)
    sums = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_array_equal(matmul(x, y, element), sums.astype(dtype))
    np.testing.assert_array_equal(matmul(x, y, "f32"), sums)
    np.testing.assert_array_equal(codes(matmul(x, y, "f8E4M3FN")), codes(sums.astype(ml_dtypes.float8_e4m3fn)))
    np.testing.assert_array_equal(matmul(x, y, "f64"), x.astype(np.float64) @ y.astype(np.float64))


def test_operands_of_different_types() -> None:
    x, y = np.array([[1.5, -2]], ml_dtypes.float8_e5m2), np.array([[3], [5]], np.int8)
    half, whole = y.astype(np.float16), y.astype(np.float64)
    for pair in ((x, y), (x, half), (x, whole), (whole.T, x.T), (half.T, x.T), (y.T, x.T), (x, y.astype(np.complex64))):
        for result in ("f8E4M3FN", "bf16", "f32", "f64", "complex<f64>", "i32"):
            expected = -5 if result == "i32" else -5.5
            assert matmul(*pair, result)[0, 0] == expected, (pair, result)
    assert matmul(x, x.T, "i32")[0, 0] == 6
    assert matmul(y.T, y, "f32")[0, 0] == 34
    assert matmul(y.T, y, "f8E4M3FN")[0, 0] == 32
    large = np.array([[2**63]], np.uint64)
    assert matmul(large, np.array([[1]], np.uint8), "f32")[0, 0] == 2.0**63


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_integers_wrap(element) -> None:
    rng = np.random.default_rng(element.bits)
    for length in (1, 3, 130):
        x = from_codes(rng.integers(0, 1 << 64, (5, length), np.uint64, endpoint=False), element)
        y = from_codes(rng.integers(0, 1 << 64, (length, 4), np.uint64, endpoint=False), element)
        x[0], y[:, 0] = (from_codes(1 << (element.bits - 1), element) for _ in range(2))  # the most negative number
        xs, ys = ([[int(v) for v in row] for row in a] for a in (x, y.T))
        sums = [[sum(a * b for a, b in zip(row, column, strict=True)) for column in ys] for row in xs]
        for result in INTEGERS:
            actual = matmul(x, y, result.name)
            expected = from_codes(np.array([[s % (1 << result.bits) for s in row] for row in sums], np.uint64), result)
            assert (codes(actual) == codes(expected)).all(), result


def test_integers_from_mixed_signs() -> None:
    x, y = np.array([[200, 100]], np.uint8), np.array([[-128], [127]], np.int8)
    assert matmul(x, y, "i32")[0, 0] == -200 * 128 + 100 * 127
    assert matmul(x, y, "i8")[0, 0] == (-200 * 128 + 100 * 127 + 128) % 256 - 128


def test_booleans() -> None:
    x = np.array([[True, True, False], [False, True, False], [False, False, False]])
    np.testing.assert_array_equal(matmul(x, x, "i1"), (x[:, :, None] & x[None]).any(1))
    np.testing.assert_array_equal(matmul(x, x, "i32"), (x[:, :, None] & x[None]).sum(1))
    many = np.ones((1, 256), bool)
    assert matmul(many, many.T, "i1")[0, 0]  # 256 of them are still true


def every_layout():
    """All ways to say which of two operands' dimensions are batching and contracting, up to rank 3."""
    for ranks in itertools.product(range(4), repeat=2):
        for count in range(min(ranks) + 1):
            for xs, ys in itertools.product(*(itertools.permutations(range(r), count) for r in ranks)):
                for batching in range(count + 1):
                    yield ranks, (xs[:batching], ys[:batching], xs[batching:], ys[batching:])


def shaped(ranks: tuple[int, int], dims: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    """Shapes that fit, of sizes that tell dimensions apart."""
    sizes = [[2, 3, 5][:r] for r in ranks]
    sizes[1] = [{2: 7, 3: 4, 5: 6}[n] for n in sizes[1]]
    for x, y in zip(dims[0] + dims[2], dims[1] + dims[3], strict=True):
        sizes[1][y] = sizes[0][x]
    return sizes


def einsum(x: np.ndarray, y: np.ndarray, dims: tuple[tuple[int, ...], ...]) -> np.ndarray:
    xs, ys = list(range(x.ndim)), list(range(10, 10 + y.ndim))
    for a, b in zip(dims[0] + dims[2], dims[1] + dims[3], strict=True):
        ys[b] = xs[a]
    batch = [xs[d] for d in dims[0]]
    free = [n for n in xs if n not in ys] + [n for n in ys if n not in xs]
    return np.einsum(x, xs, y, ys, batch + free)


def test_every_layout() -> None:
    rng = np.random.default_rng(12)
    for ranks, dims in every_layout():
        x, y = (rng.integers(-6, 7, shape).astype(np.float64) for shape in shaped(ranks, dims))
        expected = einsum(x, y, dims)
        x8, y8 = x.astype(ml_dtypes.float8_e5m2), y.astype(ml_dtypes.float8_e4m3fn)
        for a, b in ((x, y), (x8, y8)):
            wide = [v.astype(np.float64) for v in (a, b)]
            actual = run(
                "dot_general", a, b, result=tensor("f64", *expected.shape), dot_dimension_numbers=numbers(*dims)
            )
            np.testing.assert_array_equal(actual, einsum(*wide, dims))


def test_views() -> None:
    """Operands that do not lie in memory in order."""
    rng = np.random.default_rng(13)
    x = rng.integers(-4, 5, (6, 8, 10)).astype(ml_dtypes.float8_e4m3fn)
    for a, b in ((x[0].T, x[1]), (x[0, ::2], x[1, :, ::-1].T), (x[::2, 3], x[1, :, ::3].T[:, :8].T[:, ::-1].T.T)):
        b = b if a.shape[1] == b.shape[0] else b.T
        if a.shape[1] == b.shape[0]:
            expected = a.astype(np.float32) @ b.astype(np.float32)
            np.testing.assert_array_equal(matmul(a, b, "f32"), expected)
    broadcast = np.broadcast_to(x[0, 0, :1], (3, 4))
    np.testing.assert_array_equal(matmul(broadcast, broadcast.T, "f32"), np.full((3, 3), 4 * float(x[0, 0, 0]) ** 2))


@pytest.mark.parametrize(
    "element", ["f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f16", "f32", "complex<f32>", "i4", "i32", "i1"]
)
@pytest.mark.parametrize("accumulate", ["exact", "f32", "element"])
def test_nothing_to_sum(element: str, accumulate: str) -> None:
    policy = Policy(accumulate=accumulate)
    dtype = tensor(element).element.dtype
    assert matmul(np.zeros((0, 3), dtype), np.zeros((3, 2), dtype), element, policy).shape == (0, 2)
    actual = matmul(np.zeros((2, 0), dtype), np.zeros((0, 3), dtype), "f32", policy)
    assert not codes(actual).any()
    sums = matmul(np.zeros((2, 0), dtype), np.zeros((0, 3), dtype), element, policy)
    expected = 0xFF if element == "f8E8M0FNU" and accumulate != "element" else 0  # zero is NaN there
    assert (codes(sums) == expected).all()


def test_dot() -> None:
    rng = np.random.default_rng(14)
    for shapes in (((5,), (5,)), ((3, 5), (5,)), ((5,), (5, 4)), ((3, 5), (5, 4))):
        x, y = (rng.integers(-4, 5, shape).astype(ml_dtypes.float8_e4m3fn) for shape in shapes)
        expected = x.astype(np.float32) @ y.astype(np.float32)
        np.testing.assert_array_equal(run("dot", x, y, result=tensor("f32", *expected.shape)), expected)
    scalars = run(
        "dot_general", np.float32(3), np.float32(5), result=tensor("f32"), dot_dimension_numbers=numbers(*[()] * 4)
    )
    assert scalars == 15


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (((0,), (), (1,), (0,)), "lhs has 1 batching dimensions and rhs 0"),
        (((), (), (1,), ()), "lhs has 1 contracting dimensions and rhs 0"),
        (((1,), (0,), (1,), (0,)), "expected batching and contracting dimensions of lhs without repetition"),
        (((), (), (2,), (0,)), "expected batching and contracting dimensions of lhs from 0 to 1, got 2"),
        (((), (), (1,), (-1,)), "expected batching and contracting dimensions of rhs from 0 to 1, got -1"),
        (((), (), (0,), (0,)), "contracting dimension 0 of lhs has size 2 and 0 of rhs 3"),
        (((0,), (0,), (), ()), "batching dimension 0 of lhs has size 2 and 0 of rhs 3"),
        (((), (), (), ()), r"expected a result of shape \[2, 3, 3, 4\]"),
    ],
)
def test_wrong_dimensions(dims, message: str) -> None:
    operands = [tensor("f32", 2, 3), tensor("f32", 3, 4)]
    with pytest.raises(OpError, match=message):
        bind("dot_general", operands, tensor("f32", 2, 4), dot_dimension_numbers=numbers(*dims))


def test_wrong_uses() -> None:
    operands, result = [tensor("f32", 2, 3), tensor("f32", 3, 4)], tensor("f32", 2, 4)
    for attributes, message in (
        ({}, "dot_dimension_numbers"),
        ({"dot_dimension_numbers": 3}, "structure"),
        ({"dot_dimension_numbers": numbers(), "precision_config": ("DEFAULT",)}, "a precision_config for"),
    ):
        with pytest.raises(OpError, match=message):
            bind("dot_general", operands, result, **attributes)
    with pytest.raises(OpError, match="expected operands of rank 1 or 2, got 3 and 2"):
        bind("dot", [tensor("f32", 2, 3, 4), tensor("f32", 4, 4)], result)


def bits_of_product(x: np.ndarray, y: np.ndarray, *contracting: int) -> bytes:
    free = [n for a, d in zip((x, y), contracting, strict=True) for i, n in enumerate(a.shape) if i != d]
    dims = numbers((), (), *((d,) for d in contracting))
    result = tensor(f"f{x.itemsize * 8}", *free)
    return run("dot_general", x, y, result=result, dot_dimension_numbers=dims).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k"), [(2, 5), (5, 2), (8, 8), (7, 33), (64, 65), (9, 300), (600, 500)])
def test_a_matrix_and_a_vector_have_the_bits_of_a_product_of_matrices(m: int, k: int, dtype: type) -> None:
    rng = np.random.default_rng(14)
    a, x, y = (rng.standard_normal(s).astype(dtype) for s in ((m, k), k, m))
    a[0], x[:] = -0.0, np.abs(x)
    turned, spread = np.ascontiguousarray(a.T), np.repeat(a, 2, 1)[:, ::2]
    if k > 4:  # in order otherwise
        wanted = (np.matmul(a[None], x.reshape(1, k, 1)) + 0).tobytes()
        assert not np.signbit(np.frombuffer(wanted, dtype)[0])
        assert bits_of_product(a, x, 1, 0) == wanted
        assert bits_of_product(spread, x, 1, 0) == wanted
        assert bits_of_product(turned, x, 0, 0) == (np.matmul(turned.T[None], x.reshape(1, k, 1)) + 0).tobytes()
    if m > 4:
        assert bits_of_product(y, a, 0, 0) == (np.matmul(y[None, None], a[None]) + 0).tobytes()
        assert bits_of_product(y, turned, 0, 1) == (np.matmul(y[None, None], turned.T[None]) + 0).tobytes()
