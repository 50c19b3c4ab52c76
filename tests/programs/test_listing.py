"""Lists of plans: which operations are one lookup table; and settings that are turned off by option."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.listing import groups, listing
from minihlo.interp.settings import Settings, default_settings

from ..cli_cases import in_process

TEXT = """func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf32>) -> (tensor<8xf8E4M3FN>, tensor<8xf32>) {
  %a = stablehlo.exponential %x : tensor<8xf8E4M3FN>
  %b = stablehlo.multiply %a, %x : tensor<8xf8E4M3FN>
  %c = stablehlo.add %y, %y : tensor<8xf32>
  %d = stablehlo.sqrt %c : tensor<8xf32>
  return %b, %d : tensor<8xf8E4M3FN>, tensor<8xf32>
}
"""
REASON = "lookup table of 256 entries by f8E4M3FN, 8 elements"
INPUTS = ("--input", "8xf8E4M3FN=1", "--input", "8xf32=2")
NAMES = "tables, threads"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str], str]]:
    """Runs the command on the program: its exit status, the lines it prints, and its standard error."""
    (tmp_path / "x.mlir").write_text(TEXT)
    monkeypatch.delenv("MINIHLO_WITHOUT", raising=False)

    def call(*arguments: str) -> tuple[int, list[str], str]:
        code, out, err = in_process("run", "x.mlir", *INPUTS, *arguments, cwd=tmp_path)
        return code, out.splitlines(), err

    return call


def test_groups_by_place() -> None:
    found = groups(interp.load(TEXT).plan())
    assert {place: (part.group, part.reason) for place, part in found.items()} == {
        "<string>:2:8": ("table 1", REASON),
        "<string>:3:8": ("table 1", REASON),
    }
    assert groups(interp.load(TEXT, without="tables").plan()) == {}


def test_trace_names_the_groups(run) -> None:
    code, out, _ = run("--trace")
    assert code == 0
    assert [line for line in out if line.startswith("x.mlir")] == [
        f"x.mlir:2:8: stablehlo.exponential (table 1: {REASON})",
        f"x.mlir:3:8: stablehlo.multiply (table 1: {REASON})",
        "x.mlir:4:8: stablehlo.add",
        "x.mlir:5:8: stablehlo.sqrt",
    ]
    _, out, _ = run("--trace", "--format", "json")
    lines = [json.loads(line) for line in out[:4]]
    assert [line.get("group") for line in lines] == ["table 1", "table 1", None, None]
    assert [line.get("reason") for line in lines] == [REASON, REASON, None, None]


def test_the_plan_is_printed(run) -> None:
    code, out, _ = run("--print-plan")
    assert code == 0
    wanted = f"""@main:
  takes %0: tensor<8xf8E4M3FN>, %1: tensor<8xf32>
  %2 = minihlo.table %0 : tensor<8xf8E4M3FN>  # table 1: {REASON}  # x.mlir:3:8
    takes %3: tensor<f8E4M3FN>
    %4 = stablehlo.exponential %3 : tensor<f8E4M3FN>  # x.mlir:2:8
    %5 = stablehlo.multiply %4, %3 : tensor<f8E4M3FN>  # x.mlir:3:8
    returns %5
  %6 = stablehlo.add %1, %1 : tensor<8xf32>  # x.mlir:4:8
  %7 = stablehlo.sqrt %6 : tensor<8xf32>  # x.mlir:5:8
  returns %2, %7"""
    assert "\n".join(out).startswith(wanted)
    assert "minihlo.table" not in listing(interp.load(TEXT, without="tables").plan())


def test_load_takes_settings_to_go_without() -> None:
    program = interp.load(TEXT, without="tables,threads")
    assert program.plan().settings == Settings(tables=False, threads=1)
    x = np.ones(8, interp.cast([0], "f8E4M3FN").dtype), np.ones(8, np.float32)
    assert [r.tobytes() for r in program(*x)] == [r.tobytes() for r in interp.load(TEXT)(*x)]


def test_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIHLO_WITHOUT", "tables")
    assert default_settings() == Settings(tables=False)
    assert not groups(interp.load(TEXT).plan())
    monkeypatch.setenv("MINIHLO_WITHOUT", "tables,brakes")
    with pytest.raises(interp.InputError, match=r"^MINIHLO_WITHOUT: expected an optimization"):
        interp.load(TEXT).plan()


def test_unknown_settings(run) -> None:
    with pytest.raises(interp.InputError, match=rf"^without: expected an optimization \({NAMES}\), got 'brakes'$"):
        interp.load(TEXT, without="tables,brakes")
    code, out, err = run("--without", "brakes")
    assert (code, out) == (2, [])
    assert err == f"--without: expected an optimization ({NAMES}), got 'brakes'\n"
