"""Results do not change where subnormals are flushed to zero in a process that has minihlo loaded already."""

import platform
import subprocess
import sys

import pytest

from ..jax_child import run_jax

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the bits are those of x86"
)

#: Sets bits of MXCSR, which glibc keeps at byte 28 of its environment, as torch.set_flush_denormal(True) does.
FLUSH = """
import ctypes, struct
libm = ctypes.CDLL("libm.so.6")
def set_bits(bits):
    kept = ctypes.create_string_buffer(64)
    libm.fegetenv(kept)
    (old,) = struct.unpack_from("<I", kept, 28)
    struct.pack_into("<I", kept, 28, old & ~0x8040 | bits)
    libm.fesetenv(kept)
    return old & 0x8040
"""
BITS = {"kept": 0, "results": 0x8000, "operands": 0x40, "both": 0x8040}

LOADED = """
import sys
import numpy as np
from minihlo import interp
from minihlo.interp import load
bits = int(sys.argv[1])
assert set_bits(bits) == 0
x = np.array([1, 3, 1 << 22, (1 << 23) + 5, 0x80000007], np.uint32).view(np.float32)
y = np.array([1, 3, 1 << 51, (1 << 52) + 5, (1 << 63) + 7], np.uint64).view(np.float64)
half = "%h = stablehlo.constant dense<5.000000e-01> : T"
for t, value in (("f32", x), ("f64", y)):
    for body in (
        "%0 = stablehlo.add %x, %x : T", f"{half} %0 = stablehlo.multiply %x, %h : T", "%0 = stablehlo.negate %x : T",
        "%c = stablehlo.constant dense<1.100000e-38> : T %d = stablehlo.multiply %c, %c : T"
        " %0 = stablehlo.subtract %x, %c : T",
        f"{half} %c = stablehlo.constant dense<1.500000e-38> : T %d = stablehlo.multiply %h, %c : T"
        " %0 = stablehlo.maximum %x, %d : T",  # it is folded
    ):
        text = f"func.func @main(%x: T) -> T {{ {body} return %0 : T }}".replace("T", f"tensor<5x{t}>")
        print(t, body, load(text)(value)[0].tobytes().hex())
    for f in ("f8E8M0FNU", "bf16", "f16", "f8E4M3FN", "f32", "f64"):
        print(t, f, interp.cast(value, f).tobytes().hex())
    print(interp.scale(np.array([value[2]]), "f8E4M3FN").hex())
assert set_bits(0) == bits  # as the caller left it
"""

