"""Hypotheses of how sums are accumulated: exact, in a type and an order, or as chips do.

Each hypothesis has an identifier and a sentence. explain.py searches them for the one that explains results.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ....ops.accumulators.record import Accumulator
from ....ops.accumulators.sums import dots
from ....ops.accumulators.units import UNITS, Unit
from ...oracle.formats import FORMATS
from ...oracle.rounding import Exact
from ...oracle.sums import exact_products, exact_sums
from . import accumulation
from .accumulation import RoundedSum, Type, fused_type, holds, orders, rounded_sums, types

Codes = tuple[np.ndarray, np.ndarray]
#: Number of products after which a second sum in f32 takes over: 128 in DeepSeek-V3 and DeepGEMM.
_OUTER = (128, 256, 512, 64, 32)
#: The distance of a unit for other operand types from the query.
_OTHER_TYPES = 4
#: Units that no documented chip has, but that were observed: sums of so many products, each rounded to f16.
_STEPS_IN_F16 = (4, 8, 16, 32)


@dataclasses.dataclass(frozen=True)
class Rows:
    """The terms of some results."""

    terms: np.ndarray  #: f64 [results, terms]
    #: For products the codes of both operands, each [results, terms].
    codes: Callable[[], Codes] | None = None

    @functools.cached_property
    def factors(self) -> Codes:
        """The codes of both operands."""
        assert self.codes is not None
        return self.codes()


@dataclasses.dataclass(frozen=True)
class Hypothesis:
    """A hypothesis of how sums are accumulated."""

    identifier: str
    sentence: str
    sum: Callable[[Rows], Exact]
    #: Tried for any number of results; one of a hundred others matches a few results by chance.
    is_plain: bool = False
    record: Accumulator | None = None
    #: The identifier without the order, shared by hypotheses among which a backend chooses by shape.
    family: str = ""
    #: The accumulator's type; empty for exact sums.
    type: str = ""
    #: Whether the signs of zeros are open, as subnormal numbers are flushed.
    zeros_alike: bool = False


@dataclasses.dataclass(frozen=True)
class SumQuery:
    """A query for hypotheses: the types of the sums, and the numbers of terms."""

    operands: tuple[str, ...]  #: two for a product
    result: str
    body: str  #: add, multiply
    counts: tuple[int, ...]

    @property
    def is_dot(self) -> bool:
        return len(self.operands) == 2


# -- all of them -------------------------------------------------------------------------------------------------------


def exact(body: str) -> Hypothesis:
    """Exact sums, or products of many numbers."""
    form = exact_sums if body == "add" else exact_products
    return Hypothesis("exact", "exact", lambda rows: form(rows.terms), is_plain=True, family="exact")


def in_types(query: SumQuery, names: Sequence[str] = (), most: int | None = None) -> Iterator[Hypothesis]:
    """Sums in a type and an order, the likeliest first.

    Args:
        query: the sums.
        names: the types; if empty, all that hold the operands, and the operands' own.
        most: the most steps of an order; longer ones are omitted.
    """
    for how, family in _rounded_sums(query):
        if not names or how.type.name in names:
            yield from _in_orders(how, query, most, family)


def truncating_hypotheses(query: SumQuery) -> Iterator[Hypothesis]:
    """Sums in f32 truncated toward zero at each step."""
    if query.body == "add" and all(holds(FORMATS["f32"], FORMATS[t]) for t in query.operands):
        how = RoundedSum(accumulation.truncating_type(), "cut-off", "accumulated, cut off toward zero at each step,")
        yield from _in_orders(how, query, None, "cut-off/f32")


def may_flush(query: SumQuery) -> bool:
    """Whether the operands have numbers that are subnormal in f32."""
    return query.is_dot and any(FORMATS[t].min_exponent <= FORMATS["f32"].min_exponent for t in query.operands)


def flush(rows: Rows, query: SumQuery) -> Rows:
    """The same terms, with subnormal operands flushed to zero."""
    sides = zip(query.operands, rows.factors, strict=True)
    is_zero = np.logical_or.reduce([FORMATS[t].is_subnormal(x) for t, x in sides])
    zeros = np.where(np.isfinite(rows.terms), np.copysign(0.0, rows.terms), np.nan)
    return Rows(np.where(is_zero, zeros, rows.terms))


def flushing_hypotheses(query: SumQuery) -> Iterator[Hypothesis]:
    """Sums in f32 that flush subnormal numbers to zero, as processors do in a fast mode."""
    if not may_flush(query) or not all(holds(FORMATS["f32"], FORMATS[t]) for t in query.operands):
        return
    wide = types([FORMATS[t] for t in query.operands], "add")
    for t in (*(t for t in wide if t.name == "f32"), fused_type(FORMATS["f32"])):
        how = RoundedSum(accumulation.flushing_type(t), "flushed", "accumulated, subnormal numbers taken for zero,")
        for hypothesis in _in_orders(how, query, None, "flushed/f32"):
            form = hypothesis.sum
            yield dataclasses.replace(hypothesis, sum=lambda x, form=form: form(flush(x, query)), zeros_alike=True)


def _in_orders(how: RoundedSum, query: SumQuery, most: int | None, family: str) -> Iterator[Hypothesis]:
    zero = 0.0 if query.body == "add" else -0.0  # sums of products begin with +0; a product keeps its sign
    for order in orders(query.counts, most):
        total = how.total(order)
        yield Hypothesis(
            f"{how.identifier}/{how.type.name}/{order.identifier}",
            f"{how.sentence} in {how.type.name} {order.sentence}",
            lambda rows, total=total: Exact.of(total(rows.terms) + zero),
            order.is_plain,
            family=family,
            type=how.type.name,
        )


def _rounded_sums(query: SumQuery) -> Iterator[tuple[RoundedSum, str]]:
    """The roundings of sums in each type, with the family; a type too narrow for products rounds or fuses them.

    Products of bf16 have the bits of f32, but may be beyond its range: that is one family.
    """
    needed = sum(FORMATS[t].mantissa_bits + 1 for t in query.operands)
    for t in types([FORMATS[t] for t in query.operands], query.body):
        # Two significands need the bits of both: products of f8 are exact in f16, but not in f8 or bf16.
        is_cut = query.is_dot and needed > FORMATS[t.name].mantissa_bits + 1
        for how in rounded_sums(t, is_cut, query.operands[0] != "f8E8M0FNU"):
            yield how, f"{how.identifier}/{t.name}"
        if query.is_dot and not is_cut and not _has_room(t, query.operands):
            how = RoundedSum(fused_type(FORMATS[t.name]), "fused", "exact products accumulated")
            yield how, f"accumulated/{t.name}"


def _has_room(t: Type, operands: Sequence[str]) -> bool:
    """Whether no product of the operands overflows or underflows a type."""
    fmt, formats = FORMATS[t.name], [FORMATS[name] for name in operands]
    if not all(f.has_zero for f in formats):
        return True
    least = sum(f.min_exponent - f.mantissa_bits for f in formats)
    return float(np.prod([f.max for f in formats])) <= fmt.max and least >= fmt.min_exponent - fmt.mantissa_bits


# -- units -------------------------------------------------------------------------------------------------------------


def from_record(record: Accumulator, identifier: str, sentence: str, operands: Sequence[str]) -> Hypothesis:
    """Sums as an accumulator's record describes them."""
    left, right = operands

    def total(rows: Rows) -> Exact:
        x, y = rows.factors
        return Exact.of(dots(record, x, y, left, right).astype(np.float64))

    return Hypothesis(identifier, sentence, total, True, record, identifier, record.storage.name)


