"""Things that are made once they pay, and the bound on the memory of all of them."""

from typing import Any

import numpy as np

from minihlo.ops.engine.amortised import Amortised, Cache, Latest, Recent
from minihlo.ops.engine.speed import tuning

from ..conftest import Tune


def test_it_is_made_once_the_work_without_it_has_cost_as_much() -> None:
    made: list[int] = []
    thing = Amortised(lambda: made.append(1) or len(made), 100, per_call=10)
    assert [thing.get(20), thing.get(20), thing.get(20)] == [None, None, None]  # 90
    assert thing.value is None
    assert [thing.get(0), thing.get(0), thing.value] == [1, 1, 1]
    assert made == [1]
    thing.drop()
    assert [thing.get(0), thing.get(1000)] == [None, 2]


def test_what_is_wanted_at_once_is_made_at_once() -> None:
    thing = Amortised(lambda: "made", 1e9)
    assert (thing.made(), thing.value) == ("made", "made")


def test_the_oldest_go_when_all_take_too_much(tune: Tune) -> None:
    cache = Cache()
    tune(most_bytes=250)
    things = [
        Amortised(lambda i=i: np.full(100, i, np.uint8), 0, nbytes=lambda x: x.nbytes, cache=cache) for i in range(4)
    ]
    free = Amortised(lambda: "takes nothing", 0, cache=cache)
    free.get(1)
    for thing in things:
        thing.get(1)
    assert [thing.value is None for thing in things] == [True, True, False, False]
    assert free.value is not None
    assert things[0].made()[0] == 0
    assert [thing.value is None for thing in things] == [False, True, True, False]
    latest = Latest(cache)
    latest.at([np.zeros(3)], lambda: ["large"], 240)
    assert [thing.value is None for thing in things] == [True, True, True, True]
    assert latest.at([np.zeros(3)], lambda: ["anew"], 240) == ["large"]  # one thing alone may be larger than the bound


def test_the_latest_is_made_anew_for_other_bits() -> None:
    latest, made = Latest(), []

    def make() -> list[int]:
        made.append(1)
        return [len(made)]

    zero = np.zeros(1, np.float32)
    actual = [latest.at([x], make, 8) for x in (zero, zero.copy(), -zero, zero)]
    assert actual == [[1], [1], [2], [3]]


def test_what_is_dropped_while_it_is_made_is_given_all_the_same() -> None:
    class Dropping(Cache):
        def add(self, owner: Any, nbytes: int) -> None:
            super().add(owner, nbytes)
            owner.drop()  # as another thread may do

    thing: Amortised[str] = Amortised(lambda: "made", 0, nbytes=len, cache=Dropping())
    assert (thing.get(1), thing.made(), thing.value) == ("made", "made", None)


def test_prices_follow_the_tuning_and_a_cache_can_be_emptied(tune: Tune) -> None:
    cache = Cache(1000)
    thing = Amortised(lambda: b"made", lambda: tuning().cast_worth, lambda: tuning().call_cost, len, cache)
    tune(cast_worth=100, call_cost=10)
    assert [thing.get(40), thing.get(39)] == [None, None]  # 99
    tune(cast_worth=99)
    assert thing.get(-10) == b"made"
    cache.clear()
    assert thing.value is None
    assert thing.get(0) is None  # all is as at the beginning


def test_the_last_few_keys_are_kept(tune: Tune) -> None:
    tune(shapes=3)
    recent: Recent[int, str] = Recent()
    assert [recent.keep(i, str(i)) for i in range(5)] == ["0", "1", "2", "3", "4"]
    assert dict(recent) == {2: "2", 3: "3", 4: "4"}
    tune(shapes=1)
    recent.keep(9, "9")
    assert dict(recent) == {9: "9"}
