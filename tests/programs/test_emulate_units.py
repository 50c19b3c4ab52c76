"""Emulated units, blocks and quantized types: bits equal to the interpreter's, on XLA's CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo.interp.emulate.accumulators import Scales, accumulate
from minihlo.interp.emulate.tensor import Tensor, insert, type_of
from minihlo.interp.parse.parser import make_context
from minihlo.ops.accumulators import units
from minihlo.ops.accumulators.product import product
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.types import ELEMENT_TYPES


def _text(write: Callable[..., Tensor], arrays: Sequence[np.ndarray]) -> str:
    """A module whose function `main` returns what `write` makes of tensors of bits."""
    with make_context("".__contains__), ir.Location.unknown():
        module = ir.Module.create()
        types = [type_of(ELEMENT_TYPES[f"ui{8 * x.itemsize}"], x.shape) for x in arrays]
        with ir.InsertionPoint(module.body):
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, [])),
                },
                regions=1,
            )
        block = function.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
        with ir.InsertionPoint(block):
            result = write(*map(Tensor.of, block.arguments))
            insert("func.return", [], [result.value])
        function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [result.value.type]))
        module.operation.verify()
        text: Any = module.operation.get_asm()
        return text


def _execute(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of a program that XLA compiles for the CPU."""
    import jax
    from jaxlib import xla_client

    device = jax.devices("cpu")[0]
    with make_context(text.__contains__), ir.Location.unknown():
        program = device.client.compile_and_load(
            ir.Module.parse(text), xla_client.DeviceList((device,)), xla_client.CompileOptions()
        )
    with jax.enable_x64(True):
        return [np.asarray(r) for r in program.execute([jax.device_put(x, device) for x in arrays])]


def _codes(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Codes of numbers of all sizes; the first row has special ones."""
    fmt = ELEMENT_TYPES[name].format
    any_code = rng.integers(0, 1 << fmt.bits, shape).astype(fmt.code_dtype)
    if fmt.bits <= 8:
        quiet = any_code & np.uint8(0xBB if fmt.bits == 8 else 0xFF)
        quiet[quiet == 0x80] = 0
    else:
        quiet = rng.normal(size=shape).astype(fmt.dtype).view(fmt.code_dtype)
    quiet[:1, :1] = np.where(rng.random(quiet[:1, :1].shape) < 0.98, quiet[:1, :1], any_code[:1, :1])
    return quiet


_RECORDS = [
    ("h100", units.find("h100", "f8E4M3FN", "f8E4M3FN").record, "f8E4M3FN"),
    ("h100 into f16", units.find("h100", "f8E5M2", "f8E5M2", "f16").record, "f8E5M2"),
    ("a100", units.find("a100", "bf16", "bf16").record, "bf16"),
    ("cdna1", units.find("cdna1", "f16", "f16").record, "f16"),
    ("cdna2", units.find("cdna2", "bf16", "bf16").record, "bf16"),
    ("cdna3", units.find("cdna3", "f8E4M3FNUZ", "f8E4M3FNUZ").record, "f8E4M3FNUZ"),
    ("fma", Accumulator(1), "f32"),
    ("sticky", Accumulator(6, bits=7, normalise=True, drop="sticky", keep="bf16", rounding="up"), "f8E5M2"),
    ("floor", Accumulator(8, bits=5, drop="floor", keep="f16", overflow="largest", outer=16), "f8E4M3FN"),
    ("all", Accumulator(0, bits=11, drop="nearest_even", keep="f32:9", rounding="down"), "f8E3M4"),
    ("deepseek", Accumulator(32, bits=13, keep="f32:13", rounding="toward_zero", outer=64), "f8E4M3FN"),
]


@pytest.mark.parametrize(("record", "name"), [pytest.param(r, n, id=i) for i, r, n in _RECORDS])
def test_sums_are_the_interpreters(record: Accumulator, name: str) -> None:
    rng = np.random.default_rng(36)
    x, y = _codes(rng, name, (2, 5, 75)), _codes(rng, name, (2, 75, 6))
    t = ELEMENT_TYPES[name]
    text = _text(lambda a, b: accumulate(record, a, b, t, t), [x, y])
    (found,) = _execute(text, [x, y])
    expected = product(record, x, y, name, name).view(found.dtype)
    np.testing.assert_array_equal(found, expected)
    assert np.isfinite(expected.view(record.storage.dtype)).mean() > 0.5


@pytest.mark.parametrize(("scale", "block"), [("f8E8M0FNU", 32), ("f8E4M3FN", 16)])
def test_scaled_sums_are_the_interpreters(scale: str, block: int) -> None:
    rng, name = np.random.default_rng(7), "f4E2M1FN"
    record = units.find("b200", name, name, scale=(scale, block)).record
    arrays = [rng.integers(0, 16, s).astype(np.uint8) for s in ((2, 5, 96), (2, 96, 6))]
    arrays += [rng.integers(90, 126, s).astype(np.uint8) for s in ((2, 5, 96 // block), (2, 96 // block, 6))]
    t, s = ELEMENT_TYPES[name], ELEMENT_TYPES[scale]
    text = _text(lambda a, b, p, q: accumulate(record, a, b, t, t, scales=Scales(p, q, s, block)), arrays)
    (found,) = _execute(text, arrays)
    x, y, p, q = arrays
    expected = product(record, x, y, name, name, x_scales=p, y_scales=q, scale_type=scale, block=block)
    np.testing.assert_array_equal(found, expected.view(found.dtype))
