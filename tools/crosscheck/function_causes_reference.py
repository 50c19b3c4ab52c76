"""Causes of StableHLO's reference interpreter in whole programs."""

from __future__ import annotations

import numpy as np

from minihlo.ops.policy import Policy

from .function_causes import function_cause, name_of
from .functions import Checked, codes_of_values
from .numbers import is_nan
from .peers import Codes
from .registry import ERROR, OPEN

_SUMS = ("stablehlo.dot_general", "stablehlo.convolution", "stablehlo.dynamic_conv")


@function_cause(
    "sums-in-steps",
    "reference",
    OPEN,
    "dot_general and convolutions round each product and each partial sum to the format",
    "The specification leaves open in what type sums are held. minihlo's default is one rounding at the end; "
    "`--accumulate element` gives what the reference interpreter gives.",
)
def _sums_in_steps(checked: Checked) -> Codes | None:
    if name_of(checked) not in _SUMS:
        return None
    found = checked.function.rerun(Policy(accumulate="element"))
    return codes_of_values(found[id(checked.check)], checked.element)


@function_cause(
    "reduce-precision-on-bits",
    "reference",
    ERROR,
    "reduce_precision takes every format for one like f16",
    "It rounds and clamps bits as those of an IEEE format: what has the largest exponent is infinity or NaN, an "
    "exponent that becomes too small is zero with its sign. In formats that use the largest exponent for "
    "numbers, or have no sign or no -0, that is another number.",
)
def _reduce_precision_on_bits(checked: Checked) -> Codes | None:
    """As the algorithm on the bits of f16 has it, with the format's field widths in the place of f16's."""
    if name_of(checked) != "stablehlo.reduce_precision" or checked.operation is None:
        return None
    fmt, attributes = checked.element.format, checked.operation.attributes
    (operand,) = checked.operation.operands
    x = codes_of_values(np.asarray(checked.function.values[id(operand)]), checked.element).astype(np.int64)
    exponent, mantissa = int(attributes["exponent_bits"]), int(attributes["mantissa_bits"])
    sign_bit, own = 1 << (fmt.bits - 1), fmt.mantissa_bits
    width = fmt.bits - 1 - own  # of the exponent, were there a sign
    largest = ((1 << width) - 1) << own
    nan = is_nan(x.astype(np.uint8), checked.element)
    if mantissa < own:
        last = 1 << (own - mantissa)
        x = (x + (last >> 1) - 1 + ((x >> (own - mantissa)) & 1)) & -last
    if exponent < width:
        bias, reduced = (1 << (width - 1)) - 1, (1 << (exponent - 1)) - 1
        sign, field = x & sign_bit, x & largest  # of what is rounded: that may have carried into the sign
        x = np.where(field > (bias + reduced) << own, sign | largest, x)
        x = np.where(field <= (bias - reduced) << own, sign, x)
    return np.where(nan, fmt.nan_code or 0, x & (2 * sign_bit - 1)).astype(np.uint8)


@function_cause(
    "sorted-without-a-total-order",
    "reference",
    ERROR,
    "sort compares as FLOAT where its comparator says TOTALORDER",
    "compare ignores the comparison type, and so the comparator orders NaN with nothing, and -0 equals +0. Where there "
    "are NaN the comparator then is no order at all, and the result depends on how std::stable_sort goes about it: of "
    "such arrays only that the elements are the same is checked.",
)
def _sorted_without_total_order(checked: Checked) -> Codes | None:
    function = checked.function
    if name_of(checked) != "stablehlo.sort" or "TOTALORDER" not in function.exported.text:
        return None
    if is_nan(checked.expected, checked.element).any():
        return checked.got if sorted(checked.got) == sorted(checked.expected) else None
    found = function.rerun(text=function.exported.text.replace("TOTALORDER", "FLOAT"))
    return codes_of_values(found[id(checked.check)], checked.element)