#: Every elementwise operation of f32 on subnormals and numbers near them, results of several types, and sums.
EVERY = """
import sys
bits, when = int(sys.argv[1]), sys.argv[2]
if when == "before":
    set_bits(bits)
import numpy as np
from minihlo import interp
from minihlo.ops.op import OpError, ops
from minihlo.ops.types import ELEMENT_TYPES
if when == "after":
    set_bits(bits)
ATTRIBUTES = {
    "stablehlo.compare": " {comparison_direction = #stablehlo<comparison_direction LT>}",
    "stablehlo.reduce_precision": " {exponent_bits = 5 : i32, mantissa_bits = 10 : i32}",
}
words = np.random.default_rng(0).integers(0, 1 << 32, (3, 96), np.uint64).astype(np.uint32)
words[:, ::3] &= 0x80FFFFFF
words[:, 1::3] = words[:, 1::3] & 0x83FFFFFF | 0x3C000000
values = words.view(np.float32)
def show(name, text, *arrays, **options):
    try:
        print(name, *(r.tobytes().hex() for r in interp.load(text)(*arrays, **options)))
    except interp.Error:
        pass  # this type of result is not the operation's
T = "tensor<96xf32>"
for name, record in sorted(ops().items()):
    if not record.is_elementwise or ELEMENT_TYPES["f32"] not in record.types:
        continue
    count = record.operands or 2
    names = [f"%x{i}" for i in range(count)]
    for element in ("f32", "i1", "f16", "f64", "f8E5M2", "i32"):
        result = T.replace("f32", element)
        show(
            f"{name} {element}",
            f"func.func @main({', '.join(f'{n}: {T}' for n in names)}) -> {result} {{ "
            f"%r = \\"{name}\\"({', '.join(names)})"
            f"{ATTRIBUTES.get(name, '')} : ({', '.join([T] * count)}) -> {result} return %r : {result} }}",
            *values[:count],
        )
S = "tensor<12x8xf32>"
x, y = values[0].reshape(12, 8), values[1].reshape(8, 12)
for accumulate in ("auto", "exact", "reproducible"):
    show(
        accumulate,
        f"func.func @main(%x: {S}, %y: tensor<8x12xf32>) -> tensor<12x12xf32> {{ %r = stablehlo.dot %x, %y : "
        f"({S}, tensor<8x12xf32>) -> tensor<12x12xf32> return %r : tensor<12x12xf32> }}",
        x, y, policy=interp.Policy(accumulate=accumulate),
    )
for body in ("add", "multiply", "maximum", "minimum"):
    show(
        body,
        f"func.func @main(%x: {S}) -> tensor<8xf32> {{ %c = stablehlo.constant dense<1.0e-40> : tensor<f32> "
        f"%r = stablehlo.reduce(%x init: %c) applies stablehlo.{body} across dimensions = [0] : "
        f"({S}, tensor<f32>) -> tensor<8xf32> return %r : tensor<8xf32> }}",
        x,
    )
"""

PLATFORM = """
from minihlo import interp
x = np.array([1, 3, 1 << 22, (1 << 23) + 5], np.uint32).view(np.float32)
y = np.array([1, 3, 1 << 51, (1 << 52) + 5], np.uint64).view(np.float64)
f = lambda v: (v * v.dtype.type(0.5), v + v, v - v[::-1])
compiled, transformed = jax.jit(f), interp.jit(f)
arrays = [jax.device_put(x), jax.device_put(y)]
wanted = [[np.asarray(r).tobytes() for r in compiled(a)] for a in arrays]
for values in ((x, y), arrays):
    for value, codes in zip(values, wanted):
        big = jnp.asarray(np.resize(np.asarray(value), 1 << 20))
        expected = [np.asarray(r).tobytes() for r in compiled(big)]
        for bits in (0x8000, 0x40, 0x8040):
            set_bits(bits)
            try:
                ways = [compiled] * 5 + [transformed, jax.jit(lambda v: f(v))]
                found = [[np.asarray(r).tobytes() for r in way(value)] for way in ways]
                large = [np.asarray(r).tobytes() for r in compiled(big)]
            finally:
                assert set_bits(0) == bits
            assert found == [codes] * len(found), (bits, found, codes)
            assert large == expected
assert [int.from_bytes(c[:4], "little") for c in wanted[0][:2]] == [0, 2]  # a half of the least is even: zero
print("done")
"""


def printed(bits: int, program: str = LOADED, *options: str) -> list[str]:
    command = [sys.executable, "-c", FLUSH + program, str(bits), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_programs_and_casts() -> None:
    wanted = printed(0)
    assert wanted[0].endswith("02000000" + "06000000" + "00008000" + "05000001" + "0e000080")  # twice each code
    for name, bits in BITS.items():
        actual = printed(bits) if bits else wanted
        assert [(a, b) for a, b in zip(actual, wanted, strict=True) if a != b] == [], name


def test_every_f32_op_with_flushed_subnormals() -> None:
    wanted = printed(0, EVERY, "after")
    assert len(wanted) > 60
    for when in ("before", "after"):
        found = printed(BITS["both"], EVERY, when)
        assert [(a, b) for a, b in zip(found, wanted, strict=True) if a != b] == [], when


def test_the_platform_and_the_transform() -> None:
    assert run_jax(FLUSH + PLATFORM).strip() == "done"
