"""Rules of operations with regions: control flow, reductions, windows, scatters and sorts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.types import Kind, TensorType
from ..bodies import independent_parts, is_selection
from ..errors import UnsupportedError
from ..passes.rewriting import captures
from ..program import Operation, Region, Value
from .combining import combination, is_free_of_order, lift
from .elementwise import integers
from .evaluate import MOST_ITERATIONS, Evaluator, rule
from .movement import move
from .sums import adds, sum_of_elements
from .values import (
    F64,
    MOST,
    Enclosure,
    causes_of,
    has_nan,
    holds_integers,
    join,
    may_be_subnormal,
    subnormal_hull,
    to_f64,
    value_of,
)

#: The most iterations after which a loop may end.
_MOST_ENDS = 16
_MONOTONE = ("maximum", "minimum", "and", "or", "add")
_REDUCTIONS = ("stablehlo.reduce", "stablehlo.reduce_window")


def chosen_branch(operation: Operation, index: Any) -> Region:
    """Return the branch that an `if` or a `case` runs for the value of its operand."""
    last = len(operation.regions) - 1
    if operation.name == "stablehlo.if":
        return operation.regions[0 if index else last]
    return operation.regions[int(index) if 0 <= index <= last else last]


@rule("if", "case")
def branch(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The branch that is chosen, or what any of them may give where the choice is not decided."""
    (index,) = operands
    if index.is_exact:
        return e.region(chosen_branch(operation, index.value), [])
    if index.since is not None:
        return e.undecide(operation, operands)
    return _any_of(e, operation, operands, [e.region(r, []) for r in operation.regions])


def _any_of(
    e: Evaluator, operation: Operation, operands: Sequence[Any], states: Sequence[Sequence[Any]]
) -> Sequence[Any]:
    """Return what any of some states may be, one of which the interpreter gives."""
    own = e.run(operation, list(map(value_of, operands)))
    results = [functools.reduce(join, values) for values in zip(*states, strict=True)]
    return [
        e.finish(operation, [], *x.bounds(), rounds=False, value=np.asarray(v), index=i, since=causes_of(x))
        if isinstance(x, Enclosure) else x
        for i, (x, v) in enumerate(zip(results, own, strict=True))
    ]  # fmt: skip


