"""What an implementation of StableHLO is free to choose, as one immutable argument."""

from __future__ import annotations

import dataclasses

ARITHMETICS = ("direct", "upcast")
COMPUTE_TYPES = ("f32", "f64", "f16", "bf16")
ACCUMULATIONS = ("exact", "f32", "element")
ROUNDINGS = ("nearest_even", "toward_zero", "up", "down", "nearest_away", "stochastic")
OVERFLOWS = ("ieee", "saturate", "onnx")


@dataclasses.dataclass(frozen=True)
class Policy:
    """The choices; every field's first listed value is the default.

    arithmetic: `direct` works on codes, exactly, and rounds once; `upcast` casts to a wider type
        (`upcast:f32` unless another of COMPUTE_TYPES is named), uses the host's operation and casts down.
    accumulate: sums in dot_general and convolution of minifloats: `exact` (one rounding at the end), `f32`
        (summed in f32, one rounding), `element` (rounded after every step, in order).
    rounding: of results in formats of up to 16 bits, and of conversions to f32; f32 and f64 arithmetic always rounds to
        nearest even.
    overflow: what a minifloat, or a conversion to any narrower float, becomes beyond the range: `ieee` (infinity if the
        format has one, else NaN, else the largest number), `saturate` (the largest number, for infinities too),
        `onnx` (the saturating tables of the ONNX float8 and float4 pages).
    seed: of stochastic rounding and of random ops; the same seed gives the same bits.

    Raises ValueError for a value that is not listed.
    """

    arithmetic: str = "direct"
    accumulate: str = "exact"
    rounding: str = "nearest_even"
    overflow: str = "ieee"
    seed: int = 0

    def __post_init__(self) -> None:
        base, _, compute = self.arithmetic.partition(":")
        _choose("arithmetic", base, ARITHMETICS)
        if compute or self.arithmetic.endswith(":"):
            _choose("arithmetic upcast:", compute if base == "upcast" else self.arithmetic, COMPUTE_TYPES)
        _choose("accumulate", self.accumulate, ACCUMULATIONS)
        _choose("rounding", self.rounding, ROUNDINGS)
        _choose("overflow", self.overflow, OVERFLOWS)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be an integer of at least 0, not {self.seed!r}")

    @property
    def compute_type(self) -> str | None:
        """The type `upcast` computes in; None for `direct`."""
        base, _, compute = self.arithmetic.partition(":")
        return None if base == "direct" else compute or COMPUTE_TYPES[0]


def _choose(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field} cannot be {value!r} (one of: {', '.join(choices)})")
