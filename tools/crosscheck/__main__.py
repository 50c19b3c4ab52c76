"""`python -m tools.crosscheck`: says what is not as the table of divergences has it; --update writes the table anew."""

from __future__ import annotations

import argparse
import sys

from .compare import compare
from .peers import PEERS
from .table import PATH, differences, dump, load


def main() -> int:
    """Run the command: 1 where the table is not what is found, or a case has no known cause."""
    parser = argparse.ArgumentParser(prog="python -m tools.crosscheck", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write the table; look at what changed before you commit")
    options = parser.parse_args()
    found = compare()
    versions, known = load() if PATH.exists() else ({}, ())
    lines = [*differences(known, found.rows), *found.missing]
    current = {p.package: p.version for p in PEERS.values()}
    if versions != current:
        lines.insert(0, f"the table is about {versions}, and this is {current}")
    for line in lines:
        print(line)
    unexplained = [r for r in found.rows if not r.cause]
    print(f"{len(found.rows)} rows; {len(lines)} not as the table has it; {len(unexplained)} without a cause")
    if options.update and not found.missing and not unexplained:
        PATH.write_text(dump(current, found.rows))
        print(f"{PATH} is written; `git diff` it, then run `make generate`")
        return 0
    return int(bool(lines or unexplained))


if __name__ == "__main__":
    sys.exit(main())
