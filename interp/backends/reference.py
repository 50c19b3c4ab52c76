"""StableHLO's reference interpreter: C++ in jaxlib, which aborts on unsupported programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .base import Evaluate, Kind

KIND = Kind("reference", packages=("jaxlib",))


def start(_: str) -> Evaluate:
    """Return the function that runs a program on StableHLO's reference interpreter."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from ..parse.parser import make_context

    dense: Any = ir.DenseElementsAttr  # its type stubs lack numpy's arrays

    def attribute(array: np.ndarray) -> Any:
        array = np.asarray(array, order="C")
        if array.dtype.kind == "u":
            return dense.get(array, type=ir.IntegerType.get_unsigned(8 * array.itemsize))
        return dense.get(array)

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        with make_context(), ir.Location.unknown():  # loads the interpreter's own dialect
            results: Any = stablehlo.eval_module(ir.Module.parse(text), [attribute(a) for a in arrays])
            return [np.array(r) for r in results]

    return evaluate
