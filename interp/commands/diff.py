"""`minihlo diff`: runs a program on a backend, op by op, each op on the operands that the backend has computed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.op import traits_of
from ...ops.traits import RegionSemantics
from ...ops.types import TensorType
from .. import backends, machine, planner
from ..backends import Backend
from ..backends.own import Minihlo
from ..conform import files
from ..diff.compare import examine, fit_arguments
from ..diff.report import Report
from ..diff.source import Source
from ..errors import Error, InputError, LimitError, OutputError
from ..parse import containers
from ..program import Function, Operation
from ..samples import RUNS, sample
from ..system.isolate import Stopped, raise_stopped
from ..testing.chunks import split
from .run import read_inputs, read_source

#: A program whose loops take more operations than these runs on other samples.
MOST_STEPS = 100_000
_NOTHING = "expected samples on which the program ends, got none (--input gives others)"


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if an op is wrong or the backend crashes on one."""
    given = read_inputs(options)
    targets = options.target or []
    if (options.backend is None) != (len(targets) == 2) or len(targets) > 2:
        given = f"{'no backend' if options.backend is None else options.backend} and {len(targets)} of --target"
        raise InputError(f"expected a backend with at most one --target, or two of --target alone, got {given}")
    beside = "" if options.backend else targets[0]
    backend = Minihlo(targets[1], options.second) if beside else backend_of(options.backend)
    failed, reports = False, []
    if options.timeout:
        raise_stopped()
    try:
        for source in sources_of(options):
            for what, arrays in inputs_of(source, given, options.seed):
                report = examine(
                    source, arrays, backend, options.how, options.policy, options.iterations, beside, options.flush
                )
                print(f"{source.file}: {what}\n{report}\n" if what else f"{report}\n", flush=True)
                reports.append({"file": source.file, "inputs": what} | report.data())
                _save(report, options.save, len(reports))
                failed |= bool(report.failures)
                if report.is_stopped:
                    write_json(options.json, json.dumps(reports, indent=1))
                    return int(failed)
    except Stopped:  # between two programs
        return int(failed)
    finally:
        backend.close()
    if not reports:
        raise InputError(_NOTHING)
    write_json(options.json, json.dumps(reports, indent=1))
    return int(failed)


def backend_of(name: str) -> Backend:
    """Return the backend of that name, or the platform of JAX. It runs in a process of its own."""
    try:
        result = backends.backend(name)
    except InputError:
        if not name.isidentifier():
            raise
        result = backends.backend(f"jax:{name}")
    return result


def sources_of(options: argparse.Namespace) -> list[Source]:
    """Return the programs of the file that have the function."""
    data, file = read_source(options.file)
    if containers.is_binary(data):
        return [Source.of_text(data, file, 1, options.function)]
    try:
        chunks = split(data.decode())
    except UnicodeDecodeError:
        return [Source.of_text(data, file, 1, options.function)]  # its message has the place
    if len(chunks) == 1:
        return [Source.of_text(chunks[0][0], file, 1, options.function)]
    sources, refused = [], None
    for text, line in chunks:
        try:
            sources.append(Source.of_text(text, file, line, options.function))
        except InputError as error:  # it has no such function
            refused = refused or error
    if refused is not None and not sources:
        raise refused
    return sources


def inputs_of(source: Source, given: list[Any] | None, seed: int) -> list[tuple[str, list[Any]]]:
    """Return the inputs to run a program on, with a name for each set: the given ones, or else samples."""
    types = source.function.argument_types
    if given is not None or not types:
        if not ends(source, fit_arguments(source, given or [])[0]):
            print(f"{source.file}: a loop takes more than {MOST_STEPS:,} steps, and may never end (--timeout SECONDS)")
        return [("", given or [])]
    runs = []
    for i, name in enumerate(RUNS):
        rng = np.random.Generator(np.random.Philox([seed, i]))
        arrays = []
        for t in types:
            if not isinstance(t, TensorType):
                raise InputError(
                    f"{source.file}: @{source.function.name}: expected arguments that are tensors, got {t}"
                )
            if not t.is_static:
                raise InputError(f"{source.file}: @{source.function.name}: expected an --input of type {t}, got none")
            arrays.append(sample(t, i, rng))
        if ends(source, arrays):
            runs.append((f"{name} (--seed {seed})", arrays))
            continue
        # An integer may count a loop, and a sampled one is large.
        static = [t for t in types if isinstance(t, TensorType)]
        small = [sample(t, 0, rng) if t.element.is_integer else x for t, x in zip(static, arrays, strict=True)]
        if ends(source, small):
            runs.append(
                (f"{name}, integers small as a loop takes more than {MOST_STEPS:,} steps (--seed {seed})", small)
            )
        else:
            why = f"a loop takes more than {MOST_STEPS:,} steps (--input gives others)"
            print(f"{source.file}: {name}: left out, as {why}")
    return runs


def first_inputs(source: Source, given: list[Any] | None, seed: int) -> tuple[str, list[Any]]:
    """Return the first of `inputs_of`. Raises InputError if there is none."""
    runs = inputs_of(source, given, seed)
    if not runs:
        raise InputError(_NOTHING)
    return runs[0]


def ends(source: Source, arrays: list[Any]) -> bool:
    """Return whether a program ends on these inputs within `MOST_STEPS`. One without loops does."""
    if not any(
        traits_of(o.name).regions is RegionSemantics.LOOP for f in source.program.functions.values() for o in walk(f)
    ):
        return True
    try:
        plan = planner.plan(source.program, source.function.name, most_steps=MOST_STEPS)
        machine.run(plan, arrays)
    except LimitError:
        return False
    except Error:  # the examination reports it
        return True
    return True


def walk(function: Function) -> Iterator[Operation]:
    """Yield the operations of a function and of their regions."""
    pending = [function.body] if function.body else []
    while pending:
        for operation in pending.pop().operations:
            yield operation
            pending += operation.regions


def _save(report: Report, folder: str | None, number: int) -> None:
    if folder is None:
        return
    for i, failure in enumerate(report.failures):
        if failure.program:
            try:
                failure.save(Path(folder) / f"{number}-{i}-{failure.op.rpartition('.')[2]}")
            except OSError as error:
                raise OutputError(f"--save: {error.filename or folder}: {error.strerror or error}") from None


def write_json(place: str | None, text: str) -> None:
    """Write the text of --json to a file, or print it for `-`; nothing without the option. Raises OutputError."""
    if not place:
        return
    if place == "-":
        print(text)
        return
    try:
        files.write(place, f"{text}\n")
    except OutputError as error:
        raise OutputError(f"--json: {error}") from None
    sys.stdout.flush()
