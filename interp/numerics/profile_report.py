"""A profile as text and as an HTML page, which `profile.html` of the templates lays out."""

from __future__ import annotations

import itertools
import linecache
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import pages
from ..errors import count
from ..program import Location
from .profile_tensors import LineProfile, Step, TensorProfile, percent
from .reports import short_place, text_table

if TYPE_CHECKING:
    from .profile import Profile

#: Number of sentences printed.
_SENTENCES = 5
_SHARES = ("underflow", "subnormal", "saturate", "overflow", "NaN")
_HEAD = ("line", "op", "format", "elements", *_SHARES, "largest", "smallest", "ULP", "SQNR dB", "scale")
#: Lines of source around a profiled one.
_AROUND = 2


def text(profile: Profile, most: int | None = 20) -> str:
    """The largest losses in sentences, and the table."""
    sentences = profile.sentences()
    few = [f"{i}. {s}" for i, s in enumerate(sentences[:_SENTENCES], 1)]
    if len(sentences) > _SENTENCES:
        few.append(f"   and {len(sentences) - _SENTENCES} more operations")
    head = f"{count(len(profile.tensors), 'tensor')}, {count(len(profile.steps), 'run')}"
    nothing = "No operation underflows, saturates or overflows in more than 0.1 % of its results."
    return "\n".join([head, *(few or [nothing]), "", table(profile, most)])


def table(profile: Profile, most: int | None) -> str:
    """A row for each tensor that may have losses, the worst first."""
    shown = sorted(filter(_is_shown, profile.tensors), key=lambda t: -t.severity)
    text = text_table([_HEAD, *(_row(t) for t in shown[:most])], right=3)
    return text + (f"\nand {len(shown) - most} more" if most is not None and len(shown) > most else "")


def _row(t: TensorProfile) -> tuple[str, ...]:
    s = t.statistics
    shares = [(percent(*t.shares[n]) if t.shares[n][0] else "0" if t.shares[n][1] else "-") for n in _SHARES]
    return (
        short_place(t.line), t.short, s.format.name, f"{s.elements:,}", *shares, number(s.max_abs), number(s.min_abs),
        number(s.ulp_max if s.measured else None),
        "-" if s.sqnr is None else "exact" if math.isinf(s.sqnr) else f"{s.sqnr:.1f}",
        "-" if s.scale is None else f"2^{s.scale}",
    )  # fmt: skip


def number(x: float | None) -> str:
    """A number with three digits."""
    return "-" if x is None else f"{x:.3g}"


def _is_shown(t: TensorProfile) -> bool:
    """Whether a tensor has a row and a drawing: those that may have losses in a narrow format."""
    return t.is_found or (t.rounds and t.is_narrow)


# -- the page ----------------------------------------------------------------------------------------------------------


def page(profile: Profile) -> str:
    """The whole page."""
    lines = [x for x in profile.lines if any(map(_is_shown, x.tensors))]
    programs = dict.fromkeys(str(s["program"]) for s in profile.steps)
    found = {(t.line.file, t.line.line): t for t in reversed(profile.findings)}  # the worst of each line
    return render(
        "profile.html",
        title=f"Numerics of {', '.join(programs) or 'nothing'}",
        profile=profile,
        found=sorted(found.values(), key=profile.findings.index),
        files=_files(lines),
        lines=sorted(lines, key=lambda x: -x.tensors[0].severity),
        arguments=[t for t in profile.tensors if t.op == "argument" and t.is_narrow],
    )


def _anchor(line: Location) -> str:
    return f"L{line.line}-{''.join(c if c.isalnum() else '-' for c in line.file)[-60:]}"


def _files(lines: Sequence[LineProfile]) -> dict[str, list[dict[str, Any]]]:
    """The profiled lines of each file, with some around them."""
    files = itertools.groupby(lines, lambda x: x.line.file)
    known = {file: {x.line.line: x for x in of} for file, of in files}
    return {file: list(_rows(file, of)) for file, of in known.items() if next(iter(of))}


def _rows(file: str, known: dict[int, LineProfile]) -> Iterator[dict[str, Any]]:
    wanted = sorted({n for line in known for n in range(max(1, line - _AROUND), line + _AROUND + 1)})
    text = linecache.getlines(file)
    for before, n in zip([wanted[0] - 1, *wanted], wanted, strict=False):
        if n <= len(text) or n in known:
            if n != before + 1:
                yield {"n": None}
            yield {"n": n, "code": text[n - 1].rstrip() if n <= len(text) else "", "profile": known.get(n)}


def _span(t: TensorProfile) -> tuple[int, int, int]:
    """The exponents that a histogram shows, and the distance of its ticks."""
    fmt, exponents = t.statistics.format, t.statistics.exponents
    first, last = min(*exponents, fmt.max_exponent), max(*exponents, fmt.min_exponent)
    if fmt.bits <= 8:  # the whole range of the format is there
        first, last = min(first, fmt.min_exponent), max(last, fmt.max_exponent)
    step = next(1 << k for k in range(10) if (last - first + 2) / (1 << k) <= 8)
    return first - 1, last + 1, step


def _losses(steps: Sequence[Step]) -> dict[str, list[float]]:
    """The shares lost in each step, without those that are always 0."""
    shares = {n: [getattr(s, n) or 0.0 for s in steps] for n in ("underflow", "saturation", "overflow", "nan")}
    return {name: of for name, of in shares.items() if any(of)}


render = pages.renderer(
    anchor=_anchor,
    shown=lambda line: list(filter(_is_shown, line.tensors)),
    isinf=math.isinf,
    losses=_losses,
    file_name=lambda line: line.file.rpartition("/")[2],
    number=number,
    percent=percent,
    span=_span,
)
