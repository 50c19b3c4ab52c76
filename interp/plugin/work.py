"""Programs that run while their caller goes on: one after another, in the order they were started, in one thread.

That thread runs nothing of the user's: programs that call Python functions run where they are called. So whoever waits
for it waits for computation alone. What is shared between threads here is changed by single steps of C code (of a
deque, a dictionary, a queue), which hold without a lock: a lock could be asked for again by the thread that has it,
since the garbage collector, and with it the user's code, can run anywhere.
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

from ...ops.grid import parallel
from ...ops.grid.exchange import StoppedError
from .deferred import Deferred
from .pjrt import interrupts, shutdown
from .pjrt.errors import CANCELLED, ErrorObject, FailedError, PluginError
from .pjrt.interruptible import interruptible

#: So many programs may be under way. Who starts more waits.
_MOST = 32
#: The times that Ctrl-C is pressed until a program that runs all the while is broken off.
_PRESSES = 2
#: How long to sleep, in seconds, where another thread is at the end of a task.
_MOMENT = 0.001

#: Programs that have been started and have not ended, in order.
_unfinished: dict[Task, None] = {}
#: Those that run where they were called.
_here: dict[parallel.Process, None] = {}
_queue: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
_worker: threading.Thread | None = None
#: Taken when the thread has been started.
_start_once = _thread.allocate_lock()


class Task:
    """A run of a program. `compute` gives a value for each of `outputs`."""

    def __init__(self, compute: Callable[[parallel.Process], Sequence[Any]], count: int) -> None:
        self.outputs = [Deferred(self) for _ in range(count)]
        self.error: ErrorObject | None = None
        self.is_done = self.is_stopped = False
        #: Whether it is the main thread's, which is where Ctrl-C arrives.
        self.is_of_main = _thread.get_ident() == threading.main_thread().ident
        #: Who pops this may compute, or end it without.
        self._right = [True]
        #: The thread that did.
        self.by = 0
        self._compute: Callable[[parallel.Process], Sequence[Any]] | None = compute
        self._process: parallel.Process | None = None
        self._waiters: collections.deque[Callable[[], Any]] = collections.deque()
        self.presses = 0

    def call_when_done(self, waiter: Callable[[], Any]) -> None:
        """Call a function of C when the task has ended, or now. It is for `protect`ed code."""
        self._waiters.append(waiter)
        if not self.is_done and _is_worker():
            # Whoever waits in the thread that computes would wait forever.
            _run_until(self)
        if self.is_done:
            self._call_waiters()

    def wait(self) -> None:
        """Sleep until the task has ended. Ctrl-C works meanwhile. It is for `protect`ed code."""
        if self.is_done:
            return
        lock = _thread.allocate_lock()
        lock.acquire()
        self.call_when_done(lock.release)
        interruptible(lock.acquire)

    def stop(self) -> None:
        """Break it off: before it starts, or at the next turn of a loop. Not for what the framework has called."""
        self.is_stopped = True
        if self._claim():
            self.error = _error_object(StoppedError())
            self.end(())
            self._call_waiters()
        elif self._process is not None:
            self._process.grid.stop()

    def run(self) -> None:
        """Compute, in the thread that is there for it. Does nothing more where it has ended, or is under way."""
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
        """Hand over the values, or the error."""
        values = values if self.error is None else [self.error] * len(self.outputs)
        for deferred, value in zip(self.outputs, values, strict=True):
            deferred.value = value
            deferred.deliver()
        self.is_done = True
        self.outputs, self._compute = [], None
        _unfinished.pop(self, None)

    def begin_again(self) -> None:
        """Forget that it was under way, in a process whose threads are gone."""
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
            except RecursionError:  # the user's code is too deep for any call; the thread that computes is not
                self._waiters.append(waiter)
                _queue.put(self)
                return


def wait_for_slot() -> None:
    """Wait while many tasks are under way. It is for `protect`ed code."""
    if not _is_worker():
        while len(_unfinished) >= _MOST:
            oldest = next(iter(_unfinished.copy()), None)
            if oldest is not None:
                oldest.wait()


def start(task: Task) -> None:
    """Have a task run."""
    _unfinished[task] = None
    if _is_worker():
        _run_until(task)
        return
    _queue.put(task)
    start_worker()


def can_start() -> bool:
    """Whether tasks can be started: not when the interpreter is about to shut down."""
    return not shutdown.closing


def stop_all() -> None:
    """Break off all that is under way."""
    for task in _unfinished.copy():
        task.stop()
    for process in _here.copy():
        process.grid.stop()


def run_here(compute: Callable[[parallel.Process], Any]) -> Any:
    """What a function gives, which is broken off with all that is under way. It may call Python functions."""
    process = parallel.Grid(1, 1).processes[0, 0]
    _here[process] = None
    try:
        return compute(process)
    except StoppedError as error:
        raise FailedError(_error_object(error)) from None
    finally:
        del _here[process]


def _interrupted() -> None:
    """Ctrl-C has interrupted the main thread. What that has started goes on, unless it is pressed again."""
    stopped = []
    for task in _unfinished.copy():
        if task.is_of_main:
            task.presses += 1
            if task.presses >= _PRESSES:
                stopped.append(task)
    if stopped:
        # The framework may have called what was interrupted, and cannot be told of the end there.
        _thread.start_new_thread(_stop, (stopped,))


def _stop(tasks: list[Task]) -> None:
    for task in tasks:
        task.stop()


def _error_object(error: BaseException) -> ErrorObject:
    if isinstance(error, StoppedError):
        return ErrorObject(PluginError(CANCELLED, "the program was interrupted"))
    return error.error if isinstance(error, FailedError) else ErrorObject(error)


def _is_worker() -> bool:
    return _worker is not None and _worker.ident == _thread.get_ident()


def _run_until(task: Task) -> None:
    """Run what comes before a task, and the task: in the thread that computes, where something waits for it."""
    for earlier in _unfinished.copy():
        earlier.run()
        if earlier is task:
            break
    while not task.is_done:
        if task.by == _thread.get_ident():  # it is what this thread computes just now
            task.error = ErrorObject(PluginError(CANCELLED, "the program waits for itself"))
            task.end(())
        time.sleep(_MOMENT)  # another thread is about to end it


def start_worker() -> None:
    """Have the thread that computes, if it is not there. When the interpreter shuts down it would be too late."""
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
    """In the new process the thread is gone. What was under way has only read its operands, and begins again."""
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
