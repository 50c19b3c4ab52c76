"""Holds emulated programs against the interpreter, bit for bit: `python -m tools.emulated WHAT [OPTIONS]`.

WHAT is `conform` (every case of the tester at level 1, under each policy), `tests` (the self-checking programs of
`mlir_tests`) or `programs` (the steps of random programs, each alone). Only results that are minifloats, or hang on
minifloats alone, are compared: what a device computes in wider types is its own.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minihlo import interp
from minihlo.interp import transport
from minihlo.interp.backends import BackendError, emulated
from minihlo.interp.backends.own import Minihlo
from minihlo.interp.conform.run import Choice, tasks
from minihlo.interp.conform.tester import Tester
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.oracle.formats import MINIFLOATS
from minihlo.interp.policies import parse_policy
from minihlo.interp.testing import checked
from minihlo.interp.testing.chunks import chunks
from minihlo.ops.policy import Policy

from .random_programs.builder import random_program
from .random_programs.program import cut_steps

#: The policies that are tried by default.
POLICIES = (
    "",
    "overflow=saturate",
    "rounding=toward_zero",
    "rounding=stochastic",
    "accumulate=element",
    "accumulate=h100",
)


#: Programs that meet other processes or the host, which a backend of one device waits for.
_NOT_ALONE = re.compile(r"replica_groups|source_target_pairs|run_parallel|infeed|outfeed|\.send|\.recv")


class Backend:
    """An emulated backend in this process, with the interface of the others."""

    takes, packages = "programs", ()

    def __init__(self, inner: str, policy: str) -> None:
        self.name, self.seconds = f"emulated:{inner}", 0.0
        self._run = emulated.start(f"{inner}@{policy}" if policy else inner)

    def evaluate(self, text: str, arrays: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Run a program. Raises BackendError where it cannot be emulated or run."""
        try:
            return list(self._run(text, arrays))
        except BackendError:
            raise
        except Exception as error:
            raise BackendError("died", f"{type(error).__name__}: {str(error)[:300]}") from None

    def close(self) -> None:
        """Do nothing: there is no process to end."""


@dataclasses.dataclass
class Tally:
    """What was compared, and what differs."""

    compared: int = 0
    differing: list[str] = dataclasses.field(default_factory=list)
    refused: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def note(self, label: str, ours: Any, theirs: Any) -> None:
        """Compare two results of one case: arrays of codes, or errors."""
        if isinstance(theirs, BackendError):
            if not isinstance(ours, BackendError):
                self.refused[f"{label}: {theirs}"] += 1
            return
        self.compared += 1
        x, y = np.asarray(ours), np.asarray(theirs)
        if x.tobytes() != y.tobytes():
            at = np.flatnonzero(x.reshape(-1) != y.reshape(-1)) if x.shape == y.shape else np.array([-1])
            first = f"first at {at[0]}: {y.reshape(-1)[at[0]]} for {x.reshape(-1)[at[0]]}" if at.size else ""
            self.differing.append(f"{label}: {at.size:,} of {x.size:,} differ, {first}")
            print(f"differs: {self.differing[-1]}", flush=True)

    def report(self, title: str) -> int:
        """Print a line of totals, and what was refused; return the number of differences."""
        refused = sum(self.refused.values())
        print(f"{title}: {self.compared:,} results compared, {len(self.differing)} differ, {refused} refused")
        for why, count in self.refused.most_common(30):
            print(f"  {count:5} {why[:300]}")
        sys.stdout.flush()
        return len(self.differing)


def conform(inner: str, policy: str, options: argparse.Namespace) -> int:
    """Compare the cases of the tester."""
    settings = Settings(backend="minihlo", level=options.level)
    choice = Choice(ops=tuple(options.ops), formats=tuple(options.formats or ["f4*", "f6*", "f8*"]))
    parsed = parse_policy(policy, Policy()) if policy else Policy()
    testers = [Tester(b, settings) for b in (Minihlo("minihlo", parsed), Backend(inner, policy))]
    tally = Tally()
    for number, task in enumerate(tasks(choice, settings, "programs")):
        if number % options.shards != options.shard:
            continue
        as_written = ("scaled_dot",) if parsed.accumulate == "element" else ()  # a dot of f32, the device's
        specs = [s for s in task.specs if _hangs_on_minifloats(s.case) and s.case.op not in as_written]
        if not specs:
            continue
        parts = [testers[0].part(s) for s in specs]
        # Draws depend on what was rounded before in a program: each case is one.
        batches = [[p] for p in parts] if parsed.rounding == "stochastic" else [parts]
        ours, theirs = ([r for batch in batches for r in _results(t, batch)] for t in testers)
        for spec, x, y in zip(specs, ours, theirs, strict=True):
            tally.note(f"{spec.case.signature} {spec.form} {policy}", x, y)
    return tally.report(f"conform {policy or 'default'}")