def units(query: SumQuery) -> Iterator[Hypothesis]:
    """Chip accumulators: those for the operands' types first, then others; each record once, under all its names."""
    if not query.is_dot or query.body != "add" or FORMATS[query.operands[0]].bits > 16:
        return
    names: dict[Accumulator, list[str]] = {}
    for unit in sorted((u for u in UNITS if not u.scales), key=lambda u: _distance(u, query)):
        if "operands" in unit.record.flush and _distance(unit, query) >= _OTHER_TYPES:
            continue  # half of the numbers of a narrow format are subnormal
        names.setdefault(unit.record, []).extend(f"{chip}.{unit.instruction}" for chip in unit.chips)
    known = [(record, list(dict.fromkeys(of))) for record, of in names.items()]
    for record, of in known:
        yield from_record(record, f"unit/{of[0]}", f"summed as by {_join_names(of)}: {facts(record)}", query.operands)
    for step in _STEPS_IN_F16:
        record = Accumulator(step, keep="f16")
        sentence = f"rounded to f16 after every {step} products"
        yield from_record(record, f"steps/f16/{step}-terms", sentence, query.operands)
    for record, of in known:
        if any(_distance(u, query) < _OTHER_TYPES for u in UNITS if u.record == record and not u.scales):
            yield from _promote(record, of, query)


def _promote(record: Accumulator, of: Sequence[str], query: SumQuery) -> Iterator[Hypothesis]:
    """A unit's sums of some products, added up in f32."""
    for outer in _OUTER:
        if max(query.counts) <= outer or record.outer:
            continue
        try:
            promoted = dataclasses.replace(record, outer=outer)
        except ValueError:
            continue
        sentence = f"summed as by {_join_names(of)}, in f32 after every {outer} products: {facts(promoted)}"
        yield from_record(promoted, f"unit/{of[0]}/outer-{outer}", sentence, query.operands)


def _distance(unit: Unit, query: SumQuery) -> int:
    """The distance between the types of a unit and those of the query."""
    fits = all(t in unit.operands for t in query.operands)
    return (0 if fits else _OTHER_TYPES) + (0 if unit.result == query.result else 1)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def facts(record: Accumulator) -> str:
    """A record in a few words: all that is needed to compute by hand."""
    return record.to_text()
