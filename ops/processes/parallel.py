"""Processes that run side by side: the grid they form, their rendezvous and messages, and when they cannot go on.

Each process is a thread. Values of others come through `Process.rendezvous` and `Process.receive` alone, which pair the
n-th use by one process with the n-th use by another: results do not depend on which of them is quicker. A program that
runs by itself is the only process of a grid of its own.

A grid in which no process can go on is reported as a deadlock; an error in one process ends them all.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from ..op import OpError
from .exchange import Contribution, DeadlockError, Pending, ProcessId, StoppedError, ids_text, type_text

#: Each function gives what one infeed op reads.
Infeed = Sequence[Callable[[], tuple[Any, ...]]]

#: Grids that are run by processes of a grid, and so on, up to this many: a limit, as each level takes threads.
_MOST_NESTED = 8
#: How many seconds Ctrl-C waits for processes that compute. Then they are left to themselves, and end at the next
#: iteration of a loop or the next rendezvous.
_GRACE = 2.0
#: How many seconds to sleep between looks at whether Ctrl-C was pressed, on systems where it does not wake a sleeper.
_POLL = 0.2


@dataclasses.dataclass(eq=False)
class _Rendezvous:
    contributions: dict[ProcessId, Contribution] = dataclasses.field(default_factory=dict)
    results: dict[ProcessId, tuple[Any, ...]] | None = None


class Process:
    """One process of a grid, used by its own thread only."""

    def __init__(self, grid: Grid, id: ProcessId, infeed: Infeed = ()) -> None:
        self.grid, self.id = grid, id
        self.infeed = collections.deque(infeed)
        self.probes: list[tuple[str, np.ndarray]] = []
        #: Whether ops that exchange values are to give a `Future` instead of waiting.
        self.defers = False
        self._uses: collections.Counter[Hashable] = collections.Counter()

    def rendezvous(self, channel: int, members: tuple[ProcessId, ...], own: Contribution) -> Pending:
        """Contribute to the next rendezvous of a group on a channel; the results are there when all members have.

        Raises OpError where the contributions are of different ops or types.
        """
        grid, number = self.grid, self._use((channel, members))
        # A channel is a number of 64 bits, with a sign.
        key = (channel % 2**64, number, *itertools.chain(*members))
        with grid.changed:
            found = grid.rendezvous.setdefault(key, _Rendezvous())
            for other, theirs in found.contributions.items():
                if theirs.signature != own.signature:
                    raise OpError(_mismatch(self.id, own, other, theirs))
            found.contributions[self.id] = own
            is_last = len(found.contributions) == len(members)
            if is_last:
                del grid.rendezvous[key]
        if is_last:
            parts = [found.contributions[m] for m in members]
            results = parts[0].combine([p.values for p in parts], key)
            with grid.changed:
                found.results = dict(zip(members, results, strict=True))
                grid.changed.notify_all()
        # Channels of 0 and below are not the program's.
        where = f"channel {channel}, " if channel > 0 else ""
        return Pending(
            self,
            lambda: f"in {own.name} ({where}group {ids_text(members)})",
            lambda: found.results is not None,
            lambda: [m for m in members if m not in found.contributions],
            lambda: found.results[self.id] if found.results is not None else (),
        )

    def send(self, channel: Hashable, values: tuple[Any, ...]) -> None:
        """Leave values for the process that receives on a channel; it need not be there yet."""
        with self.grid.changed:
            self.grid.mail[channel, self._use(("send", channel))] = values
            self.grid.changed.notify_all()

    def receive(self, channel: Hashable, what: str, source: ProcessId | None, like: Sequence[Any]) -> Pending:
        """The next values on a channel, for op `what`, which `source` sends, where it is known who does.

        Taking them raises OpError where they have not the types of those in `like`; None takes a token.
        """
        key = channel, self._use(("receive", channel))
        mail = self.grid.mail
        wanted = [type_text(v) for v in like]

        def take() -> tuple[Any, ...]:
            values = mail.pop(key)
            if [type_text(v) for v in values] != wanted:
                given = ", ".join(map(type_text, values)) or "nothing"
                raise OpError(f"was sent {given} (expected {', '.join(wanted) or 'nothing'})")
            return values

        return Pending(
            self, lambda: f"in {what}", lambda: key in mail, lambda: () if source is None else (source,), take
        )

    def claim(self, channel: int, end: str) -> None:
        """Become the one that sends, or the one that receives, on a channel that names no processes.

        Raises OpError where the channel is received from and has two processes at an end: which process gets what would
        depend on which is first.
        """
        with self.grid.changed:
            ends = self.grid.ends[channel]
            ends[end].add(self.id)
            if ends["receive"] and max(len(ends["receive"]), len(ends["send"])) > 1:
                uses = " and is ".join(f"{verb} by {ids_text(sorted(ends[e]))}" for e, verb in _ENDS if ends[e])
                raise OpError(f"channel {channel} is {uses} (expected one process at each end)")

    def wait(self, pending: Pending) -> None:
        """Sleep until it is there. Raises DeadlockError where it never will be."""
        grid = self.grid
        with grid.changed:
            if pending.is_there():
                return
            grid.waiting[self.id] = pending
            try:
                grid.look_for_deadlock()
                while not pending.is_there():
                    if grid.is_deadlocked:
                        raise DeadlockError(grid.describe(pending))
                    grid.stop_here_if_stopped()
                    grid.changed.wait()
            finally:
                del grid.waiting[self.id]

    def _use(self, key: Hashable) -> int:
        number = self._uses[key]
        self._uses[key] += 1
        return number


_ENDS = (("send", "sent to"), ("receive", "received from"))


def _mismatch(mine: ProcessId, own: Contribution, other: ProcessId, theirs: Contribution) -> str:
    """The message where two processes come to a rendezvous with different ops, or with different types."""
    if own.name != theirs.name:
        return f"process {other} has come to {theirs.name} in its place, on the same channel and with the same group"
    brings, others = (", ".join(c.signature) for c in (own, theirs))
    return f"process {mine} brings {brings}, but process {other} brings {others} (expected the same)"


class Grid:
    """`replicas` x `partitions` processes, and what they share. All but `shape` is guarded by `changed`."""

    def __init__(self, replicas: int, partitions: int, infeed: Infeed = ()) -> None:
        """`infeed` is what each process finds in its infeed."""
        self.shape = replicas, partitions
        self.processes = {(r, p): Process(self, (r, p), infeed) for r in range(replicas) for p in range(partitions)}
        self.changed = threading.Condition()
        self.rendezvous: dict[Hashable, _Rendezvous] = {}
        self.mail: dict[Hashable, tuple[Any, ...]] = {}
        self.ends: dict[int, dict[str, set[ProcessId]]] = collections.defaultdict(
            lambda: {"send": set(), "receive": set()}
        )
        self.waiting: dict[ProcessId, Pending] = {}
        self.is_deadlocked = self.is_stopped = False
        self._ended: set[ProcessId] = set()
        self._inner: list[Grid] = []
        self._depth = 0

    def run(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """The results of a task for each process, (0, 0), (0, 1), …, which run at the same time.

        Raises the error of the first process that failed, with a note of which that is, or DeadlockError.
        Raises OpError where grids are nested too deeply.
        """
        outer = current()
        self._depth = outer.grid._depth + 1
        if self._depth > _MOST_NESTED:
            raise OpError(f"grids of processes are nested more than {_MOST_NESTED} deep")
        with outer.grid.changed:
            outer.grid.stop_here_if_stopped()
            outer.grid._inner.append(self)
        results: dict[ProcessId, Any] = {}
        failures: dict[ProcessId, BaseException] = {}
        ended: queue.SimpleQueue[Process] = queue.SimpleQueue()

        def work(process: Process, task: Callable[[], Any]) -> None:
            here.process = process
            try:
                self.stop_here_if_stopped()
                with np.errstate(all="ignore"):  # numpy keeps it for each thread
                    results[process.id] = task()
            except StoppedError:
                pass
            except BaseException as error:
                failures[process.id] = error
                self.stop()
            finally:
                self._end(process)
                ended.put(process)

        pairs = zip(self.processes.values(), tasks, strict=True)
        threads = [
            threading.Thread(target=work, args=pair, name=f"process {pair[0].id}", daemon=True) for pair in pairs
        ]
        try:
            _start(threads)
            _take(ended, len(threads))
        except BaseException:  # Ctrl-C
            self.stop()
            _take(ended, sum(thread.ident is not None for thread in threads), _GRACE)
            raise
        finally:
            with outer.grid.changed:
                outer.grid._inner.remove(self)
        if failures:
            raise _first(failures)
        self.stop_here_if_stopped()
        for process in self.processes.values():
            outer.probes += process.probes
        return [results[id] for id in self.processes]

    def stop(self) -> None:
        """End all processes: those that wait now, the others at the next rendezvous or iteration of a loop."""
        with self.changed:
            self.is_stopped = True
            self.changed.notify_all()
            inner = list(self._inner)
        for grid in inner:
            grid.stop()

    def stop_here_if_stopped(self) -> None:
        """Raise StoppedError if the processes of the grid are to end."""
        if self.is_stopped:
            raise StoppedError

    def look_for_deadlock(self) -> None:
        """Find out whether a process waits in vain: for one that has ended, or because all the others wait too."""
        stuck = [p for p in self.waiting.values() if not p.is_there()]
        if self.is_stopped or not stuck:
            return
        in_vain = any(not self._ended.isdisjoint(p.needs()) for p in stuck)
        if in_vain or len(stuck) + len(self._ended) == len(self.processes):
            self.is_deadlocked = True
            self.changed.notify_all()

    def describe(self, pending: Pending) -> str:
        """What a process waits for, for the message of a deadlock."""
        needs = list(pending.needs())
        if not needs:
            return f"waits {pending.waits_for()} for what no process sends"
        ended = [p for p in needs if p in self._ended]
        return f"waits {pending.waits_for()} for {ids_text(needs)}" + (
            f", of which {ids_text(ended)} ended" if ended else ""
        )

    def _end(self, process: Process) -> None:
        with self.changed:
            self._ended.add(process.id)
            self.look_for_deadlock()


class _Here(threading.local):
    process: Process | None = None


#: What each thread runs. `machine` sets it directly, since that happens in each run.
here = _Here()


def current() -> Process:
    """The process that this thread runs."""
    process = here.process
    if process is None:
        process = here.process = Grid(1, 1).processes[0, 0]
    return process


def current_grid() -> Grid | None:
    """The grid of the process that this thread runs; None where it is known to be alone."""
    return None if here.process is None else here.process.grid


def enter(process: Process | None) -> Process | None:
    """Let this thread run a process, None for one by itself. Returns the one it ran before, to go back to."""
    before, here.process = here.process, process
    return before


def _start(threads: list[threading.Thread]) -> None:
    try:
        for thread in threads:
            thread.start()
    except RuntimeError as error:  # no more threads
        raise OpError(f"cannot run {len(threads)} processes: {error}") from None


def _take(items: queue.SimpleQueue[Any], count: int, limit: float = float("inf")) -> None:
    """Take `count` items out of a queue, within a time in seconds. Ctrl-C works meanwhile.

    `Thread.join` would not do: in some versions of Python a thread counts as ended once joining it was interrupted.
    """
    end = time.monotonic() + limit
    while count and time.monotonic() < end:
        with contextlib.suppress(queue.Empty):
            items.get(timeout=_POLL)
            count -= 1


def _first(failures: dict[ProcessId, BaseException]) -> BaseException:
    """The error to report: of the first process that failed by itself, else the deadlock of all that wait."""
    waits = [(id, e) for id, e in sorted(failures.items()) if isinstance(e, DeadlockError) and not e.parts]
    others = sorted(failures.keys() - dict(waits).keys())
    if others:
        error = failures[others[0]]
        error.add_note(f"in process {others[0]}")
        return error
    return DeadlockError("", waits)
