"""Quotients and remainders of integers, against Python's own."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.types import element_type

ARRAY = """
func.func @main(%x: tensor<NxT>, %y: tensor<NxT>) -> tensor<NxT> {
  %r = stablehlo.OP %x, %y : tensor<NxT>
  return %r : tensor<NxT>
}
"""


def exact(op: str, a: int, b: int, name: str) -> int:
    """Truncated division; by zero all bits are set, and the remainder is the dividend."""
    if op == "remainder":
        return a if b == 0 else (abs(a) % abs(b)) * (-1 if a < 0 else 1)
    quotient = -1 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
    bits = int(name.lstrip("ui"))
    quotient %= 1 << bits
    return quotient - (1 << bits) if name.startswith("i") and quotient >> (bits - 1) else quotient


def numbers(name: str) -> list[int]:
    least, largest = (int(f(element_type(name).dtype)) for f in (lambda d: np.iinfo(d).min, lambda d: np.iinfo(d).max))
    few = [least, least + 1, least // 3, -97, -8, -7, -3, -2, -1, 0, 1, 2, 3, 7, 8, 97, largest // 3, largest - 1]
    return sorted({n for n in (*few, largest) if least <= n <= largest})


@pytest.mark.parametrize("name", ["i8", "ui8", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_pairs(op: str, name: str) -> None:
    pairs = list(itertools.product(numbers(name), repeat=2))
    x, y = (np.array(side, element_type(name).dtype) for side in zip(*pairs, strict=True))
    program = ARRAY.replace("OP", op).replace("N", str(len(pairs))).replace("xT", f"x{name}")
    result = interp.load(program)(x, y)
    wanted = [exact(op, a, b, name) for a, b in pairs]
    assert np.asarray(result).reshape(-1).tolist() == wanted


@pytest.mark.parametrize("name", ["i16", "ui16", "i32", "ui32"])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_next_to_multiples(op: str, name: str) -> None:
    """Where a rounded quotient would be the next integer; without the smallest number, which is divided differently."""
    dtype, rng = element_type(name).dtype, np.random.default_rng(0)
    least, largest = int(np.iinfo(dtype).min) + 1, int(np.iinfo(dtype).max)
    pairs = [(largest, d) for d in (1, 2, 3, largest - 1, largest)]
    for d in np.exp2(rng.uniform(0, np.log2(largest), 3000)).astype(np.int64).tolist():
        multiple = largest // d * d if rng.random() < 0.5 else int(rng.integers(0, largest // d + 1)) * d
        pairs += [(multiple + by, d) for by in (-1, 0, 1)]
    pairs += [(s * a, t * b) for a, b in pairs for s, t in ((-1, 1), (1, -1), (-1, -1)) if least < 0]
    pairs = [(a, b) for a, b in pairs if least <= a <= largest]
    x, y = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    text = ARRAY.replace("OP", op).replace("N", str(len(pairs))).replace("xT", f"x{name}")
    assert np.asarray(interp.load(text)(x, y)).reshape(-1).tolist() == [exact(op, a, b, name) for a, b in pairs]


ONE_DIVISOR = """
func.func @main(%x: tensor<NxT>) -> tensor<NxT> {
  %y = stablehlo.constant dense<DIVISOR> : tensor<NxT>
  %r = stablehlo.OP %x, %y : tensor<NxT>
  %z = stablehlo.constant dense<0> : tensor<NxT>
  %s = stablehlo.or %r, %z : tensor<NxT>
  return %s : tensor<NxT>
}
"""


@pytest.mark.parametrize("name", ["i4", "i8", "ui8", "i32", "ui64"])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_one_divisor(op: str, name: str) -> None:
    dtype = element_type(name).dtype
    x = np.arange(-8, 8, dtype=np.int8).astype(dtype) if name == "i4" else np.array(numbers(name), dtype)
    for d in [-8, -3, -1, 0, 1, 2, 7] if name == "i4" else numbers(name):
        text = ONE_DIVISOR.replace("OP", op).replace("N", str(len(x))).replace("DIVISOR", str(d))
        result = interp.load(text.replace("xT>", f"x{name}>"))(x)
        assert np.asarray(result).reshape(-1).tolist() == [exact(op, int(a), d, name) for a in x], d


def floored(op: str, x: list[int], d: int) -> list[int]:
    return [a // d if op == "//" else a % d for a in x]


def one(op: str, d: int) -> Callable[[jax.Array], jax.Array]:
    return (lambda x: x // d) if op == "//" else (lambda x: x % d)


@pytest.mark.parametrize("op", ["//", "%"])
def test_floored(op: str) -> None:
    """JAX's quotients and remainders."""
    for name, divisors in {"int8": (1, 7, 64, 127, -5), "int32": (2, 97, 2**31 - 1, -8), "uint32": (10, 16)}.items():
        kind = f"{'ui' if name[0] == 'u' else 'i'}{name.lstrip('uint')}"
        x = np.array(numbers(kind), name)
        for d in divisors:
            f = one(op, d)
            wanted = np.array(floored(op, x.tolist(), d), np.int64).astype(name)  # the least by -1 wraps
            array = interp.load(jax.jit(f).lower(x))
            assert np.array_equal(array(x)[0], wanted), (name, d)


def test_floored_by_arrays() -> None:
    """JAX divides by 1 instead of 0."""
    pairs = np.array(list(itertools.product(numbers("i32"), repeat=2)), np.int32)
    x, y = pairs.T
    wanted = [a % b if b else 0 for a, b in pairs.tolist()]
    program = interp.load(jax.jit(jnp.remainder).lower(x, y))
    assert program(x, y)[0].tolist() == wanted
