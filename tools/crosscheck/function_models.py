"""The results of peers in functions of mlir_tests/ under a known cause; `function_causes.toml` names and explains each.

A model takes what a function checks and gives the codes that the peer gives if the cause is the reason, or None where
the cause does not apply.
"""

from __future__ import annotations

import functools

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from minihlo.interp.parse.parser import make_context
from minihlo.ops.op import Call, lookup
from minihlo.ops.policy import Policy
from minihlo.ops.programs.checks import ulp_distance
from minihlo.ops.types import ELEMENT_TYPES, ElementType, TensorType

from .functions import CheckedValues, Function, codes_of_values
from .numbers import E8M0, F16, F32, convert, is_nan, value
from .peers import Codes

BF16 = ELEMENT_TYPES["bf16"]


def name_of(checked: CheckedValues) -> str:
    """The op that the values are results of, or an empty string."""
    return checked.operation.name if checked.operation else ""


# -- XLA's CPU compiler: subnormal numbers, wider types ----------------------------------------------------------------


def payload(checked: CheckedValues) -> Codes | None:
    t = checked.element
    return np.where(is_nan(checked.got, t) & is_nan(checked.expected, t), checked.got, checked.expected)


def _flush_bf16(codes: Codes) -> Codes:
    """Codes of bf16 with zeros instead of subnormal numbers."""
    return np.where(codes & 0x7F80 == 0, codes & 0x8000, codes).astype(np.uint16)


def _has_bf16(checked: CheckedValues) -> bool:
    return "bf16" in checked.function.name


@functools.cache
def _with_flushed_inputs(function: Function) -> dict[int, np.ndarray]:
    inputs = [_flush_bf16(x) if x.dtype == np.uint16 else x for x in function.exported.inputs]
    return dict(function.rerun(inputs=inputs))


def bf16_flushed(checked: CheckedValues) -> Codes | None:
    if not _has_bf16(checked) or name_of(checked) == "stablehlo.sort":
        return None
    result = codes_of_values(_with_flushed_inputs(checked.function)[id(checked.check)], checked.element)
    return _flush_bf16(result) if checked.element == BF16 else result


def functions_of_flushed(checked: CheckedValues) -> Codes | None:
    if checked.case is None or checked.element != BF16:
        return None
    case, operands = checked.case
    small = np.logical_and.reduce([(x & 0x7F80 == 0) & (x & 0x7FFF != 0) for x in operands])
    if case.op == "atan2":
        return np.where(small, 0x7FC0, checked.expected).astype(np.uint16)
    if case.op == "cbrt":
        return np.where(small, 0xA621, checked.expected).astype(np.uint16)
    return None


def sorted_flushed(checked: CheckedValues) -> Codes | None:
    if name_of(checked) != "stablehlo.sort" or not _has_bf16(checked):
        return None
    got, expected = checked.got, checked.expected
    if sorted(got) != sorted(expected):
        return None
    is_zero = (_flush_bf16(expected) & 0x7FFF == 0) if checked.element == BF16 else np.ones(got.shape, bool)
    return np.where(is_zero, got, expected)


def _in_type(checked: CheckedValues, wide: ElementType) -> Codes | None:
    """The op computed in a wider type, and its result then rounded; None if the op has a region.

    From f8E8M0FNU 2^-127, which is subnormal in f32, is read as zero. Of several results it is the nearest.
    """
    operation = checked.operation
    record = lookup(operation.name) if operation else None
    if operation is None or record is None or operation.regions or not checked.element.is_float:
        return None
    arrays, takes = [], []
    for v in operation.operands:
        assert isinstance(v.type, TensorType)
        codes = codes_of_values(np.asarray(checked.function.values[id(v)]), v.type.element)
        codes = convert(codes, v.type.element, wide)
        arrays.append(_flushed_f32(codes, wide).view(wide.dtype).reshape(v.type.shape))
        takes.append(TensorType(v.type.shape, wide))
    gives = tuple(TensorType(v.type.shape, wide) for v in operation.results if isinstance(v.type, TensorType))
    with np.errstate(all="ignore"):
        result = record.function(Call(operation.name, tuple(takes), gives, operation.attributes))(*arrays)
    results = [np.asarray(r) for r in (result if isinstance(result, tuple) else (result,))]
    codes = [_flushed_f32(codes_of_values(r, wide), wide) for r in results if r.size == checked.got.size]
    rounded = [convert(c, wide, checked.element) for c in codes]
    return max(rounded, key=lambda c: (c == checked.got).sum(), default=None)


