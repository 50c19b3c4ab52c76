"""Tables of divergences as TOML files, one row a line, with their validation."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar


class OrderedKey(Protocol):
    """A row."""

    def order(self) -> tuple[str, ...]:
        """The key of the row in its table."""
        ...


Row = TypeVar("Row", bound=OrderedKey)


class Table(Generic[Row]):
    """A table in a file: its head, and the conversion between rows and lines of TOML."""

    def __init__(self, path: Path, head: str, line: Callable[[Row], str], row: Callable[[dict[str, Any]], Row]) -> None:
        self.path, self._head, self._line, self._row = path, head, line, row

    def load(self) -> tuple[dict[str, str], tuple[Row, ...]]:
        """The versions of packages in the table, and its rows."""
        data = tomllib.loads(self.path.read_text())
        return data["versions"], tuple(map(self._row, data["rows"]))

    def dump(self, versions: dict[str, str], rows: Iterable[Row]) -> str:
        """The text of the file."""
        # Arrays of tables would take a dozen lines a row.
        lines = [self._head, "rows = [", *(f"  {self._line(r)}," for r in sorted(rows, key=lambda r: r.order())), "]"]
        lines += ["", "[versions]", *(f'{package} = "{v}"' for package, v in sorted(versions.items())), ""]
        return "\n".join(lines)

    def differences(self, known: Iterable[Row], result: Iterable[Row]) -> list[str]:
        """The errors of the known rows, a line for each."""
        before = {r.order(): r for r in known}
        now = {r.order(): r for r in result}
        lines = []
        for key in sorted(before.keys() | now.keys()):
            old, new = before.get(key), now.get(key)
            if old is None and new is not None:
                lines.append(f"not in the table: {self._line(new)}")
            elif new is None and old is not None:
                lines.append(f"no longer happens: {self._line(old)}")
            elif old != new and old is not None and new is not None:
                lines.append(f"changed: {self._line(old)}\n     now: {self._line(new)}")
        return lines
