"""minihlo beside StableHLO's C++ reference interpreter, in one process: `python -m benchmarks.against_reference`.

The reference cannot take or return minifloats from Python, so its programs begin and end with a bitcast from and to
ui8. The time of a program that only does these is taken off its figure, so the ratios are on the low side.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import stablehlo
from rich.console import Console
from rich.table import Table

from minihlo import interp

TYPE = "f8E4M3FNUZ"
ADD = "%r = stablehlo.add %a, %b : {t}"
EXPONENTIAL = "%r = stablehlo.exponential %a : {t}"
DOT = "%r = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : ({t}, {t}) -> {t}"
WHILE = """
  func.func @main() -> tensor<i32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %three = stablehlo.constant dense<3> : tensor<i32>
    %turns = stablehlo.constant dense<10000> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %zero) : tensor<i32>, tensor<i32>
    cond {
      %go = stablehlo.compare LT, %i, %turns : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %go : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %a = stablehlo.multiply %x, %three : tensor<i32>
      %b = stablehlo.add %a, %i : tensor<i32>
      %c = stablehlo.xor %b, %one : tensor<i32>
      stablehlo.return %next, %c : tensor<i32>, tensor<i32>
    }
    return %r#1 : tensor<i32>
  }"""


def best(run: Callable[[], object], budget: float = 1.0) -> float:
    """The shortest of several runs, in seconds."""
    run()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 2000):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def binary_program(body: str, shape: tuple[int, ...], through_ui8: bool) -> str:
    dims = "".join(f"{d}x" for d in shape)
    t, codes = f"tensor<{dims}{TYPE}>", f"tensor<{dims}ui8>"
    if not through_ui8:
        return f"func.func @main(%a: {t}, %b: {t}) -> {t} {{ {body.format(t=t)} return %r : {t} }}"
    return f"""func.func @main(%ca: {codes}, %cb: {codes}) -> {codes} {{
      %a = stablehlo.bitcast_convert %ca : ({codes}) -> {t}
      %b = stablehlo.bitcast_convert %cb : ({codes}) -> {t}
      {body.format(t=t)}
      %codes = stablehlo.bitcast_convert %r : ({t}) -> {codes}
      return %codes : {codes}
    }}"""


def reference(program: str, *codes: np.ndarray) -> Callable[[], object]:
    """A call of the C++ reference interpreter."""
    registry, context = ir.DialectRegistry(), ir.Context()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    stablehlo.register_dialect(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(program)
        ui8 = ir.IntegerType.get_unsigned(8)
        arguments = [ir.DenseElementsAttr.get(c, type=ui8, shape=c.shape) for c in codes]
    return lambda: stablehlo.eval_module(module, arguments)


def ours(program: str, *arrays: np.ndarray) -> Callable[[], object]:
    loaded = interp.load(program)
    return lambda: loaded(*arrays)


def measure(body: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """Seconds of the reference (net of the bitcasts) and of ours for one op."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 256, shape, np.uint8) for _ in range(2)]
    empty = binary_program("%r = stablehlo.optimization_barrier %a : {t}", shape, True)
    theirs = best(reference(binary_program(body, shape, True), *codes)) - best(reference(empty, *codes))
    dtype = interp.cast(np.zeros(1, np.float32), TYPE).dtype
    return theirs, best(ours(binary_program(body, shape, False), *(c.view(dtype) for c in codes)))


def main() -> None:
    table = Table("program", "reference, ms", "minihlo, ms", "times faster", title="Beside the C++ reference")
    rows = {
        f"add, 100,000 {TYPE}": measure(ADD, (100_000,)),
        f"exponential, 100,000 {TYPE}": measure(EXPONENTIAL, (100_000,)),
        f"dot_general 128×128×128 {TYPE}, exact": measure(DOT, (128, 128)),
        "scalar while, 10,000 turns of 5 ops": (best(reference(WHILE)), best(ours(WHILE))),
    }
    for name, (theirs, mine) in rows.items():
        table.add_row(name, f"{theirs * 1e3:.3f}", f"{mine * 1e3:.3f}", f"{theirs / mine:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
