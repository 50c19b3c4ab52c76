"""What the wrong results of an op have in common, in a sentence, where it is one of the faults that are often made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...ops.minifloat.cast import cast
from ...ops.policy import Policy
from ...ops.registry import lookup
from ...ops.types import ELEMENT_TYPES, type_of_dtype
from ..program import Operation, Value
from .grades import is_subnormal, same
from .wide import in_f64

_F64 = ELEMENT_TYPES["f64"]
_PLAIN = Policy()
_TWICE = "the exact results rounded to {} first, and then once more"


def diagnose(
    operation: Operation, operands: Sequence[np.ndarray], theirs: np.ndarray, ours: np.ndarray, wrong: np.ndarray
) -> list[str]:
    """One sentence, or none."""
    element = type_of_dtype(theirs.dtype)
    if not wrong.any():
        return []
    if element.is_float and (~wrong | ((theirs == 0) & is_subnormal(ours))).all():
        return ["subnormal results are flushed to zero"]
    record = lookup(operation.name)
    if record is None or not record.is_elementwise or element.is_complex:
        return []
    if operation.name == "stablehlo.divide" and element.is_float and element.bits >= 32:
        x, y = operands
        if (~wrong | same(theirs, np.asarray(x * (y.dtype.type(1) / y)))).all():
            return ["the dividend times the reciprocal of the divisor, which is rounded too"]
    exact = in_f64(operation, operands) if element.is_float and element.bits <= 16 else None

    def is_rounded_twice(through: str) -> bool:
        between = ELEMENT_TYPES[through]
        if exact is None or exact[0].shape != theirs.shape or between.bits <= element.bits:
            return False
        twice = cast(cast(exact[0], _F64, between, _PLAIN), between, element, _PLAIN)
        return bool((~wrong | same(theirs, twice)).all())

    if is_rounded_twice("f32"):
        return [_TWICE.format("f32")]
    involved = np.zeros(wrong.shape, bool)
    for x in operands:
        if type_of_dtype(x.dtype).is_float and (x.shape == wrong.shape or not x.shape):
            involved |= np.broadcast_to(is_subnormal(x), wrong.shape)
    if (~wrong | involved).all():
        return ["every wrong result has a subnormal operand"]
    return [_TWICE.format(t) for t in ("f16", "bf16") if is_rounded_twice(t)][:1]


def unrounded(
    operation: Operation,
    operands: Sequence[np.ndarray],
    theirs: np.ndarray,
    wrong: np.ndarray,
    makers: Mapping[Value, Operation],
    values: Mapping[Value, np.ndarray],
) -> list[str]:
    """Whether an operand was taken as it was before it was rounded: of a program whose ops are compiled together."""
    element = type_of_dtype(theirs.dtype)
    if not element.is_float:
        return []
    for i, value in enumerate(operation.operands):
        maker = makers.get(value)
        record = lookup(maker.name) if maker is not None else None
        if maker is None or record is None or not record.is_elementwise:
            continue
        exact = in_f64(maker, [values[v] for v in maker.operands])
        for through in ("f64", "f32", "f16"):
            if exact is None or exact[0].dtype != np.float64:
                break
            held = cast(cast(exact[0], _F64, ELEMENT_TYPES[through], _PLAIN), ELEMENT_TYPES[through], _F64, _PLAIN)
            found = in_f64(operation, [held if j == i else x for j, x in enumerate(operands)])
            if found is None or found[0].shape != theirs.shape:
                continue
            if (~wrong | same(theirs, cast(found[0], _F64, element, _PLAIN))).all():
                return [f"as if the result of {maker.name} ({maker.location}) had not been rounded before"]
    return []
