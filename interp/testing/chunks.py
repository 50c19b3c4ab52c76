"""The tests in an .mlir file: its parts between `// -----`, and the functions in them that can be run. Reads no MLIR.

So that listing the tests of a folder imports nothing and costs nothing, functions are found in the text.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

_SEPARATOR = re.compile("// ------*")
_STRING = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
_FUNCTION = re.compile(
    rf"{_STRING}|//[^\n]*|(?<![\w.$-])func(?:\.func)?\s+(?P<visibility>private|public)?\s*@(?P<name>{_STRING}|[\w.$-]+)\s*\("
)
_NOTHING = re.compile(r"\s*\)")
_CHECK = re.compile(rf"{_STRING}|//[^\n]*|(?P<check>(?<![\w$-])check\.(?:expect_)?\w+)")


@dataclasses.dataclass(frozen=True)
class Chunk:
    """One test: a function of a part of a file."""

    file: str
    text: str  #: the part
    line: int  #: of the file, where the part begins
    function: str
    function_line: int


def split(text: str) -> list[tuple[str, int]]:
    """Return the parts of a text between `// -----`, as MLIR's tools cut it, each with the number of its first line."""
    parts, line = [], 1
    for part in _SEPARATOR.split(text):
        parts.append((part, line))
        line += part.count("\n")
    return parts


def chunks(file: str | os.PathLike[str]) -> list[Chunk]:
    """The tests of a file, in order: of each part `@main`, else every public function.

    Raises OSError or UnicodeDecodeError where the file cannot be read as text.
    """
    result = []
    for part, line in split(Path(file).read_text(encoding="utf-8")):
        result += [Chunk(os.fspath(file), part, line, f.name, line + f.line) for f in entries(functions(part))]
    return result


@dataclasses.dataclass(frozen=True)
class Declared:
    """A function in a text."""

    name: str
    line: int  #: from 0
    is_public: bool
    has_arguments: bool


def functions(text: str) -> list[Declared]:
    """The functions in a text, in order."""
    return [
        Declared(
            m["name"].strip('"'),
            text.count("\n", 0, m.start()),
            m["visibility"] != "private",
            not _NOTHING.match(text, m.end()),
        )
        for m in _FUNCTION.finditer(text)
        if m["name"]
    ]


def entries(declared: list[Declared]) -> list[Declared]:
    """Those that are tests: `@main`, else every public function."""
    main = [f for f in declared if f.name == "main"]
    return main or [f for f in declared if f.is_public] or declared


def has_checks(text: str) -> bool:
    """Whether a program checks anything, so that running it is a test."""
    return "check." in text and any(m["check"] for m in _CHECK.finditer(text.replace('"check.', "check.")))
