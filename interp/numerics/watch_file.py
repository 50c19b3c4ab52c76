"""The file of a watch: one JSON object a line, each written at once, and operands of failures in a folder beside it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from ..diff.report import OpReport
from ..errors import OutputError
from .reports import plain

#: Number of failures of one op that are written; the others are counted.
_EACH = 3
_FIELDS = ("op", "source", "types", "verdict", "elements", "differing", "notes")


class WatchFile:
    """Appends to a file. A line is written completely or not at all, however the program ends."""

    def __init__(self, path: str | os.PathLike[str], keep: int, memory: int) -> None:
        """The operands of the first `keep` failures are kept, up to `memory` bytes. Raises OutputError."""
        self.path, self._keep, self._room = Path(path), keep, memory
        self.folder = self.path.with_name(f"{self.path.name}.failures")
        self._kept = 0
        self._written: Counter[Any] = Counter()
        try:
            self._file = self.path.open("ab", buffering=0)
        except (OSError, ValueError) as error:
            raise OutputError(f"watch: {self.path}: {getattr(error, 'strerror', None) or error}") from None

    def write(self, event: str, **fields: Any) -> None:
        """Writes a line. If that fails, the line is lost: the watched program goes on."""
        line = {"event": event, "time": round(time.time(), 3), **fields}
        data = (json.dumps(plain(line), default=str) + "\n").encode()
        with contextlib.suppress(OSError):
            self._file.write(data)

    def failure(self, key: Any, report: OpReport, **fields: Any) -> None:
        """Writes that an op is wrong, and keeps its operands; the first times for each `key`."""
        self._written[key] += 1
        if self._written[key] > _EACH:
            return
        self.write(
            "failure",
            **fields,
            location=str(report.location),
            **{n: getattr(report, n) for n in _FIELDS},
            worst=[str(e) for e in report.worst],
            saved=self._save(report),
        )

    def _save(self, report: OpReport) -> str | None:
        size = sum(x.nbytes for x in report.inputs)
        if not report.program or self._kept >= self._keep or size > self._room:
            return None
        folder = self.folder / f"{self._kept}-{report.op.rpartition('.')[2]}"
        try:
            report.save(folder)
        except OSError:
            return None
        self._kept += 1
        self._room -= size
        return str(folder)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
