"""`minihlo run`: runs the programs of a file, prints, writes and compares their results."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.op import CheckError
from ...ops.programs.checks import Condition, check
from ...ops.types import TensorType, Type
from ..api import read, read_stream
from ..comparison.equality import equal_values
from ..errors import CheckFailure, InputError, OutputError, ProgramError
from ..listing import Part, groups, listing
from ..machine import Listener, Plan, plan
from ..machine import run as run_plan
from ..parse import containers
from ..parse.chunks import split
from ..parse.parser import parse, parse_attributes
from ..program import Operation, Program
from ..settings import default_settings
from ..values import npy
from ..values.printing import format_value, json_value
from ..values.values import check_input, read_values, tensors_of, value_of


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a check fails; raises the errors of `errors.py`."""
    programs = read_programs(options.file)
    # Of several programs, those with the function run. If none has it, planning the first raises the error.
    programs = [p for p in programs if _has_function(p, options.function)] or programs[:1]
    if len(programs) > 1 and (options.output or options.expected):
        raise InputError(f"{programs[0].file}: expected one program for --output and --expected, got {len(programs)}")
    # All options are checked before anything runs.
    inputs = read_inputs(options) or []
    expected = list(read_values(options.expected, "--expected"))
    recorder = _Recorder(options)
    # One of several programs may have no function. A single program must have one if an option needs it.
    requested = any((options.function, options.input, options.args, options.output, options.expected))
    running = [p for p in programs if p.functions or (requested and len(programs) == 1)]
    settings = default_settings().without(options.without, "--without")
    jobs = [
        (p, plan(p, options.function, options.policy, recorder.listener, settings, options.max_steps)) for p in running
    ]
    if options.trace or options.print_plan:
        for program in running:
            optimized = plan(program, options.function, options.policy, settings=settings)
            recorder.groups |= groups(optimized)
            if options.print_plan:
                print(listing(optimized), flush=True)
    fitted = [_fit(p, inputs) for _, p in jobs]
    for _, p in jobs:
        _check_results(p.result_types, options.output, expected)
    failed = False
    for (_, p), values in zip(jobs, fitted, strict=True):
        try:
            recorder.arguments(p, values)
            results = run_plan(p, values)
        except CheckFailure as failure:
            sys.stdout.flush()
            print(failure, file=sys.stderr)
            failed = True
            continue
        _deliver(results, p.result_types, options)
        failed |= _differs(results, expected)
    return int(failed)


def read_programs(path: str) -> list[Program]:
    """Return the programs of a file, one for each part between `// -----`. `-` is standard input.

    Raises ProgramError if it is empty.
    """
    source, name = read_source(path)
    if not (source.startswith(containers.BYTECODE) or containers.is_contained(source)):
        try:
            return [parse(text, name, line) for text, line in split(source.decode())]
        except UnicodeDecodeError:
            pass  # the parser reports the place
    return [parse(source, name)]


def read_source(path: str) -> tuple[bytes, str]:
    """Return the bytes of a file or of standard input, and its name in error messages.

    Raises ProgramError if there is only white space.
    """
    data, name = (read_stream(sys.stdin.buffer, "<stdin>"), "<stdin>") if path == "-" else (read(path), path)
    if not data.strip():
        raise ProgramError(f"{name}: expected a program, got nothing but white space")
    return data, name


def _has_function(program: Program, function: str | None) -> bool:
    return function is None or function.removeprefix("@") in program.functions


def read_inputs(options: argparse.Namespace) -> list[Any] | None:
    """Return the arrays of --input or --args, or None if neither is given.

    Raises InputError if they cannot be read.
    """
    if options.args is None:
        return [array for array, _ in read_values(options.input, "--input")] or None
    text = options.args
    if text.startswith("@"):
        try:
            text = read(text[1:]).decode()
        except UnicodeDecodeError:
            raise InputError(f"{text[1:]}: expected a list of constants in UTF-8, got other bytes") from None
    return [array for array, _ in parse_attributes(text)]


def _fit(p: Plan, inputs: list[Any]) -> list[Any]:
    """The arguments of a plan: an input is the next tensor among them, in a tuple too; tokens need none."""
    tensors = [leaf for t in p.argument_types for leaf in tensors_of(t)]
    if len(inputs) != len(tensors):
        takes = ", ".join(map(str, tensors)) or "none"
        count = f"expected {len(tensors)} input{'s' * (len(tensors) != 1)} ({takes}), got {len(inputs)}"
        raise InputError(f"{p.function.location}: @{p.function.name}: {count}")
    arrays = iter([check_input(a, t, f"input {i}") for i, (a, t) in enumerate(zip(inputs, tensors, strict=True))])
    return [value_of(t, arrays) for t in p.argument_types]


