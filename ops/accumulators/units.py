"""The units of chips: a row for each, with what it rests on. A new chip is a chip and its rows.

Sources are named by the keys of `chips.SOURCES`. All rows of one basis rest on it in the same way:

- *measured data*: published results of the hardware, all of which the record reproduces. The smallest exponent of
  alignment (`least`) has one source there: the data hold no sums so small.
  Nor do they hold products of mixed types.
- *two sources agree*: independent models of the hardware, without their data.
- *one source*: one model.
"""

from __future__ import annotations

import dataclasses
import functools

from ..close import hint
from .chips import CHIPS
from .record import Accumulator

MEASURED, TWO, ONE = "measured data", "two sources agree", "one source"


@dataclasses.dataclass(frozen=True)
class Unit:
    """The sums of products of some types by an instruction of some chips."""

    chips: tuple[str, ...]
    instruction: str
    operands: tuple[str, ...]  #: any two of these with each other where `mixed`, else each with itself
    result: str
    record: Accumulator
    basis: str
    sources: tuple[str, ...]
    mixed: bool = False
    scales: tuple[tuple[str, int], ...] = ()  #: types of scales with the size of a block; none: not scaled
    note: str = ""


_AMPERE, _ADA = ("a100", "a2", "ada", "l40s"), ("ada", "l40s")
_HOPPER = ("h100", "h200")
_FP8 = ("f8E4M3FN", "f8E5M2")
_FNUZ = ("f8E4M3FNUZ", "f8E5M2FNUZ")


def _nvidia(step: int, bits: int, least: int, keep: str = "f32", **fields: int | str) -> Accumulator:
    rounding = "nearest_even" if keep == "f16" else "toward_zero"
    return Accumulator(step, bits=bits, keep=keep, rounding=rounding, least=least, nan="ones", **fields)  # type: ignore[arg-type]


def _cdna3(step: int, **fields: int | str | bool) -> Accumulator:
    return Accumulator(
        step, bits=24, c="joined", sum_bits=31, c_bits=24, join="floor", product_limit=128, **fields  # type: ignore[arg-type]
    )  # fmt: skip


def _measured_unit(
    chips: tuple[str, ...],
    operands: tuple[str, ...],
    result: str,
    record: Accumulator,
    instruction: str = "mma",
    note: str = "",
) -> Unit:
    return Unit(chips, instruction, operands, result, record, MEASURED, ("MTC",), operands == _FP8, note=note)


def _tree(step: int, *flush: str) -> Accumulator:
    return Accumulator(step, tree=True, c="after", flush=flush)


_FMA = Accumulator(1)
_NO_C = "The data were taken without c; that c is aligned has one source."
_FP6 = "The source leaves FP6 out."
_MX = (("f8E8M0FNU", 32),)
_NV = (("f8E8M0FNU", 32), ("f8E8M0FNU", 16), ("f8E4M3FN", 16))

