"""Runs the tester on backends and keeps the results for the gallery: `python -m tools.gallery [BACKEND…]`.

Without a name it runs all backends of `BACKENDS`, one after the other, which takes half an hour. `docs/gallery` has a
file for each run, without the largest rows and curves. `make docs` makes the pages.
"""

from __future__ import annotations

import dataclasses
import gzip
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from minihlo.interp.conform.result import FAIL, CaseResult, Report, dumps, load

FOLDER = Path(__file__).parent.parent / "docs" / "gallery"
#: The backends for CPUs that can be installed as packages.
BACKENDS = ("minihlo", "jax:cpu", "reference", "ml_dtypes", "onnx", "onnxruntime", "torch:cpu")
#: Longer rows and curves are left out: they are most of a file, and the same fault shows in shorter ones.
_ROW, _CURVE = 64, 256


def name(report: Report) -> str:
    """The name of a run's file: the backend, and the version of its last package."""
    run = report.run
    version = list(run.versions.items())[-1]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", f"{run.backend}-{version[0]}-{version[1]}") + ".json.gz"


def trim(report: Report) -> Report:
    """The report with pictures of the first failing form of a signature alone, and without long rows and curves."""
    drawn: set[str] = set()
    cases = []
    for case in report.cases:
        cases.append(_trim_case(case, case.signature not in drawn))
        if case.verdict == FAIL:
            drawn.add(case.signature)
    return Report(report.run, cases)


def _trim_case(case: CaseResult, is_first: bool) -> CaseResult:
    short = [f for f in case.failures if all(len(codes) <= _ROW for codes in f.operands)]
    if case.verdict != FAIL:
        return dataclasses.replace(case, map=None, curve=None, failures=short[:1])
    short = short or case.failures[:1]
    if not is_first:
        return dataclasses.replace(case, map=None, curve=None, failures=short)
    curve = case.curve if case.curve is not None and len(case.curve.codes) <= _CURVE else None
    return dataclasses.replace(case, curve=curve, failures=short)


def keep(report: Report) -> Path:
    """Writes a report to the gallery, replacing that of the same backend and version."""
    path = FOLDER / name(report)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(dumps(trim(report)).encode(), 9, mtime=0))
    return path


def main() -> int:
    for backend in sys.argv[1:] or BACKENDS:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            command = [sys.executable, "-m", "minihlo.interp.cli", "conform", backend, "--json", str(result)]
            if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode not in (0, 1):
                return 1
            print(keep(load(result)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
