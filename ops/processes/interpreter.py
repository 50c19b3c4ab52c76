"""The dialect of StableHLO's own test programs: processes that a program starts, and probes of values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..op import BY_BODY, Call, CheckError, Run, op
from ..programs import checks
from ..random_stream import RandomStream
from ..require import require, unpack
from ..traits import Effects, OpTraits
from ..types import TensorType
from .parallel import Grid, current


@op("interpreter.run_parallel", accuracy=BY_BODY, has_effects=True, calls=("programs", "infeed"))
def run_parallel(call: Call) -> Run:
    """Runs functions at the same time, `programs[replica][partition]`, as the processes of a grid.

    Each takes its arguments from the operands, and gives its results to the results, in the order of the list. Each
    process finds in its infeed what the functions that `infeed` lists give.
    """
    rows = [tuple(row) if isinstance(row, tuple | list) else (row,) for row in call.attribute("programs")]
    names = [name for row in rows for name in row]
    lengths = [len(row) for row in rows]
    fits = names and len(set(lengths)) == 1
    require(fits, f"expected rows of programs of one length, at least 1, got lengths {lengths}")
    shape = len(rows), len(rows[0])
    functions = [call.functions[name] for name in names]
    feeds = [call.functions[name] for name in call.attributes.get("infeed", ())]
    require(not any(f.body.arguments for f in feeds), "a function that infeed lists takes arguments (expected none)")
    for what, has, takes in (
        ("operands", call.operands, [t for f in functions for t in f.body.arguments]),
        ("results", call.results, [t for f in functions for t in f.body.results]),
    ):
        given, expected = ("(" + ", ".join(map(str, types)) + ")" for types in (has, takes))
        require(list(has) == takes, f"expected the {what} of the functions, {expected}, got {given}")
    ends = np.cumsum([0, *(len(f.body.arguments) for f in functions)]).tolist()

    def kernel(*values: Any) -> Any:
        grid = Grid(*shape, infeed=[f.run for f in feeds])
        tasks = [functools.partial(f.run, *values[a:b]) for f, a, b in zip(functions, ends, ends[1:], strict=False)]
        outputs = grid.run(with_streams(tasks, call.random))
        return unpack(tuple(value for results in outputs for value in results))

    return kernel


def with_streams(tasks: list[Callable[[], Any]], random: RandomStream) -> list[Callable[[], Any]]:
    """The tasks, each with random bits of its own: the same in each run."""

    def run(task: Callable[[], Any], seed: np.random.SeedSequence) -> Any:
        random.restart(seed)
        return task()

    return [functools.partial(run, task, seed) for task, seed in zip(tasks, random.spawn(len(tasks)), strict=True)]


@op("interpreter.probe", operands=1, has_effects=True, traits=OpTraits(effects=Effects.OUTSIDE))
def probe(call: Call) -> Run:
    """Its operand, which is kept for check.expect_serialized_eq."""
    name = str(call.attribute("probe_id"))
    call.tensor()

    def kernel(x: Any) -> Any:
        current().probes.append((name, x))
        return x

    return kernel


@op("check.expect_serialized_eq", values="checks", operands=1, has_effects=True)
def expect_serialized_eq(call: Call) -> Run:
    """Fails unless the operand has the bits that the interpreter.probe with number `iter` (0) has kept.

    Probes are counted over the whole run, from 0; those of processes after they have ended, in the order of the grid.
    """
    name, number = str(call.attribute("probe_id")), int(call.attributes.get("iter", 0))
    actual = call.tensor()

    def kernel(x: Any) -> tuple[()]:
        probes = current().probes
        if not 0 <= number < len(probes):
            raise CheckError(f"there is no probe {number}: {len(probes)} were run")
        outputs, kept = probes[number]
        if outputs != name:
            raise CheckError(f"probe {number} is {outputs!r} (expected {name!r})")
        if kept.dtype != actual.element.dtype:
            raise CheckError(
                f"probe {name!r} has kept {kept.dtype} (expected {TensorType(actual.shape, actual.element)})"
            )
        return checks.check(np.asarray(x), np.asarray(kept), _IDENTICAL)

    return kernel


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x[..., None]).view(np.uint8)


_IDENTICAL = checks.Condition(lambda x, y: (_bytes(x) == _bytes(y)).all(-1), "the same code")
