"""The page docs/jax-tests.md: a row for each file, and the reason of each failure that JAX's CPU does not have."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import earlier, run

_HEADER = """# JAX's own tests on platform minihlo

Written by `python -m tools.jax_tests`; do not edit. The tests are those of JAX's repository on {tests}, run with JAX
{jax}, one file after another, on JAX's CPU and on platform `minihlo`, with as many devices and generated cases for each
test as the table says. A failure is a test that fails, ends its process, or does not end within its time; what fails on
both is of another version of JAX. What the tests do by the name of the platform they do here as on JAX's CPU
(`jax_test_dut`): else JAX would skip whole files on a platform that it does not know.
"""
_UNKNOWN = "not run"
#: The characters of an error that the page shows.
_SHOWN = 160


@dataclasses.dataclass(frozen=True)
class Reason:
    """The reason why tests fail here. A test is `FILE::CLASS::NAME`; `*` stands for anything."""

    text: str
    tests: tuple[str, ...]


def reasons() -> list[Reason]:
    """The table of reasons."""
    table = tomllib.loads((Path(__file__).parent / "reasons.toml").read_text())
    return [Reason(" ".join(r["text"].split()), tuple(r["tests"])) for r in table.get("reason", [])]


def worse(theirs: run.Result, ours: run.Result) -> list[str]:
    """The tests that fail here and not on JAX's CPU."""
    return sorted(n for n, o in ours.outcomes.items() if o in run.BAD and theirs.outcomes.get(n) not in run.BAD)


def text(
    files: Sequence[run.File], results: Path, reasons: Sequence[Reason], versions: dict[str, str], before: str = ""
) -> str:
    """The page, from the existing results; for a platform that a file has none of, from the page before."""
    pairs = {f: _results(f, results, before) for f in files}
    failures = {
        f"{f.name}::{name}": ours.messages.get(name, "")
        for f, (theirs, ours) in pairs.items()
        if theirs.outcomes
        for name in worse(theirs, ours)
    }
    lines = [_HEADER.format_map(versions), *_table(pairs), "", "## Failures that JAX's CPU does not have", ""]
    explained: set[str] = set()
    for reason in reasons:
        names = [n for n in failures if any(fnmatch.fnmatchcase(n, pattern) for pattern in reason.tests)]
        explained.update(names)
        if names:
            lines += [f"{reason.text}", "", *(f"- `{name}`" for name in names), ""]
    unexplained = [n for n in failures if n not in explained]
    lines += _section("Unexplained", [f"`{n}`: {_shorten(failures[n])}" for n in unexplained])
    lines += _section("Stale reasons: these tests no longer fail", [f"`{n}`" for n in _stale(reasons, failures, pairs)])
    lines += _section(
        "Tests that are not run", [f"`{f.name}::{name}`: {why}" for f in files for name, why in f.left_out]
    )
    return "\n".join(lines).rstrip() + "\n"


def _results(file: run.File, results: Path, before: str) -> tuple[run.Result, run.Result]:
    theirs, ours = (run.Result.load(run.path_of(results, file, platform)) for platform in ("cpu", "minihlo"))
    has_theirs, has_ours = (
        r.is_complete and (r.cases, r.devices) == (file.cases, file.devices) for r in (theirs, ours)
    )
    their_row, our_row = earlier.results(before, file)
    if not has_theirs and their_row.count(*run.BAD):
        has_ours = False  # which tests failed on the CPU is not known, and which of ours to explain
    pairs = ((theirs, has_theirs, their_row), (ours, has_ours, our_row))
    result = [r if has or not row.is_complete else row for r, has, row in pairs]
    return result[0], result[1]


def _table(pairs: dict[run.File, tuple[run.Result, ...]]) -> Iterator[str]:
    yield "| file | devices | cases | CPU passed | CPU failed | CPU skipped | minihlo passed | failed | skipped |"
    yield "|---" * 9 + "|"
    totals = [0] * 6
    for file, both in pairs.items():
        counts = [result.count(*kinds) for result in both for kinds in ((run.PASSED,), run.BAD, (run.SKIPPED,))]
        totals = [a + b for a, b in zip(totals, counts, strict=True)]
        shown = [str(n) if both[i // 3].is_complete else _UNKNOWN for i, n in enumerate(counts)]
        yield f"| `{file.name}` | {file.devices} | {file.cases} | " + " | ".join(shown) + " |"
    yield "| all | | | " + " | ".join(map(str, totals)) + " |"


def _section(title: str, entries: Sequence[str]) -> list[str]:
    return [f"## {title}", "", *(f"- {entry}" for entry in entries), ""] if entries else []


def _stale(
    reasons: Sequence[Reason], failures: dict[str, str], pairs: dict[run.File, tuple[run.Result, ...]]
) -> Iterator[str]:
    """The patterns of reasons that no failure matches, of files that have been run."""
    complete = {f.name for f, both in pairs.items() if all(result.is_complete for result in both)}
    for reason in reasons:
        for pattern in reason.tests:
            if pattern.partition("::")[0] in complete and not fnmatch.filter(failures, pattern):
                yield pattern


def _shorten(text: str) -> str:
    text = text.replace("`", "'").replace("<", "&lt;")
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
