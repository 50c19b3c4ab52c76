"""Seeded mutants of programs in every form, and of input files, as command lines."""

import io
import random
import re
from pathlib import Path

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from minihlo.interp.parse import parser

ADD = """\
module @small attributes {mhlo.num_partitions = 1 : i32} {
  // A comment with "quotes" and { brackets.
  func.func public @main(%x: tensor<2x3xf8E4M3FN>, %y: tensor<3xf8E4M3FN>)
      -> (tensor<2x3xf8E4M3FN> {jax.result_info = "r"}) {
    %0 = stablehlo.broadcast_in_dim %y, dims = [1] : (tensor<3xf8E4M3FN>) -> tensor<2x3xf8E4M3FN>
    %1 = stablehlo.add %x, %0 : tensor<2x3xf8E4M3FN>
    %2 = stablehlo.constant dense<[[1.0, -0.5, 0x7F], [2.0, 448.0, 0.0]]> : tensor<2x3xf8E4M3FN>
    %3 = stablehlo.compare LT, %1, %2, FLOAT : (tensor<2x3xf8E4M3FN>, tensor<2x3xf8E4M3FN>) -> tensor<2x3xi1>
    %4 = stablehlo.select %3, %1, %2 : tensor<2x3xi1>, tensor<2x3xf8E4M3FN>
    return %4 : tensor<2x3xf8E4M3FN>
  }
}
"""
REGIONS = """\
func.func @main(%n: tensor<i32>) -> tensor<complex<f32>> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<(1.0, -2.0)> : tensor<4xcomplex<f32>>
  %one = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
  %i = stablehlo.while(%k = %zero) : tensor<i32>
    cond {
      %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %m = stablehlo.add %k, %n : tensor<i32>
      stablehlo.return %m : tensor<i32>
    }
  %s = stablehlo.reduce(%z init: %one) applies stablehlo.add across dimensions = [0]
      : (tensor<4xcomplex<f32>>, tensor<complex<f32>>) -> tensor<complex<f32>>
  return %s : tensor<complex<f32>>
}
"""
STRUCTURES = """\
func.func @main(%a: tensor<1x4x4x2xf32>, %w: tensor<3x3x2x1xf32>) -> tensor<1x2x2x1xf32> {
  %0 = "stablehlo.convolution"(%a, %w) <{
    batch_group_count = 1 : i64, feature_group_count = 1 : i64, window_strides = array<i64: 1, 1>,
    dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>,
    padding = dense<0> : tensor<2x2xi64>
  }> : (tensor<1x4x4x2xf32>, tensor<3x3x2x1xf32>) -> tensor<1x2x2x1xf32>
  %1 = call @twice(%0) : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  check.expect_almost_eq_const %1, dense<[[[[1.0], [2.0]], [[3.0], [4.0]]]]> : tensor<1x2x2x1xf32> {tolerance = 0.1}
  check.expect_close %0, %1, max_ulp_difference = 3 : tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32>
  return %0 : tensor<1x2x2x1xf32>
}
func.func private @twice(%a: tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32> {
  %0 = stablehlo.add %a, %a : tensor<1x2x2x1xf32>
  return %0 : tensor<1x2x2x1xf32>
}
"""
# fmt: off
WORDS = [
    "%", "%x", "%0", "#", "@", "@main", "!", "!stablehlo.token", "^bb0", "{", "}", "(", ")", "<", ">", "[", "]", "<{",
    "}>", "->", ":", ",", "=", '"', "//", "?", "x", "0", "1", "-1", "1.0e400", "0xFF", "0xZZ", "9223372036854775807",
    "99999999999999999999", "tensor<", "dense<", "tensor<2x?xf32>", "tensor<*xf32>", "complex<f8E4M3FN>", "tuple<",
    "f8E4M3", "f9", "i0", "i999999999", "ui4", "none", "index", "memref<4xf32>", "!quant.uniform<i8:f32,0.1>",
    "array<i64:", "true", "func.func", "stablehlo.add", '"stablehlo.add"', "stablehlo.return", "return", "module",
    "loc(", "#stablehlo.dot<", "affine_map<(d0)->(d0)>",
]
# fmt: on

