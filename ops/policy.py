"""What an implementation of StableHLO is free to choose, as one immutable argument."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .types import ElementType

ARITHMETICS = ("direct", "upcast")
COMPUTE_TYPES = ("f32", "f64", "f16", "bf16")
ACCUMULATIONS = ("auto", "exact", "reproducible", "f32", "element")
#: What sums products of minifloats with one rounding; how they differ is in sums of wider floats.
_EXACT = ACCUMULATIONS[:3]
ROUNDINGS = ("nearest_even", "toward_zero", "up", "down", "nearest_away", "stochastic")
OVERFLOWS = ("ieee", "saturate", "onnx")


@dataclasses.dataclass(frozen=True)
class Policy:
    """What an implementation of StableHLO may choose. Immutable and hashable.

    Args:
        arithmetic: How minifloats are computed. `"direct"` works on codes: exactly, with one rounding. `"upcast"` casts
            to f32, uses the operation of the host and casts down; `"upcast:f64"`, `"upcast:f16"` and `"upcast:bf16"`
            name another type.
        accumulate: How dot_general and convolution sum products. `"auto"`: of minifloats exactly, with one rounding at
            the end; of f16 and wider types by the host's BLAS. `"exact"`: with one rounding for every float type.
            `"reproducible"`: of minifloats exactly, of f16, bf16 and f32 in one order that gives the same bits on every
            machine, of f64 exactly. `"f32"`: of minifloats in f32, with one rounding to the result. `"element"`: of
            minifloats with a rounding to the result's type after every step, in order.
        rounding: How results in formats of up to 16 bits, and conversions to f32, are rounded: `"nearest_even"`,
            `"toward_zero"`, `"up"`, `"down"`, `"nearest_away"` (IEEE 754-2019, section 4.3) or `"stochastic"`.
            Arithmetic in f32 and f64 always rounds to nearest even.
        overflow: What a minifloat, or a conversion to a narrower float, becomes beyond the range. `"ieee"`: infinity if
            the format has one, else NaN, else the largest number. `"saturate"`: the largest number, for infinities too.
            `"onnx"`: the saturating tables in ONNX's documentation of float8 and float4.
            Arithmetic in f16, bf16 and wider types is always `"ieee"`; the one rounding of a sum of products of
            minifloats is a conversion.
        seed: An integer of at least 0, for stochastic rounding and random operations. The same seed gives the
            same bits.

    Raises:
        ValueError: A field has a value that is not listed.
    """

    arithmetic: str = "direct"
    accumulate: str = "auto"
    rounding: str = "nearest_even"
    overflow: str = "ieee"
    seed: int = 0

    def __post_init__(self) -> None:
        base, _, compute = self.arithmetic.partition(":")
        _choose("arithmetic", base, ARITHMETICS)
        if compute or self.arithmetic.endswith(":"):
            _choose("arithmetic, the type of upcast", compute if base == "upcast" else self.arithmetic, COMPUTE_TYPES)
        _choose("accumulate", self.accumulate, ACCUMULATIONS)
        _choose("rounding", self.rounding, ROUNDINGS)
        _choose("overflow", self.overflow, OVERFLOWS)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed: expected an integer of at least 0, got {self.seed!r}")

    def for_results(self, element: ElementType) -> Policy:
        """The policy for results of arithmetic in a type: `overflow` has a say in those of minifloats alone.

        A conversion follows the policy itself, whatever it converts to.
        """
        return self if element.is_minifloat or self.overflow == "ieee" else dataclasses.replace(self, overflow="ieee")

    def for_elements(self) -> Policy:
        """What of the policy matters to elementwise ops that draw no random bits: tables are kept by it."""
        return Policy(self.arithmetic, rounding=self.rounding, overflow=self.overflow)

    @property
    def sums_exactly(self) -> bool:
        """Whether sums of products of minifloats are rounded once."""
        return self.accumulate in _EXACT

    @property
    def compute_type(self) -> str | None:
        """The type `upcast` computes in; None for `direct`."""
        base, _, compute = self.arithmetic.partition(":")
        return None if base == "direct" else compute or COMPUTE_TYPES[0]


def _choose(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field}: expected one of {', '.join(choices)}, got {value!r}")
