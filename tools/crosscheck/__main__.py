"""`python -m tools.crosscheck`: compares the peers with the tables of divergences; --update writes the tables anew.

`ops` compares op by op on every code and pair of codes, `programs` the functions of mlir_tests/. The default is both.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import function_compare, functions
from .compare import compare
from .function_table import FUNCTION_DIVERGENCES
from .peers import PEERS, installed
from .rows import Table
from .table import DIVERGENCES


def _ops() -> tuple[Sequence[Any], Sequence[str]]:
    differences = compare()
    return differences.rows, differences.missing


def _programs() -> tuple[Sequence[Any], Sequence[str]]:
    return function_compare.all_rows(functions.files()), ()


_WHAT: dict[str, tuple[Callable[[], tuple[Sequence[Any], Sequence[str]]], Table[Any]]] = {
    "ops": (_ops, DIVERGENCES),
    "programs": (_programs, FUNCTION_DIVERGENCES),
}


def _check(what: str, update: bool) -> bool:
    """Whether a table is current and every case has a known cause; with `update`, after writing it."""
    run, table = _WHAT[what]
    rows, missing = run()
    versions, known = table.load() if table.path.exists() else ({}, ())
    lines = [*table.differences(known, rows), *missing]
    current = installed(p.name for p in PEERS.values() if what == "ops" or p.is_in_programs)
    if versions != current:
        lines.insert(0, f"the table is about {versions}, and this is {current}")
    for line in lines:
        print(line)
    unexplained = [r for r in rows if not r.cause]
    print(f"{what}: {len(rows)} rows; {len(lines)} differ from the table; {len(unexplained)} without a cause")
    if update and not missing and not unexplained:
        table.path.write_text(table.dump(current, rows))
        print(f"{table.path} is written; `git diff` it, then run `make generate`")
        return True
    return not lines and not unexplained


def main() -> int:
    """Run the command: 1 if a table is not current, or a case has no known cause."""
    parser = argparse.ArgumentParser(prog="python -m tools.crosscheck", description=__doc__)
    parser.add_argument("what", nargs="?", choices=list(_WHAT), help="which comparison (default: both)")
    parser.add_argument("--update", action="store_true", help="write the table; look at what changed before you commit")
    options = parser.parse_args()
    absent = sorted({p.package for p in PEERS.values() if p.version is None})
    if absent:
        parser.error(f"expected all peers to be installed, got none of {', '.join(absent)}")
    held = [_check(what, options.update) for what in ([options.what] if options.what else _WHAT)]
    return int(not all(held))


if __name__ == "__main__":
    sys.exit(main())
