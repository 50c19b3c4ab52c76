"""What an implementation of StableHLO is free to choose, as one immutable argument."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from .accumulators.record import Accumulator

if TYPE_CHECKING:
    from .types import ElementType

ARITHMETICS = ("direct", "upcast")
COMPUTE_TYPES = ("f32", "f64", "f16", "bf16")
ACCUMULATIONS = ("auto", "exact", "reproducible", "f32", "element")
#: What sums products of minifloats with one rounding; how they differ is in sums of wider floats.
_EXACT = ACCUMULATIONS[:3]
ROUNDINGS = ("nearest_even", "toward_zero", "up", "down", "nearest_away", "stochastic")
OVERFLOWS = ("ieee", "saturate", "onnx", "satfinite")


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
            The name of a chip (`"h100"`) or of its instruction (`"h100.wgmma"`), or a record (`interp.Accumulator`, or
            its text `"step=32,bits=13,keep=f32:13"`), sums as that does, products of f16 and bf16 too; its result is
            then rounded once to the result's type.
        rounding: How results in formats of up to 16 bits, and conversions to f32, are rounded: `"nearest_even"`,
            `"toward_zero"`, `"up"`, `"down"`, `"nearest_away"` (IEEE 754-2019, section 4.3) or `"stochastic"`.
            Arithmetic in f32 and f64 always rounds to nearest even.
        overflow: What a minifloat, or a conversion to a narrower float, becomes beyond the range. `"ieee"`: infinity if
            the format has one, else NaN, else the largest number. `"saturate"`: the largest number, for infinities too.
            `"onnx"`: the saturating tables in ONNX's documentation of float8 and float4. `"satfinite"`: as NVIDIA's
            conversions of that name: `"saturate"` in formats of up to 8 bits, where NaN becomes the largest positive
            number in those without NaN; `"ieee"` in wider ones.
            Arithmetic in f16, bf16 and wider types is always `"ieee"`; the one rounding of a sum of products of
            minifloats is a conversion.
        seed: An integer of at least 0, for stochastic rounding and random operations. The same seed gives the
            same bits.

    Raises:
        ValueError: A field has a value that is not listed.
    """

    arithmetic: str = "direct"
    accumulate: str | Accumulator = "auto"
    rounding: str = "nearest_even"
    overflow: str = "ieee"
    seed: int = 0

    def __post_init__(self) -> None:
        base, _, compute = self.arithmetic.partition(":")
        _choose("arithmetic", base, ARITHMETICS)
        if compute or self.arithmetic.endswith(":"):
            _choose("arithmetic, the type of upcast", compute if base == "upcast" else self.arithmetic, COMPUTE_TYPES)
        object.__setattr__(self, "accumulate", _accumulation(self.accumulate))
        _choose("rounding", self.rounding, ROUNDINGS)
        _choose("overflow", self.overflow, OVERFLOWS)
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed: expected an integer of at least 0, got {self.seed!r}")

    @classmethod
    def target(cls, name: str, **fields: Any) -> Policy:
        """The policy of a chip: its unit for each type of operands, and how it converts.

        Args:
            name: A chip, such as `"h100"`, or an instruction of one, such as `"h100.wgmma"`; `minihlo targets` lists
                them.
            **fields: Fields of the policy that are not the chip's.

        Raises:
            ValueError: There is no such chip or instruction, or a field has a value that is not listed.
        """
        from .accumulators import chips, units

        name = units.canonical(name)
        own: dict[str, Any] = {"accumulate": name, "overflow": chips.CHIPS[name.partition(".")[0]].overflow}
        return cls(**own | fields)

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
    def of_blocks(self) -> str | Accumulator:
        """How dots of blocks that share scales are summed."""
        return self.accumulate

    def replaced(self, **fields: Any) -> Policy:
        """The policy with other fields, which are chosen ones."""
        return dataclasses.replace(self, **fields)

    @property
    def compute_type(self) -> str | None:
        """The type `upcast` computes in; None for `direct`."""
        base, _, compute = self.arithmetic.partition(":")
        return None if base == "direct" else compute or COMPUTE_TYPES[0]


class PlatformPolicy(Policy):
    """The policy of the JAX platform: sums in f32, as XLA on processors, but in dots of blocks, whose range f32 lacks.

    Once somebody chooses `accumulate` it is an ordinary policy.
    """

    def __init__(self, accumulate: str | Accumulator = "f32", **fields: Any) -> None:
        super().__init__(accumulate=accumulate, **fields)

    @property
    def of_blocks(self) -> str | Accumulator:
        return "exact" if self.accumulate == "f32" else self.accumulate

    def replaced(self, **fields: Any) -> Policy:
        if "accumulate" not in fields:
            return dataclasses.replace(self, **fields)
        return Policy(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Policy)} | fields)


def _accumulation(value: Any) -> str | Accumulator:
    """A policy's `accumulate` in its one form: a word, a unit's own name, or a record."""
    if isinstance(value, Accumulator):
        return value
    if not isinstance(value, str):
        raise ValueError(f"accumulate: expected a name or an Accumulator, got {type(value).__name__}")
    if value in ACCUMULATIONS:
        return value
    from .accumulators import units  # makes its records, with numpy

    try:
        return Accumulator.from_text(value) if "=" in value else units.canonical(value)
    except ValueError as error:
        words = "" if "=" in value or "." in value else f"{', '.join(ACCUMULATIONS)}, a record (step=…), "
        text = str(error).removeprefix("unit: ")
        raise ValueError(f"accumulate: {text.replace('expected a', f'expected {words}a', 1)}") from None


def _choose(field: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field}: expected one of {', '.join(choices)}, got {value!r}")
