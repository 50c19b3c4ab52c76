"""The formats for the tester's oracle, which shares no fact and no line with the package that it judges."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np


@dataclasses.dataclass(frozen=True)
class Format:
    """The facts of a floating-point format."""

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    #: The codes of NaN: "none", "ieee" (exponent of ones, mantissa not zero), "ones" (all ones, of either sign),
    #: "sign" (that of -0), "last" (all ones).
    nan: str
    has_infinity: bool = False
    is_signed: bool = True
    has_zero: bool = True

    @property
    def bits(self) -> int:
        """The bits of a code."""
        return self.is_signed + self.exponent_bits + self.mantissa_bits

    @property
    def is_minifloat(self) -> bool:
        """Whether it has at most 8 bits."""
        return self.bits <= 8

    @property
    def sign_bit(self) -> int:
        """The bit of the sign, 0 without one."""
        return 1 << (self.bits - 1) if self.is_signed else 0

    @property
    def ones(self) -> int:
        """All bits except the sign's."""
        return (1 << (self.exponent_bits + self.mantissa_bits)) - 1

    @property
    def max_code(self) -> int:
        """The code of the largest number."""
        return self.ones - {"ieee": 1 << self.mantissa_bits, "ones": 1, "last": 1}.get(self.nan, 0)

    @property
    def nan_code(self) -> int | None:
        """A quiet NaN, None if there is none."""
        quiet = (1 << max(self.mantissa_bits - 1, 0)) - 1
        return {"ieee": self.ones - quiet, "ones": self.ones, "last": self.ones, "sign": self.sign_bit}.get(self.nan)

    @property
    def infinity_code(self) -> int | None:
        """The code of +inf; None without infinities."""
        return self.max_code + 1 if self.has_infinity else None

    @property
    def min_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return (1 if self.has_zero else 0) - self.bias

    @functools.cached_property
    def code_dtype(self) -> np.dtype:
        """The unsigned type that codes are stored in."""
        return np.dtype(f"u{max(8, self.bits) // 8}")

    @functools.cached_property
    def max(self) -> float:
        """The largest number."""
        return float(self.decode(np.array([self.max_code]))[0])

    @functools.cached_property
    def _values(self) -> np.ndarray:
        beyond = np.full(max(0, 256 - (1 << self.bits)), np.nan)
        return np.append(self._decode(np.arange(1 << self.bits)), beyond)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Decodes codes to f64, which represents all formats; a NaN has the sign of its code. Invalid codes give
        NaN."""
        if self.bits == 64:
            return np.asarray(codes, np.uint64).view(np.float64)
        return self._values[codes] if self.bits <= 16 else self._decode(codes)

    def _decode(self, codes: np.ndarray) -> np.ndarray:
        codes = np.asarray(codes, np.int64)
        size = codes & self.ones
        field, mantissa = size >> self.mantissa_bits, size & ((1 << self.mantissa_bits) - 1)
        if self.has_zero:
            hidden = (field > 0).astype(np.int64) << self.mantissa_bits
            exponent = np.maximum(field, 1) - self.bias - self.mantissa_bits
        else:
            hidden, exponent = np.int64(1), field - self.bias
        numbers = np.ldexp((mantissa | hidden).astype(np.float64), exponent)
        if self.has_infinity:
            numbers = np.where(size == self.max_code + 1, np.inf, numbers)
        numbers = np.where(self.is_nan(codes), np.nan, numbers)
        return np.where(codes & self.sign_bit != 0, -numbers, numbers)

    def is_none(self, codes: np.ndarray) -> np.ndarray:
        """Tests which bytes are invalid codes, with bits set beyond the format's."""
        return np.asarray(codes) > (1 << self.bits) - 1

    def is_nan(self, codes: np.ndarray) -> np.ndarray:
        """Tests which codes are NaN."""
        size = np.asarray(codes) & np.array(self.ones, self.code_dtype)
        match self.nan:
            case "ieee":
                return size > self.max_code + 1
            case "ones" | "last":
                return size == self.ones
            case "sign":
                return np.asarray(codes) == self.sign_bit
        return np.zeros(np.shape(codes), bool)

    def is_subnormal(self, codes: np.ndarray) -> np.ndarray:
        """Tests which codes are subnormal, without zeros. In f8E8M0FNU that is 2^-127, which is subnormal in f32."""
        size = np.asarray(codes) & np.array(self.ones, self.code_dtype)
        if not self.has_zero:
            return size == 0
        return (size > 0) & (size < 1 << self.mantissa_bits) & ~self.is_nan(codes)

    def rank(self, codes: np.ndarray) -> np.ndarray:
        """The rank among the numbers of the format; zeros are 0, infinity is one step beyond the largest number."""
        codes = np.asarray(codes).astype(np.int64)  # f64 has 63 bits without its sign
        size = codes & self.ones
        return np.where(codes & np.int64(_signed64(self.sign_bit)) != 0, -size, size)


