"""Element types and value types: the types a program's values have, and the numpy types that store them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import re

import ml_dtypes
import numpy as np

from .close import hint
from .minifloat.formats import FORMATS, Format


class Kind(enum.Enum):
    """The families of element types."""

    BOOL = "boolean"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"
    FLOAT = "float"
    COMPLEX = "complex"


@dataclasses.dataclass(frozen=True)
class ElementType:
    """The type of one element, under its MLIR name: `i1`, `ui8`, `f8E4M3FNUZ`, `complex<f32>`."""

    name: str
    kind: Kind
    bits: int

    def __str__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)  # unlike types have unlike names; types are looked up for every operation

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """The storage type. Types below eight bits take one byte an element."""
        if self.kind is Kind.FLOAT:
            return FORMATS[self.name].dtype
        if self.kind is Kind.COMPLEX:
            return np.dtype(f"c{self.bits // 8}")
        if self.kind is Kind.BOOL:
            return np.dtype(bool)
        name = ("int" if self.kind is Kind.SIGNED else "uint") + str(self.bits)
        return np.dtype(getattr(ml_dtypes, name) if self.bits < 8 else name)

    @functools.cached_property
    def format(self) -> Format:
        """The facts of a float type. Raises KeyError for other kinds."""
        return FORMATS[self.name]

    @functools.cached_property
    def is_float(self) -> bool:
        """Whether it is a float type, minifloats among them."""
        return self.kind is Kind.FLOAT

    @functools.cached_property
    def is_complex(self) -> bool:
        """Whether it is `complex<f32>` or `complex<f64>`."""
        return self.kind is Kind.COMPLEX

    @functools.cached_property
    def is_integer(self) -> bool:
        """Signed or unsigned; `i1` is not an integer here, it is a boolean."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @functools.cached_property
    def is_minifloat(self) -> bool:
        """Whether it is a float type of at most 8 bits."""
        return self.is_float and self.format.is_minifloat

    @functools.cached_property
    def has_dtype(self) -> bool:
        """Whether its storage type is its own; see `Format.has_dtype`."""
        return not self.is_float or self.format.has_dtype

    @functools.cached_property
    def working_dtype(self) -> np.dtype:
        """The dtype that numpy computes with: bytes for integers of fewer bits, and else the storage type."""
        return (
            np.dtype(f"{'i' if self.kind is Kind.SIGNED else 'u'}1")
            if 1 < self.bits < 8 and self.is_integer
            else self.dtype
        )

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer type."""
        low = -(1 << (self.bits - 1)) if self.kind is Kind.SIGNED else 0
        return low, low + (1 << self.bits) - 1

    @property
    def part(self) -> ElementType:
        """The element type of a complex type's real and imaginary parts; any other type itself."""
        return ELEMENT_TYPES[f"f{self.bits // 2}"] if self.is_complex else self

    @property
    def storage(self) -> ElementType:
        """The type of what is stored: of a quantized type its integers, any other type itself."""
        return self

    @property
    def expressed(self) -> ElementType:
        """The type of the numbers that are meant: of a quantized type a float type, any other type itself."""
        return self


@dataclasses.dataclass(frozen=True)
class QuantizedType(ElementType):
    """Integers `q` that stand for the numbers `(q - zero_point) * scale` of a float type: `!quant.uniform<…>`.

    As an element type it is its storage, integers; only `quantization.py` knows what they mean. With an axis there is a
    scale and a zero point for each index along that dimension of the tensor, else one for all. Made by
    `quantized_type`, which names it as MLIR does, so that equal types have equal names.
    """

    _storage: str
    _expressed: str
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    storage_min: int
    storage_max: int

    __hash__ = ElementType.__hash__

    @property
    def storage(self) -> ElementType:
        """The integer type that is stored."""
        return ELEMENT_TYPES[self._storage]

    @property
    def expressed(self) -> ElementType:
        """The float type of the numbers that are meant."""
        return ELEMENT_TYPES[self._expressed]


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("i1", Kind.BOOL, 1),
        *(ElementType(f"i{n}", Kind.SIGNED, n) for n in (2, 4, 8, 16, 32, 64)),
        *(ElementType(f"ui{n}", Kind.UNSIGNED, n) for n in (2, 4, 8, 16, 32, 64)),
        *(ElementType(f.name, Kind.FLOAT, f.bits) for f in FORMATS.values()),
        ElementType("complex<f32>", Kind.COMPLEX, 64),
        ElementType("complex<f64>", Kind.COMPLEX, 128),
    )
}

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values() if t.has_dtype}
#: The names that numpy and ml_dtypes have for the same types.
_BY_DTYPE_NAME = {dtype.name: t for dtype, t in _BY_DTYPE.items()}