def _results(tester: Tester, parts: Sequence[Any]) -> list[Any]:
    """Return the results of cases in one program; those that are not valid under the policy as errors, one by one."""
    try:
        return list(tester.results(parts))
    except interp.Error as error:
        if len(parts) == 1:
            return [BackendError("refused", str(error))]
        return [r for part in parts for r in _results(tester, [part])]


def _hangs_on_minifloats(case: Any) -> bool:
    return case.result in MINIFLOATS or all(t in MINIFLOATS or t == "i1" for t in case.operands)


def tests(inner: str, policy: str, options: argparse.Namespace) -> int:
    """Run the self-checking programs, each function by itself."""
    tally, backend = Tally(), Backend(inner, policy)
    files = sorted(Path(options.folder).rglob("*.mlir"))
    for number, path in enumerate(files):
        if number % options.shards != options.shard:
            continue
        for chunk in chunks(path):
            if not any(name in chunk.text for name in MINIFLOATS) or _NOT_ALONE.search(chunk.text):
                continue
            label = f"{path.stem}.{chunk.function}"
            try:
                failures = checked.run(chunk, backend)
            except BackendError as error:
                tally.refused[f"{label}: {error}"] += 1
                continue
            except interp.Error as error:
                tally.refused[f"{label}: {error}"] += 1
                continue
            tally.compared += 1
            for failure in failures:
                tally.differing.append(f"{label}: {failure.message}")
                print(f"differs: {tally.differing[-1]}", flush=True)
    return tally.report("tests")


def programs(inner: str, policy: str, options: argparse.Namespace) -> int:
    """Compare the steps of random programs that have minifloats."""
    tally, backend = Tally(), Backend(inner, policy)
    parsed = parse_policy(policy, Policy()) if policy else Policy()
    for index in range(options.shard, options.count, options.shards):
        program = random_program(options.seed, index)
        everything = interp.load(program.module(everything=True).named())(*program.arrays)
        values = dict(zip(program.arguments, program.arrays, strict=True))
        values |= zip([v for s in program.steps for v in s.results], everything, strict=True)
        for step in program.steps:
            if step.op == "stablehlo.constant" or not any(e.is_minifloat for e in step.elements):
                continue
            module, inputs = cut_steps([step])
            arrays = [values[v] for v in inputs]
            text = module.named()
            label = f"program {index}: {step.short} {policy}"
            try:
                ours, theirs = interp.load(text)(*arrays, policy=parsed), _on(backend, text, module, arrays)
            except BackendError as error:
                tally.refused[f"{step.short}: {error}"[:200]] += 1
                continue
            except interp.Error:  # not valid under the policy
                continue
            for t, x, y in zip(module.results, ours, theirs, strict=True):
                if t.element.is_minifloat:
                    tally.note(label, x.view(np.uint8), y.view(np.uint8))
    return tally.report(f"programs {policy or 'default'}")


def _on(backend: Backend, text: str, module: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the results of a program on a backend, whose arguments travel as types that numpy has."""
    from minihlo.interp.diff.source import Source

    source = Source.of_text(text, "program.mlir")
    body = source.function.body
    assert body is not None
    packed = [p for x, t in zip(arrays, module.arguments, strict=True) for p in transport.pack(x, t.element)]
    results: Iterator[np.ndarray] = iter(backend.evaluate(source.instrument(body.returns), packed))
    return [transport.unpack(results, t.element) for t in module.results]


WHATS: dict[str, Callable[[str, str, argparse.Namespace], int]] = {
    "conform": conform,
    "tests": tests,
    "programs": programs,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.emulated", description=__doc__)
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("--on", default="jax:cpu", help="the backend that runs the programs (jax:cpu)")
    parser.add_argument("--policy", action="append", help="a policy, such as overflow=saturate; may be given often")
    parser.add_argument("--ops", type=lambda s: s.split(","), default=[])
    parser.add_argument("--formats", type=lambda s: s.split(","), default=[])
    parser.add_argument("--level", type=int, default=1)
    parser.add_argument("--folder", default="mlir_tests")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shards", type=int, default=1, help="how many parts the work has")
    parser.add_argument("--shard", type=int, default=0, help="the part to run, from 0")
    options = parser.parse_args()
    default = POLICIES if options.what == "conform" else ("",)
    return int(sum(WHATS[options.what](options.on, p, options) for p in options.policy or default) > 0)


if __name__ == "__main__":
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    sys.exit(main())
