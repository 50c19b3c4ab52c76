"""Kernels that put their result into an operand, which may be the other operands as well."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from minihlo import interp
from minihlo.ops.op import Op, OpError, ops
from minihlo.ops.types import ELEMENT_TYPES

from ..run_op import bind, tensor

_COUNT = 5000
_NAMES = "f32", "f64", "f16", "bf16", "f8E4M3FN", "i32", "ui8", "i16", "i1", "complex<f32>"


def numbers(name: str, seed: int) -> np.ndarray:
    dtype = ELEMENT_TYPES[name].dtype
    codes = np.random.default_rng(seed).integers(0, 256, _COUNT * dtype.itemsize, np.uint8)
    return codes.view(dtype) if name != "i1" else codes > 127


@pytest.mark.parametrize("record", [r for r in ops().values() if r.is_elementwise], ids=lambda r: r.name)
def test_the_result_may_be_an_operand_and_operands_may_be_the_same(record: Op) -> None:
    has_run = False
    for count, name in itertools.product((1, 2, 3), _NAMES):
        is_choice = record.name == "stablehlo.select"
        names = ["i1", name, name] if is_choice else [name] * count
        try:
            kernel = bind(record.name, [tensor(n, _COUNT) for n in names], tensor(name, _COUNT))
        except (OpError, LookupError, ValueError, TypeError, AssertionError):
            continue
        if not kernel.has_out:
            continue
        for which in itertools.product(range(2), repeat=len(names)):
            with np.errstate(all="ignore"):
                wanted = kernel(*[numbers(n, w) for n, w in zip(names, which, strict=True)])
                for place in range(len(names)):
                    arrays = {(n, w): numbers(n, w) for n, w in zip(names, which, strict=True)}
                    operands = [arrays[n, w] for n, w in zip(names, which, strict=True)]
                    if operands[place].dtype == wanted.dtype:
                        found = kernel(*operands, operands[place])
                        assert found.tobytes() == wanted.tobytes(), (name, which, place)
                        has_run = True
    assert has_run or record.name not in ("stablehlo.select", "stablehlo.add", "stablehlo.xor", "stablehlo.shift_left")


@pytest.mark.parametrize("t", ["f32", "i32", "bf16", "ui8"])
def test_a_choice_between_a_value_and_itself(t: str) -> None:
    """`jax.vmap` of a loop makes such choices; there are enough elements to choose by bits."""
    text = f"""func.func @main(%x: tensor<6000x{t}>, %p: tensor<6000xi1>) -> tensor<6000x{t}> {{
      %y = stablehlo.add %x, %x : tensor<6000x{t}>
      %z = stablehlo.multiply %y, %x : tensor<6000x{t}>
      %s = stablehlo.select %p, %z, %z : tensor<6000xi1>, tensor<6000x{t}>
      %w = stablehlo.subtract %s, %x : tensor<6000x{t}>
      return %w : tensor<6000x{t}>
    }}"""
    x = (np.arange(6000) % 7).astype(ELEMENT_TYPES[t].dtype)
    found = interp.load(text)(x, np.arange(6000) % 3 > 0)
    assert np.asarray(found).tobytes() == ((x + x) * x - x).tobytes()
