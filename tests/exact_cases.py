"""What the exact tests have in common: programs of single ops, arrays of codes, inputs worth trying, and judgement."""

import functools
import itertools
import random
from collections.abc import Iterable, Sequence

import ml_dtypes
import numpy as np

from minihlo.interp import Policy, load
from minihlo.ops.op import full_name

from . import oracle
from .oracle import FORMATS, MINIFLOATS, Format

SEED = 20240607

DTYPES = {
    # ml_dtypes spells f8E4M3FN as float8_e4m3fn.
    **{name: getattr(ml_dtypes, f"float{name[1]}_{name[2:].lower()}") for name in MINIFLOATS},
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
    **{f"i{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)},
    **{f"ui{n}": np.dtype(f"uint{n}").type for n in (8, 16, 32, 64)},
}
INTEGERS = {name: (int(name.lstrip("ui")), name[0] == "i") for name in DTYPES if name.lstrip("ui").isdigit()}


def array(codes: Iterable[int], element: str) -> np.ndarray:
    """The array of a float type that has these codes."""
    storage = np.dtype(DTYPES[element])
    return np.fromiter(codes, dtype=f"u{storage.itemsize}").view(storage)


def codes_of(result: np.ndarray) -> list[int]:
    return np.asarray(result).view(f"u{result.dtype.itemsize}").ravel().tolist()


def program(arguments: Sequence[str], ops: Sequence[tuple[str, Sequence[int], str]], size: int | None) -> str:
    """A program of ops, each (text, operands by argument number, result element type); all results are returned.

    The arguments are element types, every tensor has `size` elements; None is a scalar. An op's text is its name, with
    its attributes behind it if it has any.
    """
    tensor = ("tensor<" + (f"{size}x" if size is not None else "") + "{}>").format
    lines = []
    for number, (text, operands, result) in enumerate(ops):
        name, _, attributes = text.partition(" ")
        types = ", ".join(tensor(arguments[i]) for i in operands)
        values = ", ".join(f"%a{i}" for i in operands)
        lines.append(f'  %r{number} = "{full_name(name)}"({values}) {attributes} : ({types}) -> {tensor(result)}')
    results = ", ".join(tensor(result) for _, _, result in ops)
    heads = ", ".join(f"%a{i}: {tensor(t)}" for i, t in enumerate(arguments))
    values = ", ".join(f"%r{i}" for i in range(len(ops)))
    body = "\n".join(lines)
    return f"func.func @main({heads}) -> ({results}) {{\n{body}\n  return {values} : {results}\n}}"


def run(
    elements: Sequence[str],
    ops: Sequence[tuple[str, Sequence[int], str]],
    arrays: Sequence[np.ndarray],
    policy: Policy | None = None,
) -> list[np.ndarray]:
    size = arrays[0].size if arrays[0].ndim else None
    return load(program(elements, ops, size))(*arrays, policy=policy)


@functools.cache
def all_pairs(element: str) -> tuple[np.ndarray, np.ndarray]:
    count = 1 << FORMATS[element].bits
    every = array(range(count), element)
    return np.repeat(every, count), np.tile(every, count)


@functools.cache
def expected_pairs(element: str, op: str) -> list[int]:
    return oracle.binary_codes(FORMATS[element], op)


def check(fmt: Format, got: np.ndarray, expected: Sequence[int], operands: Sequence[Sequence[int]], what: str) -> None:
    """Fail, with the first few cases, where a code is not the expected one; any NaN is as good as another."""
    codes = codes_of(got)
    assert len(codes) == len(expected)
    if codes == expected:
        return
    wrong = [i for i, (a, b) in enumerate(zip(codes, expected, strict=True)) if not oracle.same(fmt, a, b)]
    reported = [
        f"{what}({', '.join(f'{o[i]:#x}' for o in operands)}) = {show(fmt, codes[i])}, not {show(fmt, expected[i])}"
        for i in wrong[:5]
    ]
    assert not wrong, f"{fmt.name}: {len(wrong)} of {len(codes)} wrong: {'; '.join(reported)}"


def show(fmt: Format, code: int) -> str:
    return f"{code:#x} ({oracle.decode(fmt, code)})"


# Inputs.

#: Both zeros, the smallest and largest numbers, infinities and NaNs of the formats that have them all.
SPECIAL = {
    name: [c | s for c in (0, 1, f.max_code, f.max_code + 1, f.max_code + 2, f.ones) for s in (0, f.sign_bit)]
    for name, f in FORMATS.items()
    if f.has_infinity
}


@functools.cache
def boundaries() -> list[oracle.Fraction]:
    """Where a conversion to a minifloat changes: each number of each format, each midpoint, each threshold."""
    result = {oracle.Fraction(1, 1 << p) for p in (149, 150, 151)}
    for name in MINIFLOATS:
        fmt = FORMATS[name]
        values = sorted({oracle.Fraction(v) for v in decoded(fmt) if oracle.is_finite(v) and v >= 0})
        values.append(2 * values[-1] - values[-2] if fmt.is_signed else 2 * values[-1])
        result |= {*values, values[0] / 2, *((a + b) / 2 for a, b in itertools.pairwise(values))}
    return sorted(result)


def decoded(fmt: Format) -> list[oracle.Value]:
    return [oracle.decode(fmt, code) for code in range(1 << fmt.bits)]


@functools.cache
def boundary_codes(element: str) -> list[int]:
    """Codes of a wide format at and around every boundary, of both signs: some 55,000. All codes of a narrow one."""
    fmt = FORMATS[element]
    if fmt.bits <= 16:
        return list(range(1 << fmt.bits))
    integers = {oracle.Fraction((1 << p) + d) for p in range(1, 66) for d in (-1, 0, 1)}
    near = {oracle.encode(fmt, v) + d for v in boundaries() for d in range(-12, 13)}
    near |= {oracle.encode(fmt, v + h) for v in integers for h in (oracle.Fraction(-1, 2), 0, oracle.Fraction(1, 2))}
    for narrower in ("f16", "bf16", "f32"):  # ties of the formats that are too wide to list
        bits = FORMATS[narrower].mantissa_bits
        generator = random.Random(SEED)
        for _ in range(400):
            tie = (2 * generator.randrange(1 << bits, 2 << bits) + 1) * oracle.Fraction(2) ** generator.randrange(
                -170, 130
            )
            near |= {oracle.encode(fmt, tie) + d for d in (-1, 0, 1)}
    inside = {c for c in near if 0 <= c <= fmt.ones}
    return sorted({*inside, *(c | fmt.sign_bit for c in inside), *SPECIAL[element]})


@functools.cache
def boundary_integers(element: str) -> list[int]:
    """Integers at and around every rounding boundary of every format; all of a type of 16 bits or less."""
    bits, is_signed = INTEGERS[element]
    low, high = (-1 << (bits - 1), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    if bits <= 16:
        return list(range(low, high + 1))
    near = {int(v) + d for v in boundaries() if v < high for d in range(-3, 4)}
    generator = random.Random(SEED)
    for fmt in FORMATS.values():
        for p in range(fmt.mantissa_bits, bits):  # odd multiples of half a step in each power of two
            for top in {1 << fmt.mantissa_bits, (2 << fmt.mantissa_bits) - 1} | {
                generator.randrange(1 << fmt.mantissa_bits, 2 << fmt.mantissa_bits) for _ in range(4)
            }:
                tie = (2 * top + 1) << max(0, p - fmt.mantissa_bits - 1)
                near |= {tie + d for d in (-1, 0, 1)}
    near |= {high - d for d in range(5)}
    return sorted(v for n in near for v in {n, -n, low - n} if low <= v <= high)


def sample(element: str, count: int) -> list[int]:
    """Codes of a wide format: the extremes, ones at and near whole numbers and powers of two, and any others."""
    fmt = FORMATS[element]
    generator = random.Random(SEED)
    near = [0, fmt.ones >> 1, fmt.max_code, fmt.max_code + 1, fmt.max_code + 2, 1 << fmt.mantissa_bits]
    near += [oracle.encode(fmt, oracle.Fraction(n)) for n in (1, 2, 3, 10, 88, 89, 709, 710, 1 << 15)]
    near += [oracle.encode(fmt, oracle.Fraction(1, n)) for n in (2, 3, 4, 10, 1 << 12)]
    codes = {c + d for c in near for d in range(-3, 4) if 0 <= c + d <= fmt.ones}
    while len(codes) < count // 2:
        if generator.random() < 0.5:  # of a size where functions are neither trivial nor infinite
            exponent = generator.randrange(-12, 8) + fmt.bias
            codes.add((exponent << fmt.mantissa_bits) + generator.randrange(1 << fmt.mantissa_bits))
        else:
            codes.add(generator.randrange(fmt.ones + 1))
    return sorted(codes | {c | fmt.sign_bit for c in codes})


def pairs_of_a_sample(element: str, count: int) -> tuple[list[int], list[int]]:
    """Pairs of a sample's codes: any two, and some near each other, where differences and remainders are hard."""
    fmt = FORMATS[element]
    generator = random.Random(SEED)
    codes = sample(element, count)
    a = [generator.choice(codes) for _ in range(count)]
    b = [
        (x + generator.randrange(-5, 6)) % (1 << fmt.bits) if generator.random() < 0.2 else generator.choice(codes)
        for x in a
    ]
    return a, b
