"""What is said of a program's results, given their enclosures: verdicts, and the elements that show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.cast import codes_of
from ...ops.types import ElementType
from ..judging.equality import equal_values, is_subnormal
from ..testing.failures import format_element
from .values import Enclosure, to_f64

EXACT = "EXACT"  #: the interpreter's bits
WITHIN = "WITHIN"  #: other bits, which an implementation may give
UNDECIDED = "UNDECIDED"  #: other bits, of elements on which nothing can be said
UNSUPPORTED = "UNSUPPORTED"  #: the backend or minihlo refuses the program
WRONG = "WRONG"  #: bits that no implementation may give
CRASH = "CRASH"  #: the backend died, or gave no answer in time
#: From best to worst. A program has the worst of its results'.
VERDICTS = (EXACT, WITHIN, UNDECIDED, UNSUPPORTED, WRONG, CRASH)
#: The most bits of a type whose differing elements are certified one by one.
_CERTIFIED_BITS = 16


@dataclasses.dataclass(frozen=True)
class Finding:
    """What is said of one result of a program.

    Attributes:
        verdict: One of VERDICTS.
        differing: How many elements differ from the interpreter's.
        wrong: How many lie outside their enclosures.
        size: How many elements there are.
        sentences: What is to be said, each in a line.
        kind: How the first wrong element is wrong, in a few words, for causes; empty if none is.
        flushes: Whether subnormal numbers were given as zero.
    """

    verdict: str
    differing: int = 0
    wrong: int = 0
    size: int = 0
    sentences: tuple[str, ...] = ()
    kind: str = ""
    flushes: bool = False


def worst(verdicts: Sequence[str]) -> str:
    """Return the worst of some verdicts; EXACT if there is none."""
    return max(verdicts, key=VERDICTS.index, default=EXACT)


@np.errstate(all="ignore")
def compare(enclosure: Enclosure, theirs: np.ndarray) -> Finding:
    """Compare a result with its enclosure."""
    ours, element = enclosure.value, enclosure.element
    if theirs.shape != ours.shape or theirs.dtype != ours.dtype:
        text = f"expected {ours.dtype}{list(ours.shape)}, got {theirs.dtype}{list(theirs.shape)}"
        return Finding(WRONG, ours.size, ours.size, ours.size, (text,), "another type")
    differs = ~equal_values(theirs, ours)
    if not differs.any():
        return Finding(EXACT, size=ours.size)
    admitted, undecided = enclosure.admits(theirs), enclosure.undecided
    outside, open_ = differs & ~admitted, differs & undecided
    count, sentences, kind = int(differs.sum()), [], ""
    flushes = element.is_float and bool((differs & admitted & (theirs == 0) & is_subnormal(ours)).any())
    verdict = WRONG if outside.any() else UNDECIDED if open_.any() else WITHIN
    if verdict == WRONG:
        excess = enclosure.excess(theirs)
        at = tuple(int(i) for i in np.argwhere(outside)[0])
        kind = kind_of(theirs[at], ours[at], float(excess[at]), element)
        sentences.append(
            f"{int(outside.sum()):,} outside what is allowed; at {list(at)}: {_pair(theirs[at], ours[at], element)}"
        )
        sentences.append(_bounds(enclosure, at, float(excess[at])))
    elif verdict == UNDECIDED:
        cause = enclosure.cause()
        since = "" if cause is None else f" since {cause.name} at {cause.location}"
        sentences.append(f"{int(open_.sum()):,} undecided{since}")
    else:
        at = tuple(int(i) for i in np.argwhere(differs)[0])
        sentences.append(f"all of them allowed; at {list(at)}: {_pair(theirs[at], ours[at], element)}")
        if element.is_float and element.bits <= _CERTIFIED_BITS:
            sentences.append(_certificate(enclosure, at))
    return Finding(verdict, count, int(outside.sum()), ours.size, tuple(sentences), kind, flushes)


def _pair(theirs: Any, ours: Any, element: ElementType) -> str:
    return " and not ".join(format_element(x, element) for x in (theirs, ours))


def _bounds(enclosure: Enclosure, at: tuple[int, ...], excess: float) -> str:
    """Say what is allowed at an element, and by how much it is missed."""
    low, high, nan = (x[at] for x in dataclasses.replace(enclosure, beyond=None).results())
    texts = [format_element(np.asarray(enclosure.value)[at], enclosure.element)]
    if enclosure.low is not None and not enclosure.element.is_complex:
        texts = [f"{low:.17g} to {high:.17g}"] if low != high else [f"{low:.17g}"]
        is_beyond = enclosure.beyond is not None and enclosure.beyond[at]
        texts = (texts if low == low else []) + (["infinity or NaN"] if is_beyond else ["NaN"] if nan else [])
    is_number = enclosure.element.is_float and np.isfinite(excess)
    off = "" if not is_number else f"; it is {excess:.3g} ULP off"
    return f"allowed: {' or '.join(texts)}{off}"


def _certificate(enclosure: Enclosure, at: tuple[int, ...]) -> str:
    """Say why a result of few bits may be another code: the exact value is not known better than this."""
    if enclosure.low is None or enclosure.high is None:
        return "the format leaves the result open"
    low, high = enclosure.low[at], enclosure.high[at]
    return f"the value before rounding lies between {low:.9g} and {high:.9g}, which round to both"


def kind_of(theirs: Any, ours: Any, excess: float, element: ElementType) -> str:
    """Return how a wrong element is wrong, in a few words."""
    if not (element.is_float or element.is_complex):
        return "another integer" if element.is_integer else "another truth value"
    x, y = (complex(to_f64(np.asarray(v), element)) for v in (theirs, ours))
    if np.isnan(y) != np.isnan(x):
        return "NaN for a number" if np.isnan(x) else "a number for NaN"
    if np.isinf(y) and not np.isinf(x):
        return "a number for infinity"
    if np.isinf(x):
        return "infinity for a number"
    if x == y == 0:
        return "the other zero"
    if x == 0:
        return "zero for a number"
    if element.is_float and element.bits <= 8:
        steps = abs(int(codes_of(np.asarray(theirs), element.format)) - int(codes_of(np.asarray(ours), element.format)))
        return "the next number" if steps == 1 else "another number"
    return "a few ULP" if excess < 64 else "another number"
