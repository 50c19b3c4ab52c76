"""Judges a backend's results of one op by ours, on the same operands: right, near enough, open or wrong."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.op import CORRECTLY_ROUNDED, EXACT, EXACT_BUT_COMPLEX, call_attribute, lookup, traits_of
from ...ops.types import TensorType, type_of_dtype
from .. import machine
from ..enclose import Allowed, Enclosure, enclose
from ..enclose.combining import lift
from ..errors import Error
from ..judging.equality import GradedResult, grade_by_equality
from ..judging.functions import grade_near
from ..judging.left_open import grade_initial_values, grade_open, has_initial_value, note
from ..judging.record import NEAR, OPEN, SAME, WRONG
from ..judging.sums import permitted as sums
from ..judging.sums.exact_sums import spread
from ..judging.table import cause
from ..judging.wide import plan_region, program_of
from ..program import Operation
from .diagnosis import diagnose

Arrays = Sequence[np.ndarray]


class Kind(enum.Enum):
    """The requirement on an op's results."""

    EXACT = "the exact result, rounded once"
    SUM = "a sum in any order, in a type that is wide enough"
    FUNCTION = "near the exact result"
    STEPS = "each of its steps is rounded, as the implementation chooses"
    RANDOM = "left to the implementation"


def judge(operation: Operation, operands: Arrays, theirs: Arrays, ours: Arrays) -> list[GradedResult]:
    """Grades each element of each result; shapes and types must agree."""
    graded_ = [grade_by_equality(t, o) for t, o in zip(theirs, ours, strict=True)]
    if all(g.worst == SAME for g in graded_):
        return graded_
    kind = kind_of(operation)
    for i, g in enumerate(graded_):
        if g.worst == SAME:
            continue
        if i == 0:
            grade_open(operation, operands, theirs[0], ours[0], g)
        if has_initial_value(operation):
            grade_initial_values(operation, operands, theirs[i], ours[i], g)
        if kind is Kind.SUM:
            sums.permit(operation, operands, theirs[i], ours[i], g)
        elif kind is Kind.FUNCTION:
            grade_near(operation, operands, theirs[i], ours[i], g)
        elif kind is Kind.STEPS:
            is_judged = _by_enclosure(operation, operands, theirs[i], i, g)
            _same_at_large(operation, theirs[i], ours[i], ~is_judged, g)
        elif kind is Kind.RANDOM:
            g.set(g.grades == WRONG, OPEN, note("implementation"))
        _in_another_order(operation, operands, theirs, ours, i, g)
        if kind is not Kind.SUM:
            g.notes += diagnose(operation, operands, theirs[i], ours[i], g)
    return graded_


def grade_policies(theirs: Arrays, ours: Arrays) -> list[GradedResult]:
    """Grades each element of the results of two policies: different results are both right."""
    found = [grade_by_equality(t, o) for t, o in zip(theirs, ours, strict=True)]
    for g in found:
        g.set(g.grades == WRONG, OPEN, cause("policies"))
    return found


def kind_of(operation: Operation) -> Kind:
    """The requirement on the results of an op, by its declared accuracy."""
    record, name = lookup(operation.name), operation.name.removeprefix("stablehlo.")
    if name in ("rng", "custom_call"):
        return Kind.RANDOM
    if name == "rng_bit_generator":
        return Kind.RANDOM if operation.attributes.get("rng_algorithm", "DEFAULT") == "DEFAULT" else Kind.EXACT
    if sums.is_sum(operation):
        return Kind.SUM
    if call_attribute(operation.name) is not None:
        return Kind.STEPS
    if operation.regions:
        return _kind_of_regions(operation)
    if record is None or not record.takes(v.type for v in operation.operands):
        return Kind.FUNCTION  # by CHLO's expansion
    is_length = record.accuracy is EXACT_BUT_COMPLEX and _is_complex(operation)
    if not rounds(operation) or (record.accuracy is EXACT_BUT_COMPLEX and not is_length):
        return Kind.EXACT
    if is_length or record.accuracy.is_near or (_is_complex(operation) and name in ("multiply", "divide", "sqrt")):
        return Kind.FUNCTION
    return Kind.EXACT if record.accuracy == CORRECTLY_ROUNDED else Kind.STEPS


def _kind_of_regions(operation: Operation) -> Kind:
    """The kind of an op with a body; a fold combines elements in an order that the implementation chooses."""
    if operation.name == "stablehlo.sort":  # whatever its comparator computes, its results are its operands' elements
        return Kind.EXACT
    inside = list(_inside(operation))
    is_fold = traits_of(operation.name).folds and any(map(rounds, inside))
    has_steps = sum(map(rounds, inside)) > 1  # which may be contracted to one rounding
    return Kind.STEPS if is_fold or has_steps or any(kind_of(o) is not Kind.EXACT for o in inside) else Kind.EXACT


