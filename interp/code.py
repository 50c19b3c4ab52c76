"""Regions ready to run: lists of steps that work on the slots of a frame.

A frame is a list with a slot for each value of a function, those of its nested regions included: the body of a loop
reads the values around it where they are. A step is a function of the frame; its attribute `operation` is what it runs.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ops.processes.parallel import current_grid
from ..ops.traits import Run
from ..ops.types import Type
from .dynamic import require_types
from .program import Operation

Frame = list[Any]
Step = Callable[[Frame], None]
Slots = Sequence[int]


class Code:
    """A region ready to run.

    Attributes:
        label: The name of the region's function, for errors.
        steps: The steps in order.
        arguments: The slots of the arguments.
        returns: The slots of the results.
        template: The frame that a call starts with: constants, and None elsewhere. Empty for nested regions.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.steps: list[Step] = []
        self.arguments: Slots = ()
        self.returns: Slots = ()
        self.template: Frame = []

    def run(self, frame: Frame) -> None:
        """Run the steps. The traceback of an error has this call, with the step that failed."""
        for step in self.steps:
            step(frame)

    def enter(self, *values: Any) -> tuple[Any, ...]:
        """Run the function on its arguments, in a new frame. Return its results."""
        frame = [*values, *self.template[len(values) :]]
        values = ()  # so that the frame alone has them
        self.run(frame)
        return tuple([frame[i] for i in self.returns])

    def within(self, frame: Frame) -> Callable[..., tuple[Any, ...]]:
        """Return a nested region as a function of its arguments, for the kernel that applies it to elements."""
        return functools.partial(self._apply, frame)

    def alongside(self, frame: Frame) -> Callable[..., tuple[Any, ...]]:
        """Return a nested region as a function that several threads may call: each call has a copy of the frame."""
        return lambda *values: self._apply(frame.copy(), *values)

    def _apply(self, frame: Frame, *values: Any) -> tuple[Any, ...]:
        for slot, value in zip(self.arguments, values, strict=True):
            frame[slot] = value
        self.run(frame)
        return tuple([frame[i] for i in self.returns])


def step_of(step: Step, operation: Operation) -> Step:
    """Return a step that names its operation."""
    step.operation = operation  # pyright: ignore[reportFunctionMemberAccess]
    return step


def operation_of(step: Any) -> Operation | None:
    """Return the operation that a step runs."""
    return getattr(step, "operation", None)


def call_kernel(run: Run, operands: Slots, results: Slots) -> Step:
    """Return the step that calls a kernel of arrays."""
    if len(results) != 1:
        return _call_for_many(run, operands, results)
    (result,) = results
    if len(operands) == 1:
        (only,) = operands

        def unary(frame: Frame) -> None:
            frame[result] = run(frame[only])

        return unary
    if len(operands) == 2:
        first, second = operands

        def binary(frame: Frame) -> None:
            frame[result] = run(frame[first], frame[second])

        return binary

    def general(frame: Frame) -> None:
        frame[result] = run(*[frame[i] for i in operands])

    return general


def _call_for_many(run: Run, operands: Slots, results: Slots) -> Step:
    def step(frame: Frame) -> None:
        values = run(*[frame[i] for i in operands])
        for slot, value in zip(results, values or (), strict=True):
            frame[slot] = value

    return step


def call_with_regions(
    run: Run, regions: Sequence[Code], operands: Slots, results: Slots, has_threads: bool = False
) -> Step:
    """Return the step that calls a kernel which takes functions for its regions, and may call them in threads."""

    def call(frame: Frame) -> Any:
        functions = [r.alongside(frame) if has_threads else r.within(frame) for r in regions]
        return run(tuple(functions), *[frame[i] for i in operands])

    return _with_results(call, results)


def call_function(code: Code, operands: Slots, results: Slots) -> Step:
    """Return the step that calls a function of the program, in Python's frames alone: long chains of calls fit."""

    def step(frame: Frame) -> None:
        called = code.template.copy()
        for slot, i in zip(code.arguments, operands, strict=True):
            called[slot] = frame[i]
        code.run(called)
        for slot, i in zip(results, code.returns, strict=True):
            frame[slot] = called[i]

    return step


