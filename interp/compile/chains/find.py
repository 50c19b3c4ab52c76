"""The pass that joins groups and reductions over the same rows: a softmax, a normalization, their gradients.

The rule. Operations on all of a shape, reductions of it over its last dimensions, and operations on what these give
for each row are one row program, if they hang together and nothing between them is needed from elsewhere that itself
needs one of them. Each thread then takes a few rows at a time through all of it: only what goes in and what comes out
is held as a whole. The operations stay as they are in the program's region, for where it is not run so.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ....ops.engine.speed import Speed, tuning
from ....ops.policy import Policy
from ....ops.registry import lookup
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..group import GROUP, PACK, RANK, ROWS, SPREAD, UNPACK, UNRANK, Attributes, Constant, Origin, Reduction, Step
from ..leaf import Axes, Leaf, Shape
from ..passes.fusible import Uniform, along, element_of, identity, is_fusible, shape_of, spread_of
from ..passes.grouping import any_size
from ..reductions import reduction_of
from ..uses import captures
from .program import Maker, Name

#: A shape and how many of its dimensions number the rows.
_Space = tuple[Shape, int]
#: An operand that is no single number, and the dimensions of a space that its own lie along.
_Term = tuple[Value, Axes]


def find_rows(region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> Region:
    """A region that has been fused, in which row programs stand in the place of groups and reductions.

    The operation that it puts in, `ROWS`, has the `RowProgram` and for each of its leaves the number of its operand as
    attributes, and a region that computes the same, whose arguments are the operands.
    """
    return _Finder(region, constants, speed, policy).region()


@dataclasses.dataclass(eq=False)
class _Chain:
    """Operations over the same rows that are to be one program."""

    space: _Space
    section: int  #: operations are never moved from one section of a region to another
    members: list[int] = dataclasses.field(default_factory=list)  #: their places in the region
    needs: set[_Chain] = dataclasses.field(default_factory=set)  #: the chains that others lead to it from
    joined: _Chain | None = None  #: what this one has become part of

    def whole(self) -> _Chain:
        chain = self
        while chain.joined is not None:
            chain = chain.joined
        return chain

    def all_needs(self) -> set[_Chain]:
        return closure(self.needs)


def closure(chains: Iterable[_Chain]) -> set[_Chain]:
    """Chains and all that they need."""
    seen, stack = set[_Chain](), list(chains)
    while stack:
        chain = stack.pop().whole()
        if chain not in seen:
            seen.add(chain)
            stack += chain.needs
    return seen


class _Finder:
    def __init__(self, region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> None:
        self._is_nearest = policy.rounding == "nearest_even"
        self._has_tables, self._number = speed.tables, Uniform(region, constants).number
        self._region = region
        self._operations = [_with_inner(o, constants, speed, policy) for o in region.operations]
        self._spaces: dict[Shape, list[int]] = {}
        self._home: dict[Value, _Chain] = {}
        self._readers: dict[tuple[_Space, Value], _Chain] = {}
        self._after: dict[Value, frozenset[_Chain]] = {}
        self._sources: dict[Value, _Term] = {}  # what only lays another value along more dimensions
        self._section, self._count = 0, 0  # the chains of the section

    def region(self) -> Region:
        """The region with row programs."""
        for operation in self._operations:
            reduced = self._reduced(operation)
            if reduced is not None:
                shape, kept = reduced
                if kept not in self._spaces.setdefault(shape, []):
                    self._spaces[shape].append(kept)
        operations = self._operations
        if self._spaces:
            for i, operation in enumerate(operations):
                self._take(i, operation)
            operations = self._joined()
        same = len(operations) == len(self._region.operations)
        if same and all(a is b for a, b in zip(operations, self._region.operations, strict=True)):
            return self._region
        return Region(self._region.arguments, operations, self._region.returns)

    # -- what an operation is ------------------------------------------------------------------------------------------

    def _reduced(self, operation: Operation) -> _Space | None:
        """The rows that an operation reduces, if it is a reduction that row programs have."""
        if operation.name == RANK:
            shape = shape_of(operation.operands[0])
            return _space(shape, operation.attributes["dimensions"])
        reduction, shape = self._reduction(operation)
        if reduction is None or self._number(operation.operands[-1]) is None:
            return None
        record = lookup(reduction.name)
        if record is None or record.facts.compiled_fold is None or record.facts.combining is None:
            return None
        if reduction.element.name not in ("f32", "bf16", "f16"):
            return None
        if reduction.element.bits < 32 and record.facts.combining.largest is None and not self._is_nearest:
            return None  # its steps are rounded in another way
        return _space(shape, reduction.dimensions)

    def _reduction(self, operation: Operation) -> tuple[Reduction | None, Shape]:
        if operation.name == GROUP:
            return operation.attributes["reduction"], operation.attributes["group"].shape
        if operation.name != "stablehlo.reduce" or len(operation.operands) != 2:
            return None, ()
        return reduction_of(operation), _shape(operation.operands[0])

    def _terms(self, operation: Operation, space: _Space) -> list[_Term] | None:
        """The operands of an operation in a space; None where it has no place there."""
        reduced = self._reduced(operation)
        if reduced is not None:
            if reduced != space:
                return None
            if operation.name != GROUP:
                return self._found([(operation.operands[0], identity(operation.operands[0]))], space)
        if operation.name == GROUP:
            group = operation.attributes["group"]
            if (operation.attributes["reduction"] is None) == (reduced is None) and _fits(group.shape, space):
                return self._found(
                    [(v, leaf.axes) for v, leaf in zip(operation.operands, group.leaves, strict=False)], space
                )
            return None
        if not _is_plain(operation) or not _fits(shape_of(operation.results[0]), space):
            return None
        return self._found([(v, identity(v)) for v in operation.operands if self._number(v) is None], space)

    def _found(self, terms: Iterable[_Term], space: _Space) -> list[_Term] | None:
        """The sources of terms; None where one of them lies along a part of a row."""
        found = [self._source(*term) for term in terms]
        shape, kept = space
        for value, axes in found:
            inner = Leaf(value.type, axes).spread(len(shape))[kept:]  # type: ignore[arg-type]
            if any(n != 1 for n in inner) and tuple(inner) != shape[kept:]:
                return None
        return found

    def _source(self, value: Value, axes: Axes) -> _Term:
        """What a value that only lays another one along more dimensions comes from, and where that lies."""
        while value in self._sources:
            value, inner = self._sources[value]
            axes = along(inner, axes)
        return value, axes

    def _root(self, value: Value) -> Value:
        while value in self._sources:
            value, _ = self._sources[value]
        return value

    # -- chains --------------------------------------------------------------------------------------------------------

    def _take(self, place: int, operation: Operation) -> None:
        if operation.name == SPREAD:
            self._sources[operation.results[0]] = operation.operands[0], operation.attributes["axes"]
        elif not _is_pure(operation):
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

    def _leading(self, values: Iterable[Value]) -> set[_Chain]:
        """The chains that values come from."""
        found = set[_Chain]()
        for value in values:
            found |= self._after.get(value, frozenset())
            if value in self._home:
                found.add(self._home[value])
        return {c for c in found if c.section == self._section}

    def _chain(self, operation: Operation) -> _Chain | None:
        """The chain that an operation is to be part of."""
        if not operation.results:
            return None
        own = self._reduced(operation)
        for chain in self._near(operation, own):
            terms = self._terms(operation, chain.space)
            if terms is not None and self._joins(terms, chain):
                return chain
        shape = _shape(operation.results[0])
        kept = self._spaces.get(shape)
        space = own or (None if kept is None else (shape, kept[0]))
        terms = None if space is None else self._terms(operation, space)
        if space is None or terms is None:
            return None
        if self._count == tuning().row_chains:
            self._next_section()
        self._count += 1
        new = _Chain(space, self._section)
        return new if self._joins(terms, new) else None

    def _near(self, operation: Operation, own: _Space | None) -> list[_Chain]:
        """Chains that give or take an operand of an operation, the best first."""
        values = [self._root(v) for v in operation.operands]
        homes = [self._home[v].whole() for v in values if v in self._home]
        shapes = [own[0]] if own else [_shape(operation.results[0])]
        spaces = [own] if own else [(s, k) for s in shapes for k in self._spaces.get(s, ())]
        readers = [self._readers[s, v].whole() for s in spaces for v in values if (s, v) in self._readers]
        near = [*sorted(dict.fromkeys(homes), key=lambda c: -c.members[-1]), *readers]
        return [c for c in dict.fromkeys(near) if c.section == self._section and (own is None or own == c.space)]

    def _joins(self, terms: Sequence[_Term], chain: _Chain) -> bool:
        """Make a chain take these operands, if it can: others that give them become part of it where they can."""
        if len(chain.members) > tuning().row_longest:
            return False
        needs = set[_Chain]()
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

    def _merged(self, other: _Chain, chain: _Chain) -> bool:
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

    # -- the new region ------------------------------------------------------------------------------------------------

    def _joined(self) -> list[Operation]:
        """The operations, with programs in the place of chains that are worth it."""
        chains = [c for c in dict.fromkeys(c.whole() for c in self._home.values()) if self._pays(c)]
        users: dict[Value, list[int]] = {}  # None of those in the same chain
        chain_at = {place: chain for chain in chains for place in chain.members}
        for place, operation in enumerate(self._operations):
            chain = chain_at.get(place)
            for value in self._used(operation, chain is not None):
                if chain is None or self._home.get(value) is None or self._home[value].whole() is not chain:
                    users.setdefault(value, []).append(place)
        needed = set(self._region.returns)
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
                if v in self._region.returns or any(u not in inside and u not in gone for u in users.get(v, ()))
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

    def _pays(self, chain: _Chain) -> bool:
        """Whether a chain is worth a program: elements are reduced, and taken at least twice."""
        shape, kept = chain.space
        now, columns = tuning(), math.prod(shape[kept:])
        if not (columns >= now.fast_short and math.prod(shape) >= now.row_few):
            return False
        members = [self._operations[i] for i in chain.members]
        folds = [o for o in members if self._reduced(o) is not None]
        full = [o for o in members if o not in folds and _shape(o.results[0]) == shape]
        # A single operation of numpy takes no longer by itself.
        groups = [o for o in (*folds, *full) if o.name == GROUP]
        return bool(folds) and len(folds) + len(full) > 1 and len(folds) + len(full) + len(groups) > 2

    def _used(self, operation: Operation, is_member: bool) -> list[Value]:
        """The values that an operation takes; of a member of a chain their sources."""
        values = [*operation.operands, *(v for r in operation.regions for v in captures(r))]
        return [self._root(v) if is_member else v for v in values]

    def _ordered(self, chain_at: Mapping[int, _Chain], made: Mapping[int, Operation]) -> list[Operation]:
        """Operations and programs, each after what it takes."""
        units: list[Operation] = []
        for place, operation in enumerate(self._operations):
            if place not in chain_at:
                units.append(operation)
            elif place in made:
                units.append(made[place])
        needed = set(self._region.returns)
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

    def _program(self, chain: _Chain, outputs: Sequence[Value]) -> Operation | None:
        shape, kept = chain.space
        maker, names, operands = Maker(shape, kept, self._has_tables), dict[Value, Name](), dict[Value, int]()
        leaves: dict[_Term, Name] = {}
        places: list[int] = []

        def name(value: Value, axes: Axes) -> Name:
            value, axes = term = self._source(value, axes)
            if value in names:
                return names[value]
            if term not in leaves:
                leaves[term] = maker.leaf(Leaf(value.type, axes))  # type: ignore[arg-type]
                places.append(operands.setdefault(value, len(operands)))
            return leaves[term]

        inner: dict[Operation, None] = {}
        origins: dict[Operation, None] = {}
        spreads = {o.results[0]: o for o in self._operations if o.name == SPREAD}
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
        elif self._reduced(operation) is not None:
            results = [name(operation.operands[0], identity(operation.operands[0]))]
        else:
            names = []
            for value in operation.operands:
                number = self._number(value)
                if number is None:
                    names.append(name(value, identity(value)))
                else:
                    names.append(maker.constant(Constant.of(number, element_of(value))))
            types = tuple([any_size(v) for v in (*operation.operands, *operation.results)])
            return [maker.step(Step(operation.name, Attributes(operation.attributes), (), types), names)]
        reduction, _ = self._reduction(operation)
        if reduction is None:
            return results
        start = self._number(operation.operands[-1])
        assert start is not None
        return [maker.fold(reduction.name, results[0], Constant.of(start, reduction.element))]


def _with_inner(operation: Operation, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> Operation:
    regions = tuple([find_rows(r, constants, speed, policy) for r in operation.regions])
    if all(a is b for a, b in zip(regions, operation.regions, strict=True)):
        return operation
    return dataclasses.replace(operation, regions=regions, origin=operation.origin or operation)


def _space(shape: Shape, dimensions: Sequence[int]) -> _Space | None:
    """The rows that a reduction of some dimensions gives a number for each; None where these are not the last."""
    kept = len(shape) - len(dimensions)
    return (shape, kept) if kept > 0 and [*sorted(dimensions)] == [*range(kept, len(shape))] else None


def _fits(shape: Shape, space: _Space) -> bool:
    """Whether values of a shape lie along all of a space, or are one for each row."""
    whole, kept = space
    return shape == whole or (shape[:kept] == whole[:kept] and all(n == 1 for n in shape[kept:]))


def _shape(value: Value) -> Shape:
    return value.type.shape if isinstance(value.type, TensorType) and value.type.is_static else ()  # type: ignore[return-value]


def _is_plain(operation: Operation) -> bool:
    """Whether an operation that is in no group is one that could be."""
    if operation.name == UNRANK:
        return True
    record = lookup(operation.name)
    if record is None or not _shape(operation.results[0]) or spread_of(operation) is not None:
        return False
    return is_fusible(operation, record) and record.takes(v.type for v in operation.operands)


def _is_pure(operation: Operation) -> bool:
    """Whether others can be moved across an operation."""
    if operation.name in (GROUP, RANK, UNRANK, SPREAD, PACK, UNPACK, ROWS):
        return True
    record = lookup(operation.name)
    if record is None or not record.is_pure or record.facts.is_call or not operation.results:
        return False
    return all(_is_pure(inner) for region in operation.regions for inner in region.operations)


def _origins(operation: Operation) -> Iterator[Operation]:
    if "origins" in operation.attributes:
        for origin in operation.attributes["origins"]:
            yield origin.operation
            yield from (o.operation for o in origin.inside)
    yield operation.origin or operation
