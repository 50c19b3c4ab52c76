"""Checks the distributions: `python -m tools.distribution FOLDER` of a wheel and a source distribution.

The wheel has to hold every file of the packages and nothing else, the source distribution every file of the checkout,
and tests unpacked from the one have to pass on what the other installs. Exit status 1 where that does not hold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The folders that are packages, and the names they get.
PACKAGES = {
    "interp": "minihlo/interp",
    "ops": "minihlo/ops",
    "mlir_tests": "minihlo/mlir_tests",
    "profiles": "minihlo/profiles",
}
#: Those that hold data alone, with the names of their files.
_DATA = {"mlir_tests": ".mlir", "profiles": ".toml"}
#: Tests of the command line, its children and the files they read. The rest is as in a checkout.
TESTS = ["tests/programs/test_cli.py", "mlir_tests/interpret_abs.mlir"]
#: Folders that tools make in a checkout.
_MADE = re.compile(r"__pycache__|build|dist|\.git|\.venv.*|.*_cache|\.hypothesis|.*\.egg-info")


def files(root: Path = ROOT) -> set[str]:
    """The files of a checkout, without generated ones."""
    result = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not _MADE.fullmatch(f)]
        result |= {Path(folder, name).relative_to(root).as_posix() for name in names}
    return {f for f in result if f not in (".git", ".gitignore")}


def in_packages(names: Iterable[str]) -> set[str]:
    """The installed files of a checkout, by their path in a wheel."""
    result = set()
    for name in names:
        top, _, rest = name.partition("/")
        if top in PACKAGES and rest and rest.endswith(_DATA.get(top, "")):
            result.add(f"{PACKAGES[top]}/{rest}")
    return result


def differences(what: str, result: set[str], wanted: set[str]) -> list[str]:
    """A line for each file too many or missing."""
    lines = [f"{what} has no {name}" for name in sorted(wanted - result)]
    return lines + [f"{what} has {name}" for name in sorted(result - wanted)]


def check_wheel(wheel: Path) -> list[str]:
    result = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    return differences(wheel.name, result, in_packages(files()))


def check_source(source: Path) -> list[str]:
    with tarfile.open(source) as archive:
        result = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    made = {"PKG-INFO", "setup.cfg"} | {name for name in result if ".egg-info/" in name}
    return differences(source.name, result - made, files())


def check_tests(source: Path, wheel: Path) -> list[str]:
    """Runs tests of the source distribution on the wheel."""
    with tempfile.TemporaryDirectory(prefix="minihlo-distribution-") as name:
        with tarfile.open(source) as archive:
            archive.extractall(name, filter="data")
        installed = Path(name, "installed")
        zipfile.ZipFile(wheel).extractall(installed)
        # What is found first is what is installed from the wheel; the checkout may be installed beside it.
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        (folder,) = Path(name).glob("minihlo-*")
        for folder_of_package in PACKAGES:
            if folder_of_package not in _DATA:
                (folder / folder_of_package).rename(folder / f"{folder_of_package}-hidden")
        command = [sys.executable, "-m", "pytest", *TESTS]
        status = subprocess.run(command, cwd=folder, env=environment).returncode
        where = "import minihlo.interp.cli as c; print(c.__file__)"
        reported = subprocess.check_output([sys.executable, "-P", "-c", where], env=environment, cwd=folder, text=True)
    lines = [] if reported.startswith(str(installed)) else [f"the tests ran on {reported.strip()}"]
    return lines + ([f"the tests of {source.name} end with status {status}"] if status else [])


def main(folder: str) -> int:
    (wheel,), (source,) = Path(folder).glob("*.whl"), Path(folder).glob("*.tar.gz")
    lines = check_wheel(wheel) + check_source(source) or check_tests(source, wheel)
    print("\n".join(lines) or f"{wheel.name} and {source.name} hold what they should, and tests pass on them")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