#: The table. Of rows that a chip's name and types fit, the first is taken.
UNITS: tuple[Unit, ...] = (
    # NVIDIA, 16 bits and tf32
    _measured_unit(("v100",), ("f16",), "f32", _nvidia(4, 23, -133)),
    _measured_unit(("v100",), ("f16",), "f16", _nvidia(4, 23, -19, "f16")),
    Unit(("t4",), "mma", ("f16",), "f32", _nvidia(8, 24, -132), ONE, ("MMA-Sim",)),
    Unit(("t4",), "mma", ("f16",), "f16", _nvidia(8, 24, -20, "f16"), ONE, ("MMA-Sim",)),
    _measured_unit(_AMPERE, ("f16", "bf16"), "f32", _nvidia(8, 24, -132)),
    _measured_unit(_AMPERE, ("tf32",), "f32", _nvidia(4, 24, -132)),
    _measured_unit(_AMPERE, ("f16",), "f16", _nvidia(8, 24, -20, "f16")),
    _measured_unit((*_HOPPER, "b200"), ("f16", "bf16"), "f32", _nvidia(16, 25, -133)),
    _measured_unit(
        (*_HOPPER, "b200"), ("tf32",), "f32", _nvidia(8, 25, -133), note="The data have 4 products; 8 has two sources."
    ),
    _measured_unit((*_HOPPER, "b200"), ("f16",), "f16", _nvidia(16, 25, -21, "f16")),
    # NVIDIA, FP8
    _measured_unit(_ADA, _FP8, "f32", _nvidia(16, 13, -132, "f32:13")),
    _measured_unit(("ada",), _FP8, "f16", _nvidia(16, 13, -132, "f16")),
    Unit(("l40s",), "mma", _FP8, "f16", _nvidia(16, 13, -132, "f16"), TWO, ("MTC", "MMA-Sim"), True),
    _measured_unit(_HOPPER, _FP8, "f32", _nvidia(32, 13, -133, "f32:13"), "wgmma", _NO_C),
    _measured_unit(("b200",), _FP8, "f32", _nvidia(32, 25, -133, c="after")),
    _measured_unit((*_HOPPER, "b200"), _FP8, "f16", _nvidia(16, 25, -21, "f16", take="2of4", c="after", group=32)),
    # NVIDIA, the instructions of warp groups and of tensor memory
    Unit(_HOPPER, "wgmma", ("f16", "bf16"), "f32", _nvidia(16, 25, -133), ONE, ("MMA-Sim",)),
    Unit(_HOPPER, "wgmma", ("tf32",), "f32", _nvidia(8, 25, -133), ONE, ("MMA-Sim",)),
    Unit(_HOPPER, "wgmma", ("f16",), "f16", _nvidia(16, 25, -21, "f16"), ONE, ("MMA-Sim",)),
    Unit(_HOPPER, "wgmma", _FP8, "f16", _nvidia(32, 13, -133, "f16"), ONE, ("MMA-Sim",), True),
    Unit(("b200",), "tcgen05", ("f16", "bf16"), "f32", _nvidia(16, 25, -133), ONE, ("MMA-Sim",), True),
    Unit(("b200",), "tcgen05", ("tf32",), "f32", _nvidia(8, 25, -133), ONE, ("MMA-Sim",)),
    Unit(("b200",), "tcgen05", ("f16",), "f16", _nvidia(16, 25, -21, "f16"), ONE, ("MMA-Sim",)),
    Unit(
        ("b200",), "tcgen05", (*_FP8, "f4E2M1FN"), "f32", _nvidia(32, 25, -133), ONE, ("MMA-Sim",), True, note=_FP6
    ),
    Unit(
        ("b200",), "tcgen05", (*_FP8, "f4E2M1FN"), "f16", _nvidia(32, 25, -133, "f16"), ONE, ("MMA-Sim",), True,
        note=_FP6,
    ),
    Unit(("rtxpro6000",), "mma", ("f16", "bf16"), "f32", _nvidia(16, 25, -133), TWO, ("MTC", "MMA-Sim")),
    Unit(("rtxpro6000",), "mma", ("tf32",), "f32", _nvidia(8, 25, -133), TWO, ("MTC", "MMA-Sim")),
    Unit(("rtxpro6000",), "mma", ("f16",), "f16", _nvidia(16, 25, -21, "f16"), TWO, ("MTC", "MMA-Sim")),
    Unit(("rtxpro6000",), "mma", _FP8, "f32", _nvidia(32, 25, -133), TWO, ("MTC", "MMA-Sim"), True),
    Unit(
        ("rtxpro6000",), "mma", (*_FP8, "f4E2M1FN"), "f32", _nvidia(32, 25, -133), ONE, ("MMA-Sim",), True, note=_FP6
    ),
    Unit(
        ("rtxpro6000",), "mma", (*_FP8, "f4E2M1FN"), "f16", _nvidia(32, 25, -133, "f16"), ONE, ("MMA-Sim",), True,
        note=_FP6,
    ),
    # NVIDIA, scaled blocks
    *(
        Unit((chip,), instruction, operands, "f32", record, ONE, ("MMA-Sim",), True, scales)
        for chip, instruction in (("b200", "tcgen05"), ("rtxpro6000", "mma"))
        for operands, record, scales in (
            ((*_FP8, "f4E2M1FN"), _nvidia(32, 25, -133), _MX),
            (("f4E2M1FN",), _nvidia(64, 35, -133, inner=16), _NV),
        )
    ),
    # AMD
    Unit(
        ("cdna1",), "mfma", ("f16",), "f32", Accumulator(4), TWO, ("MTC", "FTTN"),
        note="MMA-Sim has a pairwise sum, each addition rounded.",
    ),
    Unit(
        ("cdna1",), "mfma", ("bf16",), "f32", Accumulator(2), TWO, ("MTC", "FTTN"),
        note="MMA-Sim has a pairwise sum, each addition rounded.",
    ),
    Unit(
        ("cdna2",), "mfma", ("f16",), "f32", _tree(4, "operands", "c", "results"), TWO, ("MTC", "MMA-Sim", "MIOpen"),
    ),
    Unit(
        ("cdna2",), "mfma_1k", ("bf16",), "f32", _tree(4, "operands", "c", "results"), TWO,
        ("MTC", "MMA-Sim", "MIOpen"),
    ),
    Unit(("cdna2",), "mfma", ("bf16",), "f32", _tree(2, "operands", "c", "results"), ONE, ("MMA-Sim",)),
    Unit(("cdna3",), "mfma", ("f16", "bf16"), "f32", _cdna3(8), TWO, ("MTC", "MMA-Sim")),
    Unit(("cdna3",), "mfma", ("tf32",), "f32", _cdna3(4), ONE, ("MMA-Sim",)),
    Unit(
        ("cdna3",), "mfma", _FNUZ, "f32", _cdna3(16, even_odd=True, c_reach=25), TWO, ("MTC", "MMA-Sim"), True
    ),
    Unit(("cdna1", "cdna2", "cdna3"), "mfma", ("f32",), "f32", _FMA, ONE, ("MMA-Sim",)),
)  # fmt: skip


