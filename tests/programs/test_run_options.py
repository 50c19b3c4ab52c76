"""`minihlo run`: tensors of tuples, samples, elided constants, several processes, files of numpy and safetensors."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import InputError, load

from ..cli_cases import in_process, refused

TUPLE = """func.func @main(%a: tensor<2xi64>, %b: tensor<2xi64>)
    -> (tuple<tensor<2xi64>, !stablehlo.token, tensor<2xi64>>, tensor<2xi64>) {
  %0 = stablehlo.add %a, %b : tensor<2xi64>
  %t = stablehlo.create_token : !stablehlo.token
  %1 = stablehlo.tuple %a, %t, %0 : tuple<tensor<2xi64>, !stablehlo.token, tensor<2xi64>>
  return %1, %b : tuple<tensor<2xi64>, !stablehlo.token, tensor<2xi64>>, tensor<2xi64>
}"""
GIVEN = ("--input", "2xi64=1", "--input", "2xi64=3,6")


def refusal(*arguments: str, cwd: Path) -> str:
    return refused(*in_process(*arguments, cwd=cwd))


def values(text: str) -> list[Any]:
    """The numbers of results that are printed as JSON."""
    return [json.loads(line)["values"] for line in text.splitlines()]


def test_each_tensor_of_a_tuple(tmp_path: Path) -> None:
    (tmp_path / "t.mlir").write_text(TUPLE)
    right = ("--expected", "2xi64=1", "--expected", "2xi64=4,7", "--expected", "2xi64=3,6")
    assert in_process("run", "t.mlir", *GIVEN, *right, cwd=tmp_path)[0] == 0
    status, _, err = in_process("run", "t.mlir", *GIVEN, *right[:2], "--expected", "2xi64=4,8", cwd=tmp_path)
    assert (status, err.splitlines()[0]) == (
        1, "--expected 1: element [1]: got 7, expected 8, 1 apart (must be the same code); 1 of 2 elements"
    )  # fmt: skip
    written = ("--output", "@a.npy", "--output", "@b.npy")
    status, out, _ = in_process("run", "t.mlir", *GIVEN, *written, "--format", "codes", cwd=tmp_path)
    assert (status, out) == (0, "2xi64=[3 6]\n")
    assert [np.load(tmp_path / f"{name}.npy").tolist() for name in "ab"] == [[1, 1], [4, 7]]
    # A part that is not written is printed by itself.
    _, out, _ = in_process(
        "run", "t.mlir", *GIVEN, "--output", "-", "--output", "@b.npy", "--format", "codes", cwd=tmp_path
    )
    assert out == "2xi64=[1 1]\n2xi64=[3 6]\n"
    message = "expected --expected at most 3 times, got 4"
    assert message in refusal("run", "t.mlir", *GIVEN, *right, "--expected", "2xi64=1", cwd=tmp_path)


TYPES = {
    "bf16": "bfloat16", "f8E5M2": "float8_e5m2", "f8E4M3FN": "float8_e4m3fn", "f8E8M0FNU": "float8_e8m0fnu",
    "f6E2M3FN": "float6_e2m3fn", "f4E2M1FN": "float4_e2m1fn", "i4": "int4", "ui2": "uint2",
}  # fmt: skip


@pytest.mark.parametrize("element", TYPES)
def test_files_as_numpy_writes_them(element: str, tmp_path: Path) -> None:
    """numpy does not know the types of ml_dtypes: the program's type, or one without a shape, tells what they are."""
    x = np.array([[1, 2], [3, 1]]).astype(getattr(ml_dtypes, TYPES[element]))
    np.save(tmp_path / "x.npy", x)
    t = f"tensor<2x2x{element}>"
    (tmp_path / "f.mlir").write_text(f"func.func @main(%x: {t}) -> {t} {{ return %x : {t} }}")
    for value in ("@x.npy", f"{element}=@x.npy", f"2x2x{element}=@x.npy"):
        status, out, err = in_process(
            "run", "f.mlir", "--input", value, "--expected", value, "--format", "json", cwd=tmp_path
        )
        assert (status, values(out), err) == (0, [x.astype(float).tolist()], "")
    if element != "f8E5M2":  # numpy refuses its own file
        assert load(tmp_path / "f.mlir")(np.load(tmp_path / "x.npy"))[0].tolist() == x.tolist()
    other = "f32" if element != "bf16" else "f8E5M2"
    (tmp_path / "g.mlir").write_text(f"func.func @main(%x: tensor<2x2x{other}>) {{ return }}")
    assert f"input 0: expected {other}, got" in refusal("run", "g.mlir", "--input", "@x.npy", cwd=tmp_path)


