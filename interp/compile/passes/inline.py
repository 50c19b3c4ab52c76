"""The pass that inlines short functions, so that their ops can be fused with those around the call.

JAX makes a function of every `jax.nn.silu` and of each loop's body. A function is inlined if it has no effects, does
not call itself and is not long, or called in one place only; the ops of the caller stay the objects that they are.

Measured against calls: a scan of 1,000 steps 3.6 times as fast, silu(a) * b on 10**6 elements 1.3 times.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Container, Iterator

from ....ops.engine.speed import tuning
from ....ops.op import call_attribute
from ....ops.programs.control import is_known_composite
from ...program import BARRIER, Function, Operation, Program, Region, Value
from .rewriting import Values, copied, copy_of, size_of

#: The ops of the longest function, and of all together, that are inlined in the body of an op. No tuning: what kind of
#: body that is decides in which order it is applied.
BODY = 250, 2000


def inlined(
    program: Program, region: Region, limits: tuple[int, int] | None = None, once: Container[str] = ()
) -> Region:
    """A region of the program with calls replaced; the region itself where there are none.

    `limits` are the ops of a function and of all functions, those of the tuning by default. The functions `once` are
    called in one place only, where they make nothing longer: one of them may have as many ops as all together.
    """
    return _Inliner(program, limits or (tuning().inline_ops, tuning().inline_total), once).region(region, ())


def called_once(program: Program) -> frozenset[str]:
    """The functions of a program that are called in one place only."""
    calls = collections.Counter(
        str(operation.attributes.get(attribute))
        for function in program.functions.values()
        if function.body is not None
        for operation in _all(function.body)
        if (attribute := call_attribute(operation.name)) is not None
    )
    return frozenset(name for name, count in calls.items() if count == 1)


@dataclasses.dataclass
class _Frame:
    """A function that is being put in the place of a call."""

    operations: Iterator[Operation]
    values: Values  #: those of the function, in terms of what it is put into
    name: str
    handed_on: list[tuple[Value, Value]]  #: what is returned as it came, or twice, and the results it is for
    call: Operation


class _Inliner:
    def __init__(self, program: Program, limits: tuple[int, int], once: Container[str]) -> None:
        self._program, self._once = program, once
        self._longest, self._room = limits

    def region(self, region: Region, within: tuple[str, ...], values: Values | None = None) -> Region:
        """A region with calls replaced, of a copy that has other values where these are given.

        `within` are the functions that are being inlined. Calls in what is inlined are followed by a stack of frames:
        a chain of thousands costs what its ops cost, and no Python recursion.
        """
        operations: list[Operation] = []
        frames: list[_Frame] = []
        pending = outer = iter(region.operations)
        here, changed = values, values is not None
        arguments = region.arguments if values is None else tuple(copied(v, values) for v in region.arguments)
        while True:
            operation = next(pending, None)
            if operation is None:
                if not frames:
                    break
                frame = frames.pop()
                for returned, result in frame.handed_on:
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
                operation = copy_of(operation, regions, here)
            elif any(new is not old for new, old in zip(regions, operation.regions, strict=True)):
                operation, changed = dataclasses.replace(operation, regions=regions), True
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
        longest = self._room if name in self._once else min(self._longest, self._room)
        if not same or size is None or size > longest:
            return None
        self._room -= size
        return function


def _frame(call: Operation, function: Function, outside: Values | None) -> _Frame:
    """A copy of a function, to come, that takes the call's operands and gives its results."""
    body = function.body
    assert body is not None
    taken, given = call.operands, call.results
    if outside is not None:
        taken, given = tuple(outside.get(v, v) for v in taken), tuple(copied(v, outside) for v in given)
    values: Values = dict(zip(body.arguments, taken, strict=True))
    made = {r for o in body.operations for r in o.results}
    handed_on: list[tuple[Value, Value]] = []
    for returned, result in zip(body.returns, given, strict=True):
        if returned in made and returned not in values:
            values[returned] = result
        else:
            handed_on.append((returned, result))
    return _Frame(iter(body.operations), values, function.name, handed_on, call)


def _all(region: Region) -> Iterator[Operation]:
    """The ops of a region, and those in their regions."""
    for operation in region.operations:
        yield operation
        for inner in operation.regions:
            yield from _all(inner)