def names() -> tuple[str, ...]:
    """Every name of a chip, and of a chip's instruction, that can be asked for; without aliases."""
    found = {f"{chip}.{u.instruction}": None for name in CHIPS for u in UNITS for chip in u.chips if chip == name}
    return (*CHIPS, *found)


@functools.cache
def canonical(name: str) -> str:
    """A name with its chip's own name: `h100.wgmma` for `hopper.wgmma`.

    Raises:
        ValueError: There is no such chip, or no such instruction of it.
    """
    chip, dot, instruction = name.partition(".")
    own = next((c.name for c in CHIPS.values() if chip == c.name or chip in c.aliases), None)
    if own is None:
        raise ValueError(f"unit: expected a chip or its instruction, got {name!r}{hint(name, names())}")
    if dot and instruction not in (known := instructions(own)):
        raise ValueError(f"unit: expected an instruction of {own} ({', '.join(known)}), got {name!r}")
    return own + dot + instruction


def instructions(chip: str) -> tuple[str, ...]:
    """The instructions of a chip."""
    return tuple(dict.fromkeys(u.instruction for u in UNITS if chip in u.chips))


def rows(name: str) -> tuple[Unit, ...]:
    """The rows of a chip (`"h100"`), or of one of its instructions (`"h100.wgmma"`), in order.

    Raises:
        ValueError: There is no such chip, or no such instruction of it.
    """
    chip, dot, instruction = canonical(name).partition(".")
    return tuple(u for u in UNITS if chip in u.chips and (not dot or u.instruction == instruction))


@functools.cache
def find(name: str, lhs: str, rhs: str, result: str = "f32", scale: tuple[str, int] | None = None) -> Unit:
    """The row of a chip or an instruction for types of operands and result, and of scales.

    Args:
        name: The chip, `"h100"`, or its instruction, `"h100.wgmma"`.
        lhs: The type of the first operand, such as `"f8E4M3FN"`, or `"tf32"`.
        rhs: That of the second.
        result: `"f32"` or `"f16"`.
        scale: For scaled operands, the scales' type and the size of a block.

    Raises:
        ValueError: There is no such chip or instruction, or it has no row for the types.
    """
    found = row_for(name, lhs, rhs, result, scale)
    if found is None:
        known = sorted(
            {f"{' or '.join(u.operands)} into {u.result}" for u in rows(name) if bool(u.scales) == bool(scale)}
        )
        also = f" with scales of {scale[0]} for {scale[1]}" if scale else ""
        types = ", ".join(known) or "no scaled types"
        raise ValueError(f"{name}: expected operands of {types}, got {lhs} and {rhs} into {result}{also}")
    return found


@functools.cache
def row_for(name: str, lhs: str, rhs: str, result: str = "f32", scale: tuple[str, int] | None = None) -> Unit | None:
    """The row as of `find`, None where there is none. Raises ValueError for a name that is not one."""
    for u in rows(name):
        types_fit = lhs in u.operands and rhs in u.operands and (lhs == rhs or u.mixed)
        if types_fit and result == u.result and (scale in u.scales if scale else not u.scales):
            return u
    return None
