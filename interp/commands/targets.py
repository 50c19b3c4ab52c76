"""`minihlo targets`: the chips with known arithmetic: their sums, conversions and sources."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from ...ops.accumulators.chips import CHIPS, SOURCES, Chip
from ...ops.accumulators.units import Unit, canonical, rows
from ..errors import InputError
from .terminal import print_table


def main(options: argparse.Namespace) -> int:
    """Print the table of chips, or one chip or instruction."""
    if options.name is None:
        header = ["name", "chip", "instructions", "operands", "rests on", "also"]
        print_table(header, [_row(chip) for chip in CHIPS.values()])
        return 0
    try:
        name = canonical(options.name)
    except ValueError as error:
        raise InputError(str(error).removeprefix("unit: ")) from None
    chip, units = CHIPS[name.partition(".")[0]], rows(name)
    print(f"{name}: {chip.title}\n")
    print_table(["instruction", "operands", "result", "rests on", "sources"], [_unit(u) for u in units])
    for u in units:
        print(f"\n{_title(u)}\n  {u.record.to_text()}" + (f"\n  {u.note}" if u.note else ""))
    print("\nconversions")
    print("".join(f"  {fact}\n" for fact in chip.casts.facts), end="")
    print(f"  policy: overflow={chip.overflow} [{chip.casts.source}]\n")
    for source in dict.fromkeys([*(s for u in units for s in u.sources), chip.casts.source]):
        print(f"{source}: {SOURCES[source]}")
    return 0


def _row(chip: Chip) -> list[str]:
    units = rows(chip.name)
    return [
        chip.name,
        chip.title,
        _list(u.instruction for u in units),
        _list(t for u in units for t in u.operands),
        _list(u.basis for u in units),
        ", ".join(chip.aliases),
    ]


def _unit(u: Unit) -> list[str]:
    return [u.instruction, _operands(u), u.result, u.basis, ", ".join(u.sources)]


def _operands(u: Unit) -> str:
    scales = "".join(f" + {name}:{size}" for name, size in u.scales)
    some_two = u.mixed and len(u.operands) > 1
    return (f"any two of {', '.join(u.operands)}" if some_two else " or ".join(u.operands)) + scales


def _title(u: Unit) -> str:
    return f"{u.instruction}: {_operands(u)} into {u.result}"


def _list(items: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(items))
