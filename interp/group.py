"""The function of one group, and the kernel that runs it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol

import numpy as np

from ..ops.reduce import Folding
from ..ops.speed import Speed
from ..ops.types import TensorType
from .fusible import Axes, Node, Root, along, frozen, identity, shape_of
from .grouped.blocks import by_blocks
from .grouped.folds import RankedReduction, by_folds
from .grouped.leaf import Compute, Leaf, Shape
from .grouped.rows import by_rows, leading_rows
from .grouped.tables import by_laid_table, by_table, shared_tables
from .program import Value
from .writer import Sources, Writer


class PutOff(Protocol):
    """What a group asks about the ops that are put off."""

    speed: Speed
    settings: Hashable
    sources: Sources
    pending: dict[Value, Node]
    nodes: dict[Value, Node]

    def scalar(self, value: Value) -> np.ndarray | None: ...
    def is_table(self, node: Node) -> bool: ...


class Group:
    """The function of a group in the making."""

    def __init__(self, fusion: PutOff, shape: Shape, roots: tuple[Root, ...] | None) -> None:
        self._fusion, self._shape, self._is_table = fusion, shape, roots is not None
        self._writer = Writer({})
        self._names: dict[Root, str] = {}
        self._key: list[Hashable] = []
        self.roots: list[Root] = []
        for root in roots or ():
            self._add(root)

    def _add(self, root: Root) -> str:
        self.roots.append(root)
        name = self._names[root] = self._writer.define(root[0])
        return name

    def value(self, value: Value, axes: Axes) -> str:
        """The name of a value, laid along some of the group's dimensions."""
        root = value, axes
        if root in self._names:
            return self._names[root]
        scalar = self._fusion.scalar(value)
        if scalar is not None:
            name = self._names[root] = self._writer.thing(scalar)
            self._key.append((name, str(scalar.dtype), scalar.tobytes()))
            return name
        # What a table is made of may have been written since its roots were found.
        node = (self._fusion.nodes if self._is_table else self._fusion.pending).get(value)
        if node is None:
            return self._add(root)
        if node.spread is not None:
            name = self._names[root] = self.value(node.operation.operands[0], along(node.spread, axes))
            return name
        if not self._is_table:
            if node.shape != self._shape or axes != identity(value):
                return self._add(root)  # it is smaller, and computed first
            if self._fusion.is_table(node):
                return self._table(root, node)
        return self._apply(root, node)

    def _apply(self, root: Root, node: Node) -> str:
        operation, axes = node.operation, root[1]
        names = [self.value(v, axes if shape_of(v) else ()) for v in operation.operands]
        name = self._names[root] = self._writer.apply(node.kernel, operation, names)
        types = tuple(v.type.element for v in (*operation.operands, *operation.results))  # type: ignore[union-attr]
        self._key.append((operation.name, frozen(operation.attributes), tuple(names), name, types))
        return name

    def _table(self, root: Root, node: Node) -> str:
        """What hangs on few bits within a group that does not, by its own table."""
        assert node.roots is not None
        part = Group(self._fusion, self._shape, node.roots)
        names = [part.value(*root)]
        kernel = part.table_kernel([root[0]], names, is_laid=True)
        operands = [self._names[r] if r in self._names else self._add(r) for r in node.roots]
        name = self._names[root] = self._writer.apply(kernel, node.operation, operands)
        return name

    def _compute(self, names: Sequence[str], label: str) -> tuple[Compute, list[Leaf]]:
        parameters = [self._names[root] for root in self.roots]
        compute = self._writer.function(parameters, names, label, self._fusion.sources)
        return compute, [Leaf(v.type, axes) for v, axes in self.roots]  # type: ignore[arg-type]

    def table_kernel(self, values: Sequence[Value], names: Sequence[str], is_laid: bool = False) -> Any:
        """The kernel by table; `is_laid` says that the leaves will be parts of them, laid along the group's shape."""
        compute, leaves = self._compute(names, "table")
        elements = tuple(leaf.type.element for leaf in leaves)
        tables = shared_tables((self._fusion.settings, elements, tuple(names), *self._key), compute, elements)
        if is_laid:
            return by_laid_table(tables, compute)
        wide = by_blocks(compute, leaves, self._shape, [v.type for v in values])  # type: ignore[misc]
        return by_table(tables, leaves, self._shape, wide)

    def fold_kernel(self, values: Sequence[Value], names: Sequence[str], found: Folding) -> Any:
        """The kernel of a reduction of the group's only value."""
        if self._is_table:
            kernel = self.table_kernel(values, names, is_laid=True)
            leaves = [Leaf(v.type, axes) for v, axes in self.roots]  # type: ignore[arg-type]
            return by_folds(lambda *parts: (kernel(*parts),), leaves, self._shape, found)
        return by_folds(*self._compute(names, "reduction"), self._shape, found)

    def ranked_reduction(
        self, names: Sequence[str], found: Folding, start: np.ndarray
    ) -> tuple[RankedReduction, Hashable]:
        compute, leaves = self._compute(names, "ranks")
        ranked = RankedReduction(compute, leaves[0].type, found, start)
        return ranked, (found.largest, start.tobytes(), tuple(names), tuple(self._key))

    def wide_kernel(self, values: Sequence[Value], names: Sequence[str]) -> Any:
        compute, leaves = self._compute(names, "blocks")
        results: list[TensorType] = [v.type for v in values]  # type: ignore[misc]
        rows = leading_rows(leaves, self._shape) if self._fusion.speed.tables else None
        if rows is not None:
            return by_rows(compute, leaves, self._shape, results, *rows)
        return by_blocks(compute, leaves, self._shape, results)
