"""A peer's process: takes modules with arrays on standard input and answers on standard output, until it dies.

`python -m tools.random_programs.peer_process xla`
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

import numpy as np

from .peers import LENGTH, Failure, frame


def _xla():
    import jax
    from jax._src.interpreters.mlir import make_ir_context
    from jax._src.lib import xla_client
    from jaxlib.mlir import ir

    device = jax.devices("cpu")[0]
    client: Any = device.client
    devices = xla_client.DeviceList((device,))

    def run(text: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
        with make_ir_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            program = client.compile_and_load(module, devices, xla_client.CompileOptions())
        return [np.asarray(r) for r in program.execute([jax.device_put(a, device) for a in arrays])]

    return run


def _reference():
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    def attribute(array: np.ndarray) -> ir.DenseElementsAttr:
        if array.dtype.kind == "u":
            return ir.DenseElementsAttr.get(array, type=ir.IntegerType.get_unsigned(8 * array.itemsize))
        return ir.DenseElementsAttr.get(array)

    def run(text: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
        with make_ir_context(), ir.Location.unknown():
            results: Any = stablehlo.eval_module(ir.Module.parse(text), [attribute(a) for a in arrays])
            return [np.array(r) for r in results]

    return run


def _serve(name: str) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what C++ prints goes to the log
    run = {"xla": _xla, "reference": _reference}[name]()
    while True:
        try:
            text, arrays = pickle.loads(frame(sys.stdin.buffer))
        except EOFError:
            return
        try:
            answer: Any = run(text, arrays)
        except Exception as error:  # any refusal of the peer's
            answer = Failure("refused", " ".join(str(error).split())[:400])
        data = pickle.dumps(answer)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
