"""Makes a group of operations that are deferred: numbers its values and finds its leaves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from ....ops.types import TensorType
from ...program import Operation, Value
from ..group import Attributes, Constant, Function, Group, Lookup, Origin, Step
from ..leaf import Axes, Leaf, Shape
from ..passes.fusible import Root, along, element_of, identity, shape_of
from .deferred import Deferred, Node

#: A value of a group in the making: a leaf, a constant or a step, and its place among these.
_Name = tuple[int, int]
_LEAF, _CONSTANT, _STEP = range(3)


class Builder:
    """A group in the making.

    With `roots` it is computed from these alone, as a table is; else from whatever is not deferred, is smaller than
    the group, or is a table of its own.
    """

    def __init__(self, deferred: Deferred, shape: Shape, roots: Sequence[Root] | None) -> None:
        self._deferred, self._shape, self._is_table = deferred, shape, roots is not None
        self._names: dict[Root, _Name] = {}
        self._constants: dict[Constant, _Name] = {}
        self._steps: list[tuple[Step | Lookup, list[_Name]]] = []
        self._origins: list[Origin] = []
        self.roots: list[Root] = []
        for root in roots or ():
            self._add(root)

    def _add(self, root: Root) -> _Name:
        self.roots.append(root)
        name = self._names[root] = _LEAF, len(self.roots) - 1
        return name

    def value(self, value: Value, axes: Axes) -> _Name:
        """The name of a value, laid along some of the group's dimensions."""
        root = value, axes
        if root in self._names:
            return self._names[root]
        number = self._deferred.number(value)
        if number is not None:
            constant = Constant.of(number, element_of(value))
            name = self._names[root] = self._constants.setdefault(constant, (_CONSTANT, len(self._constants)))
            return name
        # What a table is made of may be part of another group since its roots were found.
        node = (self._deferred.nodes if self._is_table else self._deferred.pending).get(value)
        if node is None:
            return self._add(root)
        if node.spread is not None:
            name = self._names[root] = self.value(node.operation.operands[0], along(node.spread, axes))
            return name
        if not self._is_table:
            if node.shape != self._shape or axes != identity(value):
                return self._add(root)  # it is smaller, and computed first
            if self._deferred.is_table(node):
                return self._look_up(root, node)
        return self._apply(root, node)

    def _apply(self, root: Root, node: Node) -> _Name:
        operation, axes = node.operation, root[1]
        names = [self.value(v, axes if shape_of(v) else ()) for v in operation.operands]
        types = tuple([any_size(v) for v in (*operation.operands, *operation.results)])
        step = Step(operation.name, Attributes(operation.attributes), (), types)
        return self._step(root, step, names, Origin(operation.origin or operation))

    def _look_up(self, root: Root, node: Node) -> _Name:
        """What depends on few bits within a group that does not, by its own table."""
        assert node.roots is not None
        part = Builder(self._deferred, self._shape, node.roots)
        group, origins = part.finish([part.value(*root)])
        names = [self._names[r] if r in self._names else self._add(r) for r in node.roots]
        operation = node.operation.origin or node.operation
        return self._step(root, Lookup(group.function, ()), names, Origin(operation, origins))

    def _step(self, root: Root, step: Step | Lookup, names: list[_Name], origin: Origin) -> _Name:
        self._steps.append((step, names))
        self._origins.append(origin)
        name = self._names[root] = _STEP, len(self._steps) - 1
        return name

    def finish(self, outputs: Sequence[_Name]) -> tuple[Group, tuple[Origin, ...]]:
        """The group that gives some values, and where its steps come from."""
        first = 0, len(self.roots), len(self.roots) + len(self._constants)
        steps = [
            dataclasses.replace(step, operands=tuple([first[kind] + i for kind, i in names]))
            for step, names in self._steps
        ]
        leaves = tuple([Leaf(v.type, axes) for v, axes in self.roots])  # type: ignore[arg-type]
        function = Function(
            tuple([leaf.type.element for leaf in leaves]),
            tuple(self._constants),
            tuple(steps),
            tuple([first[kind] + i for kind, i in outputs]),
        )
        return Group(leaves, self._shape, function), tuple(self._origins)


def chain(leaf: Value, operations: Sequence[Operation], numbers: Mapping[Value, np.ndarray]) -> Function:
    """The function of one leaf that some ops make of it one after the other; their other operands are numbers."""
    constants: dict[Constant, int] = {}
    for operation in operations:
        for value in operation.operands:
            if value in numbers:
                constants.setdefault(Constant.of(numbers[value], element_of(value)), len(constants) + 1)
    steps: list[Step] = []
    last = 0
    for operation in operations:
        operands = [
            constants[Constant.of(numbers[v], element_of(v))] if v in numbers else last for v in operation.operands
        ]
        types = tuple([any_size(v) for v in (*operation.operands, *operation.results)])
        steps.append(Step(operation.name, Attributes(operation.attributes), tuple(operands), types))
        last = len(constants) + len(steps)
    return Function((element_of(leaf),), tuple(constants), tuple(steps), (last,))


def any_size(value: Value) -> TensorType:
    """A value's type with one dimension of any size in the place of all; a single number's as it is."""
    assert isinstance(value.type, TensorType)
    return TensorType((None,), value.type.element) if value.type.shape else value.type
