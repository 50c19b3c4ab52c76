"""The facts of an accumulator in the order of the search, each with its possible values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from ...ops.accumulators.record import DROPS, EXACT, FORMS, NANS, OVERFLOWS, PLACES, ROUNDINGS, Accumulator
from ...ops.minifloat.formats import FORMATS

#: Changes of a record, by field.
Change = dict[str, Any]
#: Fraction bits.
_BITS = (None, *range(46))
#: Bits that truncate nothing, until the truncation is searched.
_WIDE = 45
#: How many of how many positions a step takes; all of them first.
PATTERNS = ((1, 1), *((run, period) for period in (2, 4, 8, 16, 32) for run in (1, 2, 4, 8, 16) if run < period))


def take(pattern: tuple[int, int]) -> str:
    """Return a pattern in the notation of a record."""
    run, period = pattern
    return "consecutive" if run == period else f"{run}of{period}"


def with_change(record: Accumulator, change: Change) -> Accumulator | None:
    """Return the record with some fields changed and contradicting ones reset. None if there is none."""
    fields = vars(record) | change
    if fields["c"] != "joined":
        fields |= {"sum_bits": None, "c_bits": None, "c_reach": None}
    elif fields["sum_bits"] is None or fields["c_bits"] is None:
        fields |= {"sum_bits": 31 if fields["sum_bits"] is None else fields["sum_bits"]}
        fields |= {"c_bits": 24 if fields["c_bits"] is None else fields["c_bits"]}
    if fields["c"] != "after":
        fields["group"] = 0
    try:
        return Accumulator(**fields)
    except ValueError:
        return None


def neighbours(record: Accumulator, field: str, k: int, lengths: Iterable[int] = ()) -> Iterator[Accumulator]:
    """Return the records that differ from one in a field, and in the changes that it implies."""
    for value in values(record, field, k, lengths):
        for also in _also(record, field, value):
            made = with_change(record, {field: value} | also)
            if made is not None and made != record:
                yield made


def values(record: Accumulator, field: str, k: int, lengths: Iterable[int] = ()) -> Iterable[Any]:
    """Return the values to try for a field; `lengths` are steps that the dots suggest."""
    whole = (record.step or k) * record.pattern[1] // record.pattern[0]
    multiples = [whole * n for n in (*range(1, 17), 24, 32, 48, 64, 96, 128, 192, 256) if whole * n <= k]
    powers = [1 << i for i in range(11) if 1 << i <= k]
    return {
        "step": lambda: dict.fromkeys((*lengths, 0, *powers, record.step - 1, record.step + 1)),
        "take": lambda: map(take, PATTERNS),
        "bits": lambda: _BITS,
        "normalise": lambda: (False, True),
        "drop": lambda: DROPS,
        "even_odd": lambda: (False, True),
        "tree": lambda: (False, True),
        "c": lambda: PLACES,
        "group": lambda: (0, *multiples),
        "sum_bits": lambda: _BITS[1:] if record.c == "joined" else (),
        "c_bits": lambda: _BITS[1:] if record.c == "joined" else (),
        "c_reach": lambda: (None, *range(64)) if record.c == "joined" else (),
        "join": lambda: DROPS if record.c == "joined" or record.even_odd else (),
        "keep": lambda: keeps(record),
        "rounding": lambda: ROUNDINGS,
        "least": lambda: (None, *range(-152, 40)),
        "flush": lambda: [
            f for n in range(3) for f in itertools.combinations(("operands", "results"), n)
        ],
        "overflow": lambda: OVERFLOWS,
        "product_limit": lambda: (None, *range(-30, 140)),
        "nan": lambda: NANS,
        "outer": lambda: (0, *dict.fromkeys((*multiples, *lengths))),
    }[field]()  # fmt: skip


def keeps(record: Accumulator) -> Iterator[str]:
    """Return the forms of a running sum, full ones first."""
    if record.step == 0 and record.bits is None:
        yield EXACT
    yield from FORMS
    for form in FORMS:
        yield from (f"{form}:{bits}" for bits in range(FORMATS[form].mantissa_bits - 1, 0, -1))


def _with_c(record: Accumulator, value: str) -> Iterable[Change]:
    if value != "joined":
        return ({"tree": False},) if value == "aligned" else ({},)
    return (
        {"tree": False, "bits": b, "sum_bits": _WIDE, "c_bits": n, "join": join}
        for b in ((24, 13) if record.bits is None else (record.bits,))
        for n in (_WIDE, *range(36, 5, -1))
        for join in DROPS
    )


def _with_outer(record: Accumulator, value: int) -> Iterable[Change]:
    if value or not record.outer:
        return ({},)
    # Sums that each go to an outer one resemble those that join a running sum after so many products.
    whole = (record.step or 1) * record.pattern[1] // record.pattern[0]
    group = 0 if record.outer == whole else record.outer
    after = {"even_odd": False} if group else {}
    return ({}, *({"c": "after", "group": group, "keep": form} | after for form in FORMS))


def _with_tree(value: bool) -> Iterable[Change]:
    if value:
        return ({"bits": None, "even_odd": False, "c": "after", "group": 0},)
    return ({"bits": b} for b in (None, 24, 13))


def _with_even_odd(record: Accumulator, value: bool) -> Iterable[Change]:
    bits = record.bits if record.bits is not None else 24
    return ({"tree": False, "bits": bits, "c": c} for c in ("joined", record.c)) if value else ({},)


def _also(record: Accumulator, field: str, value: Any) -> Iterable[Change]:
    """Return changes of other fields that a value implies: with it alone a record would contradict itself."""
    match field:
        case "c":
            return _with_c(record, value)
        case "tree":
            return _with_tree(value)
        case "even_odd":
            return _with_even_odd(record, value)
        case "keep":
            return ({"step": 0, "take": "consecutive", "bits": None, "c": "aligned"},) if value == EXACT else ({},)
        case "outer":
            return _with_outer(record, value)
    return ({},)