def element_type(name: str) -> ElementType:
    """The element type of an MLIR name (`si8` is `i8`). Raises ValueError that names close ones."""
    if name.startswith("!quant."):
        return _parse_quantized(name)
    element = ELEMENT_TYPES.get(re.sub(r"^si(?=\d)", "i", name))
    if element is None:
        raise ValueError(f"expected an element type, got {name!r}{hint(name, ELEMENT_TYPES)}")
    return element


def named_type(name: str) -> ElementType:
    """The element type of a name that people write: MLIR's, or that of numpy or ml_dtypes, such as `float8_e4m3fn`.

    Raises ValueError that lists MLIR's names.
    """
    return _BY_DTYPE_NAME.get(name) or element_type(name)


def type_of_dtype(dtype: np.dtype) -> ElementType:
    """The element type stored as `dtype`. Raises ValueError where there is none."""
    element = _BY_DTYPE.get(np.dtype(dtype))
    if element is None:
        raise ValueError(f"expected a numpy type that stores a StableHLO element type, got {np.dtype(dtype)}")
    return element


def quantized_type(
    storage: str,
    expressed: str,
    scales: tuple[float, ...],
    zero_points: tuple[int, ...] | None = None,
    axis: int | None = None,
    limits: tuple[int, int] | None = None,
) -> QuantizedType:
    """A quantized type; zero points are 0 and limits those of the storage type unless given.

    Raises ValueError where the specification's constraints (C1) to (C11) of quantized types do not hold.
    """
    stored, meant = element_type(storage), element_type(expressed)
    zeros = (0,) * len(scales) if zero_points is None else zero_points
    _require(stored.is_integer and stored.bits <= 32, f"its storage type is {stored} (i2 to i32 or ui2 to ui32)")
    _require(meant.is_float, f"its expressed type is {meant} (a float type)")
    whole = stored.range
    low, high = limits or whole
    _require(whole[0] <= low < high <= whole[1], f"its limits are {low}:{high} (within {whole[0]}:{whole[1]})")
    _require(all(low <= z <= high for z in zeros), f"its zero points must lie within {low}:{high}")
    _require(all(0 < s < math.inf for s in scales), "its scales must be positive and finite")
    _require(len(zeros) == len(scales) >= 1 and (axis is not None or len(scales) == 1), "it needs one scale")
    _require(axis is None or axis >= 0, f"its dimension is {axis} (0 or above)")

    texts = [repr(float(s)).partition("e") for s in scales]  # MLIR reads a number with a point
    numbers = ["".join((digits if "." in digits else f"{digits}.0", *rest)) for digits, *rest in texts]
    each = [text + f":{z}" * (z != 0) for text, z in zip(numbers, zeros, strict=True)]
    within = f"<{low}:{high}>" if (low, high) != whole else ""
    along, all_ = ("", each[0]) if axis is None else (f":{axis}", f"{{{', '.join(each)}}}")
    name = f"!quant.uniform<{stored.name.replace('ui', 'u')}{within}:{meant}{along}, {all_}>"
    scales = tuple(map(float, scales))
    return QuantizedType(name, stored.kind, stored.bits, stored.name, meant.name, scales, zeros, axis, low, high)


_NUMBER = r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
_QUANTIZED = re.compile(
    r"!quant\.uniform<\s*(?P<storage>\w+)(?:<(?P<low>-?\d+):(?P<high>-?\d+)>)?:(?P<expressed>\w+)(?::(?P<axis>\d+))?,"
    r"\s*(?P<open>\{)?(?P<each>[^{}]*)(?(open)\})\s*>",
    re.ASCII,
)
_PARAMETER = re.compile(rf"({_NUMBER})(?::(-?\d+))?", re.ASCII)


