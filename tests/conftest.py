"""What tests share: how processes end, and what those of `minihlo conform` need."""

import gc
import os
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minihlo.interp.backends import ChildBackend
from minihlo.interp.cli import main
from minihlo.interp.conform.result import Report, load

from . import jax_child, processes

processes.hear_signals()
# Tests start some hundred processes; where Python may not keep what it compiles, that is a third of their time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def nothing_outlives_the_tests() -> Iterator[None]:
    """Fails the last test where a process that a test has started is still there; it is ended."""
    mark = str(os.getpid())
    os.environ[processes.MARK] = mark
    yield
    for thing in gc.get_objects():  # the backends that tests and tools keep for each other; they end with this process
        if issubclass(type(thing), ChildBackend):  # `isinstance` asks proxies of what is gone
            thing.close()
    jax_child.nursery.close()
    left = processes.end_all(mark)
    assert not left, f"still running: {left}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test of ten cases or more half are in every run, the same ones; the others are exhaustive tests."""
    tests = [i for i in items if isinstance(i, pytest.Function) and not i.get_closest_marker("exhaustive")]
    cases = Counter(i.function for i in tests)
    for item in tests:
        if cases[item.function] >= 10 and zlib.crc32(item.nodeid.encode()) % 2:
            item.add_marker(pytest.mark.exhaustive)


def pytest_collection_finish() -> None:
    """Thousands of tests and the modules are here to stay: the collector of garbage need not walk them every time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `tests.conform_faults` can be imported."""
    monkeypatch.chdir(Path(__file__).parent.parent)


@pytest.fixture
def report(tmp_path: Path) -> Callable[..., tuple[int, Report]]:
    """Runs the command and returns its exit status and what it found."""

    def ran(*arguments: str) -> tuple[int, Report]:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        code = main(["conform", *arguments, "-j", "1", "--json", str(path)])
        return code, load(path)

    return ran
