"""Programs emulated and run by XLA's CPU, beside the interpreter."""

from collections.abc import Sequence

import jax
import numpy as np
from jax.extend.mlir import ir
from jaxlib import xla_client

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.parse.parser import make_context
from minihlo.ops.minifloat.formats import FORMATS


def run(text: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """The results of a program on XLA's CPU."""
    device = jax.devices("cpu")[0]
    with jax.enable_x64(True), make_context(text.__contains__), ir.Location.unknown():
        module, options = ir.Module.parse(text), xla_client.CompileOptions()
        program = device.client.compile_and_load(module, xla_client.DeviceList((device,)), options)
        return [np.asarray(x) for x in program.execute([jax.device_put(x, device) for x in arrays])]


def differences(text: str, arrays: Sequence[np.ndarray], policy: interp.Policy) -> list[int]:
    """How many bytes of each result differ from the interpreter's."""
    expected, found = interp.load(text)(*arrays, policy=policy), run(emulate_text(text, policy), *arrays)
    assert [(x.shape, x.dtype) for x in found] == [(np.shape(x), x.dtype) for x in expected]
    pairs = zip(found, expected, strict=True)
    return [int((x.reshape(-1).view(np.uint8) != np.asarray(y).reshape(-1).view(np.uint8)).sum()) for x, y in pairs]


def check(text: str, arrays: Sequence[np.ndarray], policy: interp.Policy | None = None) -> None:
    """Assert that the emulated program and the interpreter give the same bits."""
    found = differences(text, arrays, policy or interp.Policy())
    assert not any(found), f"{found} bytes differ"


def codes(rng: np.random.Generator, name: str, shape: Sequence[int] = (), is_finite: bool = False) -> np.ndarray:
    """Random codes of a format, NaN and infinities among them."""
    fmt = FORMATS[name]
    found = rng.integers(0, 1 << fmt.bits, shape, np.uint8)
    if is_finite:
        numbers = np.arange(1 << fmt.bits, dtype=np.uint8)
        finite = numbers[np.isfinite(numbers.view(fmt.dtype).astype(np.float32))]
        found = finite[found % len(finite)]
    return np.asarray(found).view(fmt.dtype)
