"""`minihlo profile`: what it prints and writes, and its exit status."""

import json
from pathlib import Path

import pytest

from minihlo.interp.commands.profile import main as run
from minihlo.interp.errors import InputError, OutputError, ProgramError

from ..cli_cases import cli

PROGRAM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf8E5M2> {
  %0 = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    return tmp_path / "p.mlir"


def command(*arguments: str) -> int:
    """The command in this process, which `minihlo` runs in a child."""
    options = cli.command_parser().parse_args(["profile", *arguments])
    options.policy = None
    return run(options)


def test_the_worst_line_is_printed_first(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(file), "--input", "4xf32=[1e-7 1 2 1e9]") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(file)
    assert lines[2] == (
        f"1. {file}:3: 25 % of the f8E5M2 results of convert overflow, 25 % underflow to zero; "
        "a scale of 2^-15 would leave 25 %"  # 57344 / 1e9 is 2^-14.1, and 1e-7 is 2^-23.3
    )
    assert lines[5].split()[:5] == ["p.mlir:3", "convert", "f8E5M2", "4", "25"]


def test_json_and_html_are_written(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    j, h = tmp_path / "p.json", tmp_path / "p.html"
    assert command(str(file), "--input", "4xf32=1", "--json", str(j), "--html", str(h), "--blocks", "nvfp4") == 0
    assert json.loads(j.read_text())["tensors"][1]["blocks"][0]["format"] == "nvfp4"
    assert "p.mlir, line 3" in h.read_text()
    capsys.readouterr()
    assert command(str(file), "--input", "4xf32=1", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["tensors"][1]["elements"] == 4


def test_without_inputs_a_sample_is_run(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(str(file), "--seed", "3", "--all") == 0
    assert capsys.readouterr().out.startswith(f"{file}: ordinary numbers (--seed 3)\n")


def test_bad_input_is_refused_in_one_line(file: Path, tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(f"{PROGRAM}\n// -----\n{PROGRAM}")
    for arguments, kind, words in (
        (["nowhere.mlir"], ProgramError, "nowhere.mlir: No such file"),
        ([str(file), "--input", "3xf32=1"], InputError, "input 0"),
        ([str(file), "--blocks", "mxfp9"], InputError, "got 'mxfp9' \\(did you mean mxfp8_e4m3 or"),
        ([str(file), "--function", "f"], InputError, "no function @f"),
        ([str(file), "--html", "/nowhere/x"], OutputError, "--html: /nowhere/x: No such file"),
        ([str(tmp_path / "two.mlir"), "--json", "x"], InputError, "expected one program for --json"),
    ):
        with pytest.raises(kind, match=words):
            command(*arguments)


def test_the_command_is_registered(file: Path) -> None:
    assert cli.main(["profile", str(file.parent / "none.mlir")]) == 2
