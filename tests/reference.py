"""The C++ reference interpreter that jaxlib has in it, as a judge: run in a child process, since it can abort."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

_CHILD = """
import pickle, sys
import numpy as np
from jax._src.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _stablehlo
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

def attribute(array):
    if array.dtype.kind == "u":
        return ir.DenseElementsAttr.get(array, type=ir.IntegerType.get_unsigned(8 * array.itemsize))
    return ir.DenseElementsAttr.get(array)

def load_quantized_types():  # no extension registers the dialect, but a pass that depends on it loads it
    _stablehlo.register_stablehlo_passes()
    PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(ir.Module.parse("").operation)

found = []
for program, arrays in pickle.load(sys.stdin.buffer):
    with make_ir_context() as context, ir.Location.unknown():
        _stablehlo.register_interpreter_dialect(context)
        if "!quant." in program:
            load_quantized_types()
        results = stablehlo.eval_module(ir.Module.parse(program), [attribute(a) for a in arrays])
        found.append([np.array(r) for r in results])
pickle.dump(found, sys.stdout.buffer)
"""


def evaluate(cases: Sequence[tuple[str, Sequence[np.ndarray]]]) -> list[list[np.ndarray]]:
    """The results of each program on its arrays, of types that numpy has itself."""
    child = subprocess.run(
        [sys.executable, "-c", _CHILD], input=pickle.dumps(list(cases)), capture_output=True, check=False
    )
    assert child.returncode == 0, child.stderr.decode(errors="replace")[-2000:]
    return pickle.loads(child.stdout)