def _flushed_f32(codes: Codes, t: ElementType) -> Codes:
    return np.where(codes & 0x7F800000 == 0, codes & 0x80000000, codes).astype(np.uint32) if t == F32 else codes


def reduced_in_f16(checked: CheckedValues) -> Codes | None:
    if name_of(checked) != "stablehlo.reduce_precision":
        return None
    return _in_type(checked, F32 if checked.element == E8M0 else F16)


def steps_in_f32(checked: CheckedValues) -> Codes | None:
    names = ("batch_norm_grad", "batch_norm_training")
    return _in_type(checked, F32) if checked.element == E8M0 and checked.function.file in names else None


def flushed_in_sums(checked: CheckedValues) -> Codes | None:
    is_sum = name_of(checked) == "stablehlo.dot_general"
    return _in_type(checked, F32) if checked.element == E8M0 and is_sum else None


def near(checked: CheckedValues) -> Codes | None:
    return checked.got if checked.case is not None and checked.element == F16 else None


def zeros_in_e8m0(checked: CheckedValues) -> Codes | None:
    if checked.element != E8M0 or checked.function.file not in ("cholesky", "triangular_solve"):
        return None
    return np.full(checked.got.shape, 0xFF, np.uint8)


def false_is_smallest(checked: CheckedValues) -> Codes | None:
    if checked.case is None or (checked.case[0].operands[0], checked.element) != ("i1", E8M0):
        return None
    return np.where(checked.case[1][0] == 0, 0, 0x7F).astype(np.uint8)


# -- XLA on CHLO, whose ops it expands to StableHLO's ------------------------------------------------------------------


#: So many ULP off what exact steps give a result of steps may be, each of which is an ULP off.
_STEPS = 8


