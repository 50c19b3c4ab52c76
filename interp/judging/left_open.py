"""Elements of a result that cannot be called wrong because the format or the operation leaves them open.

The schedule of a `reduce` has the elements "interspersed with an implementation-defined amount of init_values".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.types import ElementType, Kind, TensorType, type_of_dtype
from ..oracle import rounding
from ..oracle.formats import FORMATS, Format
from ..oracle.rounding import Exact, encode
from ..program import Operation
from .equality import GradedResult, distance
from .open_points import IDENTIFIERS, question
from .record import OPEN, WRONG, Diagnosis
from .sums.exact_sums import ExactSums, between
from .wide import in_f64, sole_op_name, widen

_EXTREMES = ("maximum", "minimum", "clamp", "reduce", "reduce_window", "select_and_scatter", "scatter")
#: Positive numbers up to this are zero in f32: an open point of its own among those below the smallest of f8E8M0FNU.
_VANISHED = 2.0**-150

Array = np.ndarray
Arrays = Sequence[np.ndarray]


def note(identifier: str, element: str = "") -> Diagnosis:
    """The open point of that identifier."""
    return Diagnosis(question(identifier, element), (identifier,))


def grade_open(operation: Operation, operands: Arrays, theirs: Array, ours: Array, graded: GradedResult) -> None:
    """Grades the elements of the first result that are left open as OPEN."""
    name = operation.name.removeprefix("stablehlo.")
    element = type_of_dtype(theirs.dtype)
    if element.is_integer and name == "convert":
        graded.set(~_fits(operands[0], operation), OPEN, note("beyond-integer"))
    elif element.is_integer and name in ("divide", "remainder"):
        x, y = (v.astype(np.int64 if element.kind is Kind.SIGNED else np.uint64) for v in operands)
        least = element.range[0]
        overflows = (y == -1) & (x == least) if least else np.zeros(y.shape, bool)  # unsigned numbers have no -1
        graded.set(np.broadcast_to((y == 0) | overflows, graded.grades.shape), OPEN, note("integer-division"))
    elif element.is_integer and name == "power":
        graded.set(_is_beyond(operands, graded.grades == WRONG, element), OPEN, note("integer-power"))
    elif name == "compare" and operation.attributes.get("compare_type") == "TOTALORDER":
        t = operation.operands[0].type
        if isinstance(t, TensorType) and t.element.is_float and FORMATS[t.element.name].nan == "sign":
            is_nan = np.logical_or(*(np.isnan(x.astype(np.float32)) for x in operands))
            graded.set(is_nan, OPEN, note("fnuz-nan-sign", t.element.name))
    elif element.is_float:
        if name in _EXTREMES:
            graded.set((theirs == 0) & (ours == 0), OPEN, note("signs-of-zeros"))
        if element.is_minifloat:
            _of_format(operation, operands, theirs, ours, FORMATS[element.name], graded)


def _is_beyond(operands: Arrays, where: np.ndarray, element: ElementType) -> np.ndarray:
    """Tests which powers of integers, of those in `where`, are no numbers of the type."""
    found, (low, high) = np.zeros(where.shape, bool), element.range
    x, y = (np.broadcast_to(v, where.shape) for v in operands)
    for at in zip(*np.nonzero(where), strict=True):
        base, exponent = int(x[at]), int(y[at])
        large = abs(base) > 1 and exponent >= element.bits  # and not computed
        found[at] = (exponent < 0 and abs(base) != 1) or large or not low <= base ** max(exponent, 0) <= high
    return found


def _fits(x: np.ndarray, operation: Operation) -> np.ndarray:
    """Tests which numbers are within the range of the integer type they are converted to."""
    source, target = operation.operands[0].type, operation.results[0].type
    assert isinstance(target, TensorType)
    if not isinstance(source, TensorType) or not source.element.is_float:
        return np.ones(x.shape, bool)
    bits, signed = target.element.bits, target.element.kind is Kind.SIGNED
    low, high = (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if signed else (0.0, 2.0**bits)
    whole = np.trunc(widen(x, source))
    return np.asarray((whole >= low) & (whole < high))


def _of_format(
    operation: Operation, operands: Arrays, theirs: np.ndarray, ours: np.ndarray, fmt: Format, graded: GradedResult
) -> None:
    """Grades exact results that a format without NaN or zero leaves open, as the oracle marks them."""
    if fmt.nan != "none" and fmt.has_zero:
        return
    exact = in_f64(operation, operands)
    if exact is None or exact[0].shape != graded.grades.shape:
        return
    _, marks = encode(fmt, Exact.of(exact[0]))
    if fmt.has_zero:
        points = (rounding.INVALID, rounding.INFINITE)
    else:
        points = (rounding.ZERO, rounding.NEGATIVE, rounding.SMALL, rounding.TIE)
    for point in points:
        where = marks == point
        if point == rounding.TIE:
            graded.set(where & (distance(theirs, ours) == 1), OPEN, note("tie", fmt.name))
        elif point == rounding.SMALL:
            graded.set(where & (exact[0] <= _VANISHED), OPEN, note("vanished", fmt.name))
            graded.set(where, OPEN, note("below-smallest", fmt.name))
        elif point == rounding.INVALID and operation.name == "stablehlo.convert":
            graded.set(where & ~np.signbit(exact[0]), OPEN, note("nan-converted", fmt.name))
            graded.set(where & np.signbit(exact[0]), OPEN, note("negative-nan-converted", fmt.name))
        else:
            graded.set(where, OPEN, note(IDENTIFIERS[point], fmt.name))


_FOLDS = ("stablehlo.reduce", "stablehlo.reduce_window")
#: Bodies with which another number of initial values shows: how they combine integers, and their identity.
_BODIES = {
    "stablehlo.add": (np.add, 0),
    "stablehlo.multiply": (np.multiply, 1),
    "stablehlo.xor": (np.bitwise_xor, 0),
}
#: More initial values than these are not tried.
_MOST = 64


def has_initial_value(operation: Operation) -> bool:
    """Whether an op combines elements from an initial value, which may be taken another number of times."""
    return operation.name in _FOLDS and len(operation.results) == 1 and sole_op_name(operation.regions[0]) in _BODIES


def grade_initial_values(
    operation: Operation, operands: Arrays, theirs: Array, ours: Array, graded: GradedResult
) -> None:
    """Grades the elements that are folds with another number of initial values as OPEN; ours take one."""
    t = operation.operands[0].type
    init = operands[-1].reshape(-1)[:1]
    body = sole_op_name(operation.regions[0])
    combine, identity = _BODIES[str(body)]
    if not isinstance(t, TensorType) or not init.size or t.element.is_complex:
        return
    first = float(init[0])
    if not np.isfinite(first) or first == identity or (first == 0 and identity == 1):  # such a product shows nothing
        return
    most = min(max(operands[0].size // max(ours.size, 1), 1) + 1, _MOST)
    note_ = note("initial-values")
    if not t.element.is_float:
        again = ours
        graded.set(np.asarray(combine(theirs, init).reshape(ours.shape) == ours), OPEN, note_)  # one less
        for _ in range(most):
            again = combine(again, init).astype(theirs.dtype).reshape(theirs.shape)  # with a scalar, an array
            graded.set(np.asarray(theirs == again), OPEN, note_)
        return
    sums = ExactSums.of(operation, operands)
    if sums is None or sums.exact.shape != theirs.shape:
        return
    exact, sizes, bits = sums.exact, sums.sizes, 52 if t.element.bits == 64 else 24
    for count in (-1, *range(1, most + 1)):
        with np.errstate(all="ignore"):
            sums.exact = exact + count * first if identity == 0 else exact * first**count
            sums.sizes = sizes + abs(count * first) if identity == 0 else np.abs(sums.exact)
        graded.set(between(theirs, sums.exact, sums.slack(bits)), OPEN, note_)
