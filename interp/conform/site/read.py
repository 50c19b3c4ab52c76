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
from ..result import SCHEMA, AccumulatorFacts, CaseResult, ErrorCurve, Failure, Report, Run, parse

#: A file must name its schema within this many characters to count as a report.
_HEAD = 4096
#: Maximum length of texts shown, by field; _WORD for other fields.
_LENGTHS = {"record": 2000, "message": 2000, "diagnosis": 1000, "model": 500, "command": 4000, "program": 20_000}
_WORD = 200
#: Maximum number of items of lists shown, by field; _ITEMS for other fields.
_NUMBERS = {"failures": 8, "operands": 256, "values": 256}
_ITEMS = 64
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


def _cut(value: Any, field: str = "") -> Any:
    """A value of a field with its texts and lists shortened."""
    most, items = _LENGTHS.get(field, _WORD), _NUMBERS.get(field, _ITEMS)
    if isinstance(value, ErrorCurve):
        return None if len(value.codes) > _POINTS else value
    if isinstance(value, str):
        return value if len(value) <= most else f"{value[: most - 1]}…"
    if isinstance(value, list):
        return [_cut(x, field) for x in value[:items]]
    if isinstance(value, dict):
        return {_cut(k, field): _cut(v, field) for k, v in list(value.items())[:items]}
    if isinstance(value, CaseResult | Run | Failure | AccumulatorFacts):
        fields = dataclasses.fields(value)
        return dataclasses.replace(value, **{f.name: _cut(getattr(value, f.name), f.name) for f in fields})
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
