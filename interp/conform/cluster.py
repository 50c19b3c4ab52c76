"""Tasks on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ..backends import backend
from ..errors import InputError, WorkersLostError
from .result import CaseResult
from .run import Done, Task, Workers
from .tester import Tester
from .verdicts import outcome
from .verdicts.outcome import Settings

#: A run ends after this many seconds without any worker: nannies restart a dead worker within a few.
_PATIENCE = 30.0
#: The interval of polling for results and for workers, in seconds.
_POLL = 0.1

_testers: dict[Settings, Tester] = {}
_lock = threading.Lock()  #: a worker of the cluster may have several threads, which share the backend


def _on_cluster(settings: Settings, task: Task) -> list[CaseResult]:
    """Runs a task on a worker of the cluster, which keeps its backend between tasks."""
    with _lock:
        if settings not in _testers:
            _testers[settings] = Tester(backend(settings.backend), settings)
        return _testers[settings].run(task.specs, task.beside)


def _close_all() -> None:
    with _lock:
        while _testers:
            _testers.popitem()[1].backend.close()


def dask(address: str, patience: float = _PATIENCE) -> Workers:
    """Runs tasks on the cluster whose scheduler is at an address.

    Raises InputError if there is none, and WorkersLostError if no worker is there for `patience` seconds, or the
    scheduler is lost.
    """
    try:
        import distributed  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise InputError("--dask needs the package distributed (pip install 'minihlo[dask]')") from None

    def workers(settings: Settings, work: Sequence[Task]) -> Iterator[Done]:
        try:
            client = distributed.Client(address, timeout="20s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(f"--dask {address}: there is no scheduler: {error}") from None
        with client:
            futures = {client.submit(_on_cluster, settings, t, pure=False): i for i, t in enumerate(work)}
            try:
                left, seen = len(futures), time.monotonic()
                finished = distributed.as_completed(futures, loop=client.loop)
                while left:
                    batch = finished.next_batch(block=False)
                    for future in batch:
                        place = futures[future]
                        yield place, _result(future, work[place], settings, distributed.KilledWorker)
                    left -= len(batch)
                    if batch:
                        continue
                    if client.status != "running":
                        raise WorkersLostError(f"--dask {address}: the scheduler is lost")
                    if client.scheduler_info()["workers"]:
                        seen = time.monotonic()
                    elif time.monotonic() - seen >= patience:
                        words = f"no worker is left, for {patience:g} seconds"
                        raise WorkersLostError(f"--dask {address}: {words}")
                    time.sleep(_POLL)
            finally:
                if client.status == "running":
                    client.cancel(list(futures))
                    client.run(_close_all)

    return workers


def _result(future: Any, task: Task, settings: Settings, killed: type[Exception]) -> list[CaseResult]:
    """The results of a task; if it has killed workers repeatedly, each of its cases has died."""
    try:
        return future.result()
    except killed as error:
        why = f"the task has killed its workers: {error}"
        return [outcome.without_result(s.case, s.form, "died", why, settings) for s in task.specs]
