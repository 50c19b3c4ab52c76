"""Ops of MLIR's `arith` and `math` dialects: what programs compute sizes with, and scalars and loops beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cast import wrap
from ..op import EXACT, Accuracy, Call, Run, describe, element_types, kernel_of, op
from ..ordering import is_nan, value_keys
from ..require import require
from ..types import ELEMENT_TYPES, ElementType, Kind, TensorType, Type
from .bits import signed, unsigned
from .elementwise import cell


@op("arith.constant", "any foreign", operands=0)
def arith_constant(call: Call) -> Run:
    """The number, or tensor of numbers, of its attribute."""
    value, t = call.attribute("value"), call.result()
    if not isinstance(value, np.ndarray):
        require(isinstance(value, bool | int | float), f"expected value to be a number, got {value!r}")
        require(not t.element.is_complex, f"expected value to be a real number, got {value!r}")
        value = cell(value, t.element)
    fits = t.admits(value.shape) and value.dtype == t.element.dtype
    require(fits, f"expected a value of type {t}, got {value.dtype}{list(value.shape)}")
    return lambda: value


_INTEGERS, _FLOATS, _CONVERTED = "bool integer", "float", "float foreign"


def _alias(name: str, types: str, of: str, doc: str, results: str = "") -> None:
    """Declare an op as another one. Of types `u…`, integers are read, and given, as unsigned ones.

    Booleans are integers of one bit, of which the signed ones are 0 and -1.
    """
    is_unsigned, operands = types.startswith("u "), element_types(types.removeprefix("u "))
    taken = element_types(results) if results else operands
    are_integers = _INTEGERS in (types, results)

    def bind(call: Call) -> Run:
        require(call.result().element in taken, f"the result is {call.result()} (expected of {describe(taken)})")
        elements = [t.element for t in (*call.operands, *call.results) if isinstance(t, TensorType)]
        is_plain = not are_integers or of == "bitcast_convert" or all(e.kind is not Kind.BOOL for e in elements)
        if is_plain and not is_unsigned:
            return _kernel(call, of, call.operands, call.results)
        result = call.result()
        computed = [tuple([_computed(t, is_unsigned) for t in types]) for types in (call.operands, call.results)]
        kernel = _kernel(call, of, *computed)
        elements = [t.element for t in computed[0]]
        return lambda *xs: _reread(kernel(*map(_reread, xs, elements)), result.element)

    bind.__doc__ = doc
    accuracy = _AS_THERE if "float" in types + results else EXACT
    op(name, types.removeprefix("u "), values="numbers", accuracy=accuracy, is_elementwise=True)(bind)


#: Of ops of floats that are ops of StableHLO or CHLO under another name.
_AS_THERE = Accuracy("as the op of StableHLO or CHLO that it is")


def _kernel(call: Call, of: str, operands: Sequence[Type], results: Sequence[Type], **attributes: Any) -> Run:
    return kernel_of(call.like(of, operands, results, **attributes))


def _computed(t: Any, is_unsigned: bool) -> TensorType:
    """The type in which an op computes: of booleans one of eight bits."""
    element = ELEMENT_TYPES["i8"] if t.element.kind is Kind.BOOL else t.element
    element = ELEMENT_TYPES[f"u{element}"] if is_unsigned and element.kind is Kind.SIGNED else element
    return TensorType(t.shape, element)


def _reread(x: np.ndarray, element: ElementType) -> np.ndarray:
    """An array with integers of another sign read as such, and booleans as integers or integers as booleans."""
    if element.kind is Kind.BOOL:
        return x & 1 != 0
    if x.dtype == bool:
        return x.astype(element.dtype) * (-1 if element.kind is Kind.SIGNED else 1)
    return wrap(x, element) if element.is_integer and x.dtype != element.dtype else x


for _row in (
    ("addi", _INTEGERS, "add", "Sum."),
    ("subi", _INTEGERS, "subtract", "Difference."),
    ("muli", _INTEGERS, "multiply", "Product."),
    ("divsi", _INTEGERS, "divide", "Quotient, truncated."),
    ("divui", "u bool integer", "divide", "Quotient of unsigned integers."),
    ("remsi", _INTEGERS, "remainder", "Remainder of truncated division."),
    ("remui", "u bool integer", "remainder", "Remainder of unsigned integers."),
    ("maxsi", _INTEGERS, "maximum", "The larger."),
    ("minsi", _INTEGERS, "minimum", "The smaller."),
    ("maxui", "u bool integer", "maximum", "The larger of unsigned integers."),
    ("minui", "u bool integer", "minimum", "The smaller of unsigned integers."),
    ("andi", "bool integer", "and", "Bitwise and."),
    ("ori", "bool integer", "or", "Bitwise or."),
    ("xori", "bool integer", "xor", "Bitwise exclusive or."),
    ("shli", _INTEGERS, "shift_left", "Shift to the left."),
    ("shrsi", _INTEGERS, "shift_right_arithmetic", "Shift to the right that keeps the sign."),
    ("shrui", _INTEGERS, "shift_right_logical", "Shift to the right that brings zeros."),
    ("index_cast", _INTEGERS, "convert", "The same integer in another type; what does not fit wraps."),
    (
        "index_castui",
        "u bool integer",
        "convert",
        "The same unsigned integer in another type; what does not fit wraps.",
    ),
    ("extsi", _INTEGERS, "convert", "The same integer in a wider type."),
    ("extui", "u bool integer", "convert", "The same unsigned integer in a wider type."),
    ("trunci", _INTEGERS, "convert", "The low bits of an integer."),
    ("addf", _FLOATS, "add", "Sum."),
    ("subf", _FLOATS, "subtract", "Difference."),
    ("mulf", _FLOATS, "multiply", "Product."),
    ("divf", _FLOATS, "divide", "Quotient."),
    ("remf", _FLOATS, "remainder", "Remainder of truncated division."),
    ("negf", _FLOATS, "negate", "The number with the other sign."),
    ("maximumf", _FLOATS, "maximum", "The larger; NaN if either is."),
    ("minimumf", _FLOATS, "minimum", "The smaller; NaN if either is."),
    ("extf", _CONVERTED, "convert", "The same number in a wider type."),
    ("truncf", _CONVERTED, "convert", "The number rounded to a narrower type."),
    ("sitofp", _INTEGERS, "convert", "The integer as a float.", _CONVERTED),
    ("uitofp", "u bool integer", "convert", "The unsigned integer as a float.", _CONVERTED),
    ("fptosi", _CONVERTED, "convert", "The number without its fraction.", _INTEGERS),
    ("fptoui", f"u {_CONVERTED}", "convert", "The number without its fraction, unsigned.", _INTEGERS),
    ("bitcast", f"bool integer {_CONVERTED}", "bitcast_convert", "The bits read as another type of the same width."),
):
    _alias(f"arith.{_row[0]}", *_row[1:])

# The functions of MLIR's `math` dialect that StableHLO or CHLO has, and the types that they take.
for _name, _of, _types in (
    ("absf", "abs", _FLOATS), ("absi", "abs", "signed"), ("ceil", "ceil", _FLOATS), ("floor", "floor", _FLOATS),
    ("exp", "exponential", _FLOATS), ("expm1", "exponential_minus_one", _FLOATS), ("log", "log", _FLOATS),
    ("log1p", "log_plus_one", _FLOATS), ("sqrt", "sqrt", _FLOATS), ("rsqrt", "rsqrt", _FLOATS),
    ("cbrt", "cbrt", _FLOATS), ("sin", "sine", _FLOATS), ("cos", "cosine", _FLOATS), ("tan", "tan", _FLOATS),
    ("tanh", "tanh", _FLOATS), ("atan2", "atan2", _FLOATS), ("powf", "power", _FLOATS),
    ("round", "round_nearest_afz", _FLOATS), ("roundeven", "round_nearest_even", _FLOATS),
    ("ctlz", "count_leading_zeros", "integer"), ("ctpop", "popcnt", "integer"), ("acos", "chlo.acos", _FLOATS),
    ("asin", "chlo.asin", _FLOATS), ("atan", "chlo.atan", _FLOATS), ("cosh", "chlo.cosh", _FLOATS),
    ("sinh", "chlo.sinh", _FLOATS), ("acosh", "chlo.acosh", _FLOATS), ("asinh", "chlo.asinh", _FLOATS),
    ("atanh", "chlo.atanh", _FLOATS),
):  # fmt: skip
    _alias(f"math.{_name}", _types, _of, f"As {_of.removeprefix('chlo.')} of {'CHLO' if '.' in _of else 'StableHLO'}.")


def _declare_nan_ignoring(name: str, of: str) -> None:
    def bind(call: Call) -> Run:
        kernel, element = _kernel(call, of, call.operands, call.results), call.tensor().element
        return lambda x, y: np.where(is_nan(x, element), y, np.where(is_nan(y, element), x, kernel(x, y)))

    bind.__doc__ = f"The {'larger' if of == 'maximum' else 'smaller'}; the number if the other one is NaN."
    op(f"arith.{name}", _FLOATS, values="numbers", operands=2, is_elementwise=True)(bind)


_declare_nan_ignoring("maxnumf", "maximum")
_declare_nan_ignoring("minnumf", "minimum")

#: Of each predicate, the sum of the cases in which it holds: 1 equal, 2 above, 4 below, 8 one of them is NaN.
_FLOAT_PREDICATES = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 8, 15)


@op("arith.cmpf", _FLOATS, values="numbers", operands=2, is_elementwise=True)
def cmpf(call: Call) -> Run:
    """Whether one float is equal to, above or below another, or not comparable with it, as `predicate` says."""
    number, element = int(call.attribute("predicate")), call.tensor().element
    require(0 <= number < 16, f"expected a predicate of 0 to 15, got {number}")
    cases = _FLOAT_PREDICATES[number]

    def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        (a, b), unordered = (value_keys(v, element) for v in (x, y)), is_nan(x, element) | is_nan(y, element)
        case = np.where(unordered, 8, np.where(a == b, 1, np.where(a > b, 2, 4)))
        return case & cases != 0

    return kernel


def _declare_division(name: str, is_signed: bool, towards: int) -> None:
    def bind(call: Call) -> Run:
        t = call.tensor()
        types = [call.operands, call.results] if is_signed else [tuple([_computed(t, True) for t in call.operands])] * 2
        divide = _kernel(call, "divide", types[0], types[1][:1])
        element = t.element if is_signed else _computed(t, True).element

        def kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            x, y = _reread(x, element), _reread(y, element)
            a, b, quotient = (np.asarray(v).astype(np.int64 if is_signed else np.uint64) for v in (x, y, divide(x, y)))
            # One further where the remainder has the sign that the quotient was not rounded towards.
            further = (quotient * b != a) & (b != 0) & (((a < 0) == (b < 0)) == (towards > 0))
            return _reread(np.where(further, quotient + towards, quotient), t.element)

        return kernel

    bind.__doc__ = f"Quotient rounded {'up' if towards > 0 else 'down'}{'' if is_signed else ', of unsigned integers'}."
    op(f"arith.{name}", "integer", values="numbers", operands=2, is_elementwise=True)(bind)


_declare_division("ceildivsi", True, 1)
_declare_division("floordivsi", True, -1)
_declare_division("ceildivui", False, 1)


#: True is -1 as a signed integer.
_PREDICATES: tuple[tuple[Callable[..., Any], np.ufunc], ...] = (
    (unsigned, np.equal), (unsigned, np.not_equal), (signed, np.less), (signed, np.less_equal), (signed, np.greater),
    (signed, np.greater_equal), (unsigned, np.less), (unsigned, np.less_equal), (unsigned, np.greater),
    (unsigned, np.greater_equal),
)  # fmt: skip


@op("arith.cmpi", "bool integer", values="numbers", operands=2, is_elementwise=True)
def cmpi(call: Call) -> Run:
    """Whether one integer is equal to, or below, another, read as signed or as unsigned, as `predicate` says."""
    number, element = int(call.attribute("predicate")), call.tensor().element
    require(0 <= number < len(_PREDICATES), f"expected a predicate of 0 to {len(_PREDICATES) - 1}, got {number}")
    read, compare = _PREDICATES[number]
    return lambda x, y: compare(read(x, element), read(y, element))


_alias("math.isfinite", _FLOATS, "is_finite", "Whether the number is finite.", "bool")
_alias("math.isinf", _FLOATS, "chlo.is_inf", "Whether the number is infinite.", "bool")


@op("math.isnan", _FLOATS, values="numbers", operands=1, is_elementwise=True)
def isnan(call: Call) -> Run:
    """Whether the number is NaN."""
    return functools.partial(is_nan, element=call.tensor().element)


@op("arith.select", operands=3, is_elementwise=True)
def select(call: Call) -> Run:
    """The second operand where the first is true, else the third."""
    return _kernel(call, "select", call.operands, call.results)
