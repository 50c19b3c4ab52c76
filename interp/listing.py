"""Lists a plan for people: each operation with its place, and the groups that run as lookup tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from ..ops.tables import index_bits
from ..ops.types import TensorType
from .passes.fuse import TABLE
from .planner import Plan
from .program import CONSTANT, Operation, Region, Value


@dataclasses.dataclass(frozen=True)
class Part:
    """The group that an op is part of, such as `table 1`, and what that is."""

    group: str
    reason: str


def groups(plan: Plan) -> dict[str, Part]:
    """Return the group that each op is part of, by the op's place; ops that run alone have none."""
    return {
        str(inner.location): Part(f"table {number}", _describe(table))
        for number, table in enumerate(_tables(plan), 1)
        for inner in table.regions[0].operations
        if inner.location.line and inner.name != CONSTANT
    }


def listing(plan: Plan) -> str:
    """Return the operations of a plan as the passes have left them, a line each, with the place in the source."""
    numbers = {table: number for number, table in enumerate(_tables(plan), 1)}
    return "\n\n".join(
        "\n".join([f"{label}:", *_Lister(numbers).region(region, "  ")]) for label, region in plan.regions
    )


class _Lister:
    """Names the values of one function and lists its operations."""

    def __init__(self, tables: dict[Operation, int]) -> None:
        self._tables = tables
        self._names: dict[Value, str] = {}

    def region(self, region: Region, indent: str) -> Iterator[str]:
        if region.arguments:
            arguments = ", ".join(f"{self._name(v)}: {v.type}" for v in region.arguments)
            yield f"{indent}takes {arguments}"
        for operation in region.operations:
            yield indent + self._line(operation)
            for inner in operation.regions:
                yield from self.region(inner, indent + "  ")
        yield f"{indent}returns {', '.join(map(self._name, region.returns))}".rstrip()

    def _line(self, operation: Operation) -> str:
        results, operands = (", ".join(map(self._name, values)) for values in (operation.results, operation.operands))
        types = ", ".join(str(v.type) for v in operation.results)
        text = f"{results} = " * bool(results) + f"{operation.name} {operands}".rstrip() + f" : {types}" * bool(types)
        if operation in self._tables:
            text += f"  # table {self._tables[operation]}: {_describe(operation)}"
        return f"{text}  # {operation.location}" if operation.location.line else text

    def _name(self, value: Value) -> str:
        return self._names.setdefault(value, f"%{len(self._names)}")


def _tables(plan: Plan) -> Iterator[Operation]:
    """Yield the fused groups of a plan in the order of their places."""
    found = [o for _, region in plan.regions for o in _all_tables(region)]
    yield from sorted(found, key=lambda o: (o.location.line, o.location.column))


def _all_tables(region: Region) -> Iterator[Operation]:
    for operation in region.operations:
        if operation.name == TABLE:
            yield operation
        else:
            for inner in operation.regions:
                yield from _all_tables(inner)


def _describe(table: Operation) -> str:
    """Return the size of a table, what indexes it, and how many elements are looked up."""
    elements = [v.type.element for v in table.regions[0].arguments if isinstance(v.type, TensorType)]
    bits = sum(map(index_bits, elements))
    inputs = " and ".join(str(e) for e in elements)
    size = math.prod(n or 0 for n in table.results[0].shape or ())
    return f"lookup table of {1 << bits:,} entries by {inputs}, {size:,} elements"
