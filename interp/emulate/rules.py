"""What rules of operations are declared with, and what they ask of values."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.cast import cast
from ...ops.op import OpError
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, QuantizedType, TensorType, TupleType, Type
from ..passes.rewriting import all_operations
from ..program import Operation, Value
from .tensor import UI8, Tensor, constant

if TYPE_CHECKING:
    from .rewrite import Emulation

UI4 = dataclasses.replace(UI8, name="ui4", bits=4)


def attributes_of(op: ir.Operation) -> dict[str, Any]:
    """Return the attributes of an operation of MLIR by name."""
    found = op.attributes
    return {found[i].name: found[i].attr for i in range(len(found))}


def align(operands: Sequence[Any]) -> list[Any]:
    """Broadcast scalars to the shape of the other operands."""
    shape = next((x.shape for x in operands if isinstance(x, Tensor) and x.shape), ())
    return [x.broadcast(shape) if isinstance(x, Tensor) and not x.shape else x for x in operands]


#: Emulates one operation: takes its operands, and returns a value for each result.
#: Of a composite or a custom call, whose rule is declared by its own name, None stands for its decomposition.
Rule = Callable[["Emulation", Operation, Sequence[Any]], Any]
RULES: dict[str, Rule] = {}
#: Operations on minifloats that are refused, and why.
REFUSED: dict[str, str] = {}


def emulates(*names: str) -> Callable[[Rule], Rule]:
    """Declare the decorated function as the emulation of operations on minifloats; `stablehlo.` may be left out.

    It is called where an operand, a result or a region's value is a minifloat or quantized, and for composites and
    custom calls of its name always. It gets the emulation, the operation, and its operands: a `Tensor` each, of codes
    for minifloats, or a value of MLIR for tuples and tokens.
    """

    def declare(rule: Rule) -> Rule:
        _declare(RULES, names, rule)
        return rule

    return declare


def refuses(reason: str, *names: str) -> None:
    """Declare that operations are not emulated on minifloats."""
    _declare(REFUSED, names, reason)


def _declare(table: dict[str, Any], names: Sequence[str], meaning: Any) -> None:
    for name in map(full_name, names):
        if name in RULES or name in REFUSED:
            raise ValueError(f"{name} is emulated twice")
        table[name] = meaning


def full_name(name: str) -> str:
    return name if "." in name else f"stablehlo.{name}"


def rules() -> tuple[Mapping[str, Rule], Mapping[str, str]]:
    """Return the emulations by operation, and the reasons of the operations that are refused."""
    package = importlib.import_module(__package__ or "")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return RULES, REFUSED


def carrier(element: ElementType) -> ElementType:
    """Return the type that elements are carried as: codes of minifloats, the storage of quantized types."""
    return UI8 if element.is_minifloat else element.storage


def constant_of(value: Any, element: ElementType, shape: Sequence[int] = ()) -> Tensor:
    """Return a constant as it is carried: an array of the dtype of `element`, or one number for a whole shape."""
    array = np.asarray(value)
    array = array.view(np.uint8) if element.is_minifloat else array
    return constant(array if array.ndim else array[()], carrier(element), shape)


def to_codes(x: Tensor) -> Tensor:
    """Return the codes of minifloats of four or eight bits; other elements as they are."""
    return x.bits(UI4 if x.element.bits == 4 else UI8).to(UI8) if x.element.is_minifloat else x


def of_codes(x: Tensor, element: ElementType) -> Tensor:
    """Return the minifloats of four or eight bits that have these codes; other elements as they are."""
    return x.to(UI4 if element.bits == 4 else UI8).bits(element) if element.is_minifloat else x


def number_of(value: float, element: ElementType, shape: Sequence[int] = ()) -> Tensor:
    """Return a number, rounded to nearest, in a whole shape as it is carried."""
    return constant_of(cast(np.array(value, np.float64), ELEMENT_TYPES["f64"], element, Policy()), element, shape)


def is_emulated(t: Type | ElementType) -> bool:
    """Return whether values of a type are carried as another type."""
    if isinstance(t, TupleType):
        return any(map(is_emulated, t.elements))
    element = t.element if isinstance(t, TensorType) else t
    return isinstance(element, ElementType) and (element.is_minifloat or isinstance(element, QuantizedType))


def element_of(value: Value) -> ElementType:
    """Return the element type of a tensor. Raises OpError for another value."""
    if not isinstance(value.type, TensorType):
        raise OpError(f"expected a tensor, got {value.type}")
    return value.type.element


def types_of(operation: Operation) -> list[ElementType]:
    """Return the element types of the operands that are tensors."""
    return [v.type.element for v in operation.operands if isinstance(v.type, TensorType)]


def has_emulated(operation: Operation) -> bool:
    """Return whether an operation has a minifloat or quantized value, in its regions too."""
    inner = [o for region in operation.regions for o in all_operations(region)]
    regions = [*operation.regions, *(g for o in inner for g in o.regions)]
    values = [*operation.operands, *(r for o in (operation, *inner) for r in o.results)]
    return any(is_emulated(v.type) for v in (*values, *(a for region in regions for a in region.arguments)))
