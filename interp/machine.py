"""Plans how a function of a program runs, and runs it.

A plan is made once: the passes rewrite the function, every operation is bound to the kernel of its declaration, and
each region becomes a list of steps (`code.py`). An error of a step names the place of its operation.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ..ops import threads
from ..ops.close import hint
from ..ops.op import CheckError, call_attribute, lookup, traits_of
from ..ops.policy import Policy
from ..ops.processes import parallel
from ..ops.processes.exchange import DeadlockError
from ..ops.processes.interpreter import with_streams
from ..ops.processes.parallel import here
from ..ops.programs.control import is_known_composite
from ..ops.random_stream import RandomStream
from ..ops.traits import RegionSemantics, Run
from ..ops.types import TensorType, Type
from . import code
from .bind import Binder
from .code import Code, Frame, Step
from .dynamic import are_static
from .errors import CheckFailure, Error, ExecutionError, InputError, LimitError, ProgramError, ResourceError, escape
from .passes.cse import eliminate_common_subexpressions
from .passes.dce import eliminate_dead_code
from .passes.fold_constants import fold_constants
from .passes.fuse import TABLE, fuse
from .passes.inline import called_once, inline
from .passes.rewriting import captures, used_values
from .printer import one_at_a_time
from .program import CONSTANT, Function, Operation, Program, Region, Value
from .settings import Settings, default_settings
from .steps import Steps, StepsError
from .system import depth, host_floats, memory

#: Is called after each op with its operands and its results.
Listener = Callable[[Operation, tuple[Any, ...], tuple[Any, ...]], None]

#: The bytes from which a value is dropped as soon as nothing needs it.
#: tuning: a loop of 5,000 iterations of four scalar operations takes 31 ms so, 35 ms if all values are dropped.
LARGE = 1 << 12


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
        self.listener, self.steps = None if listener is None else one_at_a_time(listener), steps
        self._is_watched = listener is not None or steps is not None
        self.codes: dict[str, Code] = {}
        self._pending: list[Function] = []
        self._regions: list[tuple[str, Region]] = []
        self._random = RandomStream()
        self.binder = Binder(program, policy, settings, self._random, self._run_of)

    def plan(self, function: Function) -> Plan:
        entry, once = self._function(function.name, function), called_once(self._program)
        while self._pending:  # a work list, so that a long chain of calls does not nest here
            body = self._pending.pop()
            assert body.body is not None
            region = body.body if self._is_watched else inline(self._program, body.body, once)
            self._assemble(region, self.codes[body.name])
        assert function.body is not None
        inner = (o for outer in function.body.operations for r in outer.regions for o in r.operations)
        nests = self.binder.has_calls or any(o.regions for o in inner)
        run = _by_threads(entry.enter, self._settings.threads) if self._settings.threads else entry.enter
        return Plan(function, self._policy, self._settings, run, self._random, self._regions, self.steps, nests)

    def _assemble(self, region: Region, target: Code) -> None:
        """Apply the passes to the region of a function, bind it, and put its steps into `target`."""
        # Stochastic rounding draws bits in the order of the operations: these stay as they are.
        is_rewritten = not self._is_watched and self._policy.rounding != "stochastic"
        if is_rewritten:
            region = fold_constants(region, self.binder.kernel)
            region = eliminate_common_subexpressions(region)
        self.binder.bind(region)
        if is_rewritten:
            region = eliminate_dead_code(region)
            region = fuse(region) if self._settings.tables else region
            self.binder.bind(region)
        self._regions.append((target.label, region))
        _Assembler(self).assemble(region, target)

    def expand(self, function: Function) -> Code:
        """Return the code of the function that an operation expands to."""
        assert function.body is not None
        target = Code(escape(function.name))
        self._assemble(function.body, target)
        return target

    def _run_of(self, name: str, called_by: Operation) -> Callable[..., tuple[Any, ...]]:
        return self._function(name, called_by).enter

    def _function(self, name: str, called_by: Function | Operation) -> Code:
        if name not in self.codes:
            function = self._program.functions.get(name)
            if function is None or function.body is None:
                reason = "there is no such function" if function is None else "it has no body"
                raise ProgramError(f"{called_by.location}: cannot call @{escape(name)}: {reason}")
            self.codes[name] = Code(f"@{escape(name)}")  # its steps come later, as recursion needs
            self._pending.append(function)
        return self.codes[name]


def _by_threads(entry: Callable[..., tuple[Any, ...]], count: int) -> Callable[..., tuple[Any, ...]]:
    """Return a function that lets so many threads share an array."""

    def run(*values: Any) -> tuple[Any, ...]:
        token = threads.limit.set(count)
        try:
            return entry(*values)
        finally:
            threads.limit.reset(token)

    return run


class _Assembler:
    """Makes the steps of one function from its bound region."""

    def __init__(self, planner: _Planner) -> None:
        self._planner, self._listener, self._steps = planner, planner.listener, planner.steps
        self._slots: dict[Value, int] = {}
        self._template: Frame = []
        self._constants: set[Value] = set()

    def assemble(self, region: Region, target: Code) -> None:
        """Put the steps of a function's region into `target`."""
        self._region(region, target, region.arguments)
        target.template = self._template

    def _region(self, region: Region, target: Code, ending: Collection[Value]) -> Code:
        """Put the steps of a region into `target`. `ending` are values that nothing needs after it."""
        target.arguments = self._slots_of(region.arguments)
        if self._steps is not None:
            target.steps.append(_ignoring_frame(self._steps.take))
        last_uses = _last_uses(region)
        ends = {*ending, *(r for o in region.operations for r in o.results)}
        for operation in region.operations:
            if operation.name == CONSTANT and self._steps is None and self._listener is None:
                (result,) = operation.results
                self._constants.add(result)
                bound = self._planner.binder.find(operation)
                assert not isinstance(bound, Function)
                # That of a quantized type is written in another type of as many bits.
                self._template[self._slot(result)] = np.asarray(bound.run())
                continue
            used = used_values(operation)
            dying = [v for v in used if last_uses[v] is operation and v in ends and v not in self._constants]
            source = operation.origin or operation
            steps = [code.step_of(step, source) for step in self._operation(operation, dying)]
            target.steps += self._counting(operation, source, steps)
            target.steps += [code.step_of(step, source) for step in self._watching(source, operation)]
            unused = [r for r in operation.results if r not in last_uses]
            large = [self._slot(v) for v in (*dying, *unused) if _is_large(v.type)]
            if large:
                target.steps.append(code.drop(large))
        target.returns = self._slots_of(region.returns)
        return target

    def _counting(self, operation: Operation, source: Operation, steps: list[Step]) -> Iterator[Step]:
        """Yield the steps of an operation. Where results are large, their memory is counted and may not suffice."""
        results = [r for r in operation.results if not are_static([r.type]) or _nbytes(r.type) >= memory.COUNTED]
        traits = traits_of(operation.name)
        if not results or traits.is_call or traits.regions in (RegionSemantics.LOOP, RegionSemantics.ONE):
            yield from steps  # whose regions count their values
            return
        # Results that may be views, or replace an operand, are counted when they exist.
        needed = sum(_nbytes(r.type) for r in results) if _allocates(operation) else 0
        slots = self._slots_of(results)

        def reserve(nbytes: int, counted: int = 0) -> None:
            try:
                memory.reserve(nbytes, [r.type for r in results], counted)
            except ResourceError as error:
                raise ResourceError(f"{source.location}: {source.name}: {error}") from None

        if needed:
            yield _ignoring_frame(lambda: reserve(needed))
        yield from steps

        def count(frame: Frame) -> None:
            counted = sum(memory.count(frame[i]) for i in slots if isinstance(frame[i], np.ndarray))
            if counted and not needed:
                reserve(counted, counted)

        yield count

    def _operation(self, operation: Operation, dying: Sequence[Value]) -> Iterator[Step]:
        """Yield the steps of an operation."""
        operands, results = self._slots_of(operation.operands), self._slots_of(operation.results)
        bound = self._planner.binder.find(operation)
        if isinstance(bound, Function):
            yield code.call_function(self._planner.expand(bound), operands, results)
            return
        traits = traits_of(operation.name)
        if traits.is_call and not is_known_composite(operation.attributes):
            name = operation.attributes[call_attribute(operation.name) or ""]
            yield code.call_function(self._planner.codes[str(name)], operands, results)
        elif traits.regions is RegionSemantics.LOOP:
            yield from self._loop(operation, dying)
        elif traits.regions is RegionSemantics.ONE:
            ending = [v for v in dying if v not in operation.operands]
            branches = [(self._nested(r, operation, ending), self._large_results(r)) for r in operation.regions]
            yield code.branch(branches, bound.run, operands[0], results)
            if not all(are_static(v.type for v in r.returns) for r in operation.regions):
                yield code.check_types("the result", results, [r.type for r in operation.results])
        else:
            is_table = operation.name == TABLE  # a kernel by itself
            regions = [] if is_table else [self._nested(r, operation, ()) for r in operation.regions]
            place = traits.overwrites
            value = None if place is None else operation.operands[place]
            is_last = value in dying and operation.operands.count(value) == 1 and self._listener is None
            if place is not None and bound.in_place and is_last:
                yield code.overwrite(bound.run, bound.in_place, place, regions, operands, results)
            elif regions:
                has_threads = traits.regions is RegionSemantics.ALL
                yield code.call_with_regions(bound.run, regions, operands, results, has_threads)
            else:
                yield code.call_kernel(_without_view(operation, bound.run), operands, results)

    def _loop(self, operation: Operation, dying: Sequence[Value]) -> Iterator[Step]:
        """Yield the steps of a loop, whose state is in the slots of its results."""
        condition, body = operation.regions
        state = self._slots_of(operation.results)
        for region in (condition, body):
            self._slots.update(zip(region.arguments, state, strict=True))
        types = [[v.type for v in values] for values in (operation.operands, operation.results)]
        is_checked = any([v.type for v in r.arguments] != types[0] for r in operation.regions) or not (
            types[0] == types[1] and [v.type for v in body.returns] in types
        )
        codes = []
        for region, ending in ((condition, ()), (body, body.arguments)):
            nested = Code(operation.name)
            if is_checked:
                check = code.check_types("an argument of the region", state, [v.type for v in region.arguments])
                nested.steps.append(code.step_of(check, operation.origin or operation))
            codes.append(self._region(region, nested, ending))
        captured = {v for region in operation.regions for v in captures(region)}
        ended = [self._slot(v) for v in dying if v in operation.operands and v not in captured]
        operands = self._slots_of(operation.operands)
        yield code.loop(codes[0], codes[1], operands, state, self._large_results(body), ended)
        if is_checked:
            yield code.check_types("the result", state, types[1])

    def _large_results(self, region: Region) -> list[int]:
        """Return the slots of large values that a region computes and returns."""
        own = {r for o in region.operations for r in o.results}
        return [self._slot(v) for v in dict.fromkeys(region.returns) if v in own and _is_large(v.type)]

    def _nested(self, region: Region, operation: Operation, ending: Collection[Value]) -> Code:
        return self._region(region, Code(operation.name), ending)

    def _watching(self, source: Operation, operation: Operation) -> Iterator[Step]:
        """Yield the steps after an operation where steps are counted or there is a listener."""
        if self._steps is not None:
            yield _ignoring_frame(self._steps.take)
        if self._listener is not None:
            listener = self._listener
            operands, results = self._slots_of(operation.operands), self._slots_of(operation.results)

            def call_listener(frame: Frame) -> None:
                listener(source, tuple([frame[i] for i in operands]), tuple([frame[i] for i in results]))

            yield call_listener

    def _slot(self, value: Value) -> int:
        if value not in self._slots:
            self._slots[value] = len(self._template)
            self._template.append(None)
        return self._slots[value]

    def _slots_of(self, values: Iterable[Value]) -> list[int]:
        return [self._slot(v) for v in values]


