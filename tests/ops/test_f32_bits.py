"""sign, next_after and remainder of f32 and f64, number by number against Python's integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from minihlo import interp

SIZE = 20_001


def run(name: str, element: str, *arrays: np.ndarray, types: tuple[str, ...] = ()) -> np.ndarray:
    size = len(arrays[0])
    names = [f"%x{i}" for i in range(len(arrays))]
    tensors = [f"tensor<{size}x{t}>" for t in types or (element,) * len(arrays)]
    result = f"tensor<{size}x{element}>"
    (value,) = interp.load(
        f"func.func @main({', '.join(f'{n}: {t}' for n, t in zip(names, tensors, strict=True))}) -> {result} {{ "
        f'%r = "{name}"({", ".join(names)}) : ({", ".join(tensors)}) -> {result} return %r : {result} }}'
    )(*arrays)
    return np.asarray(value)


def patterns(bits: int, size: int = SIZE) -> np.ndarray:
    """Random bits; every fifth a zero, an infinity, NaN with a payload, or a number next to one of these."""
    rng = np.random.default_rng(bits)
    words = rng.integers(0, 1 << bits, size, np.uint64, endpoint=False) if bits < 64 else rng.bytes(8 * size)
    codes = np.frombuffer(words, np.uint64).copy() if bits == 64 else words
    infinity = {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]
    special = [0, 1, 2, infinity - 1, infinity, infinity + 1, infinity + (1 << (bits - 11)), (1 << (bits - 1)) - 1]
    codes[::5] = rng.choice(
        np.array([s | sign for s in special for sign in (0, 1 << (bits - 1))], np.uint64), -(-size // 5)
    )
    return codes.astype(f"u{bits // 8}")


def is_nan(code: int, bits: int) -> bool:
    return code & ((1 << (bits - 1)) - 1) > {32: 0x7F800000, 64: 0x7FF0000000000000}[bits]


@pytest.mark.parametrize(("element", "bits", "one"), [("f32", 32, 0x3F800000), ("f64", 64, 0x3FF0000000000000)])
def test_sign(element: str, bits: int, one: int) -> None:
    codes = patterns(bits)
    got = run("stablehlo.sign", element, codes.view(f"f{bits // 8}")).view(codes.dtype)
    for code, result in zip(codes.tolist(), got.tolist(), strict=True):
        sign, size = code & (1 << (bits - 1)), code & ((1 << (bits - 1)) - 1)
        wanted = code if size == 0 or is_nan(code, bits) else sign | one
        assert result == wanted, hex(code)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("with_nan", [False, True])
def test_next_after(bits: int, with_nan: bool) -> None:
    top = 1 << (bits - 1)
    starts, ends = patterns(bits), patterns(bits)[::-1].copy()
    ends[::3] = starts[::3]
    ends[1::9] = starts[1::9] ^ top
    if not with_nan:
        for codes in (starts, ends):
            codes[[is_nan(c, bits) for c in codes.tolist()]] = 0
    floats = f"f{bits // 8}"
    got = run("chlo.next_after", f"f{bits}", starts.view(floats), ends.view(floats)).view(starts.dtype)

    def key(code: int) -> int:
        """Integers in the order of the numbers; both zeros are 0."""
        return top - code if code >= top else code

    for a, b, result in zip(starts.tolist(), ends.tolist(), got.tolist(), strict=True):
        if is_nan(a, bits) or is_nan(b, bits):
            assert is_nan(result, bits)
        elif key(a) == key(b):
            assert result == b
        else:
            moved = key(a) + (1 if key(b) > key(a) else -1)
            wanted = top - moved if moved < 0 else moved
            assert result == (a & top if moved == 0 else wanted), (hex(a), hex(b))


def remainder(x: float, y: float) -> float:
    """In integers: both numbers are whole multiples of a power of two."""
    if x != x or y != y or abs(x) == math.inf or y == 0:
        return math.nan
    if abs(y) == math.inf:
        return x
    a, b = Fraction(x), Fraction(y)
    return math.copysign(float(abs(a) % abs(b)), x)


@pytest.mark.parametrize("kind", ["near", "multiples", "far", "special"])
@pytest.mark.parametrize("divisor", [None, 1.0, -4.0, 0.5, 7.0, 3e-30, 2.0**100])
def test_remainder(kind: str, divisor: float | None) -> None:
    rng = np.random.default_rng(3)
    size = 3_001
    y = (np.exp2(rng.uniform(-20, 20, size)) * rng.choice([-1, 1], size)).astype(np.float32)
    if divisor is not None:
        y = np.full(size, divisor, np.float32)
    with np.errstate(all="ignore"):
        x = (y * rng.uniform(-300, 300, size)).astype(np.float32)
        if kind == "multiples":  # and the numbers next to them
            x = (y * rng.integers(-(1 << 23), 1 << 23, size)).astype(np.float32)
            x = (x.view(np.int32) + rng.integers(-1, 2, size, np.int32)).view(np.float32)
        elif kind == "far":
            x = (y * np.exp2(rng.uniform(0, 60, size))).astype(np.float32)
            x[~np.isfinite(x)] = 1
            x[::97] = np.finfo(np.float32).max
        elif divisor is None:
            y[::13] = np.inf
        x[::11] = rng.choice(np.array([0.0, -0.0, 1e-45, -1e-45], np.float32), len(x[::11]))
    if kind == "special":
        x, y = (
            patterns(32, size).view(np.float32),
            y if divisor is not None else patterns(32, size)[::-1].view(np.float32),
        )
    if divisor is None:
        got = run("stablehlo.remainder", "f32", x, y)
    else:
        text = f"""func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
          %y = stablehlo.constant dense<{hexadecimal(y[0])}> : tensor<{size}xf32>
          %r = stablehlo.remainder %x, %y : tensor<{size}xf32>
          return %r : tensor<{size}xf32> }}"""
        (got,) = interp.load(text)(x)
    wanted = np.array([remainder(float(a), float(b)) for a, b in zip(x, y, strict=True)], np.float32)
    is_nan = np.isnan(wanted)
    assert np.array_equal(np.isnan(got), is_nan)
    assert got[~is_nan].tobytes() == wanted[~is_nan].tobytes()


def hexadecimal(x: np.float32) -> str:
    return f"0x{x.view(np.uint32):08X}"
