"""The function of one group, and the kernel that runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ...ops.engine.fast.recipes import Lookup, Recipe, Step
from ...ops.policy import Policy
from ...ops.reductions.reduce import Folding
from ...ops.types import ElementType, TensorType
from ..program import Value
from .fusible import Axes, Node, PutOff, Root, along, element_of, frozen, identity, shape_of
from .grouped.blocks import by_blocks
from .grouped.columns import by_columns, once_settled, trailing_columns
from .grouped.fast import fold_or_compiled, or_compiled
from .grouped.folds import RankedReduction, by_folds
from .grouped.leaf import Compute, Leaf, Shape
from .grouped.rows import by_rows, leading_rows
from .grouped.tables import Tables, by_laid_table, by_table, shared_tables
from .writer import Writer


class Group:
    """The function of a group in the making.

    Where all leaves have the group's shape or are repeated along it, results are written over what nothing needs any
    more: on 10**6 elements quantize and layer norm take a fifth less for it.
    """

    def __init__(self, fusion: PutOff, shape: Shape, roots: tuple[Root, ...] | None) -> None:
        self._fusion, self._shape, self._is_table = fusion, shape, roots is not None
        self._writer = Writer({})
        self._names: dict[Root, str] = {}
        self._key: list[Hashable] = []
        self._constants: dict[str, tuple[np.ndarray, ElementType]] = {}
        self._steps: list[Step | Lookup] = []
        self._whole: set[str] = set()  # the names of what has the group's shape
        self._written: set[str] = set()  # and is an array that an op here has made
        self.roots: list[Root] = []
        for root in roots or ():
            self._add(root)

    def _add(self, root: Root) -> str:
        self.roots.append(root)
        name = self._names[root] = self._writer.define(root[0])
        if tuple(self._leaf(root).spread(len(self._shape))) == self._shape:
            self._whole.add(name)
        return name

    def _leaf(self, root: Root) -> Leaf:
        return Leaf(root[0].type, root[1])  # type: ignore[arg-type]

    def value(self, value: Value, axes: Axes) -> str:
        """The name of a value, laid along some of the group's dimensions."""
        root = value, axes
        if root in self._names:
            return self._names[root]
        scalar = self._fusion.scalar(value)
        if scalar is not None:
            name = self._names[root] = self._writer.thing(scalar)
            self._key.append((name, str(scalar.dtype), scalar.tobytes()))
            self._constants[name] = scalar, element_of(value)
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
        kernel = node.kernel
        over = [name for name in names if kernel.has_out and name in self._written]
        name = self._names[root] = self._writer.apply(kernel.call, operation, names, over)
        if not self._whole.isdisjoint(names):
            self._whole.add(name)
            if kernel.has_out:
                self._written.add(name)
        types = tuple(map(element_of, (*operation.operands, *operation.results)))
        self._steps.append(
            Step(operation.name, operation.attributes, names, name, types, kernel.of_bfloat16, kernel.facts.compiled)
        )
        self._key.append((operation.name, frozen(operation.attributes), tuple(names), name, types))
        return name

    def _table(self, root: Root, node: Node) -> str:
        """What hangs on few bits within a group that does not, by its own table."""
        assert node.roots is not None
        part = Group(self._fusion, self._shape, node.roots)
        names = [part.value(*root)]
        tables, compute, _ = part._tables(names)
        operands = [self._names[r] if r in self._names else self._add(r) for r in node.roots]
        name = self._names[root] = self._writer.apply(by_laid_table(tables, compute), node.operation, operands)
        self._steps.append(Lookup(tables.entries, tables.widths, operands, name, element_of(root[0])))
        return name

    def _leaves(self) -> list[Leaf]:
        return list(map(self._leaf, self.roots))

    def _compute(self, names: Sequence[str], label: str, writes_over: bool = False) -> Compute:
        parameters = [self._names[root] for root in self.roots]
        return self._writer.function(parameters, names, label, self._fusion.sources, writes_over)

    def _tables(self, names: Sequence[str]) -> tuple[Tables, Compute, list[Leaf]]:
        compute, leaves = self._compute(names, "table"), self._leaves()
        elements = tuple(leaf.type.element for leaf in leaves)
        return (
            shared_tables((self._fusion.settings, elements, tuple(names), *self._key), compute, elements),
            compute,
            leaves,
        )

    def _recipe(self, values: Sequence[Value], names: Sequence[str]) -> Recipe | None:
        """What the group does, for those who run it in their own way; None where they are not asked."""
        if not self._fusion.speed.compiled or not isinstance(self._fusion.settings, Policy):
            return None
        leaves = [(self._names[root], element_of(root[0])) for root in self.roots]
        outputs = [(name, element_of(v)) for name, v in zip(names, values, strict=True)]
        return Recipe(leaves, self._constants, self._steps, outputs, self._fusion.settings)

    def table_kernel(self, values: Sequence[Value], names: Sequence[str]) -> Any:
        """The kernel by table."""
        tables, compute, leaves = self._tables(names)
        wide = by_blocks(compute, leaves, self._shape, [v.type for v in values])  # type: ignore[misc]
        return by_table(tables, leaves, self._shape, wide, len(values) == 1)

    def fold_kernel(self, values: Sequence[Value], names: Sequence[str], found: Folding) -> Any:
        """The kernel of a reduction of the group's only value."""
        if not self._is_table:
            compute, leaves = self._compute(names, "reduction", True), self._leaves()
            kernel = by_folds(compute, leaves, self._shape, found)
            return fold_or_compiled(kernel, self._recipe(values, names), compute, leaves, self._shape, found)
        tables, compute, leaves = self._tables(names)
        look_up, recipe = by_laid_table(tables, compute), self._recipe(values, names)
        if recipe is not None:
            operands = [name for name, _ in recipe.leaves]
            steps = [Lookup(tables.entries, tables.widths, operands, names[0], element_of(values[0]))]
            recipe = dataclasses.replace(recipe, constants={}, steps=steps)

        def looked_up(*parts: np.ndarray) -> tuple[np.ndarray]:
            return (look_up(*parts),)

        kernel = by_folds(looked_up, leaves, self._shape, found)
        return fold_or_compiled(kernel, recipe, looked_up, leaves, self._shape, found)

    def ranked_reduction(
        self, names: Sequence[str], found: Folding, start: np.ndarray
    ) -> tuple[RankedReduction, Hashable]:
        compute, leaves = self._compute(names, "ranks"), self._leaves()
        ranked = RankedReduction(compute, leaves[0].type, found, start)
        return ranked, (found.largest, start.tobytes(), tuple(names), tuple(self._key))

    def wide_kernel(self, values: Sequence[Value], names: Sequence[str]) -> Any:
        leaves = self._leaves()
        results: list[TensorType] = [v.type for v in values]  # type: ignore[misc]
        rows = leading_rows(leaves, self._shape) if self._fusion.speed.tables else None
        columns = trailing_columns(leaves, self._shape) if self._fusion.speed.tables else None
        compute = self._compute(names, "blocks", rows is None and columns is None)
        if rows is not None:
            kernel = by_rows(compute, leaves, self._shape, results, *rows)
            if rows[1] == 0:  # it is one table
                return kernel
        elif columns is not None:
            kernel = by_columns(compute, leaves, self._shape, results, *columns)
        else:
            kernel = by_blocks(compute, leaves, self._shape, results)
        compiled = or_compiled(kernel, self._recipe(values, names), compute, leaves, self._shape, results)
        return compiled if columns is None or compiled is kernel else once_settled(kernel, compiled, columns[0])