def _without_view(operation: Operation, run: Run) -> Run:
    """Return a kernel whose result is no view of an operand, where a small result would keep a large array in memory.

    Such a view would also keep a loop from changing the array in place.
    """
    record = lookup(operation.name)
    is_moving = record is not None and record.is_pure and not record.is_elementwise and len(operation.results) == 1
    if not is_moving or _is_large(operation.results[0].type):
        return run
    if not any(_is_large(v.type) for v in operation.operands):
        return run
    return lambda *values: run(*values).copy()


def _allocates(operation: Operation) -> bool:
    """Whether an operation surely makes a new array for each result; others may return views of their operands."""
    record, traits = lookup(operation.name), traits_of(operation.name)
    is_new = record is not None and record.is_elementwise and not traits.keeps_bits and not traits.selects_operand
    return is_new or operation.name == TABLE or traits.terms is not None or traits.folds


def _nbytes(t: Type) -> int:
    """Return the bytes of a static tensor; 0 for other values."""
    return t.nbytes if isinstance(t, TensorType) and t.is_static else 0


def _ignoring_frame(action: Callable[[], None]) -> Step:
    return lambda _: action()


def _last_uses(region: Region) -> dict[Value, Operation | None]:
    """Return the last operation that uses each value; None for values that the region returns."""
    uses: dict[Value, Operation | None] = {}
    for operation in region.operations:
        uses.update(dict.fromkeys(used_values(operation), operation))
    uses.update(dict.fromkeys(region.returns))
    return uses


