"""Runs plans without what costs time: no copies of results, no context managers."""

from __future__ import annotations

import contextvars
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.processes import parallel
from .. import machine
from ..machine import Plan
from ..system import depth, host_floats
from .pjrt.interruptible import interruptible

#: Contexts in which numpy does not warn, Entering one takes a tenth of the time of
#: `np.errstate`.
contexts: list[contextvars.Context] = []


def quiet_context() -> contextvars.Context:
    """A new context."""
    context = contextvars.Context()
    context.run(np.seterr, all="ignore")
    return context


def run(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> tuple[Any, ...]:
    """The results of a plan, which may be arrays that have other references. Raises what `machine.run` does.

    The run is a process by itself, or the one given: stopping its grid ends the run. Ctrl-C interrupts it.
    """
    return interruptible(_run_in_default_mode, plan, values, process)


def _run_in_default_mode(plan: Plan, values: Sequence[Any], process: parallel.Process | None) -> tuple[Any, ...]:
    if not host_floats.are_default():  # a library of the user's, in this thread or in the one that started it
        with host_floats.default():
            return _run(plan, values, process)
    return _run(plan, values, process)


def _run(plan: Plan, values: Sequence[Any], process: parallel.Process | None) -> tuple[Any, ...]:
    plan.random.restart(plan.policy.seed)
    before = parallel.enter(process)
    try:
        context = contexts.pop()
    except IndexError:
        context = quiet_context()
    try:
        if plan.nests:
            with depth.deep_calls():
                return context.run(plan.entry, *values)
        return context.run(plan.entry, *values)
    except Exception as error:
        raise machine.as_ours(error) from None
    finally:
        contexts.append(context)
        parallel.enter(before)
