"""What tests share: how processes end, and what those of `minihlo conform` need."""

import dataclasses
import gc
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.backends import ChildBackend
from minihlo.interp.cli import main
from minihlo.interp.conform.result import Report, load
from minihlo.ops.engine import compiled, speed

from . import jax_child, processes

processes.hear_signals()
# Tests start some hundred processes; where Python may not keep what it compiles, that is a third of their time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

#: Changes fields of the tuning, for as long as the test lasts: `tune(block=5)`.
Tune = Callable[..., None]


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


def pytest_collection_finish() -> None:
    """Thousands of tests and the modules are here to stay: the collector of garbage need not walk them every time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)


@pytest.fixture
def tune() -> Iterator[Tune]:
    """Changes the tuning of what this test runs, and of the plans that it makes without naming a `Speed`."""
    tokens = []

    def change(**numbers: int) -> None:
        now = speed.current()
        tokens.append(speed.enter(dataclasses.replace(now, tuning=dataclasses.replace(now.tuning, **numbers))))

    yield change
    for token in reversed(tokens):
        speed.leave(token)


#: What stands in for numba, and leaves functions as they are.
STAND_IN = types.SimpleNamespace(
    boolean=bool,
    int64=int,
    float32=np.float32,
    float64=float,
    from_dtype=lambda dtype: dtype,
    types=types.SimpleNamespace(Array=lambda *_, **__: np.ndarray),
    njit=lambda *_, **__: lambda function: function,
)

compiled.is_available()  # which is looked up once, before anything stands in for numba


@pytest.fixture(params=["numba", "python"])
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What compiles loops: numba, or something that leaves them Python."""
    if request.param == "python":
        monkeypatch.setitem(sys.modules, "numba", STAND_IN)
        monkeypatch.setattr(compiled, "is_available", lambda: True)
    elif not compiled.is_available():
        pytest.skip("numba is not installed")
    return request.param


def tuned(switches: speed.Speed) -> speed.Speed:
    """The same optimizations with the tuning of the test that runs."""
    return dataclasses.replace(switches, tuning=speed.tuning())


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
