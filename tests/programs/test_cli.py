"""The command line, in child processes: what it prints, its exit status, and how it tells mistakes."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import cli

from ..cli_cases import ADD, FOREVER, INPUTS, command, in_process, minihlo, refused, write_programs
from ..processes import started


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_programs(tmp_path)


def test_run_prints_results(folder: Path) -> None:
    sums = "tensor<4xf8E4M3FN> {\n  [2.000000e+00, 3.000000e+00, 7.000000e+00, 0x7F]\n}\n"
    assert minihlo("run", "add.mlir", *INPUTS, cwd=folder) == (
        0,
        sums + "tensor<4xi1> {\n  [false, false, true, false]\n}\n",
        "",
    )


def test_run_prints_codes_and_json(folder: Path) -> None:
    _, out, _ = in_process("run", "add.mlir", *INPUTS, "--format", "codes", "--overflow", "saturate", cwd=folder)
    assert out == "4xf8E4M3FN=[0x40 0x44 0x4E 0x7E]\n4xi1=[0 0 1 0]\n"
    _, out, _ = in_process("run", "add.mlir", *INPUTS, "--format", "json", cwd=folder)
    first, second = map(json.loads, out.splitlines())
    assert first["codes"] == [0x40, 0x44, 0x4E, 0x7F]
    assert first["values"] == [2, 3, 7, "nan"]
    assert second == {"type": "tensor<4xi1>", "shape": [4], "element": "i1", "values": [False, False, True, False]}


def test_inputs_of_tuples_and_tokens(tmp_path: Path) -> None:
    inner = "tuple<!stablehlo.token, tensor<2xi32>>"
    text = f"""
    func.func @main(%a: tuple<tensor<f32>, {inner}>, %t: !stablehlo.token, %b: tensor<f32>)
        -> (tensor<f32>, tensor<2xi32>) {{
      %x = stablehlo.get_tuple_element %a[0] : (tuple<tensor<f32>, {inner}>) -> tensor<f32>
      %i = stablehlo.get_tuple_element %a[1] : (tuple<tensor<f32>, {inner}>) -> {inner}
      %y = stablehlo.get_tuple_element %i[1] : ({inner}) -> tensor<2xi32>
      %r = stablehlo.subtract %x, %b : tensor<f32>
      return %r, %y : tensor<f32>, tensor<2xi32>
    }}"""
    (tmp_path / "tuple.mlir").write_text(text)
    inputs = ("f32=1", "2xi32=3,4", "f32=0.5")
    words = [w for value in inputs for w in ("--input", value)]
    ran = in_process("run", "tuple.mlir", *words, "--format", "codes", cwd=tmp_path)
    assert ran == (0, "f32=0x3F000000\n2xi32=[3 4]\n", "")
    line = refused(*in_process("run", "tuple.mlir", *words[:4], cwd=tmp_path))
    assert line.endswith("expected 3 inputs (tensor<f32>, tensor<2xi32>, tensor<f32>), got 2")
    line = refused(*in_process("run", "tuple.mlir", *words[:2], *words[:4], cwd=tmp_path))
    assert line.startswith("input 1: expected i32, got f32")


def test_run_reads_standard_input_bytecode_and_artifacts(folder: Path) -> None:
    expected = minihlo("run", "add.mlir", *INPUTS, cwd=folder)
    assert minihlo("run", "-", *INPUTS, stdin=ADD) == expected
    assert minihlo("run", "--split-input-file", "-", *INPUTS, stdin=ADD) == expected
    script = (
        "import io, sys; from jaxlib.mlir import ir; from jaxlib.mlir.dialects import stablehlo\n"
        "from jax._src.interpreters.mlir import make_ir_context\n"
        "m = ir.Module.parse(sys.stdin.read(), make_ir_context())\n"
        "f = io.BytesIO(); m.operation.write_bytecode(f); open('a.mlirbc', 'wb').write(f.getvalue())\n"
        "open('a.artifact', 'wb').write(stablehlo.serialize_portable_artifact(m, stablehlo.get_minimum_version()))\n"
    )
    source = ADD.replace("f8E4M3FN", "f32")  # the oldest artifacts have few types
    subprocess.run([sys.executable, "-c", script], input=source, text=True, cwd=folder, check=True)
    inputs = [i.replace("f8E4M3FN", "f32") for i in INPUTS]
    (folder / "f32.mlir").write_text(source)
    expected = in_process("run", "f32.mlir", *inputs, cwd=folder)
    assert expected[0] == 0
    for file in ("a.mlirbc", "a.artifact"):
        assert in_process("run", file, *inputs, cwd=folder) == expected


def test_args_are_a_list_of_constants(folder: Path) -> None:
    text = "[dense<[1.0, 2.0, 3.0, 448.0]> : tensor<4xf8E4M3FN>, dense<1.0> : tensor<4xf8E4M3FN>]"
    (folder / "args").write_text(text)
    expected = in_process("run", "add.mlir", *INPUTS[:2], "--input", "4xf8E4M3FN=1", cwd=folder)
    assert expected[0] == 0
    assert in_process("run", "add.mlir", "--args", text, cwd=folder) == expected
    assert in_process("run", "add.mlir", "--args", "@args", cwd=folder) == expected
    assert "expected a list" in refused(*in_process("run", "add.mlir", "--args", "not_a_list", cwd=folder))
    assert "dense" in refused(*in_process("run", "add.mlir", "--args", "[4.0 : f32]", cwd=folder))
    assert "not allowed with" in refused(*in_process("run", "add.mlir", "--args", text, *INPUTS, cwd=folder))


def test_what_output_writes_is_read_back(folder: Path) -> None:
    outputs = ("--output", "@sum.npy", "--output", "@less.npy")
    assert in_process("run", "add.mlir", *INPUTS, *outputs, cwd=folder) == (0, "", "")
    assert np.load(folder / "sum.npy").view(ml_dtypes.float8_e4m3fn)[:3].tolist() == [2, 3, 7]
    assert np.load(folder / "less.npy").tolist() == [False, False, True, False]
    again = ("--input", "@sum.npy", "--input", "4xf8E4M3FN=@sum.npy", "--output", "@twice.npy")
    code, out, _ = in_process("run", "add.mlir", *again, cwd=folder)
    assert (code, out.splitlines()[0]) == (0, "tensor<4xi1> {")  # the second result goes nowhere else
    assert np.load(folder / "twice.npy").view(ml_dtypes.float8_e4m3fn)[:3].tolist() == [4, 6, 14]


def test_expected_is_bit_for_bit(folder: Path) -> None:
    right = ("--expected", "4xf8E4M3FN=2,3,7,0xFF", "--expected", "4xi1=0 0 1 0")  # any NaN is a NaN
    assert in_process("run", "add.mlir", *INPUTS, *right, cwd=folder)[::2] == (0, "")
    code, out, err = in_process("run", "add.mlir", *INPUTS, "--expected", "4xf8E4M3FN=2,3,8,nan", cwd=folder)
    assert code == 1
    assert out
    assert all(part in err for part in ("--expected 0", "[2]", "0x4E = 7", "0x50 = 8", "2 ULP")), err
    assert err.count("\n") == 1
    zero = "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  return %a : tensor<f32>\n}"
    assert minihlo("run", "-", "--input", "f32=-0", "--expected", "f32=0", stdin=zero)[0] == 1


def test_every_program_of_a_file_is_run(folder: Path) -> None:
    code, out, err = in_process("run", "checks.mlir", cwd=folder)
    assert (code, out) == (1, "")
    assert err.startswith("checks.mlir:13:3: check.expect_eq_const: ")
    assert err.count("\n") == 1
    assert in_process("run", "checks.mlir", "--function", "main", cwd=folder) == (0, "", "")
    assert in_process("run", "checks.mlir", "--function", "@other", cwd=folder)[0] == 1


def test_trace_and_probe_tell_every_value(folder: Path) -> None:
    probe = ("--trace", "--probe-dir", "probe/deep", "--format", "codes")
    code, out, _ = in_process("run", "add.mlir", *INPUTS, *probe, cwd=folder)
    assert code == 0
    lines = out.splitlines()
    assert lines[:2] == ["add.mlir:2:8: stablehlo.add", "4xf8E4M3FN=[0x40 0x44 0x4E 0x7F]"]
    assert lines[2] == "add.mlir:3:8: stablehlo.compare"
    with (folder / "probe/deep/index.csv").open() as file:
        rows = list(csv.reader(file))
    assert [row[:3] for row in rows] == [
        [str(i), t, f"00000{i}.npy"] for i, t in enumerate(["tensor<4xf8E4M3FN>"] * 3 + ["tensor<4xi1>"])
    ]
    assert rows[2][3:] == ["stablehlo.add", "add.mlir:2:8"]
    assert np.load(folder / "probe/deep/000002.npy").view(np.uint8).tolist() == [0x40, 0x44, 0x4E, 0x7F]
    _, out, _ = in_process("run", "add.mlir", *INPUTS, "--trace", "--format", "json", cwd=folder)
    ops = [json.loads(line).get("op") for line in out.splitlines()]
    assert ops == ["stablehlo.add", "stablehlo.compare", None, None]


def test_seeded_rounding_is_reproducible(folder: Path) -> None:
    def run(seed: str) -> str:
        inputs = ("--input", "4xf8E4M3FN=1", "--input", "4xf8E4M3FN=0.0625")
        return in_process("run", "add.mlir", *inputs, "--rounding", "stochastic", "--seed", seed, cwd=folder)[1]

    results = [run(str(seed)) for seed in range(6)]
    assert run("3") == results[3]
    assert len(set(results)) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "no.mlir"), "no.mlir: No such file or directory"),
        (("run", "."), ".: Is a directory"),
        (("run", "add.mlir"), "@main: expected 2 inputs (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>), got 0"),
        (("run", "add.mlir", *INPUTS, "--input", "f32=1"), "got 3"),
        (("run", "add.mlir", "--input", "f32=1", *INPUTS[:2]), "input 0: expected f8E4M3FN, got f32"),
        (
            ("run", "add.mlir", "--input", "2xf8E4M3FN=1", *INPUTS[:2]),
            "input 0: expected shape [4] for tensor<4xf8E4M3FN>, got [2]",
        ),
        (
            ("run", "add.mlir", "--input", "4xf8E4M3FN=500", *INPUTS[:2]),
            "--input 0: expected a number from -448 to 448 for f8E4M3FN, got 500",
        ),
        (("run", "add.mlir", "--input", "99999999999999xf32=1"), "tensor<99999999999999xf32> takes"),
        (("run", "add.mlir", "--function", "foo"), "no function @foo (there is @main)"),
        (("run", "add.mlir", *INPUTS, *("--output", "@x.npy") * 3), "expected --output at most 2 times, got 3"),
        (
            ("run", "add.mlir", *INPUTS, "--expected", "4xf32=1"),
            "--expected 0: expected tensor<4xf8E4M3FN>, got tensor<4xf32>",
        ),
        (("run", "checks.mlir", "--output", "@x.npy"), "expected one program for --output and --expected, got 3"),
        (("run", "add.mlir", "--rounding", "nearest"), "argument --rounding: invalid choice: 'nearest'"),
        (
            ("run", "add.mlir", "--arithmetic", "upcast:f9"),
            "argument --arithmetic, the type of upcast: expected one of",
        ),
        (("run", "add.mlir", "--seed", "-1"), "argument --seed"),
        (("run", "add.mlir", "--inptu", "f32=1"), "minihlo run: unrecognized arguments: --inptu"),
        (("run",), "the following arguments are required: FILE"),
        ((), "the following arguments are required: COMMAND"),
        (("walk",), "invalid choice: 'walk'"),
        (("test", "no"), "no: No such file or directory"),
        (("test", "add.mlir", "-j", "0"), "argument -j"),
        (("formats", "f8E4M3FM"), "expected a format, got 'f8E4M3FM' (did you mean f8E4M3FN"),
        (("formats", "f64", "--codes"), "--codes: expected a format of at most 16 bits, got f64"),
        (("cast", "1", "f9"), "expected an element type, got 'f9'"),
        (("cast", "one", "f8E4M3FN"), "expected a number, got 'one'"),
        (("cast", "500", "f32", "--from", "f8E4M3FN"), "expected a number from -448 to 448 for f8E4M3FN, got 500"),
        (("ops", "addd"), "expected an op, got 'addd' (did you mean add?)"),
    ],
)
def test_mistakes_are_reported_in_one_line(arguments, message, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    assert message in refused(*in_process(*arguments, cwd=folder))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "@no/x.npy"), "no/x.npy"),
        (("--output", "@."), ".: "),
        (("--output", "@/dev/full"), "/dev/full: No space left on device"),
        (("--probe-dir", "add.mlir"), "expected a folder, got add.mlir"),
        (("--probe-dir", "/dev/null/x"), "--probe-dir: /dev/null/x: Not a directory"),
    ],
)
def test_files_that_cannot_be_written(arguments, message, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    code, _, err = in_process("run", "add.mlir", *INPUTS, *arguments, cwd=folder)
    assert message in refused(code, "", err, status=74)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("func.func @main( {", "<stdin>:1:"),
        ("// -----\nfunc.func @main() -> tensor<f32> {\n  return\n}\n", "<stdin>:3:3: "),
        ("func.func @a() { return }\nfunc.func @b() { return }", "no function @main; name one (there is @a, @b)"),
        (b"\xff\xfe", "<stdin>:1:1: expected UTF-8"),
        (b"ML\xefR\x01", "<stdin>"),
    ],
)
def test_bad_programs_are_reported_with_their_place(source, message) -> None:
    assert message in refused(*minihlo("run", "-", stdin=source))


@pytest.mark.parametrize("arguments", [("run", "forever.mlir", "--trace"), ("test", "-j1", "bad.mlir", "forever.mlir")])
def test_interrupts_stop_it_cleanly(arguments, tmp_path: Path) -> None:
    (tmp_path / "forever.mlir").write_text(FOREVER)
    (tmp_path / "bad.mlir").write_text("bad")
    with started(command(*arguments), cwd=tmp_path) as process:
        assert process.stdout is not None
        assert b":" in process.stdout.readline()  # what comes before the endless loop
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, err = process.communicate(timeout=90)
    assert (process.returncode, err) == (130, b"")


def test_running_imports_nothing_slow(folder: Path) -> None:
    script = (
        "import sys; from minihlo.interp import cli\n"
        "assert not {'numpy', 'jaxlib', 'jax', 'rich'} & set(sys.modules), 'before the fork'\n"
        "import minihlo.interp.system.isolate as i, minihlo.interp.cli as c\n"
        "c.run_isolated = lambda main, subject: main()\n"
        f"assert cli.main(['run', 'add.mlir', *{INPUTS}]) == 0\n"
        "slow = {'jax', 'rich', 'scipy', 'mpmath', 'asyncio', 'multiprocessing', 'importlib.metadata'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_an_unknown_backend_is_one_line(folder: Path) -> None:
    """XLA, which is asked for such a platform, writes nothing of its own."""
    environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run(command("probe", "nope"), capture_output=True, text=True, cwd=folder, env=environment)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("expected a backend (minihlo, ")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "x.mlir", "--inptu", "f32=1"), "unrecognized arguments: --inptu f32=1 (did you mean --input"),
        (("conform", "minihlo", "--op", "add"), "--op add (did you mean --ops or"),
        (("rn", "x.mlir"), "invalid choice: 'rn' (did you mean run?)"),
        (("conform", "minihlo", "--level", "9"), "invalid choice: 9 (one of 1, 2, 3)"),
        (("run", "x.mlir", "--rounding", "neares"), "'neares' (did you mean nearest_even or nearest_away?)"),
        (("run", "x.mlir", "--target", "h10"), "got 'h10' (did you mean h100 or"),
        (("conform", "jx:cpu"), "got 'jx:cpu', and no module jx exists (did you mean jax?)"),
        (("conform", "minihlo", "--profile", "ocp-fp8-1"), "got ocp-fp8-1 (did you mean ocp-fp8-1.0?)"),
    ],
)
def test_a_wrong_name_comes_before_those_that_resemble_it(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert words in capsys.readouterr().err