@rule("while")
def loop(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The state after the iterations, or after any at which the loop may end; undecided where that may be many."""
    state, (condition, body), ends = list(operands), operation.regions, []
    for _ in range(MOST_ITERATIONS):
        (goes_on,) = e.region(condition, state)
        low, high, _ = goes_on.bounds()
        if goes_on.since is not None or len(ends) > _MOST_ENDS:
            return e.undecide(operation, operands)
        if not low:
            ends.append(state)
        if not high:
            return _any_of(e, operation, operands, ends) if len(ends) > 1 else state
        state = e.region(body, state)
    raise UnsupportedError(
        f"{operation.location}: {operation.name}: expected at most {MOST_ITERATIONS:,} iterations, got more"
    )


@rule("reduce", "reduce_window", "scatter", "all_reduce", "reduce_scatter", "chlo.scan")
def fold(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A region that combines elements: sums, choices, products, or the place of the largest."""
    region, is_exact = operation.regions[-1], all(x.is_exact for x in operands)
    is_free = is_exact and is_free_of_order(e, region, any(map(has_nan, operands)))
    if is_free and all(map(e.is_exact, region.operations)):
        return e.nominal(operation, operands)
    if adds(operation) and not holds_integers(operands[0].element):
        return sum_of_elements(e, operation, operands)
    sole = combination(region)
    name = sole.name.removeprefix("stablehlo.") if sole is not None else ""
    if name in _MONOTONE and len(operation.results) == 1:
        return _monotone(e, operation, operands, name)
    if name == "multiply" and operation.name in _REDUCTIONS and len(operation.results) == 1:
        return _product(e, operation, operands)
    if operation.name == "stablehlo.scatter":
        return _scatter(e, operation, operands)
    found = None
    if operation.name == "stablehlo.reduce" and len(operation.results) == 2:
        found = _place_of_largest(e, operation, operands)
    if found is None and operation.name in _REDUCTIONS:
        found = _any_element(e, operation, operands)
    return found


def _any_element(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A region that chooses by an order which is none: any of the elements, of those of the same type, or an init."""
    count, region = len(operation.results), operation.regions[0]
    if not is_selection(region) or any(x.since is not None or x.element.is_complex for x in operands):
        return None
    own, results = e.nominal(operation, operands), []
    for i in range(count):
        ends: list[list[np.ndarray]] = [[], [], []]
        for j in range(count):
            if operands[j].element == operands[i].element:
                (low, high, nan), (a, b, n) = operands[j].bounds(), operands[count + j].bounds()
                low, high, a, b = (np.where(np.isnan(v), end, v) for v, end in (
                    (low, np.inf), (high, -np.inf), (a, np.inf), (b, -np.inf)))  # fmt: skip
                pairs = (("minimum", low, a), ("maximum", high, b), ("maximum", nan * 1.0, n * 1.0))
                for end, (name, x, init) in zip(ends, pairs, strict=True):
                    end.append(np.asarray(_run_combining(e, operation, name, (j, count + j), [x, init], i)[0]))
        low, high, nan = np.minimum.reduce(ends[0]), np.maximum.reduce(ends[1]), np.maximum.reduce(ends[2]) > 0
        low, high = np.where(low > high, np.nan, low), np.where(low > high, np.nan, high)
        results.append(e.finish(operation, operands, low, high, nan, rounds=False, value=own[i].value, index=i))
    return results


def _scatter(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A scatter that is no sum. Where several updates meet at one element, their order is left open."""
    region, count = operation.regions[0], len(operation.results)
    replaces = region.returns == region.arguments[count:] and not region.operations
    is_exact = all(x.is_exact for x in operands)
    if not operands[count].is_exact or not (replaces or (is_exact and all(map(e.is_exact, region.operations)))):
        return _updated_once(e, operation, operands) if count == 1 and operands[1].is_exact else None
    found = e.nominal(operation, operands) if is_exact else move(e, operation, operands) if count == 1 else None
    if found is None:
        return None
    numbers = [np.zeros(operands[0].value.shape), operands[count].value, np.ones(operands[count + 1].value.shape)]
    (met,) = _run_combining(e, operation, "add", (0, count, count + 1), numbers)
    meets = np.asarray(met) > 1
    if not meets.any():
        return found
    is_number = found[0].element.is_float or holds_integers(found[0].element)
    if replaces and count == 1 and is_number and not operation.attributes.get("unique_indices"):
        return [_any_update(e, operation, operands, np.asarray(met) > 0, found[0])]
    return [dataclasses.replace(x, since=e.since(operation, meets, x.since)) for x in found]


def _updated_once(e: Evaluator, operation: Operation, operands: Sequence[Enclosure]) -> Sequence[Any] | None:
    """The region on each element and its update; undecided where several updates meet."""
    (region,), (x, indices, updates) = operation.regions, operands
    is_plain = not captures(region) and not any(o.regions for o in region.operations)
    if not is_plain or x.element != updates.element or not (x.element.is_float or holds_integers(x.element)):
        return None
    shape = x.value.shape

    def placed(v: np.ndarray) -> np.ndarray:
        return np.asarray(_run_combining(e, operation, "add", (0, 1, 2), [np.zeros(shape), indices.value, v])[0])

    met = placed(np.ones(updates.value.shape))
    low, high, nan = (placed(v * 1.0) for v in updates.bounds())
    value = placed(to_f64(updates.value, updates.element)).astype(x.value.dtype)
    undecided = None if updates.since is None else placed(updates.since).astype(np.int32)
    there = Enclosure(x.type, value, low, high, nan > 0, undecided, e.causes)
    (found,) = e.region(e.remember(operation, lambda: lift(region, shape)), [x, there])
    ends = [np.where(met == 1, new, old) for new, old in zip(found.bounds(), x.bounds(), strict=True)]
    since = e.since(operation, met > 1)
    for part, where in ((x.since, met == 0), (found.since, met == 1)):
        since = since if part is None else np.where(where, part, since)
    own = e.nominal(operation, operands)[0].value
    return [e.finish(operation, operands, *ends, rounds=False, value=own, since=since.astype(np.int32))]


def _any_update(
    e: Evaluator, operation: Operation, operands: Sequence[Enclosure], met: np.ndarray, found: Enclosure
) -> Enclosure:
    """Return the results of a scatter of which any update may be the last: between the least and the greatest."""
    x, indices, updates = operands
    (low, high, nan), (a, b, n) = x.bounds(), updates.bounds()

    def combined(name: str, start: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.asarray(_run_combining(e, operation, name, (0, 1, 2), [start, indices.value, values])[0])

    low = combined("minimum", np.where(met, np.inf, low), np.where(n, np.inf, a))
    high = combined("maximum", np.where(met, -np.inf, high), np.where(n, -np.inf, b))
    nan = combined("maximum", np.where(met, 0.0, nan), n * 1.0) > 0
    low, high = np.where(low > high, np.nan, low), np.where(low > high, np.nan, high)
    return e.finish(operation, operands, low, high, nan, rounds=False, value=found.value, since=found.since)


def _run_combining(
    e: Evaluator, operation: Operation, name: str, at: Sequence[int], arrays: Sequence[np.ndarray], index: int = 0
) -> list[Any]:
    key, result = (operation, name, tuple(at)), operation.results[index]
    return e.run(e.remember(key, lambda: _combining(operation, name, at, result)), arrays)


def _combining(operation: Operation, name: str, at: Sequence[int], result: Value) -> Operation:
    """Return a reduction or scatter of one operand, of operands `at`, that combines f64 by a binary operation."""
    x, y, z = (Value(TensorType((), F64)) for _ in range(3))
    body = Region((x, y), [Operation(f"stablehlo.{name}", (x, y), (z,), {}, (), operation.location)], (z,))
    indices = len(at) == 3  # of a scatter, which stay what they are
    operands = [
        Value(operation.operands[i].type if indices and k == 1 else _wide(operation.operands[i]))
        for k, i in enumerate(at)
    ]
    return dataclasses.replace(operation, operands=tuple(operands), results=(Value(_wide(result)),), regions=(body,))


def _wide(v: Value) -> TensorType:
    assert isinstance(v.type, TensorType)
    return dataclasses.replace(v.type, element=F64)


def _monotone(e: Evaluator, operation: Operation, operands: Sequence[Any], name: str) -> Sequence[Any] | None:
    """The operation at both ends, as it grows with every element."""
    element = operands[0].element
    at = [0, 2] if operation.name == "stablehlo.scatter" else range(len(operands))
    if element.kind is Kind.BOOL:  # whose sum is that of logic
        name = {"and": "minimum", "or": "maximum", "add": "maximum"}.get(name, name)
    if name in ("and", "or") or not (element.is_float or holds_integers(element)):
        return None
    if any(not x.is_exact for i, x in enumerate(operands) if i not in at):
        return None
    bounds = [operands[i].bounds() for i in at]
    sizes = [np.maximum(np.abs(low), np.abs(high)) for low, high, _ in bounds]
    if holds_integers(element) and max(size.max(initial=0) for size in sizes) > MOST:
        return None
    on = _on(e, operation, operands, at)
    low, high = (on(name, [b[i] for b in bounds]) for i in range(2))
    since = on("maximum", [causes_of(operands[i]) * 1.0 for i in at]).astype(np.int32)
    if name == "add":
        return [integers(e, operation, operands, low, high, since, on(name, sizes) > MOST)]
    nan = np.isnan(on(name, [np.where(n, np.nan, lo) for lo, _, n in bounds]))
    if e.allowed.flushes(element):
        some = on("maximum", [may_be_subnormal(b[0], b[1], element) * 1.0 for b in bounds]) > 0
        low, high = subnormal_hull(low, high, element, some)
    return [e.finish(operation, operands, low, high, nan, rounds=False, since=since if since.any() else None)]


def _on(
    e: Evaluator, operation: Operation, operands: Sequence[Any], at: Sequence[int]
) -> Callable[[str, Sequence[np.ndarray]], np.ndarray]:
    """Return the operation on arrays of f64 in the place of operands `at`, by a binary operation."""

    def on(name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        given = [arrays[list(at).index(i)] if i in at else x.value for i, x in enumerate(operands)]
        return np.asarray(_run_combining(e, operation, name, range(len(operands)), given)[0])

    return on


def _product(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The product of elements in any order: of magnitudes at both ends, and the sign where it is certain."""
    element = operands[0].element
    if not element.is_float:
        return None
    on_each = _on(e, operation, operands, range(len(operands)))

    def on(arrays: Sequence[np.ndarray]) -> np.ndarray:
        return on_each("multiply", arrays)

    bounds = [x.bounds() for x in operands]
    special = [n | ~np.isfinite(lo) | ~np.isfinite(hi) for lo, hi, n in bounds]
    only_nan, unknown = (
        on([np.where(s, 0.0, 1.0) for s in x]) == 0 for x in ([np.isnan(b[0]) for b in bounds], special)
    )
    bounds = [(np.where(s, 1.0, lo), np.where(s, 1.0, hi), n) for (lo, hi, n), s in zip(bounds, special, strict=True)]
    spans = [(lo <= 0) & (hi >= 0) & (lo != hi) for lo, hi, _ in bounds]
    least = on([np.where(s, 0.0, np.minimum(np.abs(b[0]), np.abs(b[1]))) for s, b in zip(spans, bounds, strict=True)])
    most = on([np.maximum(np.abs(lo), np.abs(hi)) for lo, hi, _ in bounds])
    sign = on([np.where(s, 1.0, np.where(b[0] < 0, -1.0, 1.0)) for s, b in zip(spans, bounds, strict=True)])
    either = on([np.where(s, 0.0, 1.0) for s in spans]) == 0
    sizes = operation.attributes.get("window_dimensions", operands[0].value.size / max(most.size, 1))
    count = float(np.prod(np.asarray(sizes))) + 1
    slack = np.expm1(count * np.log1p(2.0**-element.format.precision)) + 4 * count * 2.0**-53
    least, most = least * (1 - slack), most * (1 + slack)
    # Products of some of the elements may leave the range of the type on the way.
    wide = [np.maximum(np.maximum(np.abs(lo), np.abs(hi)), 1.0) for lo, hi, _ in bounds]
    narrow = [np.minimum(np.minimum(np.abs(lo), np.abs(hi)), 1.0) for lo, hi, _ in bounds]
    fmt = element.format
    overflows, vanishes = (
        on(wide) * (1 + slack) >= 2.0**fmt.bias,
        on(narrow) <= 2.0 ** (fmt.min_exponent + 2 * fmt.precision),
    )
    least, most = np.where(vanishes, 0.0, least), np.where(overflows | unknown, np.inf, most)
    low = np.where(either | unknown, -most, np.where(sign < 0, -most, least))
    high = np.where(either | unknown, most, np.where(sign < 0, -least, most))
    low, high = np.where(only_nan, np.nan, low), np.where(only_nan, np.nan, high)
    since = on_each("maximum", [causes_of(x) * 1.0 for x in operands]).astype(np.int32)
    nan = unknown | (overflows & vanishes)
    return [e.finish(operation, operands, low, high, nan, since=since if since.any() else None)]


def _place_of_largest(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """The largest or smallest key and what goes with it: all whose keys may be it."""
    keys, payload = operands[:2]
    low, high, nan = keys.bounds()
    own = e.nominal(operation, operands)
    region = operation.regions[0]
    if not is_selection(region) or independent_parts(region) or not low.size:
        return None
    if nan.any() or not payload.is_exact or keys.since is not None or not keys.element.is_float:
        return None
    axes = tuple(int(d) for d in np.ravel(operation.attributes["dimensions"]))
    best = np.expand_dims(np.asarray(own[0].value, np.float64), axes)
    value = np.asarray(keys.value, np.float64)
    largest = (value <= best).all()
    if not largest and not (value >= best).all():
        return None
    if largest:
        bound = low.max(axis=axes, keepdims=True)
        may, ends = high >= bound, (low.max(axis=axes), high.max(axis=axes))
    else:
        bound = high.min(axis=axes, keepdims=True)
        may, ends = low <= bound, (low.min(axis=axes), high.min(axis=axes))
    places = np.asarray(payload.value, np.float64)
    first = np.where(may, places, np.inf).min(axis=axes)
    last = np.where(may, places, -np.inf).max(axis=axes)
    none = np.zeros(ends[0].shape, bool)
    return [
        e.finish(operation, operands, *ends, none, rounds=False, value=own[0].value),
        e.finish(operation, operands, first, last, none, rounds=False, value=own[1].value, index=1),
    ]


@rule("map")
def map_(e: Evaluator, operation: Operation, operands: Sequence[Any]) -> Sequence[Any] | None:
    """A region on the elements of arrays: its operations on the whole arrays, and on what it captures."""
    (region,) = operation.regions
    if any(o.regions for o in region.operations):
        return None
    captured, shape = captures(region), operands[0].value.shape
    whole = Region((*region.arguments, *captured), region.operations, region.returns)
    spread = [_spread(e.values[v], shape) for v in captured]
    return e.region(e.remember(operation, lambda: lift(whole, shape)), [*operands, *spread])


def _spread(x: Enclosure, shape: tuple[int, ...]) -> Enclosure:
    """Return the enclosure of a number for every element of a shape."""
    names = ("value", "low", "high", "nan", "since", "beyond")
    parts = {n: np.broadcast_to(a, shape) for n in names if (a := getattr(x, n)) is not None}
    return dataclasses.replace(x, type=TensorType(shape, x.element), **parts)
