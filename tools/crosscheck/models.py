"""Fault models of single peers, beside those that any backend may have (`interp.judging.faults`)."""

from __future__ import annotations

import numpy as np

from minihlo.interp.judging import fault_models as models
from minihlo.interp.judging.faults import FAULTS as SHARED
from minihlo.interp.judging.record import Codes, Fault
from minihlo.interp.oracle.case import OpCase, Operands
from minihlo.interp.oracle.exact import FUNCTIONS, estimate, evaluate
from minihlo.interp.oracle.expected import as_exact
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import Exact, encode

_E8M0 = "f8E8M0FNU"
_SMALLEST = 2.0**-127


def _sign_of_code_zero(case: OpCase, operands: Operands) -> Codes | None:
    """The code 0, which is zero in every other format, is its own sign."""
    if case.op != "sign" or case.result != _E8M0:
        return None
    right = models.compute_case(case, operands)
    assert right is not None
    return np.where(operands[0] == 0, np.uint8(0), right)


def _expm1_in_f16(case: OpCase, operands: Operands) -> Codes | None:
    """exp(x) - 1, each step rounded to f16."""
    if case.op != "exponential_minus_one":
        return None
    f16, x = FORMATS["f16"], FORMATS[case.operands[0]].decode(operands[0])
    power = f16.decode(evaluate("exponential", f16, x)[0])
    result = f16.decode(evaluate("subtract", f16, power, np.ones(len(x)))[0])
    return encode(FORMATS[case.result], Exact.of(result))[0]


def _powers_of_the_smallest(case: OpCase, operands: Operands) -> Codes | None:
    """Powers of 2^-127 as those of 2^-150."""
    if case.op != "power" or case.result != _E8M0:
        return None
    x, y = (FORMATS[_E8M0].decode(o) for o in operands)
    with np.errstate(all="ignore"):
        return encode(FORMATS[_E8M0], Exact.of(np.where(operands[0] == 0, np.exp2(-150 * y), np.power(x, y))))[0]


def _smallest_as_false(case: OpCase, operands: Operands) -> Codes | None:
    """2^-127 converts to false, as zero does."""
    if case.op != "convert" or case.result != "i1" or case.operands[0] not in FORMATS:
        return None
    return np.abs(FORMATS[case.operands[0]].decode(operands[0])) != _SMALLEST


# -- f8E8M0FNU on the reference interpreter: three faults that can meet in one case ------------------------------------


def _numbers(case: OpCase, operands: Operands) -> list[np.ndarray]:
    """The operands; functions and conversions read the NaN of f8E8M0FNU as infinity."""
    if case.op == "convert" and case.operands[0] not in FORMATS:
        return [as_exact(operands[0], case.operands[0]).value]
    numbers = [FORMATS[t].decode(x) for t, x in zip(case.operands, operands, strict=True)]
    if case.operands[0] != _E8M0 or case.op not in (*FUNCTIONS, "convert"):
        return numbers
    return [np.where(np.isnan(x), np.inf, x) for x in numbers]


def _encode(numbers: np.ndarray) -> Codes:
    """Numbers below 2^-127 get its code; the sign of a number other than zero gets the bit of the exponent."""
    size = np.abs(numbers)
    codes = np.where(size < _SMALLEST, np.uint8(0), encode(FORMATS[_E8M0], Exact.of(size))[0])
    negative = np.signbit(numbers) & (size > 2.0**-128) & ~np.isnan(numbers)
    return np.where(negative, codes | 0x80, codes).astype(np.uint8)


def _is_elementwise(case: OpCase) -> bool:
    return case.op == "convert" or (case.op in models.OPS and all(t in FORMATS for t in case.operands))


def _signed_exponent(case: OpCase, operands: Operands) -> Codes | None:
    """Negative results set the bit that holds the sign elsewhere."""
    right = models.compute_case(case, operands) if _is_elementwise(case) and case.result == _E8M0 else None
    if right is None:
        return None
    exact = estimate(case.op, *_numbers(case, operands))
    negative = np.signbit(exact) & (np.abs(exact) > 2.0**-128)
    return np.where(negative, _encode(exact), right)


def _zero_as_smallest(case: OpCase, operands: Operands) -> Codes | None:
    """Zero, and underflow, as 2^-127."""
    right = models.compute_case(case, operands) if _is_elementwise(case) and case.result == _E8M0 else None
    if right is None or case.op == "logistic":
        return None
    of_floats = [FORMATS[t].decode(x) for t, x in zip(case.operands, operands, strict=True) if t in FORMATS]
    plain = np.logical_or.reduce([np.isnan(x) for x in of_floats]) if of_floats else np.zeros(len(right), bool)
    return np.where(plain, right, _encode(estimate(case.op, *_numbers(case, operands))))


def _nan_as_infinity(case: OpCase, operands: Operands) -> Codes | None:
    """The NaN as infinity, in operands and in results."""
    if case.operands[0] != _E8M0 or not _is_elementwise(case) or case.result not in FORMATS:
        return None
    exact = estimate(case.op, *_numbers(case, operands))
    if case.result == _E8M0:
        return _encode(exact)
    return encode(FORMATS[case.result], Exact.of(exact))[0] if case.op == "convert" else None


_OWN = (
    Fault("sign-of-code-zero", "the sign of the number with code 0 is that number", _sign_of_code_zero),
    Fault("expm1-in-steps-f16", "exp(x) - 1 with each step rounded to f16", _expm1_in_f16),
    Fault("powers-of-the-smallest", "powers of 2^-127 are those of 2^-150", _powers_of_the_smallest),
    Fault("smallest-as-false", "2^-127 is false", _smallest_as_false),
    Fault("signed-exponent", "negative results set the exponent's first bit", _signed_exponent),
    Fault("zero-as-smallest", "zero and results that vanish are 2^-127", _zero_as_smallest),
    Fault("nan-as-infinity-in-exponents", "the NaN of f8E8M0FNU is read as infinity", _nan_as_infinity),
)

#: Every fault that a cause may name, by its identifier.
FAULTS: dict[str, Fault] = SHARED | {f.identifier: f for f in _OWN}
