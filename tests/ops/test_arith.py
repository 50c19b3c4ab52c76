"""MLIR's `arith` and `math` dialects on scalars and tensors, against Python's own integers and floats."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load


def run(op: str, operand: str, result: str, *arrays: np.ndarray, attributes: str = "") -> np.ndarray:
    n = len(arrays[0])
    names = [f"%a{i}" for i in range(len(arrays))]
    arguments = ", ".join(f"{name}: tensor<{n}x{operand}>" for name in names)
    types = ", ".join([f"tensor<{n}x{operand}>"] * len(arrays))
    program = load(f"""func.func @main({arguments}) -> tensor<{n}x{result}> {{
      %0 = "{op}"({", ".join(names)}) {{{attributes}}} : ({types}) -> tensor<{n}x{result}>
      return %0 : tensor<{n}x{result}>
    }}""")
    return program(*arrays)[0]


def _wrapped(n: int, bits: int) -> int:
    return (n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _unsigned(f: Callable[..., int], bits: int) -> Callable[..., int]:
    return lambda *xs: f(*(x % (1 << bits) for x in xs))


#: Of signed integers; of those whose name ends in u, of unsigned ones.
INTEGERS: dict[str, Callable[[int, int], int]] = {
    "addi": lambda x, y: x + y, "subi": lambda x, y: x - y, "muli": lambda x, y: x * y,
    "divsi": _truncated, "remsi": lambda x, y: x - y * _truncated(x, y), "divui": lambda x, y: x // y,
    "remui": lambda x, y: x % y, "maxsi": max, "minsi": min, "maxui": max, "minui": min,
    "ceildivsi": lambda x, y: -(-x // y), "floordivsi": lambda x, y: x // y, "ceildivui": lambda x, y: -(-x // y),
}  # fmt: skip


@pytest.mark.parametrize(("element", "bits", "dtype"), [("i8", 8, np.int8), ("i4", 4, ml_dtypes.int4)])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str, element: str, bits: int, dtype: Any) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    divides = "div" in name or "rem" in name
    every = itertools.product(range(low, high + 1, 3 if bits == 8 else 1), repeat=2)
    pairs = [(x, y) for x, y in every if not divides or (y and (x, y) != (low, -1))]
    f = _unsigned(INTEGERS[name], bits) if name.endswith("ui") else INTEGERS[name]
    x, y = (np.array(v).astype(dtype) for v in zip(*pairs, strict=True))
    actual = run(f"arith.{name}", element, element, x, y)
    assert actual.astype(np.int64).tolist() == [_wrapped(f(a, b), bits) for a, b in pairs]


def test_wide_divisions() -> None:
    x, y = np.array([-(2**63), 2**63 - 1, -7, 7]), np.array([3, -5, 2, -2])
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    assert run("arith.floordivsi", "i64", "i64", x, y).tolist() == [a // b for a, b in pairs]
    assert run("arith.ceildivsi", "i64", "i64", x, y).tolist() == [-(-a // b) for a, b in pairs]
    large = [(a % 2**64, b % 2**64) for a, b in pairs]
    expected = [_wrapped(-(-a // b), 64) for a, b in large]
    assert run("arith.ceildivui", "i64", "i64", x, y).tolist() == expected


NUMBERS = (0.0, -0.0, 1.5, -1.5, 3.0, math.inf, -math.inf, math.nan)
_ORDERED: tuple[Callable[[float, float], bool], ...] = (
    lambda x, y: False, lambda x, y: x == y, lambda x, y: x > y, lambda x, y: x >= y, lambda x, y: x < y,
    lambda x, y: x <= y, lambda x, y: x < y or x > y, lambda x, y: x == x and y == y,
)  # fmt: skip


@pytest.mark.parametrize(("element", "dtype"), [("f32", np.float32), ("f8E5M2", ml_dtypes.float8_e5m2)])
@pytest.mark.parametrize("number", range(16))
def test_comparisons_of_floats(number: int, element: str, dtype: Any) -> None:
    """0 to 7 are false for NaN; 8 to 15 (ueq, ugt, uge, ult, ule, une, uno, true) are true for it."""
    ordered = (*range(8), 1, 2, 3, 4, 5, 6, 0, 7)[number]
    pairs = list(itertools.product(NUMBERS, repeat=2))
    x, y = (np.array(v).astype(dtype) for v in zip(*pairs, strict=True))
    expected = [_ORDERED[ordered](a, b) or (number >= 8 and (a != a or b != b)) for a, b in pairs]
    actual = run("arith.cmpf", element, "i1", x, y, attributes=f"predicate = {number} : i64")
    assert actual.tolist() == expected


def test_the_larger_float() -> None:
    pairs = list(itertools.product(NUMBERS[2:], repeat=2))
    x, y = (np.array(v, np.float32) for v in zip(*pairs, strict=True))
    for name, choose in (("max", max), ("min", min)):
        whole = [math.nan if a != a or b != b else choose(a, b) for a, b in pairs]
        rest = [b if a != a else a if b != b else choose(a, b) for a, b in pairs]
        np.testing.assert_array_equal(run(f"arith.{name}imumf", "f32", "f32", x, y), whole)
        np.testing.assert_array_equal(run(f"arith.{name}numf", "f32", "f32", x, y), rest)


@pytest.mark.parametrize(
    ("op", "operand", "result", "given", "expected"),
    [
        ("extui", "i8", "i32", [-1, 5], [255, 5]),
        ("extsi", "i8", "i32", [-1, 5], [-1, 5]),
        ("extui", "i1", "i32", [True, False], [1, 0]),
        ("extsi", "i1", "i32", [True, False], [-1, 0]),
        ("trunci", "i32", "i1", [6, 7], [False, True]),
        ("index_castui", "i8", "index", [-1, 5], [255, 5]),
        ("uitofp", "i8", "f32", [-1, 5], [255.0, 5.0]),
        ("sitofp", "i8", "f8E4M3FN", [-1, 17], [-1.0, 16.0]),
        ("fptosi", "f32", "i8", [-1.75, 5.5], [-1, 5]),
        ("fptoui", "f32", "i8", [200.5, 5.5], [-56, 5]),
        ("truncf", "f32", "f8E5M2", [1.1, 100000.0], [1.0, math.inf]),
        ("extf", "f8E4M3FN", "f32", [1.125, -448.0], [1.125, -448.0]),
        ("trunci", "i32", "i8", [300, -129], [44, 127]),
        ("bitcast", "f8E4M3FN", "i8", [1.0, -1.0], [0x38, -0x48]),
        ("negf", "f32", "f32", [0.0, 2.0], [-0.0, -2.0]),
    ],
)  # fmt: skip
def test_conversions(op: str, operand: str, result: str, given: list[Any], expected: list[Any]) -> None:
    types = {"i1": np.bool_, "i8": np.int8, "i32": np.int32, "f32": np.float32}
    types |= {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}
    actual = run(f"arith.{op}", operand, result, np.array(given).astype(types[operand]))
    assert list(map(str, actual.astype(np.float64))) == list(map(str, np.array(expected, np.float64)))


def test_shifts() -> None:
    x, y = np.array([-8, 5, 1], np.int8), np.array([1, 2, 7], np.int8)
    assert run("arith.shli", "i8", "i8", x, y).tolist() == [-16, 20, -128]
    assert run("arith.shrsi", "i8", "i8", x, y).tolist() == [-4, 1, 0]
    assert run("arith.shrui", "i8", "i8", x, y).tolist() == [124, 1, 0]


def test_functions_of_math() -> None:
    x = np.array([0.25, 0.5], np.float32)
    for name, f in (("sqrt", math.sqrt), ("exp", math.exp), ("tanh", math.tanh), ("atan", math.atan), ("absf", abs)):
        assert run(f"math.{name}", "f32", "f32", x).tolist() == [np.float32(f(float(v))) for v in x]
    assert run("math.powf", "f32", "f32", x, x).tolist() == [np.float32(v**v) for v in (0.25, 0.5)]
    assert run("math.ctpop", "i8", "i8", np.array([7, -1], np.int8)).tolist() == [3, 8]


def test_comparisons_of_few_bits() -> None:
    """True is -1 as a signed integer."""
    for element, values in (("i1", [False, True]), ("i4", [-8, -1, 0, 1, 7])):
        pairs = list(itertools.product(values, repeat=2))
        dtype = np.bool_ if element == "i1" else ml_dtypes.int4
        x, y = (np.array(v).astype(dtype) for v in zip(*pairs, strict=True))
        bits = int(element[1:])
        signed = [(_wrapped(int(a), bits), _wrapped(int(b), bits)) for a, b in pairs]
        unsigned = [(int(a) % (1 << bits), int(b) % (1 << bits)) for a, b in pairs]
        below = run("arith.cmpi", element, "i1", x, y, attributes="predicate = 2 : i64")
        assert below.tolist() == [a < b for a, b in signed]
        below = run("arith.cmpi", element, "i1", x, y, attributes="predicate = 6 : i64")
        assert below.tolist() == [a < b for a, b in unsigned]


def test_kinds_of_floats() -> None:
    x = np.array([1, math.inf, -math.inf, math.nan]).astype(ml_dtypes.float8_e5m2)
    for name, expected in (("isnan", [0, 0, 0, 1]), ("isinf", [0, 1, 1, 0]), ("isfinite", [1, 0, 0, 0])):
        assert run(f"math.{name}", "f8E5M2", "i1", x).tolist() == [bool(e) for e in expected]
