"""A wheel has every file of the packages, and what is installed from it asks what the checkout asks."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import distribution

ROOT = Path(__file__).parents[2]
_LIST = """
import sys
from pathlib import Path
import minihlo
minihlo.__path__ = [str(Path(sys.argv[1]) / "minihlo")]  # and not the checkout, which may be installed beside it
from minihlo.interp.conform.cases import cases, forms; from minihlo.interp.conform import run, tests
assert cases.__file__.startswith(sys.argv[1]), cases.__file__
for level in (1, 3):
    for case in run.Choice().cases(level):
        print(level, case.signature, *forms.forms(case, level))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel, built from a copy of the sources, is unpacked to."""
    pytest.importorskip("pip")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("interp", "ops", "mlir_tests", "profiles"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    words = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", str(target), str(source)]
    built = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = target.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(target)
    return target


def listed(folder: Path, where: Path) -> str:
    command = [sys.executable, "-B", "-P", "-c", _LIST, str(folder)]  # and its byte code is not kept there
    result = subprocess.run(command, capture_output=True, text=True, cwd=where)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_wheel_has_the_cases_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    from minihlo.interp.conform import run
    from minihlo.interp.conform.cases import forms

    here = [
        " ".join([str(level), case.signature, *forms.forms(case, level)])
        for level in (1, 3)
        for case in run.Choice().cases(level)
    ]
    there = listed(installed, tmp_path).splitlines()
    assert any("chlo_next_after" in line for line in here)
    assert there == here


def test_the_wheel_has_every_file_of_the_packages(installed: Path) -> None:
    there = {p.relative_to(installed).as_posix() for p in installed.glob("minihlo/**/*") if p.is_file()}
    assert "minihlo/interp/py.typed" in there
    assert not distribution.differences("the wheel", there, distribution.in_packages(distribution.files()))


def test_distribution_differences() -> None:
    wanted = distribution.in_packages(
        {"ops/a.py", "interp/conform/b.css", "mlir_tests/c.mlir", "tests/d.py", "setup.py"}
    )
    assert wanted == {"minihlo/ops/a.py", "minihlo/interp/conform/b.css", "minihlo/mlir_tests/c.mlir"}
    found = (wanted - {"minihlo/ops/a.py"}) | {"minihlo/tests/d.py"}
    assert distribution.differences("x", found, wanted) == ["x has no minihlo/ops/a.py", "x has minihlo/tests/d.py"]
