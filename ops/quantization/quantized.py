"""Every op on quantized types, by means of ops on the stored integers or on the numbers they stand for.

`Op.kernel` comes here for any use with a quantized operand or result, so no other op knows of these types:

- An op that moves elements moves the stored integers, and so do regions their arguments.
- dot_general and convolution sum the integers exactly and round once, to the result's integers.
- Any other op is what the specification calls dequantize-op-quantize: the operands become numbers of the expressed
  type, the op is done on those, and its results are quantized. Of 8-bit types that is soon a table of all codes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import cast
from ..op import CORRECTLY_ROUNDED, Body, Call, Op, Run, for_quantized, lookup, op
from ..policy import Policy
from ..require import identity, require, require_shape
from ..tables import Tabulated
from ..types import ELEMENT_TYPES, ElementType, FutureType, QuantizedType, TensorType, TupleType, Type
from .quantization import along, beside, dequantizer, quantized_element, quantizer

_F64, _I64 = ELEMENT_TYPES["f64"], ELEMENT_TYPES["i64"]  #: of the scaled sums, and of the sums

#: Checks that compare numbers; the others compare what is stored.
_NEARNESS = frozenset(f"check.expect_{name}" for name in ("almost_eq", "almost_eq_const", "close"))
_PRODUCTS = frozenset(f"stablehlo.{name}" for name in ("dot_general", "dot", "convolution", "dynamic_conv"))
_COLLECTIVES = ("all_reduce", "reduce_scatter", "collective_reduce")


@op("uniform_quantize", "float", values="numbers", accuracy=CORRECTLY_ROUNDED, operands=1, is_elementwise=True)
def uniform_quantize(call: Call) -> Run:
    """The nearest integers of a quantized type (ties to even), within its limits; NaN is 0.

    As the specification computes it: x / scale + zero_point, both rounded to the expressed type, then clamped, then
    rounded to an integer. Of a quantized operand the numbers it stands for. (C1) The shape stays. (C2) The expressed
    type of the result is the operand's.
    """
    return _same_numbers(call)  # between numbers: `bind` below wraps it in the quantizing


@op("uniform_dequantize", "float", values="numbers", accuracy=CORRECTLY_ROUNDED, operands=1, is_elementwise=True)
def uniform_dequantize(call: Call) -> Run:
    """The numbers that quantized integers stand for: (q - zero_point) * scale.

    The difference is exact; it is rounded to the expressed type, and so is the product. (C1) The shape stays. (C2) The
    result is of the operand's expressed type.
    """
    return _same_numbers(call)


def _same_numbers(call: Call) -> Run:
    x, result = call.tensor(), call.result()
    require(x.element == result.element, f"numbers of {x.element} cannot become {result.element} (the same type)")
    require_shape(call, x.shape)
    return identity


@for_quantized
def bind(record: Op, call: Call) -> Run:
    """The kernel of a use of any op with quantized types. Raises OpError where the use is not valid."""
    for t in (*call.operands, *call.results):
        _check_axis(t)
    if _moves_integers(record, call):
        return record.bind(_stored_call(call))
    if record.values == "regions":
        return _of_regions(record, call)
    if record.name in _PRODUCTS and all(map(_is_quantized, (*call.operands[:2], *call.results))):
        return _product(record, call)
    kernel = _through_numbers(record, call)
    return _tabulate(record, call) if call.tables and _is_small(record, call) else kernel


def _check_axis(t: Type) -> None:
    """(C12), (C13) A dimension that is quantized by itself has a scale for each index."""
    if isinstance(t, TupleType | FutureType):
        for each in t.elements:
            _check_axis(each)
    elif isinstance(t, TensorType) and isinstance(t.element, QuantizedType) and t.element.axis is not None:
        axis, count = t.element.axis, len(t.element.scales)
        require(axis < len(t.shape), f"{t} has no dimension {axis} to be quantized along")
        require(t.shape[axis] in (count, None), f"{t} has {count} scales for dimension {axis} of size {t.shape[axis]}")


def _moves_integers(record: Op, call: Call) -> bool:
    if record.traits.selects_operand:  # between equal types the order of the integers is that of the numbers
        types = [t for t in (*call.operands, *call.results) if _is_quantized(t)]
        return len({t.element for t in types if isinstance(t, TensorType)}) == 1
    return record.values in ("codes", "checks") and record.name not in _NEARNESS


def _is_quantized(t: Type) -> bool:
    return isinstance(t, TensorType) and isinstance(t.element, QuantizedType)


def _is_small(record: Op, call: Call) -> bool:
    """Whether the result is a function of one or two codes of 8 bits."""
    elements = [t.element for t in (*call.operands, *call.results) if isinstance(t, TensorType)]
    return (
        record.is_elementwise
        and len(call.operands) in (1, 2)
        and len(elements) == len(call.operands) + 1
        and all(isinstance(e, QuantizedType) and e.dtype.itemsize == 1 for e in elements[:-1])
        and not any(isinstance(e, QuantizedType) and e.axis is not None for e in elements)
        and call.policy.rounding != "stochastic"
    )


def _to_storage(t: Type) -> Type:
    if isinstance(t, TupleType | FutureType):
        return type(t)(tuple(map(_to_storage, t.elements)))
    return dataclasses.replace(t, element=t.element.storage) if isinstance(t, TensorType) else t


def _with_types(call: Call, function: Callable[[Type], Type]) -> Call:
    operands, results = (tuple(map(function, types)) for types in (call.operands, call.results))
    return dataclasses.replace(call, operands=operands, results=results)


def _stored_call(call: Call) -> Call:
    """The use as one of the integers that are stored."""
    attributes = call.attributes
    value = attributes.get("value")
    if call.name == "stablehlo.constant" and isinstance(value, np.ndarray):
        # MLIR calls the storage of `u8` i8, and means the bits.
        dtype = call.result().element.dtype
        if value.dtype != dtype and value.dtype.kind in "iuV" and value.dtype.itemsize == dtype.itemsize:
            attributes = {**attributes, "value": value.view(dtype)}
    return dataclasses.replace(
        _with_types(call, _to_storage),
        attributes=attributes,
        bodies=tuple(map(_stored_body, call.bodies)),
        functions={n: dataclasses.replace(f, body=_stored_body(f.body)) for n, f in call.functions.items()},
    )


def _stored_body(body: Body) -> Body:
    types = (*body.arguments, *body.results)
    if not any(map(_is_quantized, types)):
        return body
    sole = lookup(body.sole_op) if body.sole_op else None
    keeps = sole is not None and sole.traits.selects_operand and len(set(types)) == 1
    return dataclasses.replace(
        body,
        arguments=tuple(map(_to_storage, body.arguments)),
        results=tuple(map(_to_storage, body.results)),
        sole_op=body.sole_op if keeps else None,
        sole_attributes=body.sole_attributes if keeps else {},
    )


def _of_regions(record: Op, call: Call) -> Run:
    """The regions take and give the integers that are stored; operands are quantized anew where theirs are of another
    type, as those of a reduction may be."""
    converts: list[Run] = []
    operands: list[Type] = []
    for index, t in enumerate(call.operands):
        taken = _taken_as(call, index)
        if isinstance(t, TensorType) and taken is not None and taken != t.element:
            fits = _is_quantized(t) and taken.expressed == t.element.expressed
            require(fits, f"the body takes {taken}, not {t.element}")
            target = dataclasses.replace(t, element=taken)
            dequantize, quantize = dequantizer(t, call), quantizer(target, call)
            converts.append(lambda x, d=dequantize, q=quantize: q(d(x)))
            operands.append(target)
        else:
            converts.append(identity)
            operands.append(t)
    kernel = record.bind(_stored_call(dataclasses.replace(call, operands=tuple(operands))))
    if all(c is identity for c in converts):
        return kernel
    return lambda regions, *values: kernel(regions, *(c(v) for c, v in zip(converts, values, strict=True)))


def _taken_as(call: Call, index: int) -> ElementType | None:
    """The element type that the body of a reduction takes an operand's elements as, None where it does not."""
    name = call.name.removeprefix("stablehlo.")
    arguments = call.bodies[-1].arguments if call.bodies else ()
    if name == "scatter":  # inputs, indices, updates
        place = index - (index > len(call.results)) if index != len(call.results) else -1
    else:
        place = index if name in ("reduce", "reduce_window") else 0 if name in _COLLECTIVES else -1
    t = arguments[place] if 0 <= place < len(arguments) else None
    return t.element if isinstance(t, TensorType) else None


