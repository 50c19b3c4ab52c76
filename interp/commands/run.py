"""`minihlo run`: runs the programs of a file, prints, writes and compares their results."""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.op import CheckError
from ...ops.programs.checks import Condition, check
from ...ops.types import TensorType, Type
from ..api import read, read_stream
from ..assemble import Listener
from ..errors import CheckFailure, InputError, OutputError, ProgramError
from ..judging.equality import equal_values
from ..listing import Part, groups, listing
from ..machine import run as run_plan
from ..machine import run_grid
from ..parse import containers
from ..parse.attributes import Elided
from ..parse.parser import parse, parse_attributes
from ..parse.spmd import meets_processes
from ..planner import Plan, plan
from ..program import Operation, Program
from ..samples import fill_elided, sample
from ..settings import default_settings
from ..testing.chunks import split
from ..values import npy, safetensors
from ..values.printing import format_value, json_value
from ..values.values import check_input, read_values, tensors_of, value_of
from .run_on import run_on


def main(options: argparse.Namespace) -> int:
    """Run the command. Returns 1 if a check fails; raises the errors of `errors.py`."""
    programs = read_programs(options.file, fill_elided(options.elided, options.seed) if options.elided else None)
    # Of several programs, those with the function run. If none has it, planning the first raises the error.
    programs = [p for p in programs if _has_function(p, options.function)] or programs[:1]
    if len(programs) > 1 and (options.output or options.expected):
        raise InputError(f"{programs[0].file}: expected one program for --output and --expected, got {len(programs)}")
    # All options are checked before anything runs.
    inputs = read_inputs(options)
    if inputs is not None and options.sample:
        raise InputError("expected --sample without --input and --args, got both")
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
    grids = [_grid(program, p, options) for program, p in jobs]
    fitted = [
        _fit(p, _samples(p, options.seed) if options.sample else inputs or [], math.prod(grid))
        for (_, p), grid in zip(jobs, grids, strict=True)
    ]
    for (_, p), grid in zip(jobs, grids, strict=True):
        _check_results(p.result_types * math.prod(grid), options.output, expected)
    if options.on and (len(jobs) > 1 or any(math.prod(grid) > 1 for grid in grids) or options.file == "-"):
        raise InputError(f"{programs[0].file}: expected one program of one process, in a file, for --on")
    failed = False
    for (_, p), grid, values in zip(jobs, grids, fitted, strict=True):
        try:
            for of_process in values:
                recorder.arguments(p, of_process)
            if options.on:
                results = [run_on(options.on, *read_source(options.file), p, values[0])]
            else:
                results = run_grid(p, *grid, values) if len(values) > 1 else [run_plan(p, values[0])]
        except CheckFailure as failure:
            sys.stdout.flush()
            print(failure, file=sys.stderr)
            failed = True
            continue
        _deliver(results, p.result_types, grid, options)
        failed |= _differs([r for of_process in results for r in of_process], p.result_types * len(results), expected)
    return int(failed)


def _samples(p: Plan, seed: int) -> list[Any]:
    """The ordinary numbers that `minihlo diff` draws for the same arguments."""
    rng = np.random.Generator(np.random.Philox([seed, 0]))
    types = [leaf for t in p.argument_types for leaf in tensors_of(t)]
    if unknown := [t for t in types if not t.is_static]:
        raise InputError(
            f"{p.function.location}: @{p.function.name}: expected an --input of type {unknown[0]}, got none"
        )
    return [sample(t, 0, rng) for t in types]


def _grid(program: Program, p: Plan, options: argparse.Namespace) -> tuple[int, int]:
    """How many replicas and partitions run: by the options, else by the module where its processes meet."""
    of_module = program.attributes if meets_processes(program, p.function) else {}
    given = {"replicas": options.replicas, "partitions": options.partitions}
    counts = (of_module.get(f"mhlo.num_{name}") if n is None else n for name, n in given.items())
    replicas, partitions = (n if isinstance(n, int) and n > 0 else 1 for n in counts)
    return replicas, partitions


def read_programs(path: str, elided: Elided | None = None) -> list[Program]:
    """Return the programs of a file, one for each part between `// -----`. `-` is standard input.

    Constants whose data is left out are what `elided` gives. Raises ProgramError if the file is empty.
    """
    source, name = read_source(path)
    if not containers.is_binary(source):
        try:
            return [parse(text, name, line, elided) for text, line in split(source.decode())]
        except UnicodeDecodeError:
            pass  # the parser reports the place
    return [parse(source, name, elided=elided)]


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


