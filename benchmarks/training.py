"""Training steps and other whole steps beside XLA, in turn in one process: `python -m benchmarks.training [WORDS]`.

Both are jitted functions that are called again and again. Times are medians; a ratio above 1 says that minihlo is
quicker. Memory is what each allocates during a call beyond its arguments, as XLA's analysis and tracemalloc give it.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import jax
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .__main__ import blas, peak
from .ordinary import ORDINARY
from .steps import STEPS, Step

#: Seconds to measure each step for.
_BUDGET = 1.0


def in_turn(runs: list[Callable[[], object]], budget: float = _BUDGET) -> list[float]:
    """The median time of each, in seconds, with interleaved calls."""
    times: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + budget
    while len(times[0]) < 5 or (time.perf_counter() < end and len(times[0]) < 1000):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            times[i].append(time.perf_counter() - start)
    return [statistics.median(t) for t in times]


def row(step: Step) -> tuple[list[str], float]:
    """The cells of a step, and XLA's time over ours."""
    jitted, ours = jax.jit(step.function), interp.jit(step.function)
    compiled = jitted.lower(*step.arguments).compile()
    runs: list[Callable[[], object]] = [
        lambda: ours(*step.arguments),
        lambda: jax.block_until_ready(jitted(*step.arguments)),
    ]
    for run in (*runs, *runs, runs[0]):  # compiled, and tables made
        run()
    here, xla = in_turn(runs)
    analysis = compiled.memory_analysis()
    theirs = analysis.temp_size_in_bytes + analysis.output_size_in_bytes if analysis else math.nan
    memory = peak(runs[0]) / theirs
    return [step.name, f"{here * 1e3:.2f}", f"{xla * 1e3:.2f}", f"{xla / here:.2f}", f"{memory:.2f}"], xla / here


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.training", description=__doc__)
    parser.add_argument("words", nargs="*", help="only steps whose names have one of these")
    parser.add_argument("--ordinary", action="store_true", help="single programs over f32, bf16, f16 and int8 instead")
    options = parser.parse_args()
    steps = ORDINARY if options.ordinary else STEPS
    chosen = [p for p in steps if not options.words or any(w in p.name for w in options.words)]
    if not chosen:
        parser.error(f"expected words in the names of steps: {'; '.join(p.name for p in steps)}")
    table = Table("step", "ours, ms", "XLA, ms", "XLA / ours", "memory, ours / XLA", title="whole steps beside XLA")
    ratios = []
    for step in chosen:
        cells, ratio = row(step)
        table.add_row(*cells)
        ratios.append(ratio)
    table.add_section()
    table.add_row("geometric mean", "", "", f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}", "")
    Console(width=100).print(table)
    print(blas())


if __name__ == "__main__":
    main()
