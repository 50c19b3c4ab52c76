"""What a group of elementwise ops does, as the machine reads it, and the machine's program for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ...policy import Policy
from ...types import ElementType
from . import opcodes as op

#: Gives the entries of a table, or None where it is not yet worth making; it takes how many elements are to be taken.
Entries = Callable[[int], np.ndarray | None]


@dataclasses.dataclass(frozen=True)
class Step:
    """An op of a group: names of what it takes and gives, and the element types of these."""

    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[str]
    result: str
    elements: Sequence[ElementType]  #: of the operands and then the result
    #: Of a convert from f32 the results for all codes of bfloat16, if it does more than convert; of a function of one
    #: number of f16 or bf16 those for all its codes, as f32.
    entries: Entries | None = None
    compiled: int | None = None  #: the machine's op that does the same; see `Facts.compiled`
    words: tuple[int, int] | None = None  #: those on i32 and on ui32; see `Facts.compiled_words`


@dataclasses.dataclass(frozen=True)
class Lookup:
    """A part of a group that is a table of one or two codes."""

    entries: Entries
    widths: Sequence[int]
    operands: Sequence[str]
    result: str
    element: ElementType


@dataclasses.dataclass(frozen=True)
class Fold:
    """The reduction of each row to a number, from a constant on; `compiled` is the machine's op, see `Facts`.

    A result of ui8 is the last byte of an f32.
    """

    compiled: int
    operand: str
    start: str
    result: str
    element: ElementType


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a group does: its leaves by name with their element types, constants, ops in order, and outputs.

    Of a program on rows, `rows` are the names of the values that have one number for each row.
    """

    leaves: Sequence[tuple[str, ElementType]]
    constants: Mapping[str, tuple[np.ndarray, ElementType]]
    steps: Sequence[Step | Lookup | Fold]
    outputs: Sequence[tuple[str, ElementType]]
    policy: Policy
    rows: Collection[str] = ()

    @property
    def has_functions(self) -> bool:
        """Whether functions of f32 are called."""
        return any(
            isinstance(s, Step) and s.compiled in op.FUNCTIONS and s.elements[-1].name == "f32" for s in self.steps
        )


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of the machine; see `machine.run`."""

    code: np.ndarray
    constants: np.ndarray
    registers: int
    segments: np.ndarray  #: of ops that are done together: the first, the end, and how (`opcodes.OF_PIECES`)
    tables: Sequence[Entries]
    parameters: np.ndarray
