"""Programs with errors in them, made by a seeded mutator: one line and exit code 2, never a traceback or an abort."""

import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
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

SEED = 20240601
TEXTS, BINARIES = 60, 40


def bytecodes() -> list[bytes]:
    """Bytecode and portable artifacts of the programs without check ops."""
    context = parser.make_context()
    result = []
    for text in (ADD, REGIONS):
        module = ir.Module.parse(text, context)
        stream = io.BytesIO()
        module.operation.write_bytecode(stream)
        result += [stream.getvalue(), stablehlo.serialize_portable_artifact(module, "1.10.0")]
    return result


def mutated_text(text: str, rng: random.Random) -> str:
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


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """One to eight bytes replaced, past the magic number; or the end cut off."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        changed[rng.randrange(4, len(changed))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
    return bytes(changed[: rng.randrange(4, len(changed))] if rng.random() < 0.2 else changed)


def cases() -> dict[str, bytes]:
    rng = random.Random(SEED)
    binaries = bytecodes()
    made = {f"text{i}": mutated_text(rng.choice((ADD, REGIONS, STRUCTURES)), rng).encode() for i in range(TEXTS)}
    made |= {f"bytes{i}": mutated_bytes(rng.choice(binaries), rng) for i in range(BINARIES)}
    deep = 100_000
    made |= {
        "tuples": b"func.func @main(%a: " + b"tuple<" * deep,
        "parentheses": b"(" * deep,
        "regions": b'"a.b"() ({\n' * deep,
        "attributes": b'"a.b"() {a = ' + b"[" * deep,
        "not UTF-8": b"func.func @main() {\xff}",
        "zeros": bytes(1000),
        "empty bytecode": b"ML\xefR",
        "huge type": b"func.func @main(%a: tensor<9223372036854775807x9223372036854775807xf32>) { return }",
        "huge constant": b"""func.func @f() {
            %0 = stablehlo.constant dense<0.0> : tensor<9999999999x9999999999xf64>
            return }""",
    }
    return made


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """By case: the exit code, and what came out on stderr."""
    directory = tmp_path_factory.mktemp("malformed")
    paths = []
    for name, data in cases().items():
        paths.append(directory / name)
        paths[-1].write_bytes(data)
    driver = Path(__file__).with_name("malformed_driver.py")
    out = subprocess.run([sys.executable, driver, *paths], capture_output=True, check=True, timeout=300)
    assert out.stderr == b""
    return {name: (code, stderr) for name, (code, stderr) in json.loads(out.stdout).items()}


def test_no_case_gets_past_with_more_than_one_line(seen: dict[str, tuple[int, str]]) -> None:
    wrong = {}
    for name, (code, stderr) in seen.items():
        one_line = stderr.count("\n") == 1 and (stderr.startswith((f"{name}:", f"minihlo: {name}:")))
        if not (code == 0 and stderr == "") and not (code == 2 and one_line):
            wrong[name] = (code, stderr)
    assert wrong == {}, f"seed {SEED}"


def test_mutants_are_mostly_refused_and_not_by_crashes(seen: dict[str, tuple[int, str]]) -> None:
    refused = [s for code, s in seen.values() if code == 2]
    crashed = [s for s in refused if "died" in s]
    assert len(refused) > len(seen) / 2
    assert len(crashed) < len(seen) / 10, crashed


@pytest.mark.parametrize("name", ["tuples", "parentheses", "regions", "attributes"])
def test_deep_nesting_is_refused_with_its_place(seen: dict[str, tuple[int, str]], name: str) -> None:
    code, stderr = seen[name]
    assert code == 2
    assert re.fullmatch(rf"{name}:\d+:\d+: expected at most 1000 nested brackets, got more\n", stderr)


def test_a_type_too_large_for_any_machine_is_only_a_type(seen: dict[str, tuple[int, str]]) -> None:
    assert seen["huge type"] == (0, "")


def test_a_constant_too_large_for_any_machine_is_refused(seen: dict[str, tuple[int, str]]) -> None:
    code, stderr = seen["huge constant"]
    assert code == 2
    assert stderr.startswith("huge constant:2:18: stablehlo.constant: ")


def test_other_encodings_are_named(seen: dict[str, tuple[int, str]]) -> None:
    assert seen["not UTF-8"][1].startswith("not UTF-8:1:20: expected UTF-8 (a program is")
