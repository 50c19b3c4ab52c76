"""CHLO's elementwise ops: functions, tests for infinity, neighbours, and constants.

An op that is not declared here for its operands' type is left to the expansion that CHLO itself defines; so are all
functions of complex numbers, whose formulas there are chosen with care, and the special functions of 16 bits and more,
whose exact definition would be slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..cast import array_of, codes_of, wrap
from ..minifloat import arithmetic, functions, hyperbolic, special
from ..minifloat.codec import decode, round_number
from ..minifloat.number import Number
from ..movement.shape import constant
from ..op import CORRECTLY_ROUNDED, ROUNDED_TO_32, Accuracy, Call, Run, op
from ..policy import Policy
from ..require import identity, require, require_same_types, require_shape
from ..tables import Tabulated
from ..types import Kind, type_of_dtype
from .elementwise import cell, declare_test, elementwise

#: Programs compare their results in these types with recorded ones of the expansion, which are up to 6 ULP off.
_TO_16 = Accuracy("correctly rounded up to 16 bits; f32 and f64 by CHLO's expansion", is_near=True)


for _name, _host, _direct, _doc in (
    ("acos", np.arccos, hyperbolic.acos, "Arc cosine, in radians."),
    ("acosh", np.arccosh, hyperbolic.acosh, "Inverse of the hyperbolic cosine."),
    ("asin", np.arcsin, hyperbolic.asin, "Arc sine, in radians."),
    ("asinh", np.arcsinh, hyperbolic.asinh, "Inverse of the hyperbolic sine."),
    ("atan", np.arctan, hyperbolic.atan, "Arc tangent, in radians."),
    ("atanh", np.arctanh, hyperbolic.atanh, "Inverse of the hyperbolic tangent."),
    ("tan", np.tan, functions.tan, "Tangent of an angle in radians."),
):
    elementwise(f"chlo.{_name}", "float", accuracy=ROUNDED_TO_32, direct=_direct, doc=_doc)(_host)
for _name, _host, _direct in (("cosh", np.cosh, hyperbolic.cosh), ("sinh", np.sinh, hyperbolic.sinh)):
    _doc = f"Hyperbolic {'cosine' if _name == 'cosh' else 'sine'}."
    elementwise(f"chlo.{_name}", "float", accuracy=_TO_16, direct=_direct, expanded="f32 f64", doc=_doc)(_host)


def _declare_special(name: str, meaning: str, direct: Callable[..., Number], operands: int = 1) -> None:
    # numpy has none of these: the exact function, rounded to the host's type, takes the place of the host's.
    def host(*arrays: np.ndarray) -> np.ndarray:
        fmt = type_of_dtype(arrays[0].dtype).format
        numbers = (decode(codes_of(x, fmt), fmt) for x in np.broadcast_arrays(*arrays))
        return array_of(round_number(direct(*numbers), fmt, Policy()), fmt)

    host.__doc__ = meaning
    elementwise(f"chlo.{name}", "minifloat", accuracy=ROUNDED_TO_32, operands=operands, direct=direct)(host)


_declare_special("erf", "The error function, 2 / sqrt(pi) times the integral of exp(-t * t) from 0.", special.erf)
_declare_special("erfc", "One minus the error function, accurate where that is near one.", special.erfc)
_declare_special("erf_inv", "The inverse of the error function; NaN beyond -1 and 1.", special.erf_inv)
_declare_special(
    "lgamma", "The logarithm of the gamma function's absolute value; +infinity at its poles.", special.lgamma
)
_declare_special("digamma", "The derivative of the logarithm of the gamma function; NaN at its poles.", special.digamma)
_declare_special("bessel_i1e", "The modified Bessel function of order 1, divided by exp(|x|).", special.bessel_i1e)
_declare_special(
    "polygamma", "The n-th derivative of digamma; NaN unless n is an integer of 0 or more.", special.polygamma, 2
)
_declare_special("zeta", "Hurwitz's zeta function, the sum of (q + k)**-x over k >= 0; NaN for x < 1.", special.zeta, 2)


elementwise(
    "chlo.square", "float", accuracy=CORRECTLY_ROUNDED, direct=lambda x: arithmetic.multiply(x, x),
    doc="The operand times itself.",
)(np.square)  # fmt: skip


@op("chlo.conj", "float complex", operands=1, is_elementwise=True)
def conj(call: Call) -> Run:
    """The complex conjugate; of a real number itself."""
    require_same_types(call)
    return np.conjugate if call.tensor().element.is_complex else identity


declare_test("chlo.is_inf", "Whether the number is infinite, of either sign.", lambda x: x.is_infinite, np.isinf)
declare_test("chlo.is_pos_inf", "Whether the number is +infinity.", lambda x: x.is_infinite & ~x.sign, np.isposinf)
declare_test("chlo.is_neg_inf", "Whether the number is -infinity.", lambda x: x.is_infinite & x.sign, np.isneginf)


@op("chlo.next_after", "float", values="numbers", operands=2, is_elementwise=True)
def next_after(call: Call) -> Run:
    """The neighbour of the first operand on the way to the second, as C's nextafter.

    Where they are equal, the second operand, so that a zero may change its sign. A step to zero keeps the sign. From
    the largest number a step leads to infinity; a type without one has nothing above to step to. NaN of any is NaN.
    """
    require_same_types(call)
    element = call.tensor().element
    if element.bits >= 32:
        return np.nextafter
    if element.is_minifloat and call.tables:
        return Tabulated(_neighbours, [element, element], element.dtype)
    return _neighbours


def _neighbours(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    result = np.where(x == y, y, np.nextafter(x, y))  # numpy's own gives the first of two zeros of f16
    if type_of_dtype(x.dtype).format.has_negative_zero:  # a NaN has the sign of the operand's, the first one's first
        result = np.where(result != result, np.copysign(result, np.where(x != x, x, y)), result)
    return result


@op("chlo.mulhi", "integer", values="numbers", operands=2, is_elementwise=True)
def mulhi(call: Call) -> Run:
    """The upper half of the product in twice as many bits."""
    require_same_types(call)
    element = call.tensor().element
    kind = "i" if element.kind is Kind.SIGNED else "u"
    wide = np.dtype(f"{kind}{max(2 * element.bits // 8, 1)}" if element.bits < 64 else object)  # Python's integers
    return lambda x, y: wrap(np.asarray((x.astype(wide) * y.astype(wide)) >> element.bits), element)


op("chlo.constant", operands=0)(constant)


@op("chlo.constant_like", operands=1, is_elementwise=True)
def constant_like(call: Call) -> Run:
    """One value, in the operand's shape. The result has the element type of the value."""
    require_shape(call, call.tensor().shape)
    value, element = call.attribute("value"), call.result().element
    if element.is_complex:
        value = _complex_number(value)
        require(value is not None, f"value is {call.attribute('value')} (expected a number of type {element})")
        number = np.array(value, element.dtype)
    else:
        is_number = isinstance(value, bool | int | float if element.is_float else bool | int)
        require(is_number, f"value is {value} (expected a number of type {element})")
        number = cell(value, element)
    return lambda x: np.broadcast_to(number, x.shape)


#: `#complex.number<:f32 1.0, -2.0>`, which has no Python class.
_COMPLEX = re.compile(r"#complex\.number<:f\d+ (\S+), (\S+)>(?: : .*)?")


def _complex_number(value: Any) -> complex | None:
    if isinstance(value, int | float | complex):
        return complex(value)
    match = _COMPLEX.fullmatch(getattr(value, "text", ""))
    return complex(float(match[1]), float(match[2])) if match else None
