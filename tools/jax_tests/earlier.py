"""Results of a file in an earlier page, if they are no longer stored: a run of all files takes hours."""

from __future__ import annotations

import re

from . import run

#: The sections that name tests which fail here alone.
_FAILURES = re.compile(r"^## (?:Failures|Unexplained).*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)


def results(page: str, file: run.File) -> tuple[run.Result, run.Result]:
    """The results of a file on JAX's CPU and here, by its row of a page; incomplete if that has no counts.

    A page names only the tests that fail here and not on the CPU. The others have made-up names.
    """
    start = re.escape(f"| `{file.name}` | {file.devices} | {file.cases} |")
    row = re.search(rf"^{start} (\d+(?: \| \d+){{5}}) \|$", page, re.MULTILINE)
    if row is None:
        return run.Result(), run.Result()
    named = dict(re.findall(rf"^- `{re.escape(file.name)}::(.*?)`(?:: (.*))?$", "".join(_FAILURES.findall(page)), re.M))
    counts = [int(n) for n in row[1].split(" | ")]
    both = []
    for names, numbers in (({}, counts[:3]), (named, counts[3:])):
        outcomes = dict.fromkeys(names, run.FAILED)
        for kind, number in zip((run.PASSED, run.FAILED, run.SKIPPED), numbers, strict=True):
            left = number - len(names) if kind == run.FAILED else number
            outcomes.update({f"({kind} {i})": kind for i in range(left)})
        both.append(run.Result(outcomes, names, is_complete=True, cases=file.cases, devices=file.devices))
    return both[0], both[1]
