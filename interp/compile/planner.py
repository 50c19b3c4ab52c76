"""From a program to a plan: binds every operation once, applies the passes, and writes each function in Python.

The docstring of the package says what each pass does. Passes on loops and scans come before fusion because they read
the body of a loop op by op; `narrow` comes before it because the cost of conversions decides what is fused.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...ops.engine.compiled import is_available
from ...ops.engine.speed import DEFAULT, NONE, VARIABLE, Speed, entered, tuning
from ...ops.policy import Policy
from ...ops.random_stream import RandomStream
from ...ops.types import TensorType, Type
from ..errors import InputError, ProgramError, shown
from ..program import Function, Operation, Program, Region, Value
from ..steps import Steps
from ..system import depth, host_floats
from .bind import Binder
from .chains.find import find_rows
from .decision import Chosen
from .emit import Emitter, Listener, Settings
from .passes.affine import affine_recurrences
from .passes.chosen_writes import chosen_writes
from .passes.find_scans import find_scans
from .passes.floored import floored
from .passes.fold_constants import fold_constants
from .passes.fuse import fuse
from .passes.indices import small_indices
from .passes.inline import called_once, inlined
from .passes.narrow import narrow
from .passes.numbers import single_numbers
from .passes.padding import joined_padding
from .passes.reordered import numbers_before_repeating, reshapes_first
from .passes.share import share
from .passes.slices_last import slices_last
from .passes.turns import batch_turns
from .passes.unroll import unroll
from .passes.unused import without_unused
from .passes.vectors import small_vectors
from .passes.writes_last import writes_last
from .writer import Sources


@dataclasses.dataclass(frozen=True)
class Plan:
    """A function of a program, ready to run. `entry` takes and returns tuples of values."""

    function: Function
    policy: Policy
    speed: Speed
    entry: Callable[..., tuple[Any, ...]]
    random: RandomStream
    sources: Sources
    chosen: Sequence[Chosen]  #: how fused operations run, and why
    steps: Steps | None  #: the limit of steps, if there is one
    nests: bool  #: whether it calls functions, or regions within regions, so that it may take many frames

    @functools.cached_property
    def accepted(self) -> list[tuple[np.dtype, tuple[int | None, ...]] | None]:
        """For each argument the dtype and shape that need no further look, None where there is more to see to."""
        return [
            (t.element.dtype, t.shape)
            if isinstance(t, TensorType) and t.is_static and not (t.element.is_float and t.element.bits < 8)
            else None
            for t in self.argument_types
        ]

    @property
    def argument_types(self) -> tuple[Type, ...]:
        """The types of the arguments."""
        return self.function.argument_types

    @property
    def result_types(self) -> tuple[Type, ...]:
        """The types of the results."""
        return self.function.result_types


def find_function(program: Program, name: str | None = None) -> Function:
    """The function of that name, or `@main`, or the only public one. Raises InputError where there is none."""
    functions = program.functions
    if name is not None:
        name = name.removeprefix("@")
        if name not in functions:
            raise InputError(f"{_start(program)}: no function @{shown(name)} ({_listed(functions)})")
        return functions[name]
    if "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.is_public] or list(functions.values())
    if len(public) != 1:
        raise InputError(f"{_start(program)}: no function @main; name one ({_listed(functions)})")
    return public[0]


def _listed(functions: Iterable[str]) -> str:
    return "there is " + (", ".join(f"@{shown(f)}" for f in functions) or "no function at all")


def _start(program: Program) -> str:
    """The place of a program's first function, or its file."""
    return str(next((f.location for f in program.functions.values()), program.file))


@host_floats.in_default  # constants are folded
def plan(
    program: Program,
    function: str | None = None,
    policy: Policy | None = None,
    listener: Listener | None = None,
    speed: Speed | None = None,
    most_steps: int | None = None,
) -> Plan:
    """Plan how a function runs: bind all that it can reach, apply the passes, and emit Python.

    Args:
        program: The program.
        function: The name of the function; `@main` or the only public one by default.
        policy: What the implementation may choose; `Policy()` by default.
        listener: Is called after each op, with its results. Then nothing is folded or fused.
        speed: The optimizations; those of the environment by default.
        most_steps: The most ops that run and regions that are entered, after which a run raises LimitError. Then
            nothing is folded or fused.

    Raises:
        ProgramError: An op is not supported or not valid; with its place.
        InputError: There is no such function.
        ResourceError: A tensor cannot be held.
    """
    speed = NONE if listener is not None or most_steps is not None else speed or default_speed()
    steps = None if most_steps is None else Steps(most_steps)
    entry = find_function(program, function)
    try:
        with depth.deep_calls(), entered(speed):
            return _Planner(program, policy or Policy(), speed, listener, steps).plan(entry)
    except RecursionError:
        raise ProgramError(f"{entry.location}: @{shown(entry.name)} has regions nested too deeply") from None


def default_speed() -> Speed:
    """All optimizations but those that an environment variable lists; tuned as the caller.

    Raises InputError for an unknown name.
    """
    try:
        speed = DEFAULT.without(os.environ.get(VARIABLE, "")) if os.environ.get(VARIABLE) else DEFAULT
    except ValueError as error:
        raise InputError(f"{VARIABLE}: {error}") from None
    return speed if tuning() is speed.tuning else dataclasses.replace(speed, tuning=tuning())


