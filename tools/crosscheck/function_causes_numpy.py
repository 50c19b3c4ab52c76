"""Causes of ml_dtypes in the programs of mlir_tests/, where these have more types than the comparison op by op."""

from __future__ import annotations

import numpy as np

from minihlo.ops.types import ELEMENT_TYPES

from .function_causes import function_cause
from .functions import Checked
from .numbers import E8M0, F16, is_nan, value
from .peers import Codes
from .registry import ERROR, OPEN


@function_cause(
    "zeros-of-numpys-own-f16",
    "ml_dtypes",
    OPEN,
    "numpy's maximum, minimum and sign of f16 do not distinguish +0 from -0",
    "Of operands that compare equal the first is the result, and the sign of -0 is +0. numpy's documentation does not "
    "say; StableHLO's sign keeps -0.",
)
def _zeros(checked: Checked) -> Codes | None:
    if checked.case is None or checked.element != F16:
        return None
    case, operands = checked.case
    if case.op == "sign":
        return np.where(operands[0] & 0x7FFF == 0, 0, checked.expected).astype(np.uint16)
    return operands[0] if case.op in ("maximum", "minimum") else None


@function_cause(
    "beyond-wide-integers",
    "ml_dtypes",
    OPEN,
    "What an integer type of 32 or 64 bits cannot hold becomes what the processor makes of it",
    "The specification leaves it open; XLA and minihlo give the nearest integer there is.",
)
def _beyond(checked: Checked) -> Codes | None:
    if checked.case is None or checked.case[0].op != "convert" or not checked.element.is_integer:
        return None
    case, operands = checked.case
    source = ELEMENT_TYPES[case.operands[0]]
    info, x = np.iinfo(checked.element.dtype), value(operands[0], source)
    fits = (np.trunc(x) >= float(info.min)) & (np.trunc(x) <= float(info.max)) & ~is_nan(operands[0], source)
    return np.where(fits & (np.abs(x) < 2.0 ** (checked.element.bits - 1)), checked.expected, checked.got)


@function_cause(
    "results-below-the-smallest-normal-rounded-up",
    "upcast",
    ERROR,
    "A function's result between 2^-127 and 2^-126 becomes 2^-126 in f8E8M0FNU",
    "It is computed in f32, where it is subnormal, and ml_dtypes rounds each such number up.",
)
def _small_rounded_up(checked: Checked) -> Codes | None:
    if checked.element != E8M0 or checked.operation is None or not checked.operation.name.startswith("chlo."):
        return None
    return np.where(checked.expected == 0, 1, checked.expected).astype(np.uint8)
