"""Plans how a function of a program runs.

A plan is made once: the passes rewrite the function, every operation is bound to the kernel of its declaration, and
each region becomes a list of steps.
"""

from __future__ import annotations

import contextvars
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..ops import threads
from ..ops.close import hint
from ..ops.policy import Policy
from ..ops.random_stream import RandomStream
from ..ops.types import TensorType, Type
from .assemble import Assembler, Listener
from .bind import Binder
from .code import Code
from .errors import InputError, ProgramError, escape
from .passes.cse import eliminate_common_subexpressions
from .passes.dce import eliminate_dead_code
from .passes.fold_constants import fold_constants
from .passes.fuse import fuse
from .passes.inline import called_once, inline
from .printer import one_at_a_time
from .program import Function, Operation, Program, Region
from .settings import Settings, default_settings
from .steps import Steps
from .system import depth, host_floats, memory


@dataclasses.dataclass(frozen=True)
class Plan:
    """A function of a program, ready to run.

    Attributes:
        entry: The function itself: takes a value for each argument and returns a tuple of results.
        regions: The functions as the passes have left them, with their labels, for listings.
        steps: The limit of steps, if there is one.
        nests: Whether it calls functions, or has regions within regions, and so may take many frames of Python.
    """

    function: Function
    policy: Policy
    settings: Settings
    entry: Callable[..., tuple[Any, ...]]
    random: RandomStream
    regions: Sequence[tuple[str, Region]]
    steps: Steps | None
    nests: bool

    @functools.cached_property
    def accepted(self) -> list[tuple[np.dtype, tuple[int | None, ...]] | None]:
        """For each argument the dtype and shape that need no further check; None where others have to be checked."""
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
            close = hint(name, functions, few=0) or f" ({_listed(functions)})"
            raise InputError(f"{_start(program)}: no function @{escape(name)}{escape(close)}")
        return functions[name]
    if "main" in functions:
        return functions["main"]
    public = [f for f in functions.values() if f.is_public] or list(functions.values())
    if len(public) != 1:
        raise InputError(f"{_start(program)}: no function @main; name one ({_listed(functions)})")
    return public[0]


def _listed(functions: Iterable[str]) -> str:
    return "there is " + (", ".join(f"@{escape(f)}" for f in functions) or "no function at all")


def _start(program: Program) -> str:
    """The place of a program's first function, or its file."""
    return str(next((f.location for f in program.functions.values()), program.file))


@host_floats.in_default  # constants are folded
def plan(
    program: Program,
    function: str | None = None,
    policy: Policy | None = None,
    listener: Listener | None = None,
    settings: Settings | None = None,
    most_steps: int | None = None,
) -> Plan:
    """Plan how a function runs: apply the passes and bind all that it can reach.

    Args:
        program: The program.
        function: The name of the function; `@main` or the only public one by default.
        policy: What the implementation may choose; `Policy()` by default.
        listener: Is called after each op, with its operands and its results. Then no pass is applied.
        settings: What may change how the program runs; the settings of the environment by default.
        most_steps: The most ops that run and regions that are entered, after which a run raises LimitError. Then no
            pass is applied.

    Raises:
        ProgramError: An op is not supported or not valid; with its place.
        InputError: There is no such function.
        ResourceError: A tensor cannot be held.
    """
    memory.keep_freed()
    settings = default_settings() if settings is None else settings
    steps = None if most_steps is None else Steps(most_steps)
    entry = find_function(program, function)
    try:
        with depth.deep_calls():
            return _Planner(program, policy or Policy(), settings, listener, steps).plan(entry)
    except RecursionError:
        raise ProgramError(f"{entry.location}: @{escape(entry.name)} has regions nested too deeply") from None


class _Planner:
    """Makes one plan."""

    def __init__(
        self, program: Program, policy: Policy, settings: Settings, listener: Listener | None, steps: Steps | None
    ) -> None:
        self._program, self._policy, self._settings = program, policy, settings
        self._listener, self._steps = None if listener is None else one_at_a_time(listener), steps
        self._is_watched = listener is not None or steps is not None
        self._codes: dict[str, Code] = {}
        self._pending: list[Function] = []
        self._regions: list[tuple[str, Region]] = []
        self._random = RandomStream()
        self._binder = Binder(program, policy, settings, self._random, self._run_of)

    def plan(self, function: Function) -> Plan:
        entry, once = self._function(function.name, function), called_once(self._program)
        while self._pending:  # a work list, so that a long chain of calls does not nest here
            body = self._pending.pop()
            assert body.body is not None
            region = body.body if self._is_watched else inline(self._program, body.body, once)
            self._assemble(region, self._codes[body.name])
        assert function.body is not None
        inner = (o for outer in function.body.operations for r in outer.regions for o in r.operations)
        nests = self._binder.has_calls or any(o.regions for o in inner)
        run = _by_threads(entry.enter, self._settings.threads) if self._settings.threads else entry.enter
        return Plan(function, self._policy, self._settings, run, self._random, self._regions, self._steps, nests)

    def _assemble(self, region: Region, target: Code) -> None:
        """Apply the passes to the region of a function, bind it, and put its steps into `target`."""
        # Stochastic rounding draws bits in the order of the operations: these stay as they are.
        is_rewritten = not self._is_watched and self._policy.rounding != "stochastic"
        if is_rewritten:
            region = fold_constants(region, self._binder.kernel)
            region = eliminate_common_subexpressions(region)
        self._binder.bind(region)
        if is_rewritten:
            region = eliminate_dead_code(region)
            region = fuse(region) if self._settings.tables else region
            self._binder.bind(region)
        self._regions.append((target.label, region))
        assembler = Assembler(self._binder, self._codes, self._expand, self._listener, self._steps)
        assembler.assemble(region, target)

    def _expand(self, function: Function) -> Code:
        """Return the code of the function that an operation expands to."""
        assert function.body is not None
        target = Code(escape(function.name))
        self._assemble(function.body, target)
        return target

    def _run_of(self, name: str, called_by: Operation) -> Callable[..., tuple[Any, ...]]:
        return self._function(name, called_by).enter

    def _function(self, name: str, called_by: Function | Operation) -> Code:
        if name not in self._codes:
            function = self._program.functions.get(name)
            if function is None or function.body is None:
                reason = "there is no such function" if function is None else "it has no body"
                raise ProgramError(f"{called_by.location}: cannot call @{escape(name)}: {reason}")
            self._codes[name] = Code(f"@{escape(name)}")  # its steps come later, as recursion needs
            self._pending.append(function)
        return self._codes[name]


def _by_threads(entry: Callable[..., tuple[Any, ...]], count: int) -> Callable[..., tuple[Any, ...]]:
    """Return a function that lets so many threads share an array."""

    def run(*values: Any) -> tuple[Any, ...]:
        context = contextvars.copy_context()
        context.run(threads.limit.set, count)
        return context.run(entry, *values)

    return run
