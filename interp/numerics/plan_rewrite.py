"""Inserts formats before products: rewrites a program so that its matmuls take operands rounded to chosen formats.

An operand is rounded by a custom call of this package.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ...ops.blocks.formats import BLOCK_FORMATS
from ...ops.cast import cast
from ...ops.minifloat.formats import FORMATS
from ...ops.op import Call, Run, traits_of
from ...ops.programs.custom_call import bound_target
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType
from ..blocks.convert import straight_through
from ..passes.rewriting import with_operations, with_regions
from ..program import Function, Operation, Program, Region, Value
from .observe import reached_operations

_TARGET = "minihlo.round_operand"


@dataclasses.dataclass(frozen=True)
class Rounding:
    """The rounding of an operand: a format, with the exponent k of the scale 2^k of a whole tensor; 0 for blocks."""

    format: str
    scale: int = 0


#: The roundings of operands, by the product and the number of the operand; others are unchanged.
Roundings = Mapping[tuple[Operation, int], Rounding | None]


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


def rewrite(program: Program, roundings: Roundings) -> Program:
    """The program with operands of products rounded to formats and brought back to their own types."""

    def region(old: Region) -> Region:
        made: list[Operation] = []
        for operation in old.operations:
            operands = list(operation.operands)
            for i in range(len(operands)):
                if (rounding := roundings.get((operation, i))) is not None:
                    made.append(_round_by_call(operation, i, rounding))
                    (operands[i],) = made[-1].results
            if tuple(operands) != operation.operands:
                operation = dataclasses.replace(operation, operands=tuple(operands), origin=operation)
            made.append(with_regions(operation, map(region, operation.regions)))
        return with_operations(old, made)

    functions = {
        name: f if f.body is None else dataclasses.replace(f, body=region(f.body))
        for name, f in program.functions.items()
    }
    return dataclasses.replace(program, functions=functions)


def _round_by_call(product: Operation, operand: int, rounding: Rounding) -> Operation:
    """The custom call that rounds an operand."""
    value = product.operands[operand]
    config = dataclasses.asdict(rounding) | {"axis": summed_axis(product, operand)}
    attributes = {"call_target_name": _TARGET, "backend_config": config}
    return Operation("stablehlo.custom_call", (value,), (Value(value.type),), attributes, (), product.location)


@bound_target(_TARGET)
def _round_operand(call: Call) -> Run:
    """The numbers of an array that a format holds, in the type of the array."""
    name, scale, axis = (call.configuration[n] for n in ("format", "scale", "axis"))
    if name in BLOCK_FORMATS:
        return lambda x: straight_through(x, name, axis)
    own, narrow, largest = call.tensor().element, ELEMENT_TYPES[name], FORMATS[name].largest
    # In f64 the scale and the limits are exact. f16 and bf16 are as wide as numbers are, so they need neither.
    wide = ELEMENT_TYPES["f64"] if narrow.is_minifloat else own

    def convert(x: np.ndarray, source: ElementType, target: ElementType) -> np.ndarray:
        return cast(x, source, target, call.policy, call.random.draws(call.policy))

    def kernel(x: np.ndarray) -> np.ndarray:
        x = convert(x, own, wide)
        if narrow.is_minifloat:
            x = np.clip(np.ldexp(x, scale), -largest, largest)
        x = convert(convert(x, wide, narrow), narrow, wide)
        return np.asarray(convert(np.ldexp(x, -scale) if scale else x, wide, own))

    return kernel
