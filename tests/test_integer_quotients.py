"""Quotients and remainders of integers, of arrays and of single numbers in a loop, against Python's own."""

import itertools

import numpy as np
import pytest

from minihlo import interp
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
