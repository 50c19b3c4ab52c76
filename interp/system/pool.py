"""Distributes tasks over processes. For each process a thread of this process waits."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


class Stoppable(Protocol):
    """The part of a process that this module uses."""

    def stop(self) -> None:
        """End the process immediately."""
        ...


#: The threads end within so many seconds after their processes. They must not run while Python shuts down.
_PATIENCE = 5.0

Process = TypeVar("Process", bound=Stoppable)


def share(
    work: Sequence[Task], pool: Sequence[Process], run: Callable[[Process, Task], Found]
) -> Iterator[tuple[int, Found]]:
    """Yield the index of each task with the result of `run` for it, in order of completion. Raises the first error.

    A free process takes the next task. At the end, all processes are stopped, after an error too.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(work)):
        waiting.put(place)
    done: queue.SimpleQueue[tuple[int, Found] | BaseException] = queue.SimpleQueue()

    def serve(process: Process) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                place = waiting.get_nowait()
                try:
                    done.put((place, run(process, work[place])))
                except BaseException as error:
                    done.put(error)
                    return

    threads = [threading.Thread(target=serve, args=(p,), daemon=True) for p in pool]
    try:
        for t in threads:
            t.start()
        for _ in work:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        for process in pool:
            process.stop()
        deadline = time.monotonic() + _PATIENCE
        for t in filter(threading.Thread.is_alive, threads):
            t.join(max(deadline - time.monotonic(), 0))
