"""minihlo beside XLA's CPU compiler and the C++ reference interpreter: `python -m benchmarks [WORDS] [OPTIONS]`.

All three run the program that JAX lowers. XLA and minihlo are called in turn in one process, and the shortest times
are held against each other; the reference gets a process of its own and a few seconds. Memory is what numpy allocates
during a call at most, with inputs and results, over the size of these. All calls have the same arguments, so that
tables which hang on scales and biases are made once.

With `--plugin` both are platforms of JAX: the program is jitted for each, its arguments are on the device already, and
calls wait for their results. What the same program takes when it is loaded and called stands beside it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import math
import os
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
from threadpoolctl import threadpool_info

from minihlo import interp

from .against_reference import reference
from .programs import PROGRAMS, Program

#: Seconds to measure for, and seconds that the reference may take.
_BUDGET, _PATIENCE = 1.0, 20


def side_by_side(runs: Sequence[Callable[[], object]], budget: float = _BUDGET) -> list[float]:
    """The shortest time of each, in seconds, with interleaved calls."""
    best, end = [math.inf] * len(runs), 0.0
    for iteration in range(3000):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[i] = min(best[i], time.perf_counter() - start) if iteration > 1 else math.inf
        end = end or time.perf_counter() + budget
        if iteration >= 5 and time.perf_counter() > end:
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


def blas() -> str:
    """The facts of numpy's BLAS that determine the time of products: its kernels, which an environment can
    prescribe."""
    kernels = {f"{e['internal_api']} {e.get('architecture', '')}".strip() for e in threadpool_info()}
    prescribed = os.environ.get("OPENBLAS_CORETYPE")
    return f"BLAS: {', '.join(sorted(kernels))}{f', as OPENBLAS_CORETYPE={prescribed} says' if prescribed else ''}"


def as_codes(x: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(x, jnp.uint8) if jnp.dtype(x.dtype).itemsize == 1 else x


def reference_program(program: Program) -> tuple[str, list[np.ndarray]]:
    """The program on codes, as the reference takes it from Python, and the codes."""
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
    """NaN if the reference does not know the program, or does not finish."""
    command = [sys.executable, "-c", f"from benchmarks.__main__ import time_reference; time_reference({index})"]
    with contextlib.suppress(subprocess.SubprocessError, ValueError):
        return float(subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout)
    return math.nan


def plain(programs: Sequence[Program], with_reference: bool) -> tuple[Table, list[float]]:
    """The table of programs that `interp.load` takes, and XLA's time over ours for each."""
    columns = ["program", "ours, ms", "XLA, ms", "reference, ms", "XLA / ours", "memory"]
    table, ratios = Table(*columns, title="minihlo beside XLA (CPU, jitted)"), []
    for program in programs:
        jitted = jax.jit(program.function)
        loaded = interp.load(jitted.lower(*program.arguments).as_text())
        arrays = list(map(jnp.asarray, program.arguments))
        runs = [lambda: loaded(*program.arguments), lambda: jax.block_until_ready(jitted(*arrays))]  # noqa: B023
        ours, xla = side_by_side(runs)
        held = sum(np.asarray(a).nbytes for a in (*program.arguments, *loaded(*program.arguments)))
        results = held - sum(np.asarray(a).nbytes for a in program.arguments)
        memory = (peak(runs[0]) + held - results) / held
        theirs = reference_seconds(PROGRAMS.index(program)) if with_reference else math.nan
        ratios.append(xla / ours)
        told = "" if math.isnan(theirs) else f"{theirs * 1e3:.0f}"
        table.add_row(program.name, f"{ours * 1e3:.3f}", f"{xla * 1e3:.3f}", told, f"{ratios[-1]:.2f}", f"{memory:.2f}")
    return table, ratios


def on_platforms(programs: Sequence[Program]) -> tuple[Table, list[float]]:
    """The table of programs on the JAX platforms, and XLA's time over ours for each."""
    columns = ["program", "ours, ms", "XLA, ms", "loaded, ms", "XLA / ours"]
    table, ratios = Table(*columns, title="minihlo beside XLA, both as platforms of JAX"), []
    # The platform sums in f32 by default.
    policy = interp.Policy(accumulate="f32")
    for program in programs:
        jitted = jax.jit(program.function)
        loaded = interp.load(jitted.lower(*program.arguments).as_text())
        runs: list[Callable[[], object]] = [functools.partial(loaded, *program.arguments, policy=policy)]
        for platform in ("minihlo", "cpu"):
            device = jax.devices(platform)[0]
            arrays = [jax.device_put(a, device) for a in program.arguments]
            runs.append(lambda arrays=arrays: jax.block_until_ready(jitted(*arrays)))  # noqa: B023
        direct, ours, xla = side_by_side(runs)
        ratios.append(xla / ours)
        table.add_row(program.name, *(f"{t * 1e3:.4f}" for t in (ours, xla, direct)), f"{ratios[-1]:.2f}")
    return table, ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("words", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--no-reference", action="store_true", help="leave the C++ reference out")
    parser.add_argument("--plugin", action="store_true", help="run minihlo as a platform of JAX too")
    options = parser.parse_args()
    programs = [p for p in PROGRAMS if not options.words or any(w in p.name for w in options.words)]
    if not programs:
        words = " or ".join(map(repr, options.words))
        parser.error(f"no program has {words} in its name (there is {'; '.join(p.name for p in PROGRAMS)})")
    if options.plugin:
        jax.config.update("jax_platforms", "cpu,minihlo")
        table, ratios = on_platforms(programs)
    else:
        table, ratios = plain(programs, not options.no_reference)
    table.add_section()
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    row = [""] * len(table.columns)
    row[0], row[4] = f"geometric mean of {len(ratios)}", f"{mean:.2f}"
    table.add_row(*row)
    Console(width=120).print(table)
    print(blas())


if __name__ == "__main__":
    main()
