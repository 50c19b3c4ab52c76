"""Makes a program for the machine of what a group of elementwise ops does, where the machine knows all of it.

Values of a group become registers; each keeps the block until nothing needs it. What ops mean is said elsewhere: an op
is taken only where the machine's own is known to give the bits of the op's kernel, under the policy that is set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...types import ELEMENT_TYPES, ElementType, Kind
from ..cast import code_table
from ..compiled import compiled_function
from . import opcodes as op
from .encoding import encoding, fitting
from .recipes import Entries, Fold, Lookup, Program, Recipe, Step
from .registers import LOADS, STORES, Line, Unknown, assigned, of, word
from .segments import in_segments

_F32, _BF16, _F16, _BOOL = (ELEMENT_TYPES[name] for name in ("f32", "bf16", "f16", "i1"))
_FLOATS, _HALVES = (_F32, _BF16, _F16), (_BF16, _F16)
_I32, _U32, _I8, _U8 = (ELEMENT_TYPES[name] for name in ("i32", "ui32", "i8", "ui8"))
_WORDS, _BYTES = (_I32, _U32), (_I8, _U8)
_CODES = np.arange(256, dtype=np.uint8)
_ONE = np.uint32(0x3F800000)

_LOGICAL = (op.AND, op.OR, op.XOR, op.NOT)
#: How a comparison is made: the op, and whether its operands change places.
_COMPARED = {
    "EQ": (op.EQ, False),
    "NE": (op.NE, False),
    "LT": (op.LT, False),
    "LE": (op.LE, False),
    "GT": (op.LT, True),
    "GE": (op.LE, True),
}


def program(recipe: Recipe, fold: int | None = None, fixed: Sequence[bool] = (), pieces: int = 1) -> Program | None:
    """The program of a group; `fold` is the op that folds its only output. None where the machine does not know all.

    `fixed` says which leaves are the same in all blocks: they are loaded once. Rows of a program on rows have so many
    `pieces`.
    """
    try:
        return _Maker(recipe).make(fold, fixed, pieces)
    except Unknown:
        return None


class _Maker:
    def __init__(self, recipe: Recipe) -> None:
        self._recipe, self._policy = recipe, recipe.policy
        self._leaves = {name: (i, element) for i, (name, element) in enumerate(recipe.leaves)}
        self._constants: list[int] = []
        self._values: dict[str, int] = {}  # the register of each value, one for each as if there were no end of them
        self._signed: dict[int, int] = {}  # of bytes, the registers with their signs
        self._exact: dict[int, int] = {}  # of values of f16, the registers with what they were rounded from
        self._loaded: dict[tuple[int, ...], int] = {}
        self._code: list[Line] = []
        self._tables: list[Entries] = []
        self._parameters: list[tuple[int, ...]] = []
        self._count = 0  # of the registers but for constants
        self._is_row = False  # whether what is emitted is one number for each row
        self._narrow: set[int] = set()  # the registers of such
        self._along: dict[int, int] = {}  # of these, the registers in which each number is repeated along its row

    def make(self, fold: int | None, fixed: Sequence[bool], pieces: int) -> Program:
        for name, (array, element) in self._recipe.constants.items():
            self._values[name] = self._constant(word(array, element))
        for step in self._recipe.steps:
            self._is_row = step.result in self._recipe.rows
            self._values[step.result] = self._made(step)
        for i, (name, element) in enumerate(self._recipe.outputs):
            self._is_row = name in self._recipe.rows
            if fold is None:
                self._code.append((of(STORES, element), i, (self._stored(name, element),), ()))
            else:
                self._emit(fold, (self._value(name, element),))
        self._drop_unused()
        self._store_early()
        if self._recipe.rows:
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

    def _constant(self, word: int) -> int:
        """The register of a constant, which is negative."""
        if word not in self._constants:
            self._constants.append(word)
        return -1 - self._constants.index(word)

    def _emit(self, kind: int, registers: Sequence[int] = (), numbers: Sequence[int] = ()) -> int:
        self._count += 1
        self._code.append((kind, self._count - 1, tuple(registers), tuple(numbers)))
        if self._is_row:
            self._narrow.add(self._count - 1)
        return self._count - 1

    def _load(self, *numbers: int) -> int:
        key = self._is_row, *numbers
        if key not in self._loaded:
            self._loaded[key] = self._emit(numbers[0], (), numbers[1:])
        return self._loaded[key]

    def _made(self, step: Step | Lookup | Fold) -> int:
        if isinstance(step, Fold):
            return self._fold(step)
        return self._look_up(step) if isinstance(step, Lookup) else self._step(step)

    def _fold(self, step: Fold) -> int:
        """Each row to a number."""
        if step.element not in (*_FLOATS, _U8):
            raise Unknown
        self._is_row = False
        value = self._value(step.operand, step.element)
        self._is_row = True
        kind = op.SUM_ROW + step.compiled - op.FOLD_ADD
        if kind == op.SUM_ROW and step.element != _F32:
            if self._policy.rounding != "nearest_even":
                raise Unknown
            kind = op.SUM_ROW_BF16 if step.element == _BF16 else op.SUM_ROW_F16
        total = self._emit(kind, [value, self._values[step.start]])
        return self._emit(op.AND, [total, self._constant(255)]) if step.element == _U8 else total

    def _computed(self, name: str) -> int:
        """The register of a value that a step has given; along the rows if it is one number for each."""
        register = self._values[name]
        if self._is_row or register not in self._narrow:
            return register
        if register not in self._along:
            self._along[register] = self._emit(op.ALONG_ROW, [register])
        return self._along[register]

    def _value(self, name: str, element: ElementType) -> int:
        if name in self._values:
            return self._computed(name)
        loaded = self._load(of(LOADS, element), self._leaves[name][0])
        if element != _I8:
            return loaded
        if loaded not in self._signed:
            self._signed[loaded] = self._emit(op.SIGN_BYTE, [loaded])
        return self._signed[loaded]

    def _stored(self, name: str, element: ElementType) -> int:
        """The register of a value as memory has it."""
        value = self._value(name, element)
        return value if element != _F16 else self._emit(op.TO_F16, [self._exact.get(value, value)])

    def _table(self, entries: Entries) -> int:
        if entries not in self._tables:
            self._tables.append(entries)
        return self._tables.index(entries)

    def _look_up(self, step: Lookup) -> int:
        """One lookup of one or two codes; of a leaf, while it is loaded."""
        table, element = self._table(step.entries), step.element
        if not (element == _F32 or element.is_minifloat or element.kind is Kind.BOOL):
            raise Unknown
        wide = element == _F32
        if len(step.operands) == 1 and step.widths[0] == 8:
            (name,) = step.operands
            if name in self._leaves:
                register = self._load(op.LOAD_TABLE_F32 if wide else op.LOAD_TABLE_8, self._leaves[name][0], table)
            else:
                register = self._emit(op.LOOK_UP_F32 if wide else op.LOOK_UP_8, [self._byte(name)], [table])
        elif len(step.operands) == 2:
            kind = op.PAIR_F32 if wide else op.PAIR_8
            register = self._emit(
                kind, [self._byte(name) for name in step.operands], [table, step.widths[1], (1 << sum(step.widths)) - 1]
            )
        else:
            raise Unknown
        return self._emit(op.TRUTH, [register]) if element.kind is Kind.BOOL else register

    def _look_up_half(self, name: str, element: ElementType, entries: Entries) -> int:
        """A function of one number of f16 or bf16, by a table of f32 for all its codes."""
        if name in self._leaves and name not in self._values:
            return self._emit(op.LOOK_UP_HIGH, [self._load(op.LOAD_16, self._leaves[name][0])], [self._table(entries)])
        value = self._value(name, element)
        if element == _BF16:
            return self._emit(op.LOOK_UP_HIGH, [value], [self._table(entries)])
        return self._emit(op.LOOK_UP_LOW, [self._stored(name, element)], [self._table(entries)])

    def _byte(self, name: str) -> int:
        """The register of a value of one byte, as that."""
        if name in self._leaves and name not in self._values:
            return self._load(op.LOAD_8, self._leaves[name][0])
        return self._computed(name)

    def _step(self, step: Step) -> int:
        name, elements = step.name.removeprefix("stablehlo."), step.elements
        result = elements[-1]
        if name == "convert":
            if step.entries is not None:
                table, value = step.entries(1 << 16), self._value(step.operands[0], elements[0])
                return self._encode(value, None if table is None else fitting(result, table), step.entries)
            return self._convert(step.operands[0], elements[0], result)
        values = [self._value(v, e) for v, e in zip(step.operands, elements, strict=False)]
        if step.compiled == op.SELECT:
            return self._emit(op.SELECT, values)
        if name == "is_finite" and elements[0] in _FLOATS:
            return self._emit(op.LT, [self._emit(op.ABS, values), self._constant(0x7F800000)])
        if name == "bitcast_convert" and {e.name for e in elements} <= {"f32", "ui32", "i32"}:
            return values[0]
        if result in _WORDS and all(e == result for e in elements):
            return self._on_words(name, step, values)
        if result.kind is Kind.BOOL:
            return self._truth(name, step, values)
        if any(e != result for e in elements) or result not in _FLOATS:
            raise Unknown
        if result in _HALVES and self._policy.rounding != "nearest_even":
            raise Unknown
        if name == "chlo.square":
            return self._rounded(op.MULTIPLY, [*values, *values], result)
        if name == "clamp":
            low, x, high = values
            return self._rounded(op.MINIMUM, [self._rounded(op.MAXIMUM, [x, low], result), high], result)
        is_known = step.compiled is not None and (step.compiled not in op.FUNCTIONS or result == _F32)
        if not is_known and result in _HALVES and step.entries is not None:
            return self._look_up_half(step.operands[0], result, step.entries)
        if step.compiled is None or not is_known:
            raise Unknown
        if step.compiled in op.FUNCTIONS:
            return self._function(step.compiled, values)
        return self._rounded(step.compiled, values, result)

    def _function(self, kind: int, values: Sequence[int]) -> int:
        """A function of f32 that is rounded by way of f64."""
        address = compiled_function(kind)
        if address is None:
            raise Unknown
        self._parameters.append((address, *[0] * 9))
        return self._emit(kind, values, [len(self._parameters) - 1])

    def _rounded(self, kind: int, values: Sequence[int], element: ElementType) -> int:
        register = self._emit(kind, values)
        return register if element == _F32 else self._half(register, element)

    def _half(self, register: int, element: ElementType) -> int:
        """The f32 of a register rounded to bf16 or f16, and held as f32 again."""
        if element == _BF16:
            return self._emit(op.TO_BF16, [register])
        value = self._emit(op.ROUND_F16, [register])
        self._exact[value] = register
        return value

    def _truth(self, name: str, step: Step, values: Sequence[int]) -> int:
        element = step.elements[0]
        if name == "compare" and element in _FLOATS and step.attributes.get("compare_type") != "TOTALORDER":
            kind, is_turned = _COMPARED[step.attributes["comparison_direction"]]
            return self._emit(kind, values[::-1] if is_turned else values)
        if element.kind is Kind.BOOL and step.compiled in _LOGICAL:
            return self._emit(step.compiled, values)
        if name == "compare" and element in (*_WORDS, *_BYTES):
            direction = step.attributes["comparison_direction"]
            kind = op.EQ_WORDS if direction in ("EQ", "NE") else op.LT_SIGNED + (element.kind is not Kind.SIGNED)
            compared = self._emit(kind, values[::-1] if direction in ("GT", "LE") else values)
            return self._emit(op.NOT, [compared]) if direction in ("NE", "LE", "GE") else compared
        raise Unknown

    def _on_words(self, name: str, step: Step, values: Sequence[int]) -> int:
        """An op on whole numbers of 32 bits."""
        at = int(step.elements[-1].kind is not Kind.SIGNED)
        if name == "clamp":
            low, x, high = values
            larger = self._emit(op.MAXIMUM_SIGNED + at, [x, low])
            return self._emit(op.MINIMUM_SIGNED + at, [larger, high])
        if step.words is None:
            raise Unknown
        rotated = self._rotated(values) if step.words[at] == op.OR else None
        return self._emit(step.words[at], values) if rotated is None else rotated

    def _rotated(self, values: Sequence[int]) -> int | None:
        """The or of a number shifted to the left and to the right by constants that make 32 together: its rotation."""
        made = {result: line for line in self._code for result in [line[1]] if result in values}
        lines = sorted([made[v] for v in values if v in made])
        if [line[0] for line in lines] != [op.SHIFT_LEFT, op.SHIFT_LOGICAL]:
            return None
        (_, _, (x, left), _), (_, _, (y, right), _) = lines
        if x != y or left >= 0 or right >= 0:
            return None
        by = self._constants[-1 - left]
        is_turn = 0 < by < 32 and by + self._constants[-1 - right] == 32
        return self._emit(op.ROTATE, [x], [by]) if is_turn else None

    def _convert_words(self, name: str, source: ElementType, target: ElementType) -> int:
        """From or to whole numbers of 32 bits, and of 8."""
        value = self._value(name, source)
        if source == _F32 and target in (*_WORDS, *_BYTES):
            if target in _WORDS:
                return self._emit(op.TO_SIGNED if target == _I32 else op.TO_UNSIGNED, [value])
            ends = (-128, 127) if target == _I8 else (0, 255)
            low, high = [self._constant(end % (1 << 32)) for end in ends]
            number = self._emit(op.MAXIMUM_SIGNED, [self._emit(op.TO_SIGNED, [value]), low])
            return self._emit(op.MINIMUM_SIGNED, [number, high])
        if source == _BOOL:
            return self._emit(op.AND, [value, self._constant(1)])
        if target == _BOOL:
            return self._emit(op.TRUTH, [value])
        if source not in (*_WORDS, *_BYTES):
            raise Unknown
        if target == _F32:
            if self._policy.rounding != "nearest_even" or self._policy.overflow != "ieee":
                raise Unknown
            return self._emit(op.OF_UNSIGNED if source in (_U32, _U8) else op.OF_SIGNED, [value])
        if target in _WORDS:
            return value
        if target in _BYTES:
            return (
                self._emit(op.SIGN_BYTE, [value]) if target == _I8 else self._emit(op.AND, [value, self._constant(255)])
            )
        raise Unknown

    def _convert(self, name: str, source: ElementType, target: ElementType) -> int:
        if source.is_minifloat and (target == _F32 or target.is_minifloat):
            table = code_table(source, target, self._policy)
            return self._look_up(Lookup(_Known(table), (8,), (name,), "", target))
        if source == _BOOL and target == _F32:
            return self._emit(op.AND, [self._value(name, source), self._constant(int(_ONE))])
        if source == target == _BOOL:
            return self._value(name, source)
        if {source, target} & {*_WORDS, *_BYTES}:
            return self._convert_words(name, source, target)
        if source not in _FLOATS:
            raise Unknown
        value = self._value(name, source)
        if target in (source, _F32):
            return value
        if target in _HALVES and self._policy.rounding == "nearest_even" and self._policy.overflow == "ieee":
            return self._half(value, target)
        if not target.is_float or not target.is_minifloat or target.format.precision > 6:
            raise Unknown
        numbers, entries = encoding(target, self._policy.for_elements())
        return self._encode(value, numbers, _Known(entries))

    def _encode(self, value: int, numbers: tuple[int, ...] | None, entries: Entries) -> int:
        """To codes, by arithmetic or else by the table."""
        if numbers is None:
            return self._emit(op.ENCODE_TABLE, [value], [self._table(entries)])
        self._parameters.append(numbers)
        return self._emit(op.ENCODE, [value], [len(self._parameters) - 1])


@dataclasses.dataclass(frozen=True, eq=False)
class _Known:
    """A table that is there."""

    entries: np.ndarray

    def __call__(self, _: int) -> np.ndarray:
        return self.entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.entries is other.entries
