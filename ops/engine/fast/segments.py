"""The order of a row program: parts that run piece by piece along the rows, and between them what has a number a row.

A sum of rows is there when the last piece has been added. What needs it comes after that, and goes over the pieces
again. Within a part, values stay in registers of a piece, which the nearest cache holds. What a later part needs too is
loaded again if it comes from memory as it is; else it has a register for each piece.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from . import opcodes as op
from .registers import WIDTH, Line

#: The loads that take no longer than reading a register.
_PLAIN_LOADS = (op.LOAD_32, op.LOAD_16, op.LOAD_8)
_FOLDS = (op.SUM_ROW, op.MAXIMUM_ROW, op.MINIMUM_ROW, op.SUM_ROW_BF16, op.SUM_ROW_F16)


def _is_store(line: Line) -> bool:
    return op.STORE_32 <= line[0] <= op.STORE_F16


def in_segments(
    lines: Sequence[Line], constants: int, narrow: Collection[int], fixed: Sequence[bool], pieces: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """The rows of a program, its segments, and how many registers it needs, whose first ones hold the constants.

    narrow: the values that have one number for each row.
    fixed: the leaves that are the same in all blocks.
    """
    return _Order(lines, constants, narrow, fixed, pieces).made()


def _by_row(lines: Sequence[Line], narrow: Collection[int]) -> list[Line]:
    """The ops, of which those that can take a number for each row do, without having it repeated along the row."""
    repeated = {line[1]: line[2][0] for line in lines if line[0] == op.ALONG_ROW}
    made: list[Line] = []
    for kind, result, registers, numbers in lines:
        if kind in op.BY_ROW and result not in narrow:
            x, y = registers
            if kind in (op.ADD, op.MULTIPLY) and x in repeated and y not in repeated:
                x, y = y, x
            if y in repeated:
                made.append((op.BY_ROW[kind], result, (x, repeated[y]), numbers))
                continue
        made.append((kind, result, registers, numbers))
    used = {r for _, _, registers, _ in made for r in registers}
    return [line for line in made if line[0] != op.ALONG_ROW or line[1] in used]


class _Order:
    def __init__(
        self, lines: Sequence[Line], constants: int, narrow: Collection[int], fixed: Sequence[bool], pieces: int
    ) -> None:
        self._lines, self._constants, self._narrow = _by_row(lines, narrow), constants, narrow
        self._fixed, self._pieces = fixed, pieces
        self._by_result = {line[1]: line for line in lines if not _is_store(line)}
        self._parts: dict[int, int] = {}  # of each value the part in which it is computed, or after which it is there

    def made(self) -> tuple[np.ndarray, np.ndarray, int]:
        self._place()
        count = 1 + max(self._parts.values(), default=0)
        full: list[list[Line]] = [[] for _ in range(count)]  # of each part
        between: list[list[Line]] = [[] for _ in range(count)]  # before each part, on numbers for rows
        once: list[Line] = []
        crossing = set[int]()
        inside: list[dict[int, int]] = [{} for _ in range(count)]  # what stands for values in a part
        self._next = 1 + max([line[1] for line in self._lines] + [0])
        for line in self._lines:
            kind, result, registers, numbers = line
            if self._is_once(line):
                once.append(line)
                crossing.add(result)
            elif self._is_between(line):
                between[self._part_of(line)].append(line)
            else:
                part = self._part_of(line)
                taken = tuple([self._taken(r, part, full[part], inside[part], crossing) for r in registers])
                if kind in _FOLDS:
                    between[part].append((op.START_ROW, result, (registers[1],), ()))
                full[part].append((kind, result, taken, numbers))
        segments: list[tuple[list[Line], int]] = [(once, op.ONCE)] if once else []
        for before, part in zip(between, full, strict=True):
            segments += [(before, op.OF_ROWS)] if before else []
            segments += [(part, op.OF_PIECES)] if part else []
        return self._assigned(segments, crossing)

    # -- when ------------------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """The part of each value: as late as those that need it, so that little is needed in several parts."""
        first: dict[int, int] = {}
        for line in self._lines:
            kind, result, registers, _ = line
            part = max([first[r] for r in registers if r >= 0], default=0)
            if not _is_store(line):
                first[result] = part + (kind in _FOLDS)
        last: dict[int, int] = {}
        for line in reversed(self._lines):
            kind, result, registers, _ = line
            if _is_store(line):
                part = first[registers[0]]
            elif kind in _FOLDS:
                part = first[result] - 1
            elif result in self._narrow:
                part = first[result]
            else:
                part = last.get(result, first[result])
            if not _is_store(line):
                self._parts[result] = part + (kind in _FOLDS)
            for r in registers:
                if r >= 0:
                    last[r] = min(last.get(r, part), part)

    def _part_of(self, line: Line) -> int:
        kind, result, registers, _ = line
        if _is_store(line):
            return self._parts[registers[0]]
        return self._parts[result] - (kind in _FOLDS)

    def _is_once(self, line: Line) -> bool:
        """Whether a line loads what is the same in all blocks."""
        return line[0] < op.STORE_32 and line[1] not in self._narrow and self._fixed[line[3][0]]

    def _is_between(self, line: Line) -> bool:
        kind, result, registers, _ = line
        if kind in _FOLDS or kind == op.ALONG_ROW:
            return False
        return (registers[0] if _is_store(line) else result) in self._narrow

    def _taken(self, value: int, part: int, lines: list[Line], inside: dict[int, int], crossing: set[int]) -> int:
        """The register of an operand in a part."""
        if value < 0 or value in self._narrow or self._parts[value] == part:
            return value
        line = self._by_result[value]
        if self._is_once(line):
            return value
        if line[0] not in (*_PLAIN_LOADS, op.ALONG_ROW):
            crossing.add(value)
            return value
        if value not in inside:
            inside[value], self._next = self._next, self._next + 1
            lines.append((line[0], inside[value], line[2], line[3]))
        return inside[value]

    # -- where -----------------------------------------------------------------------------------------------------

    def _assigned(
        self, segments: Sequence[tuple[list[Line], int]], crossing: Collection[int]
    ) -> tuple[np.ndarray, np.ndarray, int]:
        """The rows, with places for values: numbers for rows keep theirs, those of pieces are used again."""
        code = [line for lines, _ in segments for line in lines]
        used = {r for _, _, registers, _ in code for r in registers}
        once = {line[1] for lines, kind in segments if kind == op.ONCE for line in lines}
        last = {r: i for i, (_, _, registers, _) in enumerate(code) for r in registers}
        place = {-1 - i: i for i in range(self._constants)}
        count, free = len(place), {1: list[int](), self._pieces: list[int]()}
        rows = np.zeros((len(code), WIDTH), np.int64)

        def freed(value: int) -> None:
            if value >= 0 and value not in self._narrow and value not in once:
                free[self._pieces if value in crossing else 1].append(place[value])

        for i, line in enumerate(code):
            kind, result, registers, numbers = line
            operands, at = [place[r] for r in registers], result
            if not _is_store(line):
                if result not in place:
                    size = self._pieces if result in crossing else 1
                    if free[size] and result not in self._narrow and result not in once:
                        place[result] = free[size].pop()
                    else:
                        place[result], count = count, count + size
                    if result not in used:
                        freed(result)
                at = place[result]
            for r in dict.fromkeys(registers):
                if last[r] == i:
                    freed(r)
            row = (kind, at, *operands, *numbers)
            rows[i, : len(row)] = row
            rows[i, 7 : 8 + len(registers)] = [r in crossing for r in (-1 if _is_store(line) else result, *registers)]
        ends = np.cumsum([0, *(len(lines) for lines, _ in segments)])
        kinds = [kind for _, kind in segments]
        return rows, np.array([*zip(ends[:-1], ends[1:], kinds, strict=True)], np.int64), count