def _inside(operation: Operation) -> Iterator[Operation]:
    for region in operation.regions:
        for inner in region.operations:
            yield inner
            yield from _inside(inner)


def rounds(operation: Operation) -> bool:
    """Whether an op rounds floats; for one with a body, whether an op of its body does."""
    if operation.regions:
        return any(map(rounds, _inside(operation)))
    record = lookup(operation.name)
    types = [v.type.element for v in operation.results if isinstance(v.type, TensorType)]
    is_exact = record is not None and (
        record.accuracy == EXACT or (record.accuracy is EXACT_BUT_COMPLEX and not _is_complex(operation))
    )
    return not is_exact and any(t.is_float or t.is_complex for t in types)


def _is_complex(operation: Operation) -> bool:
    return any(isinstance(v.type, TensorType) and v.type.element.is_complex for v in operation.operands)


# -- permissions -------------------------------------------------------------------------------------------------------


#: Ops whose regions are run on the elements of arrays; they may be judged as the operations in them.
_ON_ELEMENTS = ("stablehlo.map", "stablehlo.scatter")
#: Triples of elements on which a body is tried, and the share in which two groupings may differ by rounding.
_TRIED, _ABOUT = 64, 0.1


def enclosed(operation: Operation, operands: Arrays, index: int, flush: bool = False) -> Enclosure | None:
    """All that an implementation may give as a result; None where that is not known of such ops."""
    try:
        return enclose(program_of(operation), operands, Allowed(flush=flush))[index]
    except Error:
        return None


def _by_enclosure(
    operation: Operation, operands: Arrays, theirs: np.ndarray, index: int, grades: GradedResult
) -> np.ndarray:
    """Grades ops of many steps, such as batch normalization, by all that an implementation may give.

    Returns where that is known: other results are wrong.
    """
    is_on_elements = operation.name in _ON_ELEMENTS
    if (operation.regions and not is_on_elements) or call_attribute(operation.name) is not None:
        return np.zeros(theirs.shape, bool)
    whole = enclosed(operation, operands, index, not is_on_elements)
    if whole is None:
        return np.zeros(theirs.shape, bool)
    admitted = whole.admits(theirs) & ~whole.undecided
    grades.set(admitted & ~np.isfinite(theirs), NEAR, cause("may-overflow"))
    grades.set(admitted, NEAR, cause("steps"))
    return ~whole.undecided


def _same_at_large(
    operation: Operation, theirs: np.ndarray, ours: np.ndarray, where: np.ndarray, grades: GradedResult
) -> None:
    """Grades elements of ops of many steps: half of the digits of the largest element must agree."""
    why = cause("steps")
    element = type_of_dtype(theirs.dtype)
    if not (element.is_float or element.is_complex) or not ours.size:
        return grades.set(where & (grades.grades == WRONG), NEAR, why)
    with np.errstate(all="ignore"):
        x, y = (v.astype(np.complex128) for v in (theirs, ours))
        largest = np.max(np.abs(y[np.isfinite(y)]), initial=0.0)
    # Many steps in a narrow type may lose all digits, but hardly the magnitude.
    digits = element.part.format.precision // (4 if operation.regions else 2)
    share = 0.5 if element.part.is_minifloat else 2.0**-digits
    grades.set(where & (np.abs(x - y) <= largest * share), NEAR, why)
    return grades.set(where & ~np.isfinite(x) & ~np.isfinite(y), NEAR, why)


def _in_another_order(
    operation: Operation, operands: Arrays, theirs: Arrays, ours: Arrays, index: int, g: GradedResult
) -> None:
    """Grades ops that may arrange or combine elements in any order."""
    name, attributes = operation.name, operation.attributes
    if name == "stablehlo.sort":
        axis = int(attributes.get("dimension", -1))
        same = np.broadcast_to(_has_same_rows(theirs, ours, axis), g.grades.shape)
        if not attributes.get("is_stable", False):
            equal = _has_equal_places(operation, theirs, ours, axis)
            g.set(np.broadcast_to(same & equal, g.grades.shape), OPEN, note("order-of-equals"))
        if any(map(rounds, _inside(operation))):
            g.set(same, NEAR, cause("steps"))
        g.set(same & _without_order(operation, operands, axis), OPEN, cause("no-order"))
    if name in ("stablehlo.reduce", "stablehlo.reduce_window"):
        if kind_of(operation) is Kind.STEPS and not _associates(operation, operands):
            g.set(g.grades == WRONG, OPEN, cause("no-associativity"))
        if kind_of(operation) is Kind.EXACT and (whole := enclosed(operation, operands, index)) is not None:
            g.set(whole.admits(theirs[index]), OPEN, cause("no-associativity"))
    if name == "stablehlo.torch_index_select":  # which no specification has
        axis, batch = int(attributes["dim"]), int(attributes["batch_dims"])
        indices, rank = operands[1], operands[0].ndim
        beyond = (indices < 0) | (indices >= operands[0].shape[axis])
        shape = (*indices.shape[:batch], *[1] * (axis - batch), *indices.shape[batch:], *[1] * (rank - axis - 1))
        g.set(np.broadcast_to(beyond.reshape(shape), g.grades.shape), OPEN, note("implementation"))
    if name == "stablehlo.scatter" and not attributes.get("unique_indices", False):
        body = operation.regions[0]
        if body.returns[:1] == body.arguments[-1:]:
            whole = enclosed(operation, operands, index)
            g.set(g.grades == WRONG if whole is None else whole.admits(theirs[index]), OPEN, note("last-update"))


