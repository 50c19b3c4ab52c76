"""Runs a file of JAX's tests on a platform, in child processes, and keeps the outcome of each test."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import recorder

#: How a test can end; the last two are of one that took its process along, or was ended for its time.
PASSED, FAILED, SKIPPED, CRASHED, HUNG = "passed", "failed", "skipped", "crashed", "hung"
BAD = (FAILED, CRASHED, HUNG)
#: Seconds between two looks at a child.
_LOOK = 0.5
#: What a process may take before its first test, in seconds: imports and collection.
_START = 600


@dataclasses.dataclass(frozen=True)
class File:
    """A file of tests, with the number of devices, and of generated cases for each test."""

    name: str
    devices: int = 1
    cases: int = 10
    #: Tests that are not run, with the reason.
    left_out: tuple[tuple[str, str], ...] = ()


@dataclasses.dataclass
class Result:
    """The results of a file's tests on a platform: outcomes by test, and messages of failed ones."""

    outcomes: dict[str, str] = dataclasses.field(default_factory=dict)
    messages: dict[str, str] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0
    is_complete: bool = False
    #: How it was run, as in `File`.
    cases: int = 0
    devices: int = 0

    def count(self, *outcomes: str) -> int:
        return sum(outcome in outcomes for outcome in self.outcomes.values())

    @classmethod
    def load(cls, path: Path) -> Result:
        """The result kept in a file; an empty one where there is none."""
        return cls(**json.loads(path.read_text())) if path.exists() else cls()

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(dataclasses.asdict(self), indent=0, sort_keys=True))
        new.replace(path)


def path_of(results: Path, file: File, platform: str) -> Path:
    return results / platform / f"{file.name}.json"


def run(tests: Path, file: File, platform: str, results: Path, limit: float) -> Result:
    """Run the tests of a file that have no outcome yet. A test has `limit` seconds."""
    path = path_of(results, file, platform)
    result = Result.load(path)
    if (result.cases, result.devices) != (file.cases, file.devices):
        result = Result(cases=file.cases, devices=file.devices)
    while not result.is_complete:
        before = len(result.outcomes)
        code = _run_once(tests, file, platform, result, limit)
        # A process that dies is started again for the tests that are left, unless it dies before any.
        result.is_complete = code in (0, 1, 5) or len(result.outcomes) == before
        if code not in (0, 1, 5) and len(result.outcomes) == before:
            result.outcomes["(collection)"] = CRASHED
            result.messages["(collection)"] = f"the process ended with status {code} before the first test"
        result.save(path)
    return result


def _run_once(tests: Path, file: File, platform: str, result: Result, limit: float) -> int:
    """Start a process for the tests without an outcome, and add their results. Returns its exit status."""
    with tempfile.TemporaryDirectory() as folder:
        record, done = Path(folder) / "record", Path(folder) / "done"
        record.touch()
        done.write_text("\n".join([*result.outcomes, *(name for name, _ in file.left_out)]))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-p",
            recorder.__name__,
        ]
        start = time.monotonic()
        child = subprocess.Popen(
            [*command, f"{tests.name}/{file.name}"],
            cwd=tests.parent,
            env=_environment(file, platform, record, done),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            is_hung = _watch(child, record, limit)
        finally:
            child.kill()
            child.wait()
        result.seconds += time.monotonic() - start
        _read(record, result, HUNG if is_hung else CRASHED, limit)
        return child.returncode


def _environment(file: File, platform: str, record: Path, done: Path) -> dict[str, str]:
    root = Path(__file__).parent.parent.parent
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "MINIHLO_", "XLA_"))},
        "JAX_PLATFORMS": platform,
        "JAX_NUM_GENERATED_CASES": str(file.cases),
        "MINIHLO_NUM_DEVICES": str(file.devices),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")])),
        recorder.RECORD: str(record),
        recorder.DONE: str(done),
    }


def _watch(child: subprocess.Popen[Any], record: Path, limit: float) -> bool:
    """Wait for a child. Returns whether a test of it has lasted too long."""
    size, since, is_started = 0, time.monotonic(), False
    while child.poll() is None:
        time.sleep(_LOOK)
        if record.stat().st_size != size:
            size, since, is_started = record.stat().st_size, time.monotonic(), True
        if time.monotonic() - since > (limit if is_started else _START):
            return True
    return False


def _read(record: Path, result: Result, unfinished: str, limit: float) -> None:
    """Add the records of a child."""
    running = None
    outcomes: dict[str, str] = {}
    for line in record.read_text().splitlines():
        entry = json.loads(line)
        running = entry.get("start") or (None if "end" in entry else running)
        if "outcome" in entry:
            name = entry["name"]
            # A test with several reports (its set-up, its parts) has failed where one of them has.
            if outcomes.get(name) != FAILED:
                outcomes[name] = entry["outcome"]
            if "message" in entry:
                result.messages.setdefault(name, entry["message"])
    if running is not None:
        outcomes[running] = unfinished
        text = f"no end after {limit:g} s" if unfinished == HUNG else "the process died"
        result.messages[running] = text
    result.outcomes.update(outcomes)
