"""The pass that fuses elementwise operations: each is deferred until something needs a value of its group.

The rule. A value that depends on 16 bits in all (one or two inputs of 8 bits, whatever lies between: constants, wider
types, comparisons, broadcasts of either) is one lookup in a table. Where more inputs meet, those values on the way that
have 8 bits are computed first, each by its table. What is left depends on wider inputs and runs block by block in the
cache. Where all inputs but one of 8 bits stay the same along rows, or down columns, there is a table for each of these.
A value needed twice is computed twice if that is cheap. Nothing is computed that nothing needs.

Measured with numpy alone on 10**6 elements of f8E4M3FNUZ, unfused and fused, in ms: gelu 10.4 and 0.25, silu(a) * b
3.6 and 0.8, to f32 times a scale 0.7 and 0.4. Reductions with what feeds them, against one after the other: softmax
1.2 times as fast, attention 1.1, quantize 1.04.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.engine.blocks import block
from ....ops.engine.compiled import is_available
from ....ops.engine.speed import Speed, tuning
from ....ops.policy import Policy
from ....ops.registry import lookup
from ....ops.types import ELEMENT_TYPES, Kind, TensorType
from ...program import Operation, Region, Value
from ..group import (
    FUNCTION_COST,
    GROUP,
    LOOKUP_COST,
    RANK,
    SPREAD,
    UNRANK,
    Constant,
    Group,
    Origin,
    Ranked,
    Reduction,
    cost_of,
    is_slow,
)
from ..leaf import MOST_BITS, Axes, Shape, width
from ..reductions import folding_of, reduction_of
from ..uses import captures, uses_of
from .fusible import (
    Root,
    Uniform,
    along,
    bits_of,
    element_of,
    elements_of,
    identity,
    is_fusible,
    shape_of,
    spread_of,
)
from .grouping import Builder, Node
from .rewriting import with_operations, with_regions
from .row_tables import has_row_tables


def fuse(region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> Region:
    """A region, valid and with its constants known, in which groups stand in the place of elementwise operations.

    The operations that it puts in: `GROUP`, with a `Group`, its origins and perhaps a `Reduction` as attributes, takes
    the leaves, and of a reduction the initial value, and gives the group's outputs; `RANK` and `UNRANK`, with a
    `Ranked`; `SPREAD`, with axes, lays a tensor along others.
    """
    return _Fuser(region, constants, speed, policy).fused()


class _Fuser:
    """The elementwise ops of one region that are deferred."""

    def __init__(self, region: Region, constants: Mapping[Value, Any], speed: Speed, policy: Policy) -> None:
        self._region, self._constants, self._speed, self._policy = region, constants, speed, policy
        self.pending: dict[Value, Node] = {}
        self.nodes: dict[Value, Node] = {}
        self._order: dict[Value, int] = {}  # in which values were deferred
        self.number = Uniform(region, constants).number
        self._is_compiled = speed.compiled and is_available()
        self._uses = uses_of(region)
        self._placed: set[int] = set()  # the ops, by id, that are in the new region
        self._operations: list[Operation] = []

    def fused(self) -> Region:
        for operation in self._region.operations:
            self._take(operation)
        self._need(self._region.returns)
        return with_operations(self._region, self._operations)

    def _take(self, operation: Operation) -> None:
        """Defer an op, fuse it with what is deferred, or leave it as it is."""
        if operation.name == "stablehlo.constant" and operation.results[0] in self._constants:
            self._operations.append(operation)
            return
        if self._defer(operation) or (operation.name == "stablehlo.reduce" and self._reduce(operation)):
            return
        captured = [v for r in operation.regions for v in captures(r) if v not in self._constants]
        self._need([*operation.operands, *captured], operation)
        regions = [fuse(r, self._constants, self._speed, self._policy) for r in operation.regions]
        self._operations.append(with_regions(operation, regions))

    def _defer(self, operation: Operation) -> bool:
        """Defer an op if it can be part of a group."""
        spread = spread_of(operation)
        if spread is None:
            record = lookup(operation.name)
            if record is None or not is_fusible(operation, record):
                return False
            if not record.takes(v.type for v in operation.operands):
                return False  # it runs as its expansion
        (result,), shape = operation.results, shape_of(operation.results[0])
        if not shape:
            return False
        own = 0.0 if spread is not None else cost_of(operation.name, elements_of(operation))
        node = self._node(operation, shape, spread, own)
        if len(node.members) > tuning().fuse_longest:
            self._need(operation.operands)
            node = self._node(operation, shape, spread, own)
        self._put_off(result, node)
        return True

    def _put_off(self, value: Value, node: Node) -> None:
        self.pending[value] = self.nodes[value] = node
        self._order[value] = len(self._order)

    def _need(self, values: Iterable[Value], leaving: Operation | None = None) -> None:
        """Put in what computes values; `leaving` is the op that needs them, and comes next."""
        if leaving is not None:
            self._placed.add(id(leaving))
        # What is only repeated comes with its source, so that two sources that share operations are one group.
        wanted = [s for v in dict.fromkeys(values) for s in (self._source(v), v) if s in self.pending]
        wanted = list(dict.fromkeys(wanted))
        beside: Callable[[set[Value]], Iterator[Value]] | None = None
        for value in wanted:
            node = self.pending.get(value)
            if node is None:
                continue  # it came with another one
            if node.spread is not None:
                self._put_alone(value, node)
            elif self.is_table(node):
                self._put_table([v for v in wanted if self._is_like(v, node)], node)
            else:
                beside = beside or self._beside(wanted)
                self._put_wide(value, node, beside)

    # -- reductions ----------------------------------------------------------------------------------------------------

    def _reduce(self, operation: Operation) -> bool:
        """Put in a reduction together with the group that gives what it reduces, if that is deferred."""
        value, init = operation.operands[0], operation.operands[-1]
        node = self.pending.get(value)
        if node is None or node.spread is not None or len(operation.operands) != 2 or not self._speed.blocks:
            return False
        reduction = reduction_of(operation)
        least = min(tuning().fuse_many, tuning().fuse_many_compiled) if self._is_compiled else tuning().fuse_many
        if reduction is None or reduction.element.bits < 16 or math.prod(node.shape) < least:
            return False
        folding = folding_of(reduction, node.shape, self._policy)
        if folding is None:
            return False
        start = self.number(init)
        if folding.largest is not None and start is not None and self._rank(operation, reduction, node, start):
            return True
        if not self.is_table(node) and not self._is_cheap(node) and self._is_used_after(value, {id(operation)}):
            return False
        self._need([init], operation)
        if not self.is_table(node) and not self._is_compiled:
            self._need(self._costly_members(value, operation))
        builder = Builder(self, node.shape, node.roots if self.is_table(node) else None)
        group, origins = builder.finish([builder.value(value, identity(value))])
        leaves = [v for v, _ in builder.roots]
        self._need(leaves)
        self._put_group([*leaves, init], operation.results, group, origins, operation, reduction)
        return True

    def _costly_members(self, value: Value, reduction: Operation) -> list[Value]:
        """What goes into a value that is reduced, is needed later too, and costs much to be computed twice."""
        members = self._members(value)
        inside = {id(reduction), *(id(self.pending[m].operation) for m in members)}
        costly = [m for m in members if m is not value and self.pending[m].cost > tuning().again_cost_reduced]
        kept = [m for m in costly if not self.is_table(self.pending[m]) and self._is_used_after(m, inside)]
        return sorted(kept, key=self._order.__getitem__)

    def _rank(self, operation: Operation, reduction: Reduction, node: Node, start: np.ndarray) -> bool:
        """The largest or smallest of what depends on one leaf of eight bits is a table of the leaf's own extreme."""
        roots, value = node.roots, operation.operands[0]
        if roots is None or len(roots) != 1 or not self._speed.tables:
            return False
        leaf, axes = roots[0]
        if leaf.type.element.dtype.itemsize > 1 or (leaf.type.shape, axes) != (node.shape, identity(leaf)):  # type: ignore[union-attr]
            return False
        (result,) = operation.results
        builder = Builder(self, node.shape, roots)
        group, origins = builder.finish([builder.value(value, identity(value))])
        ranked = Ranked(group.function, reduction.name, Constant.of(start, reduction.element))
        rank, origin = Value(TensorType(shape_of(result), ELEMENT_TYPES["ui8"])), operation.origin or operation
        self._need([leaf], operation)
        attributes = {"ranked": ranked, "dimensions": reduction.dimensions, "origins": origins}
        self._operations.append(Operation(RANK, (leaf,), (rank,), attributes, (), operation.location, origin))
        unrank = Operation(UNRANK, (rank,), (result,), {"ranked": ranked}, (), operation.location, origin)
        self._uses.setdefault(rank, []).append(unrank)
        if shape_of(result):
            self._put_off(result, self._node(unrank, shape_of(result), None, LOOKUP_COST))
        else:
            self._operations.append(unrank)
        return True

    # -- what a value depends on ---------------------------------------------------------------------------------------

    def _node(self, operation: Operation, shape: Shape, spread: Axes | None, own: float) -> Node:
        operands = operation.operands
        if spread is not None:
            roots = self._roots(operands[0])
            if roots is not None:
                roots = tuple(dict.fromkeys((v, along(axes, spread)) for v, axes in roots))
        else:
            roots = self._joined(operands)
        node = Node(operation, shape, spread, roots, own)
        inner = [n for v in operands if (n := self.pending.get(v)) is not None]
        node.members = frozenset(operation.results).union(*(n.members for n in inner))
        nodes = [node, *(self.pending[v] for v in node.members if v in self.pending)]
        node.cost, node.count = sum(n.own for n in nodes), sum(n.own > 0 for n in nodes)
        return node

    def _roots(self, value: Value) -> tuple[Root, ...] | None:
        """The roots of an operand; None where they have too many bits."""
        if self.number(value) is not None:
            return ()
        node = self.pending.get(value)
        if node is not None:
            return node.roots
        t = value.type
        assert isinstance(t, TensorType)
        return ((value, identity(value)),) if width(t.element) else None

    def _joined(self, operands: Sequence[Value]) -> tuple[Root, ...] | None:
        """The roots of an op on operands; as few of these as can be are computed first, to be roots themselves."""
        choices = []
        for v in operands:
            roots = self._roots(v)
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
        if best is None or not best[1]:
            return None
        if best[0] and self._speed.tables and self._speed.blocks and has_row_tables(operands, self):
            return None
        self._need(best[0])
        return best[1]

    def _is_test(self, value: Value) -> bool:
        """Whether a boolean depends on too many bits for a table: what tests are joined to is in a group with them."""
        return element_of(value).kind is Kind.BOOL and self._roots(value) is None

    # -- groups --------------------------------------------------------------------------------------------------------

    def is_table(self, node: Node) -> bool:
        if not self._speed.tables or node.roots is None:
            return False
        if node.count == 1 and math.prod(node.shape) >= tuning().fuse_many:
            # Compiled code computes it among others as quickly.
            return not self._is_compiled and is_slow(elements_of(node.operation))
        return node.count > 1 and node.cost > LOOKUP_COST

    def _is_like(self, value: Value, node: Node) -> bool:
        other = self.pending.get(value)
        return (
            other is not None
            and other.spread is None
            and self.is_table(other)
            and (other.shape, other.roots) == (node.shape, node.roots)
        )

    def _put_alone(self, value: Value, node: Node) -> None:
        operation = node.operation
        if node.spread is not None:
            source, axes = self._source(value), node.spread
            inner = self.pending.get(operation.operands[0])
            while inner is not None and inner.spread is not None:
                axes = along(inner.spread, axes)
                inner = self.pending.get(inner.operation.operands[0])
            self._need([source])
            origin, attributes = operation.origin or operation, {"axes": axes}
            self._operations.append(Operation(SPREAD, (source,), (value,), attributes, (), operation.location, origin))
        else:
            self._need(operation.operands)
            self._operations.append(operation)
        self._done([value])

    def _source(self, value: Value) -> Value:
        """What a value that is only repeated or laid along other dimensions comes from; others are their own."""
        while (node := self.pending.get(value)) is not None and node.spread is not None:
            value = node.operation.operands[0]
        return value

    def _done(self, values: Iterable[Value]) -> None:
        for value in values:
            self._placed.add(id(self.pending.pop(value).operation))

    def _put_table(self, values: list[Value], node: Node) -> None:
        assert node.roots is not None
        builder = Builder(self, node.shape, node.roots)
        group, origins = builder.finish([builder.value(v, identity(v)) for v in values])
        self._put_group([v for v, _ in node.roots], values, group, origins, self.pending[values[-1]].operation)
        self._done(values)

    def _put_group(
        self,
        operands: Sequence[Value],
        values: Sequence[Value],
        group: Group,
        origins: tuple[Origin, ...],
        last: Operation,
        reduction: Reduction | None = None,
    ) -> None:
        attributes = {"group": group, "origins": origins, "reduction": reduction}
        origin = last.origin or last
        self._operations.append(Operation(GROUP, tuple(operands), tuple(values), attributes, (), last.location, origin))

    def _beside(self, wanted: Sequence[Value]) -> Callable[[set[Value]], Iterator[Value]]:
        """A function that gives the values that may be computed together with what some members compute, in order.

        They share an operation or an operand with these. Members may be added while the values are taken.
        """
        places: dict[Value, list[int]] = {}
        for i, value in enumerate(wanted if len(wanted) > 1 else ()):
            node = self.pending.get(value)
            if node is not None and node.spread is None and not self.is_table(node):
                for shared in self._touched(self._members(value)):
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

    def _put_wide(self, value: Value, node: Node, beside: Callable[[set[Value]], Iterator[Value]]) -> None:
        members = self._members(value) if self._speed.blocks else set()
        if len(members) < 2 and not self._pays_alone(node):
            return self._put_alone(value, node)
        outputs = [value]
        for other in beside(members):
            if other != value and self._joins(other, node, members):
                outputs.append(other)
                members |= self._members(other)
        inside = {id(self.pending[m].operation) for m in members}
        outputs += [v for v in members if v not in outputs and self._is_kept(v, inside)]
        outputs.sort(key=self._order.__getitem__)
        builder = Builder(self, node.shape, None)
        group, origins = builder.finish([builder.value(v, identity(v)) for v in outputs])
        leaves = [v for v, _ in builder.roots]
        self._need(leaves)
        self._put_group(leaves, outputs, group, origins, self.pending[outputs[-1]].operation)
        return self._done(outputs)

    def _pays_alone(self, node: Node) -> bool:
        """Whether one operation on many elements is a group: a function of f32, or an operation on f16 or bf16."""
        size, tuned = math.prod(node.shape), tuning()
        if not self._speed.blocks or node.spread is not None:
            return False
        operation, elements = node.operation, elements_of(node.operation)
        if size <= block(size) and not (self._is_compiled and size >= tuned.fast_from):
            # What is repeated is converted once, before that.
            is_repeated = any(
                (n := self.pending.get(v)) is not None and n.spread is not None for v in operation.operands
            )
            return is_repeated and elements[-1].is_float and elements[-1].bits == 16
        if node.own >= FUNCTION_COST:
            return True
        # Functions of one number of 16 bits are lookups, and numpy converts at the pace of memory.
        is_quick = len(operation.operands) == 1 and (elements[0] == elements[-1] or not self._is_compiled)
        return not is_quick and any(e.is_float and e.bits == 16 for e in elements)

    def _members(self, value: Value) -> set[Value]:
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

    def _joins(self, value: Value, node: Node, members: set[Value]) -> bool:
        """Whether another value that is needed too is to come from the same group."""
        other = self.pending.get(value)
        if other is None or other.spread is not None or other.shape != node.shape or self.is_table(other):
            return False
        used = {v for m in members for v in self.pending[m].operation.operands}
        mine = self._members(value)
        return bool(mine & members) or any(v in used for m in mine for v in self.pending[m].operation.operands)

    def _is_kept(self, value: Value, inside: set[int]) -> bool:
        """Whether a value of the group of some ops, given by `id`, is needed later and not to be computed anew then."""
        node = self.pending[value]
        if self._is_cheap(node) or self.is_table(node):
            return False
        return self._is_used_after(value, inside)

    def _is_cheap(self, node: Node) -> bool:
        """Whether computing a value anew costs less than reading it from memory."""
        t = node.operation.results[0].type
        assert isinstance(t, TensorType)
        tuned = tuning()
        limit = tuned.again_cost if t.nbytes < tuned.again_large_bytes else tuned.again_cost_large
        if self._is_compiled and t.size >= tuned.fuse_many:
            limit = max(limit, tuned.again_cost_compiled)
        return node.cost <= limit

    def _is_used_after(self, value: Value, inside: set[int]) -> bool:
        """Whether a value is needed later, by others than some ops, which are given by `id`."""
        seen, stack = inside.copy(), list(self._uses.get(value, ()))
        while stack:
            use = stack.pop()
            if use is None:
                return True  # it is returned
            if id(use) in seen:
                continue
            seen.add(id(use))
            if use.results and use.results[0] in self.pending:
                stack += self._uses.get(use.results[0], ())
            elif id(use) not in self._placed:
                return True  # it is still to come
        return False
