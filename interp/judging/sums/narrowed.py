"""Products of f32 whose operands are rounded to fewer bits, as matrix units do at the default precision."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from ...program import Operation


def is_imprecise(operation: Operation) -> bool:
    """Whether a product of f32 may use operands of fewer bits."""
    if operation.regions:
        return False
    precision = operation.attributes.get("precision_config") or ()
    return "algorithm" not in operation.attributes and all(p == "DEFAULT" for p in precision)


def _round_bits(bits: int, half: int) -> Callable[[np.ndarray], np.ndarray]:
    """Rounds f32 to fewer bits, where `half` is added before truncation."""

    def rounded(x: np.ndarray) -> np.ndarray:
        if x.dtype != np.float32:
            return x
        codes = np.ascontiguousarray(x).view(np.uint32)
        cut = (codes + np.uint32(half)) & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)
        return np.where(np.isfinite(x), cut.view(np.float32), x)

    return rounded


#: Types that matrix units round operands of f32 to.
NARROWED: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tf32": _round_bits(13, 1 << 12),
    "tf32-toward-zero": _round_bits(13, 0),
    "bf16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32) if x.dtype == np.float32 else x,
}
