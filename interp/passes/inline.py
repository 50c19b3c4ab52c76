"""The pass that inlines functions, so that their operations can be fused with those around the call.

JAX makes a function of every `jax.nn.silu` and of the body of each loop. A function is inlined if it has no effects,
does not call itself, and is not long or is called in one place only. The operations of the caller stay the same
objects.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Container, Iterator

from ...ops.op import call_attribute
from ...ops.programs.control import is_known_composite
from ..program import BARRIER, Function, Operation, Program, Region, Value, all_operations
from .rewriting import Values, copy_operation, copy_value, size_of, with_regions

#: The operations of the longest function that is inlined, and of all inlined functions together. They decide which
#: kind of body a reduction has, and so in which order it is applied: no tuning.
LONGEST, TOTAL = 250, 2000


def inline(program: Program, region: Region, once: Container[str] = ()) -> Region:
    """Return a region of the program with calls replaced by the called functions; the region itself if it has none.

    `once` lists the functions that are called in one place only, where they make nothing longer: one of them may have
    as many operations as all together.
    """
    return _Inliner(program, once).region(region, ())


def called_once(program: Program) -> frozenset[str]:
    """Return the functions of a program that are called in one place only."""
    calls = collections.Counter(
        str(operation.attributes.get(attribute))
        for function in program.functions.values()
        if function.body is not None
        for operation in all_operations(function.body)
        if (attribute := call_attribute(operation.name)) is not None
    )
    return frozenset(name for name, count in calls.items() if count == 1)


@dataclasses.dataclass
class _Frame:
    """A function that is being inlined."""

    operations: Iterator[Operation]
    values: Values
    name: str
    forwarded: list[tuple[Value, Value]]  #: what is returned as it came, or twice, and the results it is for
    call: Operation


class _Inliner:
    def __init__(self, program: Program, once: Container[str]) -> None:
        self._program, self._once, self._room = program, once, TOTAL

    def region(self, region: Region, within: tuple[str, ...], values: Values | None = None) -> Region:
        """Return a region with calls replaced, or a copy on other `values`.

        `within` lists the functions that are being inlined. A stack of frames follows calls in inlined functions: a
        chain of thousands costs what its operations cost, and no Python recursion.
        """
        operations: list[Operation] = []
        frames: list[_Frame] = []
        pending = outer = iter(region.operations)
        here, changed = values, values is not None
        arguments = region.arguments if values is None else tuple(copy_value(v, values) for v in region.arguments)
        while True:
            operation = next(pending, None)
            if operation is None:
                if not frames:
                    break
                frame = frames.pop()
                for returned, result in frame.forwarded:
                    source = (frame.values.get(returned, returned),)
                    operations.append(Operation(BARRIER, source, (result,), {}, (), frame.call.location))
                within = within[:-1]
                pending, here = (frames[-1].operations, frames[-1].values) if frames else (outer, values)
                continue
            function = self._inlinable(operation, within)
            if function is not None:
                changed = True
                frames.append(_frame(operation, function, here))
                pending, here, within = frames[-1].operations, frames[-1].values, (*within, function.name)
                continue
            regions = tuple(self.region(r, within, here) for r in operation.regions)
            if here is not None:
                operation = copy_operation(operation, regions, here)
            elif any(new is not old for new, old in zip(regions, operation.regions, strict=True)):
                operation, changed = with_regions(operation, regions), True
            operations.append(operation)
        if not changed:
            return region
        returns = region.returns if values is None else tuple(values.get(v, v) for v in region.returns)
        return Region(arguments, operations, returns)

    def _inlinable(self, operation: Operation, within: tuple[str, ...]) -> Function | None:
        attribute = call_attribute(operation.name)
        if attribute is None or is_known_composite(operation.attributes):
            return None
        name = str(operation.attributes.get(attribute))
        function = self._program.functions.get(name)
        if function is None or function.body is None or name in within:
            return None
        same = [v.type for v in operation.operands] == list(function.argument_types) and [
            v.type for v in operation.results
        ] == list(function.result_types)
        size = size_of(function.body)
        longest = self._room if name in self._once else min(LONGEST, self._room)
        if not same or size is None or size > longest:
            return None
        self._room -= size
        return function


def _frame(call: Operation, function: Function, outside: Values | None) -> _Frame:
    """Return the frame of a function that takes the call's operands and gives its results."""
    body = function.body
    assert body is not None
    taken, given = call.operands, call.results
    if outside is not None:
        taken, given = tuple(outside.get(v, v) for v in taken), tuple(copy_value(v, outside) for v in given)
    values: Values = dict(zip(body.arguments, taken, strict=True))
    defined = {r for o in body.operations for r in o.results}
    forwarded: list[tuple[Value, Value]] = []
    for returned, result in zip(body.returns, given, strict=True):
        if returned in defined and returned not in values:
            values[returned] = result
        else:
            forwarded.append((returned, result))
    return _Frame(iter(body.operations), values, function.name, forwarded, call)
