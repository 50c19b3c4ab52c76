"""What tests of the command `minihlo conform` share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform.result import Report, load


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
