"""The part of the HTML report on products: data of the drawings of accumulators."""

from __future__ import annotations

from typing import Any

from ...oracle.formats import FORMATS
from ..result import AccumulatorFacts, CaseResult

#: A cell is a bit; a row is a product some binary places below the largest one.
_CELL, _ROW, _LEFT, _TOP = 6, 14, 74, 30
#: Minimum number of places drawn, and number of places after the last one kept.
_ALL, _BEYOND = 36, 6
_STEPS = 64  #: products drawn as steps


def picture(accumulator: AccumulatorFacts, case: CaseResult) -> dict[str, Any]:
    """The bits of products that are kept, by the distance of a product from the largest; and the steps along k."""
    a = accumulator
    width = sum(FORMATS[name].mantissa_bits + 1 for name in (*case.operands, *case.operands)[:2])  # of a product
    last = _ALL - _BEYOND if a.bits is None else a.bits
    columns = max(last + _BEYOND, _ALL)
    distances = {0, last // 4, last // 2, 3 * last // 4, max(last - width + 1, 0), last - 1, last, last + 2}
    rows = []
    for distance in sorted(d for d in distances if d >= 0):
        places = range(distance, min(distance + width, columns))
        rows.append((distance, [(p, "kept" if p <= last or a.bits is None else "dropped") for p in places]))
    each, step = columns * _CELL / _STEPS, a.step or _STEPS
    begins = range(0, _STEPS, step)
    return {
        "title": f"{case.model}: bits of a product that are kept, by its distance from the largest exponent",
        "columns": columns,
        "rows": rows,
        "bottom": _TOP + len(rows) * _ROW,
        "edge": None if a.bits is None else _LEFT + (last + 1) * _CELL - 0.5,
        "steps": [(_LEFT + b * each, max(min(step, _STEPS - b) * each - 1, 0.5)) for b in begins],
        "products": _STEPS,
    }
