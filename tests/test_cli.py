"""The command line, in child processes: what it prints, its exit status, and how it tells mistakes."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import cli

from .processes import started

ADD = """\
func.func @main(%a: tensor<4xf8E4M3FN>, %b: tensor<4xf8E4M3FN>) -> (tensor<4xf8E4M3FN>, tensor<4xi1>) {
  %0 = stablehlo.add %a, %b : tensor<4xf8E4M3FN>
  %1 = stablehlo.compare LT, %a, %b : (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>) -> tensor<4xi1>
  return %0, %1 : tensor<4xf8E4M3FN>, tensor<4xi1>
}
"""
#: Three programs: one without a function, one whose check holds, one whose check, on line 13, does not.
CHECKS = """\
// a comment
// -----
func.func @main() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  check.expect_eq_const %0, dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  return
}

// -----

func.func @other() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E4M3FN>
  check.expect_eq_const %0, dense<[1.0, 3.0]> : tensor<2xf8E4M3FN>
  return
}
"""
FOREVER = """\
func.func @main() -> tensor<i1> {
  %0 = stablehlo.constant dense<true> : tensor<i1>
  %1 = stablehlo.while(%x = %0) : tensor<i1>
    cond { stablehlo.return %x : tensor<i1> }
    do { stablehlo.return %x : tensor<i1> }
  return %1 : tensor<i1>
}
"""
INPUTS = ("--input", "4xf8E4M3FN=1,2,3,448", "--input", "4xf8E4M3FN=1,1,4,448")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "minihlo.interp.cli", *arguments]


def minihlo(*arguments: str, stdin: str | bytes = b"", cwd: Path | None = None) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a process."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(command(*arguments), input=data, capture_output=True, cwd=cwd, timeout=180)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def in_process(*arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """The same without a process of its own, which takes a twentieth of the time."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(cli, "run_isolated", lambda run, _: run())
        if cwd:
            patch.chdir(cwd)
        code = cli.main(arguments)
    return code, out.getvalue(), err.getvalue()


def refused(code: int, out: str, err: str, status: int = 2) -> str:
    """The one line on standard error of a command that is bad input and prints nothing else."""
    assert (code, out) == (status, ""), err
    assert err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip("\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "add.mlir").write_text(ADD)
    (tmp_path / "checks.mlir").write_text(CHECKS)
    return tmp_path


# -- run --------------------------------------------------------------------------------------------------------------


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
    assert [json.loads(line).get("op") for line in out.splitlines()] == [
        "stablehlo.add",
        "stablehlo.compare",
        None,
        None,
    ]


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
        (("run", "add.mlir", "--inptu", "f32=1"), "unrecognized arguments: --inptu"),
        (("run",), "the following arguments are required: FILE"),
        ((), "the following arguments are required: COMMAND"),
        (("walk",), "invalid choice: 'walk'"),
        (("test", "no"), "no: No such file or directory"),
        (("test", "add.mlir", "-j", "0"), "argument -j"),
        (("formats", "f8E4M3FM"), "expected a format, got 'f8E4M3FM', did you mean f8E4M3FN?"),
        (("formats", "f64", "--codes"), "--codes: expected a format of at most 16 bits, got f64"),
        (("cast", "1", "f9"), "'f9' is not an element type"),
        (("cast", "one", "f8E4M3FN"), "expected a number, got 'one'"),
        (("cast", "500", "f32", "--from", "f8E4M3FN"), "expected a number from -448 to 448 for f8E4M3FN, got 500"),
        (("ops", "addd"), "expected an op, got 'addd', did you mean add?"),
    ],
)
def test_mistakes_are_told_in_one_line(arguments, message, folder: Path) -> None:
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
def test_bad_programs_are_told_with_their_place(source, message) -> None:
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


# -- test -------------------------------------------------------------------------------------------------------------


def test_failures_and_scores(folder: Path) -> None:
    code, out, err = minihlo("test", "checks.mlir", cwd=folder)
    lines = out.splitlines()
    assert (code, err) == (1, "")
    assert lines[0].startswith("checks.mlir:13:3: check.expect_eq_const: element [1]: ")
    assert [line.split() for line in lines if line.lstrip().startswith(". ")] == [[".", "1", "3", "2", "1"]]
    (folder / "checks.mlir").write_text(CHECKS.replace("3.0", "2.0"))
    code, out, _ = minihlo("test", "checks.mlir", "-j", "2", cwd=folder)
    assert code == 0
    assert "checks.mlir" not in out


def test_folders_are_searched_and_other_programs_go_on(folder: Path) -> None:
    deep = folder / "deep" / "er"
    deep.mkdir(parents=True)
    passing = CHECKS.split("// -----")[1]
    bad = "func.func @main() {\n  %0 = stablehlo.constant dense<1> : tensor<99xi32>\n  return %0\n}\n"
    (deep / "a.mlir").write_text("// -----".join([passing, bad, passing]))
    (deep / "b.mlir").write_bytes(b"\xff")
    (deep / "c.txt").write_text("not this one")
    (folder / "add.mlir").unlink()
    (folder / "checks.mlir").unlink()
    code, out, err = in_process("test", ".", "-j2", cwd=folder)
    failures = sorted(line for line in out.splitlines() if line.startswith("deep"))
    assert (code, err) == (1, "")
    assert [f.split(":")[0] for f in failures] == ["deep/er/a.mlir", "deep/er/b.mlir"]
    assert failures[0].startswith("deep/er/a.mlir:10:12: ")
    assert ["deep/er", "2", "4", "2", "2"] in [line.split() for line in out.splitlines()]