def _associates(operation: Operation, operands: Arrays) -> bool:
    """Tests whether a body gives nearly the same in another grouping, on some of the elements and initial values."""
    region, count = operation.regions[0], len(operation.results)
    some = spread(np.arange(operands[0].size), _TRIED)
    elements = [np.append(x.reshape(-1)[some], i) for x, i in zip(operands[:count], operands[count:], strict=True)]
    x, y, z = ([np.roll(e, n) for e in elements] for n in (0, 1, 3))
    try:
        plan = plan_region(lift(region, (some.size + 1,)), operation.location)
        one = machine.run(plan, [*machine.run(plan, [*x, *y]), *z])
        other = machine.run(plan, [*x, *machine.run(plan, [*y, *z])])
    except Error:  # of a region that uses values from outside
        return True
    pairs = [[v.astype(np.complex128) for v in pair] for pair in zip(one, other, strict=True)]
    return all(
        np.isclose(a, b, _ABOUT, np.max(np.abs(a[np.isfinite(a)]), initial=0) * _ABOUT, True).all() for a, b in pairs
    )


def _has_same_rows(theirs: Arrays, ours: Arrays, axis: int) -> np.ndarray:
    """Tests which rows along an axis have the same elements in some order; those of several arrays move together."""
    rows = []
    for arrays in (theirs, ours):
        bits = list(map(_bits, arrays))
        order = np.lexsort(bits, axis=axis)
        rows.append([np.take_along_axis(x, order, axis) for x in bits])
    pairs = zip(*rows, strict=True)
    return np.logical_and.reduce([(x == y).all(axis=axis, keepdims=True) for x, y in pairs])


def _has_equal_places(operation: Operation, theirs: Arrays, ours: Arrays, axis: int) -> np.ndarray:
    """Tests in which rows the elements at each place are equal to a comparator."""
    sides = [[x for pair in zip(a, b, strict=True) for x in pair] for a, b in ((theirs, ours), (ours, theirs))]
    try:
        plan = plan_region(lift(operation.regions[0], ours[0].shape), operation.location)
    except Error:  # of a region on regions
        return np.ones(ours[0].shape, bool)
    less, greater = (machine.run(plan, side)[0] for side in sides)
    return np.asarray((~less & ~greater).all(axis, keepdims=True))


#: Directions that are no strict order of any values.
_NOT_STRICT = ("EQ", "NE", "GE", "LE")


def _without_order(operation: Operation, operands: Arrays, axis: int) -> np.ndarray:
    """Tests which rows a sort may leave in any order: its comparator does not order NaN and a number, or nothing."""
    region, shape = operation.regions[0], operands[0].shape
    compared = [o.attributes["comparison_direction"] for o in _inside(operation) if o.name == "stablehlo.compare"]
    if len(compared) == 1 and compared[0] in _NOT_STRICT:
        return np.ones(shape, bool)
    found = np.zeros(shape, bool)
    for key in operands:
        is_nan = np.isnan(key.astype(np.float64)) if type_of_dtype(key.dtype).is_float else found & False
        if is_nan.any():
            first = np.expand_dims(is_nan.argmax(axis), axis)
            chosen = [np.broadcast_to(np.take_along_axis(x, first, axis), shape) for x in operands]
            sides = [x for pair in zip(chosen, operands, strict=True) for x in pair]
            swapped = [x for pair in zip(operands, chosen, strict=True) for x in pair]
            try:
                plan = plan_region(lift(region, shape), operation.location)
                is_open = (machine.run(plan, sides)[0] == machine.run(plan, swapped)[0]) & ~is_nan
            except Error:  # of a region that uses values from outside
                is_open = ~is_nan
            found |= is_nan.any(axis, keepdims=True) & is_open.any(axis, keepdims=True)
    return found


def _bits(x: np.ndarray) -> np.ndarray:
    return x.copy(order="C").view(f"u{x.dtype.itemsize}") if x.dtype.itemsize <= 8 else x
