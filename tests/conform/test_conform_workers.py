"""A run that loses its workers says so and stops, and keeps what it has; workers that die of a case do not end it."""

import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minihlo.interp.cli import main
from minihlo.interp.conform import cluster, run, workers
from minihlo.interp.conform.result import CRASH, PASS, load
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.errors import WorkersLostError

pytestmark = pytest.mark.usefixtures("in_the_repository")

CHOICE = run.Choice(ops=("add", "negate"), formats=("f8E5M2", "f4E2M1FN"), form="array")
SETTINGS = Settings("minihlo")
TASKS = run.tasks(CHOICE, SETTINGS, "programs")


class FakeFuture:
    def __init__(self, task: run.Task) -> None:
        self.task = task

    def result(self) -> Any:
        return cluster._on_cluster(SETTINGS, self.task)


class FakeClient:
    """A client of a cluster that gives results of some tasks, and has no workers then."""

    gives, has_workers, status, loop = 1, False, "running", None

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cancelled: list[FakeFuture] = []

    def __enter__(self) -> "FakeClient":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def submit(self, _: Any, __: Any, task: run.Task, **___: Any) -> FakeFuture:
        return FakeFuture(task)

    def scheduler_info(self, **_: Any) -> dict[str, Any]:
        return {"workers": {"tcp://a": {}} if self.has_workers else {}}

    def cancel(self, futures: list[FakeFuture]) -> None:
        self.cancelled = futures

    def run(self, function: Any) -> None:
        function()


class FakeCompleted:
    def __init__(self, futures: dict[FakeFuture, int], **_: Any) -> None:
        self.left = list(futures)[: FakeClient.gives]

    def next_batch(self, block: bool) -> list[FakeFuture]:
        assert not block
        batch, self.left = self.left[:1], self.left[1:]
        return batch


class KilledWorker(Exception):
    pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made = types.ModuleType("distributed")
    made.Client, made.as_completed, made.KilledWorker = FakeClient, FakeCompleted, KilledWorker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "distributed", made)
    yield
    cluster._close_all()


@pytest.mark.usefixtures("fake")
def test_a_cluster_without_workers_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(TASKS) > 1
    path = tmp_path / "r.json"
    session = run.Session(run.describe_run(SETTINGS, CHOICE, None), SETTINGS, TASKS, path)
    with pytest.raises(WorkersLostError, match=r"--dask tcp://x: no worker is left, for 0.2 seconds"):
        session.run(cluster.dask("tcp://x", patience=0.2))
    kept = load(path)
    assert not kept.run.complete
    assert 0 < len(kept.cases) < 4
    monkeypatch.setattr(FakeClient, "gives", len(TASKS))
    again = run.Session(run.describe_run(SETTINGS, CHOICE, None), SETTINGS, TASKS, path)
    assert again.resume() == len(kept.cases)
    assert [c.verdict for c in again.run(cluster.dask("tcp://x", patience=0.2)).cases] == [PASS] * 4


@pytest.mark.usefixtures("fake")
def test_a_cluster_whose_scheduler_is_lost_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeClient, "has_workers", True)
    monkeypatch.setattr(FakeClient, "status", "closed")
    with pytest.raises(WorkersLostError, match="--dask tcp://x: the scheduler is lost"):
        list(cluster.dask("tcp://x", patience=0.1)(SETTINGS, TASKS))


@pytest.mark.usefixtures("fake")
def test_a_task_that_kills_its_workers_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_: FakeFuture) -> Any:
        raise KilledWorker("add")

    monkeypatch.setattr(FakeClient, "gives", 1)
    monkeypatch.setattr(FakeFuture, "result", killed)
    results = cluster.dask("tcp://x", patience=0.1)(SETTINGS, TASKS[:1])
    ((_, found),) = results
    assert {c.verdict for c in found} == {CRASH}
    assert all("the task has killed its workers" in c.message for c in found)


@pytest.mark.parametrize("jobs", ["2"])
def test_workers_that_cannot_be_started_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], jobs: str
) -> None:
    real = workers.python
    died = "import sys; sys.exit('no room for another process')"
    monkeypatch.setattr(workers, "python", lambda *_: [*real("-m", "x")[:-2], "-c", died])
    path = tmp_path / "r.json"
    words = ["conform", "minihlo", "--ops", "add,negate", "--formats", "f8E5M2,f4E2M1FN", "--form", "array"]
    assert main([*words, "-j", jobs, "--json", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "no worker can be started: the process" in err
    assert "no room for another process, 3 times before it was ready" in err
    assert err.rstrip().endswith("r.json holds 0 finished cases; the same command continues")
