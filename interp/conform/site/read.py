"""Reads the reports of a folder, with texts and lists no longer than pages show."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...judging.groups import group
from .. import files
from ..result import SCHEMA, AccumulatorFacts, ErrorCurve, Failure, Report, parse

#: A file must name its schema within this many characters to count as a report.
_HEAD = 4096
#: Maximum length of texts shown, by field; _WORD for other fields.
_LENGTHS = {"record": 2000, "message": 2000, "diagnosis": 1000, "model": 500, "command": 4000, "program": 20_000}
_WORD = 200
#: Maximum number of failures shown for a case, of operands of a failure, and of items of other lists.
_FAILURES, _CODES, _ITEMS = 8, 256, 64
#: Maximum number of points of a curve.
_POINTS = 4096


@dataclasses.dataclass(frozen=True)
class LoadedReport:
    """A report and the name of its file without extension."""

    stem: str
    report: Report


def reports(folder: Path) -> tuple[list[LoadedReport], list[Path]]:
    """The reports in a folder, `*.json` and `*.json.gz`, by name; and the files that are not reports.

    Raises InputError if the folder or a report cannot be read, or there is none.
    """
    if not folder.is_dir():
        got = "a file" if folder.exists() else "no such file"
        raise InputError(f"{folder}: expected a folder with results of minihlo conform, got {got}")
    found, others = [], []
    for path in sorted(p for p in folder.iterdir() if p.name.endswith((".json", ".json.gz")) and p.is_file()):
        report = files.load(path, str(path), lambda raw, path=path: parse(raw, path) if _is_report(raw) else None)
        if report is None:
            others.append(path)
            continue
        found.append(LoadedReport(path.name.removesuffix(".gz").removesuffix(".json"), check(report)))
    if not found:
        raise InputError(f"{folder}: expected results of minihlo conform (*.json, *.json.gz), got none")
    return found, others


def _is_report(raw: bytes) -> bool:
    return SCHEMA.split("/")[0].encode() in raw[:_HEAD]


def check(report: Report) -> Report:
    """The report with its texts shortened for the pages, and each case once."""
    cases = list({c.key: c for c in map(_cut, report.cases)}.values())
    return Report(_cut(report.run), cases)


def _cut(record: Any) -> Any:
    """A record with its texts and lists shortened."""
    made = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if field.name == "failures":
            value = [_cut(f) for f in value[:_FAILURES]]
        elif field.name in ("operands", "values") and isinstance(record, Failure):
            value = [[x[:_WORD] if isinstance(x, str) else x for x in row[:_CODES]] for row in value[:_ITEMS]]
        elif isinstance(value, ErrorCurve):
            value = None if len(value.codes) > _POINTS else value
        elif isinstance(value, AccumulatorFacts):
            value = _cut(value)
        else:
            value = _short(value, _LENGTHS.get(field.name, _WORD))
        made[field.name] = value
    return dataclasses.replace(record, **made)


def _short(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, list):
        return [_short(x, most) for x in value[:_ITEMS]]
    if isinstance(value, dict):
        return {_short(k, most): _short(v, most) for k, v in list(value.items())[:_ITEMS]}
    return value


def by_backend(loaded: Sequence[LoadedReport]) -> Iterator[list[LoadedReport]]:
    """The reports of each backend, by version and then by starting time; backends by name."""
    ordered = sorted(loaded, key=lambda x: (x.report.run.backend, x.report.run.started, x.stem))
    for runs in group(ordered, lambda x: x.report.run.backend).values():
        packages = sorted({p for r in runs for p in r.report.run.versions}, key=lambda p: (p == "minihlo", p))
        yield sorted(runs, key=lambda r: [version(r.report.run.versions.get(p, "")) for p in packages])


#: Prefixes of pre-release numbers, in order.
_EARLY = ("dev", "a", "b", "rc|c|pre")


def version(text: str) -> tuple[list[int], int, list[int]]:
    """The sort key of a version: the numbers of the release, the pre-release, and the numbers after it."""
    release = re.match(r"v?([\d.]*)[._-]?(.*)", text, re.DOTALL)
    assert release is not None
    numbers, rest = release.groups()
    stage = next((i for i, words in enumerate(_EARLY) if re.match(words, rest)), len(_EARLY))
    return _numbers(numbers), stage, _numbers(rest)


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"[0-9]{1,18}", text)]
