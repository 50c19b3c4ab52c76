"""Makes the steps of a function's region once its operations are bound: slots, dying values, memory counted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..ops.op import call_attribute, lookup, traits_of
from ..ops.programs.control import is_known_composite
from ..ops.traits import RegionSemantics, Run
from ..ops.types import TensorType, Type
from . import code
from .bind import Binder
from .code import Code, Frame, Step
from .dynamic import are_static
from .errors import ResourceError
from .passes.fuse import TABLE
from .passes.rewriting import captures, used_values
from .program import CONSTANT, Function, Operation, Region, Value
from .steps import Steps
from .system import memory

#: Is called after each op with its operands and its results.
Listener = Callable[[Operation, tuple[Any, ...], tuple[Any, ...]], None]

#: The bytes from which a value is dropped as soon as nothing needs it.
#: tuning: a loop of 5,000 iterations of four scalar operations takes 31 ms so, 35 ms if all values are dropped.
LARGE = 1 << 12


class Assembler:
    """Makes the steps of one function from its bound region."""

    def __init__(
        self,
        binder: Binder,
        codes: Mapping[str, Code],
        expand: Callable[[Function], Code],
        listener: Listener | None,
        steps: Steps | None,
    ) -> None:
        """`codes` are those of the program's functions; `expand` gives that of one an operation expands to."""
        self._binder, self._codes, self._expand, self._listener, self._steps = binder, codes, expand, listener, steps
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
                bound = self._binder.find(operation)
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
        bound = self._binder.find(operation)
        if isinstance(bound, Function):
            yield code.call_function(self._expand(bound), operands, results)
            return
        traits = traits_of(operation.name)
        if traits.is_call and not is_known_composite(operation.attributes):
            name = operation.attributes[call_attribute(operation.name) or ""]
            yield code.call_function(self._codes[str(name)], operands, results)
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
