"""Causes of XLA's CPU compiler in whole programs: subnormal numbers, wider types."""

from __future__ import annotations

import functools

import numpy as np

from minihlo.ops.registry import Call, lookup
from minihlo.ops.types import ELEMENT_TYPES, ElementType, TensorType

from .function_causes import function_cause, name_of
from .functions import Checked, Function, codes_of_values
from .numbers import E8M0, F16, F32, convert, is_nan
from .peers import Codes
from .registry import ACCURACY, ERROR, OPEN

BF16 = ELEMENT_TYPES["bf16"]


@function_cause(
    "NaN-loses-its-payload",
    "xla",
    OPEN,
    "A NaN that is only moved can become another NaN",
    "select, sort and the like are computed in a wider type, and the conversions there and back leave of a NaN only "
    "that it is one. No document says that its bits have to be kept.",
)
def _payload(checked: Checked) -> Codes | None:
    t = checked.element
    return np.where(is_nan(checked.got, t) & is_nan(checked.expected, t), checked.got, checked.expected)


# -- subnormal numbers -------------------------------------------------------------------------------------------------


def _flushed(codes: Codes) -> Codes:
    """Codes of bf16 with zeros in the place of subnormal numbers."""
    return np.where(codes & 0x7F80 == 0, codes & 0x8000, codes).astype(np.uint16)


def _has_bf16(checked: Checked) -> bool:
    return "bf16" in checked.function.name


@functools.cache
def _with_flushed_inputs(function: Function) -> dict[int, np.ndarray]:
    inputs = [_flushed(x) if x.dtype == np.uint16 else x for x in function.exported.inputs]
    return dict(function.rerun(inputs=inputs))


@function_cause(
    "subnormals-of-bf16-flushed",
    "xla",
    ERROR,
    "Subnormal numbers of bf16 count as zero, and as results are zero",
    "They are subnormal in f32 too, in which bf16 is computed, and the processor is set to treat those as zero.",
)
def _bf16_flushed(checked: Checked) -> Codes | None:
    if not _has_bf16(checked) or name_of(checked) == "stablehlo.sort":
        return None
    found = codes_of_values(_with_flushed_inputs(checked.function)[id(checked.check)], checked.element)
    return _flushed(found) if checked.element == BF16 else found


@function_cause(
    "functions-of-flushed-numbers",
    "xla",
    ERROR,
    "atan2 of two subnormal numbers of bf16 is NaN, cbrt of one is about -5.6e-16",
    "Both functions see that the operand is not zero, and then compute with zero.",
)
def _functions_of_flushed(checked: Checked) -> Codes | None:
    if checked.case is None or checked.element != BF16:
        return None
    case, operands = checked.case
    small = np.logical_and.reduce([(x & 0x7F80 == 0) & (x & 0x7FFF != 0) for x in operands])
    if case.op == "atan2":
        return np.where(small, 0x7FC0, checked.expected).astype(np.uint16)
    if case.op == "cbrt":
        return np.where(small, 0xA621, checked.expected).astype(np.uint16)
    return None


@function_cause(
    "sorted-with-subnormals-as-zero",
    "xla",
    ERROR,
    "sort takes subnormal numbers of bf16 for equal to zero",
    "They keep their bits and change their places. Checked is that the elements are the same, and that those that are "
    "no zero so far stand where they should.",
)
def _sorted_flushed(checked: Checked) -> Codes | None:
    if name_of(checked) != "stablehlo.sort" or not _has_bf16(checked):
        return None
    got, expected = checked.got, checked.expected
    if sorted(got) != sorted(expected):
        return None
    is_zero = (_flushed(expected) & 0x7FFF == 0) if checked.element == BF16 else np.ones(got.shape, bool)
    return np.where(is_zero, got, expected)


# -- wider types -------------------------------------------------------------------------------------------------------


def _in_type(checked: Checked, wide: ElementType) -> Codes | None:
    """The op computed in a wider type, and its result then rounded; None where the op has a region.

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
        found = record.kernel(Call(operation.name, tuple(takes), gives, operation.attributes))(*arrays)
    results = [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]
    codes = [_flushed_f32(codes_of_values(r, wide), wide) for r in results if r.size == checked.got.size]
    rounded = [convert(c, wide, checked.element) for c in codes]
    return max(rounded, key=lambda c: (c == checked.got).sum(), default=None)


def _flushed_f32(codes: Codes, t: ElementType) -> Codes:
    return np.where(codes & 0x7F800000 == 0, codes & 0x80000000, codes).astype(np.uint32) if t == F32 else codes


@function_cause(
    "reduce-precision-in-f16",
    "xla",
    ERROR,
    "reduce_precision reduces f16, and the result is then rounded to the format",
    "A number that the wanted precision has need not be one of the format, and the other way round: f16 has subnormal "
    "numbers where the format has none, so that what should become zero does not.",
)
def _reduced_in_f16(checked: Checked) -> Codes | None:
    if name_of(checked) != "stablehlo.reduce_precision":
        return None
    return _in_type(checked, F32 if checked.element == E8M0 else F16)


@function_cause(
    "several-steps-in-f32",
    "xla",
    OPEN,
    "Ops of several steps compute f8E8M0FNU in f32 throughout",
    "batch_norm's mean and variance pass through zero and through negative numbers, which the format lacks; minihlo "
    "rounds each step to the format, and gives NaN.",
)
def _steps_in_f32(checked: Checked) -> Codes | None:
    names = ("batch_norm_grad", "batch_norm_training")
    return _in_type(checked, F32) if checked.element == E8M0 and checked.function.file in names else None


@function_cause(
    "subnormals-flushed-in-sums",
    "xla",
    ERROR,
    "dot_general takes 2^-127 of f8E8M0FNU for zero",
    "The sum is computed in f32, where that number is subnormal: as an operand it is zero, as a result NaN.",
)
def _flushed_in_sums(checked: Checked) -> Codes | None:
    is_sum = name_of(checked) == "stablehlo.dot_general"
    return _in_type(checked, F32) if checked.element == E8M0 and is_sum else None


@function_cause(
    "functions-of-f16-within-an-ULP",
    "xla",
    ACCURACY,
    "Functions of f16 are not always correctly rounded",
    "They are computed in f32, by approximations that are accurate to some ULP of f32, and rounded.",
)
def _near(checked: Checked) -> Codes | None:
    return checked.got if checked.case is not None and checked.element == F16 else None


@function_cause(
    "zeros-in-f8E8M0FNU",
    "xla",
    ERROR,
    "cholesky and triangular_solve of f8E8M0FNU are NaN",
    "They are expanded to programs that begin with zeros, and zero is NaN in this format.",
)
def _zeros_in_e8m0(checked: Checked) -> Codes | None:
    if checked.element != E8M0 or checked.function.file not in ("cholesky", "triangular_solve"):
        return None
    return np.full(checked.got.shape, 0xFF, np.uint8)


@function_cause(
    "false-is-the-smallest",
    "xla",
    OPEN,
    "false converts to 2^-127 in f8E8M0FNU",
    "The format has no zero. From every other type zero converts to NaN, here and in minihlo.",
)
def _false_is_smallest(checked: Checked) -> Codes | None:
    if checked.case is None or (checked.case[0].operands[0], checked.element) != ("i1", E8M0):
        return None
    return np.where(checked.case[1][0] == 0, 0, 0x7F).astype(np.uint8)
