"""A program as plain data, from the parser to the planner. It holds no MLIR object."""

from __future__ import annotations

import dataclasses
import linecache
from collections.abc import Iterator
from typing import Any

from ..ops.types import TensorType, Type

#: The op that the machine runs by itself, and has no declaration: it prints names of the program too.
PRINT = "interpreter.print"
#: The op whose value is there before a program runs.
CONSTANT = "stablehlo.constant"
#: The op that gives what it takes, and that nothing is moved across.
BARRIER = "stablehlo.optimization_barrier"


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """The place of an op in the source. Lines and columns count from 1; 0 is unknown."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def source(self) -> str:
        """The text of the line, empty if it is not known."""
        return linecache.getline(self.file, self.line).strip()


@dataclasses.dataclass(eq=False, slots=True)
class Value:
    """An SSA value: an argument of a block or a result of an op. Values are compared by identity."""

    type: Type

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The shape of a tensor, with None for a size that is not known; None for a value of another type."""
        return self.type.shape if isinstance(self.type, TensorType) else None


@dataclasses.dataclass(eq=False, slots=True)
class Operation:
    """One op. `attributes` maps names to plain Python values (see `attributes.py` for each kind)."""

    name: str  #: with its dialect, such as "stablehlo.add"
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: dict[str, Any]
    regions: tuple[Region, ...]
    location: Location
    origin: Operation | None = None  #: the op of the source that a pass replaced by this one


@dataclasses.dataclass(eq=False, slots=True)
class Region:
    """A single block: its arguments, its ops without the terminator, and what the terminator returns."""

    arguments: tuple[Value, ...]
    operations: list[Operation]
    returns: tuple[Value, ...]


def all_operations(region: Region) -> Iterator[Operation]:
    """Yield the operations of a region and of the regions in it."""
    for operation in region.operations:
        yield operation
        for inner in operation.regions:
            yield from all_operations(inner)


@dataclasses.dataclass(eq=False, slots=True)
class Function:
    """A function; `body` is None for a declaration."""

    name: str
    is_public: bool
    argument_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    body: Region | None
    location: Location
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False, slots=True)
class Program:
    """A module: its functions by name, in the order of the source."""

    functions: dict[str, Function]
    file: str = ""
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
