"""Inserts formats before products: rewrites a program so that its matmuls take operands rounded to chosen formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.targets import DEQUANTIZE, QUANTIZE
from ...ops.minifloat.formats import FORMATS
from ...ops.op import call_attribute, traits_of
from ...ops.traits import RegionSemantics
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..blocks.checks import block_axes
from ..program import CONSTANT, Function, Location, Operation, Program, Region, Value
from .statistics import range_of

_F64 = ELEMENT_TYPES["f64"]


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The rounding of an operand: a format, with the exponent k of the scale 2^k of a whole tensor; 0 for blocks."""

    format: str
    scale: int = 0


#: For some products the rounding of each operand, None if it is unchanged.
Choices = Mapping[Operation, Sequence[Rounding | None]]


def bits_of(name: str) -> float:
    """Bits of an element in a format, including its part of the scale of a block."""
    if name in BLOCK_FORMATS:
        fmt = BLOCK_FORMATS[name]
        return fmt.bits / fmt.size
    return float(FORMATS[name].bits)


def products(program: Program, function: Function) -> list[Operation]:
    """The products of matrices that a function reaches, in the order of the text: dots and convolutions of floats."""
    found: list[Operation] = []
    entered: set[str] = set()

    def enter(reached: Function) -> None:
        if reached.name not in entered and reached.body is not None:
            entered.add(reached.name)
            visit(reached.body)

    def visit(region: Region) -> None:
        for operation in region.operations:
            if _is_product(operation):
                found.append(operation)
            attribute = call_attribute(operation.name)
            callee = program.functions.get(str(operation.attributes.get(attribute))) if attribute else None
            if callee is not None:
                enter(callee)
            if traits_of(operation.name).regions is not RegionSemantics.ELEMENTS:
                for inner in operation.regions:
                    visit(inner)

    enter(function)
    return found


def _is_product(operation: Operation) -> bool:
    types = [v.type for v in (*operation.operands, *operation.results)]
    return (
        traits_of(operation.name).terms is not None
        and len(operation.operands) == 2
        and all(isinstance(t, TensorType) and t.is_static and t.element.is_float for t in types)
    )


def summed_axis(operation: Operation, operand: int) -> int:
    """The dimension of an operand along which products are summed: the last of these, or the features."""
    numbers = operation.attributes.get("dot_dimension_numbers")
    if isinstance(numbers, Mapping):
        axes = numbers.get(f"{('lhs', 'rhs')[operand]}_contracting_dimensions", ())
        return int(axes[-1]) if len(axes) else -1
    numbers = operation.attributes.get("dimension_numbers")
    if isinstance(numbers, Mapping):
        return int(numbers[("input_feature_dimension", "kernel_input_feature_dimension")[operand]])
    return -1


def rewrite(program: Program, choices: Choices) -> Program:
    """The program with operands of products rounded to formats and brought back to their own types."""
    functions = {
        name: f if f.body is None else dataclasses.replace(f, body=_region(f.body, choices))
        for name, f in program.functions.items()
    }
    return dataclasses.replace(program, functions=functions)


def _region(region: Region, choices: Choices) -> Region:
    made: list[Operation] = []
    for operation in region.operations:
        if operation in choices:
            operands = []
            for i, (value, rounding) in enumerate(zip(operation.operands, choices[operation], strict=True)):
                operands.append(value if rounding is None else _round(made, operation, i, value, rounding))
            made.append(dataclasses.replace(operation, operands=tuple(operands), origin=operation))
            continue
        inner = operation.regions
        if inner and traits_of(operation.name).regions is not RegionSemantics.ELEMENTS:
            made.append(dataclasses.replace(operation, regions=tuple(_region(r, choices) for r in inner)))
        else:
            made.append(operation)
    return Region(region.arguments, made, region.returns)


def _round(made: list[Operation], product: Operation, operand: int, value: Value, rounding: Rounding) -> Value:
    """Rounds a value to a format by ops that are added to `made`."""
    t = value.type
    assert isinstance(t, TensorType)
    add = _Adder(made, product.location)
    if rounding.format in BLOCK_FORMATS:
        return _in_blocks(add, value, t, BLOCK_FORMATS[rounding.format], summed_axis(product, operand))
    target = ELEMENT_TYPES[rounding.format]
    if not target.is_minifloat:  # f16 or bf16: as wide as numbers are, so no scale
        return add("stablehlo.convert", t, add("stablehlo.convert", _as(t, target), value))
    # In f64 the scale and the limits are exact, so that each element is rounded once.
    most = range_of(target.name).largest
    wide = add("stablehlo.convert", _as(t, _F64), value)
    scaled = add("stablehlo.multiply", _as(t, _F64), wide, add.splat(t, 2.0**rounding.scale))
    low, high = add.scalar(-most), add.scalar(most)
    kept = add("stablehlo.clamp", _as(t, _F64), low, scaled, high)
    codes = add("stablehlo.convert", _as(t, target), kept)
    back = add("stablehlo.convert", _as(t, _F64), codes)
    number = add("stablehlo.multiply", _as(t, _F64), back, add.splat(t, 2.0**-rounding.scale))
    return add("stablehlo.convert", t, number)


def _in_blocks(add: _Adder, value: Value, t: TensorType, fmt: BlockFormat, axis: int) -> Value:
    shape = tuple(d or 0 for d in t.shape)
    axes = block_axes(len(shape), fmt, axis)
    config: dict[str, Any] = {
        "format": fmt.name, "axes": list(axes), "rule": fmt.rule, "rounding": "nearest_even", "overflow": "saturate",
        "seed": 0, "tensors": 0,
    }  # fmt: skip
    scales = Layout.of(shape, fmt, axes).scale_shape
    parts = [_as(t, ELEMENT_TYPES[fmt.element]), TensorType(scales, ELEMENT_TYPES[fmt.scale])]
    if fmt.tensor_scale is not None:
        parts.append(TensorType((), ELEMENT_TYPES[fmt.tensor_scale]))
    quantize = {"call_target_name": QUANTIZE, "mhlo.backend_config": config}
    made = add.several("stablehlo.custom_call", parts, (value,), quantize)
    dequantize = {"call_target_name": DEQUANTIZE, "mhlo.backend_config": {**config, "overflow": "ieee"}}
    return add.several("stablehlo.custom_call", [t], made, dequantize)[0]


def _as(t: TensorType, element: ElementType) -> TensorType:
    return TensorType(t.shape, element)


class _Adder:
    """Adds ops to a list."""

    def __init__(self, made: list[Operation], location: Location) -> None:
        self._made, self._location = made, location

    def __call__(self, name: str, t: TensorType, *operands: Value, **attributes: Any) -> Value:
        return self.several(name, [t], operands, attributes)[0]

    def several(
        self, name: str, types: Sequence[TensorType], operands: Sequence[Value], attributes: dict[str, Any]
    ) -> tuple[Value, ...]:
        """Adds an op with several results."""
        results = tuple(Value(t) for t in types)
        self._made.append(Operation(name, tuple(operands), results, attributes, (), self._location))
        return results

    def scalar(self, number: float) -> Value:
        return self(CONSTANT, TensorType((), _F64), value=np.array(number))

    def splat(self, t: TensorType, number: float) -> Value:
        """An f64 for each element of a tensor."""
        return self("stablehlo.broadcast_in_dim", _as(t, _F64), self.scalar(number), broadcast_dimensions=())
