"""Writes mlir_tests/: `python -m tools.mlir_tests [OP …]`.

With `--check` nothing is written; the exit status says whether the files are current. With `--table` only the table of
ops and formats is printed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import sys
import time
from pathlib import Path

from . import catalog, coverage
from .elementwise import SEED
from .write import make


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mlir_tests")
    parser.add_argument("ops", nargs="*", metavar="OP", help="such as add or chlo.acos (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; tell whether the files are current")
    parser.add_argument("--table", action="store_true", help="write nothing; print how many functions test what")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.table:
        print(coverage.table())
        return 0
    began = time.monotonic()
    wanted = catalog.files()
    if options.ops:
        names = {n if "." in n or n in wanted.values() else f"stablehlo.{n}" for n in options.ops}
        wanted = {path: name for path, name in wanted.items() if name in names}
    context = multiprocessing.get_context("spawn")
    stale: list[Path] = []
    with concurrent.futures.ProcessPoolExecutor(options.jobs, context) as pool:
        for path, text in zip(wanted, pool.map(make, wanted.values()), strict=True):
            if not path.exists() or path.read_text() != text:
                stale.append(path)
                if not options.check:
                    path.write_text(text)
    strays = set() if options.ops else set(catalog.FOLDER.glob("*.mlir")) - set(wanted)
    for path in strays:
        if not options.check:
            path.unlink()
    changed = [*stale, *sorted(strays)]
    reported = ", ".join(p.name for p in changed[:10]) + (" …" if len(changed) > 10 else "")
    seconds = time.monotonic() - began
    print(f"{len(wanted)} files in {seconds:.0f} s, seed {SEED}; {len(changed)} not current: {reported or 'none'}")
    return int(options.check and bool(changed))


if __name__ == "__main__":
    sys.exit(main())
