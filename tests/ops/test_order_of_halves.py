"""Order and sign of f16 and bf16, against Python's own numbers."""

import math
import operator
import struct

import numpy as np
import pytest

from minihlo.interp.api import load
from minihlo.ops.types import element_type

from ..run_op import run, tensor


def number(code: int, name: str) -> float:
    if name == "f16":
        return struct.unpack("<e", struct.pack("<H", code))[0]
    return struct.unpack("<f", struct.pack("<I", code << 16))[0]


def codes(name: str, with_nan: bool) -> np.ndarray:
    """Codes of all exponents: zeros, subnormal numbers, infinities; and NaN if wanted."""
    last = 0x7C00 if name == "f16" else 0x7F80
    some = [0, 1, 2, 0x3FF, 0x400, 0x401, last - 1, last, *range(7, last, last // 20)]
    some += [last + 1, 0x7FFF, last + 5] if with_nan else []
    return np.array([c | sign for c in some for sign in (0, 0x8000)], np.uint16)


def pairs(name: str, with_nan: bool) -> tuple[np.ndarray, np.ndarray]:
    some = codes(name, with_nan)
    return np.repeat(some, len(some)), np.tile(some, len(some))


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_the_larger_and_the_smaller(name: str, with_nan: bool) -> None:
    dtype = element_type(name).dtype
    x, y = pairs(name, with_nan)
    for op, choose in (("maximum", max), ("minimum", min)):
        result = run(op, x.view(dtype), y.view(dtype), result=tensor(name, len(x))).view(np.uint16)
        for i, j, code in zip(x.tolist(), y.tolist(), result.tolist(), strict=True):
            a, b = number(i, name), number(j, name)
            if math.isnan(a) or math.isnan(b):
                assert math.isnan(number(code, name)), (hex(i), hex(j), hex(code))
            else:
                wanted = choose((a, math.copysign(1, a), i), (b, math.copysign(1, b), j))[2]
                assert code == wanted, (op, hex(i), hex(j), hex(code))


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_comparisons(name: str, with_nan: bool) -> None:
    dtype = element_type(name).dtype
    x, y = pairs(name, with_nan)
    for direction in ("EQ", "NE", "GE", "GT", "LE", "LT"):
        result = run(
            "compare", x.view(dtype), y.view(dtype), result=tensor("i1", len(x)), comparison_direction=direction
        )
        test = getattr(operator, direction.lower())
        wanted = [test(number(i, name), number(j, name)) for i, j in zip(x.tolist(), y.tolist(), strict=True)]
        assert np.array_equal(result, wanted), direction


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_signs(name: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    result = run("negate", every.view(element_type(name).dtype), result=tensor(name, 1 << 16)).view(np.uint16)
    assert np.array_equal(result, every ^ 0x8000)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_views_and_numbers_that_are_repeated(name: str) -> None:
    dtype = element_type(name).dtype
    x = np.arange(12).astype(dtype).reshape(3, 4)
    two = np.broadcast_to(np.array(2, dtype), (3, 2))
    larger = run("maximum", x[:, ::-2], two, result=tensor(name, 3, 2))
    assert larger.tolist() == [[3, 2], [7, 5], [11, 9]]
    empty = np.zeros((0, 3), dtype)
    assert run("minimum", empty, empty, result=tensor(name, 0, 3)).shape == (0, 3)


def extremes(op: str, x: np.ndarray, start: int, along: int, name: str) -> np.ndarray:
    """The codes of the largest or smallest along a dimension of a matrix of codes, from a code on."""
    rows, columns = x.shape
    kept = x.shape[1 - along]
    program = load(f"""
    func.func @main(%x: tensor<{rows}x{columns}x{name}>, %i: tensor<{name}>) -> tensor<{kept}x{name}> {{
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.{op} across dimensions = [{along}]
        : (tensor<{rows}x{columns}x{name}>, tensor<{name}>) -> tensor<{kept}x{name}>
      return %r : tensor<{kept}x{name}>
    }}""")
    dtype = element_type(name).dtype
    (result,) = program(x.view(dtype), np.array(start, np.uint16).view(dtype))
    return result.view(np.uint16)


@pytest.mark.parametrize("with_nan", [False, True])
@pytest.mark.parametrize("shape", [(3, 700), (40, 90), (700, 3), (1, 1)])
@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_extremes_of_rows_and_columns(name: str, shape: tuple[int, int], with_nan: bool) -> None:
    rng, some = np.random.default_rng(5), codes(name, False)
    for signs in ("both", "positive", "negative"):
        sided = some if signs == "both" else some[(some < 0x8000) == (signs == "positive")]
        x = rng.choice(sided, shape).astype(np.uint16)
        if with_nan:
            places = rng.random(shape) < 0.01
            first = 0x7C01 if name == "f16" else 0x7F81
            x[places] = rng.choice([first, first | 0x8000, 0x7FFF, 0xFFFF], shape)[places]
        start = int(rng.choice(sided))
        for op, choose in (("maximum", max), ("minimum", min)):
            for along in (0, 1):
                actual = extremes(op, x, start, along, name).tolist()
                for code, column in zip(actual, (x if along == 0 else x.T).T.tolist(), strict=True):
                    numbers = [(number(c, name), c) for c in (start, *column)]
                    if any(math.isnan(v) for v, _ in numbers):
                        assert math.isnan(number(code, name))
                    else:
                        assert code == choose((v, math.copysign(1, v), c) for v, c in numbers)[2], (op, along)
