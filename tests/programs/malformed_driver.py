"""Parses each file given in the arguments in a child of its own and prints, as JSON, what a user would have seen.

Run as a script by `test_malformed.py`: one process for all files, so that jaxlib is imported once.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from minihlo.interp.errors import ProgramError
from minihlo.interp.parse import parser
from minihlo.interp.system import isolate


def read(path: Path) -> int:
    data = path.read_bytes()
    try:
        parser.parse(data, path.name)
    except ProgramError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


def main() -> None:
    results = {}
    stderr = os.dup(2)
    for name in sys.argv[1:]:
        path = Path(name)
        with tempfile.TemporaryFile() as seen:
            os.dup2(seen.fileno(), 2)
            code = isolate.run_isolated(lambda path=path: read(path), path.name)
            os.dup2(stderr, 2)
            seen.seek(0)
            results[path.name] = (code, seen.read().decode(errors="replace"))
    print(json.dumps(results))


main()
