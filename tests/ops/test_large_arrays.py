"""Operations that go over large arrays several times, number by number against Python's integers."""

import math
from fractions import Fraction

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.types import ELEMENT_TYPES, type_of_dtype

from ..conftest import Tune

#: More than a block, and not a multiple of one.
SIZE = 300_001


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
    size = 9_001
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


@pytest.mark.parametrize("element", ["i32", "ui32", "i16", "ui8", "i64"])
def test_count_leading_zeros(element: str) -> None:
    bits, dtype = ELEMENT_TYPES[element].bits, ELEMENT_TYPES[element].dtype
    rng = np.random.default_rng(0)
    words = np.frombuffer(rng.bytes(8 * SIZE), np.uint64) >> rng.integers(0, 65, SIZE).astype(np.uint64)
    powers = np.array([1 << i for i in range(bits)], np.uint64)
    words = np.concatenate(
        [words, np.zeros(1, np.uint64), powers, powers - np.uint64(1), powers + (powers - np.uint64(1))]
    )
    x = words.astype(dtype)
    got = run("stablehlo.count_leading_zeros", element, x)
    wanted = [bits - (v % (1 << bits)).bit_length() for v in x.tolist()]
    assert got.tolist() == wanted


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "ui8", "i1"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_select(element: str, share: float) -> None:
    """The bits of NaN are moved as they are, and neither choice is written to."""
    dtype, rng = ELEMENT_TYPES[element].dtype, np.random.default_rng(1)
    raw = [rng.integers(0, 2 if element == "i1" else 256, SIZE * dtype.itemsize, np.uint8) for _ in range(2)]
    x, y = (r.view(dtype) for r in raw)
    before = x.tobytes(), y.tobytes()
    test = rng.random(SIZE) < share
    got = run("stablehlo.select", element, test, x, y, types=("i1", element, element)).tobytes()
    assert (x.tobytes(), y.tobytes()) == before
    wanted = [
        a if c else b for c, a, b in zip(test.tolist(), *(_pieces(v, dtype.itemsize) for v in (x, y)), strict=True)
    ]
    assert got == b"".join(wanted)


def test_select_that_is_read_again() -> None:
    """A choice that is all of one operand is not that operand, where a later step writes over its result."""
    text = f"""
    func.func @main(%x: tensor<{SIZE}xf32>, %y: tensor<{SIZE}xf32>) -> tensor<{SIZE}xf32> {{
      %c = stablehlo.compare NE, %x, %x : (tensor<{SIZE}xf32>, tensor<{SIZE}xf32>) -> tensor<{SIZE}xi1>
      %s = stablehlo.select %c, %y, %x : tensor<{SIZE}xi1>, tensor<{SIZE}xf32>
      %t = stablehlo.add %s, %y : tensor<{SIZE}xf32>
      %u = stablehlo.multiply %t, %x : tensor<{SIZE}xf32>
      return %u : tensor<{SIZE}xf32>
    }}"""
    x, y = np.arange(SIZE, dtype=np.float32), np.full(SIZE, 2, np.float32)
    (product,) = interp.load(text)(x, y)
    assert x.tolist() == list(range(SIZE))
    assert product.tolist() == [float(np.float32(v * (v + 2))) for v in range(SIZE)]


def _pieces(x: np.ndarray, size: int) -> list[bytes]:
    raw = x.tobytes()
    return [raw[i : i + size] for i in range(0, len(raw), size)]


@pytest.mark.parametrize("width", [2, 10, 32, 33])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8, np.bool_], ids=lambda t: t.__name__)
def test_reductions_of_short_rows(dtype: type, width: int, tune: Tune) -> None:
    """Many of them, which are laid out across: part by part, and the last part is shorter."""
    tune(across_short_many=4, across_short_part=70)
    t = type_of_dtype(np.dtype(dtype)).name
    rng = np.random.default_rng(width)
    x = (rng.integers(-3, 1, (200, width)) * (rng.random((200, width)) < 0.5)).astype(dtype)
    if x.dtype.kind == "f":
        x[x == 0] *= rng.choice([-1, 1], np.count_nonzero(x == 0)).astype(dtype)  # zeros of both signs
        x[3] = np.copysign(x[3], -1)
        x[5, 1] = np.nan
    start = {"f": -np.inf, "b": 0, "u": 0}.get(x.dtype.kind, np.iinfo(np.int32).min)
    program = interp.load(
        f"""
        func.func @main(%x: tensor<200x{width}x{t}>, %start: tensor<{t}>) -> tensor<200x{t}> {{
          %r = stablehlo.reduce(%x init: %start) applies stablehlo.maximum across dimensions = [1] :
            (tensor<200x{width}x{t}>, tensor<{t}>) -> tensor<200x{t}>
          return %r : tensor<200x{t}>
        }}
        """
    )
    (found,) = program(x, np.array(start, dtype))
    expected = x.max(1)
    assert np.array_equal(found, expected, equal_nan=x.dtype.kind == "f")
    if x.dtype.kind == "f":
        zeros = found == 0
        assert zeros.any()
        has_plus = ((x == 0) & ~np.signbit(x)).any(1)
        assert (np.signbit(found) == ~has_plus)[zeros].all()
