"""How a child Python is started. Nothing else in the package starts one.

`python -m` and `python -c` search the current directory for modules first, so that a `numpy.py` that lies beside the
programs would be run. A child is therefore started with `-P`, and as strictly as this process: with `-I`, `-E` and `-s`
where this one has them. Where a backend is a Python object (`MODULE:ATTR`), its child adds the current directory to the
path itself, after its own imports.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import IO

#: Options of Python that keep modules out, by the flag that says whether this process has them.
_STRICTNESS = {"isolated": "-I", "ignore_environment": "-E", "no_user_site": "-s"}


def python(*arguments: str) -> list[str]:
    """The command that starts Python on `arguments`. Raises RuntimeError where `sys.executable` is not known."""
    if not sys.executable:
        raise RuntimeError("sys.executable is empty, and a child process needs the path of Python")
    strict = [option for flag, option in _STRICTNESS.items() if getattr(sys.flags, flag)]
    return [sys.executable, "-P", *strict, *arguments]


def log_file() -> IO[bytes]:
    """A file for what a child says on standard error; one that forgets, where there is no temporary directory."""
    import tempfile  # not before a command's own process starts, which is to be quick

    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")


def without_core_file() -> None:
    """This process leaves no core file behind when it crashes."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):
        pass


def end_with_parent() -> None:
    """From now on this process, and its process group, end within a second of the process that started it.

    For a process that was started in a session of its own. Its parent may be killed and so unable to end it.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