def test_safetensors(tmp_path: Path) -> None:
    """The bytes are those of the library (safetensors 0.8)."""
    header = (
        b'{"__metadata__":{"format":"np"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},'
        b'"w":{"dtype":"F8_E4M3","shape":[2,3],"data_offsets":[6,12]},'
        b'"f4":{"dtype":"F4","shape":[2,2],"data_offsets":[12,14]}}     '
    )
    data = b"\x80?\x80?\x80?\x008@DHJ!C"
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    w, b, f4 = "tensor<2x3xf8E4M3FN>", "tensor<3xbf16>", "tensor<2x2xf4E2M1FN>"
    text = f"func.func @main(%w: {w}, %b: {b}, %f: {f4}) -> ({w}, {b}, {f4}) {{ return %w, %b, %f : {w}, {b}, {f4} }}"
    (tmp_path / "f.mlir").write_text(text)
    given = [a for n in ("w", "b", "f4") for a in ("--input", f"@w.safetensors:{n}")]
    _, out, err = in_process("run", "f.mlir", *given, "--format", "json", cwd=tmp_path)
    assert values(out) == [[[0, 1, 2], [3, 4, 5]], [1, 1, 1], [[0.5, 1], [1.5, 2]]], err
    outputs = [a for n in ("w", "b", "f4") for a in ("--output", f"@o.safetensors:{n}")]
    assert in_process("run", "f.mlir", *given, *outputs, cwd=tmp_path)[0] == 0
    whole = (tmp_path / "o.safetensors").read_bytes()
    length = int.from_bytes(whole[:8], "little")
    written = json.loads(whole[8 : 8 + length])
    assert {n: (e["dtype"], e["shape"]) for n, e in written.items()} == {
        "b": ("BF16", [3]), "w": ("F8_E4M3", [2, 3]), "f4": ("F4", [2, 2])
    }  # fmt: skip
    for name, part in (("b", data[:6]), ("w", data[6:12]), ("f4", data[12:])):
        begin, end = written[name]["data_offsets"]
        assert whole[8 + length :][begin:end] == part
    for value, message in (
        ("@w.safetensors:x", "expected FILE.safetensors:NAME, got no tensor x"),
        ("@w.safetensors", "expected FILE.safetensors:NAME, got no name of b, w, f4"),
        ("2x3xf32=@w.safetensors:w", "expected tensor<2x3xf32>, got tensor<2x3xf8E4M3FN>"),
        ("@no.safetensors:x", "No such file"),
    ):
        assert message in refusal("run", "f.mlir", "--input", value, cwd=tmp_path)
    for t, name, message in (
        ("1xi4", "x", "expected an element type of .safetensors files, got i4"),
        ("3xf4E2M1FN", "x", "expected elements that fill whole bytes, got tensor<3xf4E2M1FN>"),
        ("1xi1", "__metadata__", "expected the name of a tensor, got __metadata__"),
    ):
        (tmp_path / "g.mlir").write_text(
            f"func.func @main(%x: tensor<{t}>) -> tensor<{t}> {{ return %x : tensor<{t}> }}"
        )
        given = "--input", f"{t}=1", "--output", f"@o.safetensors:{name}"
        assert f"--output 0: {message}" in refusal("run", "g.mlir", *given, cwd=tmp_path)
    assert in_process("run", "g.mlir", "--input", "1xi1=1", "--output", "@o.safetensors:x", cwd=tmp_path)[0] == 0
    assert "true" in in_process("run", "g.mlir", "--input", "@o.safetensors:x", cwd=tmp_path)[1]


