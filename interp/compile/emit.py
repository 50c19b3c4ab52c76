"""Writes the Python functions of regions that have gone through the passes.

The generated functions are assignments of kernel calls, so they cost little more than the kernels, and the line of a
traceback identifies the op. Values are deleted after their last use. All names in generated code are made here: it
contains no text of the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from ...ops.engine import compiled
from ...ops.engine.owned import own
from ...ops.engine.speed import Speed
from ...ops.op import traits_of
from ...ops.policy import Policy
from ...ops.programs.control import is_known_composite
from ...ops.require import identity
from ...ops.traits import Kernel, RegionSemantics, Run
from ...ops.types import TensorType
from ..program import PRINT, Function, Operation, Region, Value
from ..steps import Steps
from . import flow, indexing, packing, scalars
from .bind import Binder, Bound
from .choose import choose
from .compiled_loops.loops import turns_of
from .decision import Chosen, Decision
from .elements import Elements, elements_in, write_read, write_update, write_write
from .executors.alone import filling
from .executors.composition import Composition
from .executors.job import Job
from .executors.recurrence import RecurrenceRunner, states_of
from .executors.ways import EXECUTORS
from .group import GROUP, LOOPS, NUMBER, PACK, RANK, RECURRENCE, ROWS, SCAN, SPREAD, TURNS, UNPACK, UNRANK
from .processes import one_at_a_time, printer
from .source import lines
from .uses import captures, uses_of
from .writer import Call, Sources, Writer

Listener = Callable[[Operation, tuple[Any, ...]], None]
#: The operations that passes put in.
_OWN = (GROUP, RANK, UNRANK, SPREAD, SCAN, TURNS, RECURRENCE, LOOPS, UNPACK, PACK, NUMBER, ROWS)


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of generated code: whether operations are fused, and the listeners to operations that have run."""

    policy: Policy
    speed: Speed
    fuses: bool
    listener: Listener | None
    steps: Steps | None


#: Gives what a region becomes by itself: of an op's expansion.
Compiled = Callable[[Region, str], Callable[..., tuple[Any, ...]]]


