"""What of generated source can be compiled: lines on single numbers, and on single elements of arrays.

The rule. A line that names an array says itself what it is in compiled code (`Line.compiled`); where one does not, the
lines are not compiled. Generated Python asks before it writes to an array whether that has other names
(`ops/engine/owned.py`). Compiled code does not ask, so an array that it writes to must have one name at a time: a name
that has handed its array on is not used again before it has another one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from ....ops.types import Kind, TensorType
from .lines import Line


def element_text(text: str, t: TensorType) -> str:
    """The text of an element of an array as compiled code holds numbers."""
    if t.element.kind is Kind.BOOL:
        return f"bool({text})"
    return f"int64({text})" if t.element.is_integer else text


def compiled_text(lines: Sequence[Line], arrays: AbstractSet[str]) -> list[tuple[int, str]] | None:
    """The lines as compiled code has them, each with its depth; None where one has no such form."""
    text = []
    for line in lines:
        if line.compiled is not None:
            text += [(line.depth + depth, written) for depth, written in line.compiled.text]
        elif arrays.isdisjoint((*line.defines, *line.uses)):
            text.append((line.depth, line.text))
        else:
            return None
    return text


def used_by(line: Line) -> Sequence[str]:
    """The names that a line uses in compiled code."""
    return line.uses if line.compiled is None or line.compiled.uses is None else line.compiled.uses


def written_arrays(lines: Sequence[Line]) -> set[str]:
    """The names of arrays to which lines write, by these names or by others that the arrays have had or get."""
    written, count = {name for line in lines if line.compiled is not None for name in line.compiled.writes}, -1
    while count != len(written):
        count = len(written)
        for place, line in enumerate(lines):
            for new, old in _moves(line):
                if new in written or (old in written and not _is_only_read(lines, place, new, written)):
                    written |= {new, old}
    return written


def keep_places(lines: Sequence[Line], carried: Collection[str]) -> bool:
    """Whether each array that is carried has after a turn the name that it has before."""
    before: dict[str, str] = {}
    for line in lines:
        for new, old in [(new, before.get(old, old)) for new, old in _moves(line)]:
            if before.setdefault(new, old) != old:
                return False
    return all(before.get(name, name) == name for name in carried)


def have_one_name(lines: Sequence[Line], written: AbstractSet[str], carried: Collection[str]) -> bool:
    """Whether each array that is written to has one name at a time, in turns of these lines.

    Args:
        lines: a turn, with the depths of its lines from 0 on.
        written: the names of arrays that are written to; each has one of them when turns begin.
        carried: the names that are needed after the last turn.
    """
    for place, line in enumerate(lines):
        moves = _moves(line)
        read = [new for new, old in moves if old in written and new not in written]
        sources = [old for new, old in moves if new in written]
        if not all(_is_only_read(lines, place, name, written) for name in read):
            return False
        if any(used_by(line).count(name) > 1 for name in sources):
            return False
        if not all(name in line.defines or _is_left(lines, place, name, name in carried) for name in sources):
            return False
    return True


def _is_only_read(lines: Sequence[Line], place: int, name: str, written: AbstractSet[str]) -> bool:
    """Whether nothing is written to arrays while lines use the name that one of them gives to an array."""
    depth = lines[place].depth
    last = max((i for i, line in enumerate(lines) if name in used_by(line)), default=place)
    if any(name in used_by(line) for line in lines[: place + 1]) or any(
        line.depth < depth for line in lines[place:last]
    ):
        return False
    end = next((i for i in range(last, len(lines)) if lines[i].depth <= depth), len(lines))
    return not any(_writes(line, written) for line in lines[place:end])


def _writes(line: Line, written: AbstractSet[str]) -> bool:
    return line.compiled is not None and not written.isdisjoint(line.compiled.writes)


def _moves(line: Line) -> Sequence[tuple[str, str]]:
    return line.compiled.moves if line.compiled is not None else ()


def _is_left(lines: Sequence[Line], place: int, name: str, is_carried: bool) -> bool:
    """Whether a name is not used after a line before it is assigned to; after the last turn too if it `is_carried`."""
    depth, after = lines[place].depth, place + 1
    while True:
        may_leave = depth == 0 and not is_carried
        end = next((i for i in range(after, len(lines)) if lines[i].depth < depth), len(lines))
        found = _is_new(lines[after:end], depth, name, may_leave)
        if found is not None:
            return found
        if depth == 0:
            return not is_carried and _is_new(lines[:place], depth, name, may_leave) is not False
        header = next(i for i in range(place, -1, -1) if lines[i].depth < depth)
        if lines[header].text == "while True:":
            found = _is_new(lines[header + 1 : place], depth, name, may_leave)
            if found is not None:
                return found
        depth, place = depth - 1, header
        while end < len(lines) and lines[end].depth == depth and lines[end].text.startswith(("elif ", "else:")):
            end = next((i for i in range(end + 1, len(lines)) if lines[i].depth <= depth), len(lines))
        after = end


def _is_new(lines: Sequence[Line], depth: int, name: str, may_leave: bool) -> bool | None:
    """True where lines assign to a name, False where they use it or leave the loop before, None for neither."""
    for line in lines:
        if name in used_by(line) or (not may_leave and line.depth == depth and line.text.endswith(": break")):
            return False
        if name in line.defines and line.depth == depth:
            return True
    return None
