"""The report of a probe: the record, each fact with the dots that show it, and the check on random dots."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...ops.accumulators.record import DROPS, OVERFLOWS, PLACES, ROUNDINGS, Accumulator
from .. import pages
from .answers import Answers, Session
from .designs import Dots
from .dots import Signature
from .facts import with_change
from .operands import dot_text, number_text
from .predict import predict


@dataclasses.dataclass(frozen=True)
class Fact:
    """One fact of the record."""

    field: str  #: the field of `interp.Accumulator`
    sentence: str
    #: Dots that show it: operands, result, and the results under other values. Empty if none shows it.
    evidence: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """The accumulator of a backend for one pair of types. `print` shows it."""

    backend: str
    signature: Signature
    record: Accumulator  #: the record that predicts most dots
    hidden: tuple[str, ...]  #: the small products that large ones absorb: the order, independent of the record
    findings: tuple[Fact, ...]
    predicted: int  #: number of random dots that the record predicts
    checked: int  #: number of random dots
    designed: int  #: number of designed dots that it does not predict
    contradictions: tuple[str, ...]  #: dots that it does not predict
    units: tuple[str, ...]  #: chip accumulators that predict all dots as well
    order: str  #: a sequential order that predicts all dots if the record does not: "accumulated in f32 in 8 lanes"
    notes: tuple[str, ...]
    dots: int  #: number of dots asked for

    @property
    def is_found(self) -> bool:
        """Whether the record predicts every dot."""
        return self.predicted == self.checked and not self.designed

    def to_json(self) -> str:
        """The record as JSON, which `--accumulate @FILE` takes."""
        return self.record.to_json()

    def data(self) -> dict[str, Any]:
        """The whole report as plain data."""
        return dataclasses.asdict(self) | {"record": json.loads(self.record.to_json()), "is_found": self.is_found}

    def __str__(self) -> str:
        return _render("probe.html", report=self).rstrip("\n")


_render = pages.text_renderer(pages.plain)
#: Number of lines for a fact.
_LINES = 2


def evidence(session: Session, answers: Answers, record: Accumulator, field: str) -> Iterator[str]:
    """Return lines that demonstrate the value of a field: each refutes other values by the first dot that they miss.

    `answers` has those of few products first.
    """
    s = session.signature
    right = ~session.misses(record, answers)
    count, unseen = 0, []
    for name, other in alternatives(record, field, s.k):
        expected = predict(other, answers.dots, s)
        differs = right & (expected != answers.got) & ~(session.is_nan(expected) & session.is_nan(answers.got))
        if not differs.any():
            unseen.append(name)
            continue
        if count < _LINES:
            i = int(np.argmax(differs))
            count += 1
            got, other = format_result(answers.got[i], s), format_result(expected[i], s)
            yield f"{line(answers.dots, i, s)} => {got} ({other} with {name})"
    if unseen:
        yield f"these dots do not distinguish it from {', '.join(unseen)}"


def line(dots: Dots, i: int, s: Signature) -> str:
    """Return the products of a dot as text."""
    return dot_text(dots.x[i], dots.y[i], s.lhs, s.rhs)


def format_result(code: np.ndarray | int, s: Signature) -> str:
    """Return a result as text."""
    return number_text(code, s.result)


_ROUNDED = {
    "toward_zero": "toward zero", "nearest_even": "to nearest even", "down": "toward minus infinity",
    "up": "toward infinity",
}  # fmt: skip
_DROPPED = _ROUNDED | {
    "zero": "toward zero", "floor": "toward minus infinity", "sticky": "toward zero, with a sticky bit"
}  # fmt: skip
_JOINED = {
    "aligned": "as a term of each step, aligned with the products",
    "after": "after a step, by an addition rounded to nearest even",
    "joined": "after a step, aligned with the sum of the products",
}


def _take(r: Accumulator) -> str:
    run, period = r.pattern
    if run == period:
        return "consecutive ones"
    return f"{run} of every {period} consecutive ones, so {period // run} steps share {r.step * period // run}"


def _step(r: Accumulator) -> str:
    return "all products are one step" if not r.step else f"{r.step} product{'s' * (r.step > 1)} in a step"


def _kept_form(r: Accumulator) -> str:
    name, _, bits = r.keep.partition(":")
    return "not rounded" if name == "exact" else f"in {name}" + (f" of {bits} fraction bits" if bits else "")


#: The sentence of each fact, in the order of a report. None: the fact does not apply to such a record.
SENTENCES: dict[str, Callable[[Accumulator], str | None]] = {
    "step": _step,
    "take": lambda r: None if r.step in (0, 1) and r.take == "consecutive" else f"a step takes {_take(r)}",
    "tree": lambda r: "products are added pairwise, each sum rounded" if r.tree else "products are not added pairwise",
    "even_odd": lambda r: "even and odd positions are summed separately" if r.even_odd else None,
    "bits": lambda r: (
        None
        if r.tree
        else "a step is summed exactly"
        if r.bits is None
        else f"{r.bits} fraction bits are kept in alignment"
    ),
    "drop": lambda r: None if r.bits is None else f"lower bits are rounded {_DROPPED[r.drop]}",
    "normalise": lambda r: (
        None if r.bits is None else f"products are {'' if r.normalise else 'not '}normalised before they are aligned"
    ),
    "c": lambda r: None if r.keep == "exact" else f"the running sum joins {_JOINED[r.c]}",
    "group": lambda r: f"it joins after every {r.group} products" if r.group else None,
    "sum_bits": lambda r: None if r.c != "joined" else f"there the products' sum has {r.sum_bits} fraction bits",
    "c_bits": lambda r: None if r.c != "joined" else f"there the running sum has {r.c_bits} fraction bits",
    "c_reach": lambda r: (
        None if r.c_reach is None else f"a running sum below 2^-{r.c_reach} of the largest term counts as zero"
    ),
    "join": lambda r: None if r.c != "joined" else f"lower bits are rounded {_DROPPED[r.join]} there",
    "keep": lambda r: f"the running sum is kept {_kept_form(r)}",
    "rounding": lambda r: None if r.keep == "exact" else f"it is rounded {_ROUNDED[r.rounding]}",
    "least": lambda r: None if r.bits is None or r.least is None else f"terms are aligned to 2^{r.least} at least",
    "flush": lambda r: f"subnormal {' and '.join(r.flush)} are zero" if r.flush else "subnormals are kept",
    "overflow": lambda r: {
        "infinity": "a sum beyond the range is infinite",
        "largest": "a sum beyond the range is the largest number",
        "nan": "a sum beyond the range is NaN",
    }[r.overflow],
    "product_limit": lambda r: (
        None if r.product_limit is None else f"products of 2^{r.product_limit} and more are infinite"
    ),
    "outer": lambda r: f"an outer f32 sum takes the sum of every {r.outer} products" if r.outer else None,
}


def alternatives(record: Accumulator, field: str, k: int) -> Iterator[tuple[str, Accumulator]]:
    """Return records with other values of a fact, the nearest first, and their names in the report."""
    value = getattr(record, field)
    others: dict[str, Callable[[], list]] = {
        "step": lambda: [n for n in (record.step * 2, record.step // 2) if 0 < n <= k] if record.step else [k // 2, 1],
        "take": lambda: ["consecutive"] if value != "consecutive" else ["1of2", "2of4"],
        "bits": lambda: [24, 13] if value is None else [value + 1, value - 1, None],
        "group": lambda: [value * 2, 0],
        "outer": lambda: [value * 2, 0],
        "c_reach": lambda: [None] if value is None else [value + 1, value - 1, None],
        "sum_bits": lambda: [None] if value is None else [value + 1, value - 1],
        "c_bits": lambda: [None] if value is None else [value + 1, value - 1],
        "least": lambda: [None] if value is None else [value + 1, value - 1, None],
        "product_limit": lambda: [None] if value is None else [value + 1, value - 1, None],
        "drop": lambda: [d for d in DROPS if d != value],
        "join": lambda: [d for d in DROPS if d != value],
        "c": lambda: [c for c in PLACES if c != value],
        "rounding": lambda: [r for r in ROUNDINGS if r != value],
        "overflow": lambda: [o for o in OVERFLOWS if o != value],
        "keep": lambda: _other_keeps(record),
        "flush": lambda: [()] if value else [("results",), ("operands",)],
        "tree": lambda: [not value],
        "even_odd": lambda: [not value],
        "normalise": lambda: [not value],
    }
    for other in others[field]():
        also = {"c": "after", "bits": None} if field == "tree" and other else {"tree": False} if field == "tree" else {}
        made = with_change(record, {field: other} | also)
        if made is not None and made != record:
            yield f"{field}={_text(other)}", made


def _other_keeps(record: Accumulator) -> list[str]:
    name, _, bits = record.keep.partition(":")
    if name == "exact":
        return ["f64", "f32"]
    fraction = record.form.mantissa_bits
    near = [f"{name}:{n}" for n in (fraction - 1, fraction + 1) if n >= 1]
    return [*near, *(form for form in ("f64", "f32", "f16") if form != name)]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "+".join(value) or "none"
    return "none" if value is None else str(value)