@functools.cache
def _expand(function: Function, arithmetic: str) -> dict[int, np.ndarray]:
    """The results of the function with its CHLO ops expanded to StableHLO's, as XLA does before compiling.

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


def _in_steps(checked: CheckedValues) -> Codes | None:
    """The result of an expansion: of exact steps or, if it differs, of steps rounded to f16 first."""
    if not name_of(checked).startswith("chlo."):
        return None
    result = None
    for arithmetic in ("direct", "upcast:f16"):
        steps = _expand(checked.function, arithmetic)
        if id(checked.check) in steps:
            codes = codes_of_values(steps[id(checked.check)], checked.element)
            result = codes if result is None else np.where(result == checked.got, result, codes)
    return result


def _if_near(checked: CheckedValues, steps: Codes, other: Codes, model: Codes) -> Codes | None:
    """The model if the result of steps is at most some ULP off the other, and the expected result elsewhere."""
    t = checked.element
    if not t.is_float:
        return None
    near = np.asarray(ulp_distance(steps.view(t.dtype), other.view(t.dtype))) <= _STEPS
    return np.where(near, model, checked.expected)


def neighbours_by_bits(checked: CheckedValues) -> Codes | None:
    return _in_steps(checked) if name_of(checked).endswith("next_after") else None


def left_open_in_steps(checked: CheckedValues) -> Codes | None:
    return _in_steps(checked) if checked.function.name.endswith("_open") else None


def chlo_in_steps(checked: CheckedValues) -> Codes | None:
    steps = _in_steps(checked)
    return steps if steps is None else _if_near(checked, steps, checked.expected, steps)


def chlo_fails(checked: CheckedValues) -> Codes | None:
    return _in_steps(checked)


def chlo_approximately(checked: CheckedValues) -> Codes | None:
    steps = _in_steps(checked)
    return steps if steps is None else _if_near(checked, steps, checked.got, checked.got)


def steps_flushed(checked: CheckedValues) -> Codes | None:
    if checked.element == BF16:
        is_small = (checked.expected & 0x7FFF) <= 0x0100  # 2^-125
        return np.where(is_small, checked.expected & 0x8000, checked.expected).astype(np.uint16)
    if checked.element != E8M0 or checked.operation is None or not name_of(checked).startswith("chlo."):
        return None
    operands = [codes_of_values(np.asarray(checked.function.values[id(v)]), E8M0) for v in checked.operation.operands]
    small = np.logical_or.reduce([x <= 1 for x in operands])
    return np.where(small, 0xFF, checked.expected).astype(np.uint8)


def zeta_at_infinity(checked: CheckedValues) -> Codes | None:
    t = checked.element
    if name_of(checked) != "chlo.zeta" or checked.operation is None or t.format.nan_code is None:
        return None
    s, q = (np.asarray(checked.function.values[id(v)]).ravel().astype(np.float64) for v in checked.operation.operands)
    nan = np.asarray(t.format.nan_code, checked.got.dtype)
    return np.where(np.isinf(s) & (q == 1), nan, checked.expected)


# -- ml_dtypes, and what `upcast` has of it ----------------------------------------------------------------------------


def zeros(checked: CheckedValues) -> Codes | None:
    if checked.case is None or checked.element != F16:
        return None
    case, operands = checked.case
    if case.op == "sign":
        return np.where(operands[0] & 0x7FFF == 0, 0, checked.expected).astype(np.uint16)
    return operands[0] if case.op in ("maximum", "minimum") else None


def beyond(checked: CheckedValues) -> Codes | None:
    if checked.case is None or checked.case[0].op != "convert" or not checked.element.is_integer:
        return None
    case, operands = checked.case
    source = ELEMENT_TYPES[case.operands[0]]
    info, x = np.iinfo(checked.element.dtype), value(operands[0], source)
    fits = (np.trunc(x) >= float(info.min)) & (np.trunc(x) <= float(info.max)) & ~is_nan(operands[0], source)
    return np.where(fits & (np.abs(x) < 2.0 ** (checked.element.bits - 1)), checked.expected, checked.got)


def small_rounded_up(checked: CheckedValues) -> Codes | None:
    if checked.element != E8M0 or checked.operation is None or not checked.operation.name.startswith("chlo."):
        return None
    return np.where(checked.expected == 0, 1, checked.expected).astype(np.uint8)


# -- StableHLO's reference interpreter ---------------------------------------------------------------------------------


_SUMS = ("stablehlo.dot_general", "stablehlo.convolution", "stablehlo.dynamic_conv")


def sums_in_steps(checked: CheckedValues) -> Codes | None:
    if name_of(checked) not in _SUMS:
        return None
    result = checked.function.rerun(Policy(accumulate="element"))
    return codes_of_values(result[id(checked.check)], checked.element)


def reduce_precision_on_bits(checked: CheckedValues) -> Codes | None:
    """The algorithm on the bits of f16, with the format's field widths instead of f16's."""
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


def sorted_without_total_order(checked: CheckedValues) -> Codes | None:
    function = checked.function
    if name_of(checked) != "stablehlo.sort" or "TOTALORDER" not in function.exported.text:
        return None
    if is_nan(checked.expected, checked.element).any():
        return checked.got if sorted(checked.got) == sorted(checked.expected) else None
    result = function.rerun(text=function.exported.text.replace("TOTALORDER", "FLOAT"))
    return codes_of_values(result[id(checked.check)], checked.element)
