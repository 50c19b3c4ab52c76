"""Counts of the losses of a tensor in its format, added up over parts, steps and iterations of loops.

For types of up to 16 bits all counts follow from the number of each code, so no tensor is kept.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...ops.blas import one_thread
from ...ops.cast import cast, code_table, codes_of
from ...ops.minifloat.formats import FORMATS, Format
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, type_of_dtype

_F64 = ELEMENT_TYPES["f64"]
_PLAIN = Policy()
#: Elements compared at a time: their temporaries stay in the cache.
_PART = 1 << 16
#: Counts of all elements, and of those with an exact result.
_OF_ALL = ("zeros", "subnormals", "infinities", "nans", "at_largest")
_OF_COMPARED = ("underflows", "saturations", "overflows")
#: Numbers of which the largest, or the smallest, remains; others are added.
_EXTREMES: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("max_abs", "exact_max", "ulp_max", "relative_max"), max),
    **dict.fromkeys(("min_abs", "exact_min"), min),
}


@functools.cache
def _code_values(name: str) -> np.ndarray:
    """The f64 of each code of a format of up to 16 bits."""
    return code_table(ELEMENT_TYPES[name], _F64, _PLAIN).astype(np.float64)


def range_end(fmt: Format) -> float:
    """The largest number plus half a step; larger numbers are beyond the range."""
    return fmt.largest + math.ldexp(0.5, fmt.max_exponent - fmt.mantissa_bits)


def scale_for(fmt: Format, largest: float) -> int:
    """k of the largest power of two 2^k by which a positive number can be multiplied and stay within the range."""
    (m, e), (n, f) = math.frexp(fmt.largest), math.frexp(largest)
    return e - f - (m < n)


class Statistics:
    """The counts of a tensor.

    Attributes:
        elements, zeros, subnormals, infinities, nans: The number of elements, and of each kind.
        at_largest: The number with the magnitude of the largest finite number.
        max_abs, min_abs: The largest and the smallest finite magnitude above zero; None if there is none.
        histogram: The number of nonzero finite numbers with each exponent floor(log2(|x|)).
        compared: The number with an exact result to compare with. The following counts are of these.
        underflows: The exact result is not zero, but the result is.
        saturations: The exact result is finite and beyond the largest number by more than half a step, and the result
            is finite.
        overflows: The exact result is finite, and the result is an infinity or NaN.
        exact_max, exact_min: As max_abs and min_abs, for exact results.
        exact_histogram: As histogram, for exact results.
        measured: The number of finite pairs, whose errors are measured.
        ulp_max, ulp_sum: The error in ULP: |result - exact| divided by the step of the format at the exact result,
            which is the smallest step below the normal numbers, and the largest beyond the largest number.
        relative_max, relative_sum, relative_count: |result - exact| / |exact|, where exact is not zero.
        signal, noise: The sums of exact^2 and of (result - exact)^2.
    """

    def __init__(self, name: str) -> None:
        """The counts of a float type, by its MLIR name."""
        self.format = FORMATS[name]
        self.elements = self.zeros = self.subnormals = self.infinities = self.nans = self.at_largest = 0
        self.compared = self.underflows = self.saturations = self.overflows = 0
        self.max_abs: float | None = None
        self.min_abs: float | None = None
        self.exact_max: float | None = None
        self.exact_min: float | None = None
        self.histogram: Counter[int] = Counter()
        self.exact_histogram: Counter[int] = Counter()
        self.measured = self.relative_count = 0
        self.ulp_max = self.ulp_sum = self.relative_max = self.relative_sum = self.signal = self.noise = 0.0

    # -- adding --------------------------------------------------------------------------------------------------------

    def merge(self, other: Statistics) -> None:
        """Adds the counts of another tensor of the same format."""
        for name, value in vars(other).items():
            mine, choose = getattr(self, name), _EXTREMES.get(name, operator.add)
            if name != "format" and value is not None:
                setattr(self, name, value if mine is None else choose(mine, value))

    def add(self, result: np.ndarray, exact: np.ndarray | None = None) -> None:
        """Counts a tensor of the format; `exact` has its exact results in f64, in the same shape."""
        result = np.ascontiguousarray(result).reshape(-1)
        self.elements += result.size
        parts = [slice(i, i + _PART) for i in range(0, result.size, _PART)]
        if self.format.bits <= 16:
            self._count_codes(codes_of(result, self.format))
        else:
            for part in parts:
                self._count(result[part], None)
        if exact is not None:
            exact = np.ascontiguousarray(exact, np.float64).reshape(-1)
            for part in parts:
                self._compare(result[part], exact[part])

    def _count_codes(self, codes: np.ndarray) -> None:
        weights: np.ndarray | None = None
        values = _code_values(self.format.name)
        if codes.size > values.size:
            counts = np.bincount(codes, minlength=values.size)
            codes = np.flatnonzero(counts)
            weights = counts[codes]
        self._count(values[codes], weights)

    def _count(self, values: np.ndarray, weights: np.ndarray | None) -> None:
        """Counts numbers, each as often as its weight says."""

        def total(where: np.ndarray) -> int:
            return int(np.count_nonzero(where) if weights is None else weights[where].sum())

        magnitude = np.abs(values)
        self.nans += total(np.isnan(values))
        self.infinities += total(np.isinf(values))
        self.zeros += total(values == 0)
        self.at_largest += total(magnitude == self.format.largest)
        number = (magnitude <= self.format.largest) & (values != 0)  # not NaN
        self.max_abs, self.min_abs = _spread(magnitude[number], self.max_abs, self.min_abs)
        exponents = count_exponents(magnitude[number], None if weights is None else weights[number])
        self.histogram += exponents
        if self.format.has_subnormals:
            self.subnormals += sum(n for e, n in exponents.items() if e < self.format.min_normal_exponent)

    def _compare(self, result: np.ndarray, exact: np.ndarray) -> None:
        self.compared += exact.size
        got = cast(result, type_of_dtype(result.dtype), _F64, _PLAIN).astype(np.float64, copy=False)
        known = np.isfinite(exact)
        finite = known & np.isfinite(got)
        self.overflows += int(np.count_nonzero(known & ~finite))
        sizes = np.abs(exact[known & (exact != 0)])
        self.exact_max, self.exact_min = _spread(sizes, self.exact_max, self.exact_min)
        self.exact_histogram += count_exponents(sizes)
        if not finite.all():
            got, exact = got[finite], exact[finite]
        size, error = np.abs(exact), np.abs(got - exact)
        there = size > 0
        self.underflows += int(np.count_nonzero(there & (got == 0)))
        self.saturations += int(np.count_nonzero(size > range_end(self.format)))
        relative = error[there] / size[there]
        self.relative_max = max(self.relative_max, float(relative.max(initial=0.0)))
        self.relative_sum += float(relative.sum())
        self.relative_count += relative.size
        exponents = np.clip(np.frexp(exact)[1] - 1, self.format.min_normal_exponent, self.format.max_exponent)
        ulp = np.ldexp(error, -np.where(there, exponents - self.format.mantissa_bits, self.format.min_exponent))
        self.measured += got.size
        self.ulp_max = max(self.ulp_max, float(ulp.max(initial=0.0)))
        self.ulp_sum += float(ulp.sum())
        with one_thread():
            self.signal += float(np.dot(exact, exact))
            self.noise += float(np.dot(error, error))

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def ulp_mean(self) -> float | None:
        """The mean error in ULP; None if nothing is compared."""
        return self.ulp_sum / self.measured if self.measured else None

    @property
    def relative_mean(self) -> float | None:
        """The mean relative error; None if nothing is compared."""
        return self.relative_sum / self.relative_count if self.relative_count else None

    @property
    def sqnr(self) -> float | None:
        """10 log10 of signal by noise, in dB; infinite without noise, None if nothing is compared."""
        return decibels(self.signal, self.noise)

    @property
    def scale(self) -> int | None:
        """k of the largest power of two 2^k by which all exact results can be multiplied and stay within the range.

        For the results themselves if there are no exact ones; None if all numbers are zero.
        """
        largest = self.exact_max if self.exact_max is not None else self.max_abs
        return None if largest is None else scale_for(self.format, largest)

    def lost(self, name: str, scale: int) -> tuple[int, int]:
        """The numbers of exact results that would underflow, and overflow, in a format after multiplication by 2^scale.

        A number underflows below half of the smallest one, and overflows from twice the largest power of two on:
        exponents decide, rounding at the ends does not count.
        """
        fmt, exact = FORMATS[name], self.exact_histogram.items()
        below = sum(n for e, n in exact if e + scale < fmt.min_exponent - 1)
        return below, sum(n for e, n in exact if e + scale > fmt.max_exponent)

    def share(self, name: str) -> float | None:
        """A count as a share of all elements, or of those that are compared if it is of these; None without any."""
        total = self.compared if name in _OF_COMPARED else self.elements
        return getattr(self, name) / total if total else None

    def data(self) -> dict[str, Any]:
        """All counts, as `json.dump` takes them."""
        shares = *_OF_ALL, *_OF_COMPARED
        names = "elements", "compared", *shares, "max_abs", "min_abs", "exact_max", "exact_min"
        error = {
            "measured": self.measured,
            "ulp_max": self.ulp_max,
            "ulp_mean": self.ulp_mean,
            "relative_max": self.relative_max if self.relative_count else None,
            "relative_mean": self.relative_mean,
            "sqnr_db": finite(self.sqnr),
            "is_exact": self.noise == 0,
        }
        return {
            "format": self.format.name,
            **{n: getattr(self, n) for n in names},
            **{f"{n}_share": self.share(n) for n in shares},
            "histogram": exponent_names(self.histogram),
            "exact_histogram": exponent_names(self.exact_histogram) if self.compared else None,
            "error": error if self.measured else None,
            "scale_exponent": self.scale,
        }

    @property
    def exponents(self) -> dict[int, int]:
        """The exponents of the exact results, or else of the results, in order, with their counts."""
        return dict(sorted((self.exact_histogram if self.compared else self.histogram).items()))


def decibels(signal: float, noise: float) -> float | None:
    """10 log10 of signal by noise; infinite without noise, None without signal."""
    return None if not signal else 10 * math.log10(signal / noise) if noise else math.inf


def finite(x: float | None) -> float | None:
    """A number that JSON has; None for others."""
    return x if x is not None and math.isfinite(x) else None


def count_exponents(x: np.ndarray, weights: np.ndarray | None = None) -> Counter[int]:
    """The number of nonzero finite numbers with each exponent, each as often as its weight says."""
    exponents = np.frexp(x)[1] - 1
    first = int(exponents.min(initial=0))
    counts = np.bincount(exponents - first, weights)
    return Counter({int(i) + first: round(counts[i]) for i in np.flatnonzero(counts)})


def exponent_names(counts: Mapping[int, int]) -> dict[str, int]:
    """The counts of exponents for JSON."""
    return {str(e): n for e, n in sorted(counts.items())}


def _spread(x: np.ndarray, most: float | None, least: float | None) -> tuple[float | None, float | None]:
    if not x.size:
        return most, least
    high, low = float(x.max()), float(x.min())
    return high if most is None else max(most, high), low if least is None else min(least, low)
