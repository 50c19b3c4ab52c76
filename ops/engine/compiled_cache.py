"""The directory where compiled kernels are kept from one process to the next.

numba reads its cache with pickle and runs machine code out of it. So a file is read only from a directory that belongs
to the user and to which no one else may write, and only if it is, byte for byte, what was written: beside each file
stands its SHA-256. A damaged file is removed, and the kernel is compiled again. Where there is no such directory
(no home, one that cannot be written, a full disk), kernels are compiled in each process.

The directory is `minihlo` in NUMBA_CACHE_DIR if that is set, else in the user's directory of caches: XDG_CACHE_HOME or
`~/.cache`, `~/Library/Caches` on macOS, LOCALAPPDATA on Windows. What numba reads from a `.numba_config.yaml` of the
current directory does not move it. Each kernel has a directory for each signature: processes that compile two of them
at once would otherwise overwrite each other's files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_SEAL = ".sha256"


def compiled(
    numba: Any, function: Callable[..., Any], signature: Any, name: str, *, as_c: bool = False, **options: Any
) -> Any:
    """`function` compiled for one signature, from the directory `name` of the cache if it is there.

    numba is the module. With `as_c` it is compiled for C, and has an `address`. Raises what numba raises where the
    function cannot be compiled.
    """

    def made(cache: bool) -> Any:
        if as_c:
            return numba.cfunc(signature, cache=cache, **options)(function)
        return numba.njit([signature], cache=cache, **options)(function)

    folder = _folder(name)
    if folder is not None:
        try:
            _remove_damaged(folder)
            with _looked_up_in(numba, folder):
                dispatcher = made(True)
            _seal(folder)
            return dispatcher
        except Exception:  # numba and pickle raise whatever they like
            shutil.rmtree(folder, ignore_errors=True)
    return made(False)


def _folder(name: str) -> Path | None:
    """The directory of a kernel, which is made; None where there is none that is the user's alone."""
    base = _base()
    if base is None:
        return None
    try:
        base.mkdir(parents=True, exist_ok=True)
        folder = base / "minihlo"
        for part in ("", name):
            folder /= part
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(folder):
                return None
    except OSError:
        return None
    return folder


def _base() -> Path | None:
    """The user's directory of caches; None where the environment names none."""
    variables = ["NUMBA_CACHE_DIR"] + {"win32": ["LOCALAPPDATA"], "darwin": []}.get(sys.platform, ["XDG_CACHE_HOME"])
    for variable in variables:
        path = os.environ.get(variable, "")
        if os.path.isabs(path):  # the XDG specification has relative ones ignored
            return Path(path)
    home = os.path.expanduser("~")
    if not os.path.isabs(home):  # `~` itself: there is no home directory
        return None
    return Path(home, "Library", "Caches") if sys.platform == "darwin" else Path(home, ".cache")


def _is_private(folder: Path) -> bool:
    if not hasattr(os, "geteuid"):
        return True  # Windows: the user's profile is the user's alone
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.nb[ci]") if path.is_file()]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _remove_damaged(folder: Path) -> None:
    """Remove the files that are not as they were written."""
    for path in _files(folder):
        try:
            sealed = Path(f"{path}{_SEAL}").read_text(encoding="ascii")
        except (OSError, ValueError):
            sealed = ""
        if sealed != _digest(path):
            path.unlink(missing_ok=True)


def _seal(folder: Path) -> None:
    """Write the digest of each file beside it, in one step, as other processes may read it meanwhile."""
    with contextlib.suppress(OSError):  # without it the file is compiled again next time
        for path in _files(folder):
            seal, digest = Path(f"{path}{_SEAL}"), _digest(path)
            if not seal.is_file() or seal.read_bytes() != digest.encode():
                part = Path(f"{seal}.{os.getpid()}")
                part.write_text(digest, encoding="ascii")
                part.replace(seal)


@contextlib.contextmanager
def _looked_up_in(numba: Any, folder: Path) -> Iterator[None]:
    """Within it numba keeps what it compiles in a directory, and nowhere else."""
    config = numba.config
    config.reload_config()  # as the compiler does; the variables of the environment may have changed
    before = {name: getattr(config, name) for name in ("CACHE_DIR", "CACHE_LOCATOR_CLASSES")}
    config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = str(folder), "UserProvidedCacheLocator"
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)