def _through_numbers(record: Op, call: Call) -> Run:
    """dequantize_op_quantize, and hybrid_dequantize_then_op where only some of the types are quantized."""
    kernel = record.bind(_with_types(call, _to_expressed))
    before = [dequantizer(t, call) if isinstance(t, TensorType) else identity for t in call.operands]
    after = [quantizer(t, call) if isinstance(t, TensorType) else identity for t in call.results]
    if len(after) != 1:
        return lambda *values: _each(after, kernel(*_each(before, values)))
    return lambda *values: after[0](kernel(*_each(before, values)))


def _each(functions: list[Run], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([f(v) for f, v in zip(functions, values, strict=True)])


def _to_expressed(t: Type) -> Type:
    return dataclasses.replace(t, element=t.element.expressed) if isinstance(t, TensorType) else t


def _tabulate(record: Op, call: Call) -> Run:
    """The same of codes of 8 bits, wherever in a tensor they are, as a lookup table once that pays."""

    def of_open_size(t: Type) -> Type:
        return dataclasses.replace(t, shape=(None,)) if isinstance(t, TensorType) else t

    kernel = _through_numbers(record, _with_types(call, of_open_size))
    return Tabulated(kernel, [call.tensor(i).element for i in range(len(call.operands))], call.result().element.dtype)


def _product(record: Op, call: Call) -> Run:
    """Integers less their zero points, multiplied and summed exactly; the sum times the scales of the operands by that
    of the result is computed in f64, from the scales as they are written, and rounded once."""
    lhs, rhs, result = call.tensor(0), call.tensor(1), call.result()
    x, y, out = quantized_element(lhs), quantized_element(rhs), quantized_element(result)
    if x.axis is not None or max(x.bits, y.bits) > 16:
        return _through_numbers(record, call)
    require(x.expressed == y.expressed == out.expressed, f"expressed types {x}, {y} and {out} differ")
    (x_type, shift_x), (y_type, shift_y) = _shifter(lhs), _shifter(rhs)
    types = dataclasses.replace(lhs, element=x_type), dataclasses.replace(rhs, element=y_type), *call.operands[2:]
    sums = record.bind(dataclasses.replace(call, operands=types, results=(dataclasses.replace(result, element=_I64),)))

    rank, axis = len(result.shape), None if y.axis is None else axis_in_result(call, y.axis)
    factor = x.scales[0] * beside(y.scales, axis, rank, np.float64) / along(out.scales, result, np.float64)
    zero = along(out.zero_points, result, np.float64)
    low, high = float(out.storage_min), float(out.storage_max)

    def kernel(lhs: np.ndarray, rhs: np.ndarray, *others: np.ndarray) -> Any:
        total = sums(shift_x(lhs), shift_y(rhs), *others) * factor + zero
        numbers = np.rint(np.minimum(np.maximum(total, low), high))
        return np.asarray(cast(numbers, _F64, out.storage, Policy()))

    return kernel


def _shifter(t: TensorType) -> tuple[ElementType, Run]:
    """The integers less their zero points: of which type they are then, and how to get them."""
    element = quantized_element(t)
    if not any(element.zero_points):
        return element.storage, identity
    wide = ELEMENT_TYPES["i16" if element.bits <= 8 else "i32"]
    zero, dtype = along(element.zero_points, t, wide.dtype), wide.dtype
    return wide, lambda x: x.astype(dtype) - zero


def axis_in_result(call: Call, axis: int) -> int:
    """The dimension of the result that a dimension of rhs becomes."""
    name = call.name.removeprefix("stablehlo.")
    lhs, rhs = len(call.tensor(0).shape), len(call.tensor(1).shape)
    if name in ("convolution", "dynamic_conv"):
        numbers = call.attribute("dimension_numbers")
        outputs = numbers["kernel_output_feature_dimension"]
        require(axis == outputs, f"rhs is quantized along dimension {axis} (expected {outputs}, its output features)")
        return numbers["output_feature_dimension"]
    batching, contracting, lhs_contracting = (), (0,), (lhs - 1,)
    if name == "dot_general":
        numbers = call.structure("dot_dimension_numbers")
        keys = "rhs_batching_dimensions", "rhs_contracting_dimensions", "lhs_contracting_dimensions"
        batching, contracting, lhs_contracting = (tuple(numbers.get(k, ())) for k in keys)
    require(axis not in contracting, f"rhs is quantized along dimension {axis}, which is contracted")
    if axis in batching:
        return batching.index(axis)
    free = [d for d in range(rhs) if d not in (*batching, *contracting)]
    return lhs - len(lhs_contracting) + free.index(axis)
