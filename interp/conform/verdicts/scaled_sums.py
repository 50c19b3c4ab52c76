"""Verdicts on dots of blocks: the exact sum of scaled products rounded once, a known accumulation, or wrong.

After the hypotheses of other sums come those that round scaled numbers to a type before they multiply, as JAX's own
decomposition does. That is a choice if all scaled numbers are in range, and wrong if a result is lost by it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ....ops.accumulators.record import Accumulator
from ....ops.accumulators.sums import dots
from ....ops.accumulators.units import UNITS
from ...judging.record import OPEN, WRONG, Diagnosis
from ...judging.sums import hypotheses
from ...judging.sums.hypotheses import Hypothesis, Rows, SumQuery
from ...judging.table import cause
from ...oracle.blocks import Block
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact
from ..block_parts import ScaledPart, ScaledRows
from . import sums
from .block_faults import Reading, faults_of_dots, roundings
from .judge import judge
from .sums import SumResult

#: The largest distance of sums from the exact ones, as a share of the magnitudes of their terms: for f32 with
#: thousands of terms; and for units, which keep 13 bits or more.
_OF_F32, _OF_UNITS = 2.0**-12, 2.0**-8


Arrays = Sequence[np.ndarray]
Parts = Sequence[ScaledPart]


def judge_scaled_sums(parts: Parts, results: Arrays, records: Sequence[str] = ()) -> list[SumResult]:
    """The verdicts on a dot of two block formats, on several shapes."""
    known = [*_usual(parts[0].query), *_units(parts[0], records)]
    found: list[SumResult] = [sums.judge_unexplained(p, got) for p, got in zip(parts, results, strict=True)]
    near = [i for i, (p, got) in enumerate(zip(parts, results, strict=True)) if _is_near(p, got, _OF_UNITS)]
    if near:
        judged = sums.judge_sums([parts[i] for i in near], [results[i] for i in near], candidates=known)
        for i, each in zip(near, judged, strict=True):
            found[i] = each
    if _all_known(found):
        return found
    return _by_rounding(parts, results, found) or _with_faults(parts, results, found)


def _all_known(found: Sequence[SumResult]) -> bool:
    return all(f.identifier for f in found)


def _usual(query: SumQuery) -> list[Hypothesis]:
    """Exact sums, and sums in f32."""
    others = *hypotheses.flushing_hypotheses(query), *hypotheses.truncating_hypotheses(query)
    return [hypotheses.exact("add"), *hypotheses.in_types(query, ("f32",)), *others]


def _units(part: ScaledPart, records: Sequence[str]) -> list[Hypothesis]:
    """The given records, and the chip accumulators for blocks of these scales, each record once."""
    left, right = part.sides
    if left.scale != right.scale or left.size != right.size:
        return []
    given = [Accumulator.from_text(text) for text in records]
    found = [_of_record(r, left, right, "given", f"summed as the given record: {hypotheses.facts(r)}") for r in given]
    for unit in UNITS:
        if (left.scale, left.size) in unit.scales and {left.element, right.element} <= {*unit.operands}:
            name = f"{unit.chips[0]}.{unit.instruction}"
            sentence = f"summed as by {name}: {hypotheses.facts(unit.record)}"
            found.append(_of_record(unit.record, left, right, f"unit/{name}", sentence))
    return list({w.record: w for w in reversed(found)}.values())[::-1]


def _of_record(record: Accumulator, left: Block, right: Block, identifier: str, sentence: str) -> Hypothesis:
    """Sums of scaled products by a record, over whole blocks: a partial block is padded with zeros."""

    def total(rows: Rows) -> Exact:
        assert isinstance(rows, ScaledRows)
        x, y, s, t = rows.blocks()
        missing = s.shape[1] * left.size - x.shape[1]
        x, y = (np.pad(codes, ((0, 0), (0, missing))) for codes in (x, y))
        given = {"a_scales": s, "b_scales": t, "scale_type": left.scale, "block": left.size}
        return Exact.of(dots(record, x, y, left.element, right.element, **given).astype(np.float64))

    return Hypothesis(identifier, sentence, total, True, record, identifier, record.storage.name)


def _by_rounding(parts: Parts, results: Arrays, plain: Sequence[SumResult]) -> list[SumResult]:
    """The verdicts by the type that scaled numbers are rounded to: the one that gives most of the results exactly."""
    best, most = [], -1
    for reading in roundings():
        changed = [reading.part(p) or p for p in parts]
        read = _by(reading, changed, parts, results, plain)
        hits = sum(int((p.exact.codes == got).sum()) for p, got in zip(changed, results, strict=True)) if read else -1
        if read and hits > most:
            best, most = read, hits
    return best


def _by(
    reading: Reading, changed: Parts, parts: Parts, results: Arrays, plain: Sequence[SumResult]
) -> list[SumResult] | None:
    """The verdicts if a reading explains all shapes; None if it does not."""
    if all(c is p for c, p in zip(changed, parts, strict=True)) or not all(map(_is_near, changed, results)):
        return None
    read = sums.judge_sums(changed, results, candidates=_usual(parts[0].query))
    if not _all_known(read):
        return None
    return [
        p if p.identifier and c is part else _judge_rounded(reading, part, c, got, r)
        for p, r, c, part, got in zip(plain, read, changed, parts, results, strict=True)
    ]


def _judge_rounded(reading: Reading, part: ScaledPart, changed: ScaledPart, got: np.ndarray, r: SumResult) -> SumResult:
    """The verdict on results of rounded operands: a choice, but wrong where numbers or a result are lost."""
    found = judge(part.case.result, got, part.exact, 0)
    fmt = FORMATS[part.case.result]
    differs = found.verdicts == WRONG
    value, right = fmt.decode(got), fmt.decode(part.exact.codes)
    lost = differs & ((np.isfinite(right) & ~np.isfinite(value)) | ((right != 0) & (value == 0)))
    lost |= differs & _is_coarse(part, changed)
    found.verdicts[differs & ~lost] = OPEN
    found.errors[differs & ~lost] = 0
    words, identifier = f"{reading.sentence}, then {r.sentence}", f"{reading.identifier}/{r.identifier}"
    why = cause("scaled-beyond-range", rounded=reading.sentence) if lost.any() else Diagnosis()
    return SumResult(found, words, identifier, r.accumulator, why)


def _is_coarse(part: ScaledPart, changed: ScaledPart) -> np.ndarray:
    """Tests which results have a scaled number that is subnormal in its rounded type, and loses bits."""
    sides = []
    for exact, read in zip(part.scaled, changed.scaled, strict=True):
        with np.errstate(all="ignore"):
            off = np.abs(read - exact) > np.abs(exact) * 2.0**-8
        sides.append((off & np.isfinite(exact)).any(axis=1))
    return np.logical_or.outer(*sides).ravel()


def _with_faults(parts: Parts, results: Arrays, found: Sequence[SumResult]) -> list[SumResult]:
    """Adds an explanation to shapes that nothing else explains: one fault, or a common property."""
    left = [(p, g, f) for p, g, f in zip(parts, results, found, strict=True) if not f.identifier]
    why = _fault([p for p, *_ in left], [g for _, g, _ in left])
    why = why or next((d for p, g, f in left if (d := _common(p, g, f))), why)
    return [f if f.identifier else dataclasses.replace(f, why=why) for f in found]


def _fault(parts: Sequence[ScaledPart], results: Sequence[np.ndarray]) -> Diagnosis:
    usual = _usual(parts[0].query)
    for reading in faults_of_dots():
        changed = [c for p in parts if (c := reading.part(p)) is not None]
        is_near = len(changed) == len(parts) and all(map(_is_near, changed, results))
        if is_near and _all_known(sums.judge_sums(changed, results, candidates=usual)):
            return Diagnosis(reading.sentence, (reading.identifier,))
    for axis in (0, 1):
        for step in (1, -1):
            moved = [np.roll(g.reshape(p.shape), step, axis).ravel() for p, g in zip(parts, results, strict=True)]
            if all(map(_is_near, parts, moved)):
                return cause("result-off-by-one")
    return Diagnosis()


def _is_near(part: ScaledPart, got: np.ndarray, share: float = _OF_F32) -> bool:
    """Whether results may be sums of the part, in f32 or in a unit: all are near the exact ones, or may overflow."""
    fmt = FORMATS[part.case.result]
    with np.errstate(all="ignore"):
        given, right = fmt.decode(got), fmt.decode(part.exact.codes)
        sizes = np.abs(part.values).sum(axis=1)
        near = np.abs(given - right) <= np.maximum(sizes * share, np.abs(right) * 2.0**-fmt.mantissa_bits)
        near |= (given == right) | (np.isnan(given) & np.isnan(right))
        near |= (sizes > FORMATS["f32"].max) & ~np.isfinite(given)
        near |= (np.abs(given) < 2.0**-110) & (np.abs(right) < 2.0**-110)  # if subnormal numbers are flushed
    return bool(near.all())


def _common(part: ScaledPart, got: np.ndarray, found: SumResult) -> Diagnosis:
    """A property that wrong results have in common."""
    fails = (found.judged.verdicts == WRONG).reshape(part.shape)
    given = np.where(got & np.array(FORMATS[part.case.result].ones, got.dtype) == 0, 0, 1).reshape(part.shape)
    if not given.any():
        return cause("zeros")
    nan = [np.isnan(x).any(axis=1) for x in part.scaled]
    with_nan = np.logical_or.outer(*nan)
    if not (fails & ~with_nan).any():
        return cause("nan-scale-not-nan")
    m, n = part.shape
    row, column = np.indices(part.shape)
    halves = (row >= m // 2, column >= n // 2, row * n + column >= m * n // 2)
    is_half = any(not given[half].any() and not fails[~half].any() for half in halves)
    return cause("half-missing") if is_half else Diagnosis()
