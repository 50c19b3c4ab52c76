"""The table of known divergences: `divergences.toml`, one row a line."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from .rows import Table

_PATH = Path(__file__).parent.parent / "divergences.toml"

_HEAD = """\
# What differs from minihlo's exact results, on every code and pair of codes. Written by `python -m tools.crosscheck
# --update`; the tests hold it. The causes stand in tools/crosscheck/causes.toml, and rendered
# in docs/divergences.md. Codes are written in hexadecimal: the operands, the peer's result and the exact one.
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


DIVERGENCES = Table(_PATH, _HEAD, _line, _row)
