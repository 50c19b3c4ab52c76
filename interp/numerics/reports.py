"""Parts of every result: lines of Python, tables of text, numbers in words, and JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...ops import types
from .. import program
from ..errors import OutputError
from ..program import Location

#: Locations of code that is not the user's: Python's own, installed packages, and this package.
_LIBRARIES = (
    *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
    *(os.path.join(os.path.dirname(str(m.__file__)), "") for m in (program, types)),
)


def own_line(lines: Sequence[Location], fallback: Location) -> Location:
    """The innermost line outside of libraries."""
    own = (x for x in lines if x.line and not x.file.startswith(_LIBRARIES) and "-packages" not in x.file)
    return next(own, next((x for x in lines if x.line), fallback))


def short_place(line: Location) -> str:
    """The name of the file, without its folder, and the line."""
    return f"{line.file.rpartition('/')[2]}:{line.line}" if line.line else line.file


def text_table(rows: Sequence[Sequence[str]], right: int | None = None) -> str:
    """Rows of texts in columns of equal width; those from the number `right` on are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    align = [str.ljust if right is None or i < right else str.rjust for i in range(len(widths))]
    return "\n".join("  ".join(a(x, w) for a, x, w in zip(align, r, widths, strict=True)).rstrip() for r in rows)


def plain(x: Any) -> Any:
    """Records as data for JSON; numbers that it lacks are texts."""
    if isinstance(x, Location) or (isinstance(x, float) and not math.isfinite(x)):
        return str(x)
    if callable(data := getattr(x, "data", None)):
        return data()
    if dataclasses.is_dataclass(x):
        return plain(vars(x))
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    return list(map(plain, x)) if isinstance(x, list | tuple) else x


class Report:
    """A result with data."""

    def data(self) -> dict[str, Any]:
        """The result as a dictionary that `json.dump` takes; docs/numerics.md describes it."""
        raise NotImplementedError

    def to_json(self, path: Any = None, *, indent: int | None = 1) -> str:
        """The result as JSON, which is also written to a file if `path` is given. Raises OutputError if that fails."""
        return write(path, json.dumps(self.data(), indent=indent, allow_nan=False))


def write(path: Any, text: str) -> str:
    """Writes a text to a file, if there is a path, and returns it. Raises OutputError."""
    if path is not None:
        try:
            Path(path).write_text(text, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror or error}") from None
    return text