def overwrite(run: Run, in_place: Run, place: int, regions: Sequence[Code], operands: Slots, results: Slots) -> Step:
    """Return the step of a kernel that may write over the operand at `place`, which nothing needs afterwards.

    It does so where no other value, view or caller has the array: Python's count of references says that.
    """
    slot = operands[place]

    def call(frame: Frame) -> Any:
        x, frame[slot] = frame[slot], None
        kernel = in_place if sys.getrefcount(x) == _ALONE and is_own(x) else run
        values = [x if i == slot else frame[i] for i in operands]
        return kernel(tuple([r.within(frame) for r in regions]), *values) if regions else kernel(*values)

    return _with_results(call, results)


def is_own(x: Any) -> bool:
    """Return whether an array is writeable and no part of another."""
    return type(x) is np.ndarray and x.base is None and x.flags.writeable


def _with_results(call: Callable[[Frame], Any], results: Slots) -> Step:
    def step(frame: Frame) -> None:
        values = call(frame)
        if len(results) == 1:
            frame[results[0]] = values
        else:
            for slot, value in zip(results, values or (), strict=True):
                frame[slot] = value

    return step


def _count_alone() -> int:
    """Return the count of references of an object that one variable has. Versions of Python count in other ways."""
    x = object()
    return sys.getrefcount(x)


_ALONE = _count_alone()


def drop(slots: Slots) -> Step:
    """Return the step that drops values, so that their memory is free."""

    def step(frame: Frame) -> None:
        for slot in slots:
            frame[slot] = None

    return step


def check_types(name: str, slots: Slots, types: Sequence[Type]) -> Step:
    """Return the step that checks the shapes of values against types that say more of their sizes."""

    def step(frame: Frame) -> None:
        require_types(name, [frame[i] for i in slots], types)

    return step


def branch(regions: Sequence[tuple[Code, Slots]], index: Callable[[Any], int], operand: int, results: Slots) -> Step:
    """Return the step that runs one of several regions; `index` says which by the value of the operand.

    Each region comes with the slots of its results that are dropped once the step's results have them.
    """

    def step(frame: Frame) -> None:
        code, dropped = regions[index(frame[operand])]
        code.run(frame)
        for slot, i in zip(results, code.returns, strict=True):
            frame[slot] = frame[i]
        for slot in dropped:
            frame[slot] = None

    return step


def loop(condition: Code, body: Code, operands: Slots, state: Slots, dropped: Slots, dying: Slots) -> Step:
    """Return the step of a loop: `state` are the slots of its results and of the arguments of both regions.

    `dying` are operands that nothing needs after the first iteration, `dropped` the results of the body that are
    dropped once the state has them.
    """
    (flag,), returns = condition.returns, body.returns
    single = (state[0], returns[0]) if len(state) == 1 else None

    def step(frame: Frame) -> None:
        for slot, i in zip(state, operands, strict=True):
            frame[slot] = frame[i]
        for slot in dying:
            frame[slot] = None
        grid = current_grid()
        while True:
            condition.run(frame)
            if not frame[flag]:
                return
            body.run(frame)
            if single is not None:
                frame[single[0]] = frame[single[1]]
            else:
                values = [frame[i] for i in returns]
                for slot, value in zip(state, values, strict=True):
                    frame[slot] = value
                values = value = None  # so that the state alone has them
            for slot in dropped:
                frame[slot] = None
            if grid is not None and grid.is_stopped:
                grid.stop_here_if_stopped()

    return step


def detach(values: list[Any]) -> list[Any]:
    """Return results as arrays that share no memory with others: those that do are copied.

    Args:
        values: Arrays, numbers, None for tokens, and tuples of these, in a list that is changed.

    Returns:
        The list; numbers are arrays of rank 0. Arrays are contiguous in C's order and writeable.
    """
    for i in range(len(values)):
        value = values[i]
        if isinstance(value, tuple):
            values[i] = tuple(detach(list(value)))
        elif value is not None and not (
            sys.getrefcount(value) == _ALONE + 1 and is_own(value) and value.flags.c_contiguous
        ):
            values[i] = np.array(value, order="C")
    return values
