"""Quotients and remainders of integers, of arrays and of single numbers in a loop, against Python's own."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp
from minihlo.interp.compile.explain import listing
from minihlo.ops.types import element_type

#: A loop that hands a state on, so that its turns are run one after the other on single numbers.
LOOP = """
func.func @main(%x: tensor<NxT>, %y: tensor<NxT>) -> tensor<NxT> {
  %first = stablehlo.constant dense<0> : tensor<i32>
  %state = stablehlo.constant dense<0> : tensor<T>
  %out = stablehlo.constant dense<0> : tensor<NxT>
  %r:3 = stablehlo.while(%i = %first, %s = %state, %o = %out) : tensor<i32>, tensor<T>, tensor<NxT>
  cond {
    %n = stablehlo.constant dense<N> : tensor<i32>
    %more = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %a1 = stablehlo.dynamic_slice %x, %i, sizes = [1] : (tensor<NxT>, tensor<i32>) -> tensor<1xT>
    %b1 = stablehlo.dynamic_slice %y, %i, sizes = [1] : (tensor<NxT>, tensor<i32>) -> tensor<1xT>
    %a = stablehlo.reshape %a1 : (tensor<1xT>) -> tensor<T>
    %b = stablehlo.reshape %b1 : (tensor<1xT>) -> tensor<T>
    %zero = stablehlo.xor %s, %s : tensor<T>
    %c = stablehlo.or %a, %zero : tensor<T>
    %q = stablehlo.OP %c, %b : tensor<T>
    %q1 = stablehlo.reshape %q : (tensor<T>) -> tensor<1xT>
    %p = stablehlo.dynamic_update_slice %o, %q1, %i : (tensor<NxT>, tensor<1xT>, tensor<i32>) -> tensor<NxT>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %q, %p : tensor<i32>, tensor<T>, tensor<NxT>
  }
  return %r#2 : tensor<NxT>
}
"""
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


@pytest.mark.parametrize("text", [LOOP, ARRAY], ids=["loop", "array"])
@pytest.mark.parametrize("name", ["i8", "ui8", "i32", "ui32", "i64", "ui64"])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_pairs(op: str, name: str, text: str) -> None:
    pairs = list(itertools.product(numbers(name), repeat=2))
    x, y = (np.array(side, element_type(name).dtype) for side in zip(*pairs, strict=True))
    program = text.replace("OP", op).replace("N", str(len(pairs))).replace("T", name).replace(f"L{name}", "LT")
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
    text = ARRAY.replace("OP", op).replace("N", str(len(pairs))).replace("T", name)
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


@pytest.mark.parametrize("without", ["", "scalars", "tables,blocks,turns,scalars"])
@pytest.mark.parametrize("op", ["//", "%"])
def test_floored(op: str, without: str) -> None:
    """JAX's quotients and remainders, of arrays, and of numbers that a loop makes one from the other."""
    for name, divisors in {"int8": (1, 7, 64, 127, -5), "int32": (2, 97, 2**31 - 1, -8), "uint32": (10, 16)}.items():
        kind = f"{'ui' if name[0] == 'u' else 'i'}{name.lstrip('uint')}"
        x = np.array(numbers(kind), name)
        for d in divisors:
            f = one(op, d)
            wanted = np.array(floored(op, x.tolist(), d), np.int64).astype(name)  # the least by -1 wraps
            array = interp.load(jax.jit(f).lower(x), without=without)
            assert np.array_equal(array(x)[0], wanted), (name, d)

            def turn(
                c: jax.Array, v: jax.Array, f: Callable[[jax.Array], jax.Array] = f
            ) -> tuple[jax.Array, jax.Array]:
                y = f(v ^ (c & 0))
                return y, y

            loop = interp.load(jax.jit(lambda x, turn=turn: lax.scan(turn, x[0], x)[1]).lower(x), without=without)
            assert np.array_equal(loop(x)[0], wanted), (name, d)


@pytest.mark.parametrize("without", ["", "scalars", "tables,blocks,turns,scalars"])
def test_floored_by_arrays(without: str) -> None:
    """JAX divides by 1 instead of 0."""
    pairs = np.array(list(itertools.product(numbers("i32"), repeat=2)), np.int32)
    x, y = pairs.T
    wanted = [a % b if b else 0 for a, b in pairs.tolist()]
    program = interp.load(jax.jit(jnp.remainder).lower(x, y), without=without)
    assert program(x, y)[0].tolist() == wanted


def test_floored_is_one_operation() -> None:
    x = np.arange(100, dtype=np.int32)
    for f, name in ((one("//", 7), "divide"), (one("%", 7), "remainder")):
        text = listing(interp.load(jax.jit(f).lower(x)).plan())
        assert name in text
        assert not any(other in text for other in ("select", "compare", "subtract", "sign"))


def test_what_only_looks_like_a_correction() -> None:
    """Another remainder is tested, or another number added: it stays as it is written."""
    x = np.array([-9, -7, -1, 0, 1, 7, 9], np.int32)
    for tested, added in ((5, 7), (7, 5)):

        def f(x: jax.Array, tested: int = tested, added: int = added) -> jax.Array:
            rest = lax.rem(x, np.int32(7))
            test = lax.rem(x, np.int32(tested))
            return jnp.where((rest < 0) & (test != 0), rest + added, rest)

        rests = [exact("remainder", a, 7, "i32") for a in x.tolist()]
        tests = [exact("remainder", a, tested, "i32") for a in x.tolist()]
        wanted = [r + added if r < 0 and t else r for r, t in zip(rests, tests, strict=True)]
        assert interp.jit(f)(x).tolist() == wanted
