"""`minihlo judge`: programs as wholes on backends, against all results that an implementation may give."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import pages
from ..backends import Backend
from ..conform import shards
from ..diff.source import Source
from ..enclose import Allowed
from ..enclose.findings import CRASH, EXACT, UNSUPPORTED, WRONG
from ..errors import Error, InputError, OutputError
from ..judgement import inputs, many
from ..judgement.judge import judge_source
from ..judgement.verdicts import Judgement
from ..parse import containers
from ..parse.parser import parse
from ..testing.chunks import split
from .diff import backend_of
from .run import read_inputs

#: The names of public functions in text.
_FUNCTION = re.compile(r"^\s*func\.func (?:public )?@([\w$.-]+)", re.MULTILINE)
#: The options that a judgement hangs on.
_ASKED = ("function", "input", "args", "samples", "seed", "flush", "precision", "ulp", "minimize")


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a program is wrong or a backend crashes."""
    places, names = _divide(options.places)
    given = read_inputs(options)
    allowed = Allowed(options.ulp, options.flush == "allow", narrow=options.precision == "default")
    programs = _programs(places, options.function)
    try:
        chosen = [p for p in programs if shards.has(options.shard, p.name)]
    except ValueError as error:
        raise InputError(f"--shard: {error}") from None
    if given is not None and len(chosen) != 1:
        raise InputError(f"expected one program with --input, got {len(chosen)}")
    asked = {name: getattr(options, name) for name in _ASKED}
    before = many.known(options.json, asked)
    tasks = [(p, b) for p in chosen for b in names if (p.name, b) not in before]
    rows = [row for (p, b), row in before.items() if b in names and p in {c.name for c in chosen}]
    shown = len(chosen) * len(names) <= options.show

    started: list[Backend] = []

    def make() -> Callable[[tuple[many.Item, str]], Judgement]:
        backends: dict[str, Backend] = {}

        def judge_one(task: tuple[many.Item, str]) -> Judgement:
            item, name = task
            if name not in backends:
                backends[name] = backend_of(name)
                started.append(backends[name])
                backends[name].seconds = options.seconds or 60.0  # type: ignore[attr-defined]
            try:
                return _judge(item, backends[name], given, allowed, options)
            except Error as error:
                if len(chosen) == 1:
                    raise
                return Judgement(item.name, name, UNSUPPORTED, notes=[str(error)])

        return judge_one

    try:
        for done, found in enumerate(many.work(options.jobs or 1, tasks, make), 1):
            row = found.data() | {"options": asked}
            many.append(options.json, row)
            rows.append(row)
            if shown or found.verdict in (WRONG, CRASH):
                print(f"{found}\n", flush=True)
            if not shown and sys.stderr.isatty():
                print(f"\r{done:,} of {len(tasks):,}", end="", file=sys.stderr, flush=True)
            if options.save and found.part is not None:
                _save(found, Path(options.save), done)
    finally:
        for backend in started:
            backend.close()
    if len(rows) > 1:
        print(pages.plain("\n".join(_table(rows, names) + many.summary(rows))))
    if options.html:
        _page(options.html, rows)
    return int(any(row["verdict"] in (WRONG, CRASH) for row in rows))


def _divide(places: list[str]) -> tuple[list[str], list[str]]:
    """Divide the arguments into programs, which are files or folders, and backends, which follow them."""
    programs = [p for p in places if p == "-" or Path(p).exists()]
    names = [p for p in places if p not in programs]
    if not programs:
        raise InputError(f"expected a program, got {', '.join(places)} (no such file)")
    if not names:
        raise InputError("expected a backend after the programs (jax:cpu, reference, iree:llvm-cpu, …), got none")
    for name in names:
        backend_of(name).close()
    return programs, names


def _programs(places: list[str], function: str | None) -> list[many.Item]:
    """Return the programs of the places; those of one file between `// -----` are numbered.

    Of a program with several public functions and no `@main` each is one, unless a function is named.
    """
    found = []
    for place in places:
        items = [many.Item("<stdin>", sys.stdin.buffer.read())] if place == "-" else many.items([place])
        for item in items:
            if containers.is_binary(item.data):
                found.append(dataclasses.replace(item, function=function))
                continue
            chunks = [text for text, _ in split(item.data.decode(errors="replace"))]
            for i, text in enumerate(chunks):
                name = item.name if len(chunks) == 1 else f"{item.name}#{i}"
                names = _public_functions(text, item.name) if function is None else []
                if len(names) < 2 or "main" in names:
                    found.append(many.Item(name, text.encode() if len(chunks) > 1 else item.data, function))
                else:
                    found += [many.Item(f"{name}@{f}", text.encode(), f) for f in names]
    return found


def _public_functions(text: str, file: str) -> list[str]:
    """Return the names of public functions; those in modules within a module have it before them."""
    if text.count("module") > 1:
        with contextlib.suppress(Error):
            return [f.name for f in parse(text, file).functions.values() if f.is_public]
    return _FUNCTION.findall(text)


def _judge(
    item: many.Item, backend: Backend, given: list[Any] | None, allowed: Allowed, options: argparse.Namespace
) -> Judgement:
    """Return the verdict on one program. Raises ProgramError and InputError."""
    text = item.data if containers.is_binary(item.data) else item.data.decode(errors="replace")
    source = Source.of_text(text, item.name, 1, item.function)
    sets = [("given", given)] if given is not None else inputs.draw(source, options.seed, options.samples)
    return judge_source(source, sets, backend, allowed, not options.no_where, options.minimize, options.limit)


def _table(rows: list[dict[str, Any]], names: list[str]) -> list[str]:
    """Return a table of verdicts by backend, where there are several: who is wrong."""
    if len(names) < 2:
        return []
    by = {(r["program"], r["backend"]): r["verdict"] for r in rows}
    programs = list(dict.fromkeys(r["program"] for r in rows))
    widths = [max(map(len, programs)), *(max(len(n), 12) for n in names)]
    table = [["", *names]] + [[p, *(by.get((p, n), "") for n in names)] for p in programs]
    shown = [row for row in table if any(v != EXACT for v in row[1:])]
    return [" ".join(f"{v:<{w}}" for v, w in zip(row, widths, strict=True)).rstrip() for row in shown]


def _save(found: Judgement, folder: Path, number: int) -> None:
    """Write the wrong part and its inputs to a folder. Raises OutputError."""
    assert found.part is not None
    try:
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / "part.mlir").write_text(found.part.program, encoding="utf-8")
        for i, x in enumerate(found.part.arrays):
            np.save(place / f"{i}.npy", x)
    except OSError as error:
        raise OutputError(f"--save: {error.filename or folder}: {error.strerror or error}") from None


def _page(place: str, rows: list[dict[str, Any]]) -> None:
    from ..conform import files

    ordered = sorted(rows, key=lambda r: (r["verdict"] not in (WRONG, CRASH), r["program"]))
    render = pages.renderer()
    lines = many.summary(rows)
    page = render("judge.html", title="Programs judged", total=lines[0], causes=many.causes(rows), rows=ordered)
    files.write(place, str(page))
