"""Makes a program for the machine of what a group of elementwise ops does, where the machine knows all of it.

Values of a group become registers; each keeps the block until nothing needs it. What ops mean is said elsewhere: an op
is taken only where the machine's own is known to give the bits of the op's kernel, under the policy that is set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from ...cast import code_table
from ...types import ELEMENT_TYPES, ElementType, Kind
from ..compiled import compiled_function
from . import opcodes as op
from .divisions import FLOORED, divided
from .encoding import encoding, fitting
from .lines import Lines
from .recipes import Entries, Fold, Lookup, Program, Recipe, Step
from .registers import Unknown

_F32, _BF16, _F16, _BOOL = (ELEMENT_TYPES[name] for name in ("f32", "bf16", "f16", "i1"))
_FLOATS, _HALVES = (_F32, _BF16, _F16), (_BF16, _F16)
_I32, _U32, _I8, _U8 = (ELEMENT_TYPES[name] for name in ("i32", "ui32", "i8", "ui8"))
_WORDS, _BYTES = (_I32, _U32), (_I8, _U8)
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


def program(
    recipe: Recipe,
    fold: int | None = None,
    fixed: Sequence[bool] = (),
    pieces: int = 1,
    address_of: Callable[[int], int | None] = compiled_function,
) -> Program | None:
    """The program of a group; `fold` is the op that folds its only output. None where the machine does not know all.

    `fixed` says which leaves are the same in all blocks: they are loaded once. Rows of a program on rows have so many
    `pieces`. `address_of` gives the addresses of functions of f32.
    """
    try:
        return _Maker(recipe, address_of).make(fold, fixed, pieces)
    except Unknown:
        return None


class _Maker:
    def __init__(self, recipe: Recipe, address_of: Callable[[int], int | None]) -> None:
        self._recipe, self._policy, self._address_of = recipe, recipe.policy, address_of
        self._lines = Lines(recipe)

    def make(self, fold: int | None, fixed: Sequence[bool], pieces: int) -> Program:
        lines, rows = self._lines, self._recipe.rows
        for step in self._recipe.steps:
            lines.is_row = step.result in rows
            lines.name(step.result, self._made(step))
        for i, (name, element) in enumerate(self._recipe.outputs):
            lines.is_row = name in rows
            if fold is None:
                lines.store(i, name, element)
            else:
                lines.emit(fold, (lines.value(name, element),))
        return lines.finished(fixed, pieces)

    def _made(self, step: Step | Lookup | Fold) -> int:
        if isinstance(step, Fold):
            return self._fold(step)
        return self._look_up(step) if isinstance(step, Lookup) else self._step(step)

    def _fold(self, step: Fold) -> int:
        """Each row to a number."""
        if step.element not in (*_FLOATS, _U8):
            raise Unknown
        self._lines.is_row = False
        value = self._lines.value(step.operand, step.element)
        self._lines.is_row = True
        kind = op.SUM_ROW + step.compiled - op.FOLD_ADD
        if kind == op.SUM_ROW and step.element != _F32:
            if self._policy.rounding != "nearest_even":
                raise Unknown
            kind = op.SUM_ROW_BF16 if step.element == _BF16 else op.SUM_ROW_F16
        total = self._lines.emit(kind, [value, self._lines.number(step.start)])
        return self._lines.emit(op.AND, [total, self._lines.constant(255)]) if step.element == _U8 else total

    def _look_up(self, step: Lookup) -> int:
        """One lookup of one or two codes; of a leaf, while it is loaded."""
        table, element = self._lines.table(step.entries), step.element
        if not (element == _F32 or element.is_minifloat or element.kind is Kind.BOOL):
            raise Unknown
        wide = element == _F32
        if len(step.operands) == 1 and step.widths[0] == 8:
            (name,) = step.operands
            leaf = self._lines.leaf(name)
            if leaf is not None:
                register = self._lines.load(op.LOAD_TABLE_F32 if wide else op.LOAD_TABLE_8, leaf, table)
            else:
                register = self._lines.emit(op.LOOK_UP_F32 if wide else op.LOOK_UP_8, [self._lines.byte(name)], [table])
        elif len(step.operands) == 2:
            kind = op.PAIR_F32 if wide else op.PAIR_8
            register = self._lines.emit(
                kind,
                [self._lines.byte(name) for name in step.operands],
                [table, step.widths[1], (1 << sum(step.widths)) - 1],
            )
        else:
            raise Unknown
        return self._lines.emit(op.TRUTH, [register]) if element.kind is Kind.BOOL else register

    def _look_up_half(self, name: str, element: ElementType, entries: Entries) -> int:
        """A function of one number of f16 or bf16, by a table of f32 for all its codes."""
        lines, leaf, table = self._lines, self._lines.leaf(name), self._lines.table(entries)
        if leaf is not None:
            return lines.emit(op.LOOK_UP_HIGH, [lines.load(op.LOAD_16, leaf)], [table])
        if element == _BF16:
            return lines.emit(op.LOOK_UP_HIGH, [lines.value(name, element)], [table])
        return lines.emit(op.LOOK_UP_LOW, [lines.stored(name, element)], [table])

    def _step(self, step: Step) -> int:
        name, elements = step.name.removeprefix("stablehlo."), step.elements
        result = elements[-1]
        if name == "convert":
            if step.entries is not None:
                table, value = step.entries(1 << 16), self._lines.value(step.operands[0], elements[0])
                return self._encode(value, None if table is None else fitting(result, table), step.entries)
            return self._convert(step.operands[0], elements[0], result)
        values = [self._lines.value(v, e) for v, e in zip(step.operands, elements, strict=False)]
        if step.compiled == op.SELECT:
            return self._lines.emit(op.SELECT, values)
        if name == "is_finite" and elements[0] in _FLOATS:
            return self._lines.emit(op.LT, [self._lines.emit(op.ABS, values), self._lines.constant(0x7F800000)])
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
        address = self._address_of(kind)
        if address is None:
            raise Unknown
        return self._lines.emit(kind, values, [self._lines.parameters((address, *[0] * 9))])

    def _rounded(self, kind: int, values: Sequence[int], element: ElementType) -> int:
        register = self._lines.emit(kind, values)
        return register if element == _F32 else self._lines.half(register, element)

    def _truth(self, name: str, step: Step, values: Sequence[int]) -> int:
        element = step.elements[0]
        if name == "compare" and element in _FLOATS and step.attributes.get("compare_type") != "TOTALORDER":
            kind, is_turned = _COMPARED[step.attributes["comparison_direction"]]
            return self._lines.emit(kind, values[::-1] if is_turned else values)
        if name == "compare" and element.kind is Kind.BOOL:
            return self._booleans_compared(step.attributes["comparison_direction"], values)
        if element.kind is Kind.BOOL and step.compiled in _LOGICAL:
            return self._lines.emit(step.compiled, values)
        if name == "compare" and element in (*_WORDS, *_BYTES):
            direction = step.attributes["comparison_direction"]
            kind = op.EQ_WORDS if direction in ("EQ", "NE") else op.LT_SIGNED + (element.kind is not Kind.SIGNED)
            compared = self._lines.emit(kind, values[::-1] if direction in ("GT", "LE") else values)
            return self._lines.emit(op.NOT, [compared]) if direction in ("NE", "LE", "GE") else compared
        raise Unknown

    def _booleans_compared(self, direction: str, values: Sequence[int]) -> int:
        """Truth values compared as 0 and 1."""
        if direction in ("EQ", "NE"):
            differ = self._lines.emit(op.XOR, values)
            return differ if direction == "NE" else self._lines.emit(op.NOT, [differ])
        low, high = values if direction in ("LT", "GE") else values[::-1]
        is_less = self._lines.emit(op.AND, [self._lines.emit(op.NOT, [low]), high])
        return is_less if direction in ("LT", "GT") else self._lines.emit(op.NOT, [is_less])

    def _on_words(self, name: str, step: Step, values: Sequence[int]) -> int:
        """An op on whole numbers of 32 bits."""
        at = int(step.elements[-1].kind is not Kind.SIGNED)
        if name in ("clamp", "sign"):  # a sign is the number, but between -1 and 1
            ends = [self._lines.constant(0xFFFFFFFF), *values, self._lines.constant(1)]
            low, x, high = values if name == "clamp" else ends
            larger = self._lines.emit(op.MAXIMUM_SIGNED + at, [x, low])
            return self._lines.emit(op.MINIMUM_SIGNED + at, [larger, high])
        if name in ("divide", "remainder"):
            return divided(self._lines, name == "remainder", not at, FLOORED in step.attributes, values)
        if step.words is None:
            raise Unknown
        rotated = self._rotated(values) if step.words[at] == op.OR else None
        return self._lines.emit(step.words[at], values) if rotated is None else rotated

    def _rotated(self, values: Sequence[int]) -> int | None:
        """The or of a number shifted to the left and to the right by constants that make 32 together: its rotation."""
        lines = sorted(self._lines.made(values))
        if [line[0] for line in lines] != [op.SHIFT_LEFT, op.SHIFT_LOGICAL]:
            return None
        (_, _, (x, left), _), (_, _, (y, right), _) = lines
        by, back = self._lines.constant_of(left), self._lines.constant_of(right)
        if x != y or by is None or back is None:
            return None
        is_turn = 0 < by < 32 and by + back == 32
        return self._lines.emit(op.ROTATE, [x], [by]) if is_turn else None

    def _convert_words(self, name: str, source: ElementType, target: ElementType) -> int:
        """From or to whole numbers of 32 bits, and of 8."""
        value = self._lines.value(name, source)
        if source == _F32 and target in (*_WORDS, *_BYTES):
            if target in _WORDS:
                return self._lines.emit(op.TO_SIGNED if target == _I32 else op.TO_UNSIGNED, [value])
            ends = (-128, 127) if target == _I8 else (0, 255)
            low, high = [self._lines.constant(end % (1 << 32)) for end in ends]
            number = self._lines.emit(op.MAXIMUM_SIGNED, [self._lines.emit(op.TO_SIGNED, [value]), low])
            return self._lines.emit(op.MINIMUM_SIGNED, [number, high])
        if source == _BOOL:
            return self._lines.emit(op.AND, [value, self._lines.constant(1)])
        if target == _BOOL:
            return self._lines.emit(op.TRUTH, [value])
        if source not in (*_WORDS, *_BYTES):
            raise Unknown
        if target == _F32:
            if self._policy.rounding != "nearest_even" or self._policy.overflow != "ieee":
                raise Unknown
            return self._lines.emit(op.OF_UNSIGNED if source in (_U32, _U8) else op.OF_SIGNED, [value])
        if target in _WORDS:
            return value
        if target == _I8:
            return self._lines.emit(op.SIGN_BYTE, [value])
        if target == _U8:
            return self._lines.emit(op.AND, [value, self._lines.constant(255)])
        raise Unknown

    def _convert(self, name: str, source: ElementType, target: ElementType) -> int:
        if source.is_minifloat and (target == _F32 or target.is_minifloat):
            table = code_table(source, target, self._policy)
            return self._look_up(Lookup(_Known(table), (8,), (name,), "", target))
        if source == _BOOL and target == _F32:
            return self._lines.emit(op.AND, [self._lines.value(name, source), self._lines.constant(int(_ONE))])
        if source == target == _BOOL:
            return self._lines.value(name, source)
        if {source, target} & {*_WORDS, *_BYTES}:
            return self._convert_words(name, source, target)
        if source not in _FLOATS:
            raise Unknown
        value = self._lines.value(name, source)
        if target in (source, _F32):
            return value
        if target in _HALVES and self._policy.rounding == "nearest_even" and self._policy.overflow == "ieee":
            return self._lines.half(value, target)
        if not target.is_float or not target.is_minifloat or target.format.precision > 6:
            raise Unknown
        numbers, entries = encoding(target, self._policy.for_elements())
        return self._encode(value, numbers, _Known(entries))

    def _encode(self, value: int, numbers: tuple[int, ...] | None, entries: Entries) -> int:
        """To codes, by arithmetic or else by the table."""
        if numbers is None:
            return self._lines.emit(op.ENCODE_TABLE, [value], [self._lines.table(entries)])
        return self._lines.emit(op.ENCODE, [value], [self._lines.parameters(numbers)])


@dataclasses.dataclass(frozen=True, eq=False)
class _Known:
    """A table that is there."""

    entries: np.ndarray

    def __call__(self, _: int) -> np.ndarray:
        return self.entries

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self.entries is other.entries