@functools.lru_cache(1024)
def _parse_quantized(text: str) -> QuantizedType:
    match = _QUANTIZED.fullmatch(text)
    each = [_PARAMETER.fullmatch(p.strip()) for p in match["each"].split(",")] if match else []
    if re.match(r"!quant\.uniform<[^,]*\{", text):
        raise ValueError(
            f"{text} is a sub-channel type, which no operation of StableHLO takes (expected a type with one scale, or "
            "one for each index of an axis; interp.quantize has blocks)"
        )
    if not match or not all(each) or (match["open"] is None) != (match["axis"] is None):
        raise ValueError(
            f"{text} is not a quantized type that is supported (!quant.uniform<i8:f32, 0.1:-30>, or of an axis "
            "!quant.uniform<i8:f32:0, {0.1:-30, 0.5:-20}>)"
        )
    parameters = [m for m in each if m]
    try:
        scales, zeros = tuple(float(m[1]) for m in parameters), tuple(int(m[2] or 0) for m in parameters)
        axis = None if match["axis"] is None else int(match["axis"])
        limits = None if match["low"] is None else (int(match["low"]), int(match["high"]))
        storage = re.sub(r"^u(?=\d)", "ui", match["storage"])
        return quantized_type(storage, match["expressed"], scales, zeros, axis, limits)
    except ValueError as error:
        raise ValueError(f"{text} is not supported: {error}") from None


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A ranked tensor. A dimension of unknown size is None."""

    shape: tuple[int | None, ...]
    element: ElementType
    #: For each dimension the most that it may be, None where nothing is said of it; none at all say nothing of any.
    bounds: tuple[int | None, ...] = dataclasses.field(default=(), compare=False)

    def __str__(self) -> str:
        dims, bounds = "".join(f"{_size(d)}x" for d in self.shape), ", ".join(map(_size, self.bounds))
        return f"tensor<{dims}{self.element}" + (f", #stablehlo.bounds<{bounds}>>" if bounds else ">")

    @property
    def is_static(self) -> bool:
        """Whether all sizes are known."""
        return None not in self.shape

    def agrees(self, other: TensorType) -> bool:
        """Whether both can have one shape; a size not known yet may be any."""
        pairs = zip(self.shape, other.shape, strict=False)
        return len(self.shape) == len(other.shape) and all(a == b or None in (a, b) for a, b in pairs)

    def admits(self, shape: tuple[int | None, ...]) -> bool:
        """Whether a tensor of this type can have this shape; a size not known yet may be any."""
        if len(shape) != len(self.shape):
            return False
        most = self.bounds or (None,) * len(shape)
        return all(
            n is None or (n == d if d is not None else b is None or n <= b)
            for n, d, b in zip(shape, self.shape, most, strict=True)
        )

    @property
    def size(self) -> int:
        """Number of elements, as an exact integer. Raises ValueError where a dimension is unknown."""
        if None in self.shape:
            raise ValueError(f"{self} has a dimension of unknown size")
        return math.prod(self.shape)  # pyright: ignore[reportCallIssue, reportArgumentType]

    @property
    def nbytes(self) -> int:
        """Bytes of storage."""
        return self.size * self.element.dtype.itemsize


def _size(n: int | None) -> str:
    return "?" if n is None else str(n)


@dataclasses.dataclass(frozen=True)
class TokenType:
    """The type of a value that only orders side effects."""

    def __str__(self) -> str:
        return "!stablehlo.token"


@dataclasses.dataclass(frozen=True)
class TupleType:
    """A tuple of values; stored as a Python tuple."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"tuple<{', '.join(map(str, self.elements))}>"


@dataclasses.dataclass(frozen=True)
class FutureType:
    """Values that an asynchronous op will give."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return f"!stablehlo.future<{', '.join(map(str, self.elements))}>"


Type = TensorType | TokenType | TupleType | FutureType
