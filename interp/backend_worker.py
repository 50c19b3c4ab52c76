"""The child process of a backend that is C++: reads programs with arrays, answers with arrays.

`python -m minihlo.interp.backend_worker NAME`. Messages are pickles with their lengths before them; the answer to a
program that is refused is a text.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .backends import LENGTH, read_frame

Evaluate = Callable[[str, Sequence[np.ndarray]], list[np.ndarray]]


def _jax(platform: str) -> Evaluate:
    """Compiles the text as it is, by the client of a platform of JAX."""
    import jax
    from jax.extend.mlir import ir
    from jaxlib import xla_client

    from .parser import make_context

    device = jax.devices(platform)[0]
    client: Any = device.client
    devices = xla_client.DeviceList((device,))

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with make_context(text.__contains__), ir.Location.unknown():
            module = ir.Module.parse(text)
            program = client.compile_and_load(module, devices, xla_client.CompileOptions())
        return [np.asarray(r) for r in program.execute([jax.device_put(a, device) for a in arrays])]

    return evaluate


def _reference() -> Evaluate:
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from .parser import make_context

    dense: Any = ir.DenseElementsAttr  # whose type stubs do not know numpy's arrays

    def attribute(array: np.ndarray) -> Any:
        array = np.ascontiguousarray(array)
        if array.dtype.kind == "u":
            return dense.get(array, type=ir.IntegerType.get_unsigned(8 * array.itemsize))
        return dense.get(array)

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with make_context(), ir.Location.unknown():  # the interpreter's own dialect has to be there
            results: Any = stablehlo.eval_module(ir.Module.parse(text), [attribute(a) for a in arrays])
            return [np.array(r) for r in results]

    return evaluate


def _serve(name: str) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    except (ImportError, OSError, ValueError):
        pass
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what C++ prints is not an answer
    kind, _, rest = name.partition(":")
    evaluate = _jax(rest) if kind == "jax" else _reference()
    while True:
        try:
            text, arrays = pickle.loads(read_frame(sys.stdin.buffer))
        except EOFError:
            return
        try:
            answer: Any = evaluate(text, arrays)
        except Exception as error:  # any refusal of the backend's
            answer = " ".join(str(error).split())[:400] or type(error).__name__
        data = pickle.dumps(answer)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
