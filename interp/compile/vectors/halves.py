"""Functions of f16 and bf16 by way of those of f32."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.traits import Kernel
from ....ops.types import ElementType


def shown(of_half: Kernel, of_f32: Kernel, element: ElementType) -> Sequence[tuple[np.ndarray, np.ndarray]] | None:
    """The numbers of f16 or bf16 of which a function is not that of f32 rounded to the type, and what it is there.

    None where they are many, or where NaN is among them.
    """
    x = np.arange(1 << 16).astype(np.uint16).view(element.dtype)
    with np.errstate(all="ignore"):
        exact, twice = of_half(x), of_f32(x.astype(np.float32)).astype(element.dtype)
        nan = exact != exact
        differ = (exact.view(np.uint16) != twice.view(np.uint16)) & ~nan
        if not np.array_equal(nan, twice != twice) or np.count_nonzero(differ) > tuning().vector_exceptions:
            return None
    return [*zip(x[differ, None], exact[differ, None], strict=True)]
