"""Work shared out to processes, each of which has a thread here that waits for it."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")


class Stoppable(Protocol):
    """A process, as far as this module knows it."""

    def stop(self) -> None:
        """End it, whatever it does."""
        ...


Process = TypeVar("Process", bound=Stoppable)


def share(
    work: Sequence[Task], pool: Sequence[Process], run: Callable[[Process, Task], Found]
) -> Iterator[tuple[int, Found]]:
    """The place of each task and what `run` gives for it, as they are done; the first error is raised.

    Whichever process is free takes the next task. In the end, come as it may, all are stopped.
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
