"""Programs on rows as data: chains of elementwise operations and reductions that are all over the same last dimensions.

A row program is immutable and hashable, as a group is. Its values lie along all of a shape, or are one for each row,
which the dimensions that no reduction takes away number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ....ops.types import ELEMENT_TYPES, ElementType
from ..group import Constant, Function, Lookup, Ranked, Step
from ..leaf import Leaf, Shape, width


@dataclasses.dataclass(frozen=True)
class Fold:
    """The reduction of each row of a value by an operation, from a number on."""

    name: str
    operands: tuple[int, ...]
    element: ElementType
    start: Constant


@dataclasses.dataclass(frozen=True)
class Rank:
    """The rank that wins in each row of codes."""

    ranked: Ranked
    operands: tuple[int, ...]

    @property
    def element(self) -> ElementType:
        """The element type of ranks."""
        return ELEMENT_TYPES["ui8"]


RowStep = Step | Lookup | Fold | Rank


@dataclasses.dataclass(frozen=True)
class RowProgram:
    """The values are numbered: the leaves, then the constants, then the results of the steps in their order."""

    leaves: tuple[Leaf, ...]
    shape: Shape
    kept: int  #: how many dimensions number the rows
    constants: tuple[Constant, ...]
    steps: tuple[RowStep, ...]
    outputs: tuple[int, ...]

    @property
    def rows(self) -> list[bool]:
        """Whether each value is one for each row."""
        spreads = [leaf.spread(len(self.shape)) for leaf in self.leaves]
        found = [set(s[self.kept :]) <= {1} for s in spreads] + [True] * len(self.constants)
        for step in self.steps:
            found.append(isinstance(step, Fold | Rank) or all(found[i] for i in step.operands))
        return found

    @property
    def folds(self) -> list[Fold | Rank]:
        """The reductions."""
        return [step for step in self.steps if isinstance(step, Fold | Rank)]


#: A value of a program in the making: its kind and its number among those of the kind.
Name = tuple[int, int]
_LEAF, _CONSTANT, _STEP = range(3)


class Maker:
    """A row program in the making, in which nothing is computed twice."""

    def __init__(self, shape: Shape, kept: int, has_tables: bool) -> None:
        self._shape, self._kept, self._has_tables = shape, kept, has_tables
        self._leaves: list[Leaf] = []
        self._constants: dict[Constant, Name] = {}
        self._steps: list[tuple[RowStep, tuple[Name, ...]]] = []
        self._known: dict[tuple[RowStep, tuple[Name, ...]], Name] = {}

    def leaf(self, leaf: Leaf) -> Name:
        """A new leaf."""
        self._leaves.append(leaf)
        return _LEAF, len(self._leaves) - 1

    def function(self, function: Function, operands: Sequence[Name]) -> list[Name]:
        """The outputs of a function of some values: what is a lookup table by itself is one here too."""
        if self._has_tables and function.pays_as_table and all((width(e) or 9) <= 8 for e in function.leaves):
            tables = [dataclasses.replace(function, outputs=(i,)) for i in function.outputs]
            return [self.step(Lookup(table, ()), operands) for table in tables]
        names = [*operands, *(self.constant(c) for c in function.constants)]
        for step in function.steps:
            names.append(self.step(step, [names[i] for i in step.operands]))
        return [names[i] for i in function.outputs]

    def fold(self, name: str, operand: Name, start: Constant) -> Name:
        """The reduction of a value."""
        return self._added(Fold(name, (), start.element, start), (operand,))

    def rank(self, ranked: Ranked, operand: Name) -> Name:
        """The rank of the code that wins in each row."""
        return self._added(Rank(ranked, ()), (operand,))

    def finish(self, outputs: Sequence[Name]) -> RowProgram:
        """The program that gives some values."""
        first = 0, len(self._leaves), len(self._leaves) + len(self._constants)
        steps = [
            dataclasses.replace(step, operands=tuple([first[kind] + i for kind, i in names]))
            for step, names in self._steps
        ]
        places = tuple([first[kind] + i for kind, i in outputs])
        return RowProgram(tuple(self._leaves), self._shape, self._kept, tuple(self._constants), tuple(steps), places)

    def constant(self, constant: Constant) -> Name:
        """A single number."""
        return self._constants.setdefault(constant, (_CONSTANT, len(self._constants)))

    def step(self, step: Step | Lookup, operands: Sequence[Name]) -> Name:
        """The result of a step."""
        return self._added(dataclasses.replace(step, operands=()), tuple(operands))

    def _added(self, step: RowStep, operands: tuple[Name, ...]) -> Name:
        key = step, operands
        if key not in self._known:
            self._steps.append(key)
            self._known[key] = _STEP, len(self._steps) - 1
        return self._known[key]
