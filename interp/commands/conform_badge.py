"""Writes badges to the files that --badge names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..conform import files
from ..conform.report.badge import Badge
from ..errors import InputError


def check(paths: Sequence[str]) -> None:
    """Raises InputError for a file that is neither SVG nor JSON."""
    for path in paths:
        if Path(path).suffix not in (".svg", ".json"):
            raise InputError(f"--badge: expected a file named .svg or .json, got {path}")


def write(paths: Sequence[str], badge: Badge) -> None:
    """Write a badge to each file. Raises OutputError if one cannot be written."""
    for path in paths:
        files.write(path, badge.svg() if Path(path).suffix == ".svg" else badge.json())
