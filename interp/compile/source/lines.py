"""Lines of generated source, and where values are dropped between them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable

from ...program import Operation
from .ranges import Expression


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
    expression: Expression | None = None  #: of a line that gives a single number


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
