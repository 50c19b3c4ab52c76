"""The lines of a program for the machine in the making, and which register holds what.

Each value has a register of its own, as if there were no end of them, until the program is finished.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ...types import ELEMENT_TYPES, ElementType
from . import opcodes as op
from .recipes import Entries, Program, Recipe
from .registers import LOADS, STORES, Line, assigned, of, word
from .segments import in_segments

_F16, _BF16, _I8 = (ELEMENT_TYPES[name] for name in ("f16", "bf16", "i8"))


class Lines:
    """The lines of a recipe's program. Registers of constants are negative."""

    def __init__(self, recipe: Recipe) -> None:
        self._leaves = {name: i for i, (name, _) in enumerate(recipe.leaves)}
        self._has_rows = bool(recipe.rows)
        self._constants: list[int] = []
        self.is_row = False  #: whether what is emitted is one number for each row
        self._narrow: set[int] = set()  # the registers of such
        self._along: dict[int, int] = {}  # of these, the registers in which each number is repeated along its row
        self._values = {name: self.constant(word(*constant)) for name, constant in recipe.constants.items()}
        self._signed: dict[int, int] = {}  # of bytes, the registers with their signs
        self._exact: dict[int, int] = {}  # of values of f16, the registers with what they were rounded from
        self._loaded: dict[tuple[int, ...], int] = {}
        self._code: list[Line] = []
        self._tables: list[Entries] = []
        self._parameters: list[tuple[int, ...]] = []
        self._count = 0  # of the registers but for constants

    def constant(self, word: int) -> int:
        """The register of a constant."""
        if word not in self._constants:
            self._constants.append(word)
        return -1 - self._constants.index(word)

    def constant_of(self, register: int) -> int | None:
        """The constant of a register; None where it holds something else."""
        return self._constants[-1 - register] if register < 0 else None

    def table(self, entries: Entries) -> int:
        """The number of a table."""
        if entries not in self._tables:
            self._tables.append(entries)
        return self._tables.index(entries)

    def parameters(self, numbers: tuple[int, ...]) -> int:
        """The number of a row of parameters, which is added."""
        self._parameters.append(numbers)
        return len(self._parameters) - 1

    def emit(self, kind: int, registers: Sequence[int] = (), numbers: Sequence[int] = ()) -> int:
        """Add a line. Returns the register of its result."""
        self._count += 1
        self._code.append((kind, self._count - 1, tuple(registers), tuple(numbers)))
        if self.is_row:
            self._narrow.add(self._count - 1)
        return self._count - 1

    def store(self, output: int, name: str, element: ElementType) -> None:
        """Add the line that stores an output, by its number."""
        self._code.append((of(STORES, element), output, (self.stored(name, element),), ()))

    def made(self, registers: Collection[int]) -> list[Line]:
        """The lines that give the values of some registers."""
        return [line for line in self._code if line[1] in registers]

    # -- values --------------------------------------------------------------------------------------------------------

    def name(self, value: str, register: int) -> None:
        """Say which register has a value."""
        self._values[value] = register

    def leaf(self, name: str) -> int | None:
        """The number of a leaf; None of what is computed."""
        return None if name in self._values else self._leaves[name]

    def load(self, *numbers: int) -> int:
        """The register of a leaf that a line loads: its op, the leaf's number, and others."""
        key = self.is_row, *numbers
        if key not in self._loaded:
            self._loaded[key] = self.emit(numbers[0], (), numbers[1:])
        return self._loaded[key]

    def value(self, name: str, element: ElementType) -> int:
        """The register of a value."""
        leaf = self.leaf(name)
        if leaf is None:
            return self._computed(name)
        loaded = self.load(of(LOADS, element), leaf)
        if element != _I8:
            return loaded
        if loaded not in self._signed:
            self._signed[loaded] = self.emit(op.SIGN_BYTE, [loaded])
        return self._signed[loaded]

    def byte(self, name: str) -> int:
        """The register of a value of one byte, as that."""
        leaf = self.leaf(name)
        return self._computed(name) if leaf is None else self.load(op.LOAD_8, leaf)

    def number(self, name: str) -> int:
        """The register of a computed value as it is, one number for each row or not."""
        return self._values[name]

    def _computed(self, name: str) -> int:
        """The register of a computed value; along the rows if it is one number for each."""
        register = self._values[name]
        if self.is_row or register not in self._narrow:
            return register
        if register not in self._along:
            self._along[register] = self.emit(op.ALONG_ROW, [register])
        return self._along[register]

    def half(self, register: int, element: ElementType) -> int:
        """The f32 of a register rounded to bf16 or f16, and held as f32 again."""
        if element == _BF16:
            return self.emit(op.TO_BF16, [register])
        value = self.emit(op.ROUND_F16, [register])
        self._exact[value] = register
        return value

    def stored(self, name: str, element: ElementType) -> int:
        """The register of a value as memory has it."""
        value = self.value(name, element)
        return value if element != _F16 else self.emit(op.TO_F16, [self._exact.get(value, value)])

    # -- the program ---------------------------------------------------------------------------------------------------

    def finished(self, fixed: Sequence[bool], pieces: int) -> Program:
        """The program; see `programs.program` for `fixed` and `pieces`."""
        self._drop_unused()
        self._store_early()
        if self._has_rows:
            rows, segments, registers = in_segments(self._code, len(self._constants), self._narrow, fixed, pieces)
        else:
            once = [line for line in self._code if line[0] < op.STORE_32 and fixed and fixed[line[3][0]]]
            code = [*once, *(line for line in self._code if line not in once)]
            kept = [*(-1 - i for i in range(len(self._constants))), *(result for _, result, _, _ in once)]
            rows, registers = assigned(code, kept)
            segments = np.array([(0, len(once), op.ONCE), (len(once), len(code), op.OF_PIECES)], np.int64)
        parameters = np.array(self._parameters or [(0,) * 10], np.int64)
        return Program(rows, np.array(self._constants, np.uint32), registers, segments, self._tables, parameters)

    def _drop_unused(self) -> None:
        """Leave out what nothing needs: numbers rounded to f16 of which only the codes are stored, say."""
        needed: set[int] = set()
        code: list[Line] = []
        for line in reversed(self._code):
            kind, result, registers, _ = line
            if op.STORE_32 <= kind <= op.STORE_F16 or kind >= op.FOLD_ADD or result in needed:
                code.append(line)
                needed.update(registers)
        self._code = code[::-1]

    def _store_early(self) -> None:
        """Store each output as soon as it is there, so that its register is free: an optimizer has hundreds."""
        stores: dict[int, list[Line]] = {}
        rest: list[Line] = []
        for line in self._code:
            if op.STORE_32 <= line[0] <= op.STORE_F16:
                stores.setdefault(line[2][0], []).append(line)
            else:
                rest.append(line)
        self._code = [line for register, lines in stores.items() if register < 0 for line in lines]
        for line in rest:
            self._code += [line, *stores.get(line[1], ())]
