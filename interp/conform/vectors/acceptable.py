"""Acceptable results: for each element one code, or more if there is freedom.

The sets agree with the tester's verdicts: a code is acceptable if an element with it may be PASS, DIVERGENT or
ACCURACY. If a backend has to make one choice at all elements, the sets have each choice, and only the judgement of
all results decides whether it is one.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from ...judging import open_points as choices
from ...judging.functions import sides_of_function
from ...judging.open_points import IDENTIFIERS
from ...judging.record import WRONG
from ...oracle import rounding
from ...oracle.expected import Expected
from ...oracle.formats import FORMATS, bits, code_dtype
from ..block_parts import BlockPart
from ..elementwise import Part
from ..repeats import AnyPart
from ..rows import RowPart, in_total_order
from ..verdicts import outcome
from ..verdicts.judge import judge

#: Rules for other acceptable codes, by identifier. Open points of formats have identifiers of their own.
RULES = {
    "accuracy": "A function: in formats of up to 8 bits either neighbour of the exact value, in wider ones any code "
    "within the limit `ulp`; exact results are required where they exist. Both are listed.",
    "one-choice": "At an open point all results of a call have to be of one choice. Each choice is listed; whether it "
    "is one choice is decided by `minihlo conform judge`.",
    "sum": "Sums and products of many terms, whose order and accumulator are open. The expected codes are exact "
    "results, rounded once; other acceptable codes are not listed: `minihlo conform judge` compares all results of "
    "an operation with every known accumulation.",
    "block": "Numbers in blocks. The expected codes are those of the rule for scales of the format's source. "
    "Other acceptable rules are not listed: `minihlo conform judge` compares with every known one.",
}
#: Results that may have other acceptable codes, which are not listed.
NOT_LISTED = {"sum", "block"}
#: Pairs of a result and a candidate judged at a time, which bounds the memory.
_MOST = 1 << 20

Alternatives = np.ndarray  #: uint64 [n, 3]: the index of an element, and the first and the last code of an interval


def alternatives(places: np.ndarray, first: np.ndarray | int, last: np.ndarray | int) -> Alternatives:
    """The rows of some intervals."""
    rows = np.empty((len(places), 3), np.uint64)
    rows[:, 0], rows[:, 1], rows[:, 2] = places, first, last
    return rows


def ranks(counts: np.ndarray) -> np.ndarray:
    """The numbers from 0 to below each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


NONE = alternatives(np.arange(0), 0, 0)


@dataclasses.dataclass(frozen=True)
class Acceptable:
    """The acceptable results of a part, flat. If the expected code is NaN, every NaN of the format is acceptable."""

    expected: np.ndarray
    alternatives: Alternatives  #: sorted by index
    rules: tuple[str, ...]  #: identifiers: of open points, and of RULES

    def of(self, start: int, size: int) -> Acceptable:
        """The acceptable results of consecutive elements."""
        places = self.alternatives[:, 0]
        first, last = np.searchsorted(places, [start, start + size])
        rows = self.alternatives[first:last].copy()
        rows[:, 0] -= np.uint64(start)
        return Acceptable(self.expected[start : start + size], rows, self.rules)


def acceptable(part: AnyPart, ulp: int) -> Acceptable:
    """The acceptable results of a part; `ulp` is the limit of functions in formats of more than 8 bits."""
    if isinstance(part, RowPart):
        return _of_rows(part)
    if isinstance(part, BlockPart):
        return Acceptable(part.expected, NONE, ("block",))
    expected, limit = part.expected, ulp if part.case.is_near else 0
    return _of(part.case.result, expected, limit, part)


def _of_rows(part: RowPart) -> Acceptable:
    if outcome.is_sum(part):
        return Acceptable(part.exact.codes, NONE, ("sum",))
    result = _of(part.case.result, part.expected, 0)
    fmt = FORMATS[part.case.result]
    if part.case.op != "sort" or fmt.nan != "sign":
        return result
    first = in_total_order(fmt, part.arrays[0], nan_first=True)  # rows with NaN are shifted by one
    where = np.flatnonzero(first.codes != part.expected.codes)
    rows = np.concatenate([result.alternatives, alternatives(where, first.codes[where], first.codes[where])])
    rules = [*result.rules, *([IDENTIFIERS[rounding.NAN_ORDER], "one-choice"] if len(where) else [])]
    return Acceptable(result.expected, rows[np.argsort(rows[:, 0], kind="stable")], tuple(dict.fromkeys(rules)))


