"""How values of any element type travel to a backend and back: as arrays of types that numpy has itself.

| element type | travels as | in the program |
|---|---|---|
| f8…, f16, bf16, f32, f64 | its codes, unsigned integers | bitcast_convert |
| f4E2M1FN | its codes, `ui8` | convert from `ui4`, bitcast_convert |
| six bits | its numbers, `f32`: no integer has six bits | convert |
| i2, i4, ui2, ui4 | its numbers, `i8` or `ui8` | convert |
| complex | its real and its imaginary part, two arrays | complex; real, imag |
| i1, other integers | as it is | |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxlib.mlir import ir

from ..ops.types import ELEMENT_TYPES, ElementType, Kind, TensorType


def carrier(element: ElementType) -> ElementType:
    """The type that an element, or a part of it, travels as."""
    e = element.part
    if e.is_float and e.bits == 6:
        return ELEMENT_TYPES["f32"]
    if e.is_float:
        return ELEMENT_TYPES[f"ui{max(e.bits, 8)}"]
    if e.kind is Kind.BOOL or e.bits >= 8:
        return e
    return ELEMENT_TYPES["i8" if e.kind is Kind.SIGNED else "ui8"]


def count(element: ElementType) -> int:
    """How many arrays a value travels as."""
    return 2 if element.is_complex else 1


def pack(array: np.ndarray, element: ElementType) -> list[np.ndarray]:
    """The arrays that an array travels as."""
    parts = [np.real(array), np.imag(array)] if element.is_complex else [array]
    return [_pack(np.asarray(part, order="C"), element.part) for part in parts]


def _pack(array: np.ndarray, element: ElementType) -> np.ndarray:
    if element.is_float and element.bits != 6:
        return array.view(element.format.code_dtype)
    return array.astype(carrier(element).dtype, copy=False)


def unpack(arrays: Iterator[np.ndarray], element: ElementType) -> np.ndarray:
    """The array that the next ones of `arrays` represent."""
    first = _unpack(np.asarray(next(arrays)), element.part)
    if not element.is_complex:
        return first
    result = np.empty(first.shape, element.dtype)
    result.real, result.imag = first, _unpack(np.asarray(next(arrays)), element.part)
    return result


def _unpack(array: np.ndarray, element: ElementType) -> np.ndarray:
    if element.is_float and element.bits != 6:
        return np.ascontiguousarray(array).view(element.dtype).reshape(array.shape)
    return array.astype(element.dtype)


# -- in a program; these create ops at the insertion point -------------------------------------------------------------


def parameter_types(t: TensorType) -> list[ir.Type]:
    """The types of the arrays that a value of type `t` travels as."""
    return [tensor(t, carrier(t.element))] * count(t.element)


def receive(values: Sequence[ir.Value], t: TensorType) -> ir.Value:
    """Return the value of type `t` that was sent as `values`; ops that make it are inserted."""
    parts = [_receive(v, t, t.element.part) for v in values]
    return _op("stablehlo.complex", parts, t, t.element) if t.element.is_complex else parts[0]


def _receive(value: ir.Value, t: TensorType, e: ElementType) -> ir.Value:
    if e.is_float and e.bits == 4:
        value = _op("stablehlo.convert", [value], t, ELEMENT_TYPES["ui4"])
    if carrier(e) == e:
        return value
    how = "bitcast_convert" if e.is_float and e.bits != 6 else "convert"
    return _op(f"stablehlo.{how}", [value], t, e)


def send(value: ir.Value, t: TensorType) -> list[ir.Value]:
    """Return the values that a value of type `t` is sent to a backend as; ops that make them are inserted."""
    if t.element.is_complex:
        parts = [_op(f"stablehlo.{part}", [value], t, t.element.part) for part in ("real", "imag")]
        return [_send(p, t, t.element.part) for p in parts]
    return [_send(value, t, t.element)]


def _send(value: ir.Value, t: TensorType, e: ElementType) -> ir.Value:
    target = carrier(e)
    if e.is_float and e.bits == 4:
        value, e = _op("stablehlo.bitcast_convert", [value], t, ELEMENT_TYPES["ui4"]), ELEMENT_TYPES["ui4"]
    if target == e:
        return value
    how = "bitcast_convert" if e.is_float and e.bits != 6 else "convert"
    return _op(f"stablehlo.{how}", [value], t, target)


def tensor(t: TensorType, element: ElementType) -> ir.Type:
    """The type of MLIR with the shape of `t`."""
    shape = [ir.ShapedType.get_dynamic_size() if d is None else d for d in t.shape]
    return ir.RankedTensorType.get(shape, ir.Type.parse(element.name))


def _op(name: str, values: Sequence[ir.Value], t: TensorType, target: ElementType) -> ir.Value:
    return ir.Operation.create(name, results=[tensor(t, target)], operands=list(values)).results[0]