RESOURCE = """\
func.func @main(%x: tensor<4xf4E2M1FN>) -> (tensor<4xf4E2M1FN>, tensor<2x2xf32>) {
  %0 = stablehlo.constant dense_resource<small> : tensor<4xf4E2M1FN>
  %1 = stablehlo.constant dense_resource<wide> : tensor<2x2xf32>
  %2 = stablehlo.add %x, %0 : tensor<4xf4E2M1FN>
  return %2, %1 : tensor<4xf4E2M1FN>, tensor<2x2xf32>
}
{-#
  dialect_resources: {
    builtin: {
      small: "0x0100000001020304",
      wide: "0x040000000000803F000000400000404000008040"
    }
  }
#-}
"""
PRODUCT = """\
func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf64>) -> (tensor<2xf32>, tensor<3xf64>) {
  %0 = stablehlo.convert %y : (tensor<3xf64>) -> tensor<3xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %1, %y : tensor<2xf32>, tensor<3xf64>
}
"""
INPUTS = {
    ADD: ["2x3xf8E4M3FN=1,2,3,4,5,6", "3xf8E4M3FN=1,2,3"],
    REGIONS: ["i32=5"],
    STRUCTURES: ["1x4x4x2xf32=1", "3x3x2x1xf32=2"],
    RESOURCE: ["4xf4E2M1FN=1,2,3,4"],
}
FORMS = ("text", "generic", "bytecode", "artifact", "npy", "resource")


def _mutated_tokens(text: str, rng: random.Random) -> str:
    """One to four changes to tokens: left out, doubled, swapped or replaced; or the end cut off."""
    tokens = re.findall(r"\s+|[\w.]+|.", text)
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
        match rng.randrange(5):
            case 0:
                tokens[i] = ""
            case 1:
                tokens[i] *= 2
            case 2:
                tokens[i], tokens[j] = tokens[j], tokens[i]
            case 3:
                tokens[i] = rng.choice(WORDS)
            case 4:
                tokens[i] += f" {rng.choice(WORDS)} "
    return "".join(tokens[: rng.randrange(len(tokens))] if rng.random() < 0.1 else tokens)


def _mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to eight bytes replaced, past the magic number; or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(4, len(changed))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed[: rng.randrange(4, len(changed))] if rng.random() < 0.2 else changed)


def commands(count: int, seed: int, folder: Path) -> dict[str, list[str]]:
    """So many command lines by name, with the files that they read, of all forms in turn."""
    rng, context = random.Random(seed), parser.make_context()
    version = stablehlo.get_current_version()
    (folder / "product.mlir").write_text(PRODUCT)
    made = {}
    for number in range(count):
        form = FORMS[number % len(FORMS)]
        name = f"{form}{number}"
        if form == "npy":
            path = folder / f"{name}.npy"
            which = rng.randrange(2)
            good = [folder / f"{name}.x.npy", folder / f"{name}.y.npy"]
            np.save(good[0], np.arange(6, dtype=np.float32).reshape(2, 3))
            np.save(good[1], np.arange(3, dtype=np.float64))
            path.write_bytes(_mutated_header(good[which].read_bytes(), rng))
            good[which] = path
            made[name] = ["run", str(folder / "product.mlir"), *_inputs([f"@{p}" for p in good])]
            continue
        text = rng.choice([t for t in INPUTS if t != RESOURCE]) if form != "resource" else RESOURCE
        path = folder / f"{name}.mlir"
        if form in ("text", "resource"):
            path.write_text(_text(text, rng))
        else:
            # MLIR knows no check ops, and artifacts no resources.
            text = rng.choice((ADD, REGIONS, *[RESOURCE] * (form != "artifact")))
            module = ir.Module.parse(text, context)
            if form == "generic":
                path.write_text(_text(module.operation.get_asm(print_generic_op_form=True), rng))
            elif form == "bytecode":
                stream = io.BytesIO()
                module.operation.write_bytecode(stream)
                path.write_bytes(_bytes(stream.getvalue(), rng))
            else:
                path.write_bytes(_bytes(stablehlo.serialize_portable_artifact(module, version), rng))
        made[name] = ["run", str(path), *_inputs(INPUTS[text])]
    return made


def _inputs(values: list[str]) -> list[str]:
    return [part for value in values for part in ("--input", value)]


def _text(text: str, rng: random.Random) -> str:
    """Damage to any part, or to one digit, after which more is left to go wrong."""
    if rng.random() < 0.5:
        return _mutated_tokens(text, rng)
    at = rng.choice([i for i, c in enumerate(text) if c.isdigit()])
    return text[:at] + rng.choice("0123456789ABCF-.") + text[at + 1 :]


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return _mutated_bytes(data, rng)
    at = rng.randrange(len(data) // 2, len(data))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _mutated_header(data: bytes, rng: random.Random) -> bytes:
    """Changes to the header, which is text, or to any bytes at all."""
    if rng.random() < 0.3:
        return _bytes(data, rng)
    end = data.index(b"\n")
    header = _text(data[10:end].decode(), rng).encode()
    header = header[: end - 10].ljust(end - 10) if rng.random() < 0.5 else header
    return data[:8] + len(header + b"\n").to_bytes(2, "little") + header + data[end:]
