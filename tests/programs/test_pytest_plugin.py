"""The pytest plugin: which .mlir files it collects, how tests are named, and what a failure tells."""

import subprocess
import sys
from pathlib import Path

import pytest

from minihlo.interp.testing import coverage
from minihlo.interp.testing.chunks import chunks, has_checks

from ..thinned import thinned

CHECKED = """// @not_a_function is in a comment, as is func.func @neither()
func.func @first_f8E4M3FN() {
  %a = stablehlo.constant dense<[0x7E, 0x38]> : tensor<2xui8>
  %x = stablehlo.bitcast_convert %a : (tensor<2xui8>) -> tensor<2xf8E4M3FN>
  %y = stablehlo.constant dense<[1.0, 32.0]> : tensor<2xf8E4M3FN>
  %r = stablehlo.add %x, %y : tensor<2xf8E4M3FN>
  %c = stablehlo.bitcast_convert %r : (tensor<2xf8E4M3FN>) -> tensor<2xui8>
  check.expect_eq_const %c, dense<[0x7E, SECOND]> : tensor<2xui8>
  return
}
// -----
func.func private @helper(%x: tensor<f4E2M1FN>) -> tensor<f4E2M1FN> {
  return %x : tensor<f4E2M1FN>
}
func.func @main() {
  %0 = stablehlo.constant dense<1.5> : tensor<f4E2M1FN>
  %1 = call @helper(%0) : (tensor<f4E2M1FN>) -> tensor<f4E2M1FN>
  check.expect_eq_const %1, dense<1.5> : tensor<f4E2M1FN>
  check.expect_eq %1, %0 : tensor<f4E2M1FN>
  return
}
// -----
func.func @main() {
  %0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
  check.expect_eq_const %0, dense<(1.0, 2.0)> : tensor<complex<f32>>
  return
}
"""


BACKENDS = ["minihlo", pytest.param("minihlo:upcast", marks=pytest.mark.exhaustive), "jax:cpu", "reference"]


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", "-q", *arguments]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def write(path: Path, second: str = "0x60") -> None:
    path.write_text(CHECKED.replace("SECOND", second))


def test_functions_are_tests(tmp_path: Path) -> None:
    write(tmp_path / "a.mlir")
    actual = chunks(tmp_path / "a.mlir")
    assert [(c.function, c.line, c.function_line) for c in actual] == [
        ("first_f8E4M3FN", 1, 2),
        ("main", 11, 15),
        ("main", 22, 23),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("check.expect_eq %a, %a", True), ('"check.expect_close"(%a)', True), ("// check.expect_eq", False), ("x", False)],
)
def test_what_has_checks(text: str, expected: bool) -> None:
    assert has_checks(text) is expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_tests_pass_on_every_backend(tmp_path: Path, backend: str) -> None:
    write(tmp_path / "a.mlir")
    code, reported = run(tmp_path, "-vv", ".", f"--minihlo-backend={backend}")
    assert code == 0, reported
    for name in ("first_f8E4M3FN", "main", "main-2"):
        assert f"a.mlir::{name} PASSED" in reported


#: 1 + 32 is 33, which rounds to 32 = 0x60.
@pytest.mark.parametrize("backend", thinned(["minihlo", "jax:cpu", "reference"], lambda b: b != "jax:cpu"))
def test_a_failure_tells_all(tmp_path: Path, backend: str) -> None:
    folder = tmp_path / "deeper"
    folder.mkdir()
    write(folder / "a.mlir", "0x61")
    code, reported = run(tmp_path, "deeper", f"--minihlo-backend={backend}")
    assert code == 1
    option = f" --minihlo-backend={backend}" if backend != "minihlo" else ""
    alone = f"deeper/a.mlir::first_f8E4M3FN{option}"
    for line in (
        f"deeper/a.mlir:8:3: check.expect_eq_const does not hold on {backend}: 1 of 2 elements differs",
        "  [1] stablehlo.add(0x38 = 1 : f8E4M3FN, 0x60 = 32 : f8E4M3FN)",
        "    expected 0x61 = 36 : f8E4M3FN",
        "    actual   0x60 = 32 : f8E4M3FN",
        "  line 8: check.expect_eq_const %c, dense<[0x7E, 0x61]> : tensor<2xui8>",
        f"run this case alone: pytest {alone}",
    ):
        assert line in reported.splitlines()
    assert "Traceback" not in reported
    assert "1 failed, 2 passed" in reported
    if option:  # the line has it too
        code, reported = run(tmp_path, *alone.split())
        assert code == 1
        assert "1 failed in" in reported


def test_bad_files_are_reported_in_a_line(tmp_path: Path) -> None:
    bad = """func.func @takes(%x: tensor<2xf32>) {
  check.expect_eq %x, %x : tensor<2xf32>
  return
}
// -----
func.func @unknown() {
  %0 = "stablehlo.nothing"() : () -> tensor<f32>
  check.expect_eq %0, %0 : tensor<f32>
  return
}
// -----
func.func @syntax() {
  check.expect_eq_const %0 : tensor<f32>
"""
    (tmp_path / "bad.mlir").write_text(bad)
    code, reported = run(tmp_path, "bad.mlir")
    assert code == 1
    assert "bad.mlir:1:1: @takes: expected a test without inputs, got one that takes tensor<2xf32>" in reported
    assert "bad.mlir:7:" in reported
    assert "bad.mlir:13:" in reported
    assert "Traceback" not in reported
    assert "3 failed" in reported


