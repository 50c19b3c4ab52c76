"""Chooses how the body of a reduction is folded, among the folds of `host_folds` and `body_folds`."""

from __future__ import annotations

from ..op import Body, Call, OpError
from ..types import ElementType, TensorType
from .body_folds import by_halves, by_key, by_steps, drawn, is_associative, one_by_one, separate
from .fold import Fold
from .host_folds import fold_of_op

#: From this number of elements on, a body of several ops combines neighbours in pairs, and the pairs in pairs; last,
#: the initial value with the result (`Body.pairs`). Not in `tuning`: it decides how floats are rounded. Times in
#: order and in pairs, ms: Welford's mean and variance of 200 numbers 0.25 and 0.12, of 10**5 53 and 1.5; `logaddexp` of
#: 200 4.1 and 0.3.
PAIRS_FROM = 32


def body_elements(body: Body, count: int) -> list[ElementType]:
    """The element types of a reduction's body over `count` values. Raises OpError where it is no such body."""
    types = [t for t in (*body.arguments, *body.results) if isinstance(t, TensorType) and t.shape == ()]
    elements = [t.element for t in types[2 * count :]]
    if len(body.results) != count or [t.element for t in types] != elements * 3:
        raise OpError(f"the body has type {body} (expected one that takes {2 * count} scalars and returns {count})")
    return elements


def fold_of(call: Call, body: Body) -> Fold:
    """The fold of a body. Its arrays have two axes, neither of length 0: the one to fold along and the one to keep.

    The accumulators have the length of the second, as do the results. The step given to the fold is the region itself
    and is called with scalars.
    """
    elements = _elements(body)
    if body.sole_op is not None and len(elements) == 1:
        fold = fold_of_op(call, body.sole_op, elements[0])
        if fold is not None:
            return fold
    if body.vectorised is None:
        return one_by_one
    if call.policy.rounding == "stochastic":
        return drawn(call, body, elements)
    if body.selects and is_associative(body.vectorised, elements):
        return by_key(body.vectorised, elements)
    if body.parts:
        return separate([(fold_of(call, part), part) for part in body.parts])
    return by_steps(body.vectorised, elements)


def _elements(body: Body) -> list[ElementType]:
    return [t.element for t in body.results if isinstance(t, TensorType)]


def long_fold_of(call: Call, body: Body) -> Fold:
    """The fold of a body over at least `PAIRS_FROM` elements."""
    is_code = len(body.results) == 1 and all(isinstance(t, TensorType) and t.element.is_minifloat for t in body.results)
    is_drawn = call.policy.rounding == "stochastic"
    if body.vectorised is None or not body.pairs or (is_code and not is_drawn):  # codes run along a transition table
        return fold_of(call, body)
    if body.parts and not is_drawn:
        return separate([(long_fold_of(call, part), part) for part in body.parts])
    if body.selects and not is_drawn and is_associative(body.vectorised, _elements(body)):
        return fold_of(call, body)
    return by_halves(body.vectorised, is_drawn)
