"""Drawings of a profile: the histogram of a tensor with the range of its format, and its shares over steps."""

from __future__ import annotations

from collections.abc import Sequence

from ..conform.report.markup import Markup, element
from .profile_tensors import Step, TensorProfile
from .statistics import Statistics, range_of

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 340, 120, 6, 22, 20
#: The shares drawn over steps, with their names.
_SHARES = {"underflow": "underflow", "saturation": "saturate", "overflow": "overflow", "nan": "NaN"}


def histogram(t: TensorProfile) -> Markup:
    """The number of exact results, or else results, of each exponent, and the range of the format."""
    s = t.statistics
    counts = s.exponents
    if not counts:
        return element("p", "There is no finite number but zero.", class_="facts")
    r = range_of(s.format.name)
    first, last = min(*counts, r.highest), max(*counts, r.lowest)
    if s.format.bits <= 8:  # the whole range of the format is there
        first, last = min(first, r.lowest), max(last, r.highest)
    first, last = first - 1, last + 1
    each = (_WIDTH - 2 * _LEFT) / (last - first + 1)
    most = max(counts.values())
    bottom = _TOP + _HEIGHT

    def x(exponent: float) -> float:
        return round(_LEFT + (exponent - first) * each, 2)

    def band(a: int, b: int, kind: str) -> Markup | None:
        a, b = max(a, first), min(b, last + 1)
        return (
            element("rect", x=x(a), y=_TOP, width=round((b - a) * each, 2), height=_HEIGHT, class_=kind)
            if b > a
            else None
        )

    drawn: list[Markup | None] = [
        band(r.lowest_normal, r.highest + 1, "held normal"),
        band(r.lowest, r.lowest_normal, "held subnormal"),
    ]
    for e, n in counts.items():
        kind = "small" if e < r.lowest else "large" if e > r.highest else "low" if e < r.lowest_normal else "inside"
        height = max(_HEIGHT * n / most, 1)
        width = max(each - 1, each * 0.6)
        drawn.append(
            element(
                "rect",
                element("title", f"2^{e}: {n:,}"),
                x=round(x(e) + (each - width) / 2, 2),
                y=round(bottom - height, 2),
                width=round(width, 2),
                height=round(height, 2),
                class_=f"count {kind}",
            )
        )
    drawn += _ticks(first, last, x, bottom)
    drawn.append(element("text", f"most: {most:,}", x=_WIDTH - _LEFT, y=_TOP - 8, class_="tick end"))
    words = "exact results" if s.compared else "results"
    title = f"{words} of {t.short} by exponent; {s.format.name} holds 2^{r.lowest} to 2^{r.highest}"
    return element("figure", _picture(drawn, title, _TOP + _HEIGHT + _BOTTOM), _caption(s, words))


def _caption(s: Statistics, words: str) -> Markup:
    r = s.range
    keys = [
        ("held normal", f"{s.format.name}: normal numbers, 2^{r.lowest_normal} to 2^{r.highest}"),
        ("held subnormal", f"subnormal numbers, from 2^{r.lowest}"),
        ("count inside", f"{words} by exponent"),
        ("count small", "outside of the range"),
    ]
    if not s.format.has_subnormals:
        del keys[1]
    items = [element("li", element("span", class_=f"swatch {kind}"), text) for kind, text in keys]
    return element("figcaption", element("ul", items, class_="legend"))


def _ticks(first: int, last: int, x: object, bottom: float) -> list[Markup]:
    step = next(n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if (last - first) / n <= 8)
    places = [e for e in range(first + 1, last + 1) if e % step == 0]
    return [
        element("text", f"2^{e}", x=x(e + 0.5), y=bottom + 13, class_="tick middle")  # type: ignore[operator]
        for e in places
    ]


def _picture(drawn: Sequence[Markup | None], title: str, height: float) -> Markup:
    parts = [d for d in drawn if d is not None]
    box = f"0 0 {_WIDTH} {height}"
    return element("svg", element("title", title), parts, viewBox=box, class_="chart", role="img", aria_label=title)


def time_line(steps: Sequence[Step]) -> Markup | None:
    """The shares lost over steps; None for a single step, or without losses."""
    lines = {name: [getattr(s, name) or 0.0 for s in steps] for name in _SHARES}
    lines = {name: shares for name, shares in lines.items() if any(shares)}
    if len(steps) < 2 or not lines:
        return None
    height, most = 70.0, max(max(shares) for shares in lines.values())
    first, last = steps[0].step, max(steps[-1].step, steps[0].step + 1)

    def point(step: int, share: float) -> str:
        across = _LEFT + (step - first) / (last - first) * (_WIDTH - 2 * _LEFT)
        return f"{across:.1f},{_TOP + height * (1 - share / most):.1f}"

    drawn = [
        element("line", x1=_LEFT, x2=_WIDTH - _LEFT, y1=_TOP + height, y2=_TOP + height, class_="axis-line"),
        element("text", f"{100 * most:.3g} %", x=_LEFT, y=_TOP - 8, class_="tick"),
        element("text", f"step {first}", x=_LEFT, y=_TOP + height + 13, class_="tick"),
        element("text", f"step {steps[-1].step}", x=_WIDTH - _LEFT, y=_TOP + height + 13, class_="tick end"),
    ]
    for name, shares in lines.items():
        points = " ".join(point(s.step, share) for s, share in zip(steps, shares, strict=True))
        drawn.append(element("polyline", points=points, class_=f"share {name}"))
    items = [element("li", element("span", class_=f"swatch share {n}"), _SHARES[n]) for n in lines]
    title = "shares over steps"
    caption = element("figcaption", element("ul", items, class_="legend"))
    return element("figure", _picture(drawn, title, _TOP + height + _BOTTOM), caption)