def test_a_worker_that_dies_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from minihlo.interp.commands import test as command

    # The second program ends its process, as a crash of the parser would.
    script = (
        "import json, os, sys\n"
        "for request in sys.stdin:\n"
        "    path, skip = json.loads(request)\n"
        "    for line in (1, 10, 20)[skip:]:\n"
        "        print(json.dumps(['start', line]), flush=True)\n"
        "        if line == 10: os.abort()\n"
        "        print(json.dumps(['done', None]), flush=True)\n"
        "    print(json.dumps(['end']), flush=True)\n"
    )
    started = subprocess.Popen
    monkeypatch.setattr(command.subprocess, "Popen", lambda _, **o: started([sys.executable, "-c", script], **o))
    outcomes = [o for found in command.run_files(["x.mlir", "y.mlir"], 1) for o in found]
    assert [(o.path, o.line, o.failure) for o in outcomes] == [
        (path, line, "the process died (SIGABRT)" if line == 10 else None)
        for path in ("x.mlir", "y.mlir")
        for line in (1, 10, 20)
    ]


# -- the tables -------------------------------------------------------------------------------------------------------


def test_formats() -> None:
    code, out, _ = in_process("formats")
    assert code == 0
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["f8E4M3FNUZ"])
    assert row[1:8] == ["float8_e4m3fnuz", "8", "1", "4", "3", "8", "240"]
    _, out, _ = in_process("formats", "f8E5M2")
    assert "57344" in out
    assert "0x7C" in out
    _, out, _ = in_process("formats", "f8E4M3FN", "--codes")
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == [f"0x{code:02X}" for code in range(256)]
    values = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(float)
    assert [str(float(line[2])) for line in lines] == [str(v) for v in values]
    assert lines[0x7E] == ["0x7E", "0.1111.110", "448"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "0.1 f8E4M3FN",
            "to f8E4M3FN 0x1D = 0.1015625|error +0.0015625 (+0.2 ULP)|below 0x1C = 0.09375|above 0x1E = 0.109375",
        ),
        ("-inf f8E5M2", "to f8E5M2 0xFC = -inf|below none|above 0xFB = -57344"),
        ("448 f8E4M3FN", "to f8E4M3FN 0x7E = 448|error 0|below 0x7D = 416|above none"),
        ("57344 f8E5M2", "to f8E5M2 0x7B = 57344|error 0|below 0x7A = 49152|above 0x7C = inf"),
        ("-0.0 f8E4M3FN", "to f8E4M3FN 0x80 = -0|error 0|below 0x81 = -0.001953125|above 0x01 = 0.001953125"),
        ("-0x1p-10 f8E4M3FNUZ", "to f8E4M3FNUZ 0x81 = -0.0009765625|error 0|below 0x82 = -0.001953125|above 0x00 = 0"),
        (
            "500 f8E4M3FN --overflow saturate",
            "to f8E4M3FN 0x7E = 448|error -52 (-1.62 ULP)|below 0x7D = 416|above none",
        ),
        ("nan f8E4M3FN", "to f8E4M3FN 0x7F = nan|below none|above none"),
        ("1 f8E8M0FNU", "to f8E8M0FNU 0x7F = 1|error 0|below 0x7E = 0.5|above 0x80 = 2"),
        ("300.7 i8", "to i8 127|error -173.7|below 126|above none"),
        ("9007199254740993 i64", "to i64 9007199254740993|error 0|below 9007199254740992|above 9007199254740994"),
        (
            "0x3DCCCCCD f8E8M0FNU --from f32 --rounding up",
            "from f32 0x3DCCCCCD = 0.1|to f8E8M0FNU 0x7C = 0.125|error +0.025 (+0.2 ULP)|"
            "below 0x7B = 0.0625|above 0x7D = 0.25",
        ),
        (
            "f8E4M3FNUZ=0x80 f4E2M1FN",  # what is open is as ml_dtypes has it
            "from f8E4M3FNUZ 0x80 = nan|to f4E2M1FN 0x0 = 0|below 0x9 = -0.5|above 0x1 = 0.5",
        ),
    ],
)
def test_cast(arguments, expected) -> None:
    code, out, _ = in_process("cast", *arguments.split())
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()] == expected.split("|")


def test_ops() -> None:
    code, out, _ = in_process("ops")
    assert code == 0
    row = next(line for line in out.splitlines() if line.split()[:1] == ["stablehlo.add"])
    assert "correctly rounded" in row
    _, out, _ = in_process("ops", "and")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines() if line and line.split()[0] in ("i8", "f32"))
    assert {k: v.strip() for k, v in lines.items()} == {"i8": "exact", "f32": "not supported"}


def test_help_and_version() -> None:
    code, out, _ = in_process("--version")
    assert code == 0
    assert out.startswith("minihlo ")
    for arguments in (("--help",), ("run", "--help"), ("cast", "--help")):
        code, out, _ = in_process(*arguments)
        assert code == 0
        assert "usage: minihlo" in out


def test_a_closed_pipe_is_no_error() -> None:
    with started(command("formats", "f16", "--codes")) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=90) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
