"""Asynchronous execution: one thread runs programs one after another, in the order in which they were started.

That thread runs no code of the user: programs that call Python functions run in the thread of their caller. Data that
threads share is changed by single operations in C (of a deque, a dictionary, a queue), which are atomic without a lock.
A lock could deadlock: the garbage collector, and with it code of the user, can run anywhere in the thread that has it.
"""

from __future__ import annotations

import _thread
import collections
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from ...ops.processes import parallel
from ...ops.processes.exchange import StoppedError
from .pjrt import interrupts, shutdown
from .pjrt.errors import CANCELLED, ErrorObject, FailedError, PluginError
from .pjrt.interruptible import interruptible

#: The number of programs that may be unfinished. A caller that starts more waits.
_MOST = 32
#: The number of times that Ctrl-C must be pressed to stop a running program.
_PRESSES = 2
#: The seconds to sleep while another thread finishes a task.
_MOMENT = 0.001

#: Programs that have been started and have not ended, in order.
_unfinished: dict[Task, None] = {}
#: Programs that run in the thread of their caller.
_here: dict[parallel.Process, None] = {}
_queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
_worker: threading.Thread | None = None
#: Acquired when the thread has been started.
_start_once = _thread.allocate_lock()


class Deferred:
    """A value that a task will compute. Its `holders` receive it; until then their `array` is the Deferred."""

    __slots__ = ("holders", "task", "value")

    def __init__(self, task: Task) -> None:
        self.task = task
        #: The array; an ErrorObject if the program failed; None while it runs.
        self.value: Any = None
        self.holders: collections.deque[Any] = collections.deque()

    def deliver_to(self, holder: Any) -> None:
        """Store the value in a holder when it is computed, if the `array` of the holder is still this Deferred."""
        self.holders.append(holder)
        if self.value is not None:
            self.deliver()

    def deliver(self) -> None:
        """Store the value in the holders."""
        while True:
            try:
                holder = self.holders.popleft()
            except IndexError:
                return
            # Python does not switch threads between these two steps, so a deleted buffer stays deleted.
            if holder.array is self:
                holder.array = self.value


class Task:
    """A run of a program. `compute` returns a value for each of `outputs`."""

    def __init__(self, compute: Callable[[parallel.Process], Sequence[Any]], count: int) -> None:
        self.outputs = [Deferred(self) for _ in range(count)]
        self.error: ErrorObject | None = None
        self.is_done = self.is_stopped = False
        #: Whether the main thread started it, which receives Ctrl-C.
        self.is_of_main = _thread.get_ident() == threading.main_thread().ident
        #: The thread that pops this item runs or ends the task.
        self._right = [True]
        #: The thread that popped the item.
        self.by = 0
        self._compute: Callable[[parallel.Process], Sequence[Any]] | None = compute
        self._process: parallel.Process | None = None
        self._waiters: collections.deque[Callable[[], Any]] = collections.deque()
        self.presses = 0

    def call_when_done(self, waiter: Callable[[], Any]) -> None:
        """Call a C function when the task has ended, or now. Call this only where KeyboardInterrupt is delayed."""
        self._waiters.append(waiter)
        if not self.is_done and _is_worker():
            # Waiting in the thread that computes would never end.
            _run_until(self)
        if self.is_done:
            self._call_waiters()

    def wait(self) -> None:
        """Wait until the task has ended. Ctrl-C interrupts. Call this only where KeyboardInterrupt is delayed."""
        if self.is_done:
            return
        lock = _thread.allocate_lock()
        lock.acquire()
        self.call_when_done(lock.release)
        interruptible(lock.acquire)

    def stop(self) -> None:
        """Stop the task before it starts, or at the next iteration of a loop. Do not call it from a PJRT function."""
        self.is_stopped = True
        if self._claim():
            self.error = _error_object(StoppedError())
            self.end(())
            self._call_waiters()
        elif self._process is not None:
            self._process.grid.stop()

    def run(self) -> None:
        """Compute in this thread. Does nothing if the task runs or has ended."""
        if self._claim():
            values: Sequence[Any] = ()
            try:
                process = self._process = parallel.Grid(1, 1).processes[0, 0]
                if self.is_stopped:
                    raise StoppedError
                assert self._compute is not None
                values = self._compute(process)
            except BaseException as error:
                self.error = _error_object(error)
            self.end(values)
        if self.is_done:
            self._call_waiters()

    def end(self, values: Sequence[Any]) -> None:
        """Deliver the values, or the error, to the outputs."""
        values = values if self.error is None else [self.error] * len(self.outputs)
        for deferred, value in zip(self.outputs, values, strict=True):
            deferred.value = value
            deferred.deliver()
        self.is_done = True
        self.outputs, self._compute = [], None
        _unfinished.pop(self, None)

    def begin_again(self) -> None:
        """Reset the task in a forked process, whose threads are gone."""
        self._right = [True]

    def _claim(self) -> bool:
        try:
            self._right.pop()
        except IndexError:
            return False
        self.by = _thread.get_ident()
        return True

    def _call_waiters(self) -> None:
        while True:
            try:
                waiter = self._waiters.popleft()
            except IndexError:
                return
            try:
                waiter()
            except RecursionError:  # the caller is at the recursion limit; the thread that computes is not
                self._waiters.append(waiter)
                _queue.put(self)
                return


