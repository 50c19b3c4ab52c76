"""Common faults of sums, each with the results it causes.

A fault is named only if it reproduces every result of the op, right and wrong. If none does, the part of the results
that contains the wrong ones is reported, which is a fact and no guess.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ....ops.cast import cast
from ....ops.policy import Policy
from ....ops.types import ELEMENT_TYPES, ElementType, TensorType, type_of_dtype
from ...program import Operation, Value
from ..equality import equal_values, is_subnormal
from ..faults import FAULTS
from ..record import NONE, Diagnosis
from ..table import cause
from .accumulation import Sum
from .accumulators import gives, sample_indices, steps
from .exact_sums import F64, ExactSums, between, slack_of
from .terms import Terms, terms_of

_PRECISION = 24
_FLUSHED, _OPERANDS_FLUSHED, _SATURATED = (
    FAULTS[name].diagnosis() for name in ("subnormal-results-flushed", "subnormal-operands-flushed", "saturated")
)
Arrays = Sequence[np.ndarray]


def sum_fault(
    sums: ExactSums, theirs: np.ndarray, ours: np.ndarray, wrong: np.ndarray, selected: np.ndarray
) -> Diagnosis:
    """The fault that explains all selected results; empty if none does.

    In a fold each step is rounded, in order or in windows; `ours` is rounded in order.
    """
    if not theirs.size:
        return NONE
    for note, explains in itertools.chain(_writing(sums, theirs), _writing_steps(sums, theirs, ours)):
        if explains[selected].all():
            return note
    if sums.terms is None:
        return NONE
    sample, flat = sample_indices(sums, wrong, selected), np.flatnonzero(selected)
    forms = [None, *(steps(sums) if sums.operation.regions else [])]
    got = theirs.reshape(-1)
    explained: list[Diagnosis | ReadAs] = []
    changed = ((what, terms_of(o, xs)) for what, o, xs in _change_operands(sums.operation, sums.operands))
    for what, terms in itertools.chain(changed, _omit_terms(sums.terms)):
        if terms is None or (explained and not _is_alternative(what, explained[0])):
            continue
        rows = terms.rows(sample)
        for form in forms:
            if _adds_up(form, rows, got[sample], sums.is_product) and all(
                _adds_up(form, some, got[flat[at]], sums.is_product) for at, some in terms.blocks(flat)
            ):
                explained.append(what)
                break
    return _one_of(explained)


@dataclasses.dataclass(frozen=True)
class ReadAs:
    """Operands that are read as another type. Types share many of their numbers, so several may fit."""

    operands: tuple[int, ...]
    subject: str  #: the operands, in words
    element: ElementType
    other: ElementType


def _is_alternative(what: Diagnosis | ReadAs, first: Diagnosis | ReadAs) -> bool:
    """Whether both concern the same operands, read as other types."""
    return isinstance(what, ReadAs) and isinstance(first, ReadAs) and what.operands == first.operands


def _one_of(explained: Sequence[Diagnosis | ReadAs]) -> Diagnosis:
    """One diagnosis for several explanations; for operands read as other types, it lists all types that fit."""
    first = next(iter(explained), None)
    if not isinstance(first, ReadAs):
        return first or NONE
    names = [str(w.other) for w in explained if isinstance(w, ReadAs)]
    which = ",".join(map(str, first.operands))
    words = {"subject": first.subject, "names": " or ".join(names), "element": first.element}
    return cause("read-as", which, ",".join(names), **words)


def _adds_up(form: Sum | None, rows: np.ndarray, got: np.ndarray, is_product: bool) -> bool:
    """Whether results are the sums of terms: by `form`, or else exact up to f32's rounding in any order."""
    if form is not None:
        return gives(form, rows, got)
    with np.errstate(all="ignore"):
        total, sizes = (x.prod(axis=1) if is_product else x.sum(axis=1) for x in (rows, np.abs(rows)))
        near = between(got, total, slack_of(rows.shape[1], _PRECISION, sizes))
        rounded = cast(total, F64, type_of_dtype(got.dtype), Policy())
    return bool((near | (~np.isfinite(total) & equal_values(got, rounded))).all())


