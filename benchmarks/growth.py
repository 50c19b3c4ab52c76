"""How the cost of functions of JAX grows with their arguments, here and on XLA's CPU compiler.

`python -m benchmarks.growth [WORDS] [--sizes 1000,10000,100000,1000000] [--patience 30]`

Both are called in turn in one process. For each size stands the shortest time in ms, and how many times XLA's it is.
The exponents are those of the last two sizes: 1 where ten times as many elements take ten times as long. A row is
marked where the exponent is above XLA's by more than 0.15, or a time above 50 times XLA's.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .functions import SUBJECTS, Subject

#: An exponent may be above XLA's by so much, and a time so many times XLA's.
_STEEPER, _SLOWER = 0.15, 50
#: Calls that are timed, and seconds after which there are no more.
_CALLS, _BUDGET = 7, 1.0


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in what takes longer."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def shortest(run: Callable[[], object]) -> float:
    """The shortest time of some calls, in seconds."""
    best, end = math.inf, time.perf_counter() + _BUDGET
    for _ in range(_CALLS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
        if time.perf_counter() > end:
            break
    return best


def times(subject: Subject, size: int) -> tuple[float, float]:
    """Seconds of a call here and on XLA."""
    arguments = subject.arguments(size)
    jitted, ours = jax.jit(subject.function), interp.jit(subject.function)

    def theirs(*arrays: Any) -> object:
        return jax.block_until_ready(jitted(*arrays))

    for run in (theirs, ours, ours):  # compiled, and tables made
        run(*arguments)
    return shortest(lambda: ours(*arguments)), shortest(lambda: theirs(*arguments))


def row(subject: Subject, sizes: list[int], patience: int) -> tuple[list[str], bool]:
    """The cells of a function, and whether it is marked."""
    measured: list[tuple[float, float]] = []
    cells = [subject.name]
    for size in sizes:
        try:
            with limited(patience):
                measured.append(times(subject, size))
        except TimeoutError:
            return [*cells, f"over {patience} s", *[""] * (len(sizes) - len(measured) - 1), "", ""], True
        ours, xla = measured[-1]
        cells.append(f"{ours * 1e3:.2f} ({ours / xla:.1f})")
    if len(sizes) < 2:
        return [*cells, "", ""], measured[-1][0] > _SLOWER * measured[-1][1]
    span = math.log(sizes[-1] / sizes[-2])
    exponents = [math.log(after / before) / span for before, after in zip(*measured[-2:], strict=True)]
    marked = exponents[0] > exponents[1] + _STEEPER or any(ours > _SLOWER * xla for ours, xla in measured)
    return [*cells, *(f"{e:.2f}" for e in exponents)], marked


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
