"""Describes the accumulation of sums: the sentence of a verdict, its identifier, and the facts of the accumulator."""

from __future__ import annotations

from collections.abc import Iterator

from ...comparison.sums.explain import BoundedSum, Fit
from ...oracle.formats import FORMATS
from ..result import AccumulatorFacts


def family_of(found: Fit | BoundedSum) -> str:
    """The identifier of a hypothesis without its order."""
    return found.family if isinstance(found, Fit) else found.identifier.replace("/unknown-order", "")


def by_shape(chosen: dict[str, Fit | BoundedSum]) -> tuple[str, str]:
    """The sentence and the identifier of sums in one type whose order depends on the shape."""
    family = family_of(next(iter(chosen.values())))
    held, _, through = family.partition("/then-")
    kind, _, name = held.partition("/")
    start = f"{_HELD[kind]} in {name}"
    then = f", then rounded to {through}" if through else ""
    if any(isinstance(f, BoundedSum) for f in chosen.values()):
        return f"{start}, in an order of its own{then}", f"{held}/unknown-order" + (
            f"/then-{through}" if through else ""
        )
    orders: dict[str, list[str]] = {}
    for form, fit in chosen.items():
        plain = (
            fit.hypothesis.sentence.removeprefix(start).strip() if isinstance(fit, Fit) else "in an order of its own"
        )
        plain = plain.replace(f"exact products accumulated in {name} ", "products not rounded, ")
        orders.setdefault(plain, []).append(form)
    listed = "; ".join(f"{order}: {', '.join(forms)}" for order, forms in orders.items())
    return f"{start}{then}, in an order that depends on the shape ({listed})", f"{family}/by-shape"


#: Descriptions by the first part of an identifier.
_HELD = {
    "accumulated": "accumulated",
    "rounded": "products and sums rounded",
    "fused": "exact products accumulated",
    "cut-off": "accumulated, cut off toward zero at each step,",
    "flushed": "accumulated, subnormal numbers taken for zero,",
}


def shapes_of_others(chosen: dict[str, Fit | BoundedSum], own: str) -> Iterator[str]:
    """The sentences of other hypotheses, each with the shapes that it explains."""
    forms: dict[str, list[str]] = {}
    for form, fit in chosen.items():
        if fit.sentence != own:
            forms.setdefault(fit.sentence, []).append(form)
    for sentence, of in forms.items():
        yield f"{sentence} ({', '.join(of)})"


def facts(found: Fit | BoundedSum) -> AccumulatorFacts:
    """The facts of an accumulator."""
    if isinstance(found, BoundedSum):
        drop = "zero" if found.is_cut else "nearest_even"
        return AccumulatorFacts(found.identifier, "f32", 23, 1, drop, "in an order of its own", found.through)
    record, name = found.hypothesis.record, found.identifier
    if record is not None:
        order = "in order" if record.take == "consecutive" else f"in order, {record.take} of each window"
        kept = record.keep, record.bits, record.step, record.drop, order
        return AccumulatorFacts(name, *kept, found.through, record.c, record.outer, record.to_text())
    if found.hypothesis.family == "exact":
        return AccumulatorFacts(name, "exact", None, 0, order="in any order", then=found.through)
    fmt = FORMATS[found.hypothesis.type]
    drop = "zero" if found.hypothesis.family.startswith("cut-off") else "nearest_even"
    order = found.hypothesis.sentence.partition(f" in {fmt.name} ")[2]
    return AccumulatorFacts(name, fmt.name, fmt.mantissa_bits, 1, drop, order, found.through)
