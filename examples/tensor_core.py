"""A model of NVIDIA's Ada tensor core as a backend, for `minihlo probe tensor_core:Ada`.

In each step it adds 16 products of FP8 numbers to the running sum: all are aligned to the largest exponent, cut to 13
fraction bits and added exactly; the sum is cut to 13 fraction bits of f32.
"""

from collections.abc import Sequence

import numpy as np

from minihlo.interp.backends.operation import Operation
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.accumulators.units import find


class Ada:
    """Computes dot_general of FP8 numbers into f32."""

    takes = "operations"

    def operate(self, operation: Operation, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Return the codes of the product of a matrix with another."""
        if operation.op != "dot_general" or operation.result != "f32":
            raise NotImplementedError("only dot_general into f32")
        x, y = codes
        record = find("ada", *operation.operands).record
        return dots(record, x[:, None], np.ascontiguousarray(y.T)[None], *operation.operands).view(np.uint32)
