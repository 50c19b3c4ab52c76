"""Results do not change where subnormals are flushed to zero in a process that has minihlo loaded already."""

import platform
import subprocess
import sys

import pytest

from .jax_child import run_jax

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
from minihlo.ops.minifloat.formats import FORMATS
from minihlo.ops.policy import Policy
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
for t, fmt in FORMATS.items():
    if fmt.bits > 16:
        continue
    codes = np.arange(min(fmt.max_code + 1, 256), dtype=fmt.code_dtype)
    value = codes.view(fmt.dtype)
    shape = f"tensor<{len(codes)}x{t}>"
    for policy in (Policy(), Policy(arithmetic="upcast")):
        for op in ("add", "multiply", "divide", "exponential", "sqrt"):
            operands = "%x" if op in ("exponential", "sqrt") else "%x, %y"
            program = load(
                f"func.func @main(%x: {shape}, %y: {shape}) -> ({shape}, tensor<{len(codes)}xf32>) {{"
                f"%0 = stablehlo.{op} {operands} : {shape} %1 = stablehlo.convert %0 : ({shape}) ->"
                f" tensor<{len(codes)}xf32> return %0, %1 : {shape}, tensor<{len(codes)}xf32> }}"
            )
            results = program(value, value[::-1], policy=policy)
            print(t, op, policy.arithmetic, *(r.tobytes().hex() for r in results))
assert set_bits(0) == bits  # as the caller left it
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


def printed(bits: int) -> list[str]:
    command = [sys.executable, "-c", FLUSH + LOADED, str(bits)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_programs_and_casts() -> None:
    wanted = printed(0)
    assert wanted[0].endswith("02000000" + "06000000" + "00008000" + "05000001" + "0e000080")  # twice each code
    for name, bits in BITS.items():
        actual = printed(bits)
        assert [(a, b) for a, b in zip(actual, wanted, strict=True) if a != b] == [], name


def test_the_platform_and_the_transform() -> None:
    assert run_jax(FLUSH + PLATFORM).strip() == "done"