def _signed64(bit: int) -> int:
    return bit - (1 << 64) if bit >> 63 else bit


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("f4E2M1FN", 2, 1, 1, "none"),
        Format("f6E2M3FN", 2, 3, 1, "none"),
        Format("f6E3M2FN", 3, 2, 3, "none"),
        Format("f8E3M4", 3, 4, 3, "ieee", has_infinity=True),
        Format("f8E4M3", 4, 3, 7, "ieee", has_infinity=True),
        Format("f8E4M3FN", 4, 3, 7, "ones"),
        Format("f8E4M3FNUZ", 4, 3, 8, "sign"),
        Format("f8E4M3B11FNUZ", 4, 3, 11, "sign"),
        Format("f8E5M2", 5, 2, 15, "ieee", has_infinity=True),
        Format("f8E5M2FNUZ", 5, 2, 16, "sign"),
        Format("f8E8M0FNU", 8, 0, 127, "last", is_signed=False, has_zero=False),
        Format("f8E5M3FNU", 5, 3, 15, "last", is_signed=False),
        Format("f16", 5, 10, 15, "ieee", has_infinity=True),
        Format("bf16", 8, 7, 127, "ieee", has_infinity=True),
        Format("f32", 8, 23, 127, "ieee", has_infinity=True),
        Format("f64", 11, 52, 1023, "ieee", has_infinity=True),
    )
}
ALL_MINIFLOATS: tuple[str, ...] = tuple(f.name for f in FORMATS.values() if f.is_minifloat)
#: Those that are not StableHLO's: they are only converted.
CONVERTED = ("f8E5M3FNU",)
MINIFLOATS: tuple[str, ...] = tuple(name for name in ALL_MINIFLOATS if name not in CONVERTED)

#: Bits and sign of the integer types; i1 is a boolean.
INTEGERS: dict[str, tuple[int, bool]] = {
    **{f"i{n}": (n, True) for n in (2, 4, 8, 16, 32, 64)},
    **{f"ui{n}": (n, False) for n in (2, 4, 8, 16, 32, 64)},
}


def code_dtype(element: str) -> np.dtype:
    """The numpy type of the codes of an element type."""
    if element == "i1":
        return np.dtype(bool)
    return FORMATS[element].code_dtype if element in FORMATS else np.dtype(f"u{max(8, INTEGERS[element][0]) // 8}")


def bits(element: str) -> int:
    """The width of a code."""
    return 1 if element == "i1" else FORMATS[element].bits if element in FORMATS else INTEGERS[element][0]


def all_codes(element: str) -> np.ndarray:
    """Every code of a type of at most 16 bits."""
    return np.arange(1 << bits(element)).astype(code_dtype(element))


def integers(codes: np.ndarray, element: str) -> np.ndarray:
    """Decodes codes of an integer type of at most 64 bits to int64 (uint64 for ui64)."""
    width, is_signed = INTEGERS.get(element, (1, False))
    if element == "ui64":
        return np.asarray(codes, np.uint64)
    numbers = np.asarray(codes).astype(np.int64)
    return (
        np.where(numbers >> (width - 1) & 1, numbers - (1 << width), numbers) if is_signed and width < 64 else numbers
    )
