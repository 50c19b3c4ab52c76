"""minihlo beside StableHLO's C++ reference interpreter, in one process: `python -m benchmarks.against_reference`.

The reference cannot take or return minifloats from Python, so its programs begin and end with a bitcast from and to
ui8. The time of a program that only does these is taken off its figure, so the ratios are on the low side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .families import FFT, PROGRAMS, TYPE, WHILE, Program


def best(*runs: Callable[[], object], budget: float = 0.5) -> list[float]:
    """The shortest time of each, in seconds, of several interleaved runs."""
    times: list[list[float]] = [[] for _ in runs]
    for run in runs:
        run()
    while len(times[0]) < 4 or (sum(map(sum, times)) < budget and len(times[0]) < 2000):
        for run, taken in zip(runs, times, strict=True):
            start = time.perf_counter()
            run()
            taken.append(time.perf_counter() - start)
    return [min(t) for t in times]


def reference(program: str, *codes: np.ndarray) -> Callable[[], object]:
    """A call of the C++ reference interpreter."""
    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    dense: Any = ir.DenseElementsAttr
    with context, ir.Location.unknown():
        module = ir.Module.parse(program)
        ui8 = ir.IntegerType.get_unsigned(8)
        arguments = [dense.get(c, type=ui8, shape=c.shape) for c in codes]
    return lambda: stablehlo.eval_module(module, arguments)


def ours(program: str, *arrays: np.ndarray) -> Callable[[], object]:
    loaded = interp.load(program)
    return lambda: loaded(*arrays)


def measure(program: Program) -> tuple[float, float]:
    """Seconds of the reference (net of the bitcasts) and of ours."""
    codes = program.codes()
    dtype = interp.cast(np.zeros(1, np.float32), TYPE).dtype
    (mine,) = best(ours(program.text(False), *(c.view(dtype) for c in codes)))
    whole, bitcasts = best(reference(program.text(True), *codes), reference(program.baseline(), *codes))
    return whole - bitcasts, mine


def measure_fft() -> tuple[float, float]:
    """Seconds of XLA, compiled for the CPU, and of ours."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(1024, 128)) + 1j * rng.normal(size=(1024, 128))).astype(np.complex64)
    compiled, given = jax.jit(jax.numpy.fft.fft), jax.device_put(x)
    theirs, mine = best(lambda: compiled(given).block_until_ready(), ours(FFT, x))
    return theirs, mine


def main() -> None:
    table = Table("program", "peer, ms", "minihlo, ms", "times faster", title="Beside the C++ reference interpreter")

    def row(name: str, theirs: float, mine: float) -> None:
        table.add_row(name, f"{theirs * 1e3:.3f}", f"{mine * 1e3:.3f}", f"{theirs / mine:,.2f}"[:6].rstrip("."))

    for program in PROGRAMS:
        row(program.name, *measure(program))
    row("scalar while, 10,000 iterations of 5 ops", *best(reference(WHILE), ours(WHILE)))
    row("fft of 1,024 × 128 complex<f32> (the peer is XLA)", *measure_fft())
    table.caption = f"{TYPE}, 10^5 elements where nothing else is said; dot_general and convolution sum exactly"
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