def _is_large(t: Type) -> bool:
    return not isinstance(t, TensorType) or not t.is_static or t.nbytes >= LARGE


def run(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> list[Any]:
    """Run a plan.

    Args:
        plan: The plan.
        values: A value for each argument, of its type: an array, a tuple, or None for a token.
        process: The process that runs it; by default a new one. Stopping its grid ends the run.

    Returns:
        A value for each result.

    Raises:
        CheckFailure: A check of the program does not hold.
        ResourceError: The memory does not suffice.
        ExecutionError: An op fails in another way. Each of these has the place of the op.
    """
    for value in values:
        if isinstance(value, np.ndarray):
            memory.count(value)
    with np.errstate(all="ignore"):
        return run_without_warnings(plan, values, process)


def run_without_warnings(plan: Plan, values: Sequence[Any], process: parallel.Process | None = None) -> list[Any]:
    """Run a plan where numpy does not warn, as `run` does: `np.errstate` takes longer than a small program."""
    results = _run(plan, lambda: code.detach(list(plan.entry(*values))), process)
    for value in results:
        if isinstance(value, np.ndarray):
            memory.count(value)
    return results


def run_grid(
    plan: Plan,
    replicas: int,
    partitions: int,
    inputs: Sequence[Sequence[Any]],
    process: parallel.Process | None = None,
) -> list[list[Any]]:
    """The results of each process of a grid, all of which run `plan` at the same time, each on values of its own.

    Both lists are in the order (0, 0), (0, 1), … of (replica, partition). Raises what `run` does; the message names the
    process. `process` is the one that waits for them; stopping its grid stops them.
    """
    tasks = [functools.partial(plan.entry, *values) for values in inputs]

    def action() -> list[list[Any]]:
        gathered = parallel.Grid(replicas, partitions).run(with_streams(tasks, plan.random))
        results = [list(values) for values in gathered]
        del gathered  # so that each result has one reference
        return [code.detach(values) for values in results]

    with np.errstate(all="ignore"):
        return _run(plan, action, process)


def _run(plan: Plan, action: Callable[[], Any], process: parallel.Process | None = None) -> Any:
    """What `action` gives, with the errors of ops made ours. It starts as a process by itself."""
    if not host_floats.are_default():  # the caller, or a library of theirs, has it otherwise
        with host_floats.default():
            return _run(plan, action, process)
    plan.random.restart(plan.policy.seed)
    if plan.steps is not None:
        plan.steps.restart()
    before = here.process
    if before is not process:
        here.process = process
    try:
        if plan.nests:
            with depth.deep_calls():
                return action()
        return action()
    except Exception as error:
        ours = as_ours(error)
        if ours is error:
            raise
        raise ours from error
    finally:
        if before is not process:
            here.process = before


def as_ours(error: Exception) -> Exception:
    """The exception to raise in the place of one that an op of a plan raised, with the place of the op."""
    if isinstance(error, Error):
        return error
    if isinstance(error, RecursionError):
        return ExecutionError(_too_deep(error))
    for theirs, ours in _OURS.items():
        if isinstance(error, theirs):
            return ours(_message_with_place(error) + " (out of memory)" * isinstance(error, MemoryError))
    return error


#: The exceptions of ops and numpy, and ours for each; the first that fits counts.
_OURS: dict[type[Exception], type[Error]] = {
    CheckError: CheckFailure, StepsError: LimitError, MemoryError: ResourceError,
    **dict.fromkeys((ArithmeticError, LookupError, TypeError, ValueError, AssertionError), ExecutionError),
}  # fmt: skip


def _too_deep(error: RecursionError) -> str:
    """Which function is entered most often when calls nest too deeply, and where its next call stands."""
    counts: collections.Counter[Code] = collections.Counter()
    calls: dict[Code, Operation] = {}
    for running, operation in _running_steps(error):
        counts[running] += 1
        calls[running] = operation
    if not counts:
        return "the program nests too deeply"
    function, count = counts.most_common(1)[0]
    place = f"{calls[function].location}: {calls[function].name}"
    if count > 1:
        return f"{place}: {function.label} calls itself too deeply, {count} times so far (a recursion without an end?)"
    return f"{place}: {sum(counts.values())} calls are nested here (expected fewer)"


def failed_operation(error: BaseException) -> Operation | None:
    """Return the innermost op whose kernel raised `error`."""
    operations = [operation for _, operation in _running_steps(error)]
    return operations[-1] if operations else None


def _running_steps(error: BaseException) -> Iterator[tuple[Code, Operation]]:
    """Yield the regions that were running when `error` was raised, and the op of each, from the outside in."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_code is Code.run.__code__:
            operation = code.operation_of(frame.f_locals.get("step"))
            if operation is not None:
                yield frame.f_locals["self"], operation


def _message_with_place(error: BaseException) -> str:
    operation = failed_operation(error)
    text = " ".join(_message(error).split()) or type(error).__name__
    text += "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return f"{operation.location}: {operation.name}: {text}" if operation else text


def _message(error: BaseException) -> str:
    if not isinstance(error, DeadlockError):
        return str(error)

    def place(part: BaseException) -> str:
        operation = failed_operation(part)
        return f" at {operation.location}" if operation else ""

    return error.message(place)
