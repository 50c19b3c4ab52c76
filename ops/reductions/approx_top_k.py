"""The first elements along a dimension by a comparator, which JAX's programs call by name, exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..engine.speed import tuning
from ..op import Call, Run, lookup
from ..ordering import value_keys
from ..programs.custom_call import bound_target
from ..require import require
from ..types import ElementType, TensorType

#: Whether each of some elements comes before another, by arrays of the first and the second for each operand in turn.
Comparator = Callable[..., tuple[Any]]


@bound_target("ApproxTopK")
def approx_top_k(call: Call) -> Run:
    """The first elements along a dimension by the comparator, exactly: operands, and an initial value of each."""
    record, callees = lookup("sort"), list(call.functions.values())
    assert record is not None
    require(len(callees) == 1, f"called_computations names {len(callees)} functions (expected 1)")
    require(len(call.operands) == 2 * len(call.results), "takes an initial value for each operand")
    config = call.attributes.get("backend_config") or call.attributes.get("mhlo.backend_config") or {}
    require("reduction_dim" in config, "attribute 'reduction_dim' is missing")
    count, dimension = len(call.results), int(config["reduction_dim"])
    types = tuple([call.tensor(i) for i in range(count)])
    ordered = record.function(_sort(call, types, dimension, callees[0].body))
    row = tuple([TensorType((None,), t.element) for t in types])
    ordered_row = record.function(_sort(call, row, 0, callees[0].body))
    size, comparator = call.result().shape[dimension], callees[0].body.vectorised
    is_plain = not types[0].element.is_complex and comparator is not None

    def of_row(row: list[np.ndarray], most: int) -> list[np.ndarray]:
        chosen = _candidates(comparator, row, types[0].element, most)  # type: ignore[arg-type]
        few = row if chosen is None else [x.take(chosen) for x in row]
        outputs = ordered_row((callees[0].run,), *few)
        return [x[:most] for x in (outputs if isinstance(outputs, tuple) else (outputs,))]

    def kernel(*values: np.ndarray) -> Any:
        arrays, length = values[:count], values[0].shape[dimension]
        most = length if size is None else size
        if is_plain and 0 < most * tuning().first_of <= length:
            moved = [np.moveaxis(x, dimension, -1) for x in arrays]
            rows = [x.reshape(-1, length) for x in moved]
            found = [of_row([x[i] for x in rows], most) for i in range(len(rows[0]))]
            outputs = tuple(
                np.moveaxis(np.array(column, x.dtype).reshape(*x.shape[:-1], most), -1, dimension)
                for column, x in zip(zip(*found, strict=True), moved, strict=True)
            )
            return outputs[0] if count == 1 else outputs
        outputs = ordered((callees[0].run,), *arrays)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        kept = tuple(np.take(x, range(most), dimension) for x in outputs)
        return kept[0] if count == 1 else kept

    return kernel


def _sort(call: Call, types: tuple[TensorType, ...], dimension: int, body: Any) -> Call:
    return dataclasses.replace(call, operands=types, results=types, attributes={"dimension": dimension}, bodies=(body,))


def _candidates(comparator: Comparator, row: list[np.ndarray], element: ElementType, most: int) -> np.ndarray | None:
    """The places of a few elements among which the first `most` are; None where they have not been found.

    What an element does not come before is not after it. If there are `most` such elements, the first ones are among
    them. The element is one of a sample, such that a few more are to be expected.
    """
    if element.is_float and bool((row[0] != row[0]).any()):  # NaN have no place in many orders
        return None
    step = tuning().first_of
    keys = value_keys(np.ascontiguousarray(row[0][::step]), element)
    at = min(2 * -(-most // step) + tuning().first_more, len(keys)) - 1
    ends = np.array([keys.argmax()]) * step, np.array([keys.argmin()]) * step
    descends = bool(np.all(comparator(*(x.take(p) for x in row for p in ends))[0]))
    at = len(keys) - 1 - at if descends else at
    place = step * int(np.argpartition(keys, at)[at])
    pivots = [np.broadcast_to(x[place], x.shape) for x in row]
    after = comparator(*(y for pair in zip(pivots, row, strict=True) for y in pair))[0]
    chosen = np.flatnonzero(~np.broadcast_to(after, row[0].shape))
    return chosen if len(chosen) >= most and place in chosen else None
