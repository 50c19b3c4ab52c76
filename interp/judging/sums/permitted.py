"""Grades the results of a sum: right are those of any order, in f32 or f64, rounded once.

A backend may sum in a narrower type without saying so. That is a matter of accuracy if one accumulator explains all
results of the op: a type to round the sum to first, a type and an order with every step rounded, or, if the
order is unknown, results that are as far off as those of such an accumulator, everywhere and in every part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.types import ELEMENT_TYPES, ElementType, TensorType, type_of_dtype
from ...program import Operation
from ..diagnosis import of_array
from ..equality import GradedResult
from ..record import NEAR, NONE, OPEN, SAME, WRONG, Diagnosis
from ..table import cause
from ..wide import sole_op_name
from .accumulators import folds, model_of
from .exact_sums import ExactSums
from .likeness import is_like, units
from .narrowed import NARROWED, is_imprecise
from .sum_faults import sum_fault

_PRODUCTS = ("dot", "dot_general", "convolution", "dynamic_conv", "einsum", "unary_einsum", "ragged_dot")
_FOLDS = ("reduce", "reduce_window", "scatter", "select_and_scatter")
_ADD, _MULTIPLY = "stablehlo.add", "stablehlo.multiply"
_PRECISION = {name: ELEMENT_TYPES[name].format.precision for name in ("f32", "f64")}

Arrays = Sequence[np.ndarray]


def is_sum(operation: Operation) -> bool:
    """Whether an op adds or multiplies floats or complex numbers in an implementation-defined order."""
    name = operation.name.rpartition(".")[2]
    element = _element(operation)
    if len(operation.results) != 1 or element is None or not (element.is_float or element.is_complex):
        return False
    if name == "select_and_scatter":
        return sole_op_name(operation.regions[0]) == "stablehlo.compare" and sole_op_name(operation.regions[1]) == _ADD
    return name in _PRODUCTS or (name in _FOLDS and sole_op_name(operation.regions[0]) in (_ADD, _MULTIPLY))


def permit(operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, found: GradedResult) -> None:
    """Grades the elements of a sum that are right, or that an accumulator explaining all of them gives.

    A fault that explains all results is noted.
    """
    element, result = _element(operation), type_of_dtype(theirs.dtype)
    sums = ExactSums.of(operation, operands)
    if element is None or sums is None or sums.exact.shape != theirs.shape:
        return None
    bits = _PRECISION["f64" if element.part.bits == 64 else "f32"]
    # Our own sums in f64 are off as much as others; complex products consist of four.
    bits -= (element.part.bits == 64) + 3 * element.is_complex
    found.set(sums.within(theirs, bits), SAME)
    if found.grades.max(initial=SAME) == SAME or element.is_complex:
        return None
    most = np.finfo(np.float64 if element.bits == 64 else np.float32).max
    can_overflow = np.isfinite(sums.exact) & (sums.sizes > most)
    overflows = can_overflow & ~np.isfinite(theirs.astype(np.float64))
    found.set(overflows, NEAR, cause("may-overflow"))
    wrong, selected = found.grades == WRONG, found.grades != OPEN
    if not wrong.any() or not result.is_float:
        return None
    if sums.wrong_zeros(theirs)[wrong].any():  # no accumulator gives these
        if sums.wrong_zeros(theirs)[wrong].all():
            found.notes.append(cause("zero-signs"))
        return None
    note = _narrowed_operands(operation, operands, theirs, wrong) if element.bits == 32 else NONE
    if element.bits < 32:
        note = _narrow(sums, theirs, wrong, selected & ~overflows)
    if note:
        return found.set(wrong, NEAR, note)
    fault = sum_fault(sums, theirs, ours, wrong, selected)
    if not fault and element.bits < 32 and _is_like(sums, theirs, wrong, selected & ~overflows):
        return found.set(wrong, NEAR, cause("like-steps" if operation.regions else "like-units", element=element))
    if fault := fault or of_array(wrong):
        found.notes.append(fault)
    return None


def _narrow(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, selected: np.ndarray) -> Diagnosis:
    """The accumulator narrower than f32 that explains all results."""
    result = type_of_dtype(theirs.dtype)
    for name in ("f16", "bf16"):
        through = ELEMENT_TYPES[name]
        is_between = through.format.precision > result.format.precision
        if is_between and sums.within(theirs, _PRECISION["f32"], through)[selected].all():
            sentence = f"as if the sum was rounded to {through} first, and then to {result}"
            return Diagnosis(sentence, (f"exact/then-{through}",))
    model = model_of(sums, theirs, wrong, selected)
    return Diagnosis(f"as if {model}", model.causes) if model else NONE


def _is_like(sums: ExactSums, theirs: np.ndarray, wrong: np.ndarray, selected: np.ndarray) -> bool:
    if sums.terms is None:
        return False
    with np.errstate(all="ignore"):
        if not sums.operation.regions:
            return is_like(sums, theirs, wrong, selected, units(sums))
        # For minifloats, steps in an unknown order explain nearly anything.
        return not sums.element.is_minifloat and is_like(
            sums, theirs, wrong, selected, [lambda rows, f=f: f(rows.terms) for f in folds(sums)]
        )


def _narrowed_operands(operation: Operation, operands: Arrays, theirs: np.ndarray, wrong: np.ndarray) -> Diagnosis:
    """The type that operands of f32 were rounded to, which the default precision permits."""
    if not is_imprecise(operation):
        return NONE
    for identifier, rounded in NARROWED.items():
        narrow = ExactSums.of(operation, [rounded(x) for x in operands])
        if narrow is not None and narrow.within(theirs, _PRECISION["f32"])[wrong].all():
            return cause(f"operands-{identifier}")
    return NONE


def _element(operation: Operation) -> ElementType | None:
    t = operation.operands[0].type if operation.operands else None
    return t.element if isinstance(t, TensorType) else None
