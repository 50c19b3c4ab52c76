"""Many programs on several backends: files, folders and archives in; verdicts and causes out."""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import json
import queue
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..enclose.findings import CRASH, VERDICTS, WRONG
from ..errors import InputError, OutputError
from ..judging.groups import group

#: The endings of files that are programs, in folders and archives.
ENDINGS = (".mlir", ".mlirbc", ".bc", ".hlo", ".hlo.txt", ".pb", ".stablehlo", ".jax_export")
#: The fields of a judgement in a file that a run goes on with.
_FIELDS = ("program", "backend", "verdict", "cause", "part", "findings", "notes", "options")
#: The most bytes of a file in an archive.
_MOST = 1 << 28


@dataclasses.dataclass(frozen=True)
class Item:
    """A program to judge: its name, its text or bytes, and the function that runs, if it is not the only one."""

    name: str
    data: bytes
    function: str | None = None


def items(places: Iterable[str]) -> Iterator[Item]:
    """Yield the programs of files, folders and tar archives, in the order of their names.

    Raises InputError for a place that cannot be read or has no programs.
    """
    for place in places:
        path = Path(place)
        try:
            if path.is_dir():
                files = sorted(p for p in path.rglob("*") if p.name.endswith(ENDINGS) and p.is_file())
                if not files:
                    raise InputError(f"{place}: expected a folder with programs ({', '.join(ENDINGS)}), got none")
                yield from (Item(str(p), p.read_bytes()) for p in files)
            elif tarfile.is_tarfile(path):
                yield from _members(path)
            else:
                yield Item(place, path.read_bytes())
        except (OSError, tarfile.TarError) as error:
            raise InputError(f"{place}: {getattr(error, 'strerror', None) or error}") from None


def _members(path: Path) -> Iterator[Item]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and member.name.endswith(ENDINGS):
                if member.size > _MOST:
                    raise InputError(f"{path}: {member.name}: expected at most {_MOST} bytes, got {member.size}")
                file = archive.extractfile(member)
                assert file is not None
                yield Item(f"{path}:{member.name}", file.read())


def known(place: str | None, options: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the judgements in a file of an earlier run with the same options, by program and backend.

    A last line that is not whole, as of a run that was ended, is left out. Raises InputError for another file.
    """
    if place is None or place == "-" or not Path(place).is_file():  # a pipe is not read
        return {}
    try:
        lines = Path(place).read_text(encoding="utf-8").split("\n")
        rows = [json.loads(line) for line in lines[:-1] if line.strip()]
        if lines[-1]:
            Path(place).write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
        missing = next((name for row in rows for name in _FIELDS if name not in row), None)
        if missing is not None:
            raise ValueError(f"one without {missing}")
        return {(row["program"], row["backend"]): row for row in rows if row["options"] == options}
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"--json: {place}: expected judgements, one in each line, got {error}") from None


def append(place: str | None, row: dict[str, Any]) -> None:
    """Write a judgement as the next line of a file. Raises OutputError."""
    if place is None or place == "-":
        return
    try:
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        raise OutputError(f"--json: {place}: {error.strerror or error}") from None


def work(jobs: int, tasks: Sequence[Any], make: Callable[[], Callable[[Any], Any]]) -> Iterator[Any]:
    """Yield what workers give for tasks, as they end; each of `jobs` threads has a worker of its own from `make`."""
    free: queue.SimpleQueue[Callable[[Any], Any]] = queue.SimpleQueue()
    for _ in range(jobs):
        free.put(make())

    def one(task: Any) -> Any:
        worker = free.get()
        try:
            return worker(task)
        finally:
            free.put(worker)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            yield from (f.result() for f in concurrent.futures.as_completed([pool.submit(one, t) for t in tasks]))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def summary(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the counts of verdicts, and a line for each cause of wrong results, the most frequent first."""
    counts = collections.Counter(row["verdict"] for row in rows)
    lines = [f"{len(rows):,} judged: " + ", ".join(f"{counts[v]:,} {v}" for v in VERDICTS if counts[v])]
    for cause in causes(rows):
        lines.append(
            f"{cause.count:6,} {cause.verdict} {cause.text}  ({', '.join(cause.backends)}; smallest: {cause.smallest})"
        )
    return lines


@dataclasses.dataclass(frozen=True)
class Cause:
    """A cause of wrong results or crashes: how often it was met, where, and its smallest program."""

    verdict: str
    text: str
    count: int
    backends: tuple[str, ...]
    smallest: str


def causes(rows: Sequence[dict[str, Any]]) -> list[Cause]:
    """Return the causes of WRONG and CRASH, the most frequent first."""
    wrong = (row for row in rows if row["verdict"] in (WRONG, CRASH))
    groups = group(wrong, lambda row: (row["verdict"], row["cause"]))

    def size(row: dict[str, Any]) -> int:
        return len(row["part"]["program"]) if row["part"] else 1 << 30

    found = [
        Cause(v, text, len(g), tuple(sorted({r["backend"] for r in g})), min(g, key=size)["program"])
        for (v, text), g in groups.items()
    ]
    return sorted(found, key=lambda c: (-c.count, c.text))
