"""An enclosure of a tensor, and its roundings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.cast import cast
from ...ops.minifloat.formats import Nan
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType
from ..judging.equality import equal_values
from ..program import Operation

F32, F64, C128 = (ELEMENT_TYPES[name] for name in ("f32", "f64", "complex<f64>"))
_PLAIN = Policy()
#: Integers up to this are numbers of f64, which intervals are made of.
MOST = 2.0**53


@dataclasses.dataclass(frozen=True)
class Enclosure:
    """All that the elements of a tensor may be.

    Attributes:
        type: The type of the tensor.
        value: What the interpreter gives, as it holds values of the type.
        low: The least number that each element may be, in f64 (of both parts of complex numbers, in complex128); NaN
            where it can be NaN alone. None where every element is the interpreter's.
        high: The greatest number.
        nan: Where an element may be NaN.
        since: The operation since which an element is undecided, by its index in `causes`; 0 where it is decided. None
            where all are.
        causes: Operations; the first is None.
        beyond: Where an element may be infinite or NaN instead, as a step on the way to it may overflow.
        has_bits: Whether the bits of NaN are known: they are those of an argument or a constant.
    """

    type: TensorType
    value: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    nan: np.ndarray | None = None
    since: np.ndarray | None = None
    causes: list[Operation | None] = dataclasses.field(default_factory=lambda: [None])
    beyond: np.ndarray | None = None
    has_bits: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether every element is the interpreter's."""
        return self.low is None and self.since is None

    @property
    def element(self) -> ElementType:
        """The element type."""
        return self.type.element

    @property
    def undecided(self) -> np.ndarray:
        """Where elements are undecided."""
        return np.zeros(self.value.shape, bool) if self.since is None else self.since != 0

    def cause(self) -> Operation | None:
        """Return the first operation since which elements are undecided."""
        if self.since is None or not self.since.any():
            return None
        return self.causes[int(self.since[self.since != 0].min())]

    def bounds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the least and the greatest number of each element, and where it may be NaN."""
        (low, high, nan), beyond = self.within(), self.beyond
        if beyond is None:
            return low, high, nan
        low = by_parts(low, lambda v: np.where(beyond, -np.inf, v))
        high = by_parts(high, lambda v: np.where(beyond, np.inf, v))
        return low, high, nan | beyond

    def within(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the bounds of elements of which no step overflows."""
        if self.low is not None and self.high is not None and self.nan is not None:
            return self.low, self.high, self.nan
        wide = to_f64(self.value, self.element)
        return wide, wide, np.isnan(wide)

    def as_interval(self) -> Enclosure:
        """Return the same with bounds, in which both zeros are one number."""
        low, high, nan = self.bounds()
        return dataclasses.replace(self, low=low, high=high, nan=nan)

    @np.errstate(all="ignore")
    def results(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the bounds after a result's rounding to its type; those that overflow to NaN are infinite."""
        return self._rounded(*self.bounds())

    def _rounded(self, low: np.ndarray, high: np.ndarray, nan: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not (self.element.is_float or self.element.is_complex):
            return low, high, nan
        if leaves_open(self.element) and self.low is not None:
            # See `ops.minifloat.open_points`: NaN and infinity in a format without them; in f8E8M0FNU what is not
            # positive or underflows, and ties.
            unknown, least = nan | np.isinf(low) | np.isinf(high), least_normal(self.element)
            if not self.element.format.has_zero:
                unknown = unknown | (low < least)
                low, high = np.maximum(np.nextafter(low, -np.inf), least), np.maximum(np.nextafter(high, np.inf), least)
            low, high, nan = np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high), unknown
        ends = [by_parts(x, lambda part: round_to(part, self.element.part)) for x in (low, high)]
        overflows = [np.isnan(end) & ~np.isnan(x) for end, x in zip(ends, (low, high), strict=True)]
        if self.element.is_complex:
            return ends[0], ends[1], nan | overflows[0] | overflows[1]
        low, high = (
            np.where(o, np.copysign(np.inf, x), e) for o, x, e in zip(overflows, (low, high), ends, strict=True)
        )
        return low, high, nan | overflows[0] | overflows[1]

    @np.errstate(all="ignore")
    def admits(self, array: np.ndarray) -> np.ndarray:
        """Return which elements of an array of the type and shape are enclosed; those undecided are."""
        same = equal_values(array, self.value)
        if self.low is not None:
            low, high, nan = self._rounded(*self.within())
            x = to_f64(array, self.element)
            inside = by_both_parts(x, low, high, lambda a, b, c: (b <= a) & (a <= c))
            same = same | inside | (nan & np.isnan(x))
            same = same if self.beyond is None else same | (self.beyond & ~np.isfinite(x))
        return same | self.undecided

    @np.errstate(all="ignore")
    def excess(self, array: np.ndarray) -> np.ndarray:
        """Return by how many ULP of its type each element of an array lies outside; 0 inside, infinity if NaN does."""
        x = to_f64(array, self.element)
        low, high, _ = self._rounded(*self.within())

        def part(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            off = np.maximum(np.maximum(b - a, a - c), 0.0)
            return np.where(
                np.isnan(off), np.inf, off / np.maximum(ulp_of(np.where(a < b, b, c), self.element.part), 5e-324)
            )

        off = part(np.real(x), np.real(low), np.real(high))
        off = np.maximum(off, part(np.imag(x), np.imag(low), np.imag(high))) if self.element.is_complex else off
        return np.where(self.admits(array), 0.0, off)


def to_f64(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Return elements in f64, or complex128."""
    x = np.asarray(x)
    if element.is_complex:
        return x.astype(np.complex128)
    return np.asarray(cast(x, element, F64, _PLAIN)) if element.is_float else x.astype(np.float64)


def of_parts(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """Return complex numbers of their parts, which may be infinite."""
    found = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imag)), np.complex128)
    found.real, found.imag = real, imag
    return found


def by_parts(x: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to numbers, or to the real and imaginary parts of complex ones."""
    return of_parts(function(np.real(x)), function(np.imag(x))) if np.iscomplexobj(x) else function(x)


def by_both_parts(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, test: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Apply a test to numbers, or to both parts of complex ones."""
    if not np.iscomplexobj(x):
        return np.asarray(test(x, low, high))
    return np.asarray(test(np.real(x), np.real(low), np.real(high)) & test(np.imag(x), np.imag(low), np.imag(high)))


def round_to(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Return f64 rounded to a float type, to nearest even, as f64. An overflow is infinity, or NaN if there is none."""
    if element == F64:
        return x
    if element == F32:
        return x.astype(np.float32).astype(np.float64)
    return np.asarray(cast(np.asarray(cast(x, F64, element, _PLAIN)), element, F64, _PLAIN))


def ulp_of(x: np.ndarray, element: ElementType) -> np.ndarray:
    """Return the distance of numbers from the next of their type."""
    if not element.is_float:
        return np.ones(x.shape)
    fmt = element.format
    exponent = np.where(x == 0, fmt.min_exponent, np.frexp(np.where(np.isfinite(x), x, 0.0))[1] - fmt.precision)
    return np.ldexp(1.0, np.maximum(exponent, fmt.min_exponent))


def computed_in(element: ElementType) -> ElementType:
    """Return the narrowest type that functions of a type may be computed in."""
    return ELEMENT_TYPES["f16"] if element.is_minifloat else element


def least_normal(element: ElementType) -> float:
    """Return the least normal number of a float type."""
    fmt = element.format
    return 2.0 ** (fmt.min_exponent + fmt.mantissa_bits)


def flush(low: np.ndarray, high: np.ndarray, element: ElementType) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of numbers of which those that are subnormal may be taken as zero, as parts of complex ones may."""
    if np.iscomplexobj(low):
        real, imag = (flush(part(low), part(high), element.part) for part in (np.real, np.imag))
        return of_parts(real[0], imag[0]), of_parts(real[1], imag[1])
    least = least_normal(element)
    near = (low < least) & (high > -least)
    return np.where(near, np.minimum(low, 0.0), low), np.where(near, np.maximum(high, 0.0), high)


def may_be_subnormal(low: np.ndarray, high: np.ndarray, element: ElementType) -> np.ndarray:
    """Return where bounds hold subnormal numbers."""
    least = least_normal(element)
    return np.asarray((low < least) & (high > -least) & ((low != 0) | (high != 0)))


def subnormal_hull(
    low: np.ndarray, high: np.ndarray, element: ElementType, some: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of a choice among numbers of which those that are subnormal, if there are some, may be taken for
    equal.
    """
    least = least_normal(element)
    near = some & (low < least) & (high > -least)
    return np.where(near, np.minimum(low, -least), low), np.where(near, np.maximum(high, least), high)


def largest(element: ElementType) -> float:
    """Return the largest number of a float type."""
    fmt = element.format
    return float(to_f64(np.array(fmt.max_code, fmt.code_dtype).view(element.dtype), element))


def leaves_open(element: ElementType) -> bool:
    """Return whether a format leaves open what some numbers are in it, as it has no NaN, or no zero."""
    return element.is_float and (not element.format.has_zero or element.format.nan_code is None)


def is_fnuz(element: ElementType) -> bool:
    """Return whether the only NaN of a format is in the place of negative zero: it has no sign to be ordered by."""
    return element.is_float and element.format.nan is Nan.NEGATIVE_ZERO


def holds_integers(element: ElementType) -> bool:
    """Return whether elements are integers or booleans."""
    return element.is_integer or element.kind is Kind.BOOL


def join(first: Enclosure, second: Enclosure) -> Enclosure:
    """Return what one or the other of two enclosures holds."""
    if not isinstance(first, Enclosure):
        return first
    (a, b, m), (c, d, n) = first.bounds(), second.bounds()
    low, high = hull([a, c], [b, d])
    since = np.maximum(causes_of(first), causes_of(second))
    return dataclasses.replace(
        first, low=low, high=high, nan=m | n, since=since if since.any() else None, beyond=None,
        has_bits=first.has_bits and second.has_bits,
    )  # fmt: skip


def settle(x: Enclosure, has_sign: bool = False) -> Enclosure:
    """Return an enclosure without bounds and causes that say nothing: every element is the interpreter's to the bit.

    With `has_sign` so are zeros.
    """
    if x.since is not None and not x.since.any():
        x = dataclasses.replace(x, since=None)
    if x.low is None or x.since is not None or x.beyond is not None or x.element.is_complex:
        return x
    low, high, nan = x.within()
    is_same = (low == high) & (low == to_f64(x.value, x.element)) & ~nan
    is_same &= ((low != 0) | has_sign) if x.element.is_float else np.abs(low) <= MOST
    return dataclasses.replace(x, low=None, high=None, nan=None) if is_same.all() else x


def causes_of(x: Enclosure) -> np.ndarray:
    """Return the index of the cause of each element that is undecided, else 0."""
    return np.zeros(x.value.shape, np.int32) if x.since is None else x.since


def merge_since(operands: Sequence[Any], shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the causes of elements that depend on the same elements of operands; None where there is none."""
    known = [x.since for x in operands if isinstance(x, Enclosure) and x.since is not None]
    if not known:
        return None
    return np.broadcast_to(np.maximum.reduce([np.broadcast_to(s, shape) for s in known]), shape).astype(np.int32)


def hull(lows: Sequence[np.ndarray], highs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the least of lower bounds and the greatest of upper ones; of complex numbers by parts."""
    if any(map(np.iscomplexobj, (*lows, *highs))):
        low, high = (
            of_parts(f.reduce([np.real(x) for x in ends]), f.reduce([np.imag(x) for x in ends]))
            for f, ends in ((np.fmin, lows), (np.fmax, highs))
        )
        return low, high
    return np.fmin.reduce(list(lows)), np.fmax.reduce(list(highs))


def exactly_known(x: Any) -> bool:
    """Return whether a value is the interpreter's: a tensor, each of a tuple, or a token."""
    if isinstance(x, tuple):
        return all(map(exactly_known, x))
    return not isinstance(x, Enclosure) or x.is_exact


def know_bits(x: Any) -> bool:
    """Return whether the bits of all elements are those of the bounds, be they NaN."""
    return isinstance(x, Enclosure) and (x.has_bits or not x.element.is_float)


def has_nan(x: Any) -> bool:
    """Return whether elements of an enclosure may be NaN."""
    return isinstance(x, Enclosure) and x.element.is_float and bool(x.bounds()[2].any())


def value_of(x: Any) -> Any:
    """Return the interpreter's value of an enclosure, or of each of a tuple."""
    if isinstance(x, tuple):
        return tuple(map(value_of, x))
    return x.value if isinstance(x, Enclosure) else x
