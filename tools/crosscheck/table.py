"""The table of known divergences: `divergences.toml`, one row a line."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PATH = Path(__file__).parent.parent / "divergences.toml"

_HEAD = """\
# What differs from minihlo's exact results, on every code and pair of codes. Written by `python -m tools.crosscheck
# --update`; the tests hold it. Why each cause is what it is stands in tools/crosscheck/causes_*.py, and rendered in
# DIVERGENCES.md. Codes are written in hexadecimal: the operands, the peer's result and the exact one.
"""


@dataclasses.dataclass(frozen=True)
class Row:
    """The cases of one op on one type in which a peer differs for one cause, and the first of them."""

    peer: str
    op: str
    operand: str
    result: str
    cause: str  #: empty where none is known
    cases: int
    example: tuple[int, ...]
    got: int
    expected: int
    ulp: int = 0  #: of a cause that is a matter of accuracy: how far off the result is at most

    def order(self) -> tuple[str, ...]:
        return self.peer, self.cause, self.op, self.operand, self.result

    @property
    def name(self) -> str:
        """What it is about, for messages."""
        op = f"{self.op} to {self.result}" if self.op == "convert" else self.op
        return f"{self.peer} {op} of {self.operand}"


def load(path: Path = PATH) -> tuple[dict[str, str], tuple[Row, ...]]:
    """The versions that the table is about, and its rows."""
    data = tomllib.loads(path.read_text())
    return data["versions"], tuple(_row(r) for r in data["rows"])


def dump(versions: dict[str, str], rows: Iterable[Row]) -> str:
    """The text of a table."""
    lines = [_HEAD, "[versions]", *(f'{package} = "{v}"' for package, v in sorted(versions.items())), ""]
    # Arrays of tables would take a dozen lines a row.
    lines = [_HEAD, "rows = [", *(f"  {_line(r)}," for r in sorted(rows, key=Row.order)), "]", "", *lines[1:]]
    return "\n".join(lines)


def _line(row: Row) -> str:
    codes = ", ".join(_hex(c) for c in row.example)
    parts = [f'{f} = "{getattr(row, f)}"' for f in ("peer", "cause", "op", "operand", "result")]
    parts += [f"cases = {row.cases}", f"example = [{codes}]", f"got = {_hex(row.got)}", f"exact = {_hex(row.expected)}"]
    parts += [f"ulp = {row.ulp}"] * (row.ulp > 0)
    return "{ " + ", ".join(parts) + " }"


def _hex(code: int) -> str:
    text = f"{code:X}"
    return f"0x{text.zfill(2 if len(text) <= 2 else -(-len(text) // 4) * 4)}"


def _row(data: dict[str, Any]) -> Row:
    names = ("peer", "op", "operand", "result", "cause", "cases")
    plain = {name: data[name] for name in names}
    return Row(**plain, example=tuple(data["example"]), got=data["got"], expected=data["exact"], ulp=data.get("ulp", 0))


def differences(known: Iterable[Row], found: Iterable[Row]) -> list[str]:
    """What the table has wrong, a line for each."""
    before = {r.order(): r for r in known}
    now = {r.order(): r for r in found}
    lines = []
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if old is None and new is not None:
            lines.append(f"not in the table: {_line(new)}")
        elif new is None and old is not None:
            lines.append(f"no longer happens: {_line(old)}")
        elif old != new and old is not None and new is not None:
            lines.append(f"changed: {_line(old)}\n     now: {_line(new)}")
    return lines