class Emitter:
    """Writes the functions of one plan."""

    def __init__(
        self,
        settings: Settings,
        binder: Binder,
        sources: Sources,
        functions: Mapping[str, Any],
        compiled: Compiled,
    ) -> None:
        self._settings, self._binder, self._sources = settings, binder, sources
        self._functions, self._compiled = functions, compiled
        self.chosen: list[Chosen] = []
        self._spare: dict[Operation, frozenset[int]] = {}
        self._changed: set[Value] = set()  #: what is written over after others have used it

    def function(
        self, region: Region, captures: tuple[Value, ...], label: str, constants: Mapping[Value, Any]
    ) -> Callable[..., tuple[Any, ...]]:
        """The Python function of a region; its captured values are its first parameters."""
        writer = Writer(constants)
        parameters = [writer.define(v) for v in (*captures, *region.arguments)]
        if self._settings.fuses:
            self._note_spare(region, constants, region.arguments)
        self._region(region, writer)
        return writer.function(parameters, [writer.use(v) for v in region.returns], label, self._sources)

    def _region(self, region: Region, writer: Writer) -> None:
        """The ops of a region, in a function whose writer knows the region's arguments and what it captures."""
        steps = self._settings.steps
        if steps is not None:
            writer.line(f"{writer.name_of(steps.take)}()", None)
        indexed = elements_in(region) if self._settings.speed.scalars and writer.depth else Elements()
        for operation in region.operations:
            if operation in indexed.left_out:
                continue
            if operation in indexed.reads:
                write_read(operation, indexed.reads[operation], writer)
            elif operation in indexed.writes:
                is_spare = 0 in self._spare.get(operation, ())
                write_write(operation, indexed.writes[operation], writer, is_spare, lambda r: self._region(r, writer))
            elif operation in indexed.updates:
                write_update(operation, indexed.updates[operation], writer, 0 in self._spare.get(operation, ()))
            elif operation.name in _OWN:
                self._own(operation, writer)
            elif not (operation.results and not operation.regions and operation.results[0] in writer.constants):
                self._operation(operation, writer)

    def _turns(self, operation: Operation, kernel: Run, writer: Writer) -> None:
        """Write a recurrence, whose turns are a function of their own."""
        source, turn = operation.origin or operation, operation.regions[0]
        captured = tuple([v for v in captures(turn) if v not in writer.constants])
        inner = Writer(writer.constants)
        parameters = [inner.define(v) for v in captured]
        if self._settings.fuses:
            self._note_spare(turn, inner.constants, turn.arguments)
        runs, width, code = None, states_of(operation), None
        if self._settings.speed.compiled and compiled.is_available():
            runs = kernel.compiled if isinstance(kernel, RecurrenceRunner | Composition) else None
            code = runs or (turns_of(turn, width) if writer.depth else None)
        body = flow.Turns(turn, width, lambda r: self._region(r, inner), code, runs is not None)
        lists, returns = flow.write_turns(body, inner)
        entry = [inner.use_plain(v) if inner.is_plain(v) else inner.use(v) for v in captured]
        label = "turns"
        regions = [(inner.function([*parameters, *lists], returns, label, self._sources), captured)]
        regions += self._functions_of(operation.regions[1:], "chunks", writer)
        count, is_whole = operation.attributes["count"], operation.attributes.get("numbers") is None

        def within(call: Call) -> lines.Compiled | None:
            return None if code is None or not writer.depth or not is_whole else code.within(count, call, entry, writer)

        operands, results = operation.operands, operation.results
        writer.call(kernel, source, operands, results, regions=regions, always_tuple=True, compiled=within)

    def _note_spare(self, region: Region, constants: Mapping[Value, Any], ending: Collection[Value]) -> set[Value]:
        """Find the operands that ops may write over, and give those values: what nothing needs afterwards.

        That is what is made in the region or `ending` with it. With a branch ends what is last used there.
        """
        inner = [
            o for o in region.operations if traits_of(o.name).regions in (RegionSemantics.LOOP, RegionSemantics.ONE)
        ]
        changing = [
            o
            for o in region.operations
            if o.name not in _OWN
            and isinstance(b := self._binder.find(o), Bound)
            and b.record.traits.overwrites is not None
        ]
        found = set[Value]()
        if not changing and not inner:
            return found
        uses, ends = uses_of(region), {*ending, *(r for o in region.operations for r in o.results)}
        for operation in changing:
            places = [
                i
                for i, v in enumerate(operation.operands)
                if v in ends
                and v not in constants
                and uses[v][-1] is operation
                and operation.operands.count(v) == 1
                and uses[v].count(operation) == 1
            ]
            self._spare[operation] = frozenset(places)
            found.update(operation.operands[i] for i in places)
        for operation in inner:
            if traits_of(operation.name).regions is RegionSemantics.LOOP:
                condition, turn = operation.regions
                self._note_spare(condition, constants, ())  # its arguments are those of the turn
                self._note_spare(turn, constants, turn.arguments)
                continue
            taken = {v for r in operation.regions for v in captures(r)}.difference(constants, operation.operands)
            last = {v for v in taken if v in ends and uses[v][-1] is operation}
            for branch in operation.regions:
                found |= self._note_spare(branch, constants, last)
        self._changed.update(v for v in found if len(uses.get(v, ())) > 1)
        return found

    # -- one operation -------------------------------------------------------------------------------------------------

    def _own(self, operation: Operation, writer: Writer) -> None:
        """Write an operation that a pass has introduced."""
        source = operation.origin or operation
        decision = choose(operation, self._settings.speed)
        if operation.name in (UNPACK, PACK, NUMBER):
            return packing.write(operation, writer, decision)
        if operation.name == TURNS:
            return writer.remark(str(decision), source)
        kernel = self._kernel(operation, decision)
        if operation.name == RECURRENCE:
            writer.remark(str(decision), source)
            return self._turns(operation, kernel, writer)
        if operation.name in (LOOPS, ROWS):
            writer.remark(str(decision), source)
            label = "loops" if operation.name == LOOPS else "row program"
            regions = self._functions_of(operation.regions, label, writer)
            return writer.call(
                kernel, source, operation.operands, operation.results, regions=regions, always_tuple=True
            )
        if operation.name == SCAN:
            return flow.write_scan(operation, writer, kernel)
        return writer.call(kernel, source, operation.operands, operation.results)

    def _functions_of(
        self, regions: Sequence[Region], label: str, writer: Writer
    ) -> list[tuple[Callable[..., tuple[Any, ...]], tuple[Value, ...]]]:
        """The functions of regions, and the values that each takes first."""
        functions = []
        for region in regions:
            captured = tuple([v for v in captures(region) if v not in writer.constants])
            functions.append((self.function(region, captured, label, writer.constants), captured))
        return functions

    def _kernel(self, operation: Operation, decision: Decision) -> Run:
        """The kernel of an operation by a decision."""
        ways = [EXECUTORS[d.executor] for d in decision.chain()]
        kernels, policy = self._binder.kernels, self._settings.policy
        writes_over, label = all(way.writes_over for way in ways), next((w.label for w in ways if w.label), "")
        job = Job(operation, decision, kernels, policy, self._sources, label, writes_over)
        run: Run | None = None
        for way in reversed(ways):
            run = way.kernel(job, run)
        assert run is not None
        self.chosen += job.chosen()
        return run

    def _operation(self, operation: Operation, writer: Writer) -> None:
        source = operation.origin or operation
        if operation.name == PRINT:
            return writer.call(printer(operation), source, operation.operands, ())
        bound = self._binder.find(operation)
        if isinstance(bound, Function):
            assert bound.body is not None
            run = self._compiled(bound.body, bound.name)
            writer.call(run, source, operation.operands, operation.results, always_tuple=True)
            return self._after(operation, writer)
        settings, kernel = self._settings, self._kernel_of(operation, bound)
        spare = self._spare.get(operation, frozenset())
        if settings.speed.scalars:
            if self._plain(operation, kernel, writer):
                return None
            if writer.depth and kernel.call is identity and settings.fuses:
                return flow.assign(operation, writer)
            if flow.is_inline(operation, writer):
                return flow.write(operation, writer, lambda r: self._region(r, writer), settings.speed.compiled)
            if indexing.write(operation, writer, 0 in spare, not self._changed.isdisjoint(operation.operands[:1])):
                return None
        if bound is not None and bound.record.traits.is_call and not is_known_composite(operation.attributes):
            (callee,) = bound.call.functions
            writer.call_function(self._functions[callee], operation)
            return self._after(operation, writer)
        regions = self._functions_of(operation.regions, operation.name, writer)
        takes_plain, over = bound is not None and bound.record.traits.takes_numbers, ""
        if bound is not None and bound.record.traits.overwrites in spare:
            kernel, over = self._writing_over(bound, operation, writer)
        call, results = filling(kernel, operation), operation.results
        writer.call(call, source, operation.operands, results, regions=regions, takes_plain=takes_plain, over=over)
        if bound is not None and bound.record.traits.moves:
            writer.drop_views(operation)
        return self._after(operation, writer)

    def _writing_over(self, bound: Bound, operation: Operation, writer: Writer) -> tuple[Kernel, str]:
        """The kernel that writes over an operand that nothing needs afterwards, and the name of that.

        It is copied if it has other names.
        """
        place = bound.record.traits.overwrites
        assert place is not None
        name = writer.use(operation.operands[place])
        writer.line(f"{name} = {writer.name_of(own)}({name})", operation.origin or operation, (name,), (name,))
        return bound.with_spare(frozenset({place})).kernel, name

    def _kernel_of(self, operation: Operation, bound: Bound | None) -> Kernel:
        if bound is None or "clipped" in operation.attributes:
            return self._binder.kernels.of_operation(operation)
        return bound.kernel

    def _plain(self, operation: Operation, kernel: Kernel, writer: Writer) -> bool:
        """Write an op on single numbers as an expression, if some of them are there as plain numbers."""
        if len(operation.results) != 1 or not any(writer.is_plain(v) for v in operation.operands):
            return False
        types = [v.type for v in (*operation.operands, *operation.results)]
        if not all(isinstance(t, TensorType) and scalars.form(t) for t in types):
            return False
        elements = [t.element for t in types if isinstance(t, TensorType)]
        names = [writer.use_plain(v) for v in operation.operands]
        policy = self._settings.policy
        use = scalars.Use(elements[:-1], elements[-1], names, operation.attributes, policy, kernel, writer.name_of)
        expression = scalars.expression(operation.name, use)
        if expression is not None:
            writer.plain(expression, operation, names)
        return expression is not None

    def _after(self, operation: Operation, writer: Writer) -> None:
        """The code after an op where steps are counted or there are listeners."""
        source = operation.origin or operation
        if self._settings.steps is not None:
            writer.call(self._settings.steps.take, source, (), ())
        if self._settings.listener is not None:
            listener = one_at_a_time(self._settings.listener)
            writer.call(lambda *values: listener(source, values), source, operation.results, ())
