"""Element types and value types: the types a program's values have, and the numpy types that store them."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re

import ml_dtypes
import numpy as np

from .minifloat.formats import FORMATS, Format


class Kind(enum.Enum):
    """The families of element types that ops tell apart."""

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

    @property
    def format(self) -> Format:
        """The facts of a float type. Raises KeyError for other kinds."""
        return FORMATS[self.name]

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_complex(self) -> bool:
        return self.kind is Kind.COMPLEX

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned; `i1` is not an integer here, it is a boolean."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_minifloat(self) -> bool:
        return self.is_float and self.format.is_minifloat

    @property
    def part(self) -> ElementType:
        """The element type of a complex type's real and imaginary parts; any other type itself."""
        return ELEMENT_TYPES[f"f{self.bits // 2}"] if self.is_complex else self


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

_BY_DTYPE = {t.dtype: t for t in ELEMENT_TYPES.values()}


def element_type(name: str) -> ElementType:
    """The element type of an MLIR name (`si8` is `i8`). Raises ValueError that lists the names there are."""
    found = ELEMENT_TYPES.get(re.sub(r"^si(?=\d)", "i", name))
    if found is None:
        raise ValueError(f"{name!r} is not an element type (known: {', '.join(ELEMENT_TYPES)})")
    return found


def type_of_dtype(dtype: np.dtype) -> ElementType:
    """The element type stored as `dtype`. Raises ValueError where there is none."""
    found = _BY_DTYPE.get(np.dtype(dtype))
    if found is None:
        raise ValueError(f"numpy type {np.dtype(dtype)} is not the storage of any StableHLO element type")
    return found


@dataclasses.dataclass(frozen=True)
class TensorType:
    """A ranked tensor. A dimension of unknown size is None."""

    shape: tuple[int | None, ...]
    element: ElementType

    def __str__(self) -> str:
        dims = "".join(f"{'?' if d is None else d}x" for d in self.shape)
        return f"tensor<{dims}{self.element}>"

    @property
    def is_static(self) -> bool:
        return None not in self.shape

    @property
    def size(self) -> int:
        """Number of elements, as an exact integer. Raises ValueError where a dimension is unknown."""
        count = 1
        for d in self.shape:
            if d is None:
                raise ValueError(f"{self} has a dimension of unknown size")
            count *= d
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of storage."""
        return self.size * self.element.dtype.itemsize


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


Type = TensorType | TokenType | TupleType
