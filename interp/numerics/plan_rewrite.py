"""Inserts formats before products: rewrites a program so that its matmuls take operands rounded to chosen formats.

An operand is rounded by a function of the rewritten program, which is written here as text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...ops.blocks.blockwise import Layout
from ...ops.blocks.formats import BLOCK_FORMATS
from ...ops.blocks.targets import DEQUANTIZE, QUANTIZE
from ...ops.minifloat.formats import FORMATS
from ...ops.op import traits_of
from ...ops.types import TensorType
from ..blocks.checks import block_axes
from ..parse import parser
from ..passes.rewriting import with_operations, with_regions
from ..program import Function, Operation, Program, Region, Value
from .observe import reached_operations
from .statistics import range_of

#: f16 and bf16 are as wide as numbers are, so they need no scale.
_CONVERTED = """func.func @main(%x: {own}) -> {own} {{
  %0 = stablehlo.convert %x : ({own}) -> {narrow}
  %1 = stablehlo.convert %0 : ({narrow}) -> {own}
  return %1 : {own}
}}"""
#: In f64 the scale and the limits are exact, so that each element is rounded once.
_SCALED = """func.func @main(%x: {own}) -> {own} {{
  %up = stablehlo.constant dense<{up:.17e}> : {wide}
  %down = stablehlo.constant dense<{down:.17e}> : {wide}
  %low = stablehlo.constant dense<-{most:.17e}> : tensor<f64>
  %high = stablehlo.constant dense<{most:.17e}> : tensor<f64>
  %0 = stablehlo.convert %x : ({own}) -> {wide}
  %1 = stablehlo.multiply %0, %up : {wide}
  %2 = stablehlo.clamp %low, %1, %high : (tensor<f64>, {wide}, tensor<f64>) -> {wide}
  %3 = stablehlo.convert %2 : ({wide}) -> {narrow}
  %4 = stablehlo.convert %3 : ({narrow}) -> {wide}
  %5 = stablehlo.multiply %4, %down : {wide}
  %6 = stablehlo.convert %5 : ({wide}) -> {own}
  return %6 : {own}
}}"""
_BLOCKS = """func.func @main(%x: {own}) -> {own} {{
  %q:{count} = stablehlo.custom_call @{quantize}(%x) {{mhlo.backend_config = {{{config}, overflow = "saturate"}}}}
    : ({own}) -> ({parts})
  %y = stablehlo.custom_call @{dequantize}({blocks}) {{mhlo.backend_config = {{{config}, overflow = "ieee"}}}}
    : ({parts}) -> {own}
  return %y : {own}
}}"""


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The rounding of an operand: a format, with the exponent k of the scale 2^k of a whole tensor; 0 for blocks."""

    format: str
    scale: int = 0


#: For some products the rounding of each operand, None if it is unchanged.
Choices = Mapping[Operation, Sequence[Rounding | None]]


def bits_of(name: str) -> float:
    """Bits of an element in a format, including its part of the scale of a block."""
    block = BLOCK_FORMATS.get(name)
    return block.bits / block.size if block else float(FORMATS[name].bits)


def products(program: Program, function: Function) -> list[Operation]:
    """The products of matrices that a function reaches, in the order of the text: dots and convolutions of floats."""
    return [o for o in reached_operations(program, function) if _is_product(o)]


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
    added: dict[str, Function] = {}

    def call(product: Operation, operand: int, rounding: Rounding) -> Operation:
        """The call of a function that rounds an operand."""
        value = product.operands[operand]
        assert isinstance(value.type, TensorType)
        text = _rounding_text(value.type, rounding, summed_axis(product, operand))
        if text not in added:
            (function,) = parser.parse(text).functions.values()
            added[text] = dataclasses.replace(function, name=text)
        return Operation("func.call", (value,), (Value(value.type),), {"callee": text}, (), product.location)

    def region(old: Region) -> Region:
        made: list[Operation] = []
        for operation in old.operations:
            roundings = choices.get(operation, ())
            calls = {i: call(operation, i, rounding) for i, rounding in enumerate(roundings) if rounding is not None}
            made += calls.values()
            if calls:
                operands = tuple(calls[i].results[0] if i in calls else v for i, v in enumerate(operation.operands))
                made.append(dataclasses.replace(operation, operands=operands, origin=operation))
            else:
                made.append(with_regions(operation, map(region, operation.regions)))
        return with_operations(old, made)

    functions = {
        name: f if f.body is None else dataclasses.replace(f, body=region(f.body))
        for name, f in program.functions.items()
    }
    return dataclasses.replace(program, functions=functions | added)


def _rounding_text(t: TensorType, rounding: Rounding, axis: int) -> str:
    """A function that rounds a tensor to a format and brings it back to its own type."""
    shape = tuple(d or 0 for d in t.shape)

    def tensor(element: str, sizes: tuple[int, ...] = shape) -> str:
        return f"tensor<{''.join(f'{n}x' for n in sizes)}{element}>"

    if rounding.format not in BLOCK_FORMATS:
        most, scale = range_of(rounding.format).largest, rounding.scale
        text = _SCALED if FORMATS[rounding.format].is_minifloat else _CONVERTED
        types = {"own": t, "narrow": tensor(rounding.format), "wide": tensor("f64")}
        return text.format(**types, up=2.0**scale, down=2.0**-scale, most=most)
    fmt = BLOCK_FORMATS[rounding.format]
    axes = block_axes(len(shape), fmt, axis)
    parts = [tensor(fmt.element), tensor(fmt.scale, Layout.of(shape, fmt, axes).scale_shape)]
    if fmt.tensor_scale is not None:
        parts.append(tensor(fmt.tensor_scale, ()))
    return _BLOCKS.format(
        own=t,
        parts=", ".join(parts),
        count=len(parts),
        blocks=", ".join(f"%q#{i}" for i in range(len(parts))),
        config=f'format = "{fmt.name}", axes = {list(axes)}, rule = "{fmt.rule}"',
        quantize=QUANTIZE,
        dequantize=DEQUANTIZE,
    )
