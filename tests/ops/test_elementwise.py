"""Elementwise ops on what is not a minifloat: integers against Python's own, f64 and complex numbers against mpmath."""

import math

import mpmath
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.types import ElementType, element_type

from .. import exact_cases
from ..run_op import bounds
from ..thinned import thinned

SMALL = ["i2", "i4", "i8", "ui2", "ui4", "ui8"]
WIDE = ["i16", "i32", "i64", "ui16", "ui32", "ui64"]


def run(op: str, element: str, *operands: np.ndarray) -> np.ndarray:
    return exact_cases.run([element] * len(operands), [(op, range(len(operands)), element)], operands)[0]


def values(t: ElementType) -> list[int]:
    """Every value of a small type; the extremes, small numbers and a seeded sample of a wide one."""
    low, high = bounds(t)
    if t.bits <= 8:
        return list(range(low, high + 1))
    rng = np.random.default_rng(t.bits)
    sample = [int.from_bytes(rng.bytes(t.bits // 8), "little", signed=low < 0) for _ in range(80)]
    return sorted({low, low + 1, -1 if low else 1, 0, 1, 2, 3, 7, t.bits, high - 1, high, *sample})


def wrapped(value: int, t: ElementType) -> int:
    value %= 1 << t.bits
    return value - (1 << t.bits) if value > bounds(t)[1] else value


def truncated_quotient(x: int, y: int) -> int:
    if y == 0:
        return -1
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def power(x: int, y: int, t: ElementType) -> int:
    if y >= 0:
        return pow(x, y, 1 << t.bits)
    return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)


BINARY = {
    "add": lambda x, y, t: x + y,
    "subtract": lambda x, y, t: x - y,
    "multiply": lambda x, y, t: x * y,
    "divide": lambda x, y, t: truncated_quotient(x, y),
    "remainder": lambda x, y, t: x if y == 0 else x - y * truncated_quotient(x, y),
    "maximum": lambda x, y, t: max(x, y),
    "minimum": lambda x, y, t: min(x, y),
    "power": power,
    "and": lambda x, y, t: x & y,
    "or": lambda x, y, t: x | y,
    "xor": lambda x, y, t: x ^ y,
}
UNARY = {"negate": lambda x: -x, "not": lambda x: ~x, "sign": lambda x: (x > 0) - (x < 0)}


@pytest.mark.parametrize("element", thinned(SMALL + WIDE, lambda e: e not in ("ui8", "i16", "i32", "ui16", "ui32")))
@pytest.mark.parametrize("op", BINARY)
def test_binary_integers(op: str, element: str) -> None:
    t = element_type(element)
    pairs = [(x, y) for x in values(t) for y in values(t)]
    x, y = (np.array(column, object).astype(t.dtype) for column in zip(*pairs, strict=True))
    expected = [wrapped(BINARY[op](a, b, t), t) for a, b in pairs]
    assert [int(v) for v in run(op, element, x, y)] == expected


@pytest.mark.parametrize("element", ["i16", "ui16", "i32", "ui32"])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_divisions_next_to_multiples(op: str, element: str) -> None:
    """Where a rounded quotient would be the next integer."""
    t, rng = element_type(element), np.random.default_rng(0)
    least, largest = bounds(t)
    pairs = [(largest, d) for d in (1, 2, 3, largest - 1, largest)]
    for d in np.exp2(rng.uniform(0, np.log2(largest), 3000)).astype(np.int64).tolist():
        multiple = largest // d * d if rng.random() < 0.5 else int(rng.integers(0, largest // d + 1)) * d
        pairs += [(multiple + by, d) for by in (-1, 0, 1)]
    pairs += [(s * a, t * b) for a, b in pairs for s, t in ((-1, 1), (1, -1), (-1, -1)) if least < 0]
    pairs = [(a, b) for a, b in pairs if least <= a <= largest]
    x, y = (np.array(side, t.dtype) for side in zip(*pairs, strict=True))
    assert run(op, element, x, y).tolist() == [wrapped(BINARY[op](a, b, t), t) for a, b in pairs]


@pytest.mark.parametrize("element", SMALL + WIDE)
@pytest.mark.parametrize("op", UNARY)
def test_unary_integers(op: str, element: str) -> None:
    t = element_type(element)
    if op == "sign" and element.startswith("u"):
        return
    x = np.array(values(t), object).astype(t.dtype)
    assert [int(v) for v in run(op, element, x)] == [wrapped(UNARY[op](v), t) for v in values(t)]


@pytest.mark.parametrize(
    ("op", "table"),
    [("add", "0111"), ("multiply", "0001"), ("maximum", "0111"), ("minimum", "0001")]
    + [("and", "0001"), ("or", "0111"), ("xor", "0110")],
)
def test_booleans(op: str, table: str) -> None:
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    assert "".join(str(int(v)) for v in run(op, "i1", x, y)) == table


def test_not_boolean() -> None:
    assert run("not", "i1", np.array([False, True])).tolist() == [True, False]


COMPLEX = {
    "exponential": mpmath.exp,
    "log": mpmath.log,
    "logistic": lambda z: 1 / (1 + mpmath.exp(-z)),
    "tanh": mpmath.tanh,
    "tan": mpmath.tan,
    "sine": mpmath.sin,
    "cosine": mpmath.cos,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda z: 1 / mpmath.sqrt(z),
    "cbrt": mpmath.cbrt,
    "exponential_minus_one": lambda z: mpmath.exp(z) - 1,
    "log_plus_one": lambda z: mpmath.log(1 + z),
    "negate": lambda z: -z,
    "sign": lambda z: z / abs(z),
}


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("op", COMPLEX)
def test_complex_functions(op: str, element: str) -> None:
    rng = np.random.default_rng(7)
    dtype = element_type(element).dtype
    x = (rng.normal(size=64) + 1j * rng.normal(size=64)).astype(dtype)
    with mpmath.workprec(200):
        expected = np.array([complex(COMPLEX[op](mpmath.mpc(complex(v)))) for v in x])
    tolerance = 4 * np.finfo(dtype).eps
    assert np.all(np.abs(run(op, element, x) - expected) <= tolerance * np.abs(expected))


@pytest.mark.parametrize(("element", "edge"), [("complex<f32>", 88.8), ("complex<f64>", 709.9)])
def test_complex_exponential_minus_one_that_overflows(element: str, edge: float) -> None:
    """Where e to the real part is above the largest number, what a sine or cosine makes of it may not be."""
    parts = [(edge, 1e-3), (edge, -1e-3), (edge, 1.5707), (edge, 0.0), (1e23, 0.0), (1e23, -0.0), (-1e23, 0.0)]
    x = np.array([complex(*p) for p in parts], element_type(element).dtype)
    actual, largest = run("exponential_minus_one", element, x), np.finfo(x.dtype).max
    for z, result in zip(x, actual, strict=True):
        exact = mpmath.expm1(mpmath.mpc(complex(z)))
        for part, expected in ((result.real, exact.real), (result.imag, exact.imag)):
            rounded = math.copysign(math.inf, expected) if abs(expected) > largest else float(expected)
            assert part == pytest.approx(rounded, rel=1e-6 if element == "complex<f32>" else 1e-14), (z, result)
        assert math.copysign(1, result.imag) == math.copysign(1, z.imag)
    assert run("exponential_minus_one", element, np.array([complex(math.inf, 0)], x.dtype))[0] == math.inf


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
def test_complex_logistic_of_a_large_negative_number_is_no_nan(element: str) -> None:
    dtype = element_type(element).dtype
    x = np.array([complex(-1e9, 0.5), complex(-800, -3), complex(-1e30, 1e-18)], dtype)
    result = run("logistic", element, x)
    assert (result == 0).all(), result
    edge = np.array([complex(-89, 0.5)] if element == "complex<f32>" else [complex(-709.9, 0.5)], dtype)
    exact = complex(mpmath.exp(mpmath.mpc(complex(edge[0]))))
    assert run("logistic", element, edge)[0] == pytest.approx(exact, rel=1e-3)  # a subnormal number in f32


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
def test_complex_atan2_keeps_a_small_imaginary_part(element: str) -> None:
    """With y of 2⁻⁵⁰ the angle is y / x: the next term of the series is 2¹⁰⁰ times smaller."""
    dtype, tolerance = element_type(element).dtype, 1e-6 if element == "complex<f32>" else 1e-13
    y = np.array([complex(-(2.0**-50), 0), complex(2.0**-50, 2.0**-52), complex(0, 2.0**-60)], dtype)
    x = np.array([complex(0.9375, 0.015625), complex(3, -0.5), complex(-0.25, 0)], dtype)
    for result, quotient in zip(run("atan2", element, y, x)[:2], (y / x)[:2], strict=True):
        assert result.real == pytest.approx(quotient.real, rel=tolerance)
        assert result.imag == pytest.approx(quotient.imag, rel=tolerance)
    assert run("atan2", element, y, x)[2].imag == pytest.approx(-(2.0**-58), rel=tolerance)


def test_complex_order_is_lexicographic() -> None:
    x = np.array([1 + 2j, 1 + 2j, 0, complex(math.nan, 0), 3])
    y = np.array([1 + 3j, 0 + 9j, 0, 1, complex(0, math.nan)])
    largest, smallest = run("maximum", "complex<f64>", x, y), run("minimum", "complex<f64>", x, y)
    assert largest[:3].tolist() == [1 + 3j, 1 + 2j, 0]
    assert smallest[:3].tolist() == [1 + 2j, 9j, 0]
    assert np.isnan(largest[3:]).all()
    assert np.isnan(smallest[3:]).all()


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "sign", "abs", "sqrt"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_complex_operands_that_lie_backwards(name: str, element: str) -> None:
    rng, dtype = np.random.default_rng(0), np.complex64 if element == "f32" else np.complex128
    x, y = ((rng.standard_normal(999) + 1j * rng.standard_normal(999)).astype(dtype) for _ in range(2))
    t, result = f"tensor<999xcomplex<{element}>>", f"tensor<999x{element}>" if name == "abs" else None
    operands = [x, y] if name in ("add", "subtract", "multiply", "divide") else [x]
    names, result = [f"%a{i}" for i in range(len(operands))], result or t
    text = f"""func.func @main({", ".join(f"{n}: {t}" for n in names)}) -> {result} {{
      %r = "stablehlo.{name}"({", ".join(names)}) : ({", ".join([t] * len(names))}) -> {result}
      return %r : {result}
    }}"""
    run = interp.load(text)
    forward = np.asarray(run(*operands)[0])
    backward = np.asarray(run(*(v[::-1] for v in operands))[0])
    assert forward.tobytes() == backward[::-1].tobytes()
