"""Elementwise operations on minifloats, alone and in groups: lookups in tables that the exact arithmetic fills."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.minifloat.formats import Nan
from ...ops.op import Call, OpError, lookup
from ...ops.random_stream import RandomStream
from ...ops.tables import MOST_BITS, Tabulated, index_bits
from ...ops.traits import Run
from ...ops.types import ElementType, Kind, TensorType
from ..bodies import vectorize
from ..passes.fuse import TABLE
from ..program import Location, Operation, Value
from .draws import draw
from .rewrite import Emulation
from .rounding import decode_f32, exact_of_integer, round_float, round_number
from .rules import UI4, align, carrier, constant_of, element_of, emulates
from .tensor import F32, I8, UI8, UI16, UI32, UI64, Tensor, constant, where, write


def look_up(
    e: Emulation, entries: np.ndarray, result: ElementType, operands: Sequence[Tensor], types: Sequence[ElementType]
) -> Tensor:
    """Return the entries of a table for operands of the element types given, which may be scalars among arrays."""
    shape = next((x.shape for x in operands if x.shape), ())
    index: Tensor | None = None
    for x, element in zip(operands, types, strict=True):
        code = index_of(x, element).to(UI32)
        code = code if code.shape == shape else code.broadcast(shape)
        index = code if index is None else (index << index_bits(element)) | code
    assert index is not None
    stored = result if result.is_minifloat else _in_bytes(result.storage)
    return e.look(entries, stored, index).to(carrier(result))


def _in_bytes(element: ElementType) -> ElementType:
    """Return the type of eight bits for integers of fewer, else the type itself."""
    if element.bits >= 8 or element.kind not in (Kind.SIGNED, Kind.UNSIGNED):
        return element
    return I8 if element.kind is Kind.SIGNED else UI8


def index_of(x: Tensor, element: ElementType) -> Tensor:
    """Return the codes of elements of at most 16 bits, as integers without a sign."""
    if element.is_minifloat or element.kind is Kind.BOOL:
        return x
    if element.is_float:
        return x.bits(UI16)
    wide = x.to(_in_bytes(element.storage))
    return wide.bits(UI8 if wide.element.bits == 8 else UI16)


@emulates(TABLE)
def fused_group(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """A group of elementwise operations on 16 bits in all: one lookup."""
    compute = vectorize(operation.regions[0], {}, lambda o: kernel(e, o), reinterprets=True)
    assert compute is not None
    return [_tabulate(e, operation, lambda *x: compute(*x)[0], operands)]


@emulates("minihlo.elementwise", "real", "imag")
def elementwise(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """An elementwise operation on at most 16 bits in all."""
    elements = [element_of(v) for v in operation.operands]
    if sum(map(index_bits, elements)) > MOST_BITS:
        types = ", ".join(e.name for e in elements)
        raise OpError(f"expected operands of at most {MOST_BITS} bits in all, got {types}")
    if e.policy.rounding == "stochastic":
        return [_chosen(e, operation, operands, elements, element_of(operation.results[0]))]
    return [_tabulate(e, operation, kernel(e, operation), operands)]


def _tabulate(e: Emulation, operation: Operation, run: Run, operands: Sequence[Tensor]) -> Tensor:
    """Return an operation's results by a table of a function on arrays."""
    elements, target = [element_of(v) for v in operation.operands], element_of(operation.results[0])
    entries = e.remember(operation, lambda: Tabulated(run, elements, target.dtype).table())
    return look_up(e, entries, target, operands, elements)


@emulates("add", "subtract", "multiply")
def arithmetic(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Sums and products of two minifloats: in f32, and rounded once more.

    Products are exact there. Sums are rounded to 24 bits, at least twice those of a minifloat and two, so that the
    second rounding gives the bits of one (Figueroa, When is double rounding innocuous?, 1995).
    """
    element = element_of(operation.results[0])
    is_nearest = (e.policy.arithmetic, e.policy.rounding) == ("direct", "nearest_even")
    if not element.is_minifloat or not element.format.has_zero or not is_nearest:
        return elementwise(e, operation, operands)
    x, y = (decode_f32(v, element.format) for v in align(operands))
    found = x.elementwise(operation.name, x, y)
    if element.format.nan is not Nan.NEGATIVE_ZERO and operation.name != "stablehlo.multiply":
        # Compilers take the sum of -0 and a constant +0 for -0.
        other = y if operation.name == "stablehlo.add" else -y
        negative = (x.bits(UI32) & other.bits(UI32) & (1 << 31)).bits(F32)
        found = where(found.equals(0), negative, found)
    if element.format.nan in (Nan.IEEE, Nan.ALL_ONES):  # the sign is that of the first operand that is NaN
        found = where(found.differs(found), constant(np.nan, F32), found)
        found = where(x.differs(x), x, where(y.differs(y), y, found))
    return [round_float(found, element.format, e.policy)]


def kernel(e: Emulation, operation: Operation, random: Any = None) -> Run:
    """Return the interpreter's kernel of an elementwise operation on rows of any length."""
    record = lookup(operation.name)
    assert record is not None
    operands, results = (
        tuple([TensorType((None,), element_of(v)) for v in values])
        for values in (operation.operands, operation.results)
    )
    call = Call(operation.name, operands, results, operation.attributes, (), e.policy, random or RandomStream())
    function = record.function(dataclasses.replace(call, tables=False))

    def run(*arrays: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays))

    return run


# -- stochastic rounding -----------------------------------------------------------------------------------------------