def speed_without(names: str, what: str) -> Speed:
    """The default without more optimizations. `what` is the option in messages. Raises InputError for unknown names."""
    speed = default_speed()
    try:
        return speed.without(names)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


class _Planner:
    def __init__(
        self, program: Program, policy: Policy, speed: Speed, listener: Listener | None, steps: Steps | None
    ) -> None:
        self._program, self._policy, self._speed, self._steps = program, policy, speed, steps
        self._is_watched = listener is not None or steps is not None
        # Stochastic rounding draws bits in the order of the ops, so these stay as they are.
        self._fuses = (speed.tables or speed.blocks) and policy.rounding != "stochastic"
        self._functions: dict[str, _Deferred] = {}
        self._pending: list[Function] = []
        self._random, self._sources = RandomStream(), {}
        self._binder = Binder(program, policy, speed, self._random, self._sources, self._run_of)
        settings = Settings(policy, speed, self._fuses, listener, steps)
        self._emitter = Emitter(settings, self._binder, self._sources, self._functions, self._compiled)

    def plan(self, function: Function) -> Plan:
        entry, once = self._function(function.name, function), called_once(self._program)
        while self._pending:  # a work list, so that a long chain of calls does not nest here
            body = self._pending.pop()
            assert body.body is not None
            region = body.body
            if self._fuses or self._speed.scalars:
                region = inlined(self._program, region, once=once)
            self._functions[body.name].target = self._compiled(region, f"@{body.name}")
        nests = self._binder.calls or any(o.regions for o in _inner_operations(function))
        return Plan(
            function,
            self._policy,
            self._speed,
            entry.target,
            self._random,
            self._sources,
            self._emitter.chosen,
            self._steps,
            nests,
        )

    def _compiled(self, region: Region, label: str) -> Callable[..., tuple[Any, ...]]:
        """The Python function of a region that captures nothing: all passes in their order, then code."""
        policy, speed, kernel_of = self._policy, self._speed, self._binder.kernels.of
        constants: dict[Value, Any] = {}
        if not self._is_watched:
            region, constants = fold_constants(region, policy, self._binder.kernel)
        if self._fuses and speed.blocks:
            region = share(region, constants)
            region = floored(region, constants)
            region = small_indices(region, constants)
        self._binder.bind(region, constants)
        if self._fuses and speed.blocks:
            region = self._bound(region, joined_padding(region, constants), constants)
            if speed.scalars:
                region = self._bound(region, numbers_before_repeating(region, constants), constants)
            if policy.rounding != "stochastic" and not (speed.compiled and is_available()):
                region = self._bound(region, slices_last(region, constants), constants)
            region = self._bound(region, reshapes_first(region, constants), constants)
            region = self._bound(region, chosen_writes(region, constants), constants)
            region = self._bound(region, writes_last(region), constants)
            region = without_unused(region, constants)
        if self._fuses and speed.turns:
            unrolled = self._bound(region, unroll(region, constants, policy, kernel_of), constants)
            if unrolled is not region:
                region, constants = fold_constants(unrolled, policy, self._binder.kernel, constants)
            batched = self._bound(region, batch_turns(region, constants, policy, kernel_of), constants)
            # What is carried and not used after a loop would keep its memory until then.
            region = batched if batched is region else without_unused(batched, constants)
            compiles = speed.scalars and speed.compiled and is_available()
            if speed.compiled and is_available():
                region = small_vectors(region, constants, policy, kernel_of)
            if speed.scalars:
                numbers = single_numbers(region, constants, policy, kernel_of, compiles)
                region = self._bound(region, numbers, constants)
            region = affine_recurrences(region, constants, policy)
        if self._fuses and speed.tables:
            if speed.scalars:
                region = find_scans(region, constants)
            region = narrow(region, constants)
        if self._fuses:
            region = fuse(region, constants, speed, policy)
            if speed.blocks and speed.compiled and is_available():
                region = find_rows(region, constants, speed, policy)
        return self._emitter.function(region, (), label, constants)

    def _bound(self, old: Region, new: Region, constants: dict[Value, Any]) -> Region:
        """What a pass has made of a region, with its new operations bound."""
        if new is not old:
            self._binder.bind_new(new, constants)
        return new

    def _run_of(self, name: str, called_by: Operation) -> Callable[..., tuple[Any, ...]]:
        return self._function(name, called_by).run

    def _function(self, name: str, called_by: Function | Operation) -> _Deferred:
        if name not in self._functions:
            function = self._program.functions.get(name)
            if function is None or function.body is None:
                what = "there is no such function" if function is None else "it has no body"
                raise ProgramError(f"{called_by.location}: cannot call @{shown(name)}: {what}")
            self._functions[name] = _Deferred()
            self._pending.append(function)
        return self._functions[name]


class _Deferred:
    """A function that can be called by others before it is compiled itself, as recursion needs."""

    target: Callable[..., tuple[Any, ...]]

    def __init__(self) -> None:
        # Not a method __call__, which Python calls by way of C: a long chain of calls would take the C stack.
        def run(*values: Any) -> tuple[Any, ...]:
            return self.target(*values)

        self.run = run


def _inner_operations(function: Function) -> Iterator[Operation]:
    """The ops in the regions of a function's ops."""
    assert function.body is not None
    return (inner for o in function.body.operations for region in o.regions for inner in region.operations)
