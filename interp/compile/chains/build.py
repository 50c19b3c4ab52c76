"""Puts row programs in the place of chains."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....ops.engine.speed import tuning
from ...program import Operation, Region, Value
from ..fusion.grouping import any_size
from ..group import GROUP, RANK, ROWS, SPREAD, Attributes, Constant, Origin, Step
from ..leaf import Axes, Leaf
from ..passes.fusible import element_of, identity
from ..uses import captures
from .chain import Chain, Term
from .places import Places, shape_or_none
from .program import Maker, Name


class Builder:
    """The operations of a region, in which chains have been found."""

    def __init__(
        self, operations: Sequence[Operation], returns: Sequence[Value], places: Places, has_tables: bool
    ) -> None:
        self._operations, self._returns = list(operations), set(returns)
        self._places, self._has_tables = places, has_tables

    def joined(self, home: Mapping[Value, Chain]) -> list[Operation]:
        """The operations, with programs in the place of chains that are worth it; `home` has the chains of values."""
        chains = [c for c in dict.fromkeys(c.whole() for c in home.values()) if self._pays(c)]
        users: dict[Value, list[int]] = {}  # None of those in the same chain
        chain_at = {place: chain for chain in chains for place in chain.members}
        for place, operation in enumerate(self._operations):
            chain = chain_at.get(place)
            for value in self._used(operation, chain is not None):
                if chain is None or home.get(value) is None or home[value].whole() is not chain:
                    users.setdefault(value, []).append(place)
        needed = set(self._returns)
        # What only lays values along others is left out where the programs do without it.
        gone = set[int]()
        for place in reversed(range(len(self._operations))):
            operation = self._operations[place]
            if operation.name == SPREAD and operation.results[0] not in needed:
                gone.add(place)
            elif place in chain_at:
                needed.update(self._used(operation, True))
            else:
                needed.update(self._used(operation, False))
        made: dict[int, Operation] = {}  # by the place of the last member
        for chain in chains:
            inside = set(chain.members)
            outputs = [
                v
                for i in chain.members
                for v in self._operations[i].results
                if v in self._returns or any(u not in inside and u not in gone for u in users.get(v, ()))
            ]
            operation = self._program(chain, outputs)
            if operation is None:
                for i in chain.members:
                    del chain_at[i]
            else:
                made[chain.members[-1]] = operation
        if not made:
            return self._operations
        return self._ordered(chain_at, made)

    def _pays(self, chain: Chain) -> bool:
        """Whether a chain is worth a program: elements are reduced, and taken at least twice."""
        shape, kept = chain.space
        now, columns = tuning(), math.prod(shape[kept:])
        if not (columns >= now.fast_short and math.prod(shape) >= now.row_few):
            return False
        members = [self._operations[i] for i in chain.members]
        folds = [o for o in members if self._places.reduced(o) is not None]
        full = [o for o in members if o not in folds and shape_or_none(o.results[0]) == shape]
        # A single operation of numpy takes no longer by itself.
        groups = [o for o in (*folds, *full) if o.name == GROUP]
        return bool(folds) and len(folds) + len(full) > 1 and len(folds) + len(full) + len(groups) > 2

    def _used(self, operation: Operation, is_member: bool) -> list[Value]:
        """The values that an operation takes; of a member of a chain their sources."""
        values = [*operation.operands, *(v for r in operation.regions for v in captures(r))]
        return [self._places.root(v) if is_member else v for v in values]

    def _ordered(self, chain_at: Mapping[int, Chain], made: Mapping[int, Operation]) -> list[Operation]:
        """Operations and programs, each after what it takes."""
        units: list[Operation] = []
        for place, operation in enumerate(self._operations):
            if place not in chain_at:
                units.append(operation)
            elif place in made:
                units.append(made[place])
        needed = set(self._returns)
        for unit in reversed(units):
            if unit.name != SPREAD or unit.results[0] in needed:
                needed.update(unit.operands, *map(captures, unit.regions))
        units = [u for u in units if u.name != SPREAD or u.results[0] in needed]
        maker = {v: unit for unit in units for v in unit.results}
        begun, done, ordered = set[int](), set[int](), list[Operation]()
        for unit in units:
            stack = [unit]
            while stack:
                last = stack[-1]
                takes = [*last.operands, *(v for r in last.regions for v in captures(r))]
                left = [m for v in takes if (m := maker.get(v)) is not None and id(m) not in done]
                if left:
                    assert id(last) not in begun, "row programs that need each other"
                    begun.add(id(last))
                    stack += left
                    continue
                stack.pop()
                if id(last) not in done:
                    done.add(id(last))
                    ordered.append(last)
        return ordered

    def _program(self, chain: Chain, outputs: Sequence[Value]) -> Operation | None:
        if not outputs:
            return None
        shape, kept = chain.space
        maker, names, operands = Maker(shape, kept, self._has_tables), dict[Value, Name](), dict[Value, int]()
        leaves: dict[Term, Name] = {}
        places: list[int] = []

        def name(value: Value, axes: Axes) -> Name:
            value, axes = term = self._places.source(value, axes)
            if value in names:
                return names[value]
            if term not in leaves:
                leaves[term] = maker.leaf(Leaf(value.type, axes))  # type: ignore[arg-type]
                places.append(operands.setdefault(value, len(operands)))
            return leaves[term]

        inner: dict[Operation, None] = {}
        origins: dict[Operation, None] = {}
        spreads = self._places.spreads
        for place in chain.members:
            operation = self._operations[place]
            for value in operation.operands:
                chained = []
                while value in spreads:
                    chained.append(spreads[value])
                    value = spreads[value].operands[0]
                inner.update(dict.fromkeys(reversed(chained)))
            inner[operation] = None
            origins.update(dict.fromkeys(_origins(operation)))
            results = self._results(operation, maker, name)
            names.update(zip(operation.results, results, strict=True))
        program = maker.finish([names[v] for v in outputs])
        if any(i < len(program.leaves) + len(program.constants) for i in program.outputs):
            return None
        along = [shape_or_none(v) == shape for v in outputs]
        if any(is_along and program.rows[i] for is_along, i in zip(along, program.outputs, strict=True)):
            return None  # one number for each row is needed all along it
        attributes = {"program": program, "places": tuple(places), "origins": tuple([Origin(o) for o in origins])}
        region = Region(tuple(operands), list(inner), tuple(outputs))
        last = self._operations[chain.members[-1]]
        return Operation(
            ROWS, tuple(operands), tuple(outputs), attributes, (region,), last.location, last.origin or last
        )

    def _results(self, operation: Operation, maker: Maker, name: Any) -> list[Name]:
        """The values of a member in the program."""
        if operation.name == RANK:
            (leaf,) = operation.operands
            return [maker.rank(operation.attributes["ranked"], name(leaf, identity(leaf)))]
        if operation.name == GROUP:
            group = operation.attributes["group"]
            names = [name(v, leaf.axes) for v, leaf in zip(operation.operands, group.leaves, strict=False)]
            results = maker.function(group.function, names)
        elif self._places.reduced(operation) is not None:
            results = [name(operation.operands[0], identity(operation.operands[0]))]
        else:
            names = []
            for value in operation.operands:
                number = self._places.number(value)
                if number is None:
                    names.append(name(value, identity(value)))
                else:
                    names.append(maker.constant(Constant.of(number, element_of(value))))
            types = tuple([any_size(v) for v in (*operation.operands, *operation.results)])
            return [maker.step(Step(operation.name, Attributes(operation.attributes), (), types), names)]
        reduction, _ = self._places.reduction(operation)
        if reduction is None:
            return results
        start = self._places.number(operation.operands[-1])
        assert start is not None
        return [maker.fold(reduction.name, results[0], Constant.of(start, reduction.element))]


def _origins(operation: Operation) -> Iterator[Operation]:
    if "origins" in operation.attributes:
        for origin in operation.attributes["origins"]:
            yield origin.operation
            yield from (o.operation for o in origin.inside)
    yield operation.origin or operation
