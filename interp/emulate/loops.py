"""Loops and branches of the program that is being written."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jaxlib.mlir import ir

from .tensor import I32, Tensor, constant, fill, insert


def loop(count: int | Tensor, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor]) -> list[Tensor]:
    """Repeat `body(index, *state)`, which gives the next state; `index` counts from 0, as a scalar of i32."""
    if isinstance(count, int) and count == 0:
        return list(state)
    first = constant(0, I32)
    initial = [first, *state]
    types = [x.value.type for x in initial]

    def condition(*values: ir.Value) -> list[ir.Value]:
        return [(Tensor(values[0], I32, ()) < count).value]

    def step(*values: ir.Value) -> list[ir.Value]:
        index, *rest = (Tensor(v, x.element, x.shape) for v, x in zip(values, initial, strict=True))
        return [x.value for x in (index + 1, *body(index, *rest))]

    op = insert("while", types, [x.value for x in initial], regions=2)
    fill(op.regions[0], types, condition)
    fill(op.regions[1], types, step)
    return [Tensor(r, x.element, x.shape) for r, x in zip(list(op.results)[1:], state, strict=True)]


def repeat(count: int, body: Callable[..., Sequence[Tensor]], state: Sequence[Tensor], unrolled: int) -> list[Tensor]:
    """Return the state after `body(index, *state)` for each index: so many at a time in a loop."""
    whole, found = count // unrolled if count > unrolled else 0, list(state)

    def some(index: Tensor, *state: Tensor) -> Sequence[Tensor]:
        for i in range(unrolled):
            state = tuple(body(index * unrolled + i, *state))
        return state

    found = loop(whole, some, found)
    for i in range(whole * unrolled, count):
        found = list(body(i, *found))
    return found


def branch(condition: Tensor, like: Sequence[Tensor], *ways: Callable[[], Sequence[Tensor]]) -> list[Tensor]:
    """Return what the first way gives where a scalar of i1 holds, else what the second gives: only one of them is run.

    The results have the types of `like`.
    """
    op = insert("if", [x.value.type for x in like], [condition.value], regions=2)
    for region, give in zip(op.regions, ways, strict=True):
        fill(region, [], lambda give=give: [x.value for x in give()])
    return [Tensor(r, x.element, x.shape) for r, x in zip(op.results, like, strict=True)]
