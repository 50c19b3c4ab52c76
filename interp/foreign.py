"""Files that may come from anyone: read without waiting, and no more of them than any of ours has."""

from __future__ import annotations

import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import Any

#: The most bytes of a file, and the most values of its JSON: some ten times those of a whole run of the tester.
MOST_BYTES, MOST_VALUES = 1 << 27, 10_000_000
#: What may stand for constants whose data a program leaves out.
ELIDED = ("zeros", "sample")


def open_file(path: str | Path) -> BufferedReader:
    """Open a regular file. Raises OSError, and ValueError for a pipe or a device, which may never end."""
    file = open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise ValueError(f"{path}: expected a file, got a pipe or a device")
    return file


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file, decompressed if its name ends in .gz. Raises OSError, and ValueError."""
    with open_file(path) as file:
        data = file.read(most + 1)
    if str(path).endswith(".gz") and len(data) <= most:
        import gzip
        import io
        import zlib

        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: {error}") from None
    if len(data) > most:
        raise ValueError(f"{path}: expected at most {most:,} bytes, got more")
    return data


def parse_json(raw: bytes) -> Any:
    """Return the value of JSON in UTF-8. Raises ValueError, also if values are nested too deeply or too many."""
    most = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    if most > MOST_VALUES:
        raise ValueError(f"expected JSON of up to {MOST_VALUES:,} values, got about {most:,}")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError:
        raise ValueError("expected JSON, got a value that is nested too deeply") from None
