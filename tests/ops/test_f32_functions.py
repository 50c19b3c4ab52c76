"""Functions of f32, against the oracle: correctly rounded wherever an element stands."""

from __future__ import annotations

import numpy as np
import pytest

from .. import oracle
from ..run_op import run, tensor

F32 = oracle.FORMATS["f32"]
NAMES = sorted(oracle.FUNCTIONS.keys() - {"sqrt"})
#: Zero, the smallest and largest subnormal and normal numbers, one and its neighbours, where exp ends, infinity, NaN.
CODES = [0, 1, 0x7FFFFF, 0x800000, 0x00800001, 0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x42B17217, 0x42B17218,
         0x42AEAC50, 0x42CE8ECF, 0x42CFF1B5, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]  # fmt: skip
SEED = 16


def check(name: str, result: np.ndarray, *operands: np.ndarray) -> None:
    codes = [x.view(np.uint32).tolist() for x in operands]
    of = oracle.UNARY[name] if len(operands) == 1 else oracle.BINARY[name]
    for got, *given in zip(result.view(np.uint32).tolist(), *codes, strict=True):
        wanted = oracle.encode(F32, of(*[oracle.decode(F32, c) for c in given]))
        assert oracle.same(F32, got, wanted), (name, [hex(c) for c in given], hex(got), hex(wanted))


def numbers(count: int) -> np.ndarray:
    rng = np.random.default_rng(SEED)
    some = np.concatenate([rng.uniform(-100, 90, count), rng.standard_normal(count)]).astype(np.float32)
    return np.concatenate([np.array([c | s for c in CODES for s in (0, 1 << 31)], np.uint32).view(np.float32), some])


@pytest.mark.parametrize("name", NAMES)
def test_a_function(name: str) -> None:
    x = numbers(30)
    result = run(name, x, result=tensor("f32", x.size))
    check(name, result, x)
    # Many elements are computed in parts, and a single one by itself.
    many = np.resize(x, 1 << 15)
    assert run(name, many, result=tensor("f32", many.size)).tobytes() == np.resize(result, many.size).tobytes()
    for i in range(0, x.size, 7):
        assert run(name, x[i, ...], result=tensor("f32")).tobytes() == result[i].tobytes()


def test_ties_of_powers() -> None:
    """Squares of 13 bits have 25 or 26: many are ties; so are odd halves of the smallest subnormal number."""
    odd = np.arange(4097, 8192, 22, dtype=np.float32)
    subnormal = np.arange(1, 4096, 34, dtype=np.float32) * np.float32(2.0**-75)
    x = np.concatenate([odd, odd * np.float32(2.0**-60), subnormal, np.array([0, np.inf], np.float32)])
    two = np.full(x.size, 2, np.float32)
    check("power", run("power", x, two, result=tensor("f32", x.size)), x, two)


def test_operands_in_any_layout() -> None:
    x, y = numbers(8)[:40].reshape(4, 10), numbers(8)[:40][::-1].copy().reshape(4, 10)
    for a, b in ((x, y), (x.T, y.T), (x[::2, ::3], y[1::2, ::3]), (x[:0], y[:0]), (x[:, ::-1], np.asfortranarray(y))):
        result = run("atan2", a, b, result=tensor("f32", *a.shape))
        assert result.shape == a.shape
        check("atan2", result.reshape(-1), *[np.ravel(v).copy() for v in (a, b)])
