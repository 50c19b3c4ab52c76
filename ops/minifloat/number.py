"""Exact numbers, unpacked: what a code means, before any rounding."""

from __future__ import annotations

import dataclasses

import numpy as np

FINITE, INFINITE, NAN = 0, 1, 2

#: Significant bits to which an inexact result is kept. The last of them is "sticky": set whenever anything
#: non-zero was cut off (rounding to odd), so that one more rounding to any format of at most WORK_BITS - 2
#: significant bits gives what rounding the exact value would (Boldo & Melquiond, 2008).
WORK_BITS = 60


#: The exponent of a zero that is the exact difference of equal numbers: its sign is the rounding's to choose.
CANCELLED = 1 << 40


@dataclasses.dataclass(frozen=True, slots=True)
class Number:
    """An array of numbers; each is (-1)**sign * significand * 2**exponent, an infinity or a NaN.

    The four arrays have one shape. A zero has significand 0 and any exponent. A significand is below
    2**62 and is exact, or rounded to odd with at least 34 significant bits.
    """

    kind: np.ndarray  #: uint8: FINITE, INFINITE or NAN
    sign: np.ndarray  #: bool: True is negative; meaningful for zeros, infinities and NaN too
    significand: np.ndarray  #: int64
    exponent: np.ndarray  #: int64

    @property
    def is_nan(self) -> np.ndarray:
        """Where it is NaN."""
        return self.kind == NAN

    @property
    def is_infinite(self) -> np.ndarray:
        """Where it is infinite."""
        return self.kind == INFINITE

    @property
    def is_zero(self) -> np.ndarray:
        """Where it is zero, of either sign."""
        return (self.kind == FINITE) & (self.significand == 0)

    def replace(self, **changes: np.ndarray) -> Number:
        """The same numbers with some of the fields replaced."""
        return dataclasses.replace(self, **changes)


def finite(sign: np.ndarray, significand: np.ndarray, exponent: np.ndarray) -> Number:
    """Finite numbers; the fields are broadcast to one shape."""
    fields = np.broadcast_arrays(sign, significand, exponent)
    return Number(np.full(fields[0].shape, FINITE, np.uint8), *fields)
