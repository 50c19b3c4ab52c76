"""The pytest plugin: collects .mlir files, one test for each function, and runs them on `--minihlo-backend`.

A file that the command line names is always collected. A file in a folder is collected if its name matches the ini
option `minihlo_files` (default: `*.mlir`; empty: none) and it has a function and a check. Nothing is imported before.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .backends import Backend
    from .testing.chunks import Chunk

_BACKEND = pytest.StashKey["Backend"]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the ini options."""
    group = parser.getgroup("minihlo", "StableHLO programs in .mlir files (minihlo)")
    group.addoption(
        "--minihlo-backend",
        default="minihlo",
        metavar="NAME",
        help="the backend that runs .mlir files: minihlo, minihlo:upcast, jax:PLATFORM, reference, iree:llvm-cpu, "
        "pjrt:PLUGIN.so, exec:COMMAND or MODULE:NAME (default: minihlo)",
    )
    parser.addini(
        "minihlo_files", "patterns of the names of .mlir files that are tests, if they have checks", "args", ["*.mlir"]
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> MlirFile | None:
    """Collect `.mlir` files whose names match."""
    if file_path.suffix != ".mlir":
        return None
    if not parent.session.isinitpath(file_path):
        patterns = parent.config.getini("minihlo_files")
        if not any(fnmatch.fnmatch(file_path.name, p) for p in patterns) or not _is_test(file_path):
            return None
    return MlirFile.from_parent(parent, path=file_path)


def pytest_configure(config: pytest.Config) -> None:
    """Report a wrong name of a backend before anything runs."""
    if config.getoption("--minihlo-backend") != "minihlo":
        _backend(config)  # a wrong name is reported before anything runs


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the process of the backend."""
    backend = config.stash.get(_BACKEND, None)
    if backend is not None:
        backend.close()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the coverage of the functions that pass. (Their reports can come from other processes.)"""
    passed: dict[Path, set[str]] = {}
    for report in terminalreporter.stats.get("passed", ()):
        file, _, name = report.nodeid.partition("::")
        if file.endswith(".mlir"):
            passed.setdefault(config.rootpath / file, set()).add(name)
    if not passed:
        return
    from .testing.chunks import chunks
    from .testing.coverage import summary

    texts = []
    for path, names in passed.items():
        functions = chunks(path)
        unique = _unique([c.function for c in functions])
        texts += [c.text for name, c in zip(unique, functions, strict=True) if name in names]
    terminalreporter.write_line(f"{config.getoption('--minihlo-backend')}: {summary(len(texts), len(passed), texts)}")


def _is_test(path: Path) -> bool:
    from .testing.chunks import chunks, has_checks

    try:
        return has_checks(path.read_text(encoding="utf-8")) and bool(chunks(path))
    except (OSError, UnicodeDecodeError):
        return False


class MlirFile(pytest.File):
    """An .mlir file."""

    def collect(self) -> Iterable[pytest.Item]:
        """An item for each function with checks."""
        from .testing.chunks import chunks

        try:
            functions = chunks(self.path)
        except (OSError, UnicodeDecodeError) as error:
            raise self.CollectError(f"{self.path}: expected text, got: {error}") from None
        if not functions:
            raise self.CollectError(f"{self.path}: expected a function in the file, got none")
        file = _shown_path(self.path, self.config)
        for name, chunk in zip(_unique([c.function for c in functions]), functions, strict=True):
            yield MlirItem.from_parent(self, name=name, chunk=dataclasses.replace(chunk, file=file))


def _unique(names: list[str]) -> Iterator[str]:
    """Return unique names for functions: the second `@main` of a file is `main-2`."""
    taken: set[str] = set()
    for name in names:
        number, made = 1, name
        while made in taken or (number > 1 and made in names):
            number += 1
            made = f"{name}-{number}"
        taken.add(made)
        yield made


class MlirItem(pytest.Item):
    """One function of an .mlir file."""

    def __init__(self, *, chunk: Chunk, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.chunk = chunk

    def runtest(self) -> None:
        """Run the function on the backend. Raises MlirFailure where a check does not hold."""
        from .backends import BackendError
        from .errors import Error
        from .testing.checked import run

        backend = _backend(self.config)
        try:
            mismatches = run(self.chunk, backend)
        except (Error, MemoryError) as error:
            text = " ".join(str(error).split()) or "out of memory"
            if isinstance(error, BackendError) and error.is_lack:
                pytest.skip(text)
            if not text.startswith(self.chunk.file):
                text = f"{self.chunk.file}:{self.chunk.function_line}: {text}"
            raise MlirFailure(text) from error
        if mismatches:
            raise MlirFailure("\n".join(self._describe(mismatches, backend)))

    def _describe(self, mismatches: list[Any], backend: Backend) -> Iterator[str]:
        from .backends import Minihlo
        from .backends import backend as backend_of
        from .testing.checked import values_of
        from .testing.failures import describe

        ours = backend if isinstance(backend, Minihlo) else backend_of("minihlo")
        assert isinstance(ours, Minihlo)
        values = values_of(mismatches[0].program, self.chunk.function, ours)
        for mismatch in mismatches:
            yield describe(mismatch, self.chunk, backend.name, values)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The failure, with the command that runs the case alone."""
        if not isinstance(excinfo.value, MlirFailure):  # a bug in minihlo: show its traceback
            return super().repr_failure(excinfo, style)
        return f"{excinfo.value}\nrun this case alone: {self._command()}"

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place and the name of the function."""
        return self.path, self.chunk.function_line - 1, self.name

    def _command(self) -> str:
        words = ["pytest", f"{self.chunk.file}::{self.name}"]
        name = self.config.getoption("--minihlo-backend")
        words += [f"--minihlo-backend={name}"] * (name != "minihlo")
        return shlex.join(words)


def _shown_path(path: Path, config: pytest.Config) -> str:
    """Return the id relative to the folder where pytest was started; pytest's ids are relative to the root folder."""
    try:
        return str(path.relative_to(config.invocation_params.dir))
    except ValueError:
        return str(path)


class MlirFailure(Exception):
    """A test that failed, with its message."""


def _backend(config: pytest.Config) -> Backend:
    from .backends import PROGRAMS, backend
    from .errors import Error

    if _BACKEND not in config.stash:
        name = str(config.getoption("--minihlo-backend"))
        try:
            result = config.stash[_BACKEND] = backend(name)
            if result.takes != PROGRAMS:
                raise pytest.UsageError(f"expected a backend that runs programs, got {name}, which runs operations")
        except Error as error:
            raise pytest.UsageError(str(error)) from None
    return config.stash[_BACKEND]