def _fit(p: Plan, inputs: list[Any], processes: int) -> list[list[Any]]:
    """The arguments of each process: an input is the next tensor among them, in a tuple too; tokens need none.

    The inputs are those of all processes, or of one: then each process has the same.
    """
    tensors = [leaf for t in p.argument_types for leaf in tensors_of(t)]
    count = len(tensors)
    if len(inputs) not in (count, count * processes):
        takes = ", ".join(map(str, tensors)) or "none"
        more = f", or {count * processes} for {processes} processes" if processes > 1 else ""
        hint = "; --sample draws them" if not inputs else ""
        expected = f"expected {count} input{'s' * (count != 1)} ({takes}){more}, got {len(inputs)}{hint}"
        raise InputError(f"{p.function.location}: @{p.function.name}: {expected}")
    arrays = [check_input(a, tensors[i % count], f"input {i}") for i, a in enumerate(inputs)]
    if len(arrays) == count:
        arrays *= processes
    following = iter(arrays)
    return [[value_of(t, following) for t in p.argument_types] for _ in range(processes)]


def _check_results(types: tuple[Type, ...], outputs: list[str], expected: list[Any]) -> None:
    """Raise InputError for options that are not for the tensors of the results, and OutputError for bad files."""
    tensors = [leaf for t in types for leaf in tensors_of(t)]
    for option, given in (("--output", outputs), ("--expected", expected)):
        if len(given) > len(tensors):
            count = f"{len(tensors)} time{'s' * (len(tensors) != 1)}"
            raise InputError(f"expected {option} at most {count}, got {len(given)}")
    seen: set[tuple[str, str]] = set()
    for i, (text, t) in enumerate(zip(outputs, tensors, strict=False)):
        if path := _path(text):
            file, name = safetensors.split_path(path)
            if safetensors.is_path(path):
                safetensors.require_storable(t, name, f"--output {i}")
                place = os.path.realpath(file), name
                if name and place in seen:
                    raise InputError(f"--output {i}: expected another name in the file, got {name} again")
                seen.add(place)
            folder = os.path.dirname(file) or "."
            if not os.path.isdir(folder):
                raise OutputError(f"--output {i}: {file}: expected an existing folder, got {folder}")
            if os.path.isdir(file):
                raise OutputError(f"--output {i}: {file}: expected a file, got a folder")
    for i, ((array, of), t) in enumerate(zip(expected, tensors, strict=False)):
        if of is not None and t.element != of.element:
            raise InputError(f"--expected {i}: expected {t}, got {of}")
        check_input(array, t, f"--expected {i}")


def _path(output: str) -> str:
    """Return the file of an --output, or an empty text."""
    return "" if output == "-" else output.removeprefix("@")


def _leaves(value: Any, t: Type) -> list[tuple[Any, TensorType]]:
    """The tensors in a value, with their types."""
    if isinstance(t, TensorType):
        return [(value, t)]
    return [leaf for v, e in zip(value or (), getattr(t, "elements", ()), strict=False) for leaf in _leaves(v, e)]


def _deliver(
    results: list[list[Any]], types: tuple[Type, ...], grid: tuple[int, int], options: argparse.Namespace
) -> None:
    """Print the results of each process, or write their tensors to the files of --output."""
    outputs = iter(options.output)
    files: dict[str, dict[str, Any]] = {}
    for process, of_process in zip(np.ndindex(*grid), results, strict=True):
        if len(results) > 1 and options.format != "json":
            print("replica {}, partition {}:".format(*process))
        for value, t in zip(of_process, types, strict=True):
            leaves = _leaves(value, t)
            chosen = [next(outputs, "-") for _ in leaves]
            if all(output == "-" for output in chosen):
                leaves, chosen = [(value, t)], ["-"]
            for (leaf, leaf_type), output in zip(leaves, chosen, strict=True):
                if output == "-":
                    print(format_value(leaf, leaf_type, options.format, options.full))
                elif output:
                    _write(_path(output), np.asarray(leaf), leaf_type, files)
    for file, tensors in files.items():
        safetensors.save(file, tensors)
    sys.stdout.flush()


def _write(path: str, array: np.ndarray, t: Any, files: dict[str, dict[str, Any]]) -> None:
    """Write a .npy file; collect tensors of .safetensors files, each of which is written at once."""
    if not safetensors.is_path(path):
        npy.save(path, array, t.element)
        return
    file, name = safetensors.split_path(path)
    tensors = files.setdefault(os.path.realpath(file), {})
    tensors[name or f"result{len(tensors)}"] = array, t.element


def _differs(results: list[Any], types: tuple[Type, ...], expected: list[Any]) -> bool:
    """Print each tensor that differs from the expected one, and return whether any does."""
    failed = False
    leaves = [leaf for value, t in zip(results, types, strict=True) for leaf in _leaves(value, t)]
    for i, ((wanted, _), (actual, t)) in enumerate(zip(expected, leaves, strict=False)):
        try:
            wanted = check_input(wanted, t, f"--expected {i}")
            check(np.asarray(actual), wanted, Condition(equal_values, "the same code"))
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

    def _listen(self, operation: Operation, _: tuple[Any, ...], values: tuple[Any, ...]) -> None:
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
