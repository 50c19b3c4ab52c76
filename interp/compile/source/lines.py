"""Lines of generated source, and where values are dropped between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...program import Operation
from .ranges import Expression


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What a line is in compiled code.

    text: lines, each with its depth below that of the line; there may be none.
    moves: the names that arrays get, each with the one that the array has had before.
    writes: the names of arrays that are written to.
    known: objects that have names in the text.
    own: the names that the text has besides those that the line defines and uses.
    uses: the names that it uses, where these are not those of the line.
    turns: how many turns it makes.
    """

    text: tuple[tuple[int, str], ...] = ()
    moves: tuple[tuple[str, str], ...] = ()
    writes: tuple[str, ...] = ()
    known: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    own: frozenset[str] = frozenset()
    uses: tuple[str, ...] | None = None
    turns: int = 1


@dataclasses.dataclass(slots=True)
class Line:
    """A line of source: the operation that it is of, and the names that it defines and uses."""

    text: str
    operation: Operation | None
    depth: int
    defines: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    over: tuple[str, ...] = ()  #: which of the names it uses it may write its result over
    into: str = ""  #: the array to put its result into
    is_look: bool = False  #: whether it only looks whether to go on
    ends_turn: bool = False  #: whether it gives names of before the turn of a loop the values for the next one
    expression: Expression | None = None  #: of a line that gives a single number
    compiled: Compiled | None = None  #: what it is in compiled code, where that is something else or names arrays


def with_drops(
    lines: list[Line], large: Collection[str], blocks: Iterable[tuple[int, int]], writes_over: bool
) -> list[Line]:
    """The lines, and those that forget large values which nothing needs any more."""
    if not large:
        return lines
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for index, line in enumerate(lines):
        for name in (*line.defines, *line.uses):
            if name in large:
                first.setdefault(name, index)
                last[name] = index
    blocks = sorted((start + 1, end + 1) for start, end in blocks)  # the head is the first line
    dropped: dict[int, list[tuple[int, str]]] = {}
    for name, index in last.items():
        # What was there before a loop is dropped after it.
        around = next(((a, b) for a, b in blocks if a <= index < b and not a <= first[name] < b), None)
        place, depth = (index, lines[index].depth) if around is None else (around[1] - 1, lines[around[0]].depth)
        if place < len(lines) - 1 and not lines[place].text.endswith(":"):
            dropped.setdefault(place, []).append((-depth, name))
    for index, line in enumerate(lines):
        for place, name in _dropped_in_turn(lines, index, blocks, large) if line.ends_turn else ():
            dropped.setdefault(place, []).append((-line.depth, name))
    result = []
    for index, line in enumerate(lines):
        over = next((name for name in line.over if last[name] == index), None) if writes_over else None
        if line.into:
            into = line.into if over is None else f"{over} if {line.into} is None else {line.into}"
            line = dataclasses.replace(line, text=f"{line.text[:-1]}, out={into})")
        elif over is not None:
            line = dataclasses.replace(line, text=f"{line.text[:-1]}, {over})")
        result.append(line)
        for depth, names in itertools.groupby(sorted(dropped.get(index, ())), key=lambda pair: pair[0]):
            result.append(Line(f"del {', '.join(name for _, name in names)}", line.operation, -depth))
    return result


def _dropped_in_turn(
    lines: Sequence[Line], end: int, blocks: Sequence[tuple[int, int]], large: Collection[str]
) -> Iterator[tuple[int, str]]:
    """What the turn of a loop, that ends with a line, gives new values, and after which lines nothing needs the old."""
    start = max(a for a, b in blocks if a <= end < b)
    parts = [(a, b) for a, b in blocks if start < a < end]
    for name in set(lines[end].defines).intersection(large).difference(lines[end].uses):
        # Where the loop may end, its results are there.
        ends = (i for i in range(end - 1, start, -1) if _takes(lines[i], name) or _leaves(lines[i], lines[end].depth))
        last = next(ends, start)
        last = next((b - 1 for a, b in parts if a <= last < b), last)
        if last > start and not lines[last].text.endswith(":"):
            yield last, name


def _takes(line: Line, name: str) -> bool:
    return name in line.uses or name in line.defines


def _leaves(line: Line, depth: int) -> bool:
    """Whether a line may leave the loop whose turn has this depth."""
    return line.depth == depth and line.text.endswith(": break")