def test_what_a_backend_does_not_support_is_skipped(tmp_path: Path) -> None:
    """The reference interpreter aborts on CHLO and says why; the process that dies is not this one."""
    test = """func.func @NAME() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E5M2>
  %1 = DIALECT.OP %0 : tensor<2xf8E5M2>
  check.expect_eq_const %1, dense<[-1.0, -2.0]> : tensor<2xf8E5M2>
  return
}
"""
    chlo = "chlo.conj %0 : tensor<2xf8E5M2> -> tensor<2xf8E5M2>\n  %1 = stablehlo.negate %2"
    dies = test.replace("NAME", "dies").replace("%1 = DIALECT.OP %0", f"%2 = {chlo}")
    runs = test.replace("NAME", "runs").replace("DIALECT.OP", "stablehlo.negate")
    (tmp_path / "a.mlir").write_text(f"{dies}// -----\n{runs}")
    code, reported = run(tmp_path, ".", "-rs", "--minihlo-backend=reference")
    assert code == 0
    assert "1 passed, 1 skipped" in reported
    assert "reference died (SIGABRT): LLVM ERROR: Unsupported op: " in reported
    assert run(tmp_path, ".")[0] == 0


def test_a_backend_that_dies_fails_one_test(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(
        "import os\n"
        "from minihlo.interp import backends\n"
        "def dies(text, arrays):\n"
        "    if 'negate' in text:\n"
        "        os.abort()\n"
        "    return backends.backend('minihlo').evaluate(text, arrays)\n"
    )
    test = """func.func @NAME() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf8E5M2>
  %1 = stablehlo.OP %0 : tensor<2xf8E5M2>
  check.expect_eq_const %1, dense<[VALUES]> : tensor<2xf8E5M2>
  return
}
"""
    dies = test.replace("NAME", "dies").replace("OP", "negate").replace("VALUES", "-1.0, -2.0")
    runs = test.replace("NAME", "runs").replace("OP", "abs").replace("VALUES", "1.0, 2.0")
    (tmp_path / "a.mlir").write_text(f"{dies}// -----\n{runs}")
    code, reported = run(tmp_path, ".", "--minihlo-backend=dying:dies")
    assert code == 1
    assert "1 failed, 1 passed" in reported
    assert "SIGABRT" in reported


def test_only_files_with_checks_are_collected_in_folders(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text("def test_a(): pass\n")
    (tmp_path / "plain.mlir").write_text("func.func @f() { return }\n")
    (tmp_path / "other.mlir").write_bytes(b"module { llvm.func @f() }\xff")
    code, reported = run(tmp_path, ".")
    assert code == 0
    assert "1 passed" in reported
    assert "1 passed" in run(tmp_path, "plain.mlir")[1]
    code, reported = run(tmp_path, "other.mlir")
    assert code != 0
    assert "other.mlir: expected text, got: " in reported


def test_folders_can_be_left_out(tmp_path: Path) -> None:
    write(tmp_path / "a.mlir")
    write(tmp_path / "interpret_a.mlir")
    (tmp_path / "pytest.ini").write_text("[pytest]\nminihlo_files = interpret_*.mlir\n")
    assert "3 passed" in run(tmp_path, ".")[1]
    (tmp_path / "pytest.ini").write_text("[pytest]\nminihlo_files =\n")
    assert "no tests ran" in run(tmp_path, ".")[1]


def test_wrong_backends_are_reported(tmp_path: Path) -> None:
    for name in ("nothing", "minihlo:upcast:f31"):
        code, reported = run(tmp_path, f"--minihlo-backend={name}")
        assert code == 4
        assert f", got '{name}'" in reported
    code, reported = run(tmp_path, "--minihlo-backend=ml_dtypes")
    assert (code, "expected a backend that runs programs, got ml_dtypes" in reported) == (4, True)


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_subset_is_counted_in_several_processes(processes: str) -> None:
    """Of a file that has every format, the functions of one."""
    root = Path(__file__).parents[2]
    command = ("mlir_tests/interpret_abs.mlir", "-k", "f8E5M2FNUZ", "-n", processes)
    code, reported = run(root, *command)
    assert code == 0, reported
    assert "minihlo: 2 functions in 1 file pass: " in reported
    assert " × 1 format, " in reported


def test_the_repositorys_files_are_complete() -> None:
    folder = Path(__file__).parents[2] / "mlir_tests"
    texts = [c.text for path in folder.glob("*.mlir") for c in chunks(path)]
    assert coverage.pairs_of(texts) == coverage.all_pairs()
    assert coverage.summary(3, 1, texts).endswith(": complete")
    assert {op for op, _ in coverage.all_pairs()} >= {"stablehlo.add", "chlo.acos", "stablehlo.all_reduce"}
    assert len({f for _, f in coverage.all_pairs()}) == 13


def test_the_plugin_costs_nothing_to_others() -> None:
    code = "import sys, minihlo.interp.pytest_plugin; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "jax", "jaxlib", "ml_dtypes", "minihlo.ops.types"} & set(loaded)
