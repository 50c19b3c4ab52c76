"""The pass that joins groups and reductions over the same rows: a softmax, a normalization, their gradients.

The rule. Operations on all of a shape, reductions of it over its last dimensions, and operations on what these give
for each row are one row program, if they hang together and nothing between them is needed from elsewhere that itself
needs one of them. Each thread then takes a few rows at a time through all of it: only what goes in and what comes out
is held as a whole. The operations stay as they are in the program's region, for where it is not run so.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ....ops.engine.speed import Speed, tuning
from ....ops.op import lookup
from ....ops.policy import Policy
from ...program import Operation, Region, Value
from ..group import GROUP, PACK, RANK, ROWS, SPREAD, UNPACK, UNRANK
from ..leaf import Leaf, Shape
from ..passes.fusible import identity
from ..uses import captures
from .build import Builder
from .chain import Chain, Space, Term, closure
from .places import Places, shape_or_none


def find_rows(region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> Region:
    """A region that has been fused, in which row programs stand in the place of groups and reductions.

    The operation that it puts in, `ROWS`, has the `RowProgram` and for each of its leaves the number of its operand as
    attributes, and a region that computes the same, whose arguments are the operands.
    """
    return _Finder(region, constants, speed, policy).region()


class _Finder:
    def __init__(self, region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> None:
        self._has_tables, self._places = speed.tables, Places(region, constants, policy)
        self._region = region
        self._operations = [_with_inner(o, constants, speed, policy) for o in region.operations]
        self._spaces: dict[Shape, list[int]] = {}
        self._home: dict[Value, Chain] = {}
        self._readers: dict[tuple[Space, Value], Chain] = {}
        self._after: dict[Value, frozenset[Chain]] = {}
        self._section, self._count = 0, 0  # the chains of the section

    def region(self) -> Region:
        """The region with row programs."""
        for operation in self._operations:
            reduced = self._places.reduced(operation)
            if reduced is not None:
                shape, kept = reduced
                if kept not in self._spaces.setdefault(shape, []):
                    self._spaces[shape].append(kept)
        operations = self._operations
        if self._spaces:
            for i, operation in enumerate(operations):
                self._take(i, operation)
            builder = Builder(operations, self._region.returns, self._places, self._has_tables)
            operations = builder.joined(self._home)
        same = len(operations) == len(self._region.operations)
        if same and all(a is b for a, b in zip(operations, self._region.operations, strict=True)):
            return self._region
        return Region(self._region.arguments, operations, self._region.returns)

    def _take(self, place: int, operation: Operation) -> None:
        if not _is_pure(operation):
            self._next_section()
        chain = self._chain(operation)
        if chain is not None:
            chain.members.append(place)
            self._home.update(dict.fromkeys(operation.results, chain))
            return
        after = self._leading([*operation.operands, *(v for r in operation.regions for v in captures(r))])
        if after:
            self._after.update(dict.fromkeys(operation.results, frozenset(after)))

    def _next_section(self) -> None:
        self._section, self._count = self._section + 1, 0
        self._readers.clear()

    def _leading(self, values: Iterable[Value]) -> set[Chain]:
        """The chains that values come from."""
        found = set[Chain]()
        for value in values:
            found |= self._after.get(value, frozenset())
            if value in self._home:
                found.add(self._home[value])
        return {c for c in found if c.section == self._section}

    def _chain(self, operation: Operation) -> Chain | None:
        """The chain that an operation is to be part of."""
        if not operation.results:
            return None
        own = self._places.reduced(operation)
        for chain in self._near(operation, own):
            chain = chain.whole()  # it can have become part of the one before, which could not take the operation
            terms = self._places.terms(operation, chain.space)
            if terms is not None and self._joins(terms, chain):
                return chain
        shape = shape_or_none(operation.results[0])
        kept = self._spaces.get(shape)
        space = own or (None if kept is None else (shape, kept[0]))
        terms = None if space is None else self._places.terms(operation, space)
        if space is None or terms is None:
            return None
        if self._count == tuning().row_chains:
            self._next_section()
        self._count += 1
        new = Chain(space, self._section)
        return new if self._joins(terms, new) else None

    def _near(self, operation: Operation, own: Space | None) -> list[Chain]:
        """Chains that give or take an operand of an operation, the best first."""
        values = [self._places.root(v) for v in operation.operands]
        homes = [self._home[v].whole() for v in values if v in self._home]
        shapes = [own[0]] if own else [shape_or_none(operation.results[0])]
        spaces = [own] if own else [(s, k) for s in shapes for k in self._spaces.get(s, ())]
        readers = [self._readers[s, v].whole() for s in spaces for v in values if (s, v) in self._readers]
        near = [*sorted(dict.fromkeys(homes), key=lambda c: -c.members[-1]), *readers]
        return [c for c in dict.fromkeys(near) if c.section == self._section and (own is None or own == c.space)]

    def _joins(self, terms: Sequence[Term], chain: Chain) -> bool:
        """Make a chain take these operands, if it can: others that give them become part of it where they can."""
        if len(chain.members) > tuning().row_longest:
            return False
        needs = set[Chain]()
        for value, axes in terms:
            home = self._home.get(value)
            if home is None:
                needs |= self._after.get(value, frozenset())
                continue
            home = home.whole()
            if home is not chain and not self._merged(home, chain):
                needs.add(home)
            elif axes != identity(value):
                return False
        needs = {c.whole() for c in needs if c.section == self._section}
        if chain in closure(needs):
            return False
        chain.needs |= needs
        shape, kept = chain.space
        for value, axes in terms:
            if value not in self._home and Leaf(value.type, axes).spread(len(shape))[kept:] == list(shape[kept:]):  # type: ignore[arg-type]
                self._readers[chain.space, value] = chain
        return True

    def _merged(self, other: Chain, chain: Chain) -> bool:
        """Make another chain part of this one, if they are of the same rows and nothing leads from one to the other."""
        if other.space != chain.space or other.section != chain.section or not chain.members:
            return False
        if other in chain.all_needs() or chain in other.all_needs():
            return False
        if len(chain.members) + len(other.members) > tuning().row_longest:
            return False
        other.joined = chain
        chain.members = sorted([*chain.members, *other.members])
        chain.needs = {c for c in (n.whole() for n in (*chain.needs, *other.needs)) if c is not chain}
        return True


def _with_inner(operation: Operation, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> Operation:
    regions = tuple([find_rows(r, constants, speed, policy) for r in operation.regions])
    if all(a is b for a, b in zip(regions, operation.regions, strict=True)):
        return operation
    return dataclasses.replace(operation, regions=regions, origin=operation.origin or operation)


def _is_pure(operation: Operation) -> bool:
    """Whether others can be moved across an operation."""
    if operation.name in (GROUP, RANK, UNRANK, SPREAD, PACK, UNPACK, ROWS):
        return True
    record = lookup(operation.name)
    if record is None or not record.is_pure or record.traits.is_call or not operation.results:
        return False
    return all(_is_pure(inner) for region in operation.regions for inner in region.operations)
