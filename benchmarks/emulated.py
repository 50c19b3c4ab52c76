"""Emulated programs beside the same programs as XLA compiles them: `python -m benchmarks.emulated [WORDS] [--steps]`.

Both are jitted functions on XLA's CPU, called in turn in one process; the shortest times are compared. A ratio above 1
says that the emulated program is quicker. Compile time is that of lowering and compiling, memory what XLA's analysis
gives beyond arguments and results; both are ratios of the emulated program's to the other's. The last column says
how many results that are minifloats have the interpreter's bits: all, unless they hang on what the device computes in
wider types. With `--steps` whole training steps are measured too.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

from minihlo import interp

from .__main__ import side_by_side
from .programs import PROGRAMS
from .steps import STEPS


def _product(dtype: Any, size: int = 512) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((size, size)).astype(np.float32).astype(dtype) for _ in range(2))
    return lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32), (x, y)


#: Programs beside those of `programs`: a name, a function with its arguments, and a target.
_MORE = (
    ("E4M3 512³ to f32", *_product(jnp.float8_e4m3fn), ""),
    ("E2M1 512³ to f32", *_product(jnp.float4_e2m1fn), ""),
    ("E4M3 512³ as the H100 sums", *_product(jnp.float8_e4m3fn), "h100"),
)


def _compile(jitted: Any, arguments: Sequence[Any]) -> tuple[float, int]:
    """Return the seconds of lowering and compiling, and the bytes of temporary memory."""
    start = time.perf_counter()
    compiled = jitted.lower(*arguments).compile()
    seconds = time.perf_counter() - start
    return seconds, compiled.memory_analysis().temp_size_in_bytes


def _share_of_equal(function: Callable[..., Any], target: str, arguments: Sequence[Any], found: Any) -> str:
    """Return the share of results in eight bits, or of a chip's sums, that have the interpreter's bits."""
    policy = interp.Policy.target(target) if target else None
    ours = jax.tree.leaves(interp.jit(function, policy=policy)(*arguments))
    pairs = [(np.asarray(x), np.asarray(y)) for x, y in zip(ours, jax.tree.leaves(found), strict=True)]
    codes = [[v.view(f"u{v.itemsize}") for v in pair] for pair in pairs if pair[0].itemsize == 1 or target]
    total = sum(x.size for x, _ in codes)
    equal = sum(int((x == y).sum()) for x, y in codes)
    return "all" if total == equal and total else f"{equal / total:.4%}" if total else ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.emulated", description=__doc__)
    parser.add_argument("words", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--steps", action="store_true", help="measure whole steps too")
    options = parser.parse_args()
    programs = [(p.name, p.function, tuple(p.arguments), "") for p in PROGRAMS]
    programs += _MORE
    if options.steps:
        programs += [(s.name, s.function, tuple(s.arguments), "") for s in STEPS]
        gpt = STEPS[0]  # in a function of its own, since JAX keeps what it compiled for another
        programs += [(f"{gpt.name} as the H100 sums", lambda *a: gpt.function(*a), tuple(gpt.arguments), "h100")]
    columns = ["program", "emulated, ms", "XLA, ms", "XLA / emulated", "compile", "memory", "equal bits"]
    table, ratios = Table(*columns, title=f"emulated beside native, {jax.devices()[0].device_kind}"), []
    _compile(interp.emulate(lambda x: x + x), (jnp.zeros(2, jnp.float8_e4m3fn),))  # what is done once for a process
    for name, function, arguments, target in programs:
        if options.words and not any(w in name for w in options.words):
            continue
        native, emulated = jax.jit(function), interp.emulate(function, target=target)
        try:
            ours_seconds, ours_memory = _compile(emulated, arguments)
        except interp.ProgramError as error:
            table.add_row(name, str(error)[:60])
            continue
        try:
            seconds, memory = _compile(native, arguments)
        except jax.errors.JaxRuntimeError:  # XLA's CPU multiplies no f4E2M1FN: its best is a product of f32
            native = jax.jit(lambda *a, f=function: f(*(x.astype(jnp.float32) for x in a)))
            seconds, memory = _compile(native, arguments)
        arrays = jax.tree.map(jnp.asarray, arguments)
        calls = [lambda f=f, a=arrays: jax.block_until_ready(f(*a)) for f in (emulated, native)]
        ours, xla = side_by_side(calls)
        ratios.append(xla / ours)
        bits = _share_of_equal(function, target, arguments, calls[0]())
        share = f"{ours_memory / memory:.1f}" if memory else f"{ours_memory:,} B"
        table.add_row(
            name,
            f"{ours * 1e3:.3f}",
            f"{xla * 1e3:.3f}",
            f"{xla / ours:.2f}",
            f"{ours_seconds / seconds:.1f}",
            share,
            bits,
        )
    table.add_section()
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    table.add_row(f"geometric mean of {len(ratios)}", "", "", f"{mean:.2f}", "", "", "")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
