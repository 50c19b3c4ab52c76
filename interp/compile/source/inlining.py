"""Inlines the names of generated source that are used once.

The rule. A line that gives a single number which one other line of the same block takes is written there: Python then
keeps it on its stack, and does not compute it where a condition says that it is not taken. What a name in it stands for
must be the same at both places. A line that gives a number which nothing takes is left out.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Sequence

from ....ops.engine.speed import tuning
from .lines import Line
from .ranges import Place

_NAMES = re.compile(r"\bv\d+\b")
_ATOM = re.compile(r"\w+|\([^()]*\)")
_TESTED = re.compile(r"(?:el)?if (?:not )?(v\d+):")
#: The longest text of a line. Not measured: Python's own parser has limits.
_LONGEST = 400


@dataclasses.dataclass
class _Waiting:
    """A line that is to be written elsewhere: its place among the lines, and how often its names had been defined."""

    place: int
    versions: list[int]


def inlined(lines: Sequence[Line]) -> list[Line | None]:
    """The lines of a function, with None for those that give numbers which are written where they are used."""
    kept: list[Line | None] = list(lines)
    if not any(line.expression is not None for line in lines):
        return kept
    counts = Counter(name for line in lines for name in _NAMES.findall(line.text))
    for place in range(len(lines) - 1, -1, -1):
        line = lines[place]
        if line.expression is not None and counts[line.defines[0]] == 1:
            counts.subtract(_NAMES.findall(line.text))
            kept[place] = None
    versions, waiting = Counter[str](), dict[str, _Waiting]()
    for place, line in enumerate(kept):
        if line is None:
            continue
        for name in _NAMES.findall(line.text):
            found = waiting.pop(name, None)
            source = None if found is None else kept[found.place]
            if found is None or source is None or source.depth != line.depth:
                continue
            is_same = found.versions == [versions[n] for n in _NAMES.findall(source.text)]
            if is_same and _put(line, name, source):
                kept[found.place] = None
        for name in line.defines:
            versions[name] += 1
        if line.expression is not None and counts[line.defines[0]] == 2:
            (name,) = line.defines
            waiting[name] = _Waiting(place, [versions[n] for n in _NAMES.findall(line.text)])
    return kept


def _put(line: Line, name: str, source: Line) -> bool:
    """Write an expression in the place of a name in a line; False where it would be too long."""
    given, taken = source.expression, line.expression
    assert given is not None
    if len(line.text) + len(given.text) > _LONGEST:
        return False
    place = taken.places.get(name, Place.VALUE) if taken is not None else _place_in(line.text, name)
    text = given.text
    if place is Place.TEST and given.test is not None:
        text = given.test
    elif place is Place.LOW_BITS and given.low is not None and taken is not None:
        chained = given.chained + 1
        if taken.bits and taken.bits <= given.bits and chained < tuning().chained_integers:
            text, taken.chained = given.low, max(taken.chained, chained)
    text = text if _ATOM.fullmatch(text) else f"({text})"

    def put(old: str) -> str:
        return _NAMES.sub(lambda m: text if m[0] == name else m[0], old)

    if taken is None:
        line.text = put(line.text)
        return True
    for part in ("text", "low", "test"):
        old = getattr(taken, part)
        if old is not None:
            setattr(taken, part, put(old))
    line.text = f"{line.defines[0]} = {taken.text}"
    return True


def _place_in(text: str, name: str) -> Place:
    """What a line that gives no number asks of one."""
    found = _TESTED.match(text)
    return Place.TEST if found is not None and found[1] == name else Place.VALUE
