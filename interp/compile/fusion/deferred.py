"""The elementwise operations that are deferred: what their values depend on, what they cost, where they are needed."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ....ops.engine.blocks import block
from ....ops.engine.compiled import is_available
from ....ops.engine.speed import Speed, tuning
from ....ops.op import traits_of
from ....ops.types import Kind, TensorType
from ...program import Operation, Region, Value
from ..group import FUNCTION_COST, LOOKUP_COST, is_slow
from ..leaf import MOST_BITS, Axes, Shape, width
from ..passes.fusible import Root, Uniform, bits_of, element_of, elements_of, identity, shape_of
from ..uses import uses_of


@dataclasses.dataclass(eq=False, slots=True)
class Node:
    """An op that is deferred: it runs where its value is needed, in one group with others."""

    operation: Operation
    shape: Shape
    spread: Axes | None  #: for each dimension of the operand the one of the result, of an op that does only that
    roots: tuple[Root, ...] | None  #: None where they have too many bits for a table
    own: float  #: what an element costs, without what it is computed from
    members: frozenset[Value] = frozenset()  #: all that is deferred and that it is computed from, itself among them
    cost: float = 0.0  #: of an element, computed from the roots
    count: int = 0  #: of ops that cost something


class Deferred:
    """The ops of one region that are deferred, by the value that each gives."""

    def __init__(self, region: Region, constants: Mapping[Value, Any], speed: Speed) -> None:
        self.pending: dict[Value, Node] = {}
        self.nodes: dict[Value, Node] = {}  #: these, and those that are in a group by now
        self.uses = uses_of(region)
        #: The only element of a constant that has but one, by its value.
        self.number = Uniform(region, constants).number
        self.is_compiled = speed.compiled and is_available()
        self._speed = speed
        self._order: dict[Value, int] = {}  # in which values were deferred
        self._placed: set[int] = set()  # the ops, by id, that are in the new region

    def put_off(self, value: Value, node: Node) -> None:
        """Defer an op."""
        self.pending[value] = self.nodes[value] = node
        self._order[value] = len(self._order)

    def put_in(self, operation: Operation) -> None:
        """Say that an op is in the new region."""
        self._placed.add(id(operation))

    def done(self, values: Iterable[Value]) -> None:
        """Say that values are computed."""
        for value in values:
            self.put_in(self.pending.pop(value).operation)

    def in_order(self, values: Iterable[Value]) -> list[Value]:
        """The values in the order in which they were deferred."""
        return sorted(values, key=self._order.__getitem__)

    # -- what a value depends on ---------------------------------------------------------------------------------------

    def node(
        self, operation: Operation, shape: Shape, spread: Axes | None, roots: tuple[Root, ...] | None, own: float
    ) -> Node:
        """The node of an op; `own` is what an element costs, without what it is computed from."""
        node = Node(operation, shape, spread, roots, own)
        inner = [n for v in operation.operands if (n := self.pending.get(v)) is not None]
        node.members = frozenset(operation.results).union(*(n.members for n in inner))
        nodes = [node, *(self.pending[v] for v in node.members if v in self.pending)]
        node.cost, node.count = sum(n.own for n in nodes), sum(n.own > 0 for n in nodes)
        return node

    def roots(self, value: Value) -> tuple[Root, ...] | None:
        """The roots of an operand; None where they have too many bits."""
        if self.number(value) is not None:
            return ()
        node = self.pending.get(value)
        if node is not None:
            return node.roots
        t = value.type
        assert isinstance(t, TensorType)
        return ((value, identity(value)),) if width(t.element) else None

    def joined(self, operands: Sequence[Value]) -> tuple[list[Value], tuple[Root, ...]] | None:
        """As few operands as can be that are computed first, to be roots themselves, and the roots of an op then."""
        choices = []
        for v in operands:
            roots = self.roots(v)
            options: list[tuple[tuple[Root, ...], tuple[Value, ...]]] = [] if roots is None else [(roots, ())]
            if v in self.pending and (width(v.type.element) or 99) <= 8 and not self._is_test(v):  # type: ignore[union-attr]
                options.append((((v, identity(v)),), (v,)))
            choices.append(options)
        best: tuple[list[Value], tuple[Root, ...]] | None = None
        for choice in itertools.product(*choices):
            roots = tuple(dict.fromkeys(root for some, _ in choice for root in some))
            first = list(dict.fromkeys(v for _, values in choice for v in values))
            if bits_of(roots) <= MOST_BITS and (best is None or len(first) < len(best[0])):
                best = first, roots
        return None if best is None or not best[1] else best

    def _is_test(self, value: Value) -> bool:
        """Whether a boolean depends on too many bits for a table: what tests are joined to is in a group with them."""
        return element_of(value).kind is Kind.BOOL and self.roots(value) is None

    def is_table(self, node: Node) -> bool:
        """Whether a value is to be looked up in a table."""
        if not self._speed.tables or node.roots is None:
            return False
        if node.count == 1 and math.prod(node.shape) >= tuning().fuse_many:
            # Compiled code computes it among others as quickly.
            return not self.is_compiled and is_slow(elements_of(node.operation))
        return node.count > 1 and node.cost > LOOKUP_COST

    def source(self, value: Value) -> Value:
        """What a value that is only repeated or laid along other dimensions comes from; others are their own."""
        while (node := self.pending.get(value)) is not None and node.spread is not None:
            value = node.operation.operands[0]
        return value

    # -- groups --------------------------------------------------------------------------------------------------------

    def members(self, value: Value) -> set[Value]:
        """What a group computes that gives `value`: all that is deferred and has its shape."""
        members, stack = {value}, [value]
        while stack:
            for v in self.pending[stack.pop()].operation.operands:
                node = self.pending.get(v)
                if node is not None and node.spread is None and v not in members:
                    members.add(v)
                    if not self.is_table(node):
                        stack.append(v)
        return members

    def repeats(self, value: Value) -> bool:
        """Whether a value is computed from tensors that are repeated, none of which is as large as it."""
        operands = {v for m in self.members(value) for v in self.pending[m].operation.operands}
        size = math.prod(self.pending[value].shape)
        sources = [self.source(v) for v in operands - self.members(value) if self.number(v) is None]
        return all(math.prod(shape_of(v)) < size for v in sources)

    def is_like(self, value: Value, node: Node) -> bool:
        """Whether a value is to come from the same table as another one."""
        other = self.pending.get(value)
        return (
            other is not None
            and other.spread is None
            and self.is_table(other)
            and (other.shape, other.roots) == (node.shape, node.roots)
        )

    def joins(self, value: Value, node: Node, members: set[Value]) -> bool:
        """Whether another value that is needed too is to come from the same group."""
        other = self.pending.get(value)
        if other is None or other.spread is not None or other.shape != node.shape or self.is_table(other):
            return False
        used = {v for m in members for v in self.pending[m].operation.operands}
        mine = self.members(value)
        return bool(mine & members) or any(v in used for m in mine for v in self.pending[m].operation.operands)

    def beside(self, wanted: Sequence[Value]) -> Callable[[set[Value]], Iterator[Value]]:
        """A function that gives the values that may be computed together with what some members compute, in order.

        They share an operation or an operand with these. Members may be added while the values are taken.
        """
        places: dict[Value, list[int]] = {}
        for i, value in enumerate(wanted if len(wanted) > 1 else ()):
            node = self.pending.get(value)
            if node is not None and node.spread is None and not self.is_table(node):
                for shared in self._touched(self.members(value)):
                    places.setdefault(shared, []).append(i)

        def beside(members: set[Value]) -> Iterator[Value]:
            seen, found, last = set[Value](), list[int](), -1
            while places:
                for shared in self._touched(members - seen):
                    for i in places.get(shared, ()):
                        heapq.heappush(found, i)
                seen |= members
                while found and found[0] <= last:
                    heapq.heappop(found)
                if not found:
                    return
                last = heapq.heappop(found)
                yield wanted[last]

        return beside

    def _touched(self, members: Iterable[Value]) -> set[Value]:
        """Values that are deferred, and what they are computed from."""
        return {v for m in members for v in (m, *self.pending[m].operation.operands)}

    def is_kept(self, value: Value, inside: set[int]) -> bool:
        """Whether a value of the group of some ops, given by `id`, is needed later and not to be computed anew then."""
        node = self.pending[value]
        if self.is_cheap(node) or self.is_table(node):
            return False
        return self.is_used_after(value, inside)

    def costly_members(self, value: Value, reduction: Operation) -> list[Value]:
        """What goes into a value that is reduced, is needed later too, and costs much to be computed twice."""
        members = self.members(value)
        inside = {id(reduction), *(id(self.pending[m].operation) for m in members)}
        tuned = tuning()
        limit = tuned.again_cost_machine if self.is_compiled else tuned.again_cost_reduced
        costly = [m for m in members if m is not value and self.pending[m].cost > limit]
        kept = [m for m in costly if not self.is_table(self.pending[m]) and self.is_used_after(m, inside)]
        return self.in_order(kept)

    # -- costs ---------------------------------------------------------------------------------------------------------

    def pays_alone(self, node: Node) -> bool:
        """Whether one operation on many elements is a group: a function of f32, of many passes, or on f16 or bf16."""
        size, tuned = math.prod(node.shape), tuning()
        if not self._speed.blocks or node.spread is not None:
            return False
        operation, elements = node.operation, elements_of(node.operation)
        if size <= block(size) and not (self.is_compiled and size >= tuned.fast_from):
            # What is repeated is converted once, before that.
            is_repeated = any(
                (n := self.pending.get(v)) is not None and n.spread is not None for v in operation.operands
            )
            return is_repeated and elements[-1].is_float and elements[-1].bits == 16
        is_long = traits_of(operation.name).many_passes and elements[0].bits >= 32 and size > block(size)
        if node.own >= FUNCTION_COST or is_long:
            return True
        # Functions of one number of 16 bits are lookups, and numpy converts at the pace of memory.
        is_quick = len(operation.operands) == 1 and (elements[0] == elements[-1] or not self.is_compiled)
        return not is_quick and any(e.is_float and e.bits == 16 for e in elements)

    def is_cheap(self, node: Node) -> bool:
        """Whether computing a value anew costs less than reading it from memory."""
        t = node.operation.results[0].type
        assert isinstance(t, TensorType)
        tuned = tuning()
        limit = tuned.again_cost if t.nbytes < tuned.again_large_bytes else tuned.again_cost_large
        if self.is_compiled and t.size >= tuned.fuse_many:
            limit = max(limit, tuned.again_cost_compiled)
        return node.cost <= limit

    def is_used_after(self, value: Value, inside: set[int]) -> bool:
        """Whether a value is needed later, by others than some ops, which are given by `id`."""
        seen, stack = inside.copy(), list(self.uses.get(value, ()))
        while stack:
            use = stack.pop()
            if use is None:
                return True  # it is returned
            if id(use) in seen:
                continue
            seen.add(id(use))
            if use.results and use.results[0] in self.pending:
                stack += self.uses.get(use.results[0], ())
            elif id(use) not in self._placed:
                return True  # it is still to come
        return False
