"""What must hold of the repository itself: imports run downward, lists are complete, generated text is current."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("ops/**/*.py"), *ROOT.glob("interp/**/*.py")])


def imported(path: Path) -> Iterator[str]:
    """The dotted names a file imports, relative ones made absolute under `ops` and `interp`."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(package[: len(package) - node.level + 1]) if node.level else []
            base += [node.module] if node.module else []
            yield ".".join(base)
            yield from (".".join([*base, a.name]) for a in node.names)


@pytest.mark.parametrize("path", [p for p in SOURCES if "ops" in p.relative_to(ROOT).parts], ids=lambda p: p.name)
def test_ops_know_nothing_of_mlir_jax_and_the_interpreter(path: Path) -> None:
    forbidden = ("interp", "minihlo.interp", "jax", "jaxlib")
    assert not [name for name in imported(path) if name.split(".")[0] in forbidden or name.startswith("minihlo.interp")]


def test_every_package_is_distributed() -> None:
    """setup.py finds them by their `__init__.py`; tests of the wheel hold the rest."""
    assert not [p for p in SOURCES if not (p.parent / "__init__.py").exists()]


def test_every_file_says_what_it_is_for() -> None:
    files = [p for p in SOURCES + sorted(ROOT.glob("tests/**/*.py")) if p.read_text().strip()]
    assert not [p.name for p in files if not ast.get_docstring(ast.parse(p.read_text()))]


@pytest.mark.exhaustive
def test_generated_tables_are_current() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tools.generate", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, f"run `make generate`\n{result.stderr}"


def test_readme_names_only_files_that_exist() -> None:
    named = re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text())
    assert named
    assert not [n for n in named if not (ROOT / n).exists()]


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
