"""A backend for the conformance tester in one file: a chip that computes f8E5M2 in f16, and makes two mistakes.

In this folder, `minihlo conform chip:Chip` finds both.
"""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

from minihlo.interp.backends.operation import Operation

F8 = ml_dtypes.float8_e5m2


class Chip:
    """Asked for one operation at a time; operands and results are codes, uint8 for f8 and uint32 for f32."""

    def operate(self, operation: Operation, codes: Sequence[np.ndarray]) -> np.ndarray:
        match operation.op, operation.operands, operation.result:
            case "convert", ("f32",), "f8E5M2":  # through f16: rounded twice
                return self.packed(codes[0].view(np.float32).astype(np.float16))
            case "add", ("f8E5M2", "f8E5M2"), "f8E5M2":
                x, y = map(self.unpacked, codes)
                return self.packed(x + y)
            case "multiply", ("f8E5M2", "f8E5M2"), "f8E5M2":
                x, y = map(self.unpacked, codes)
                return self.packed(x * y)
            case "divide", ("f8E5M2", "f8E5M2"), "f8E5M2":  # by the reciprocal, which is rounded
                x, y = map(self.unpacked, codes)
                return self.packed(x * (1 / y))
        raise NotImplementedError(f"the chip has no {operation.op} of these types")

    def unpacked(self, codes: np.ndarray) -> np.ndarray:
        return codes.view(F8).astype(np.float16)

    def packed(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(F8).view(np.uint8)
