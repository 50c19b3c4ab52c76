"""The formats that each op is tested in, according to the files themselves."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from . import catalog
from .numbers import TESTED


def functions_of(path: Path) -> list[str]:
    """The names of a file's test functions."""
    return re.findall(r"^func\.func @(\w+)\(", path.read_text(), re.MULTILINE)


def counts(path: Path) -> Counter[str]:
    """The number of a file's functions for each format."""
    return Counter(f for name in functions_of(path) for f in TESTED if f in name.split("_"))


def missing() -> list[str]:
    """The missing files of ops, and missing formats in files."""
    result = []
    for path, name in catalog.files().items():
        record = catalog.takes_floats().get(name)
        wanted = TESTED if record is None else catalog.formats_of(record)
        held = counts(path) if path.exists() else Counter()
        result += [f"{name} in {f}" for f in wanted if not held[f]]
    return result


def table() -> str:
    """The number of functions of each op's file for each format; a dot if the op does not take it."""
    heads = [f"{name:>{max(len(name), 3)}}" for name in TESTED]
    rows, totals = [], Counter()
    for path, name in catalog.files().items():
        held = counts(path) if path.exists() else Counter()
        totals += held
        cells = [f"{held[f] or '.':>{len(h)}}" for f, h in zip(TESTED, heads, strict=True)]
        rows.append(f"{name:<36} {' '.join(cells)}")
    last = f"{f'{len(rows)} ops':<36} {' '.join(f'{totals[f]:>{len(h)}}' for f, h in zip(TESTED, heads, strict=True))}"
    return "\n".join([f"{'functions':<36} {' '.join(heads)}", *rows, last])
