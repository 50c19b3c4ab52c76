"""Child processes: `Child` starts one, `Worker` asks one, `share` distributes tasks, `serve` is a child's own side.

A child ends with this process, however it ends. Requests and answers are messages (see `messages`), which are data; the
header of an answer is a pair: "results" or the kind of an error, and a value or its text.

A child has a process group of its own: Ctrl-C in the terminal reaches this process only. The group is that of a shell,
started before, which waits for the end of a pipe that only this process holds, and kills the group. So there is no
moment at which the child runs unguarded. (A thread of the child could not guard it: it does not run while native code
holds Python's lock. Linux can kill a child with the thread that started it, but not what the child has started.)

`python -m` and `python -c` search the current directory for modules first, so they would run a `numpy.py` beside the
programs. A child is therefore started with `-P`, and with `-I`, `-E` and `-s` if this process has them. If a backend is
a Python object (`MODULE:ATTR`), its child adds the current directory to the path itself, after its own imports.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, TypeVar

Task = TypeVar("Task")
Found = TypeVar("Found")
Asked = TypeVar("Asked", bound="Worker")

#: Options of Python that exclude modules, by the flag of `sys.flags` that is set if this process has them.
_STRICTNESS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s"}

#: Waits for the end of the input, and kills the child that it names, and its own process group.
_GUARD = "read child; read rest; kill -s KILL $child 0"

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


class Ended(Exception):
    """A child ended, with an exit status `code`, before it gave an answer."""

    def __init__(self, code: int, words: str = "") -> None:
        super().__init__(f"{describe_end(code)}: {words or 'it wrote no message'}")
        self.code = code


class Child:
    """A child process with pipes for its standard input and output. Its standard error goes to a file.

    Raises OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self.log = ""  #: after its end: the last of its standard error
        self._log = _log_file()
        self._guard, self._held = _start_guard()
        pipe = subprocess.PIPE
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=self._log, env=environment,
                process_group=self._guard.pid if self._guard is not None else 0,
            )  # fmt: skip
        except BaseException:
            self._end_guard()
            self._log.close()
            raise
        if self._guard is not None:  # the child may leave the group
            with contextlib.suppress(BrokenPipeError):
                os.write(self._held, b"%d\n" % self.process.pid)
        self._group = self._guard.pid if self._guard is not None else self.process.pid

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
        """Kill the child and the processes of its group if they still run. Returns its exit status."""
        self._kill()
        self.process.kill()
        return self.wait()

    def wait(self) -> int:
        """Close the pipes to the child and wait for its end. Returns its exit status; after some time, it is killed."""
        with contextlib.suppress(BrokenPipeError), self.process:  # closes its pipes
            try:
                self.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._kill()
        self._kill()  # what it has started
        self._end_guard()
        self._close_log()
        return self.process.returncode

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._group, signal.SIGKILL)

    def death(self) -> Ended:
        """Wait for the end of the child and describe it."""
        return Ended(self.wait(), last_words(self.log))

    def _close_log(self) -> None:
        with contextlib.suppress(ValueError):  # closed already
            self._log.seek(max(self._log.seek(0, os.SEEK_END) - _WORDS, 0))
            self.log = self._log.read().decode(errors="replace").strip()
            self._log.close()

    def _end_guard(self) -> None:
        guard, self._guard = self._guard, None
        if guard is not None:
            guard.kill()
            guard.wait()
            if self._held in _guarding:  # not in a process that this one has forked
                _guarding.discard(self._held)
                os.close(self._held)


def _start_guard() -> tuple[subprocess.Popen[bytes] | None, int]:
    """Start the shell that guards a child. Returns its process and the pipe that keeps it waiting; None if there is no
    shell.
    """
    receive, send = os.pipe()
    try:
        null = subprocess.DEVNULL
        command = ["/bin/sh", "-c", _GUARD]
        guard = subprocess.Popen(command, stdin=receive, stdout=null, stderr=null, process_group=0)
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


