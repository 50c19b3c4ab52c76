"""Seeded mutants of programs in every form, and of input files, as command lines."""

import io
import random
from pathlib import Path

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from minihlo.interp.parse import parser

from .test_malformed import ADD, REGIONS, STRUCTURES, mutated_bytes, mutated_text

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
        return mutated_text(text, rng)
    at = rng.choice([i for i, c in enumerate(text) if c.isdigit()])
    return text[:at] + rng.choice("0123456789ABCF-.") + text[at + 1 :]


def _bytes(data: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return mutated_bytes(data, rng)
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
