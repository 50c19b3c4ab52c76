"""Runs the command in a child process, so that a crash inside the MLIR parser becomes one line and an exit code.

jaxlib's parser is C++ and can abort or overflow its stack on malformed input. Nothing in Python catches that.
This module imports nothing heavy: the fork comes first, and costs about a millisecond.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator

#: One byte shared by the two processes: 1 while the child is in native parsing. None outside `run_isolated`.
_parsing: mmap.mmap | None = None

_CRASH = 2  #: exit code of a program that cannot be read
_BUG = 70  #: exit code of an exception nobody meant to raise
_BROKEN_PIPE = 128 + getattr(signal, "SIGPIPE", 13)


def run_isolated(main: Callable[[], int], subject: str) -> int:
    """Runs `main` in a forked child and returns its exit code.

    If the child dies of a signal, one line about `subject` (a file's name) goes to stderr and the code is 2; after
    Ctrl-C the code is 130. Without `fork` on this platform `main` simply runs.
    """
    global _parsing
    if not hasattr(os, "fork"):
        return main()
    _flush()
    shared = mmap.mmap(-1, 1)
    parent = os.getpid()
    handled = _blocked_signals()
    child = os.fork()
    if child == 0:
        _parsing = shared
        _run_child(main, parent, handled)
    return _wait(child, shared, subject, handled)


@contextlib.contextmanager
def quiet_native_stderr() -> Iterator[None]:
    """Around native parsing: keeps what C++ prints when it dies (assertions, stack dumps) from the user.

    Does nothing outside `run_isolated`: file descriptor 2 belongs to the whole process, and where the process is
    not ours other threads may be writing to it.
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


def _blocked_signals() -> set[signal.Signals]:
    """The signals to pass on, blocked until both processes have their handlers; those set to be ignored stay so."""
    wanted = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
    handled = {s for s in wanted if signal.getsignal(s) is not signal.SIG_IGN}
    signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    return handled


def _run_child(main: Callable[[], int], parent: int, handled: set[signal.Signals]) -> None:
    code = _BUG
    try:
        if signal.SIGINT in handled:
            signal.signal(signal.SIGINT, _interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
        _die_with(parent)
        code = main()
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BrokenPipeError:
        code = _BROKEN_PIPE
    except BaseException:  # a bug: show it
        traceback.print_exc()
    finally:
        try:
            _flush()
        except BrokenPipeError:
            code = _BROKEN_PIPE
        finally:
            # Not sys.exit: the handlers at exit are the parent's to run, and tearing down MLIR takes time.
            os._exit(code)


def _interrupt(*_: object) -> None:
    # Ctrl-C in a terminal reaches the child twice: from the terminal, and passed on by the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _die_with(parent: int) -> None:
    """Asks Linux to end this process when its parent is gone; and leaves no core file behind if it crashes."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes  # numpy imports it anyway

            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(_CRASH)


def _wait(child: int, shared: mmap.mmap, subject: str, handled: set[signal.Signals]) -> int:
    passed_on: list[int] = []

    def pass_on(number: int, _: object) -> None:
        # A second Ctrl-C is for a child that is deep in native code and does not hear the first.
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if number in passed_on else number)
        passed_on.append(number)

    before = {}
    with contextlib.suppress(ValueError):  # not the main thread
        for s in handled:
            before[s] = signal.signal(s, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)
    try:
        _, status = os.waitpid(child, 0)
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
    if os.WIFEXITED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    if passed_on:
        return 128 + passed_on[0]
    print(f"minihlo: {subject}: {_explain(number, bool(shared[0]))}", file=sys.stderr)
    return _CRASH


def _explain(number: int, parsing: bool) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGKILL:
        return f"killed ({name}), most likely because memory ran out"
    if parsing:
        return f"the MLIR parser in jaxlib died on it ({name}); the file is not a valid program"
    return f"the process died ({name}) while the program ran"


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