class Worker:
    """A child that answers requests (see `serve`): started by the first, and again after its end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        self._command, self._environment = command, environment
        self.child: Child | None = None
        self.is_stopped = False

    def ask(self, head: Any, arrays: Sequence[Any] = (), seconds: float | None = None) -> tuple[Any, list[Any]]:
        """Send a request, and return its first answer.

        Raises OSError if the child cannot be started, and otherwise as `answer`.
        """
        with self._ending():
            if self.child is None:
                self.child = Child(self._command, self._environment)
            if self.is_stopped:  # before there was a child
                self.child.end()
            self.child.send(head, arrays)
        return self.answer(seconds)

    def answer(self, seconds: float | None = None) -> tuple[Any, list[Any]]:
        """Return the next answer.

        Raises Ended, TimeoutError after the time, and MessageError for other data; the child has then ended.
        """
        with self._ending():
            assert self.child is not None
            return self.child.receive(seconds)

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        try:
            yield
        except EOFError:
            child, self.child = self.child, None
            assert child is not None
            raise child.death() from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the child. Another request starts it again."""
        child, self.child = self.child, None
        if child is not None:
            child.end()

    def stop(self) -> None:
        """End the child, for good; another thread may wait for its answer."""
        self.is_stopped = True
        if self.child is not None:
            self.child.end()


def serve(answer: Callable[[Any, list[Any]], Iterable[tuple[Any, Sequence[Any]]]]) -> None:
    """Answer the requests on standard input until it ends. Other output of this process goes to standard error.

    Args:
        answer: takes the header and the arrays of a request, and yields those of its answers.
    """
    from . import memory, messages

    memory.without_core_file()
    requests, answers = messages.from_stream(sys.stdin.buffer), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with contextlib.suppress(EOFError):
        while True:
            for head, arrays in answer(*messages.read(requests)):
                try:
                    messages.write(answers, head, arrays)
                except messages.MessageError as error:
                    messages.write(answers, ("died", str(error)))


def share(
    work: Sequence[Task], pool: Sequence[Asked], run: Callable[[Asked, Task], Found]
) -> Iterator[tuple[int, Found]]:
    """Yield the index of each task with the result of `run` for it, in order of completion. Raises the first error.

    A free worker takes the next task; a thread of this process waits for each. At the end, after an error too, all
    workers are stopped.
    """
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for place in range(len(work)):
        waiting.put(place)
    done: queue.SimpleQueue[tuple[int, Found] | BaseException] = queue.SimpleQueue()

    def take(worker: Asked) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                place = waiting.get_nowait()
                try:
                    done.put((place, run(worker, work[place])))
                except BaseException as error:
                    done.put(error)
                    return

    threads = [threading.Thread(target=take, args=(w,), daemon=True) for w in pool]
    try:
        for t in threads:
            t.start()
        for _ in work:
            outcome = done.get()
            if isinstance(outcome, BaseException):
                raise outcome
            yield outcome
    finally:
        for worker in pool:
            worker.stop()
        deadline = time.monotonic() + _PATIENCE / 2
        for t in filter(threading.Thread.is_alive, threads):
            t.join(max(deadline - time.monotonic(), 0))  # threads must not run while Python shuts down


def run(command: Sequence[str], data: bytes = b"", seconds: float | None = None) -> tuple[int, bytes, str]:
    """Run a command with `data` on standard input. Returns its exit status, its output, and the last of its errors.

    Raises TimeoutError after the time, when the command and what it has started have been killed.
    """
    child = Child(command)
    try:
        output, _ = child.process.communicate(data, seconds)
    except subprocess.TimeoutExpired:
        raise TimeoutError from None
    finally:
        child.end()
    return child.process.returncode, output, child.log


def last_words(text: str) -> str:
    """Return the last line that describes an error, or else the last line."""
    lines = [x.strip() for x in text.splitlines() if x.strip()]
    errors = [x for x in lines if any(w in x for w in ("rror", "ssertion", "Check failed", "UNREACHABLE", "LLVM"))]
    return " ".join((errors or lines or [""])[-1].split())[:300]


def describe_end(code: int) -> str:
    """Describe the exit status of a process."""
    if code >= 0:
        return f"ended with exit status {code}"
    try:
        return f"died ({signal.Signals(-code).name})"
    except ValueError:
        return f"died (signal {-code})"


def _log_file() -> IO[bytes]:
    """Return a file for the standard error of a child; the null device if there is no temporary directory."""
    import tempfile  # imported here, so that commands start quickly

    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