class _Probe(RandomStream):
    """A stream whose draws round all up or none, and note the fractions that are cut off."""

    def __init__(self, up: bool) -> None:
        super().__init__()
        self._up, self.fraction, self.count = up, None, 0

    def draws(self, policy: Any) -> Any:  # noqa: ARG002
        return self

    def round_up(self, fraction: np.ndarray) -> np.ndarray:
        """Note the fractions, and decide for all elements alike."""
        self.fraction = np.array(fraction)
        self.count += 1
        return np.full(fraction.shape, self._up)


def choices(make: Callable[[Any], Run], elements: Sequence[ElementType], target: ElementType) -> tuple[np.ndarray, ...]:
    """Return what stochastic rounding chooses from, for all codes: below, above, and the fraction in 2**-62.

    `make` gives the kernel for a stream of random bits. The tuple has one entry where nothing is rounded.
    """
    entries = []
    fraction = None
    for up in (False, True):
        probe = _Probe(up)
        entries.append(Tabulated(make(probe), elements, target.dtype).table())
        fraction = probe.fraction
    if fraction is None or not fraction.any():
        return (entries[0],)
    return (*entries, fraction.reshape(-1).astype(np.uint64))


@emulates("minihlo.roundings")
def count_roundings(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Count the roundings of an elementwise operation that stays as it is, as the interpreter does."""
    probe, elements = _Probe(False), [element_of(v) for v in operation.operands]
    kernel(e, operation, probe)(*(np.zeros(1, t.dtype) for t in elements))
    e.roundings = e.roundings + probe.count if probe.count else e.roundings
    return ()


def _chosen(
    e: Emulation, operation: Operation, operands: Sequence[Tensor], elements: Sequence[ElementType], target: ElementType
) -> Tensor:
    """Return an operation's results under stochastic rounding."""
    tables = e.remember(operation, lambda: choices(lambda random: kernel(e, operation, random), elements, target))
    low, *others = tables
    below = look_up(e, low, target, operands, elements)
    if not others:
        return below
    above = look_up(e, others[0], target, operands, elements)
    fraction = look_up(e, others[1], UI64, operands, elements)
    return where(draw(e, below.shape) < fraction, above, below)


# -- operations with rules of their own --------------------------------------------------------------------------------


@emulates("convert")
def convert(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Conversions: of codes and of 16 bits by a table, of wider types by integers; complex ones by their real part."""
    (x,), (value,), (result,) = operands, operation.operands, operation.results
    source, target = element_of(value), element_of(result)
    if source.is_complex:
        part = x.elementwise("real", x, element=source.part)
        return [_to_codes(e, part, source.part, target)]
    if target.is_complex:
        return [operate(e, "convert", operands, [source], target.part).as_complex()]
    if index_bits(source) > MOST_BITS:
        return [_to_codes(e, x, source, target)]
    return elementwise(e, operation, operands)


def _to_codes(e: Emulation, x: Tensor, source: ElementType, target: ElementType) -> Tensor:
    """Return the codes of numbers of a wide type, rounded once."""
    draws = draw(e, x.shape) if e.policy.rounding == "stochastic" else None
    if source.is_float:
        return round_float(x, target.format, e.policy, draws).bits(carrier(target))
    return round_number(exact_of_integer(x), target.format, e.policy, draws)


@emulates("chlo.conj")
def conj(_: Emulation, __: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Real numbers as they are."""
    return operands


@emulates("chlo.constant_like")
def constant_like(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """One number in the shape of the operand."""
    element = element_of(operation.results[0])
    value = np.asarray(operation.attributes["value"]).astype(element.dtype)
    return [constant_of(value, element, operands[0].shape)]


@emulates("select")
def select(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Codes of one operand or the other; a scalar chooses the whole."""
    condition, x, y = operands
    shape = x.shape or y.shape or condition.shape
    condition, x, y = (v if v.shape == shape else v.broadcast(shape) for v in (condition, x, y))
    return [where(condition, x, y)]


@emulates("clamp")
def clamp(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """Not below min, and then not above max: two lookups."""
    low, x, high = operands
    element = element_of(operation.results[0])
    least = operate(e, "maximum", [x, low], [element, element], element)
    return [operate(e, "minimum", [least, high], [element, element], element)]


def operate(
    e: Emulation, name: str, operands: Sequence[Tensor], types: Sequence[ElementType], result: ElementType
) -> Tensor:
    """Write an elementwise operation of StableHLO on minifloats, whose codes `operands` are."""
    shape = max((x.shape for x in operands), key=len)
    values = tuple([Value(TensorType(x.shape, t)) for x, t in zip(operands, types, strict=True)])
    gives = (Value(TensorType(shape, result)),)
    operation = Operation(f"stablehlo.{name}", values, gives, {}, (), Location("", 0, 0))
    (found,) = e.write(operation, operands)
    return found


@emulates("bitcast_convert")
def bitcast_convert(e: Emulation, operation: Operation, operands: Sequence[Any]) -> Sequence[Any]:
    """The same bits. Codes of four bits are packed as such; of six bits they stay codes."""
    (x,), (value,), (result,) = operands, operation.operands, operation.results
    source, target = element_of(value), element_of(result)
    if source.bits == target.bits == 6:
        return [x]
    if 6 in (source.bits, target.bits):
        raise OpError(f"expected six bits that stay together, got {source} and {target}")
    shape = tuple([int(n or 0) for n in result.type.shape]) if isinstance(result.type, TensorType) else ()
    x = x.to(UI4) if source.is_float and source.bits == 4 else x
    native = (UI4 if target.bits == 4 else UI8) if target.is_minifloat else target.storage
    found = write("bitcast_convert", native, shape, x) if (x.element, x.shape) != (native, shape) else x
    return [found.to(UI8) if target.is_minifloat else found]
