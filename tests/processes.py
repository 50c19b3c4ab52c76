"""Processes that tests start: none outlives its test, and Ctrl-C reaches them whatever this process ignores."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

#: The variable that marks the processes of a test run; they inherit it.
MARK = "TEST_RUN_OF_MINIHLO"


def hear_signals() -> None:
    """Undo what `nohup` and a shell's `&` leave behind: signals that are ignored, by all children too.

    A handler of this process is none of theirs: they start with the default. This process goes on ignoring SIGHUP.
    """
    handlers = {"SIGINT": signal.default_int_handler, "SIGQUIT": signal.SIG_DFL, "SIGHUP": lambda *_: None}
    for name, handler in handlers.items():
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(number, handler)


@contextlib.contextmanager
def started(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process in a session of its own, with pipes for what it prints; it and its process group end with the block."""
    pipe = subprocess.PIPE
    options = {"stdout": pipe, "stderr": pipe, **options, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)


@contextlib.contextmanager
def commands_of(limit: float = 300) -> Iterator[Callable[..., tuple[Any, str, str]]]:
    """A function that runs command lines of minihlo and gives exit status, output and errors; warnings are errors.

    They run in one process, not this one: a command forks, which a process with the threads of JAX must not.
    """
    driver = [sys.executable, "-W", "error", "-m", "tests.command_driver"]
    pipe, root = subprocess.PIPE, Path(__file__).parent.parent
    with started(driver, stdin=pipe, stderr=None, text=True, cwd=root) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        watch = threading.Timer(limit, process.kill)  # what hangs ends as a failure
        watch.start()

        def run(*arguments: str) -> tuple[Any, str, str]:
            stdin.write(json.dumps(arguments) + "\n")
            stdin.flush()
            status, out, err = json.loads(stdout.readline())
            return status, out, err

        try:
            yield run
        finally:
            watch.cancel()


def marked(mark: str) -> dict[int, str]:
    """The processes that were started with this mark, and their command lines. Linux only; elsewhere none."""
    result = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_zombie = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            if not is_zombie and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                result[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return result


def end_all(mark: str, seconds: float = 10) -> list[str]:
    """End the marked processes; the command lines of those that do not end by themselves soon."""
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    for pid in left:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return list(left.values())


def run_minihlo(*arguments: str) -> int:
    """The exit status of the command in a process of its own, whose output `capfd` sees.

    The command forks, which a process that has JAX's threads must not do.
    """
    code = "import sys; from minihlo.interp.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-P", "-c", code, *arguments], timeout=300).returncode
