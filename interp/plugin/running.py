"""Runs plans without what costs time: no copies of results, no context managers."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops import parallel
from .. import machine
from ..planner import Plan
from . import interrupts

#: Contexts in which numpy does not warn. Entering one takes a tenth of the time of `np.errstate`.
_quiet: list[contextvars.Context] = []


def _quiet_context() -> contextvars.Context:
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


@interrupts.breakable
def run(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> Sequence[Any]:
    """The results of a plan, which may be arrays that somebody else has too. Raises what `machine.run` does.

    It is a process by itself, or the one given: stopping its grid breaks off the run.
    """
    plan.random.restart(plan.policy.seed)
    if process is None and parallel.current_grid() is None:
        return _run(plan, values)
    before = parallel.enter(process)
    try:
        return _run(plan, values)
    finally:
        parallel.enter(before)


def _run(plan: Plan, values: Sequence[Any]) -> Sequence[Any]:
    try:
        context = _quiet.pop()
    except IndexError:
        context = _quiet_context()
    try:
        return context.run(plan.entry, *values)
    except Exception as error:
        raise machine.as_ours(error, plan) from None
    finally:
        _quiet.append(context)
