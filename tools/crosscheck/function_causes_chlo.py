"""Causes of XLA's CPU compiler in programs of CHLO, whose ops it expands to StableHLO's."""

from __future__ import annotations

import functools

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from minihlo.interp.parse.parser import make_context
from minihlo.ops.policy import Policy
from minihlo.ops.programs.checks import ulp_distance

from .function_causes import function_cause, name_of
from .function_causes_xla import BF16  # whose causes come first
from .functions import Checked, Function, codes_of_values
from .numbers import E8M0
from .peers import Codes
from .registry import ACCURACY, ERROR, OPEN

#: So many ULP off what exact steps give a result of steps may be, each of which is an ULP off.
_STEPS = 8


@functools.cache
def _expanded(function: Function, arithmetic: str) -> dict[int, np.ndarray]:
    """What the function gives where its CHLO ops are expanded to StableHLO's, as XLA does before compiling.

    Empty where an op has no expansion.
    """
    stablehlo.register_stablehlo_passes()
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(function.exported.text)
        try:
            PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)
        except ir.MLIRError:
            return {}
        text = str(module)
    return dict(function.rerun(Policy(arithmetic=arithmetic), text=text))


def _in_steps(checked: Checked) -> Codes | None:
    """The result of an expansion, of exact steps or, where that is not it, of such as are rounded to f16 first."""
    if not name_of(checked).startswith("chlo."):
        return None
    found = None
    for arithmetic in ("direct", "upcast:f16"):
        steps = _expanded(checked.function, arithmetic)
        if id(checked.check) in steps:
            codes = codes_of_values(steps[id(checked.check)], checked.element)
            found = codes if found is None else np.where(found == checked.got, found, codes)
    return found


def _if_near(checked: Checked, steps: Codes, other: Codes, model: Codes) -> Codes | None:
    """The model where the result of steps is some ULP off the other at most, and what is expected elsewhere."""
    t = checked.element
    if not t.is_float:
        return None
    near = np.asarray(ulp_distance(steps.view(t.dtype), other.view(t.dtype))) <= _STEPS
    return np.where(near, model, checked.expected)


@function_cause(
    "neighbours-by-bits",
    "xla",
    ERROR,
    "chlo.next_after takes every format for one with a sign and -0",
    "It counts codes up or down by their sign. In f8E8M0FNU, which has none, it goes the wrong way or to another "
    "number altogether; in the FNUZ formats the neighbour of the smallest negative number is NaN.",
)
def _neighbours_by_bits(checked: Checked) -> Codes | None:
    return _in_steps(checked) if name_of(checked).endswith("next_after") else None


@function_cause(
    "CHLO-in-steps-left-open",
    "xla",
    OPEN,
    "What a format leaves open, after an expansion of CHLO's",
    "A step gives what the format does not have, such as NaN in f4E2M1FN or zero in f8E8M0FNU, and the next steps go "
    "on with what has come of it.",
)
def _left_open_in_steps(checked: Checked) -> Codes | None:
    return _in_steps(checked) if checked.function.name.endswith("_open") else None


@function_cause(
    "CHLO-in-steps",
    "xla",
    ACCURACY,
    "CHLO's functions are expanded to a series of ops, each of which rounds to the format",
    "The specification of CHLO does not say how accurate they are. minihlo computes them exactly and rounds once.",
)
def _chlo_in_steps(checked: Checked) -> Codes | None:
    steps = _in_steps(checked)
    return steps if steps is None else _if_near(checked, steps, checked.expected, steps)


@function_cause(
    "CHLO-in-steps-that-fail",
    "xla",
    ERROR,
    "An expansion of CHLO's gives another special value, or has a step that the format cannot hold",
    "chlo.zeta(0, 0) is infinite, since poles are asked for before the domain, which begins at s = 1; infinities "
    "cancel to NaN; a negative step has no place in f8E8M0FNU; a step that rounds to another sign changes that of the "
    "result; and infinity is 0 in f4E2M1FN, so that chlo.is_inf holds of 0.",
)
def _chlo_fails(checked: Checked) -> Codes | None:
    return _in_steps(checked)


@function_cause(
    "CHLO-in-approximate-steps",
    "xla",
    ACCURACY,
    "A step of an expansion of CHLO's is not correctly rounded",
    "As above, and the result is not even what the expansion gives in exact steps, but up to 8 ULP off it.",
)
def _chlo_approximately(checked: Checked) -> Codes | None:
    steps = _in_steps(checked)
    return steps if steps is None else _if_near(checked, steps, checked.got, checked.got)


@function_cause(
    "steps-below-the-smallest-normal",
    "xla",
    ERROR,
    "A step of an expansion that is subnormal in f32 is taken for zero",
    "In bf16 the result is zero, though it is no subnormal number itself; in f8E8M0FNU it is NaN.",
)
def _steps_flushed(checked: Checked) -> Codes | None:
    if checked.element == BF16:
        is_small = (checked.expected & 0x7FFF) <= 0x0100  # 2^-125
        return np.where(is_small, checked.expected & 0x8000, checked.expected).astype(np.uint16)
    if checked.element != E8M0 or checked.operation is None or not name_of(checked).startswith("chlo."):
        return None
    operands = [codes_of_values(np.asarray(checked.function.values[id(v)]), E8M0) for v in checked.operation.operands]
    small = np.logical_or.reduce([x <= 1 for x in operands])
    return np.where(small, 0xFF, checked.expected).astype(np.uint8)


@function_cause(
    "zeta-at-infinity",
    "xla",
    ERROR,
    "chlo.zeta(inf, 1) is NaN",
    "The sum of (1 + k)**-s over k has the limit 1. It is expanded to terms that are 0 times infinity.",
)
def _zeta_at_infinity(checked: Checked) -> Codes | None:
    t = checked.element
    if name_of(checked) != "chlo.zeta" or checked.operation is None or t.format.nan_code is None:
        return None
    s, q = (np.asarray(checked.function.values[id(v)]).ravel().astype(np.float64) for v in checked.operation.operands)
    nan = np.asarray(t.format.nan_code, checked.got.dtype)
    return np.where(np.isinf(s) & (q == 1), nan, checked.expected)