# -- writing of results -------------------------------------------------------------------------------------------

#: The faults of rounding that a policy has, by the name of its rounding.
_ROUNDINGS = {
    "toward_zero": "rounded-toward-zero", "up": "rounded-up", "down": "rounded-down",
    "nearest_away": "rounded-ties-away-from-zero",
}  # fmt: skip


def _writing(sums: ExactSums, theirs: np.ndarray) -> Iterator[tuple[Diagnosis, np.ndarray]]:
    element, slack = type_of_dtype(theirs.dtype), sums.slack(_PRECISION)
    if (theirs == 0).all():
        yield cause("zeros"), theirs == 0
    near = between(theirs, sums.exact, slack)
    ends = [sums.exact - slack, sums.exact + slack]
    subnormal = [is_subnormal(cast(e, F64, element, Policy())) for e in ends]
    flushed = np.where(subnormal[0] & subnormal[1], theirs == 0, near | (np.logical_or(*subnormal) & (theirs == 0)))
    yield _FLUSHED, flushed
    for rounding, name in _ROUNDINGS.items():
        yield FAULTS[name].diagnosis(), between(theirs, sums.exact, slack, policy=Policy(rounding=rounding))
    beyond = np.isfinite(sums.exact) & (np.abs(sums.exact) > element.format.largest)
    yield _SATURATED, np.where(beyond, between(theirs, sums.exact, slack, policy=Policy(overflow="saturate")), near)
    for other in _others(element):
        found = [_as(cast(e, F64, other, Policy()), element) for e in ends]
        note = cause("written-as", other, element=element)
        yield note, equal_values(theirs, found[0]) | equal_values(theirs, found[1])
    for d, by, which, kept in _shifts(theirs.shape):
        moved = dataclasses.replace(sums, exact=np.roll(sums.exact, by, d), sizes=np.roll(sums.sizes, by, d))
        moved.counts = np.roll(sums.counts, by, d) if sums.counts.ndim else sums.counts
        yield which, between(theirs, moved.exact, moved.slack(_PRECISION)) | ~kept


def _writing_steps(sums: ExactSums, theirs: np.ndarray, ours: np.ndarray) -> Iterator[tuple[Diagnosis, np.ndarray]]:
    if not sums.operation.regions:
        return
    yield _FLUSHED, np.where(is_subnormal(ours), theirs == 0, equal_values(theirs, ours))
    for d, by, which, kept in _shifts(theirs.shape):
        yield which, equal_values(theirs, np.roll(ours, by, d)) | ~kept


def _shifts(shape: tuple[int, ...]) -> Iterator[tuple[int, int, Diagnosis, np.ndarray]]:
    """Dimensions and steps by which results may be shifted, in words; results from beyond the end are excluded."""
    for d, n in enumerate(shape):
        for by, where in ((1, "last"), (-1, "next")) if n > 2 else ():
            kept = np.ones(shape, bool)
            kept[(slice(None),) * d + (0 if by == 1 else -1,)] = False
            yield d, by, cause("shifted", d, by, where=where), kept


def _others(element: ElementType) -> list[ElementType]:
    """The types of the same width that may be mistaken for a type."""
    if not element.is_float or element.bits not in (6, 8, 16):
        return []
    same_width = (e for e in ELEMENT_TYPES.values() if e.is_float and e.bits == element.bits)
    return [e for e in same_width if e != element and e.format.is_signed]


def _as(x: np.ndarray, element: ElementType) -> np.ndarray:
    """The codes of one type as numbers of another."""
    return np.array(x, order="C").view(element.dtype)


# -- reading of operands ---------------------------------------------------------------------------------------------


#: A cause, the operation, and its changed operands.
_Change = tuple["Diagnosis | ReadAs", Operation, list[np.ndarray]]


