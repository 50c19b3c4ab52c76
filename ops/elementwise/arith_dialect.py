"""Ops of MLIR's `arith` dialect: what programs compute sizes with, and scalars beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import cast
from ..op import Call, Run, describe, element_types, lookup, op
from ..policy import Policy
from ..require import require
from ..types import ELEMENT_TYPES, ElementType, Kind


@op("arith.constant", operands=0)
def arith_constant(call: Call) -> Run:
    """The number, or tensor of numbers, of its attribute."""
    value, t = call.attribute("value"), call.result()
    if not isinstance(value, np.ndarray):
        require(isinstance(value, bool | int | float), f"expected value to be a number, got {value!r}")
        value = _number(value, t.element)
    require(
        t.admits(value.shape) and value.dtype == t.element.dtype,
        f"expected a value of type {t}, got {value.dtype}{list(value.shape)}",
    )
    return lambda: value


def _number(value: float, element: ElementType) -> np.ndarray:
    if element.is_float:
        return np.asarray(cast(np.array(value, np.float64), ELEMENT_TYPES["f64"], element, Policy()))
    require(not element.is_complex, f"expected value to be a real number, got {value!r}")
    return np.array(value).astype(element.dtype)


def _alias(name: str, types: str, of: str, doc: str) -> None:
    """Declare an op as another one."""
    taken = element_types(types)

    def bind(call: Call) -> Run:
        record = lookup(of)
        assert record is not None
        require(call.result().element in taken, f"the result is {call.result()} (expected of {describe(taken)})")
        return record.function(call.like(of, call.operands, call.results))

    bind.__doc__ = doc
    op(f"arith.{name}", types, values="numbers", is_elementwise=True)(bind)


# Of booleans, which are numbers to `arith` but not to StableHLO, only what means the same to both.
for _name, _types, _of, _doc in (
    ("addi", "integer", "add", "Sum."),
    ("subi", "integer", "subtract", "Difference."),
    ("muli", "integer", "multiply", "Product."),
    ("divsi", "integer", "divide", "Quotient, truncated."),
    ("remsi", "integer", "remainder", "Remainder of truncated division."),
    ("maxsi", "integer", "maximum", "The larger."),
    ("minsi", "integer", "minimum", "The smaller."),
    ("andi", "bool integer", "and", "Bitwise and."),
    ("ori", "bool integer", "or", "Bitwise or."),
    ("xori", "bool integer", "xor", "Bitwise exclusive or."),
    ("index_cast", "integer", "convert", "The same integer in another type; what does not fit wraps."),
    ("extsi", "integer", "convert", "The same integer in a wider type."),
    ("trunci", "integer", "convert", "The low bits of an integer."),
):
    _alias(_name, _types, _of, _doc)


_PREDICATES: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("u", np.equal), ("u", np.not_equal), ("s", np.less), ("s", np.less_equal), ("s", np.greater),
    ("s", np.greater_equal), ("u", np.less), ("u", np.less_equal), ("u", np.greater), ("u", np.greater_equal),
)  # fmt: skip


@op("arith.cmpi", "bool integer", values="numbers", operands=2, is_elementwise=True)
def cmpi(call: Call) -> Run:
    """Whether one integer is equal to, or below, another, read as signed or as unsigned, as `predicate` says."""
    number, element = int(call.attribute("predicate")), call.tensor().element
    require(0 <= number < len(_PREDICATES), f"expected a predicate of 0 to {len(_PREDICATES) - 1}, got {number}")
    sign, compare = _PREDICATES[number]
    if element.bits < 8:
        require(element.kind is Kind.BOOL and number < 2, f"predicate {number} of {element} is not supported")
        return compare
    dtype = np.dtype(f"{'i' if sign == 's' else 'u'}{element.bits // 8}")
    return lambda x, y: compare(x.view(dtype), y.view(dtype))


@op("arith.select", operands=3, is_elementwise=True)
def select(call: Call) -> Run:
    """The second operand where the first is true, else the third."""
    record = lookup("select")
    assert record is not None
    return record.function(call.like("select", call.operands, call.results))