def _of(result: str, expected: Expected, limit: int, part: Part | None = None) -> Acceptable:
    free = np.flatnonzero((expected.left_open != 0) | bool(limit))
    points = [int(p) for p in np.unique(expected.left_open) if p]
    rules = [IDENTIFIERS[p] for p in points] + ["one-choice"] * any(p in choices.RULED for p in points)
    rules += ["accuracy"] * bool(limit)
    if not free.size:
        return Acceptable(expected.codes, NONE, tuple(rules))
    of_free = expected.at(free)
    side = np.zeros(free.size, np.int8)
    if limit and part is not None and bits(result) <= 16:
        operands = tuple(x[free] for x in part.arrays)
        side = sides_of_function(part.case.op, result, operands, of_free.codes)
    fields = [of_free.codes, of_free.left_open, side, of_free.is_zero, of_free.by_steps, of_free.magnitudes]
    table = np.stack([f.astype(np.uint64) for f in fields if f is not None], axis=1)
    _, firsts, kinds = np.unique(table, axis=0, return_index=True, return_inverse=True)
    kinds = kinds.reshape(-1)
    intervals = _intervals(result, of_free.at(firsts), limit, side[firsts])
    counts = np.bincount(intervals[:, 0].astype(np.intp), minlength=len(firsts))
    starts = np.cumsum(counts) - counts
    repeats = counts[kinds]
    rows = intervals[np.repeat(starts[kinds], repeats) + ranks(repeats)]
    return Acceptable(expected.codes, alternatives(np.repeat(free, repeats), rows[:, 1], rows[:, 2]), tuple(rules))


def _intervals(result: str, expected: Expected, limit: int, side: np.ndarray) -> Alternatives:
    """The acceptable codes beside the expected ones, as intervals with the indices of results."""
    if result not in FORMATS and result != "i1":
        return _of_integers(result, expected)
    rows: list[np.ndarray] = []
    step = max(1, _MOST // max(1, len(_candidates(result, expected.codes[:1], limit)[0])))
    for start in range(0, len(side), step):
        at = np.arange(start, min(start + step, len(side)))
        some, sides = expected.at(at), side[at]
        candidates = _candidates(result, some.codes, limit)
        is_fit = _accepts(result, candidates, some, limit, sides)
        # Consecutive codes are one interval.
        order = np.argsort(candidates, axis=1, kind="stable")
        candidates = np.take_along_axis(candidates, order, axis=1)
        is_fit = np.take_along_axis(is_fit, order, axis=1)
        for i in np.flatnonzero(is_fit.any(axis=1)):
            codes = np.unique(candidates[i][is_fit[i]]).astype(np.uint64)
            ends = np.flatnonzero(np.diff(codes) != 1)
            low, high = codes[np.append(0, ends + 1)], codes[np.append(ends, len(codes) - 1)]
            rows.append(alternatives(np.full(len(low), start + i), low, high))
    return np.concatenate(rows) if rows else NONE


def _candidates(result: str, codes: np.ndarray, limit: int) -> np.ndarray:
    """Codes that may be acceptable, a row for each expected code: all codes, or for wide formats those nearby."""
    dtype = code_dtype(result)
    if bits(result) <= 8:
        every = np.arange(1 << bits(result)).astype(np.uint8).astype(dtype)
        return np.broadcast_to(every, (len(codes), len(every)))
    fmt = FORMATS[result]
    near = codes[:, None] + np.arange(-limit, limit + 1).astype(np.int64).astype(dtype)
    sizes = [*range(limit + 1), *range(fmt.max_code - limit, fmt.max_code + 2)]
    fixed = np.array([s | sign for s in sizes for sign in (0, fmt.sign_bit)], dtype)
    return np.concatenate([near, np.broadcast_to(fixed, (len(codes), len(fixed)))], axis=1)


def _accepts(result: str, candidates: np.ndarray, expected: Expected, limit: int, side: np.ndarray) -> np.ndarray:
    """Tests which candidates are acceptable, other than the expected code."""
    n = candidates.shape[1]
    flat, repeated = candidates.reshape(-1), expected.at(np.repeat(np.arange(len(candidates)), n))
    judged = judge(result, flat, repeated, limit, True, (lambda at: side[at // n]) if limit else None)
    is_fit = judged.verdicts != WRONG
    for point in choices.RULED:  # the candidates together show no choice for these
        at = np.flatnonzero(repeated.left_open == point)
        if not at.size:
            continue
        is_fit[at] |= choices.classify(point, result, flat[at], repeated.codes[at]) >= 0
        if point == rounding.NEGATIVE and repeated.magnitudes is not None:
            is_fit[at] |= flat[at] == repeated.magnitudes[at]
    is_same = flat == repeated.codes
    if result in FORMATS:
        fmt = FORMATS[result]
        is_same |= fmt.is_nan(flat) & fmt.is_nan(repeated.codes)
    return (is_fit & ~is_same).reshape(candidates.shape)


def _of_integers(result: str, expected: Expected) -> Alternatives:
    """Acceptable integers: any integer for a float beyond the type, the nearest end for an integer beyond it."""
    mask, is_signed = (1 << bits(result)) - 1, not result.startswith("u")
    most = mask >> is_signed
    rows: list[tuple[int, int, int]] = []
    for i, point in enumerate(expected.left_open.tolist()):
        if point == rounding.NOT_AN_INTEGER:
            rows.append((i, 0, mask))
        elif point == rounding.WRAPPED:
            rows += [(i, end, end) for end in (0 if not is_signed else most + 1, most)]
    return np.array(rows, np.uint64).reshape(-1, 3)
