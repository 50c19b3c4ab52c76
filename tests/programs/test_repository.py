"""What must hold of the repository itself: imports run downward, lists are complete, generated text is current."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("ops/**/*.py"), *ROOT.glob("interp/**/*.py")])


def test_ops_know_nothing_of_mlir_and_jax() -> None:
    """Nor of the interpreter, which test_layers holds."""
    pattern = re.compile(r"^\s*(from|import) jax", re.MULTILINE)
    assert not [str(p) for p in ROOT.glob("ops/**/*.py") if pattern.search(p.read_text())]


def test_every_file_says_what_it_is_for() -> None:
    files = [p for p in SOURCES + sorted(ROOT.glob("tests/**/*.py")) if p.read_text().strip()]
    assert not [p.name for p in files if not ast.get_docstring(ast.parse(p.read_text()))]


@pytest.mark.exhaustive
def test_generated_tables_are_current() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tools.generate", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"run `make generate`\n{result.stderr}"


def test_command_line_starts_without_jax() -> None:
    command = [sys.executable, "-c", "import sys; from minihlo.interp.cli import main; sys.exit(main())"]
    program = ROOT / "examples" / "fnuz_dot.mlir"
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    result = subprocess.run([*command, "run", str(program)], capture_output=True, text=True, env=environment)
    imports = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert "1.280000e+03" in result.stdout
    assert "minihlo.interp.machine" in imports
    assert not {"jax", "rich", "mpmath"} & imports


def test_no_module_inspects_code_objects() -> None:
    assert not [str(p) for p in SOURCES if re.search(r"\.__code__\.|\bCodeType\b|co_varnames", p.read_text())]
