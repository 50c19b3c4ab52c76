"""Faults of sums that are often made, each with the results that come of it.

A fault is named only if it gives every result of the op, right ones and wrong ones. Where none does, it is said in what
part of the results the wrong ones lie, which is a fact and no guess.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from ...ops.engine.cast import array_of, cast
from ...ops.policy import Policy
from ...ops.types import ELEMENT_TYPES, ElementType, TensorType, type_of_dtype
from ..program import Operation, Value
from .accumulators import Sum, gives, sampled, steps
from .exact_sums import F64, ExactSums, between, slack_of
from .grades import is_subnormal, same
from .terms import Terms, terms_of

_PRECISION = 24
Arrays = Sequence[np.ndarray]


def sum_fault(sums: ExactSums, theirs: np.ndarray, ours: np.ndarray, wrong: np.ndarray, asked: np.ndarray) -> str:
    """The fault that explains all results asked for, in a sentence; empty where none does.

    Of a fold that is each step rounded, in order or in windows; `ours` are rounded so, in order.
    """
    if not theirs.size:
        return ""
    for sentence, explains in itertools.chain(_writing(sums, theirs), _writing_steps(sums, theirs, ours)):
        if explains[asked].all():
            return sentence
    if sums.terms is None:
        return ""
    sample, flat = sampled(sums, wrong, asked), np.flatnonzero(asked)
    ways = [None, *(steps(sums) if sums.operation.regions else [])]
    got = theirs.reshape(-1)
    found: list[str] = []
    for sentence, terms in itertools.chain(_reading(sums), _left_out(sums.terms)):
        if found and not _is_alternative(sentence, found[0]):
            continue
        rows = terms.rows(sample)
        for form in ways:
            if _adds_up(form, rows, got[sample], sums.is_product) and all(
                _adds_up(form, some, got[flat[at]], sums.is_product) for at, some in terms.blocks(flat)
            ):
                found.append(sentence)
                break
    return _one_of(found)


_AS = " read as "


def _is_alternative(sentence: str, found: str) -> bool:
    """Whether two sentences say of the same operands that they are read as other types."""
    return _AS in found and sentence.partition(_AS)[0] == found.partition(_AS)[0]


def _one_of(sentences: list[str]) -> str:
    """One sentence of several that say as what operands are read: some types have most of their numbers in common."""
    if len(sentences) < 2:
        return "".join(sentences)
    of, _, rest = sentences[0].partition(_AS)
    names = [s.partition(_AS)[2].partition(",")[0] for s in sentences]
    return f"{of}{_AS}{' or '.join(names)}{rest[rest.index(',') :]}"


def _adds_up(form: Sum | None, rows: np.ndarray, got: np.ndarray, is_product: bool) -> bool:
    """Whether results are those of terms: in one way, or else exact but for what f32 rounds in any order."""
    if form is not None:
        return gives(form, rows, got)
    with np.errstate(all="ignore"):
        total, sizes = (x.prod(axis=1) if is_product else x.sum(axis=1) for x in (rows, np.abs(rows)))
        near = between(got, total, slack_of(rows.shape[1], _PRECISION, sizes))
        rounded = cast(total, F64, type_of_dtype(got.dtype), Policy())
    return bool((near | (~np.isfinite(total) & same(got, rounded))).all())


# -- how results are written -------------------------------------------------------------------------------------------

_ROUNDINGS = {"toward_zero": "toward zero", "up": "up", "down": "down", "nearest_away": "with ties away from zero"}


def _writing(sums: ExactSums, theirs: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    element, slack = type_of_dtype(theirs.dtype), sums.slack(_PRECISION)
    if (theirs == 0).all():
        yield "every result is zero", theirs == 0
    near = between(theirs, sums.exact, slack)
    ends = [sums.exact - slack, sums.exact + slack]
    subnormal = [is_subnormal(cast(e, F64, element, Policy())) for e in ends]
    flushed = np.where(subnormal[0] & subnormal[1], theirs == 0, near | (np.logical_or(*subnormal) & (theirs == 0)))
    yield "subnormal results are flushed to zero", flushed
    for rounding, words in _ROUNDINGS.items():
        explains = between(theirs, sums.exact, slack, policy=Policy(rounding=rounding))
        yield f"results are rounded {words}, and not to nearest even", explains
    code = np.array([element.format.max_code], element.format.code_dtype)
    largest = cast(array_of(code, element.format), element, F64, Policy())
    beyond = np.isfinite(sums.exact) & (np.abs(sums.exact) > largest)
    sentence = "what is beyond the largest number becomes the largest number"
    yield sentence, np.where(beyond, between(theirs, sums.exact, slack, policy=Policy(overflow="saturate")), near)
    for other in _others(element):
        found = [_as(cast(e, F64, other, Policy()), element) for e in ends]
        yield f"results are written as {other}, and not as {element}", same(theirs, found[0]) | same(theirs, found[1])
    for d, by, which, kept in _shifts(theirs.shape):
        moved = dataclasses.replace(sums, exact=np.roll(sums.exact, by, d), sizes=np.roll(sums.sizes, by, d))
        moved.counts = np.roll(sums.counts, by, d) if sums.counts.ndim else sums.counts
        yield which, between(theirs, moved.exact, moved.slack(_PRECISION)) | ~kept


def _writing_steps(sums: ExactSums, theirs: np.ndarray, ours: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if not sums.operation.regions:
        return
    yield "subnormal results are flushed to zero", np.where(is_subnormal(ours), theirs == 0, same(theirs, ours))
    for d, by, which, kept in _shifts(theirs.shape):
        yield which, same(theirs, np.roll(ours, by, d)) | ~kept


def _shifts(shape: tuple[int, ...]) -> Iterator[tuple[int, int, str, np.ndarray]]:
    """Dimensions and steps by which results may be shifted, in words; what comes from beyond the end is not kept."""
    for d, n in enumerate(shape):
        for by, where in ((1, "last"), (-1, "next")) if n > 2 else ():
            kept = np.ones(shape, bool)
            kept[(slice(None),) * d + (0 if by == 1 else -1,)] = False
            yield d, by, f"each result is that of the {where} index of dimension {d}", kept


def _others(element: ElementType) -> list[ElementType]:
    """The types of the same width that one may be taken for."""
    if not element.is_float or element.bits not in (6, 8, 16):
        return []
    same_width = (e for e in ELEMENT_TYPES.values() if e.is_float and e.bits == element.bits)
    return [e for e in same_width if e != element and e.format.is_signed]


def _as(x: np.ndarray, element: ElementType) -> np.ndarray:
    """The codes of one type as numbers of another."""
    return np.array(x, order="C").view(element.dtype)


# -- how operands are read ---------------------------------------------------------------------------------------------


def _reading(sums: ExactSums) -> Iterator[tuple[str, Terms]]:
    """The terms of other operands."""
    for sentence, operation, operands in _changed(sums.operation, sums.operands):
        terms = terms_of(operation, operands)
        if terms is not None:
            yield sentence, terms


def _changed(operation: Operation, operands: Arrays) -> Iterator[tuple[str, Operation, list[np.ndarray]]]:
    given = list(operands)
    floats = [i for i, v in enumerate(operation.operands) if isinstance(v.type, TensorType) and v.type.element.is_float]
    flushed = [np.where(is_subnormal(x), np.zeros((), x.dtype), x) if i in floats else x for i, x in enumerate(given)]
    yield "operands that are subnormal are flushed to zero", operation, flushed
    elements = list(dict.fromkeys(_element(operation.operands[i]) for i in floats))
    for element in elements:
        mine = [i for i in floats if _element(operation.operands[i]) == element]
        for other in _others(element):
            for which in dict.fromkeys([tuple(mine), *((i,) for i in mine)]):
                of = "operands are" if len(which) == len(floats) else f"operand {which[0]} is"
                sentence = f"{of} read as {other}, and not as {element}"
                yield sentence, *_retyped(operation, given, which, other)
    is_product = not operation.regions
    for i in floats if is_product else ():
        x = given[i]
        if x.ndim >= 2 and x.shape[-1] == x.shape[-2]:
            turned = [np.swapaxes(y, -1, -2) if j == i else y for j, y in enumerate(given)]
            yield f"operand {i} is transposed", operation, turned
    if operation.name.endswith("convolution"):
        yield from _of_kernel(operation, given)
        return
    if is_product:
        numbers = operation.attributes.get("dot_dimension_numbers") or {}
        for d in (int(d) for d in numbers.get("lhs_batching_dimensions", ())):
            for by, which in ((1, "the last"), (-1, "the next")):
                yield f"operand 0 is taken from {which} batch", operation, [np.roll(given[0], by, d), *given[1:]]
        return
    if len(given) == 2 and given[1].ndim == 0:
        for number in (0.0, 1.0, -1.0):
            init = np.asarray(number).astype(given[1].dtype)
            if not same(init, given[1]):
                yield f"the initial value is {number:g}, and not as given", operation, [given[0], init]


def _element(value: Value) -> ElementType:
    assert isinstance(value.type, TensorType)
    return value.type.element


def _retyped(
    operation: Operation, operands: list[np.ndarray], which: Sequence[int], element: ElementType
) -> tuple[Operation, list[np.ndarray]]:
    """The op with the codes of some operands taken for those of another type."""
    values = tuple(
        Value(TensorType(v.type.shape, element)) if i in which and isinstance(v.type, TensorType) else v
        for i, v in enumerate(operation.operands)
    )
    arrays = [_as(x, element) if i in which else x for i, x in enumerate(operands)]
    return dataclasses.replace(operation, operands=values), arrays


def _of_kernel(operation: Operation, given: list[np.ndarray]) -> Iterator[tuple[str, Operation, list[np.ndarray]]]:
    numbers = operation.attributes["dimension_numbers"]
    spatial = tuple(int(d) for d in np.ravel(numbers["kernel_spatial_dimensions"]))
    features = int(numbers["kernel_output_feature_dimension"])
    groups = int(operation.attributes.get("feature_group_count", 1))
    if spatial:
        yield "the kernel is reversed", operation, [given[0], np.flip(given[1], spatial), *given[2:]]
    if groups > 1:
        each = given[1].shape[features] // groups
        for by, which in ((each, "the last"), (-each, "the next")):
            turned = np.roll(given[1], by, features)
            sentence = f"the kernel of {which} group of features is taken"
            yield sentence, operation, [given[0], turned, *given[2:]]


# -- terms that are left out -------------------------------------------------------------------------------------------


def _left_out(terms: Terms) -> Iterator[tuple[str, Terms]]:
    for sentence, kept in _parts_of(terms.count):

        def rows(flat: np.ndarray, kept: np.ndarray = kept) -> np.ndarray:
            found = terms.rows(flat)
            return found[:, kept[kept < found.shape[1]]]

        yield sentence, dataclasses.replace(terms, rows=rows)


def _parts_of(n: int) -> Iterator[tuple[str, np.ndarray]]:
    """Which of n terms are kept."""
    k = np.arange(n)
    yield "the last term is left out", k[:-1]
    yield "the first term is left out", k[1:]
    for lanes in (4, 8, 16, 32):
        if n > lanes:
            for lane in (lanes - 1, 0):
                yield f"every term is left out whose index modulo {lanes} is {lane}", k[k % lanes != lane]
        if n > lanes and n % lanes:
            yield f"the last {n % lanes} terms are left out, which fill no {lanes} lanes", k[: n // lanes * lanes]
    if n > 3:
        yield "the second half of the terms is left out", k[: (n + 1) // 2]


# -- where the wrong results are ---------------------------------------------------------------------------------------


def place(wrong: np.ndarray) -> str:
    """In which part of an array the wrong elements lie, if it is one index of a dimension, or one of every few."""
    if wrong.sum() < 2:
        return ""
    for d, n in enumerate(wrong.shape):
        along = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != d)))
        if n > 1 and len(along) == 1:
            return f"all wrong results are at index {along[0]} of dimension {d}"
    for d, n in enumerate(wrong.shape):
        along = np.flatnonzero(wrong.any(axis=tuple(i for i in range(wrong.ndim) if i != d)))
        for lanes in (32, 16, 8, 4):
            if n >= 2 * lanes and len(along) == n // lanes and len(set(along % lanes)) == 1:
                return f"all wrong results are at indices of dimension {d} that are {along[0] % lanes} modulo {lanes}"
        if (
            n >= 4
            and len(along) == n // 2
            and along[-1] - along[0] == len(along) - 1
            and 0 in (along[0], along[0] - n // 2)
        ):
            return f"all wrong results are in the {'first' if along[0] == 0 else 'second'} half of dimension {d}"
    return ""
