"""The table of facts: every floating-point format, each as about ten numbers; all else is derived.

Sources: FP8 Formats for Deep Learning (arXiv 2209.05433), 8-bit Numerical Formats for Deep Neural
Networks (arXiv 2206.02915), OCP Microscaling Formats v1.0, StableHLO RFC 20230321-fp8_fnuz, IEEE 754-2019.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import math

import ml_dtypes
import numpy as np


class Nan(enum.Enum):
    """Where a format keeps its NaN codes."""

    NONE = "none"
    IEEE = "S.11…1.nonzero"  # exponent all ones, mantissa not zero
    ALL_ONES = "S.11…1.11…1"  # the single code with exponent and mantissa all ones, in either sign
    NEGATIVE_ZERO = "the code of -0"  # FNUZ: 0x80
    LAST = "the last code"  # f8E8M0FNU: 0xFF


@dataclasses.dataclass(frozen=True)
class Format:
    """A binary floating-point format. A code is its bit pattern as an unsigned integer."""

    name: str  #: the MLIR type name
    dtype_name: str  #: the name of the numpy or ml_dtypes scalar type that stores it; uint8 where none is its own
    exponent_bits: int
    mantissa_bits: int
    bias: int
    has_infinity: bool
    nan: Nan
    is_signed: bool = True
    has_zero: bool = True

    @property
    def bits(self) -> int:
        """Width of a code, in bits."""
        return int(self.is_signed) + self.exponent_bits + self.mantissa_bits

    @property
    def precision(self) -> int:
        """Significant bits of a normal number, the hidden bit included."""
        return self.mantissa_bits + 1

    @property
    def has_negative_zero(self) -> bool:
        """Whether -0 has a code: in FNUZ formats that code is NaN."""
        return self.is_signed and self.nan is not Nan.NEGATIVE_ZERO

    @property
    def has_subnormals(self) -> bool:
        """Whether there are numbers below the smallest normal one; f8E8M0FNU has none."""
        return self.has_zero

    @property
    def is_minifloat(self) -> bool:
        """True for the formats of eight bits or less, which are small enough to enumerate."""
        return self.bits <= 8

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """The storage type: one element a byte for the formats below eight bits."""
        return np.dtype(getattr(ml_dtypes, self.dtype_name, None) or getattr(np, self.dtype_name))

    @functools.cached_property
    def code_dtype(self) -> np.dtype:
        """The unsigned integer type of the same storage width as `dtype`."""
        return np.dtype(f"u{self.dtype.itemsize}")

    @property
    def has_dtype(self) -> bool:
        """Whether a storage type is its own. Arrays of any other format hold codes, and are only converted."""
        return self.dtype_name != "uint8"

    @property
    def sign_bit(self) -> int:
        """The code whose only set bit is the sign; 0 in an unsigned format."""
        return 1 << (self.bits - 1) if self.is_signed else 0

    @property
    def min_exponent(self) -> int:
        """Exponent of the least significant bit of a subnormal: the smallest step is 2**min_exponent."""
        return int(self.has_subnormals) - self.bias - self.mantissa_bits

    @property
    def min_normal_exponent(self) -> int:
        """Exponent of the smallest normal number."""
        return self.min_exponent + self.mantissa_bits

    @functools.cached_property
    def max_code(self) -> int:
        """The code of the largest finite number."""
        last = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        if self.has_infinity:
            return last - (1 << self.mantissa_bits)
        return last - int(self.nan in (Nan.ALL_ONES, Nan.LAST))

    @functools.cached_property
    def largest(self) -> float:
        """The largest finite number."""
        exponent, rest = divmod(self.max_code, 1 << self.mantissa_bits)
        significand = rest + (1 << self.mantissa_bits)
        return math.ldexp(significand, exponent - int(self.has_subnormals) + self.min_exponent)

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest power of two."""
        return math.frexp(self.largest)[1] - 1

    @property
    def infinity_code(self) -> int | None:
        """The code of plus infinity, None where the format has none."""
        return self.max_code + 1 if self.has_infinity else None

    @functools.cached_property
    def nan_code(self) -> int | None:
        """The canonical (quiet, positive where there is a choice) NaN, None where the format has none."""
        last = (1 << (self.exponent_bits + self.mantissa_bits)) - 1
        match self.nan:
            case Nan.NONE:
                return None
            case Nan.IEEE:  # the quiet bit is the top bit of the mantissa
                return last - (1 << self.mantissa_bits) + 1 + (1 << (self.mantissa_bits - 1))
            case Nan.ALL_ONES | Nan.LAST:
                return last
            case Nan.NEGATIVE_ZERO:
                return self.sign_bit


# Bias is written out: mixing up the FN and FNUZ biases is a factor of two in every value.
FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f4E2M1FN", "float4_e2m1fn", 2, 1, 1, False, Nan.NONE),
        Format("f6E2M3FN", "float6_e2m3fn", 2, 3, 1, False, Nan.NONE),
        Format("f6E3M2FN", "float6_e3m2fn", 3, 2, 3, False, Nan.NONE),
        Format("f8E3M4", "float8_e3m4", 3, 4, 3, True, Nan.IEEE),
        Format("f8E4M3", "float8_e4m3", 4, 3, 7, True, Nan.IEEE),
        Format("f8E4M3FN", "float8_e4m3fn", 4, 3, 7, False, Nan.ALL_ONES),
        Format("f8E4M3FNUZ", "float8_e4m3fnuz", 4, 3, 8, False, Nan.NEGATIVE_ZERO),
        Format("f8E4M3B11FNUZ", "float8_e4m3b11fnuz", 4, 3, 11, False, Nan.NEGATIVE_ZERO),
        Format("f8E5M2", "float8_e5m2", 5, 2, 15, True, Nan.IEEE),
        Format("f8E5M2FNUZ", "float8_e5m2fnuz", 5, 2, 16, False, Nan.NEGATIVE_ZERO),
        Format("f8E8M0FNU", "float8_e8m0fnu", 8, 0, 127, False, Nan.LAST, is_signed=False, has_zero=False),
        # In MLIR since 2026, not in StableHLO or ml_dtypes: LLVM's Float8E5M3FNU, ue5m3 of NVIDIA's PTX ISA 9.4.
        Format("f8E5M3FNU", "uint8", 5, 3, 15, False, Nan.LAST, is_signed=False),
        Format("f16", "float16", 5, 10, 15, True, Nan.IEEE),
        Format("bf16", "bfloat16", 8, 7, 127, True, Nan.IEEE),
        Format("f32", "float32", 8, 23, 127, True, Nan.IEEE),
        Format("f64", "float64", 11, 52, 1023, True, Nan.IEEE),
    )
}

#: Those of StableHLO.
MINIFLOATS: tuple[str, ...] = tuple(name for name, f in FORMATS.items() if f.is_minifloat and f.has_dtype)
