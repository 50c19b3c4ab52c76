"""Single numbers in generated source: integers, booleans and codes are Python's own, wider floats numpy's scalars.

A turn of a loop with a few ops on single numbers then costs a fraction of a microsecond, where calls of kernels on
arrays of rank 0 would cost several. What there is no expression for is done by the op's kernel. Measured: 10,000 turns
of 5 ops on integers 37 ms as calls, 2.6 ms so.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.cast import code_table
from ...ops.engine.fast.divisions import FLOORED
from ...ops.policy import Policy
from ...ops.traits import Kernel, Scalar
from ...ops.types import ELEMENT_TYPES, ElementType, Kind, QuantizedType, TensorType, Type

#: Gives an object a name in the source.
NameOf = Callable[[Any], str]

_BOOLS = (np.False_, np.True_)


@dataclasses.dataclass(frozen=True)
class Form:
    """How single numbers of an element type are held; `boxed` and `unboxed` are to and from arrays of rank 0."""

    element: ElementType

    @functools.cached_property
    def _cells(self) -> list[np.ndarray]:
        """The arrays of the numbers of a type of few bits, by their code."""
        codes = np.arange(1 << self.element.bits)
        if self.element.is_float:
            cells = codes.astype(np.uint8).view(self.element.dtype)
        else:
            half = len(codes) // 2 if self.element.kind is Kind.SIGNED else len(codes)
            cells = np.where(codes < half, codes, codes - len(codes)).astype(self.element.dtype)
        return [cells[i, ...] for i in range(len(codes))]

    def boxed(self, name: str, name_of: NameOf) -> str:
        """The expression of an array of rank 0 with the number of that name."""
        element = self.element
        if element.kind is Kind.BOOL:
            return f"{name_of(_BOOLS)}[{name}]"
        if element.is_minifloat:
            return f"{name_of(self._cells)}[{name}]"
        if element.name == "f16":
            return f"{name_of(np.asarray)}({name})"
        if element.is_float:
            return name
        if element.bits < 8:
            return f"{name_of(self._cells)}[{name} & {(1 << element.bits) - 1}]"
        return f"{name_of(element.dtype.type)}({name})"

    def unboxed(self, name: str) -> str:
        """The expression of the number in the array of that name."""
        element = self.element
        if element.kind is Kind.BOOL:
            return f"True if {name} else False"
        if element.is_minifloat:
            return f"{name}.tobytes()[0]"
        if element.is_float:
            return f"{name}[()]"
        return f"int({name})" if element.bits < 8 else f"{name}.item()"

    def literal(self, value: Any, name_of: NameOf) -> str:
        """A constant."""
        value = np.asarray(value)
        if self.element.kind is Kind.BOOL:
            return str(bool(value))
        if self.element.is_minifloat:
            return str(value.tobytes()[0])
        return name_of(value[()]) if self.element.is_float else f"({int(value)})"


@functools.cache
def _form(element: ElementType) -> Form | None:
    if element.is_complex or isinstance(element, QuantizedType) or element.name == "bf16":
        return None
    return Form(element)


def form(t: Type) -> Form | None:
    """How values of a type are held as plain numbers; None where they are not."""
    return _form(t.element) if isinstance(t, TensorType) and t.shape == () else None


# -- expressions -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Use:
    """A use of an op on plain numbers: the element types, and the names of the operands."""

    operands: Sequence[ElementType]
    result: ElementType
    names: Sequence[str]
    attributes: Mapping[str, Any]
    policy: Policy
    kernel: Kernel
    name_of: NameOf


def expression(name: str, use: Use) -> str | None:
    """An op as an expression, None where there is none."""
    short, element = name.removeprefix("stablehlo."), use.operands[0] if use.operands else use.result
    if short == "convert":
        return _convert(use, element, use.result)
    if short == "compare":
        return _compare(use, element)
    scalar = use.kernel.traits.scalar
    if scalar is not None and scalar.any_type is not None:
        return scalar.any_type.format(*use.names)
    if element.is_float and element.is_minifloat:
        return _by_code(use)
    if scalar is None or use.result != element:
        return None
    if element.kind is Kind.BOOL:
        return scalar.boolean and scalar.boolean.format(*use.names)
    if element.is_integer:
        return _integer(use, scalar, element)
    if element.name == "f16" and use.policy != Policy():
        return None
    if scalar.wide is not None and element.bits < 64:
        rounded = _rounded_once(scalar.wide, use.kernel, element, len(use.names))
        return f"{use.name_of(rounded)}({', '.join(use.names)})"
    return scalar.floating and scalar.floating.format(*use.names)


def _integer(use: Use, scalar: Scalar, element: ElementType) -> str | None:
    if FLOORED in use.attributes:
        return scalar.floored and scalar.floored.format(*use.names)
    text, half = scalar.integer, 1 << (element.bits - 1)
    if scalar.unsigned is not None and element.kind is Kind.UNSIGNED:
        text = scalar.unsigned
    elif scalar.by_positive is not None and re.fullmatch(r"\([1-9]\d*\)", use.names[-1]):
        text = scalar.by_positive
    text = text and text.format(*use.names, bits=element.bits, half=half, mask=2 * half - 1)
    return _wrapped(text, element) if text and scalar.wraps else text


#: What a result in f64 may be too small or too large by, relatively: 16 units in its last place.
_LOW, _HIGH = 1 - 2.0**-48, 1 + 2.0**-48


def _rounded_once(wide: Callable[..., float], kernel: Kernel, element: ElementType, arity: int) -> Callable[..., Any]:
    """A function of f32 or f16, correctly rounded: in f64 if its error cannot decide, else by the kernel."""
    # Its product with a float of Python is that one rounded, in a third of the time of a conversion.
    one = element.dtype.type(1)

    def exact(*numbers: Any) -> Any:
        return kernel(*map(np.asarray, numbers))[()]

    def of_one(number: Any) -> Any:
        try:
            x = wide(float(number))
        except (ValueError, ArithmeticError):
            return exact(number)
        result = one * (x * _LOW)
        return result if result == one * (x * _HIGH) else exact(number)

    def of_two(number: Any, other: Any) -> Any:
        try:
            x = wide(float(number), float(other))
        except (ValueError, ArithmeticError):
            return exact(number, other)
        result = one * (x * _LOW)
        return result if result == one * (x * _HIGH) else exact(number, other)

    return of_one if arity == 1 else of_two


def _wrapped(text: str, element: ElementType) -> str:
    """An integer brought into the range of its type."""
    mask = (1 << element.bits) - 1
    if element.kind is Kind.UNSIGNED:
        return f"{text} & {mask}"
    half = 1 << (element.bits - 1)
    return f"({text} + {half} & {mask}) - {half}"


_COMPARED = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}


def _compare(use: Use, element: ElementType) -> str | None:
    if element.is_minifloat:
        return _by_code(use)
    direction = use.attributes["comparison_direction"]
    if element.is_float and use.attributes.get("compare_type") == "TOTALORDER":
        return _compare_all(use, direction)
    text = f"{use.names[0]} {_COMPARED[direction]} {use.names[1]}"
    return f"True if {text} else False" if element.is_float else text


def _compare_all(use: Use, direction: str) -> str:
    """A comparison in the total order: what is neither less nor greater is left to the kernel."""
    (x, y), kernel = use.names, use.kernel

    def equal(x: Any, y: Any) -> bool:
        return bool(kernel(np.asarray(x), np.asarray(y)))

    less, greater = direction in ("LT", "LE", "NE"), direction in ("GT", "GE", "NE")
    return f"{less} if {x} < {y} else {greater} if {x} > {y} else {use.name_of(equal)}({x}, {y})"


def _by_code(use: Use) -> str | None:
    """A lookup by codes."""
    if use.kernel.of_codes is None or not (use.result.is_minifloat or use.result.kind is Kind.BOOL):
        return None
    return f"{use.name_of(use.kernel.of_codes)}({', '.join(use.names)})"


def _convert(use: Use, source: ElementType, target: ElementType) -> str | None:
    (x,) = use.names
    if source == target:
        return x
    if source.is_float and not source.is_minifloat:
        return _convert_float(use, source, target)
    if source.is_minifloat or (target.is_float and not (source.is_integer and source.bits > 8)):
        return _convert_byte(use, source, target)
    if target.kind is Kind.BOOL:
        return f"{x} != 0"
    if target.is_integer:
        return f"+{x}" if source.kind is Kind.BOOL else _wrapped(x, target)
    if target.is_complex or target.is_minifloat or use.policy != Policy():
        return None
    # numpy goes by f64, which holds all integers of 32 bits.
    exact = source.bits <= 32 or target.bits == 64
    return f"{use.name_of(target.dtype.type)}({x})" if exact and target.bits >= 32 else None


def _convert_byte(use: Use, source: ElementType, target: ElementType) -> str | None:
    """From a type of few elements, which the kernel is asked about once."""
    held = form(TensorType((), target))
    if held is None or use.policy.rounding == "stochastic":
        return None
    codes = np.arange(2 if source.kind is Kind.BOOL else 256, dtype=np.uint8)
    cells = codes != 0 if source.kind is Kind.BOOL else codes.view(source.dtype)
    if source.is_float:
        cells = (codes & ((1 << source.bits) - 1)).view(source.dtype)
    with np.errstate(all="ignore"):
        results = [np.asarray(use.kernel(cells[i, ...])) for i in range(len(codes))]
    (x,) = use.names
    index = x if source.is_float or source.kind is not Kind.SIGNED else f"{x} & 255"
    if target.kind is Kind.BOOL:
        return f"{use.name_of([bool(r) for r in results])}[{index}]"
    if target.is_minifloat:
        return f"{use.name_of(b''.join(r.tobytes() for r in results))}[{index}]"
    if source.kind is Kind.BOOL and target.is_float:
        return f"{use.name_of(tuple(r[()] for r in results))}[+{x}]"  # which compiled code knows too
    return f"{use.name_of([r[()] if target.is_float else int(r) for r in results])}[{index}]"


def _convert_float(use: Use, source: ElementType, target: ElementType) -> str | None:
    (x,) = use.names
    if target.is_float and (target.bits >= 32 or target.name == "f16") and use.policy == Policy():
        return f"{use.name_of(target.dtype.type)}({x})"
    if source.name == "f32" and target.is_minifloat and target.format.precision <= 6:
        if use.policy.rounding == "stochastic":
            return None
        codes = code_table(ELEMENT_TYPES["bf16"], target, use.policy).tobytes()

        def encode(x: np.float32) -> int:
            u = int.from_bytes(x.tobytes(), "little")
            return codes[u >> 16 | (u & 0xFFFF != 0)]

        return f"{use.name_of(encode)}({x})"
    if target.is_integer and source.bits >= 32:
        # Truncated, with NaN as 0 and the rest at the ends of the range, as `engine/cast.py` has it.
        high = (1 << (target.bits - (target.kind is Kind.SIGNED))) - 1
        low = -high - 1 if target.kind is Kind.SIGNED else 0
        return f"int({x}) if {low - 1} < {x} < {high + 1} else {low} if {x} < 0 else {high} if {x} > 0 else 0"
    return None
