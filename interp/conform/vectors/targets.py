"""The results that a self-checking program accepts, as codes of the type it computes.

A program accepts results that the tester calls PASS, DIVERGENT or ACCURACY. If a backend has to make one choice at all
elements there is a variant for each choice, and the results have to fit one of the variants.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from ...judging import open_points as choices
from ...oracle import rounding
from ...oracle.formats import FORMATS, Format, bits
from ..elementwise import Part
from ..repeats import AnyPart
from ..rows import RowPart
from ..verdicts.outcome import is_sum
from .acceptable import NONE, Alternatives, acceptable, alternatives, ranks
from .manifest import nan_codes

#: Intervals of results as unsigned integers: the first and the last code, by element.
Interval = tuple[np.ndarray, np.ndarray]
#: The acceptable results under one choice: an element has to lie in one of the intervals, the first a single code.
Target = tuple[Interval, ...]


def has_targets(part: AnyPart) -> bool:
    """Whether lists of codes can judge a part; for sums and blocks the tester searches for an explanation of all
    results.
    """
    if not isinstance(part, RowPart):
        return isinstance(part, Part)
    # NaN without sign is the first or the last of a row, as the backend orders it.
    is_open = part.case.op == "sort" and FORMATS[part.case.result].nan == "sign"
    return not is_sum(part) and not is_open


def targets(part: AnyPart, ulp: int) -> list[Target]:
    """The acceptable results of a part; `ulp` is the limit of functions in formats of more than 8 bits."""
    assert isinstance(part, Part | RowPart)
    return [_target(part, codes, rows) for codes, rows in _variants(part, ulp)]


def _variants(part: Part | RowPart, ulp: int) -> Iterator[tuple[np.ndarray, Alternatives]]:
    """The expected codes under each choice, and the other acceptable codes."""
    expected = part.expected
    if isinstance(part, Part) and part.form == "chain":  # results after an open one are undetermined
        places = np.flatnonzero(expected.left_open)
        yield expected.codes, alternatives(places, 0, (1 << bits(part.case.result)) - 1)
        return
    rows = acceptable(part, ulp).alternatives
    ruled = [p for p in choices.RULED if (expected.left_open == p).any()]
    points = expected.left_open[rows[:, 0].astype(np.intp)]
    rows = rows[~np.isin(points, [*ruled, rounding.ZEROS])]  # programs distinguish the zeros of a result
    for options in itertools.product(*(list(_options(p, part.case.result, part)) for p in ruled)):
        codes, more = expected.codes.copy(), [rows]
        for places, chosen, beside in options:
            codes[places] = chosen
            more.append(beside)
        yield codes, np.concatenate(more)


#: The indices of an open point, their codes under one choice, and the other acceptable codes there.
_Option = tuple[np.ndarray, np.ndarray, Alternatives]


def _options(point: int, result: str, part: Part | RowPart) -> Iterator[_Option]:
    """The choices at a point where a backend makes one."""
    expected = part.expected
    at = np.flatnonzero(expected.left_open == point)
    usual = expected.codes[at]
    if point == rounding.NAN_ORDER:
        yield at, usual, NONE
        yield at, usual ^ np.array(1, usual.dtype), NONE
        return
    fmt = FORMATS[result]
    if point == rounding.TIE:
        yield at, usual, NONE
        yield at, usual - np.array(1, usual.dtype), NONE
        yield at, usual & ~np.array(1, usual.dtype), NONE
    elif point == rounding.NEGATIVE:
        yield at, usual, alternatives(at, 0, 0)
        assert expected.magnitudes is not None
        sizes = expected.magnitudes[at]
        small, beyond = at[sizes == 0], at[sizes >= fmt.max_code]
        more = [
            alternatives(at, 0, 0),
            alternatives(small, fmt.ones, fmt.ones),
            alternatives(beyond, fmt.max_code, fmt.ones),
        ]
        yield at, sizes, np.concatenate(more)
    else:
        yield at, usual, NONE
        yield from _beyond(fmt, at, usual)


def _beyond(fmt: Format, at: np.ndarray, usual: np.ndarray) -> Iterator[_Option]:
    """The other choices at overflow: infinity, NaN in a format without it, and the largest number."""
    if fmt.nan == "none":
        return
    first = int(choices.classify(rounding.OVERFLOW, fmt.name, usual[:1], usual[:1])[0])
    lost = fmt.is_nan(usual) & (fmt.nan == "sign")
    for i, code in enumerate((fmt.infinity_code, None if fmt.has_infinity else fmt.nan_code, fmt.max_code)):
        if code is None or i == first:
            continue
        sign = np.where(lost, 0, usual & np.array(fmt.sign_bit, usual.dtype)).astype(usual.dtype)
        other = code | fmt.sign_bit
        yield at, np.array(code, usual.dtype) | sign, alternatives(at[lost], other, other)


def _target(part: Part | RowPart, codes: np.ndarray, rows: Alternatives) -> Target:
    element = part.case.result
    if element in FORMATS:
        nan = np.flatnonzero(FORMATS[element].is_nan(codes))
        rows = np.concatenate([rows, *(alternatives(nan, a, b) for a, b in nan_codes(element))])
    if part.result_type != element or bits(element) == 6:
        codes, rows = _as_f32(FORMATS[element], codes, rows)
    expected = np.asarray(codes).astype(np.uint64)
    return (expected, expected), *_slots(rows, len(expected))


def _as_f32(fmt: Format, codes: np.ndarray, rows: Alternatives) -> tuple[np.ndarray, Alternatives]:
    """Codes of a format as those of the same numbers in f32; intervals become single codes."""
    wide = FORMATS["f32"]
    table = fmt.decode(np.arange(1 << fmt.bits).astype(fmt.code_dtype)).astype(np.float32).view(np.uint32)
    sizes = (rows[:, 2] - rows[:, 1]).astype(np.intp) + 1
    places = np.repeat(rows[:, 0], sizes)
    single = (np.repeat(rows[:, 1], sizes) + ranks(sizes).astype(np.uint64)).astype(np.intp)
    numbers = ~fmt.is_nan(single.astype(fmt.code_dtype))
    places, single = places[numbers], table[single[numbers]].astype(np.uint64)
    nan = np.unique(rows[:, 0][_holds_nan(fmt, rows)])
    listed = [alternatives(nan, a, b) for a, b in nan_codes(wide.name)]
    return table[codes.astype(np.intp)], np.concatenate([alternatives(places, single, single), *listed])


def _holds_nan(fmt: Format, rows: Alternatives) -> np.ndarray:
    found = np.zeros(len(rows), bool)
    for first, last in nan_codes(fmt.name):
        found |= (rows[:, 1] <= last) & (rows[:, 2] >= first)
    return found


def _slots(rows: Alternatives, size: int) -> Iterator[Interval]:
    """Intervals by element: the first of each, the second of each …; empty ones for elements with fewer."""
    rows = np.unique(rows, axis=0)
    places = rows[:, 0].astype(np.intp)
    starts = np.searchsorted(places, places)
    rank = np.arange(len(rows)) - starts
    for k in range(int(rank.max(initial=-1)) + 1):
        low, high = np.ones(size, np.uint64), np.zeros(size, np.uint64)
        chosen = rank == k
        low[places[chosen]], high[places[chosen]] = rows[chosen, 1], rows[chosen, 2]
        yield low, high
