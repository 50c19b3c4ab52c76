"""Which products stand together, from masks alone; and dots that tell a record from the nearest ones.

What a mask leaves is computed here from the definition of steps: a small product is lost in a step that holds a large
one, or where the running sum is large.
"""

import numpy as np
import pytest

from minihlo.interp.probing import questions as rivals
from minihlo.interp.probing.answers import Session
from minihlo.interp.probing.dots import Asker, Signature
from minihlo.interp.probing.layouts import Layout, Masks, layouts
from minihlo.interp.probing.structure import structure
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.steps import chunks_of

from ..random_records import random_record
from .test_probe import Model

K = 64


def _left(record: Accumulator, large: int, negative: int, small: int) -> bool:
    """Whether the small product is left of a sum with as many bits as it has not."""
    products = {large: 2**40, negative: -(2**40), small: 1}

    def cut(terms: list[int]) -> int:
        return sum(t for t in terms if abs(t) > 1 or all(abs(o) <= 1 for o in terms))

    total = 0
    for chunk in chunks_of(record, K):
        part = 0
        for group in chunk:
            joins = 0 if record.c == "after" else part
            for step in group:
                joins = cut([joins, *(products[p] for p in step if p in products)])
            part = cut([part, joins]) if record.c == "after" else joins
        total = cut([total, part])
    return total == 1


def _triples() -> np.ndarray:
    rng = np.random.default_rng(3)
    some = [rng.permutation(K)[:3] for _ in range(2500)]
    near = [rng.permutation(range(i, i + 8))[:3] for i in range(K - 7) for _ in range(20)]
    return np.array([*some, *near])


@pytest.mark.parametrize(
    "layout",
    [
        Layout(4),
        Layout(8, (4, 8), 0, 16),
        Layout(2, (1, 1), 8, 32),
        Layout(6, (2, 4)),
        Layout(1, (1, 1), 4, 0),
        Layout(8, (2, 4), 32, 0),
        Layout(0),
    ],
)
def test_the_layout_with_the_fewest_exceptions_is_the_right_one(layout: Layout) -> None:
    record = layout.record({"c": "after" if layout.group else "aligned"})
    assert record is not None
    triples = _triples()
    kept = np.array([_left(record, *t) for t in triples.tolist()])
    masks = Masks(triples, kept, K, np.random.default_rng(0))
    costs = masks.best(list(layouts(K)))
    # Another may be the same for all three products.
    assert costs[layout] == next(iter(costs.values()))
    assert costs[layout][0] == 0
    assert sum(cost == costs[layout] for cost in costs.values()) < 8
    # A fault in a tenth of the masks is no layout's.
    wrong = Masks(triples, kept ^ (np.arange(len(kept)) % 10 == 0), K, np.random.default_rng(0))
    assert min(cost for cost, _ in wrong.best(list(layouts(K))).values()) > 0


@pytest.mark.parametrize("seed", [672, 710, 718])
def test_the_search_begins_with_the_right_layout(seed: int) -> None:
    """Of two the first start had another one; of the last another step."""
    record = random_record(seed)
    session = Session(Asker(Model(record), Signature("f8E4M3FN", "f8E4M3FN", "f32", K)), np.random.default_rng([0, K]))
    first = structure(session).starts[0]
    assert (first.step, first.take, first.group, first.outer, first.tree) == (
        record.step, record.take, record.group, record.outer, record.tree,
    )  # fmt: skip


def test_dots_are_asked_for_that_tell_a_record_from_the_nearest() -> None:
    """Even and odd products summed apart and cut downward: no designed dot shows it, nor one of 10,000 random ones."""
    right = random_record(691)
    near = Accumulator(5, bits=24, normalise=True, c="joined", sum_bits=13, c_bits=33, keep="f32:5", rounding="up")
    session = Session(Asker(Model(right), Signature("f8E4M3FN", "f8E4M3FN", "f32", K)), np.random.default_rng(0))
    few = session.designer.random(session.rng, 20, 20, "few")
    session.ask("random few", few)
    assert rivals.ask_rivals(session, near)
    assert session.cost(near, session.answers[-1])
    assert not session.cost(right, session.answers[-1])
