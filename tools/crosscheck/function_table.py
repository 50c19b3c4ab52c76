"""The table of known divergences in whole programs: `function_divergences.toml`, one row a line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from .rows import Table

_PATH = Path(__file__).parent.parent / "function_divergences.toml"

_HEAD = """\
# What functions of mlir_tests/ give elsewhere that is not what they check. Written by `python -m tools.crosscheck
# --update`; the tests hold it. A row is about one file, peer and cause. `functions` are named by what follows the
# file's name in theirs; `values` says how many of the values that each checks differ. Of functions that give no result
# there are none, and `says` is what the peer says. Why each cause is what it is stands in tools/crosscheck/, and
# rendered in docs/divergences.md.
"""


@dataclasses.dataclass(frozen=True)
class FunctionRow:
    """The functions of one file in which a peer differs for one cause."""

    peer: str
    cause: str  #: empty where none is known
    file: str
    functions: tuple[str, ...]
    values: tuple[int, ...] = ()  #: of each function; none where there are no results
    place: int = 0  #: of the example, which is of the first function: the index among the values it checks
    operands: tuple[int, ...] = ()  #: the codes of an elementwise op's operands there
    got: int = 0
    expected: int = 0
    ulp: int = 0  #: of a cause that is a matter of accuracy: how far off the result is at most
    says: str = ""

    def order(self) -> tuple[str, str, str]:
        return self.peer, self.cause, self.file


def _line(row: FunctionRow) -> str:
    parts = [f'{f} = "{getattr(row, f)}"' for f in ("peer", "cause", "file")]
    parts.append(f"functions = {json.dumps(row.functions)}")
    if not row.values:
        return "{ " + ", ".join([*parts, f"says = {json.dumps(row.says)}"]) + " }"
    parts += [f"values = {list(row.values)}", f"place = {row.place}"]
    parts += [f"operands = [{', '.join(map(_hex, row.operands))}]"] * bool(row.operands)
    parts += [f"got = {_hex(row.got)}", f"exact = {_hex(row.expected)}", *[f"ulp = {row.ulp}"] * (row.ulp > 0)]
    return "{ " + ", ".join(parts) + " }"


def _hex(code: int) -> str:
    return f"0x{code:02X}"


def _row(data: dict[str, Any]) -> FunctionRow:
    fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    return FunctionRow(**{"expected": fields.pop("exact", 0), **fields})


FUNCTION_DIVERGENCES = Table(_PATH, _HEAD, _line, _row)
