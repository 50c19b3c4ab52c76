"""Results do not depend on how the host rounds, nor on whether it keeps subnormals, when a program is called."""

import platform
import subprocess
import sys

import pytest

from minihlo.ops.policy import ACCUMULATIONS

#: Rounds products, sums and conversions with cancelling terms and inexact results; prints every code.
PROGRAM = """
import ctypes, sys, numpy as np
from minihlo.interp import load
from minihlo.ops.policy import ACCUMULATIONS, Policy
from minihlo.ops.minifloat.formats import FORMATS
libm, mode = ctypes.CDLL("libm.so.6"), int(sys.argv[1])
rng = np.random.default_rng(3)
for t in ("f4E2M1FN", "f6E3M2FN", "f8E4M3FN", "f8E5M2", "f8E4M3FNUZ"):
    fmt = FORMATS[t]
    x = rng.integers(0, fmt.max_code + 1, (8, 32)).astype(np.uint8)
    x[:, 1::2] = x[:, ::2]
    y = rng.integers(0, 1 << fmt.bits, (32, 8)).astype(np.uint8)
    if fmt.name != "f8E4M3FNUZ":
        y[1::2, :4] = y[::2, :4] ^ fmt.sign_bit  # these sums cancel
    x, y = x.view(fmt.dtype), y.view(fmt.dtype)
    for result in (t, "f32", "f16"):
        program = load(
            f"func.func @main(%x: tensor<8x32x{t}>, %y: tensor<32x8x{t}>)"
            f" -> (tensor<8x8x{result}>, tensor<8x32xf32>) {{"
            f"%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]"
            f" : (tensor<8x32x{t}>, tensor<32x8x{t}>) -> tensor<8x8x{result}>"
            f"%1 = stablehlo.convert %x : (tensor<8x32x{t}>) -> tensor<8x32xf32>"
            "%2 = stablehlo.divide %1, %1 : tensor<8x32xf32>"
            "%3 = stablehlo.exponential %1 : tensor<8x32xf32> %4 = stablehlo.add %2, %3 : tensor<8x32xf32>"
            f"return %0, %4 : tensor<8x8x{result}>, tensor<8x32xf32> }}"
        )
        for accumulate in ACCUMULATIONS:
            program.plan(policy=Policy(accumulate=accumulate))
            libm.fesetround(mode)
            results = program(x, y, policy=Policy(accumulate=accumulate))
            assert libm.fegetround() == mode  # as the caller left it
            libm.fesetround(0)
            print(t, result, accumulate, *(r.tobytes().hex() for r in results))
"""
MODES = {"nearest": 0x000, "down": 0x400, "up": 0x800, "toward zero": 0xC00}


def printed(mode: int) -> list[str]:
    command = [sys.executable, "-c", PROGRAM, str(mode)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.splitlines()


@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="the numbers of the modes are those of x86"
)
def test_every_host_rounding_gives_the_same_codes() -> None:
    wanted = printed(MODES["nearest"])
    assert len(wanted) == 15 * len(ACCUMULATIONS)
    for name, mode in MODES.items():
        assert name == "nearest" or printed(mode) == wanted, name