def _change_operands(operation: Operation, operands: Arrays) -> Iterator[_Change]:
    given = list(operands)
    floats = [i for i, v in enumerate(operation.operands) if isinstance(v.type, TensorType) and v.type.element.is_float]
    flushed = [np.where(is_subnormal(x), np.zeros((), x.dtype), x) if i in floats else x for i, x in enumerate(given)]
    if any(is_subnormal(given[i]).any() for i in floats):
        yield _OPERANDS_FLUSHED, operation, flushed
    elements = list(dict.fromkeys(_element(operation.operands[i]) for i in floats))
    for element in elements:
        mine = [i for i in floats if _element(operation.operands[i]) == element]
        for other in _others(element):
            for which in dict.fromkeys([tuple(mine), *((i,) for i in mine)]):
                of = "operands are" if len(which) == len(floats) else f"operand {which[0]} is"
                yield ReadAs(which, of, element, other), *_retype(operation, given, which, other)
    is_product = not operation.regions
    for i in floats if is_product else ():
        x = given[i]
        if x.ndim >= 2 and x.shape[-1] == x.shape[-2]:
            turned = [np.swapaxes(y, -1, -2) if j == i else y for j, y in enumerate(given)]
            yield cause("transposed", i), operation, turned
    if operation.name.endswith("convolution"):
        yield from _of_kernel(operation, given)
        return
    if is_product:
        numbers = operation.attributes.get("dot_dimension_numbers") or {}
        for d in (int(d) for d in numbers.get("lhs_batching_dimensions", ())):
            for by, which in ((1, "the last"), (-1, "the next")):
                yield cause("batch", by, which=which), operation, [np.roll(given[0], by, d), *given[1:]]
        return
    if len(given) == 2 and given[1].ndim == 0:
        for number in (0.0, 1.0, -1.0):
            init = np.asarray(number).astype(given[1].dtype)
            if not equal_values(init, given[1]):
                yield cause("initial-value", number), operation, [given[0], init]


def _element(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def _retype(
    operation: Operation, operands: list[np.ndarray], which: Sequence[int], element: ElementType
) -> tuple[Operation, list[np.ndarray]]:
    """The op with the codes of some operands read as another type."""
    values = tuple(
        Value(TensorType(v.type.shape, element)) if i in which and isinstance(v.type, TensorType) else v
        for i, v in enumerate(operation.operands)
    )
    arrays = [_as(x, element) if i in which else x for i, x in enumerate(operands)]
    return dataclasses.replace(operation, operands=values), arrays


def _of_kernel(operation: Operation, given: list[np.ndarray]) -> Iterator[_Change]:
    numbers = operation.attributes["dimension_numbers"]
    spatial = tuple(int(d) for d in np.ravel(numbers["kernel_spatial_dimensions"]))
    features = int(numbers["kernel_output_feature_dimension"])
    groups = int(operation.attributes.get("feature_group_count", 1))
    if spatial:
        yield cause("kernel-reversed"), operation, [given[0], np.flip(given[1], spatial), *given[2:]]
    if groups > 1:
        each = given[1].shape[features] // groups
        for by, which in ((each, "the last"), (-each, "the next")):
            turned = np.roll(given[1], by, features)
            yield cause("kernel-group", by, which=which), operation, [given[0], turned, *given[2:]]


# -- omitted terms -------------------------------------------------------------------------------------------


def _omit_terms(terms: Terms) -> Iterator[tuple[Diagnosis, Terms]]:
    for note, kept in parts_of(terms.count):

        def rows(flat: np.ndarray, kept: np.ndarray = kept) -> np.ndarray:
            found = terms.rows(flat)
            return found[:, kept[kept < found.shape[1]]]

        yield note, dataclasses.replace(terms, rows=rows)


def parts_of(n: int) -> Iterator[tuple[Diagnosis, np.ndarray]]:
    """Selections of n terms: which are kept."""
    k = np.arange(n)
    yield cause("without-last"), k[:-1]
    yield cause("without-first"), k[1:]
    for lanes in (4, 8, 16, 32):
        if n > lanes:
            for lane in (lanes - 1, 0):
                yield cause("without-lane", lane, lanes), k[k % lanes != lane]
        if n > lanes and n % lanes:
            yield cause("without-rest", lanes, count=n % lanes), k[: n // lanes * lanes]
    if n > 3:
        yield cause("without-second-half"), k[: (n + 1) // 2]
