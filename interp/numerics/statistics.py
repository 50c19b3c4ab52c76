"""Counts of the losses of a tensor in its format, added up over parts, steps and iterations of loops.

For types of up to 16 bits all counts follow from the number of each code, so no tensor is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import math
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
#: The exponents of f64; those of exact results are counted from the first on.
_LOWEST, _HIGHEST = -1074, 1023
#: Counts of all elements, and of those with an exact result.
_OF_ALL = ("zeros", "subnormals", "infinities", "nans", "at_largest")
_OF_COMPARED = ("underflows", "saturations", "overflows")


@dataclasses.dataclass(frozen=True)
class Range:
    """Facts derived from a format: its largest and smallest numbers, and the bin of each code."""

    format: Format

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The f64 of each code of a format of up to 16 bits."""
        return code_table(ELEMENT_TYPES[self.format.name], _F64, _PLAIN).astype(np.float64)

    @functools.cached_property
    def largest(self) -> float:
        """The largest finite number."""
        codes = np.array([self.format.max_code], self.format.code_dtype).view(self.format.dtype)
        return float(codes[0])

    @property
    def lowest(self) -> int:
        """The exponent of the smallest number above zero."""
        return self.format.min_exponent

    @property
    def lowest_normal(self) -> int:
        """The exponent of the smallest normal number."""
        return self.format.min_exponent + (self.format.mantissa_bits if self.format.has_subnormals else 0)

    @functools.cached_property
    def highest(self) -> int:
        """The exponent of the largest number."""
        return math.frexp(self.largest)[1] - 1

    @functools.cached_property
    def beyond(self) -> float:
        """The largest number plus half a step; larger numbers are beyond the range."""
        return self.largest + math.ldexp(0.5, self.highest - self.format.mantissa_bits)

    def scale_for(self, largest: float) -> int:
        """k of the largest power of two 2^k by which a positive number can be multiplied and stay within the range."""
        (m, e), (n, f) = math.frexp(self.largest), math.frexp(largest)
        return e - f - (m < n)


@functools.cache
def range_of(name: str) -> Range:
    """The range of a format by its name."""
    return Range(FORMATS[name])


