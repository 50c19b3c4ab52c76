"""`minihlo test`: runs .mlir files in several processes, prints failures as they occur, and a table of results."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InputError, escape
from ..system.child import Ended, Worker, describe_end, python, share
from ..system.isolate import STOPPED
from .terminal import print_table, progress_bar


@dataclasses.dataclass
class Outcome:
    """The outcome of one program of a file."""

    path: str
    line: int  #: of the file, where the program begins
    failure: str | None

    def __str__(self) -> str:
        """The failure, with its place first."""
        failure = self.failure or ""
        return failure if failure.startswith(f"{self.path}:") else f"{self.path}:{self.line}: {failure}"


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if any program fails."""
    files = find_files(options.paths)
    outcomes: list[Outcome] = []
    began = time.monotonic()
    jobs = min(options.jobs or os.cpu_count() or 1, len(files))
    function = None if options.function is None else options.function.removeprefix("@")
    with _ending_workers(), progress_bar(len(files)) as show:
        for done, finished in enumerate(run_files(files, jobs, options.timeout, options.max_steps, function), 1):
            outcomes += finished
            for outcome in finished:
                if outcome.failure:
                    print(outcome, flush=True)
            show(done, "files")
    if function is not None and not outcomes:
        raise InputError(f"no function @{escape(function)} in {len(files)} file{'s' * (len(files) != 1)}")
    _print_scores(files, outcomes, time.monotonic() - began)
    return int(any(o.failure for o in outcomes))


def find_files(paths: list[str]) -> list[str]:
    """Return the given .mlir files and those in the given folders, in order. Raises InputError if there are none."""
    files: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(str(p) for p in Path(path).rglob("*.mlir") if p.is_file())
            if not inside:
                raise InputError(f"{path}: expected a folder with .mlir files, got none")
            files.update(dict.fromkeys(inside))
        elif os.path.exists(path):
            files[path] = None
        else:
            raise InputError(f"{path}: No such file or directory")
    return list(files)


def run_files(
    files: list[str],
    jobs: int,
    timeout: float | None = None,
    max_steps: int | None = None,
    function: str | None = None,
) -> Iterator[list[Outcome]]:
    """Yield the outcomes of the functions of each file, as files finish."""
    pool = [_Worker({"timeout": timeout, "max_steps": max_steps, "function": function}) for _ in range(jobs)]
    return (outcomes for _, outcomes in share(files, pool, _Worker.run))


class _Worker(Worker):
    """A worker process, which is started again when it dies."""

    def __init__(self, limits: dict[str, Any]) -> None:
        super().__init__(python("-m", f"{__package__}.worker", json.dumps(limits)))
        self._timeout = limits["timeout"]

    def run(self, path: str) -> list[Outcome]:
        """Return the outcomes of the functions of a file. A crash is a failure of the function that was running."""
        outcomes: list[Outcome] = []
        skip = 0
        while not self.is_stopped:
            line: int | None = None
            try:
                (word, value), _ = self.ask([path, skip])
                while word != "end":
                    if word == "start":
                        line, skip = value[0], value[1] + 1
                    else:
                        outcomes.append(Outcome(path, line or 1, value))
                        line = None
                    (word, value), _ = self.answer()
                break
            except Ended as end:
                if self.is_stopped:
                    break
                timed_out = -end.code == signal.SIGALRM  # the worker sets this alarm
                why = STOPPED.format(self._timeout) if timed_out else f"the process {describe_end(end.code)}"
                outcomes.append(Outcome(path, line or 1, why))
                if line is None:  # it died between programs; another request might never end
                    break
        return outcomes


@contextlib.contextmanager
def _ending_workers() -> Iterator[None]:
    """Turn signals that end this process into exceptions, so that no worker is left behind."""
    before = {}
    with contextlib.suppress(ValueError):  # not the main thread
        for s in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            before[s] = signal.signal(s, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)


def _print_scores(files: list[str], outcomes: list[Outcome], seconds: float) -> None:
    rows = []
    folders = list(dict.fromkeys(os.path.dirname(f) or "." for f in files))
    for folder in folders:
        in_folder = [o for o in outcomes if (os.path.dirname(o.path) or ".") == folder]
        rows.append(_row(folder, [f for f in files if (os.path.dirname(f) or ".") == folder], in_folder))
    if len(folders) > 1:
        rows.append(_row("total", files, outcomes))
    print_table(["folder", "files", "programs", "passed", "failed"], rows)
    print(f"{len(outcomes)} program{'' if len(outcomes) == 1 else 's'} in {seconds:.1f} s")


def _row(name: str, files: list[str], outcomes: list[Outcome]) -> list[str]:
    failed = sum(o.failure is not None for o in outcomes)
    return [name, *map(str, (len(files), len(outcomes), len(outcomes) - failed, failed))]
