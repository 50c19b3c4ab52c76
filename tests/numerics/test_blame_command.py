"""`minihlo blame`: its exit status, what it prints and writes."""

import json
from pathlib import Path

import pytest

from minihlo.interp.cli import main

PROGRAM = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = stablehlo.sine %x : tensor<4xf32>
  %b = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
  %c = stablehlo.convert %b : (tensor<4xf8E4M3FN>) -> tensor<4xf32>
  %d = stablehlo.exponential %c : tensor<4xf32>
  return %d : tensor<4xf32>
}
"""
FAULTY = """
from minihlo import interp
from minihlo.interp.backends import Minihlo

def evaluate(text, arrays):
    results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
    wrong = "exponential" in text or "sine" in text
    return [r + r.dtype.type(1) for r in results] if wrong else results
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    (tmp_path / "faulty.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    return "p.mlir"


def test_a_faulty_backend(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", program, "faulty:evaluate", "--input", "4xf32=1,2,3,0.5", "--json", "r.json"]) == 1
    printed = capfd.readouterr().out
    assert "1 operation explains 100 % of it" in printed
    assert "p.mlir:5:8: stablehlo.exponential" in printed
    (data,) = json.loads(Path("r.json").read_text())
    assert [o["op"] for o in data["ranking"]] == ["stablehlo.exponential", "stablehlo.sine"]
    assert [o["says"] for o in data["ranking"]] == ["explains the difference", "differs, contributes nothing"]
    assert data["explains"] == [0]
    assert data["total"]["not_finite"] == 0


def test_ways_that_need_no_backend(program: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", program, "--target", "h100", "--target", "b200"]) == 0
    assert "ordinary numbers (--seed 0)" in capfd.readouterr().out
    assert main(["blame", program, "--good", "f32", "--bad", "exact", "--measure", "ulp", "--json", "-"]) == 1
    printed = capfd.readouterr().out
    assert "p.mlir:3:8: stablehlo.convert" in printed
    assert json.loads(printed[printed.index("[\n") :])[0]["measure"] == "ulp"
    assert main(["blame", program, "minihlo:rounding=toward_zero", "--input", "4xf32=1,2,3,4"]) == 1
    assert "convert" in capfd.readouterr().out


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["p.mlir"],
            "expected one bad way (BACKEND, --bad or a second --target) and at most one good way, got 0 and 0",
        ),
        (["p.mlir", "exact", "--bad", "f32"], "got 2 and 0"),
        (["p.mlir", "exact", "--good", "f32", "--target", "h100"], "got 1 and 2"),
        (["p.mlir", "nowhere:at_all"], "--bad: expected a backend"),
        (["p.mlir", "exact", "--good", "x y"], "--good: expected a backend"),
        (["p.mlir", "exact", "--measure", "loss"], "measure: expected an output that is a floating-point scalar"),
        (["p.mlir", "exact", "--share", "0"], "expected a number above 0 and up to 1, got '0'"),
        (["p.mlir", "exact", "--input", "3xf32=1"], "input 0"),
        (["p.mlir", "exact", "--function", "g"], "no function @g"),
        (["absent.mlir", "exact"], "absent.mlir: No such file or directory"),
        (["faulty.py", "exact"], "faulty.py"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["blame", *arguments]) == 2
    error = capfd.readouterr().err
    assert said in error
    assert error.count("\n") == 1