class Statistics:
    """The counts of a tensor.

    Attributes:
        elements, zeros, subnormals, infinities, nans: The number of elements, and of each kind.
        at_largest: The number with the magnitude of the largest finite number.
        max_abs, min_abs: The largest and the smallest finite magnitude above zero; None if there is none.
        histogram: The number of nonzero finite numbers with each exponent floor(log2(|x|)), from that of the format's
            smallest number on.
        compared: The number with an exact result to compare with. The following counts are of these.
        underflows: The exact result is not zero, but the result is.
        saturations: The exact result is finite and beyond the largest number by more than half a step, and the result
            is finite.
        overflows: The exact result is finite, and the result is an infinity or NaN.
        exact_max, exact_min: As max_abs and min_abs, for exact results.
        exact_histogram: As histogram, for exact results; from 2^-1074 on.
        measured: The number of finite pairs, whose errors are measured.
        ulp_max, ulp_sum: The error in ULP: |result - exact| divided by the step of the format at the exact result,
            which is the smallest step below the normal numbers, and the largest beyond the largest number.
        relative_max, relative_sum, relative_count: |result - exact| / |exact|, where exact is not zero.
        signal, noise: The sums of exact^2 and of (result - exact)^2.
    """

    def __init__(self, name: str) -> None:
        """The counts of a float type, by its MLIR name."""
        self.range = range_of(name)
        self.format = self.range.format
        self.elements = self.zeros = self.subnormals = self.infinities = self.nans = self.at_largest = 0
        self.max_abs: float | None = None
        self.min_abs: float | None = None
        self.histogram = np.zeros(self.range.highest - self.range.lowest + 1, np.int64)
        self.compared = self.underflows = self.saturations = self.overflows = 0
        self.exact_max: float | None = None
        self.exact_min: float | None = None
        self.exact_histogram = np.zeros(_HIGHEST - _LOWEST + 1, np.int64)
        self.measured = self.relative_count = 0
        self.ulp_max = self.ulp_sum = self.relative_max = self.relative_sum = self.signal = self.noise = 0.0

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(self, result: np.ndarray, exact: np.ndarray | None = None) -> None:
        """Counts a tensor of the format; `exact` has its exact results in f64, in the same shape."""
        result = np.ascontiguousarray(result).reshape(-1)
        self.elements += result.size
        if not result.size:
            return
        if self.format.bits <= 16:
            self._count_codes(codes_of(result, self.format))
        else:
            for i in range(0, result.size, _PART):
                self._count(result[i : i + _PART], None)
        if exact is not None:
            exact = np.ascontiguousarray(exact, np.float64).reshape(-1)
            for i in range(0, result.size, _PART):
                self._compare(result[i : i + _PART], exact[i : i + _PART])

    def _count_codes(self, codes: np.ndarray) -> None:
        weights: np.ndarray | None = None
        if codes.size > self.range.values.size:
            counts = np.bincount(codes, minlength=self.range.values.size)
            codes = np.flatnonzero(counts)
            weights = counts[codes]
        self._count(self.range.values[codes], weights)

    def _count(self, values: np.ndarray, weights: np.ndarray | None) -> None:
        """Counts numbers, each as often as its weight says."""

        def total(where: np.ndarray) -> int:
            return int(np.count_nonzero(where) if weights is None else weights[where].sum())

        magnitude = np.abs(values)
        finite = magnitude <= self.range.largest  # not NaN
        self.nans += total(np.isnan(values))
        self.infinities += total(np.isinf(values))
        self.zeros += total(values == 0)
        self.at_largest += total(magnitude == self.range.largest)
        number = finite & (values != 0)
        chosen = magnitude[number]
        if not chosen.size:
            return
        self.max_abs, self.min_abs = _spread(chosen, self.max_abs, self.min_abs)
        exponents = np.frexp(chosen)[1] - 1
        kept = None if weights is None else weights[number]
        self.histogram += _count_bins(exponents - self.range.lowest, kept, len(self.histogram))
        if self.format.has_subnormals:
            low = exponents < self.range.lowest_normal
            self.subnormals += int(np.count_nonzero(low) if kept is None else kept[low].sum())

    def _compare(self, result: np.ndarray, exact: np.ndarray) -> None:
        got = cast(result, type_of_dtype(result.dtype), _F64, _PLAIN).astype(np.float64, copy=False)
        self.compared += got.size
        known = np.isfinite(exact)
        got, exact = (got, exact) if known.all() else (got[known], exact[known])
        size = np.abs(exact)
        there = size > 0
        exponents = np.frexp(exact)[1] - 1
        if there.any():
            self.exact_max, self.exact_min = _spread(size[there], self.exact_max, self.exact_min)
            self.exact_histogram += _count_bins(exponents[there] - _LOWEST, None, len(self.exact_histogram))
        finite = np.isfinite(got)
        if not finite.all():
            self.overflows += int(np.count_nonzero(~finite))
            got, exact, size = got[finite], exact[finite], size[finite]
            there, exponents = there[finite], exponents[finite]
        if not got.size:
            return
        self.underflows += int(np.count_nonzero(there & (got == 0)))
        self.saturations += int(np.count_nonzero(size > self.range.beyond))
        error = np.abs(got - exact)
        if there.any():
            relative = error[there] / size[there]
            self.relative_max = max(self.relative_max, float(relative.max()))
            self.relative_sum += float(relative.sum())
            self.relative_count += relative.size
        step = np.clip(exponents, self.range.lowest_normal, self.range.highest) - self.format.mantissa_bits
        step[~there] = self.range.lowest
        ulp = np.ldexp(error, -step)
        self.measured += got.size
        self.ulp_max = max(self.ulp_max, float(ulp.max()))
        self.ulp_sum += float(ulp.sum())
        with one_thread():
            self.signal += float(np.dot(exact, exact))
            self.noise += float(np.dot(error, error))

    def merge(self, other: Statistics) -> None:
        """Adds the counts of another tensor of the same format."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if name in ("range", "format"):
                continue
            if name.endswith(("_max", "_abs", "_min")):
                choose = min if name in ("min_abs", "exact_min") else max
                setattr(self, name, value if mine is None else mine if value is None else choose(mine, value))
            else:
                setattr(self, name, mine + value)

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
        return None if largest is None else self.range.scale_for(largest)

    def lost(self, name: str, scale: int) -> tuple[int, int]:
        """The numbers of exact results that would underflow, and overflow, in a format after multiplication by 2^scale.

        A number underflows below half of the smallest one, and overflows from twice the largest power of two on:
        exponents decide, rounding at the ends does not count.
        """
        r = range_of(name)
        scaled = {e + scale: n for e, n in self._exact.items()}
        below = sum(n for e, n in scaled.items() if e < r.lowest - 1)
        return below, sum(n for e, n in scaled.items() if e > r.highest)

    def data(self) -> dict[str, Any]:
        """All counts, as `json.dump` takes them."""
        totals = dict.fromkeys(_OF_ALL, self.elements) | dict.fromkeys(_OF_COMPARED, self.compared)
        names = "elements", "compared", *totals, "max_abs", "min_abs", "exact_max", "exact_min"
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
            **{f"{n}_share": getattr(self, n) / total if total else None for n, total in totals.items()},
            "histogram": {str(e): n for e, n in self._results.items()},
            "exact_histogram": {str(e): n for e, n in self._exact.items()} if self.compared else None,
            "error": error if self.measured else None,
            "scale_exponent": self.scale,
        }

    @property
    def exponents(self) -> dict[int, int]:
        """The exponents of the exact results, or else of the results, with their counts."""
        return self._exact if self.compared else self._results

    @property
    def _results(self) -> dict[int, int]:
        return _by_exponent(self.histogram, self.range.lowest)

    @property
    def _exact(self) -> dict[int, int]:
        return _by_exponent(self.exact_histogram, _LOWEST)


def decibels(signal: float, noise: float) -> float | None:
    """10 log10 of signal by noise; infinite without noise, None without signal."""
    return None if not signal else 10 * math.log10(signal / noise) if noise else math.inf


def finite(x: float | None) -> float | None:
    """A number that JSON has; None for others."""
    return x if x is not None and math.isfinite(x) else None


def _count_bins(bins: np.ndarray, weights: np.ndarray | None, length: int) -> np.ndarray:
    counts = np.bincount(bins, weights, length)
    return counts if weights is None else np.rint(counts).astype(np.int64)


def _spread(x: np.ndarray, most: float | None, least: float | None) -> tuple[float, float]:
    high, low = float(x.max()), float(x.min())
    return high if most is None else max(most, high), low if least is None else min(least, low)


def _by_exponent(counts: np.ndarray, first: int) -> dict[int, int]:
    return {int(i) + first: int(counts[i]) for i in np.flatnonzero(counts)}
