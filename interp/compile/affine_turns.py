"""Which turns of a recurrence are affine in their state over integers, and whether numbers at hand keep to it.

A turn is followed op by op. Its values depend on the state, or on rows and constants alone, which are *free* here; for
each ring a few ops keep a value affine in the state. What the step is follows later from the numbers it gives. Bitwise
operations on wrapping integers are affine where the bits below are known, see `bit_windows.py`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.engine.fast.divisions import FLOORED
from ...ops.op import lookup
from ...ops.types import ElementType, Kind, TensorType
from ..program import Operation, Region, Value
from .bit_windows import DROPPED, Pattern, effects
from .group import Function
from .source.intervals import ATOM, Part, bounds, range_of


class Ring(enum.Enum):
    """The ring over which a turn is affine."""

    BITS = "the bits of the state"
    SUM = "integers modulo a power of two"
    MODULO = "integers modulo another number"


@dataclasses.dataclass(frozen=True)
class Step:
    """What is known of a turn that is affine.

    modulus: what states are reduced by. varies: the factor depends on the rows. patterns: what bitwise operations do.
    """

    ring: Ring
    modulus: int
    varies: bool = False
    patterns: frozenset[Pattern] = frozenset()


@dataclasses.dataclass(frozen=True, eq=False)
class Affine:
    """A recurrence of one number that is affine in it.

    bits: those of the state's type. kept: for each result 0 if it is the state before a turn, 1 if after, None if it is
    something else.
    """

    step: Step
    bits: int
    function: Function
    kept: tuple[int | None, ...]
    constants: Mapping[Value, Any]


@dataclasses.dataclass(frozen=True)
class _Bits:
    """A value that is affine in the state's bits: those that may be set, and what it is but for constant bits."""

    mask: int
    root: object
    flipped: int = 0


@dataclasses.dataclass(frozen=True)
class _Sum:
    """A value each bit of which depends on no higher bits of the state, and on its lowest `depth` bits alone."""

    depth: int = 0
    varies: bool = False
    patterns: frozenset[Pattern] = frozenset()


def step_of(turn: Region, constants: Mapping[Value, Any]) -> Step | None:
    """What is known of a turn of one state that is affine in it; else None."""
    state, result = turn.arguments[0], turn.returns[0]
    bits = _element(state).bits
    whole = 1 << bits
    found = _followed(turn, constants, _bits_of, _Bits(whole - 1, state))
    if isinstance(found, _Bits):
        return Step(Ring.BITS, whole)
    rows = {v: i for i, v in enumerate(turn.arguments[1:])}
    found = _followed(turn, constants, lambda o, v, n: _sum_of(o, v, n, rows), _Sum(bits))
    if isinstance(found, _Sum):
        return Step(Ring.SUM, whole, found.varies, found.patterns)
    made = {r: o for o in turn.operations for r in o.results}.get(result)
    modulus = None if made is None else _modulus(made, constants)
    if modulus is None or not 1 < modulus < 1 << 31:
        return None
    assert made is not None
    inner = Region(turn.arguments, turn.operations, (made.operands[0],))
    found = _followed(inner, constants, lambda o, v, n: _exact_of(o, v, n, modulus), _Sum())
    return Step(Ring.MODULO, modulus) if isinstance(found, _Sum) else None


#: What an op gives where some operands are affine: from it, what is known of its operands (None of free ones), and the
#: number of each that is a constant; None where it is not affine.
_Rule = Callable[[Operation, Sequence[Any], Sequence[int | None]], Any]


def _followed(turn: Region, constants: Mapping[Value, Any], rule: _Rule, state: Any) -> Any:
    """What is known of the first result; None where it is free, False where it is not affine."""
    known: dict[Value, Any] = {turn.arguments[0]: state}
    for operation in turn.operations:
        values = [known.get(v) for v in operation.operands]
        if all(v is None for v in values) or len(operation.results) != 1:
            continue
        numbers = [_number(v, constants) for v in operation.operands]
        known[operation.results[0]] = False if False in values else rule(operation, values, numbers) or False
    return known.get(turn.returns[0])


