"""Starts child processes, which end with this process, however it ends. No other module of the package does.

A child has a session of its own: Ctrl-C in the terminal reaches this process only. A shell waits beside it for the end
of a pipe that only this process holds, and kills the child and the processes of its session. (A thread of the child
could not: it does not run while native code holds Python's lock. Linux can kill a child with the thread that started
it, but not what the child has started.)

`python -m` and `python -c` search the current directory for modules first, so they would run a `numpy.py` beside the
programs. A child is therefore started with `-P`, and with `-I`, `-E` and `-s` if this process has them. If a backend is
a Python object (`MODULE:ATTR`), its child adds the current directory to the path itself, after its own imports.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

#: Options of Python that exclude modules, by the flag of `sys.flags` that is set if this process has them.
_STRICTNESS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s"}

#: Reads the number of a process group, waits for the end of the input, and kills the group.
_GUARD = 'read group; read rest; kill -s KILL -- "-$group"'

#: The bytes of a log that are searched for an error.
_WORDS = 20_000
#: A child that has closed its output ends within so many seconds, or is killed.
_PATIENCE = 10.0

#: The ends of pipes whose closing kills a child; processes that this one forks must not hold them.
_guarding: set[int] = set()


def python(*arguments: str) -> list[str]:
    """Return the command that starts Python with `arguments`. Raises RuntimeError if `sys.executable` is unknown."""
    if not sys.executable:
        raise RuntimeError("sys.executable is empty, and a child process needs the path of Python")
    strict = [option for flag, option in _STRICTNESS.items() if getattr(sys.flags, flag)]
    return [sys.executable, "-P", *strict, *arguments]


class Child:
    """A child process with pipes for its standard input and output. Its standard error goes to a file.

    Raises OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.words = ""  #: after its end: the error that the child printed last
        self._log = log_file()
        self._guard, self._tell = _start_guard()
        pipe = subprocess.PIPE
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._log, env=environment, start_new_session=True
            )
        except BaseException:
            self._end_guard()
            self._log.close()
            raise
        if self._guard is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._tell, b"%d\n" % self.process.pid)

    def send(self, head: Any, arrays: Sequence[Any] = ()) -> None:
        """Send a message (see `messages`). Raises EOFError if the child has ended."""
        from . import messages

        assert self.process.stdin is not None
        try:
            messages.write(self.process.stdin, head, arrays)
        except BrokenPipeError:
            raise EOFError from None

    def receive(self, seconds: float | None = None) -> tuple[Any, list[Any]]:
        """Return the next message of the child.

        Raises EOFError if it ends before, TimeoutError after the time, MessageError for other data.
        """
        from . import messages

        deadline = None if seconds is None else time.monotonic() + seconds
        return messages.read(lambda size: self._exactly(size, deadline))

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not select.select([pipe], [], [], left)[0]:
                raise TimeoutError
            count = os.readv(pipe, [view[filled:]])
            if not count:
                raise EOFError
            filled += count
        return data

    def end(self) -> int:
        """Kill the child and the processes of its session if they still run. Returns its exit status."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # the number of a group is that of its first process
        self.process.kill()
        return self.wait()

    def wait(self, seconds: float = _PATIENCE) -> int:
        """Close the pipes to the child and wait for its end. Returns its exit status; after the time, it is killed."""
        with contextlib.suppress(BrokenPipeError), self.process:  # closes its pipes
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)  # what it has started
        self._end_guard()
        self._close_log()
        return self.process.returncode

    def death(self) -> str:
        """Wait for the end of the child and describe it, with the last words of its standard error."""
        code = self.wait()
        return f"{describe_end(code)}: {self.words or 'it wrote no message'}"

    def _close_log(self) -> None:
        with contextlib.suppress(ValueError):  # closed already
            self.words = last_words(read_end(self._log))
            self._log.close()

    def _end_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            if self._tell in _guarding:  # not in a process that this one has forked
                _guarding.discard(self._tell)
                os.close(self._tell)


def _start_guard() -> tuple[subprocess.Popen[bytes] | None, int]:
    """Start the shell that guards a child. Returns its process and the pipe to it, or None where there is no shell."""
    receive, send = os.pipe()
    try:
        null = subprocess.DEVNULL
        command = ["/bin/sh", "-c", _GUARD]
        guard = subprocess.Popen(command, stdin=receive, stdout=null, stderr=null, start_new_session=True)
    except FileNotFoundError:
        os.close(send)
        return None, -1
    except BaseException:
        os.close(send)
        raise
    finally:
        os.close(receive)
    _guarding.add(send)
    return guard, send


def _close_guarding() -> None:
    """Close the pipes to guards in a process that this one has forked: it must not keep their children alive."""
    while _guarding:
        with contextlib.suppress(OSError):
            os.close(_guarding.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_guarding)


def run(command: Sequence[str], data: bytes = b"", seconds: float | None = None) -> tuple[int, bytes, str]:
    """Run a command with `data` on standard input. Returns its exit status, its output, and its last words.

    Raises TimeoutError after the time, when the command and what it has started have been killed.
    """
    child = Child(command)
    try:
        output, _ = child.process.communicate(data, seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        child.end()
    return child.process.returncode, output, child.words


def last_words(text: str) -> str:
    """Return the last line that describes an error, or else the last line."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    errors = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
    return " ".join((errors or lines or [""])[-1].split())[:300]


def read_end(log: IO[bytes]) -> str:
    """Return the end of what a child has printed to a file."""
    log.seek(max(log.seek(0, os.SEEK_END) - _WORDS, 0))
    return log.read().decode(errors="replace")


def describe_end(code: int) -> str:
    """Describe the exit status of a process."""
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        return f"died ({signal.Signals(-code).name})"
    except ValueError:
        return f"died (signal {-code})"


def log_file() -> IO[bytes]:
    """Return a file for the standard error of a child; the null device if there is no temporary directory."""
    import tempfile  # imported here, so that commands start quickly

    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
