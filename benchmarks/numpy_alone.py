"""The speed of numpy alone: `python -m benchmarks.numpy_alone [WORDS]`.

The programs over ordinary types that numpy can compute by some calls, written with these by hand: a few rows at a time,
by as many threads as there are processors, without regard to rounding. XLA, this and minihlo run interleaved in one
process. It shows how much of the distance to XLA is due to numpy.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .ordinary import ORDINARY
from .steps import Step
from .training import in_turn

#: Rows of 1,000 elements that a thread takes at a time.
_ROWS = 16

Rows = np.ndarray


def _wide(x: Rows) -> Rows:
    return x.astype(np.float32)


def _logistic(x: Rows) -> Rows:
    return 1 / (1 + np.exp(-x))


def _softmax(x: Rows) -> Rows:
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


def _layer_norm(x: Rows) -> Rows:
    centred = x - x.mean(-1, keepdims=True)
    centred *= 1 / np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(1e-5))
    return centred


def _gelu(x: Rows) -> Rows:
    inner = np.float32(0.7978846) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(inner))


#: By the names of programs in `ordinary`, what they do with some rows of f32.
_PROGRAMS: dict[str, Callable[..., Rows]] = {
    "add": np.add,
    "multiply, add, maximum": lambda x, y: np.maximum(x * y + x, y),
    "compare and select": lambda x, y: np.where(x < y, x, 2 * y),
    "exp": np.exp,
    "gelu": _gelu,
    "silu": lambda x: x * _logistic(x),
    "tanh": np.tanh,
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "sum of rows": lambda x: x.sum(-1, keepdims=True),
    "maximum of rows": lambda x: x.max(-1, keepdims=True),
    "log and sqrt": lambda x: np.log(x * x + 1) + np.sqrt(np.abs(x)),
}


def alone(step: Step, pool: ThreadPoolExecutor, threads: int) -> Callable[[], object] | None:
    """A step by numpy alone; None if it is not one of those above."""
    name, _, kind = step.name.rpartition(", ")
    compute = _PROGRAMS.get(name)
    if compute is None:
        return None
    arrays, is_wide = step.arguments, kind == "f32"
    height = len(arrays[0])
    columns = compute(*(_wide(x[:1]) for x in arrays)).shape[-1]

    def run() -> np.ndarray:
        out = np.empty((height, columns), arrays[0].dtype)

        def part(first: int) -> None:
            for i in range(first * _ROWS, height, threads * _ROWS):
                rows = [x[i : i + _ROWS] if is_wide else _wide(x[i : i + _ROWS]) for x in arrays]
                out[i : i + _ROWS] = compute(*rows)

        others = [pool.submit(part, k) for k in range(1, threads)]
        part(0)
        for other in others:
            other.result()
        return out

    return run


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.numpy_alone", description=__doc__)
    parser.add_argument("words", nargs="*", help="only programs whose names have one of these")
    options = parser.parse_args()
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    table = Table("program", "XLA, ms", "numpy alone, ms", "XLA / numpy", "ours, ms", "XLA / ours")
    ratios: list[tuple[float, float]] = []
    with ThreadPoolExecutor(threads) as pool, np.errstate(all="ignore"):
        for step in ORDINARY:
            by_numpy = alone(step, pool, threads)
            if by_numpy is None or (options.words and not any(w in step.name for w in options.words)):
                continue
            jitted, ours = jax.jit(step.function), interp.jit(step.function)
            runs = [
                lambda f=jitted, a=step.arguments: jax.block_until_ready(f(*a)),
                by_numpy,
                lambda f=ours, a=step.arguments: f(*a),
            ]
            for run in (*runs, *runs, runs[2]):
                run()
            xla, numpy, here = in_turn(runs)
            ratios.append((xla / numpy, xla / here))
            ms = [f"{t * 1e3:.2f}" for t in (xla, numpy, here)]
            table.add_row(step.name, *ms[:2], f"{xla / numpy:.2f}", ms[2], f"{xla / here:.2f}")
    if not ratios:
        parser.error("expected words in the names of programs")
    means = (f"{math.exp(statistics.fmean(map(math.log, column))):.2f}" for column in zip(*ratios, strict=True))
    table.add_section()
    table.add_row("geometric mean", "", "", next(means), "", next(means))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
