"""Products of f32 by the very calls of BLAS that numpy makes, for code that is not numpy's.

A BLAS sums in orders of its own, which depend on the function and on how its operands lie. So a product is only taken
where its call has given numpy's bits for some operands.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from ..blas import functions_named, one_thread

_BY_ROWS, _BY_COLUMNS, _AS_IT_IS, _TURNED = 101, 102, 111, 112
#: Operands that are compared with numpy's results before a call is trusted.
_TRIALS = 24


@dataclasses.dataclass(frozen=True)
class Product:
    """The product of (rows, length) and (length, columns), each of which may lie in memory the other way round."""

    rows: int
    length: int
    columns: int
    is_left_turned: bool
    is_right_turned: bool

    @property
    def call(self) -> tuple[str, tuple[tuple[str, float | int], ...]]:
        """The function and its operands: their kinds and values; `x`, `y` and `out` stand for the matrices.

        The function without `out` returns its result.
        """
        m, k, n = self.rows, self.length, self.columns
        x, y, one, out = ("x", 0), ("y", 0), ("long", 1), ("out", 0)
        alpha, beta = ("float", 1.0), ("float", 0.0)
        if m == n == 1:
            return "sdot", (("long", k), x, one, y, one)
        if n == 1:
            order, lead = (_BY_COLUMNS, m) if self.is_left_turned else (_BY_ROWS, k)
            what = ("int", order), ("int", _AS_IT_IS), ("long", m), ("long", k)
            return "sgemv", (*what, alpha, x, ("long", lead), y, one, beta, out, one)
        if m == 1:
            order, lead = (_BY_COLUMNS, k) if self.is_right_turned else (_BY_ROWS, n)
            what = ("int", order), ("int", _TURNED), ("long", k), ("long", n)
            return "sgemv", (*what, alpha, y, ("long", lead), x, one, beta, out, one)
        turns = [("int", _TURNED if turned else _AS_IT_IS) for turned in (self.is_left_turned, self.is_right_turned)]
        leads = ("long", m if self.is_left_turned else k), ("long", k if self.is_right_turned else n)
        sizes = ("long", m), ("long", n), ("long", k)
        what = ("int", _BY_ROWS), *turns, *sizes, alpha, x, leads[0], y, leads[1], beta, out, ("long", n)
        return "sgemm", what

    @property
    def terms(self) -> int:
        return self.rows * self.length * self.columns

    @property
    def has_out(self) -> bool:
        """Whether the function puts its result into `out`."""
        return self.rows > 1 or self.columns > 1


@dataclasses.dataclass(frozen=True)
class Function:
    """A function of BLAS: where it is, and how many bits its whole numbers have."""

    address: int
    bits: int


@functools.cache
def function_of(product: Product) -> Function | None:
    """The function that forms a product with numpy's bits; None where none is known to."""
    name, _ = product.call
    with one_thread():
        for address, bits in functions_named(f"cblas_{name}"):
            found = Function(address, bits)
            if _is_numpys(found, product):
                return found
    return None


def _is_numpys(function: Function, product: Product) -> bool:
    """Whether a function gives numpy's bits for numbers of many sizes."""
    m, k, n = product.rows, product.length, product.columns
    numbers, run = np.random.default_rng(m * 10007 + k * 101 + n), _as_python(function, product)
    for _ in range(_TRIALS):
        x, y = (_numbers(numbers, s) for s in ((m, k), (k, n)))
        x, y = (
            np.asfortranarray(v) if t else v for v, t in ((x, product.is_left_turned), (y, product.is_right_turned))
        )
        out = np.empty((m, n), np.float32)
        run(x, y, out)
        if (out + 0).tobytes() != (np.matmul(x, y) + 0).tobytes():
            return False
    return True


def _numbers(draw: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
    return (draw.standard_normal(shape) * np.exp2(draw.integers(-6, 7, shape))).astype(np.float32)


def _as_python(function: Function, product: Product) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    name, operands = product.call
    whole = ctypes.c_int64 if function.bits == 64 else ctypes.c_int32
    kinds = {"int": ctypes.c_int32, "long": whole, "float": ctypes.c_float}
    gives = None if product.has_out else ctypes.c_float
    call = ctypes.CFUNCTYPE(gives, *[kinds.get(kind, ctypes.c_void_p) for kind, _ in operands])(function.address)

    def run(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        places = {"x": x.ctypes.data, "y": y.ctypes.data, "out": out.ctypes.data}
        found = call(*[places.get(kind, value) for kind, value in operands])
        if gives is not None:
            out[...] = found

    return run