def _check_results(types: tuple[Type, ...], outputs: list[str], expected: list[tuple[np.ndarray, TensorType]]) -> None:
    for option, given in (("--output", outputs), ("--expected", expected)):
        if len(given) > len(types):
            raise InputError(f"expected {option} at most {len(types)} time{'s' * (len(types) != 1)}, got {len(given)}")
    for i, (text, t) in enumerate(zip(outputs, types, strict=False)):
        if _path(text):
            if not isinstance(t, TensorType):
                raise InputError(f"--output {i}: expected a tensor, got {t}")
            folder = os.path.dirname(_path(text)) or "."
            if not os.path.isdir(folder):
                raise OutputError(f"--output {i}: {_path(text)}: expected an existing folder, got {folder}")
            if os.path.isdir(_path(text)):
                raise OutputError(f"--output {i}: {_path(text)}: expected a file, got a folder")
    for i, ((array, of), t) in enumerate(zip(expected, types, strict=False)):
        if not isinstance(t, TensorType) or t.element != of.element:
            raise InputError(f"--expected {i}: expected {t}, got {of}")
        check_input(array, t, f"--expected {i}")


def _path(output: str) -> str:
    """Return the file of an --output, or an empty text."""
    return "" if output == "-" else output.removeprefix("@")


def _deliver(results: list[Any], types: tuple[Type, ...], options: argparse.Namespace) -> None:
    for i, (value, t) in enumerate(zip(results, types, strict=True)):
        output = options.output[i] if i < len(options.output) else "-"
        if output == "-":
            print(format_value(value, t, options.format, options.full))
        elif output and isinstance(t, TensorType):
            npy.save(_path(output), np.asarray(value), t.element)
    sys.stdout.flush()


def _differs(results: list[Any], expected: list[tuple[np.ndarray, TensorType]]) -> bool:
    """Print each result that differs from the expected one, and return whether any does."""
    failed = False
    for i, ((expected_value, _), actual) in enumerate(zip(expected, results, strict=False)):
        try:
            check(np.asarray(actual), expected_value, Condition(equal_values, "the same code"))
        except CheckError as error:
            print(f"--expected {i}: {error}", file=sys.stderr)
            failed = True
    return failed


class _Recorder:
    """Print and write values while a program runs, for --trace and --probe-dir."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._trace, self._form, self._full = options.trace, options.format, options.full
        self._folder = Path(options.probe_dir) if options.probe_dir else None
        self._count = 0
        self.groups: dict[str, Part] = {}  # the group of each op, by its place
        if self._folder and self._folder.exists() and not self._folder.is_dir():
            raise OutputError(f"--probe-dir: expected a folder, got {self._folder}")

    @property
    def listener(self) -> Listener | None:
        return self._listen if self._trace or self._folder else None

    def arguments(self, p: Plan, values: list[Any]) -> None:
        """Record the arguments of the function, which are values too."""
        if self._folder:
            where = str(p.function.location)
            for i, (value, t) in enumerate(zip(values, p.argument_types, strict=True)):
                self._write(f"argument {i}", where, value, t)

    def _listen(self, operation: Operation, values: tuple[Any, ...]) -> None:
        typed = [(value, result.type) for value, result in zip(values, operation.results, strict=True)]
        where = str(operation.location)
        group = self.groups.get(where)
        if self._trace and self._form == "json":
            record: dict[str, Any] = {"location": where, "op": operation.name}
            record |= {"group": group.group, "reason": group.reason} if group else {}
            print(json.dumps(record | {"results": [json_value(v, t) for v, t in typed]}), flush=True)
        elif self._trace:
            texts = [format_value(v, t, self._form, self._full) for v, t in typed]
            print(
                "\n".join([f"{where}: {operation.name}{f' ({group.group}: {group.reason})' if group else ''}", *texts]),
                flush=True,
            )
        if self._folder:
            for value, t in typed:
                self._write(operation.name, where, value, t)

    def _write(self, what: str, where: str, value: Any, t: Type) -> None:
        """Write a tensor and its line of the index: id, type, path, op, place."""
        if not isinstance(t, TensorType) or not self._folder:
            return
        array = np.asarray(value)
        name = f"{self._count:06}.npy"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            npy.save(str(self._folder / name), array, t.element)
            # A place has the name of its file, which need not be valid Unicode.
            codec: Any = {"encoding": "utf-8", "errors": "surrogateescape"}
            with open(self._folder / "index.csv", "w" if self._count == 0 else "a", newline="", **codec) as index:
                row = (self._count, TensorType(array.shape, t.element), name, what, where)
                csv.writer(index, lineterminator="\n").writerow(row)
        except OSError as error:
            raise OutputError(f"--probe-dir: {error.filename or self._folder}: {error.strerror or error}") from None
        self._count += 1
