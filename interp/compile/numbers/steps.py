"""Operations on arrays of a few elements as operations on single numbers."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import Call, Op, lookup
from ....ops.reductions.folds import PAIRS_FROM
from ....ops.types import ELEMENT_TYPES, TensorType
from ...program import Operation, Region, Value
from ..passes.fusible import element_of, elements_of, shape_of
from .positions import element_window, place_of
from .values import Numbers
from .work import is_small

#: What a sum of products is made of.
_PRODUCT = "multiply", "add"
_I32, _PLACES = TensorType((), ELEMENT_TYPES["i32"]), ELEMENT_TYPES["i64"]


def elementwise(numbers: Numbers, operation: Operation, record: Op) -> bool:
    """Rewrite an elementwise operation. False where it stays."""
    (result,), elements = operation.results, elements_of(operation)
    shape = shape_of(result)
    if not record.is_elementwise or any(shape_of(v) not in (shape, ()) for v in operation.operands):
        return False
    is_near = record.accuracy.is_near
    # A function of f64 of the host can depend on the neighbours of an element, as its loop takes several at once.
    if (is_near and any(e.name == "f64" for e in elements)) or not numbers.work.has_expression(operation):
        return False
    operands = [numbers.of(v) for v in operation.operands]
    columns = [o * math.prod(shape) if len(o) == 1 else o for o in operands]
    numbers.assign(
        result, tuple([numbers.number(operation, row, element_of(result)) for row in zip(*columns, strict=True)])
    )
    now = tuning()
    if shape:
        is_slow = is_near or any(e.name == "f16" for e in elements)
        numbers.work.saved += now.array_function_cost if is_slow else now.array_cost
        numbers.spend(math.prod(shape), result.type, is_near)
    return True


def moved(numbers: Numbers, operation: Operation, record: Op) -> bool:
    """Rewrite an operation that only moves elements.

    Its kernel is run on the positions of the elements, which tells where each result comes from.
    """
    (result,) = operation.results
    elements = [numbers.of(v) for v in operation.operands]
    starts = np.cumsum([0, *map(len, elements)])
    types = [TensorType(shape_of(v), _PLACES) for v in (*operation.operands, result)]
    kernel = record.function(Call(operation.name, tuple(types[:-1]), (types[-1],), operation.attributes))
    places = [
        np.arange(start, start + len(n)).reshape(shape_of(v))
        for start, n, v in zip(starts, elements, operation.operands, strict=False)
    ]
    every = [n for some in elements for n in some]
    numbers.assign(result, tuple([every[i] for i in np.asarray(kernel(*places)).reshape(-1).tolist()]))
    numbers.work.saved += tuning().array_cost
    return True


def window(numbers: Numbers, operation: Operation, first: int) -> None:
    """Rewrite a dynamic slice (`first` is 1), or a dynamic update (2)."""
    (result,), source, starts = operation.results, operation.operands[0], operation.operands[first:]
    shape = shape_of(result if first == 1 else operation.operands[1])
    elements, text, used, offsets = numbers.of(source), *place_of(shape_of(source), shape)
    numbers.work.saved += 2 * tuning().array_cost
    if not used:
        numbers.assign(result, elements if first == 1 else numbers.of(operation.operands[1]))
        return None
    at = [numbers.of(starts[d])[0] for d in used]
    if all(v in numbers.work.constants for v in at):
        first_place = _known_place(shape_of(source), shape, used, [int(numbers.work.constants[v]) for v in at])
        places = [first_place + o for o in offsets]
        if first == 1:
            return numbers.assign(result, tuple([elements[i] for i in places]))
        known = dict(zip(places, numbers.of(operation.operands[1]), strict=True))
        return numbers.assign(result, tuple([known.get(i, x) for i, x in enumerate(elements)]))
    place = numbers.expression(text, at, _I32)
    t, many = TensorType((), element_of(result)), ", ".join(f"{{{i + 1}}}" for i in range(len(elements)))
    if first == 1:
        numbers.assign(
            result, tuple([numbers.expression(f"({many},)[{{0}} + {o}]", (place, *elements), t) for o in offsets])
        )
        return numbers.spend(2 + len(offsets) * (1 + len(elements) / 4))
    updated = list(elements)
    for offset, new in zip(offsets, numbers.of(operation.operands[1]), strict=True):
        for i in range(offset, len(updated)):
            text = f"{{0}} if {{1}} == {i - offset} else {{2}}"
            updated[i] = numbers.expression(text, (new, place, updated[i]), t)
    numbers.assign(result, tuple(updated))
    return numbers.spend(2 + len(offsets) * len(updated))


def _known_place(shape: Sequence[int], window: Sequence[int], used: Sequence[int], starts: Sequence[int]) -> int:
    """The position of a window in the flattened tensor, whose starts in some dimensions are constants."""
    at = [0] * len(shape)
    for d, start in zip(used, starts, strict=True):
        at[d] = min(max(start, 0), shape[d] - window[d])
    return int(np.ravel_multi_index(at, shape))


def reduced(numbers: Numbers, operation: Operation) -> bool:
    """Rewrite a short reduction as steps in the order that `reduce` promises. False where it stays."""
    (body,), count = operation.regions, len(operation.operands) // 2
    arrays, inits = operation.operands[:count], operation.operands[count:]
    shape, dimensions = shape_of(arrays[0]), sorted(np.ravel(operation.attributes["dimensions"]).tolist())
    steps = math.prod(shape[d] for d in dimensions)
    wanted = [element_of(v) for v in body.arguments]
    if [element_of(v) for v in operation.operands] != [*wanted[count:], *wanted[:count]]:
        return False
    if steps >= PAIRS_FROM or not _is_simple(numbers, body):
        return False
    order = [*dimensions, *(d for d in range(len(shape)) if d not in dimensions)]
    places = np.arange(math.prod(shape)).reshape(shape).transpose(order).reshape(steps, -1)
    elements, totals = [numbers.of(v) for v in arrays], [list(numbers.of(v)) * places.shape[1] for v in inits]
    for row in places.tolist():
        for column, place in enumerate(row):
            found = _applied(numbers, body, (*(t[column] for t in totals), *(n[place] for n in elements)))
            for total, value in zip(totals, found, strict=True):
                total[column] = value
    for result, total in zip(operation.results, totals, strict=True):
        numbers.assign(result, tuple(total))
    numbers.work.saved += tuning().array_fold_cost * len(body.operations)
    return True


def multiplied(numbers: Numbers, operation: Operation) -> bool:
    """Rewrite sums of a few products that are formed in order, from +0. False where they are not."""
    products = numbers.work.products(operation)
    if products is None or any(e.is_float and e.bits < 32 for e in elements_of(operation)):
        return False  # those of f16 and bf16 are formed in f32
    (result,), (xs, ys) = operation.results, map(numbers.of, operation.operands)
    element = element_of(result)
    zero = Value(TensorType((), element))
    numbers.work.constants[zero] = np.zeros((), element.dtype)
    multiply, add = [dataclasses.replace(operation, name=f"stablehlo.{n}", attributes={}) for n in _PRODUCT]
    totals = []
    for pairs in products:
        total = zero
        for i, j in pairs:
            total = numbers.number(add, (total, numbers.number(multiply, (xs[i], ys[j]), element)), element)
        totals.append(total)
    numbers.assign(result, tuple(totals))
    numbers.work.saved += tuning().array_product_cost
    numbers.spend(2 * sum(map(len, products)), result.type)
    return True


def scattered(numbers: Numbers, operation: Operation) -> bool:
    """Rewrite a scatter of one window. False where it stays."""
    (body,), source = operation.regions, operation.operands[0]
    window = element_window(operation)
    if window is None or not _is_simple(numbers, body):
        return False
    elements, indices, new = list(numbers.of(source)), *map(numbers.of, operation.operands[1:])
    numbers.work.saved += tuning().array_scatter_cost
    if all(v in numbers.work.constants for v in indices):
        known = window.place([int(numbers.work.constants[v]) for v in indices])
        for update, targets in zip(new, window.targets, strict=True):
            if known >= 0:
                (elements[targets[known]],) = _applied(numbers, body, (elements[targets[known]], update))
        numbers.assign(operation.results[0], tuple(elements))
        return True
    place = numbers.expression(window.text, indices, _I32)
    for update, targets in zip(new, window.targets, strict=True):
        for at, target in enumerate(targets):
            (combined,) = _applied(numbers, body, (elements[target], update))
            operands = combined, place, elements[target]
            elements[target] = numbers.expression(f"{{0}} if {{1}} == {at} else {{2}}", operands, combined.type)
    numbers.assign(operation.results[0], tuple(elements))
    numbers.spend(2 + sum(map(len, window.targets)))
    return True


def _applied(numbers: Numbers, body: Region, values: Sequence[Value]) -> list[Value]:
    """Inline a body of operations on numbers. Returns its results."""
    inner = dict(zip(body.arguments, values, strict=True))
    for operation in body.operations:
        if operation.results[0] in numbers.work.constants:
            continue
        operands = tuple([inner.get(v) or numbers.of(v)[0] for v in operation.operands])
        inner[operation.results[0]] = numbers.number(operation, operands, element_of(operation.results[0]))
        numbers.spend(1, operation.results[0].type, lookup(operation.name).accuracy.is_near)  # type: ignore[union-attr]
    return [inner.get(v) or numbers.of(v)[0] for v in body.returns]


def _is_simple(numbers: Numbers, body: Region) -> bool:
    """Whether every operation of a body has an expression of single numbers."""
    return all(_has_expression(numbers, operation) for operation in body.operations)


def _has_expression(numbers: Numbers, operation: Operation) -> bool:
    """Whether an operation of a body has an expression of single numbers."""
    record, values = lookup(operation.name), (*operation.operands, *operation.results)
    if record is None or operation.regions or len(operation.results) != 1:
        return False
    if not all(is_small(v.type) and not shape_of(v) for v in values):
        return False
    if operation.results[0] in numbers.work.constants:
        return True
    is_f64 = record.accuracy.is_near and any(e.name == "f64" for e in elements_of(operation))
    return not is_f64 and numbers.work.has_expression(operation)
