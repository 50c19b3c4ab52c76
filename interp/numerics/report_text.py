"""A profile as text: the largest losses in sentences, and a table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from .profile_tensors import TensorProfile, percent
from .programs import text_table

if TYPE_CHECKING:
    from .profile import Profile

#: Number of sentences printed.
_SENTENCES = 5
_HEAD = ("line", "op", "format", "elements", "underflow", "subnormal", "saturate", "overflow", "NaN",
         "largest", "smallest", "ULP", "SQNR dB", "scale")  # fmt: skip


def text(profile: Profile, most: int | None = 20) -> str:
    """The largest losses, and the table."""
    sentences = profile.sentences()
    few = [f"{i}. {s}" for i, s in enumerate(sentences[:_SENTENCES], 1)]
    if len(sentences) > _SENTENCES:
        few.append(f"   and {len(sentences) - _SENTENCES} more operations")
    runs = len(profile.steps)
    tensors = len(profile.tensors)
    head = f"{tensors} tensor{'s' * (tensors != 1)}, {runs} run{'s' * (runs != 1)}"
    nothing = "No operation underflows, saturates or overflows in more than 0.1 % of its results."
    return "\n".join([head, *(few or [nothing]), "", table(profile, most)])


def table(profile: Profile, most: int | None) -> str:
    """A row for each tensor that may have losses, the worst first."""
    rounding = sorted((t for t in profile.tensors if t.rounds), key=lambda t: -t.severity)
    narrow = [t for t in rounding if t.statistics.format.bits <= 16 or t.is_found]
    text = text_table([_HEAD, *(row(t) for t in narrow[:most])], right=3)
    return text + (f"\nand {len(narrow) - most} more" if most is not None and len(narrow) > most else "")


def row(t: TensorProfile) -> tuple[str, ...]:
    """The numbers of a tensor as short texts."""
    s = t.statistics
    place = f"{t.line.file.rpartition('/')[2]}:{t.line.line}" if t.line.line else t.line.file

    def share(count: int, total: int) -> str:
        return percent(count, total) if count else "0" if total else "-"

    return (
        place, t.short, s.format.name, f"{s.elements:,}",
        share(s.underflows, s.compared), share(s.subnormals, s.elements), share(s.saturations, s.compared),
        share(max(s.overflows, t.nonfinite_created), s.elements), share(s.nans, s.elements),
        number(s.max_abs), number(s.min_abs),
        "-" if s.ulp_mean is None else f"{s.ulp_max:.3g}",
        "-" if s.sqnr is None else "exact" if math.isinf(s.sqnr) else f"{s.sqnr:.1f}",
        "-" if s.scale is None else f"2^{s.scale}",
    )  # fmt: skip


def number(x: float | None) -> str:
    """A magnitude with three digits."""
    return "-" if x is None else f"{x:.3g}"
