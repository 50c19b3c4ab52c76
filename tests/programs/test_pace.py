"""Work is done by several threads where that has taken less time, and whole at any pace."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

from minihlo.ops.engine import blocks, speed
from minihlo.ops.engine.blocks import Pace, for_each
from minihlo.ops.engine.owned import own

from ..conftest import Tune


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


def test_a_helper_that_has_not_begun_keeps_no_results(tune: Tune) -> None:
    tune(block=1)
    gate = threading.Event()
    pool = blocks._threads()
    waiting = [pool.submit(gate.wait, 10) for _ in range(pool._max_workers)]

    def shared() -> np.ndarray:
        result = np.zeros(4)

        def work(part: int) -> None:
            result[part] = 1

        with speed.entered(dataclasses.replace(speed.current(), threads=2)):
            for_each(range(4), work, 4)
        return result

    try:
        result = shared()
        assert result.sum() == 4
        assert own(result) is result
    finally:
        gate.set()
        for future in waiting:
            future.result()
