"""The code of turns that can be compiled, from the lines of generated source; the package has the rule."""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ....ops.engine.speed import tuning
from ....ops.types import TensorType
from ..source.compilable import compiled_text, have_one_name, keep_places, used_by, written_arrays
from ..source.lines import Line
from ..writer import Writer
from .types import is_held

#: The names that may stand in a loop beside values and keywords.
_KNOWN = {"abs", "min", "max", "range", "copy", "bool", "int", "int64"}


@dataclasses.dataclass(frozen=True)
class Code:
    """Turns that can be compiled.

    parts: their lines, each with its depth.
    captured: the names of numbers and arrays that turns only use, with their types.
    objects: those of them that are constants, with these.
    known: the objects that have names beside them.
    written: the names of arrays to which turns write.
    keeps_places: whether arrays that are carried keep their names.
    turns: how many turns a turn makes with those within it.
    """

    parts: Sequence[Sequence[tuple[int, str]]]
    captured: Mapping[str, TensorType]
    objects: Mapping[str, Any]
    known: Mapping[str, Any]
    written: AbstractSet[str]
    keeps_places: bool
    turns: int


def code_of(
    parts: Sequence[Sequence[Line]],
    writer: Writer,
    carried: Sequence[str],
    given: Sequence[str],
    results: Sequence[str],
) -> Code | None:
    """The code of turns whose lines come in some parts; None where it cannot be compiled.

    `carried` are the names of states, `given` all names that turns are given, and `results` those that they give.
    """
    lines = [line for part in parts for line in part]
    inner = [line.compiled for line in lines if line.compiled is not None]
    own = {name for line in lines for name in line.defines}.union(given, *(c.own for c in inner))
    # A constant's name is the number itself.
    used = {name for line in lines for name in used_by(line) if name.isidentifier() and not keyword.iskeyword(name)}
    captured, arrays = writer.types_of(sorted(used.union(results) - own)), writer.arrays_of({*own, *used})
    texts = [text for part in parts if (text := compiled_text(part, arrays)) is not None]
    if captured is None or not all(map(is_held, captured.values())) or len(texts) < len(parts):
        return None
    if not writer.are_short(own):
        return None
    known = writer.constants_in(lines)
    for c in inner:
        known.update(c.known)
    if sum(map(len, texts)) > tuning().loop_lines or not _is_plain(texts, {*own, *captured, *known}):
        return None
    written = written_arrays(lines)
    if not written <= own.difference(given).union(carried) or not have_one_name(lines, written, carried):
        return None
    turns = max(sum(c.turns for c in inner if c.turns > 1), 1)
    return Code(texts, captured, writer.objects_of(captured), known, written, keep_places(lines, carried), turns)


def _is_plain(parts: Iterable[Sequence[tuple[int, str]]], names: AbstractSet[str]) -> bool:
    """Whether there is nothing in lines but these names, and what every Python has."""
    words = {word for lines in parts for _, text in lines for word in re.findall(r"[A-Za-z_]\w*", text)}
    return all(word in names or word in _KNOWN or keyword.iskeyword(word) for word in words)
