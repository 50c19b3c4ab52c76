"""Reads the reports of a folder and makes them safe to show: a report file may come from anyone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...judging.groups import group
from ...oracle.exact import OPS, arity
from ...oracle.formats import FORMATS, bits
from .. import files
from ..format_text import code_text
from ..report.accumulators import DROPS, PLACES
from ..result import SCHEMA, AccumulatorFacts, CaseResult, ErrorCurve, Failure, Report, parse

#: A file must name its schema within this many characters to count as a report.
_HEAD = 4096
#: Maximum length of texts shown, by field; _WORD for other fields.
_LENGTHS = {"record": 2000, "message": 2000, "diagnosis": 1000, "model": 500, "command": 4000, "program": 20_000}
_WORD = 200
#: Maximum number of failures shown for a case, of operands of a failure, and of items of other lists.
_FAILURES, _CODES, _ITEMS = 8, 256, 64
#: Maximum number of points of a curve.
_POINTS = 4096
#: Maximum number of fraction bits of an accumulator that is drawn, more than products of f64 have.
_MOST_BITS = 4096


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
        found.append(LoadedReport(path.name.removesuffix(".gz").removesuffix(".json"), check(report, path)))
    if not found:
        raise InputError(f"{folder}: expected results of minihlo conform (*.json, *.json.gz), got none")
    return found, others


def _is_report(raw: bytes) -> bool:
    return SCHEMA.split("/")[0].encode() in raw[:_HEAD]


def check(report: Report, path: Path) -> Report:
    """The report with its texts shortened for the pages. Raises InputError if a case is inconsistent."""
    cases = []
    for i, case in enumerate(report.cases):
        try:
            _check(case)
        except (ValueError, KeyError, OverflowError) as error:
            words = error.args[0] if error.args else error
            raise InputError(f"{path} is not a result of minihlo conform: cases[{i}]: {words}") from None
        cases.append(_cut(case))
    run = _cut(report.run)
    return Report(run, list({c.key: c for c in cases}.values()))


def _check(case: CaseResult) -> None:
    """Raises ValueError or KeyError if types, codes and pictures of a case are inconsistent."""
    for element in (*case.operands, case.result):
        if element not in FORMATS and not _is_integer(element):
            raise ValueError(f"expected element types, got {element[:40]!r}")
    if case.op in OPS and len(case.operands) != arity(case.op):
        raise ValueError(f"expected {arity(case.op)} operands of {case.op}, got {len(case.operands)}")
    for failure in case.failures:
        _check_failure(case, failure)
    if any(n <= 0 for n in case.histogram.values()):
        raise ValueError("histogram: expected numbers of results above 0")
    if case.map is not None:
        fmt = FORMATS.get(case.operands[0]) if case.operands else None
        if fmt is None or case.map.n != 1 << fmt.bits or len(case.operands) != 2:
            raise ValueError("map: expected two operands, and all codes of the first")
    if case.curve is not None:
        _check_curve(case, case.curve)
    if case.accumulator is not None:
        _check_accumulator(case, case.accumulator)


def _is_integer(element: str) -> bool:
    try:
        return bits(element) > 0
    except (KeyError, ValueError):
        return False


def _check_failure(case: CaseResult, failure: Failure) -> None:
    if not len(case.operands) == len(failure.operands) == len(failure.values):
        raise ValueError("failures: expected codes and values for each operand")
    for codes, values in zip(failure.operands, failure.values, strict=True):
        if len(codes) != len(values):
            raise ValueError("failures: expected a value for each code")
    pairs = zip(failure.operands, case.operands, strict=False)
    for code, element in [*((c, t) for codes, t in pairs for c in codes), (failure.expected, case.result)]:
        if not 0 <= code < 1 << max(bits(element), 8):
            raise ValueError(f"failures: expected a code of {element}, got {code_text(code, element)[:40]}")
    if failure.got is not None and not 0 <= failure.got < 1 << 64:
        raise ValueError("failures: expected the code of a result")


def _check_curve(case: CaseResult, curve: ErrorCurve) -> None:
    if not len(curve.codes) == len(curve.values) == len(curve.errors):
        raise ValueError("curve: expected as many values and errors as codes")
    if any(not -128 <= e <= 127 for e in curve.errors):
        raise ValueError("curve: expected errors from -128 to 127")
    for value in curve.values:
        float(value)
    if curve.over == "values" and len(case.operands) != 1:
        raise ValueError("curve: expected one operand")


def _check_accumulator(case: CaseResult, a: AccumulatorFacts) -> None:
    if len(case.operands) < 2 or any(t not in FORMATS for t in case.operands[:2]):
        raise ValueError("accumulator: expected two operands of floating-point types")
    if a.drop not in DROPS or a.c not in PLACES:
        raise ValueError(f"accumulator: expected a known drop and c, got {a.drop[:40]!r} and {a.c[:40]!r}")
    if not (a.bits is None or 0 <= a.bits <= _MOST_BITS) or a.step < 0 or a.outer < 0:
        raise ValueError(f"accumulator: expected bits up to {_MOST_BITS}, and none that are negative")


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
