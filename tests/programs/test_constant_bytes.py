"""Constants that are given as bytes: `dense<"0x…">` and `dense_resource<…>`, of types with bits to spare in a byte."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import ProgramError
from minihlo.ops.policy import Policy

from ..thinned import rotated

FLOATS = {"f4E2M1FN": 4, "f6E2M3FN": 6, "f6E3M2FN": 6}
INTEGERS = {"i2": 2, "i4": 4, "ui2": 2, "ui4": 4}


def run(constant: str, t: str, blobs: str = "", op: str = "") -> np.ndarray:
    body = f"%0 = stablehlo.constant {constant} : {t}\n  "
    body += f"%1 = {op} : {t}\n  return %1 : {t}" if op else f"return %0 : {t}"
    return load(f"func.func @main() -> {t} {{\n  {body}\n}}\n{blobs}")()[0]


def resource(data: bytes, t: str, op: str = "") -> np.ndarray:
    text = (b"\x04\0\0\0" + data).hex().upper()
    return run("dense_resource<x>", t, f'{{-# dialect_resources: {{ builtin: {{ x: "0x{text}" }} }} #-}}', op)


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(ProgramError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("t", "bits"), FLOATS.items())
def test_every_code_of_a_small_float_in_a_resource(t: str, bits: int) -> None:
    codes = bytes(range(1 << bits))
    assert resource(codes, f"tensor<{len(codes)}x{t}>").tobytes() == codes
    for byte in range(1 << bits, 256):  # each alone, behind codes that are right
        message = refusal(resource, b"\0\x01" + bytes([byte]), f"tensor<3x{t}>")
        assert f"<string>:2:8: stablehlo.constant: dense_resource<x>: expected codes of {t}" in message
        assert f"got 0x{byte:02X} at byte 2" in message


@pytest.mark.parametrize(("t", "bits"), INTEGERS.items())
def test_every_byte_as_a_small_integer_in_a_resource(t: str, bits: int) -> None:
    signed = t.startswith("i")
    for byte in range(256):
        # A signed number may be kept as its bits alone (as MLIR keeps a literal), or with its sign in all bits above.
        value = byte - (1 << bits) if signed and 1 << (bits - 1) <= byte < 1 << bits else byte
        value = byte - 256 if signed and byte >= 256 - (1 << (bits - 1)) else value
        fits = -(1 << (bits - 1)) <= value < 1 << (bits - 1) if signed else value < 1 << bits
        if fits:
            assert resource(bytes([byte]), f"tensor<1x{t}>").astype(int).tolist() == [value]
        else:
            assert f"got 0x{byte:02X} at byte 0" in refusal(resource, bytes([byte]), f"tensor<1x{t}>")


def test_booleans_in_a_resource() -> None:
    actual = resource(b"\1\0\1", "tensor<3xi1>")
    assert actual.view(np.uint8).tolist() == [1, 0, 1]
    for byte in (2, 0x80, 0xFF):
        assert f"got 0x{byte:02X} at byte 1" in refusal(resource, bytes([1, byte]), "tensor<2xi1>")


@pytest.mark.parametrize("t", ["i1", "i4", "ui2", "f4E2M1FN", "f8E4M3FN", "bf16", "f32", "i64", "complex<f32>"])
def test_the_length_of_a_resource(t: str) -> None:
    bits = {"i64": 64, "complex<f32>": 64, "f32": 32, "bf16": 16}.get(t, 8)
    size = bits // 8
    assert resource(bytes(6 * size), f"tensor<2x3x{t}>").shape == (2, 3)
    assert resource(bytes(size), f"tensor<{t}>").shape == ()
    assert resource(b"", f"tensor<0x{t}>").shape == (0,)
    for count in (0, 1, size, 5 * size, 6 * size - 1, 6 * size + 1, 12 * size):  # one element is no splat
        if count != 6 * size:
            message = refusal(resource, bytes(count), f"tensor<2x3x{t}>")
            assert f"expected {6 * size} bytes for tensor<2x3x{t}>, got {count}" in message
    assert "expected 0 bytes" in refusal(resource, bytes(size), f"tensor<0x{t}>")


@pytest.mark.parametrize("arithmetic", ["direct", "upcast"])
def test_arithmetic_never_sees_a_byte_that_is_no_code(arithmetic: str) -> None:
    with pytest.raises(ProgramError, match="expected codes of f4E2M1FN"):
        resource(b"\xea", "tensor<1xf4E2M1FN>", "stablehlo.add %0, %0")
    program = load(
        'func.func @main() -> tensor<2xf4E2M1FN> {\n%0 = stablehlo.constant dense<"0xEA31"> : tensor<2xf4E2M1FN>\n'
        "%1 = stablehlo.add %0, %0 : tensor<2xf4E2M1FN>\nreturn %1 : tensor<2xf4E2M1FN>\n}"
    )
    # 0xEA is 0xA, -1: twice that is -2, 0xC; 0x31 is 0x1, 0.5: twice that is 1, 0x2
    assert program(policy=Policy(arithmetic))[0].view(np.uint8).tolist() == [0xC, 0x2]


@pytest.mark.parametrize(("of", "times"), rotated({**FLOATS, **INTEGERS}.items(), [1, 100]))
def test_hex_constants_are_truncated(of: tuple[str, int], times: int) -> None:
    t, bits = of  # MLIR prints constants of above 100 elements as hex
    """As the C++ reference and XLA do: `dense<"0xC0EA">` of i4 is [0, -6] there, of ui4 [0, 10], of f4 [0, -1]."""
    for start in range(0, 256, 2):
        pair = bytes([start, start + 1])
        actual = run(f'dense<"0x{pair.hex() * times}">', f"tensor<{2 * times}x{t}>")
        kept = [x & ((1 << bits) - 1) for x in pair]
        if t in FLOATS:
            assert actual.tobytes() == bytes(kept) * times
        else:
            sign = 1 << (bits - 1) if t.startswith("i") else 0
            assert actual.astype(int).tolist() == [(x ^ sign) - sign for x in kept] * times


def test_a_hex_constant_with_stray_bits_in_any_shape() -> None:
    i4: Any = ml_dtypes.int4
    assert run('dense<"0xC0EA41FF">', "tensor<4xi4>").astype(int).tolist() == [0, -6, 1, -1]
    assert run('dense<"0xEAC0C0FF">', "tensor<2x2xi4>").astype(int).tolist() == [[-6, 0], [0, -1]]
    actual = run('dense<"0xC0">', "tensor<2x2xi4>")
    assert actual.dtype == i4
    assert actual.astype(int).tolist() == [[0, 0], [0, 0]]
    assert run('dense<"0x00FE0102">', "tensor<4xi1>").view(np.uint8).tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("key", ["x", '"a key"', '"a>b"', '"a\\22b"', '"-"'])
def test_names_of_resources(key: str) -> None:
    blobs = f'{{-# dialect_resources: {{ builtin: {{ y: "0x0400000007", {key}: "0x0400000009" }} }} #-}}'
    assert run(f"dense_resource<{key}>", "tensor<1xi8>", blobs).tolist() == [9]