def wait_for_slot() -> None:
    """Wait while too many tasks are unfinished. Call this only where KeyboardInterrupt is delayed."""
    if not _is_worker():
        while len(_unfinished) >= _MOST:
            oldest = next(iter(_unfinished.copy()), None)
            if oldest is not None:
                oldest.wait()


def start(task: Task) -> None:
    """Start a task."""
    _unfinished[task] = None
    if _is_worker():
        _run_until(task)
        return
    _queue.put(task)
    start_worker()


def stop_all() -> None:
    """Stop all unfinished programs."""
    for task in _unfinished.copy():
        task.stop()
    for process in _here.copy():
        process.grid.stop()


def run_here(compute: Callable[[parallel.Process], Any]) -> Any:
    """Return the result of a function in this thread. It may call Python functions, and `stop_all` stops it."""
    process = parallel.Grid(1, 1).processes[0, 0]
    _here[process] = None
    try:
        return compute(process)
    except StoppedError as error:
        raise FailedError(_error_object(error)) from None
    finally:
        del _here[process]


def _interrupted() -> None:
    """Handle Ctrl-C in the main thread: programs that it has started continue, until Ctrl-C is pressed again."""
    for task in _unfinished.copy():
        if task.is_of_main:
            task.presses += 1
            if task.presses >= _PRESSES:
                # The interrupted code may have been called by the framework, where no task may end.
                _thread.start_new_thread(task.stop, ())


def _error_object(error: BaseException) -> ErrorObject:
    if isinstance(error, StoppedError):
        return ErrorObject(PluginError(CANCELLED, "the program was interrupted"))
    return error.error if isinstance(error, FailedError) else ErrorObject(error)


def _is_worker() -> bool:
    return _worker is not None and _worker.ident == _thread.get_ident()


def _run_until(task: Task) -> None:
    """Run the tasks before a task, and the task itself, when the thread that computes waits for it."""
    for earlier in _unfinished.copy():
        earlier.run()
        if earlier is task:
            break
    while not task.is_done:
        if task.by == _thread.get_ident():  # this thread is computing it
            task.error = ErrorObject(PluginError(CANCELLED, "the program waits for itself"))
            task.end(())
        time.sleep(_MOMENT)  # another thread is finishing it


def start_worker() -> None:
    """Start the thread that computes unless it runs. It cannot be started when the interpreter shuts down."""
    global _worker
    if not _start_once.acquire(blocking=False):
        return
    _worker = threading.Thread(target=_work, name="minihlo", daemon=True)
    try:
        _worker.start()
    except RuntimeError:  # no more threads
        _worker = None
        _start_once.release()
        for task in _unfinished.copy():
            task.run()


def _work() -> None:
    here = _thread.get_ident()
    shutdown.is_busy[here] = False
    while True:
        task = _queue.get()
        if task is None:
            break
        shutdown.is_busy[here] = True
        task.run()
        shutdown.is_busy[here] = False
        del task
    shutdown.watch()


def _close() -> None:
    stop_all()
    _queue.put(None)


def _after_fork() -> None:
    """Start the thread in a forked process. Unfinished tasks have only read their operands, so they start again."""
    global _queue, _worker, _start_once
    _queue, _worker, _start_once = queue.SimpleQueue(), None, _thread.allocate_lock()
    for task in _unfinished:
        task.begin_again()
        _queue.put(task)
    if _unfinished:
        start_worker()


interrupts.when_raised.append(_interrupted)
shutdown.when_closing.append(_close)
os.register_at_fork(after_in_child=_after_fork)
