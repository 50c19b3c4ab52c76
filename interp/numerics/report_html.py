"""The data of a profile's HTML page, which is `profile.html` of the templates, and of its drawings."""

from __future__ import annotations

import linecache
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import pages
from ..program import Location
from .profile_tensors import LineProfile, Step, TensorProfile, percent
from .report_text import number
from .statistics import range_of

if TYPE_CHECKING:
    from .profile import Profile

#: Lines of source around a profiled one.
_AROUND = 2
#: The drawings: their width, the height of the field of a histogram and of the time line, and the margins.
_WIDTH, _HEIGHT, _STEPS, _LEFT, _TOP = 340, 120, 70, 6, 22
#: The shares drawn over steps, with their names.
_SHARES = {"underflow": "underflow", "saturation": "saturate", "overflow": "overflow", "nan": "NaN"}


def page(profile: Profile) -> str:
    """The whole page."""
    lines = [x for x in profile.lines if any(map(_is_shown, x.tensors))]
    programs = dict.fromkeys(str(s["program"]) for s in profile.steps)
    found: dict[tuple[str, int], TensorProfile] = {}  # one for each line
    for t in profile.findings:
        found.setdefault((t.line.file, t.line.line), t)
    return render(
        "profile.html",
        title=f"Numerics of {', '.join(programs) or 'nothing'}",
        profile=profile,
        found=list(found.values()),
        files=_files(lines),
        lines=sorted(lines, key=lambda x: -x.severity),
        arguments=[t for t in profile.tensors if t.op == "argument" and t.statistics.format.bits <= 16],
    )


def _is_shown(t: TensorProfile) -> bool:
    """Whether a tensor has a drawing: those that may have losses in a narrow format."""
    return t.is_found or (t.rounds and t.statistics.format.bits <= 16)


def _anchor(line: Location) -> str:
    return f"L{line.line}-{''.join(c if c.isalnum() else '-' for c in line.file)[-60:]}"


def _files(lines: Sequence[LineProfile]) -> dict[str, list[dict[str, Any]]]:
    """The profiled lines of each file, with some around them."""
    files: dict[str, dict[int, LineProfile]] = {}
    for x in lines:
        files.setdefault(x.line.file, {})[x.line.line] = x
    return {file: list(_rows(file, known)) for file, known in files.items() if next(iter(known))}


def _rows(file: str, known: dict[int, LineProfile]) -> Iterator[dict[str, Any]]:
    wanted = sorted({n for line in known for n in range(max(1, line - _AROUND), line + _AROUND + 1)})
    text = linecache.getlines(file)
    for before, n in zip([wanted[0] - 1, *wanted], wanted, strict=False):
        if n <= len(text) or n in known:
            if n != before + 1:
                yield {"n": None}
            yield {"n": n, "code": text[n - 1].rstrip() if n <= len(text) else "", "profile": known.get(n)}


def _numbers(t: TensorProfile) -> dict[str, str]:
    s = t.statistics

    def share(count: int, total: int) -> str:
        return f"{percent(count, total)} ({count:,})" if count else "none"

    error = s.measured > 0
    return {
        "elements": f"{s.elements:,}",
        "zero": share(s.zeros, s.elements),
        "underflow": share(s.underflows, s.compared) if s.compared else "not known",
        "subnormal": share(s.subnormals, s.elements),
        "saturate": share(s.saturations, s.compared) if s.compared else "not known",
        "overflow": share(max(s.overflows, t.nonfinite_created), s.elements),
        "NaN": share(s.nans, s.elements),
        "infinite": share(s.infinities, s.elements),
        "largest": number(s.max_abs),
        "smallest above 0": number(s.min_abs),
        "error in ULP": f"at most {s.ulp_max:.3g}, mean {s.ulp_mean:.3g}" if error else "not known",
        "relative error": f"at most {s.relative_max:.3g}, mean {s.relative_mean or 0:.3g}" if error else "not known",
        "SQNR": "-" if s.sqnr is None else "exact" if math.isinf(s.sqnr) else f"{s.sqnr:.1f} dB",
        "largest scale that fits": "-" if s.scale is None else f"2^{s.scale}",
    }


# -- drawings ----------------------------------------------------------------------------------------------------------


def _histogram(t: TensorProfile) -> dict[str, Any] | None:
    """The number of results of each exponent, and the range of the format; None without a number but zero."""
    s = t.statistics
    counts = s.exponents
    if not counts:
        return None
    r = range_of(s.format.name)
    first, last = min(*counts, r.highest), max(*counts, r.lowest)
    if s.format.bits <= 8:  # the whole range of the format is there
        first, last = min(first, r.lowest), max(last, r.highest)
    first, last = first - 1, last + 1
    each = (_WIDTH - 2 * _LEFT) / (last - first + 1)

    def x(exponent: float) -> float:
        return round(_LEFT + (exponent - first) * each, 2)

    bands = []
    for a, b, kind in ((r.lowest_normal, r.highest + 1, "normal"), (r.lowest, r.lowest_normal, "subnormal")):
        a, b = max(a, first), min(b, last + 1)
        if b > a:
            bands.append({"x": x(a), "width": round((b - a) * each, 2), "kind": kind})
    bars, width, most = [], max(each - 1, each * 0.6), max(counts.values())
    for e, n in counts.items():
        height = max(_HEIGHT * n / most, 1)
        kind = "small" if e < r.lowest else "large" if e > r.highest else "low" if e < r.lowest_normal else "inside"
        bars.append(
            {
                "exponent": e,
                "n": n,
                "x": round(x(e) + (each - width) / 2, 2),
                "y": round(_TOP + _HEIGHT - height, 2),
                "width": round(width, 2),
                "height": round(height, 2),
                "kind": "small"
                if e < r.lowest
                else "large"
                if e > r.highest
                else "low"
                if e < r.lowest_normal
                else "inside",
            }
        )
    step = next(n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if (last - first) / n <= 8)
    words = "exact results" if s.compared else "results"
    return {
        "title": f"{words} of {t.short} by exponent; {s.format.name} holds 2^{r.lowest} to 2^{r.highest}",
        "words": words,
        "bands": bands,
        "bars": bars,
        "ticks": [(e, x(e + 0.5)) for e in range(first + 1, last + 1) if e % step == 0],
        "most": most,
    }


def _time_line(steps: Sequence[Step]) -> dict[str, Any] | None:
    """The shares lost over steps; None for a single step, or without losses."""
    shares = {name: [getattr(s, name) or 0.0 for s in steps] for name in _SHARES}
    most = max((max(of, default=0.0) for of in shares.values()), default=0.0)
    if len(steps) < 2 or not most:
        return None
    first, last = steps[0].step, max(steps[-1].step, steps[0].step + 1)

    def point(step: int, share: float) -> str:
        across = _LEFT + (step - first) / (last - first) * (_WIDTH - 2 * _LEFT)
        return f"{across:.1f},{_TOP + _STEPS * (1 - share / most):.1f}"

    lines = {
        name: " ".join(point(s.step, share) for s, share in zip(steps, of, strict=True))
        for name, of in shares.items()
        if any(of)
    }
    return {"most": most, "lines": lines}


render = pages.renderer(
    SHARES=_SHARES,
    anchor=_anchor,
    shown=lambda line: [t for t in line.tensors if _is_shown(t)],
    file_name=lambda line: line.file.rpartition("/")[2],
    numbers=_numbers,
    percent=percent,
    picture_of_histogram=_histogram,
    picture_of_steps=_time_line,
)
