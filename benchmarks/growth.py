"""Growth of the cost of JAX functions with their arguments, here and on XLA's CPU compiler.

`python -m benchmarks.growth [WORDS] [--sizes 1000,10000,100000,1000000] [--patience 30]`

Calls of both alternate in one process. For each size stands the shortest time in ms, and how many times XLA's it is.
An exponent is the slope of the logarithm of time against that of size, by least squares over all sizes: 1 where ten
times as many elements take ten times as long. A row is marked where the exponent is above XLA's by more than 0.15, or
any time above 50 times XLA's.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .functions import SUBJECTS, Subject

#: An exponent may be above XLA's by so much, and a time so many times XLA's.
_STEEPER, _SLOWER = 0.15, 50
#: Pairs of calls that are timed, at most and at least, and seconds after which there are no more.
_MOST, _LEAST, _BUDGET = 60, 3, 1.5


@contextlib.contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Raises TimeoutError after the time limit."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def shortest(*runs: Callable[[], object]) -> list[float]:
    """The shortest time of some interleaved calls of each function, in seconds."""
    best, end = [math.inf] * len(runs), time.perf_counter() + _BUDGET
    for count in range(_MOST):
        if count >= _LEAST and time.perf_counter() > end:
            break
        for at, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[at] = min(best[at], time.perf_counter() - start)
    return best


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The exponent of a power-law fit of seconds to sizes, by least squares."""
    x, y = np.log(sizes), np.log(seconds)
    away = x - x.mean()
    return float(away @ y / (away @ away))


def times(subject: Subject, size: int) -> tuple[float, float]:
    """Seconds of a call here and on XLA."""
    arguments = subject.arguments(size)
    jitted, jitted_here = jax.jit(subject.function), interp.jit(subject.function)

    def theirs() -> object:
        return jax.block_until_ready(jitted(*arguments))

    def ours() -> object:
        return jitted_here(*arguments)

    for run in (theirs, ours, ours):  # compiled, and tables made
        run()
    here, xla = shortest(ours, theirs)
    return here, xla


def row(subject: Subject, sizes: list[int], patience: int) -> tuple[list[str], bool]:
    """The cells of a function, and whether it is marked."""
    measured: list[tuple[float, float]] = []
    cells = [subject.name]
    for size in sizes:
        try:
            with limit_time(patience):
                measured.append(times(subject, size))
        except TimeoutError:
            return [*cells, f"over {patience} s", *[""] * (len(sizes) - len(measured) - 1), "", ""], True
        ours, xla = measured[-1]
        cells.append(f"{ours * 1e3:.2f} ({ours / xla:.1f})")
    if len(sizes) < 2:
        return [*cells, "", ""], measured[0][0] > _SLOWER * measured[0][1]
    here, xla = (exponent(sizes, seconds) for seconds in zip(*measured, strict=True))
    marked = here > xla + _STEEPER or any(ours > _SLOWER * theirs for ours, theirs in measured)
    return [*cells, f"{here:.2f}", f"{xla:.2f}"], marked


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description=__doc__)
    parser.add_argument("words", nargs="*", help="only functions whose names have one of these")
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="numbers of elements, multiples of 100")
    parser.add_argument("--patience", type=int, default=30, help="seconds for all calls of one size (30)")
    options = parser.parse_args()
    sizes = [int(s) for s in options.sizes.split(",")]
    chosen = [s for s in SUBJECTS if not options.words or any(w in s.name for w in options.words)]
    if not chosen or any(s <= 0 or s % 100 for s in sizes):
        parser.error("expected words in the names of functions, and sizes that are multiples of 100")
    table = Table("", "function", *(f"{s:,}" for s in sizes), "exponent", "XLA's", title="ms (times XLA's)")
    count = 0
    for subject in chosen:
        cells, marked = row(subject, sizes, options.patience)
        table.add_row("!" if marked else "", *cells)
        count += marked
    Console(width=140).print(table)
    print(f"{count} of {len(chosen)} functions are marked")


if __name__ == "__main__":
    main()
