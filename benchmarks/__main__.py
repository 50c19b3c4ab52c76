"""minihlo beside XLA's CPU compiler and the C++ reference interpreter: `python -m benchmarks [WORDS] [--no-reference]`.

All three run the program that JAX lowers. XLA and minihlo are called in turn in one process, and the shortest times
are held against each other; the reference gets a process of its own and a few seconds. Memory is what numpy allocates
during a call at most, with inputs and results, over the size of these.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .against_reference import reference
from .programs import PROGRAMS, Program

#: Seconds to measure for, and seconds that the reference may take.
_BUDGET, _PATIENCE = 1.0, 20


def side_by_side(runs: Sequence[Callable[[], object]], budget: float = _BUDGET) -> list[float]:
    """The shortest time of each, in seconds, called in turn."""
    best, end = [math.inf] * len(runs), 0.0
    for turn in range(3000):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start) if turn > 1 else math.inf
        end = end or time.perf_counter() + budget
        if turn >= 5 and time.perf_counter() > end:
            break
    return best


def peak(run: Callable[[], object]) -> int:
    """The most bytes allocated at a time during a call."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def as_codes(x: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.uint8) if jnp.dtype(x.dtype).itemsize == 1 else x


def reference_program(program: Program) -> tuple[str, list[np.ndarray]]:
    """The program on codes, which is what the reference takes from Python, and the codes."""
    dtypes = [np.asarray(a).dtype for a in program.arguments]

    def on_codes(*codes):
        bits = [c if c.dtype == d else jax.lax.bitcast_convert_type(c, d) for c, d in zip(codes, dtypes, strict=True)]
        return jax.tree.map(as_codes, program.function(*bits))

    arrays = [a.view(np.uint8) if a.dtype.itemsize == 1 else a for a in map(np.asarray, program.arguments)]
    return jax.jit(on_codes).lower(*arrays).as_text(), arrays


def time_reference(index: int) -> None:
    """In a process of its own: prints the seconds of one call."""
    run = reference(*((r := reference_program(PROGRAMS[index]))[0], *r[1]))
    start = time.perf_counter()
    run()
    print(time.perf_counter() - start)


def reference_seconds(index: int) -> float:
    """NaN where the reference does not know the program, or does not finish."""
    command = [sys.executable, "-c", f"from benchmarks.__main__ import time_reference; time_reference({index})"]
    with contextlib.suppress(subprocess.SubprocessError, ValueError):
        return float(subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout)
    return math.nan


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--no-reference", action="store_true", help="leave the C++ reference out")
    options = parser.parse_args()
    columns = ["program", "ours, ms", "XLA, ms", "reference, ms", "XLA / ours", "memory"]
    table = Table(*columns, title="minihlo beside XLA (CPU, jitted)")
    ratios = []
    for index, program in enumerate(PROGRAMS):
        if options.words and not any(w in program.name for w in options.words):
            continue
        jitted = jax.jit(program.function)
        loaded = interp.load(jitted.lower(*program.arguments).as_text())
        arrays = list(map(jnp.asarray, program.arguments))
        runs = [lambda: loaded(*program.arguments), lambda: jax.block_until_ready(jitted(*arrays))]  # noqa: B023
        ours, xla = side_by_side(runs)
        held = sum(np.asarray(a).nbytes for a in (*program.arguments, *loaded(*program.arguments)))
        results = held - sum(np.asarray(a).nbytes for a in program.arguments)
        memory = (peak(runs[0]) + held - results) / held
        theirs = math.nan if options.no_reference else reference_seconds(index)
        ratios.append(xla / ours)
        told = "" if math.isnan(theirs) else f"{theirs * 1e3:.0f}"
        table.add_row(program.name, f"{ours * 1e3:.3f}", f"{xla * 1e3:.3f}", told, f"{ratios[-1]:.2f}", f"{memory:.2f}")
    table.add_section()
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    table.add_row(f"geometric mean of {len(ratios)}", "", "", "", f"{mean:.2f}", "")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
