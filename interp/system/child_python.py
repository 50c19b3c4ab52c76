"""Starts child processes of Python. No other module of the package does.

`python -m` and `python -c` search the current directory for modules first, so they would run a `numpy.py` beside the
programs. A child is therefore started with `-P`, and with `-I`, `-E` and `-s` if this process has them. If a backend is
a Python object (`MODULE:ATTR`), its child adds the current directory to the path itself, after its own imports.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import IO

#: Options of Python that exclude modules, by the flag of `sys.flags` that is set if this process has them.
_STRICTNESS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s"}


def python(*arguments: str) -> list[str]:
    """Return the command that starts Python with `arguments`. Raises RuntimeError if `sys.executable` is unknown."""
    if not sys.executable:
        raise RuntimeError("sys.executable is empty, and a child process needs the path of Python")
    strict = [option for flag, option in _STRICTNESS.items() if getattr(sys.flags, flag)]
    return [sys.executable, "-P", *strict, *arguments]


def log_file() -> IO[bytes]:
    """Return a file for the standard error of a child; the null device if there is no temporary directory."""
    import tempfile  # imported here, so that commands start quickly

    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")


def without_core_file() -> None:
    """Make this process write no core file if it crashes."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):
        pass


def end_with_parent() -> None:
    """End this process and its process group within a second of the end of the process that started it.

    Call it in a process with a session of its own, whose parent cannot end it if the parent is killed.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
