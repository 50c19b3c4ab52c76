"""What was fused into what, and the Python that a program becomes; and optimizations turned off by option."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.compile import explain
from minihlo.ops.engine.speed import Speed

TEXT = """func.func @main(%x: tensor<8xf8E4M3FN>, %y: tensor<8xf32>) -> (tensor<8xf8E4M3FN>, tensor<8xf32>) {
  %a = stablehlo.exponential %x : tensor<8xf8E4M3FN>
  %b = stablehlo.multiply %a, %x : tensor<8xf8E4M3FN>
  %c = stablehlo.add %y, %y : tensor<8xf32>
  %d = stablehlo.sqrt %c : tensor<8xf32>
  %e = stablehlo.reverse %d, dims = [0] : tensor<8xf32>
  return %b, %e : tensor<8xf8E4M3FN>, tensor<8xf32>
}
"""
TABLE = "table 1: table of 256 entries: one f8E4M3FN input, 8 elements; until then one block"
BLOCKS = "blocks 2: one block: one f32 input, 8 elements"
INPUTS = ("--input", "8xf8E4M3FN=1", "--input", "8xf32=2")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str], str]]:
    """Runs the command on the program: its exit status, the lines it prints, and what it says to standard error."""
    (tmp_path / "x.mlir").write_text(TEXT)
    monkeypatch.delenv("MINIHLO_WITHOUT", raising=False)

    def call(*arguments: str) -> tuple[int, list[str], str]:
        command = [sys.executable, "-m", "minihlo.interp.cli", "run", "x.mlir", *INPUTS, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines(), done.stderr

    return call


def groups(program: interp.LoadedProgram) -> dict[str, str]:
    return {place: part.group for place, part in explain.groups(program.plan()).items()}


def test_groups_are_known_by_place() -> None:
    found = groups(interp.load(TEXT))
    places: dict[str, str] = {
        f"<string>:{line}:8": group
        for line, group in ((2, "table 1"), (3, "table 1"), (4, "blocks 2"), (5, "blocks 2"))
    }
    assert found == places
    assert groups(interp.load(TEXT, without="blocks")) == {p: g for p, g in places.items() if "t" in g}
    assert groups(interp.load(TEXT, without="tables, blocks")) == {}


def test_trace_names_the_groups(run) -> None:
    code, out, _ = run("--trace")
    assert code == 0
    assert [line for line in out if line.startswith("x.mlir")] == [
        f"x.mlir:2:8: stablehlo.exponential ({TABLE})",
        f"x.mlir:3:8: stablehlo.multiply ({TABLE})",
        f"x.mlir:4:8: stablehlo.add ({BLOCKS})",
        f"x.mlir:5:8: stablehlo.sqrt ({BLOCKS})",
        "x.mlir:6:8: stablehlo.reverse",
    ]
    _, out, _ = run("--trace", "--format", "json", "--without", "blocks")
    told = [json.loads(line) for line in out[:5]]
    assert [line.get("group") for line in told] == ["table 1", "table 1", None, None, None]
    assert [line.get("reason") for line in told] == [TABLE.partition(": ")[2]] * 2 + [None] * 3


def test_the_generated_python_is_printed(run) -> None:
    code, out, _ = run("--print-plan")
    assert code == 0
    text = "\n".join(out)
    assert text.index("# blocks") < text.index("# table") < text.index("# @main") < text.index("tensor<8xf8E4M3FN> {")
    exponential = next(line for line in out if "stablehlo.exponential" in line)
    assert exponential.endswith("  # x.mlir:2:8: stablehlo.exponential")
    assert exponential.lstrip().startswith("v1 = k0(v0)")


def test_a_plan_s_listing_is_python() -> None:
    for name in ("", "tables", "scalars,blocks"):
        compile(explain.listing(interp.load(TEXT, without=name).plan()), "listing", "exec")


def test_results_are_the_same_without(run) -> None:
    wanted = run()
    for names in ("tables", "blocks,scalars", "compiled,heap,threads"):
        assert run("--without", names) == wanted


def test_load_takes_what_to_go_without() -> None:
    program = interp.load(TEXT, without="blocks,threads")
    assert program.plan().speed == Speed(blocks=False, threads=1)
    x = np.ones(8, interp.cast([0], "f8E4M3FN").dtype), np.ones(8, np.float32)
    assert [r.tobytes() for r in program(*x)] == [r.tobytes() for r in interp.load(TEXT)(*x)]


def test_unknown_names_are_told_in_one_line(run) -> None:
    names = r"tables, blocks, turns, scalars, compiled, heap, threads"
    with pytest.raises(interp.InputError, match=rf"^without: expected an optimization \({names}\), got 'brakes'$"):
        interp.load(TEXT, without="tables,brakes")
    code, out, err = run("--without", "brakes")
    assert (code, out) == (2, [])
    assert err == f"--without: expected an optimization ({names}), got 'brakes'\n"
