"""The table of block formats: elements that share a scale. Each is a row of facts; all else is derived from it.

Sources: OCP Microscaling Formats (MX) Specification 1.0, sections 5.1 to 5.3; NVIDIA's PTX ISA (block scaling) and
cuDNN's documentation for NVFP4; the DeepSeek-V3 technical report (arXiv 2412.19437), section 3.3.2.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from ..minifloat.formats import FORMATS, Format

#: Fraction bits of the integer elements of MXINT8, whose scale is implied (OCP MX 1.0, section 5.3.4).
_INTEGER_FRACTION_BITS = 6


@dataclasses.dataclass(frozen=True)
class BlockFormat:
    """A block format: the value of an element is its code's value times the scale of its block.

    element: the MLIR name of the element's type; `i8` is a two's-complement integer with 6 fraction bits.
    block: the shape of a block, along the last of these dimensions first where there is one alone.
    scale: the MLIR name of the scale's format.
    tensor_scale: the same of a second scale, one for the whole tensor; None where there is none.
    rule: the scale rule that its source describes; see `scales.py`.
    zero_scale: the scale of a block without any number but zero; None is the smallest of the scale's format.
    """

    name: str
    element: str
    block: tuple[int, ...]
    scale: str
    tensor_scale: str | None
    rule: str
    zero_scale: float | None
    source: str

    @property
    def element_format(self) -> Format | None:
        """The format of the elements; None where they are integers."""
        return FORMATS.get(self.element)

    @property
    def scale_format(self) -> Format:
        return FORMATS[self.scale]

    @property
    def has_power_scale(self) -> bool:
        """Whether every scale is a power of two."""
        return self.scale_format.mantissa_bits == 0

    @property
    def element_bits(self) -> int:
        fmt = self.element_format
        return 8 if fmt is None else fmt.bits

    @property
    def element_dtype(self) -> np.dtype:
        fmt = self.element_format
        return np.dtype(np.int8) if fmt is None else fmt.dtype

    @property
    def fraction_bits(self) -> int:
        """Fraction bits of integer elements; 0 of floating-point ones."""
        return _INTEGER_FRACTION_BITS if self.element_format is None else 0

    @property
    def mantissa_bits(self) -> int:
        """Bits after the leading one of the largest element."""
        fmt = self.element_format
        return _INTEGER_FRACTION_BITS if fmt is None else fmt.mantissa_bits

    @functools.cached_property
    def largest(self) -> float:
        """The largest number that an element is rounded to."""
        fmt = self.element_format
        if fmt is None:  # -128 is left out, so that the range is symmetric
            return 127 / (1 << _INTEGER_FRACTION_BITS)
        return fmt.largest

    @property
    def size(self) -> int:
        """Elements in a block."""
        return math.prod(self.block)

    @property
    def bits(self) -> int:
        """Bits of a block, its scale included."""
        return self.size * self.element_bits + self.scale_format.bits


_MX = "OCP MX 1.0, table 1"
BLOCK_FORMATS: dict[str, BlockFormat] = {
    f.name: f
    for f in (
        BlockFormat("mxfp8_e4m3", "f8E4M3FN", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("mxfp8_e5m2", "f8E5M2", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("mxfp6_e2m3", "f6E2M3FN", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("mxfp6_e3m2", "f6E3M2FN", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("mxfp4_e2m1", "f4E2M1FN", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("mxint8", "i8", (32,), "f8E8M0FNU", None, "floor", None, _MX),
        BlockFormat("nvfp4", "f4E2M1FN", (16,), "f8E4M3FN", "f32", "nearest", None, "NVIDIA PTX ISA, block scaling"),
        BlockFormat("fp4_ue5m3", "f4E2M1FN", (16,), "f8E5M3FNU", None, "nearest", None, "NVIDIA PTX ISA 9.4, ue5m3"),
        BlockFormat("deepseek_1x128", "f8E4M3FN", (128,), "f32", None, "nearest", 1.0, "arXiv 2412.19437, section 3.3"),
        BlockFormat(
            "deepseek_128x128", "f8E4M3FN", (128, 128), "f32", None, "nearest", 1.0, "arXiv 2412.19437, section 3.3"
        ),
    )
}
