"""`minihlo diff`: its exit status, what it prints and writes. Backends are this interpreter, with a fault or not."""

import json
from pathlib import Path

import numpy as np
import pytest

from ..cli_cases import in_process, minihlo

PROGRAM = """
func.func @main(%x: tensor<4xf8E4M3FN>, %y: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
  %0 = stablehlo.add %x, %y : tensor<4xf8E4M3FN>
  %1 = stablehlo.exponential %0 : tensor<4xf8E4M3FN>
  return %1 : tensor<4xf8E4M3FN>
}
"""
#: A backend whose exponential is one code too large, and one that dies of it.
FAULTY = """
import os
from minihlo import interp
from minihlo.interp.backends import Minihlo

def evaluate(text, arrays):
    results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
    return [r + r.dtype.type(1) for r in results] if "exponential" in text else results

def dying(text, arrays):
    if "exponential" in text:
        os.abort()
    return Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
"""
X, Y = "4xf8E4M3FN=[0x38 0x40 0x00 0x7E]", "4xf8E4M3FN=1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "p.mlir").write_text(PROGRAM)
    (tmp_path / "faulty.py").write_text(FAULTY)
    return tmp_path


def diff(folder: Path, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
    """Exit status, standard output and standard error; a process of its own imports backends from its folder."""
    run = minihlo if stdin or any("faulty" in a for a in arguments) else in_process
    return run("diff", *arguments, cwd=folder, **({"stdin": stdin} if stdin else {}))


def test_a_backend_that_is_right(folder: Path) -> None:
    for how in ("op", "program"):
        code, out, err = diff(folder, "p.mlir", "minihlo", "--input", X, "--input", Y, "--how", how)
        assert (code, err) == (0, "")
        assert out.endswith("2 ops: 2 PASS\n\n")


def test_a_backend_that_is_wrong_in_one_op(folder: Path) -> None:
    options = ("--input", X, "--input", Y, "--json", "found.json", "--save", "saved")
    code, out, err = diff(folder, "p.mlir", "faulty:evaluate", *options)
    assert (code, err) == (1, "")
    assert out.startswith(
        "faulty:evaluate, each op by itself, on the operands that the backend has computed\n2 ops: 1 P"
    )
    assert "\nFAIL  p.mlir:4:8: %1 = stablehlo.exponential %0 : tensor<4xf8E4M3FN>\n" in out
    assert "\n  4 of 4 elements differ: 3 by 1 ULP, 1 by no number of ULP\n" in out  # after NaN comes -0
    (actual,) = json.loads((folder / "found.json").read_text())
    assert [o["verdict"] for o in actual["ops"]] == ["PASS", "FAIL"]
    assert actual["ops"][1]["location"] == "p.mlir:4:8"
    (saved,) = (folder / "saved").iterdir()
    assert saved.name == "1-0-exponential"
    # What it says reproduces the fault does so, and so does what it has saved.
    command = next(line for line in out.splitlines() if "to reproduce it: " in line)
    inputs = [part.removesuffix("'") for part in command.split("--input '")[1:]]
    given = [x for i in inputs for x in ("--input", i.strip().removesuffix("'"))]
    assert diff(saved, "op.mlir", "faulty:evaluate", *given)[0] == 2  # there is no such module there
    (saved / "faulty.py").write_text(FAULTY)
    assert diff(saved, "op.mlir", "faulty:evaluate", *given)[0] == 1
    assert diff(saved, "op.mlir", "minihlo", *given)[0] == 0
    assert diff(saved, "op.mlir", "faulty:evaluate", "--input", "@input0.npy")[0] == 1


def test_a_backend_that_dies(folder: Path) -> None:
    code, out, _ = diff(folder, "p.mlir", "faulty:dying", "--input", X, "--input", Y)
    assert code == 1
    assert "\nCRASH  p.mlir:4:8: " in out
    assert "SIGABRT" in out


def test_samples_are_seeded(folder: Path) -> None:
    actual = [diff(folder, "p.mlir", "minihlo", "--seed", seed) for seed in ("3", "3", "4")]
    assert actual[0] == actual[1]
    assert actual[0][1].startswith("p.mlir: ordinary numbers (--seed 3)\nminihlo, each op by itself")
    assert "\np.mlir: codes of every kind (--seed 3)\n" in actual[0][1]


def test_standard_input_several_programs_and_policies(folder: Path) -> None:
    twice = f"{PROGRAM}\n// -----\n{PROGRAM}".replace("4x", "3x")
    code, out, _ = diff(folder, "-", "minihlo", "--input", "3xf8E4M3FN=1", "--input", "3xf8E4M3FN=2", stdin=twice)
    assert code == 0
    assert out.count("2 ops: 2 PASS") == 2
    options = ("--input", X, "--input", Y, "--rounding", "up")
    code, out, _ = diff(folder, "p.mlir", "minihlo", *options)  # which rounds to nearest
    assert code == 1
    assert "FAIL  p.mlir:3:8" in out


def test_a_platform_of_jax_and_the_reference(folder: Path) -> None:
    for name in ("cpu", "jax:cpu", "reference"):
        code, out, err = diff(folder, "p.mlir", name, "--input", X, "--input", Y)
        assert (code, err) == (0, ""), out
        assert f"{name if name == 'reference' else 'jax:cpu'}, each op" in out


def test_mistakes_are_reported_in_one_line(folder: Path) -> None:
    (folder / "any.mlir").write_text(
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }"
    )
    np.save(folder / "x.npy", np.zeros(2, np.float32))
    for arguments, message in (
        (("p.mlir", "nothing:else"), "expected a backend, got 'nothing:else'"),
        (("p.mlir", "ml_dtypes", "--input", X, "--input", Y, "--how", "program"), "ml_dtypes takes single operations"),
        (("absent.mlir", "minihlo"), "absent.mlir: No such file or directory"),
        (
            ("p.mlir", "minihlo", "--input", X),
            "@main: expected 2 inputs (tensor<4xf8E4M3FN>, tensor<4xf8E4M3FN>), got 1",
        ),
        (("p.mlir", "minihlo", "--input", X, "--input", "@x.npy"), "input 1: expected f8E4M3FN, got f32"),
        (("p.mlir", "minihlo", "--function", "f"), "no function @f"),
        (("any.mlir", "minihlo"), "any.mlir: @main: expected an --input of type tensor<?xf32>, got none"),
        (("p.mlir", "minihlo", "--iterations", "0"), "--iterations"),
        (("p.mlir", "minihlo", "--json", "no/such/folder.json"), "--json: no/such/folder.json"),
    ):
        code, _, err = diff(folder, *arguments)
        assert (code, err.count("\n")) == (74 if "--json" in arguments else 2, 1), (arguments, err)
        assert message in err
