"""Work is done by several threads where that has taken less time, and whole at any pace."""

from __future__ import annotations

import dataclasses

import pytest

from minihlo.ops.engine import speed
from minihlo.ops.engine.blocks import Pace, for_each

from .conftest import Tune


def test_work_is_shared_where_that_took_less_time(tune: Tune) -> None:
    tune(pace_trials=4, pace_calls=10)
    pace = Pace()
    for seconds in ({True: 3.0, False: 2.0}, {True: 1.0, False: 2.0}, {True: 3.0, False: 2.0}):
        calls = []
        for _ in range(10):
            calls.append(pace.pays())
            pace.took(calls[-1], seconds[calls[-1]])
        assert calls == [True, False, True, False, *[seconds[True] < seconds[False]] * 6]


@pytest.mark.parametrize("named", [False, True])
def test_all_parts_are_done_at_any_pace(named: bool, tune: Tune) -> None:
    tune(pace_trials=4, pace_calls=10, block=10)
    pace = "a test" if named else Pace()
    with speed.entered(dataclasses.replace(speed.current(), threads=2)):
        for _ in range(12):
            done: list[int] = []
            for_each(range(9), done.append, 100, pace)
            assert sorted(done) == list(range(9))
