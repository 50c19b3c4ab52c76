"""What an implementation may choose, as one record."""

from __future__ import annotations

import dataclasses

from ...ops.types import ElementType
from ..judging.functions import ULPS


@dataclasses.dataclass(frozen=True)
class Allowed:
    """The choices of an implementation.

    Attributes:
        ulp: The most ULP of its type that a function's result may be off; None stands for those of the tester by type.
            Functions of minifloats are computed in f16, within so many ULP of it, or in wider types.
        flush: Whether subnormal operands and results may be taken as zero. Those of minifloats of 8 bits or fewer may
            not.
        wide: Whether intermediate values may be kept wider than their type, and a product and a sum contracted.
        reciprocal: Whether a quotient may be a product with the rounded reciprocal. Of minifloats it may not.
        narrow: Whether products of f32 may round their operands to tf32 or bf16, where the program asks for the default
            precision.
        sum_bits: The significant bits to which partial sums of products are kept: of operands of 8 bits or fewer, and
            of 16 bits. They are those of accumulators of chips, which cut off the rest (`ops.accumulators.units`).
    """

    ulp: float | None = None
    flush: bool = True
    wide: bool = True
    reciprocal: bool = True
    narrow: bool = True
    sum_bits: tuple[int, int] = (12, 22)

    def ulps(self, element: ElementType) -> float:
        """Return the most ULP that a function of a type may be off."""
        return float(ULPS["f16" if element.is_minifloat else element.name]) if self.ulp is None else self.ulp

    def flushes(self, element: ElementType) -> bool:
        """Return whether subnormal numbers of a type may be taken as zero."""
        part = element.part
        return self.flush and part.is_float and part.bits >= 16
