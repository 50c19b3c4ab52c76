"""Runs the command in a child process, so that a crash inside the MLIR parser becomes one line and an exit code.

jaxlib's parser is C++ and can abort or overflow its stack on malformed input. Nothing in Python catches that.
This module imports nothing heavy: the fork comes first, and costs about a millisecond.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator

from ..errors import OutputError
from . import memory, streams

#: One byte shared by the two processes: 1 while the child is in native parsing. None outside `run_isolated`.
_parsing: mmap.mmap | None = None

TIMED_OUT = 124  #: exit code after --timeout or --max-steps, as of timeout(1)
STOPPED = "stopped after {:g} seconds (--timeout)"
_PATIENCE = 0.5  #: seconds that a child has for its end after a signal
_CRASH = 2  #: exit code of a program that cannot be read
_BUG = 70  #: exit code of an unexpected exception
#: The error numbers of the system for too little memory, too few descriptors or processes.
_SCARCE = {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
_PASSED_ON = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]


def run_isolated(main: Callable[[], int], subject: str, timeout: float | None = None) -> int:
    """Runs `main` in a forked child and returns its exit code.

    If a signal ends the child, one line about `subject` (a file name) goes to stderr and the code is 2. After Ctrl-C
    the code is 130. After `timeout` seconds the child is ended, one line reports it, and the code is 124. On platforms
    without `fork`, `main` runs in this process. Call this function from the main thread.
    """
    global _parsing
    if not hasattr(os, "fork"):
        return main()
    streams.flush()
    shared = mmap.mmap(-1, 1)
    parent = os.getpid()
    # Signals stay blocked in the parent, which receives them one by one while it waits. A handler does not suffice: a
    # signal that arrives just before `waitpid` starts to wait would be handled only after the child has ended.
    passed_on = {s for s in _PASSED_ON if signal.getsignal(s) is not signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*passed_on, signal.SIGCHLD, signal.SIGALRM})
    on_child = signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems drop a signal nobody handles
    try:
        child = os.fork()
        if child == 0:
            _parsing = shared
            signal.signal(signal.SIGCHLD, on_child)
            _run_child(main, parent, before)
        status, sent, timed_out = _wait(child, passed_on, timeout, shared)
    finally:
        signal.signal(signal.SIGCHLD, on_child)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if timed_out:
        print(f"minihlo: {subject}: {STOPPED.format(timeout)}", file=sys.stderr)
        return TIMED_OUT
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    if sent:
        return 128 + sent
    print(f"minihlo: {subject}: {_explain(os.WTERMSIG(status), bool(shared[0]))}", file=sys.stderr)
    return _CRASH


@contextlib.contextmanager
def quiet_native_stderr() -> Iterator[None]:
    """Suppress what C++ prints when it aborts (assertions, stack dumps) while a native parser runs.

    Does nothing outside `run_isolated`: file descriptor 2 belongs to the whole process, and in a process of somebody
    else other threads may write to it.
    """
    if _parsing is None:
        yield
        return
    sys.stderr.flush()
    saved = os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    os.close(null)
    _parsing[0] = 1
    try:
        yield
    finally:
        _parsing[0] = 0
        os.dup2(saved, 2)
        os.close(saved)


def death_in_child(command: list[str], data: bytes, seconds: float) -> str:
    """Run `command` with `data` on standard input. Return how it died or hung, or an empty text."""
    from .child import run

    try:
        code, *_ = run(command, data, seconds)
    except TimeoutError:
        return f"the MLIR parser in jaxlib did not end within {seconds:g} s; the file is not a valid program"
    return _explain(-code, True) if code < 0 else ""


@contextlib.contextmanager
def holding_interrupts() -> Iterator[None]:
    """Handle Ctrl-C after a block, such as the import of a library in C++, which it could leave half initialized."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        handler(held[0], None)


def report(error: Exception) -> int:
    """Report an unexpected exception on standard error, and return the exit status.

    If the system refuses a resource, the report is one line and the status is that of bad input, as for a program that
    needs too much memory. Any other exception is a bug, and the report has its traceback.
    """
    if isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno in _SCARCE):
        print("minihlo:", " ".join(str(error).split()), file=sys.stderr)
        return _CRASH
    traceback.print_exception(error)
    return _BUG


def _run_child(main: Callable[[], int], parent: int, unblocked: Iterable[int]) -> None:
    code = _BUG
    try:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, _interrupt)
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        _die_with(parent)
        code = main()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BrokenPipeError:
        code = streams.NO_READER
    except OutputError as failure:
        code = streams.give_up(failure)
    except Exception as error:
        code = report(error)
    finally:
        try:
            streams.flush()
        except BrokenPipeError:
            code = streams.NO_READER
        except OutputError as failure:
            code = streams.give_up(failure)
        finally:
            # Not sys.exit: exit handlers run in the parent, and tearing down MLIR takes time.
            os._exit(code)


def _interrupt(*_: object) -> None:
    # Ctrl-C in a terminal reaches the child twice: from the terminal, and passed on by the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _die_with(parent: int) -> None:
    """Make Linux end this process when its parent ends, and write no core file if it crashes."""
    memory.without_core_file()
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # numpy imports it anyway

            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the request
            os._exit(_CRASH)


def _wait(child: int, passed_on: set[int], timeout: float | None, parsing: mmap.mmap) -> tuple[int, int, bool]:
    """Wait for the child. Return its status, the first signal that was passed on or 0, and whether it timed out."""
    sent: list[int] = []
    timed_out = False
    if timeout is not None:
        signal.setitimer(signal.ITIMER_REAL, timeout)
    while True:
        number = signal.sigwait({*passed_on, signal.SIGCHLD, signal.SIGALRM})
        if number == signal.SIGALRM:
            if not sent and not timed_out:  # a command may handle the signal, and report what it has found
                timed_out = True
                os.kill(child, signal.SIGKILL if parsing[0] else signal.SIGALRM)
                signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)
            elif timed_out or parsing[0]:
                os.kill(child, signal.SIGKILL)
        elif number == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                signal.setitimer(signal.ITIMER_REAL, 0)
                return status, next(iter(sent), 0), timed_out
        else:
            # A second Ctrl-C is for a child in native code, which does not handle the first. The parser may never end.
            os.kill(child, signal.SIGKILL if number in sent else number)
            sent.append(number)
            signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)


def _is_out_of_time() -> bool:
    """Whether children have used the CPU time that the system grants a process."""
    try:
        import resource
    except ImportError:  # on Windows
        return False
    limit, used = resource.getrlimit(resource.RLIMIT_CPU)[1], resource.getrusage(resource.RUSAGE_CHILDREN)
    return limit != resource.RLIM_INFINITY and used.ru_utime + used.ru_stime > limit - 0.5


def _explain(number: int, parsing: bool) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGKILL and _is_out_of_time():
        return f"killed ({name}) by the limit of CPU time (ulimit -t)"
    if number == signal.SIGKILL:
        return f"killed ({name}), most likely because memory ran out"
    if parsing:
        return f"the MLIR parser in jaxlib died on it ({name}); the file is not a valid program"
    return f"the process died ({name}) while the program ran"


class Stopped(BaseException):
    """The time limit of `run_isolated` has passed."""


def raise_stopped() -> None:
    """Make the main thread raise Stopped when the time limit passes; it then has `_PATIENCE` to report."""

    def stop(*_: object) -> None:
        raise Stopped

    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, stop)