@pytest.mark.parametrize(
    "header",
    [
        b"[]", b"{", b"{" + b'"a":' * 100000, b'{"w": 1}', b"\xff",
        *(
            b'{"w":{"dtype":%s,"shape":[%s],"data_offsets":[%s]}}' % entry
            for entry in (
                (b'"F32"', b"2", b"0,4"), (b'"F32"', b"-1", b"0,4"), (b"[]", b"1", b"0,4"), (b'"F32"', b"1", b"4,8"),
                (b'"F32"', b"1e400", b"0,4"), (b'"F32"', b"4611686018427387903", b"0,4"), (b'"F32"', b"1", b"4,0"),
            )
        ),
    ],
)  # fmt: skip
def test_damaged_safetensors(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    (tmp_path / "f.mlir").write_text("func.func @main(%x: tensor<f32>) { return }")
    refusal("run", "f.mlir", "--input", "@w.safetensors:w", cwd=tmp_path)


def test_elided_constants(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("""func.func @main() -> (tensor<64xf32>, tensor<64xf8E4M3FN>) {
      %0 = stablehlo.constant dense_resource<__elided__> : tensor<64xf32>
      %1 = stablehlo.constant dense_resource<__elided__> : tensor<64xf8E4M3FN>
      return %0, %1 : tensor<64xf32>, tensor<64xf8E4M3FN>
    }""")
    assert "--elided zeros, or sample" in refusal("run", "f.mlir", cwd=tmp_path)
    run = ("run", "f.mlir", "--format", "json", "--elided")
    assert values(in_process(*run, "zeros", cwd=tmp_path)[1]) == [[0] * 64] * 2
    first, again, other = (in_process(*run, "sample", "--seed", s, cwd=tmp_path)[1] for s in ("1", "1", "2"))
    assert first == again != other
    assert all(len(set(v)) > 20 for v in values(first))
    assert not load(tmp_path / "f.mlir", elided="zeros")()[0].any()
    with pytest.raises(InputError, match="elided: expected one of zeros, sample, got 'ones'"):
        load(tmp_path / "f.mlir", elided="ones")


def test_samples(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("""func.func @main(%x: tensor<64xf32>, %t: tuple<tensor<i32>, !stablehlo.token>)
        -> tensor<64xf32> { return %x : tensor<64xf32> }""")
    assert "got 0; --sample draws them" in refusal("run", "f.mlir", cwd=tmp_path)
    run = ("run", "f.mlir", "--sample", "--format", "json")
    first, again, other = (in_process(*run, *seed, cwd=tmp_path)[1] for seed in ((), ("--seed", "0"), ("--seed", "1")))
    assert first == again != other
    (tmp_path / "g.mlir").write_text("func.func @main(%x: tensor<9999x9999x999xf32>) { return }")
    assert "a sample of tensor<9999x9999x999xf32> takes 2.5 TiB, but only " in refusal(
        "run", "g.mlir", *run[2:], cwd=tmp_path
    )
    message = "expected --sample without --input and --args, got both"
    assert message in refusal(*run, "--input", "64xf32=1", cwd=tmp_path)


def test_samples_are_those_of_diff(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> { return %x : tensor<8xf32> }"
    )
    from minihlo.interp.commands.diff import inputs_of
    from minihlo.interp.diff.source import Source

    source = Source.of_text((tmp_path / "f.mlir").read_text(), "f.mlir")
    (_, (theirs,)), *_ = inputs_of(source, None, 5)
    out = in_process("run", "f.mlir", "--sample", "--seed", "5", "--output", "@o.npy", cwd=tmp_path)
    assert out[0] == 0
    assert np.load(tmp_path / "o.npy").tobytes() == theirs.tobytes()


SUM = """module attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32} {
  func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<ui32>) {
    %0 = func.call @sum(%x) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = stablehlo.replica_id : tensor<ui32>
    return %0, %1 : tensor<2xf32>, tensor<ui32>
  }
  func.func private @sum(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%x) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
}"""


def test_replicas(tmp_path: Path) -> None:
    """As many as the module says, where they meet; each prints its results, and inputs are of all or of each."""
    (tmp_path / "f.mlir").write_text(SUM)
    (tmp_path / "plain.mlir").write_text(SUM.replace("mhlo.num_replicas = 2", "mhlo.num_replicas = 1"))
    one, two = ("--input", "2xf32=1,2"), ("--input", "2xf32=10,20")
    run = ("run", "f.mlir", "--format", "json")
    assert values(in_process(*run, *one, cwd=tmp_path)[1]) == [[2, 4], 0, [2, 4], 1]
    assert values(in_process(*run, *one, *two, cwd=tmp_path)[1]) == [[11, 22], 0, [11, 22], 1]
    replicas = ("run", "plain.mlir", "--format", "json", "--replicas", "2")
    assert values(in_process(*replicas, *one, *two, cwd=tmp_path)[1]) == [[11, 22], 0, [11, 22], 1]
    _, out, _ = in_process("run", "f.mlir", *one, "--format", "codes", cwd=tmp_path)
    assert [line for line in out.splitlines() if "replica" in line] == [
        "replica 0, partition 0:", "replica 1, partition 0:"
    ]  # fmt: skip
    given = [*one, "--expected", "2xf32=2,4", "--expected", "ui32=0", "--expected", "2xf32=2,4", "--expected"]
    assert in_process("run", "f.mlir", *given, "ui32=1", cwd=tmp_path)[0] == 0
    assert in_process("run", "f.mlir", *given, "ui32=0", cwd=tmp_path)[0] == 1
    assert "expected 1 input (tensor<2xf32>), or 2 for 2 processes, got 3" in refusal(
        "run", "f.mlir", *one, *one, *one, cwd=tmp_path
    )


def test_partitions(tmp_path: Path) -> None:
    """A program whose processes do not meet runs once, unless the option says otherwise."""
    (tmp_path / "f.mlir").write_text("""module attributes {mhlo.num_partitions = 4 : i32} {
      func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> } }""")
    run = ("run", "f.mlir", "--format", "json", "--input", "f32=3")
    assert values(in_process(*run, cwd=tmp_path)[1]) == [3]
    assert values(in_process(*run, "--partitions", "2", "--replicas", "2", cwd=tmp_path)[1]) == [3] * 4


def test_an_index(tmp_path: Path) -> None:
    (tmp_path / "f.mlir").write_text("func.func @main(%x: index) -> index { return %x : index }")
    assert in_process("run", "f.mlir", "--input", "index=3", "--format", "codes", cwd=tmp_path)[1] == "i64=3\n"


FUNCTIONS = """func.func @a() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  check.expect_eq_const %0, dense<2> : tensor<i32>
  return
}
func.func @b(%x: tensor<f32>) { return }
func.func @c() { return }
// -----
func.func @d() { bad }
func.func @e() { return }
// -----
func.func @main() { return }
func.func @c() { return }
"""


def test_every_function_is_a_test(tmp_path: Path) -> None:
    """Of each program @main, else every one without arguments; a program that cannot be read is one failure."""
    (tmp_path / "f.mlir").write_text(FUNCTIONS)
    status, out, _ = in_process("test", "f.mlir", cwd=tmp_path)
    assert status == 1
    assert [line.split(": ")[:2] for line in out.splitlines()[:2]] == [
        ["f.mlir:3:3", "check.expect_eq_const"], ["f.mlir:9:18", "bad"]
    ]  # fmt: skip
    assert out.splitlines()[-1].startswith("4 programs in")
    status, out, _ = in_process("test", "f.mlir", "--function", "@c", cwd=tmp_path)
    assert (status, out.splitlines()[-1][:13]) == (0, "2 programs in")
    assert "no function @x in 1 file" in refusal("test", "f.mlir", "--function", "x", cwd=tmp_path)
