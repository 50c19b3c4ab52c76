"""Emulated units and blocks on XLA's CPU: the bits of the interpreter, and exact numbers."""

import ml_dtypes
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import emulated
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.policy import Policy

from ..thinned import rotated


def _codes(rng: np.random.Generator, dtype: type, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of many sizes, a NaN and the largest code among them."""
    x = (rng.normal(size=shape) * np.exp2(rng.integers(-5, 4, shape))).astype(dtype)
    x.view(np.uint8).flat[:2] = 0x7F, 0x7E
    return x


def _check(text: str, policy: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Both give the same bits; returns the interpreter's."""
    expected = interp.load(text)(*arrays, policy=interp.policies.parse_policy(policy, Policy()))
    found = emulated.start(f"jax:cpu@{policy}" if policy else "jax:cpu")(text, arrays)
    for x, y in zip(found, expected, strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()
    return list(expected)


@pytest.mark.parametrize("chip", ["", "b200", "step=16;bits=11;drop=floor;c=joined;sum_bits=14;c_bits=9;join=sticky"])
def test_scaled_dots(chip: str) -> None:
    rng = np.random.default_rng(36)
    x, y = (_codes(rng, ml_dtypes.float8_e4m3fn, (5, 96)) for _ in range(2))
    s, t = (rng.integers(118, 136, (5, 3)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu) for _ in range(2))
    text = """func.func @main(%x: tensor<5x96xf8E4M3FN>, %y: tensor<5x96xf8E4M3FN>, %s: tensor<5x3xf8E8M0FNU>,
      %t: tensor<5x3xf8E8M0FNU>) -> tensor<5x5xf32> {
      %r = stablehlo.custom_call @__op$block_scaled_dot(%x, %y, %s, %t) : (tensor<5x96xf8E4M3FN>,
        tensor<5x96xf8E4M3FN>, tensor<5x3xf8E8M0FNU>, tensor<5x3xf8E8M0FNU>) -> tensor<5x5xf32>
      return %r : tensor<5x5xf32> }"""
    (sums,) = _check(text, f"accumulate={chip}" if chip else "", x, y, s, t)
    exact = (x * np.repeat(s.astype(float), 32, 1)) @ (y * np.repeat(t.astype(float), 32, 1)).T
    np.testing.assert_allclose(sums[1:, 1:], exact[1:, 1:], rtol=0.1, atol=3)


@pytest.mark.parametrize(
    "name", rotated((n for n, f in BLOCK_FORMATS.items() if f.element_bits != 6 and f.scale_format.has_dtype), every=2)
)
def test_blocks(name: str) -> None:
    fmt, rng = BLOCK_FORMATS[name], np.random.default_rng(7)
    rows, many = (200, 1) if len(fmt.block) == 1 else (300, 3)
    x = (rng.normal(size=(rows, 300)) * np.exp2(rng.integers(-30, 30, (rows, 1)))).astype(np.float32)
    x[0], x[1, 3], x[2, 5], x[3] = 0, np.inf, -np.nan, np.ldexp(x[3], -120)
    count = -(-300 // fmt.block[-1])
    axes, blocks = ([1], f"{rows}x{count}") if many == 1 else ([0, 1], f"{many}x{count}")
    t, scales, last = f"tensor<{rows}x300x{fmt.element}>", f"tensor<{blocks}x{fmt.scale}>", ""
    last = ", tensor<f32>" if fmt.tensor_scale else ""
    config = f'{{api_version = 4 : i32, backend_config = {{format = "{name}", axes = {axes}}}}}'
    names = ["%q#0", "%q#1", "%q#2"][: 2 + bool(last)]
    text = f"""func.func @main(%x: tensor<{rows}x300xf32>) -> ({t}, {scales}{last}, tensor<{rows}x300xf32>) {{
      %q:{len(names)} = stablehlo.custom_call @minihlo.quantize(%x) {config}
        : (tensor<{rows}x300xf32>) -> ({t}, {scales}{last})
      %y = stablehlo.custom_call @minihlo.dequantize({", ".join(names)}) {config}
        : ({t}, {scales}{last}) -> tensor<{rows}x300xf32>
      return {", ".join(names)}, %y : {t}, {scales}{last}, tensor<{rows}x300xf32> }}"""
    *_, y = _check(text, "", x)
    assert np.nanmax(np.abs(y - x)) <= np.nanmax(np.abs(x[np.isfinite(x)])) / 4