def _element(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def _number(value: Value, constants: Mapping[Value, Any]) -> int | None:
    array = constants.get(value)
    if array is None or not isinstance(value.type, TensorType) or value.type.element.is_float:
        return None
    return int(np.asarray(array).reshape(-1)[0])


def _short(operation: Operation) -> str:
    return operation.name.removeprefix("stablehlo.")


# -- bits --------------------------------------------------------------------------------------------------------------


def _bits_of(operation: Operation, values: Sequence[_Bits | None], numbers: Sequence[int | None]) -> _Bits | None:
    name, element, result = _short(operation), _element(operation.operands[0]), operation.results[0]
    full = (1 << _element(result).bits) - 1
    new = lambda mask: _Bits(mask & full, result)  # noqa: E731
    if name == "select":
        return _chosen(values, numbers, full, result)
    if name == "not":
        x = values[0]
        return _Bits(full, x.root, x.flipped ^ full) if x is not None else None
    if name == "convert" and not _element(result).is_float and not _element(result).is_complex:
        return _converted(values[0], element, _element(result), result)  # type: ignore[arg-type]
    if name == "negate":
        x = values[0]
        return new(full) if x is not None and x.mask == 1 else None
    if len(values) != 2:
        return None
    if name == "compare":
        return _compared(operation, values, numbers, element)
    (x, y), (_, c) = values, numbers
    if x is not None and y is not None:
        if name == "xor" or (name in ("or", "add") and not x.mask & y.mask):
            return new(x.mask | y.mask)
        return None
    if x is None:
        if name in ("subtract", "shift_left", "shift_right_logical", "shift_right_arithmetic"):
            return None
        (y, x), c = (x, y), numbers[0]
    assert x is not None
    if name == "xor":
        return new(full) if c is None else _Bits((x.mask | c) & full, x.root, x.flipped ^ (c & full))
    if c is None:
        return None
    bits = element.bits
    if name == "and":
        return new(x.mask & c)
    if name == "or" or (name == "add" and not x.mask & c):
        return new(x.mask | c)
    if name == "multiply" and x.mask == 1:
        return new(c)
    if not 0 <= c < bits:
        return None
    if name == "shift_left":
        return new(x.mask << c)
    if name == "shift_right_logical" or (name == "shift_right_arithmetic" and not x.mask >> (bits - 1)):
        return new(x.mask >> c)
    return new(full) if name == "shift_right_arithmetic" else None


def _chosen(values: Sequence[_Bits | None], numbers: Sequence[int | None], full: int, result: Value) -> _Bits | None:
    """A select of values that differ by bits that are constant, or free if the test is."""
    test, x, y = values
    if x is not None and y is not None:
        return _Bits(x.mask | y.mask, result) if x.root is y.root else None
    if test is not None and numbers[1] is not None and numbers[2] is not None:
        return _Bits((numbers[1] | numbers[2]) & full, result)
    return None


def _converted(x: _Bits, source: ElementType, target: ElementType, result: Value) -> _Bits | None:
    full = (1 << target.bits) - 1
    if target.kind is Kind.BOOL and source.kind is not Kind.BOOL:
        return _Bits(1, result) if x.mask & (x.mask - 1) == 0 else None
    if not (source.is_integer or source.kind is Kind.BOOL):
        return None
    is_extended = source.kind is Kind.SIGNED and x.mask >> (source.bits - 1) and target.bits > source.bits
    return _Bits(full if is_extended else x.mask & full, result)


def _compared(
    operation: Operation, values: Sequence[_Bits | None], numbers: Sequence[int | None], element: ElementType
) -> _Bits | None:
    """A comparison that looks at one bit."""
    direction, (x, _), (_, c) = operation.attributes["comparison_direction"], values, numbers
    if x is None or c is None:
        return None
    full = (1 << element.bits) - 1
    if direction in ("EQ", "NE"):
        return _Bits(1, operation.results[0]) if x.mask & (x.mask - 1) == 0 and c & full in (0, x.mask) else None
    is_sign = element.kind is Kind.SIGNED and (direction, c) in (("LT", 0), ("GE", 0), ("LE", -1), ("GT", -1))
    return _Bits(1, operation.results[0]) if is_sign else None


# -- sums --------------------------------------------------------------------------------------------------------------


def _sum_of(
    operation: Operation, values: Sequence[_Sum | None], numbers: Sequence[int | None], rows: Mapping[Value, int]
) -> _Sum | None:
    name, t = _short(operation), _element(operation.results[0])
    if not t.is_integer or t.bits < 8:
        return None
    known = [v for v in values if v is not None]
    depths = [v.depth for v in known]
    merged = frozenset[Pattern]().union(*(v.patterns for v in known))
    found = _Sum(min(max(depths), t.bits), any(v.varies for v in known), merged)
    if name in ("add", "subtract", "negate", "not"):
        return found
    if name == "multiply" and len(known) == 1:
        is_constant = any(n is not None for n in numbers)
        return found if is_constant else dataclasses.replace(found, varies=True)
    if name == "multiply":
        return _with(found, Pattern(min(depths)), varies=True)
    if name == "shift_left" and values[1] is None and numbers[1] is not None and 0 <= numbers[1] < t.bits:
        return found
    if name == "select" and values[0] is None:
        return dataclasses.replace(found, varies=True)
    if name == "convert":
        source = _element(operation.operands[0]).bits
        return found if t.bits <= source else _with(found, Pattern(t.bits, operator.and_, (1 << source) - 1))
    record = lookup(operation.name)
    of_bits = None if record is None else record.traits.of_bits
    if of_bits is not None:
        number = next((n for n in numbers if n is not None), None)
        row = next((rows[v] for v in operation.operands if v in rows), None)
        if len(known) == 1 and number is not None:
            return _masked(found, of_bits, t.bits, number)
        is_row = len(known) == 1 and row is not None
        pattern = Pattern(t.bits, of_bits, row=row) if is_row else Pattern(t.bits)
        return (
            _with(found, pattern, varies=not is_row or DROPPED in effects(of_bits))
            if is_row or len(known) == 2
            else None
        )
    by = _modulus(operation, {}, numbers) if name == "remainder" and values[1] is None else None
    return None if by is None or by & (by - 1) else _masked(found, operator.and_, t.bits, by - 1)


def _with(found: _Sum, pattern: Pattern, varies: bool = False) -> _Sum:
    return dataclasses.replace(found, varies=found.varies or varies, patterns=found.patterns | {pattern})


def _masked(found: _Sum, of_bits: Callable[[int, int], int], bits: int, number: int) -> _Sum:
    clears = effects(of_bits)[0] == DROPPED  # what stands above the number
    depth = (number % (1 << bits)).bit_length() if clears else bits
    return dataclasses.replace(_with(found, Pattern(bits, of_bits, number)), depth=min(found.depth, depth))


def _exact_of(
    operation: Operation, values: Sequence[_Sum | None], numbers: Sequence[int | None], modulus: int
) -> _Sum | None:
    """The same without wrapping, which `fits` sees to."""
    name = _short(operation)
    if name == "remainder":
        is_same = values[1] is None and _modulus(operation, {}, numbers) == modulus
        return values[0] if is_same else None
    known = [v for v in values if v is not None]
    if name in ("add", "subtract", "negate"):
        return known[0]
    return known[0] if name == "multiply" and len(known) == 1 and any(n is not None for n in numbers) else None


def _modulus(
    operation: Operation, constants: Mapping[Value, Any], numbers: Sequence[int | None] | None = None
) -> int | None:
    """The constant by which the remainder is that of floored division."""
    if _short(operation) != "remainder" or not _element(operation.results[0]).is_integer:
        return None
    d = _number(operation.operands[1], constants) if numbers is None else numbers[1]
    is_floored = FLOORED in operation.attributes or _element(operation.results[0]).kind is Kind.UNSIGNED
    return d if is_floored and d is not None and d > 0 else None


def fits(turn: Region, constants: Mapping[Value, Any], start: np.ndarray, rows: Sequence[np.ndarray]) -> bool:
    """Whether no number of a turn that is affine modulo some number leaves its type, as ranges of its rows tell."""
    made = {r: o for o in turn.operations for r in o.results}[turn.returns[0]]
    modulus = _number(made.operands[1], constants)
    assert modulus is not None
    ranges: dict[Value, tuple[float, float]] = {turn.arguments[0]: (min(0, int(start)), max(modulus - 1, int(start)))}
    for argument, row in zip(turn.arguments[1:], rows, strict=True):
        if row.dtype.kind in "iu":
            ranges[argument] = int(row.min()), int(row.max())
    for operation in turn.operations:
        operands = []
        for v in operation.operands:
            c = _number(v, constants)
            operands.append((c, c) if c is not None else ranges.get(v))
        found = None if None in operands else _range(operation, operands)  # type: ignore[arg-type]
        if found is not None:
            low, high = range_of(_element(operation.results[0]))
            if found[0] < low or found[1] > high:
                return False
            ranges[operation.results[0]] = found
        if operation is made:
            return found is not None
    return False


#: What Python writes for operations on integers that do not wrap.
_WRITTEN = {"add": ast.Add(), "subtract": ast.Sub(), "multiply": ast.Mult(), "remainder": ast.Mod()}


def _range(operation: Operation, operands: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The range of a result before it is brought into its type's; None where nothing is known of it."""
    name = _short(operation)
    if name == "negate":
        name, operands = "subtract", ((0, 0), *operands)
    x, y = (Part("", ATOM, *operands[i]) for i in (0, -1))
    if name not in _WRITTEN or (name == "remainder" and _modulus(operation, {}, (None, y.constant)) is None):
        return None
    low, high = bounds(_WRITTEN[name], x, y)
    return (low, high) if -math.inf < low and high < math.inf else None
