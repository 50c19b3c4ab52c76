"""The turn of a loop on small vectors, as data.

Instruction i gives value i: a vector of the elements of a tensor in row-major order. What an instruction takes was
made before it.
"""

from __future__ import annotations

import dataclasses

from ....types import ElementType
from ...blas_calls import Product
from ..recipes import Program


@dataclasses.dataclass(frozen=True)
class Taken:
    """What the turn is given: a state, its own row of an array, or an array that all turns share."""

    kind: str  #: "state", "row" or "shared"
    place: int  #: among those of its kind


@dataclasses.dataclass(frozen=True)
class Literal:
    """Constants, as they lie in memory."""

    words: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Compute:
    """An elementwise op, as the machine's program for it; all operands are as long as the result."""

    operands: tuple[int, ...]
    program: Program


@dataclasses.dataclass(frozen=True)
class Move:
    """Elements of the operands, which are numbered as if one followed the other."""

    operands: tuple[int, ...]
    places: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Multiply:
    """A product of matrices by BLAS, of f32; no sum is -0."""

    operands: tuple[int, int]
    product: Product


@dataclasses.dataclass(frozen=True)
class Start:
    """Where a window begins in one dimension: the number that says it is clamped from 0 to `most`."""

    operand: int
    most: int
    stride: int  #: how many elements one step is
    is_signed: bool


@dataclasses.dataclass(frozen=True)
class Read:
    """A window of a tensor: runs of so many elements, at offsets from where the window begins."""

    source: int
    starts: tuple[Start, ...]
    offsets: tuple[int, ...]
    run: int


@dataclasses.dataclass(frozen=True)
class Write:
    """A tensor in which a window is replaced by the elements of `new`."""

    source: int
    new: int
    starts: tuple[Start, ...]
    offsets: tuple[int, ...]
    run: int


Instruction = Taken | Literal | Compute | Move | Multiply | Read | Write


def operands_of(instruction: Instruction) -> tuple[int, ...]:
    """The values that an instruction takes."""
    if isinstance(instruction, Compute | Move | Multiply):
        return instruction.operands
    if isinstance(instruction, Read):
        return (instruction.source, *(s.operand for s in instruction.starts))
    if isinstance(instruction, Write):
        return (instruction.source, instruction.new, *(s.operand for s in instruction.starts))
    return ()


@dataclasses.dataclass(frozen=True)
class Vector:
    """The type of a value."""

    element: ElementType
    count: int


@dataclasses.dataclass(frozen=True)
class Turn:
    """A turn: `states` are the values that the next one takes, `results` those that are kept of each."""

    instructions: tuple[Instruction, ...]
    vectors: tuple[Vector, ...]
    states: tuple[int, ...]
    results: tuple[int, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        """The products that BLAS forms."""
        return tuple([i.product for i in self.instructions if isinstance(i, Multiply)])
