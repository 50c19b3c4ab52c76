"""The part of the HTML report on products: drawings of the accumulators that explain the results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ...oracle.formats import FORMATS
from ..format_text import count
from ..result import AccumulatorFacts, CaseResult
from .markup import Content, Markup, element, join

#: A cell is a bit; a row is a product some binary places below the largest one.
_CELL, _ROW, _LEFT, _TOP = 6, 14, 74, 30
#: Minimum number of places drawn, and number of places after the last one kept.
_ALL, _BEYOND = 36, 6
_STEPS = 64  #: products drawn as steps

#: How discarded bits are dropped, and where the running sum joins, in words.
DROPS = {
    "zero": "truncated toward zero",
    "floor": "truncated toward minus infinity",
    "sticky": "truncated, with a sticky bit for any that are not zero",
    "nearest_even": "rounded to nearest even",
}
PLACES = {
    "aligned": "the running sum is aligned with them",
    "after": "the running sum is added afterwards",
    "joined": "the running sum is aligned with their sum",
}


def accumulators(cases: Sequence[CaseResult]) -> Content:
    """The accumulators of a report, each once, with the types of the results it explains."""
    explained: dict[AccumulatorFacts, list[CaseResult]] = defaultdict(list)
    for case in cases:
        if case.accumulator is not None:
            explained[case.accumulator].append(case)
    if not explained:
        return None
    shown = [_article(*item) for item in explained.items()]
    words = "The specification does not define how products are summed. These accumulators explain the results."
    return element("section", element("h2", "Sums of products"), element("p", words), shown, id="accumulators")


def _article(accumulator: AccumulatorFacts, cases: Sequence[CaseResult]) -> Markup:
    names = dict.fromkeys(case.signature for case in cases)
    listed: Content = join([[element("code", n), " "] for n in names])
    if len(names) > 8:
        listed = element("details", element("summary", count(len(names), "signature")), element("p", listed))
    record = element("pre", element("code", f"--accumulate '{accumulator.record}'")) if accumulator.record else None
    return element(
        "article", element("h3", cases[0].model), element("div", listed), drawing(accumulator, cases[0]), record
    )


def sentences(accumulator: AccumulatorFacts) -> list[str]:
    """A description of the drawing."""
    a = accumulator
    if a.keep == "exact" and a.bits is None:
        said = ["Sums are exact."]
    elif a.bits is None:
        said = ["All bits of the products are kept within a step."]
    else:
        said = [f"{a.bits} fraction bits are kept below the largest exponent. Lower bits are {DROPS[a.drop]}."]
    if a.step > 1:
        said.append(f"A step sums {a.step} products, {a.order}; {PLACES[a.c]}.")
    else:
        said.append(
            f"{'All products are summed at once' if a.step == 0 else 'Products are summed one by one'}, {a.order}."
        )
    if a.keep != "exact":
        name, _, bits = a.keep.partition(":")
        said.append(f"Between steps the sum is kept in {name}{f' of {bits} fraction bits' if bits else ''}.")
    if a.outer:
        said.append(f"After every {a.outer} products it is added to a sum in f32.")
    if a.then:
        said.append(f"It is rounded to {a.then} before it becomes a result.")
    return said


def drawing(accumulator: AccumulatorFacts, case: CaseResult) -> Markup:
    """Draws the bits of products that are kept, by the distance of a product from the largest; and the steps along
    k."""
    a = accumulator
    width = _product_bits(case)
    last = _ALL - _BEYOND if a.bits is None else a.bits
    columns = max(last + _BEYOND, _ALL)
    below = sorted({0, last // 4, last // 2, 3 * last // 4, max(last - width + 1, 0), last - 1, last, last + 2})
    rows = [d for d in below if d >= 0]
    title = f"{case.model}: bits of a product that are kept, by its distance from the largest exponent"
    drawn: list[Markup] = [
        element("text", "binary places below the largest exponent", x=_LEFT, y=10, class_="axis"),
        *(element("text", d, x=_LEFT + (d + 0.5) * _CELL, y=24, class_="tick middle") for d in range(0, columns, 8)),
    ]
    for i, distance in enumerate(rows):
        y = _TOP + i * _ROW
        label = "the largest" if distance == 0 else f"2^-{distance} of it"
        drawn.append(element("text", label, x=_LEFT - 6, y=y + 9, class_="tick end"))
        for place in range(distance, min(distance + width, columns)):
            kind = "kept" if place <= last or a.bits is None else "dropped"
            x = _LEFT + place * _CELL
            drawn.append(element("rect", x=x, y=y, width=_CELL - 1, height=_ROW - 4, class_=f"bit {kind}"))
    bottom = _TOP + len(rows) * _ROW
    if a.bits is not None:
        x = _LEFT + (last + 1) * _CELL - 0.5
        drawn.append(element("line", x1=x, x2=x, y1=_TOP - 3, y2=bottom, class_="zero"))
    drawn += _steps(a, bottom + 8, columns * _CELL)
    picture = element(
        "svg",
        element("title", title),
        drawn,
        viewBox=f"0 0 {_LEFT + columns * _CELL + 4} {bottom + 36}",
        class_="accumulator",
        role="img",
        aria_label=title,
    )
    keys = [
        element("li", element("span", class_=f"swatch bit {kind}"), words)
        for kind, words in (("kept", "kept"), ("dropped", "dropped"))
    ]
    caption = element("figcaption", element("ul", keys, class_="legend"), element("p", " ".join(sentences(a))))
    return element("figure", picture, caption)


def _product_bits(case: CaseResult) -> int:
    """The significant bits of a product of the operands."""
    return sum(FORMATS[name].mantissa_bits + 1 for name in (*case.operands, *case.operands)[:2])


def _steps(a: AccumulatorFacts, y: float, width: float) -> list[Markup]:
    """The first products of a dot, grouped by steps."""
    each = width / _STEPS
    step = a.step or _STEPS
    drawn = [element("text", f"the first {_STEPS} of k", x=_LEFT - 6, y=y + 9, class_="tick end")]
    for begin in range(0, _STEPS, step):
        length = min(step, _STEPS - begin) * each
        drawn.append(
            element(
                "rect",
                x=f"{_LEFT + begin * each:.5g}",
                y=y,
                width=f"{max(length - 1, 0.5):.5g}",
                height=10,
                class_="step",
            )
        )
    return drawn
