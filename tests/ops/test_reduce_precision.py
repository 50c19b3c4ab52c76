"""reduce_precision, against XLA and the definition in numbers."""

import functools
import itertools
import math
from fractions import Fraction

import jax
import numpy as np
import pytest

from minihlo.ops.op import OpError
from minihlo.ops.policy import OVERFLOWS, Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from .. import oracle
from ..run_op import FLOATS, bind, codes, from_codes, run, tensor, type_of


@pytest.fixture(autouse=True)
def _as_the_machine_runs():
    with np.errstate(all="ignore"):
        yield


def reduced(x: np.ndarray, exponent_bits: int, mantissa_bits: int, **policy) -> np.ndarray:
    return run("reduce_precision", x, result=type_of(x), policy=Policy(**policy), exponent_bits=exponent_bits,
               mantissa_bits=mantissa_bits)  # fmt: skip


def test_reduce_precision_by_hand() -> None:
    x = from_codes([0x7FF0 << 48, (1 << 63) - 1, 1, 0], "f64")
    x = np.append(x, [65505.0, 65520.0, -65519.0, 6.2e-5, 6.1e-5, -6.1e-5])
    actual = codes(reduced(x, 5, 10)).tolist()
    expected = np.array([0, 0, 0, 0, 65504, np.inf, -65504, 6.198883056640625e-05, 0, -0.0])
    assert actual[:2] == codes(x)[:2].tolist()  # infinity, and a NaN bit for bit
    assert actual[2:] == codes(expected)[2:].tolist()
    assert codes(reduced(x[1:2], 5, 0)) == 0x7FF0 << 48


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_reduce_precision_as_xla(name: str) -> None:
    element = ELEMENT_TYPES[name]
    fmt = element.format
    if element.bits == 16:
        x = from_codes(np.arange(1 << 16), element)
    else:
        rng = np.random.default_rng(7)
        bits = rng.integers(0, 2**64, 20_000, np.uint64) >> np.uint64(64 - element.bits)
        for i in range(1, fmt.mantissa_bits + 1):  # ties, and beside them
            bits[i * 100 :][:100] &= np.uint64((1 << element.bits) - (1 << i))
        middle = np.linspace(-40, 40, 10_000)  # most of all numbers are beyond any range otherwise
        x = np.concatenate([from_codes(bits, element), (np.exp2(middle) * np.sign(middle)).astype(element.dtype)])
    with jax.enable_x64(True):
        for e, m in zip((1, 2, 3, 4, 5, 5, 6, 8, 8, 5, 7, 11), (1, 3, 0, 3, 2, 7, 5, 6, 7, 10, 20, 30), strict=True):
            expected = np.asarray(jax.lax.reduce_precision(jax.numpy.asarray(x), e, m))
            a, b = codes(reduced(x, e, m)), codes(expected)
            nan = np.isnan(x.astype(np.float64))
            np.testing.assert_array_equal(a[~nan], b[~nan], f"e{e}m{m}")
            if m:
                assert np.isnan(reduced(x, e, m)[nan].astype(np.float64)).all()
            else:  # XLA keeps NaN here, where the reference interpreter makes it infinite
                assert (a[nan] == fmt.infinity_code).all()


def reduced_by_value(fmt: oracle.Format, code: int, e: int, m: int, overflow: str) -> int:
    """The definition in numbers: the nearest with m mantissa bits, ties to even, then the range of e exponent bits."""
    value = oracle.decode(fmt, code)
    if math.isnan(value):
        return (fmt.ones - (1 << fmt.mantissa_bits) + 1) if m == 0 and fmt.has_infinity else code
    if math.isinf(value):
        return code
    step = 1 << max(fmt.mantissa_bits - m, 0)
    size = code & fmt.ones
    candidates = [size // step * step, (size // step + 1) * step]
    places = [_magnitude(fmt, c) for c in candidates]
    distances = [abs(p - abs(Fraction(value))) for p in places]
    pick = distances[1] < distances[0] or (distances[0] == distances[1] and candidates[0] // step % 2 == 1)
    result = places[pick]
    if e < fmt.exponent_bits:
        reach = (1 << (e - 1)) - 1
        if result >= Fraction(2) ** (reach + 1):
            result = oracle.INF
        elif result < Fraction(2) ** (1 - reach):
            result = Fraction(0)
    negative = oracle.is_negative(value)
    if result != oracle.INF and result > fmt.max:
        result = oracle.INF
    return oracle.encode(fmt, oracle.signed(result, negative), overflow="ieee" if fmt.has_infinity else overflow)


@functools.cache
def _magnitude(fmt: oracle.Format, code: int) -> Fraction:
    """The value of a code as if the range had no end."""
    field, mantissa = code >> fmt.mantissa_bits, Fraction(code & ((1 << fmt.mantissa_bits) - 1), 1 << fmt.mantissa_bits)
    if field == 0 and fmt.name != "f8E8M0FNU":
        return mantissa * Fraction(2) ** (1 - fmt.bias)
    return (1 + mantissa) * Fraction(2) ** (field - fmt.bias)


@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("element", [t for t in FLOATS if t.is_minifloat], ids=str)
def test_reduce_precision_of_minifloats(element: ElementType, overflow: str) -> None:
    fmt = oracle.FORMATS[element.name]
    x = from_codes(np.arange(1 << element.bits), element)
    every = list(itertools.product(range(1, fmt.exponent_bits + 2), range(fmt.mantissa_bits + 2)))
    for e, m in every if overflow == "ieee" else every[:: fmt.mantissa_bits + 3]:
        actual = codes(reduced(x, e, m, overflow=overflow)).tolist()
        expected = [reduced_by_value(fmt, c, e, m, overflow) for c in range(1 << element.bits)]
        for code, a, b in zip(range(1 << element.bits), actual, expected, strict=True):
            assert oracle.same(fmt, a, b), f"e{e}m{m} of {code:#x} is {a:#x}, not {b:#x}"
        if e >= fmt.exponent_bits and m >= fmt.mantissa_bits:
            assert actual == list(range(1 << element.bits))
        scalar = x[-1:].reshape(())
        assert codes(reduced(scalar, e, m, overflow=overflow)) == actual[-1]


@pytest.mark.parametrize(
    ("result", "bits", "message"),
    [
        (tensor("f32", 2), (0, 3), "exponent_bits is 0"),
        (tensor("f32", 2), (5, -1), "mantissa_bits is -1"),
        (tensor("f32", 3), (5, 3), "expected a result of"),
    ],
)
def test_reduce_precision_errors(result, bits, message) -> None:
    with pytest.raises(OpError, match=message):
        bind("reduce_precision", [tensor("f32", 2)], result, exponent_bits=bits[0], mantissa_bits=bits[1])
