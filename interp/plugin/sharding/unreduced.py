"""Rewrites programs with unreduced values as programs of plain values: each addend becomes a value of its own.

An op that is linear in what is unreduced is applied to each addend, any other op to their sum. A change of sharding
adds them up, or makes a value the sum of addends: of what the devices compute from their parts of the operands where it
is a product or a sum, else of the parts that they have, and zeros where others have the same.

Source: the unreduced axes of Shardy's shardings; JAX's `PartitionSpec(unreduced=...)`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ....ops.op import call_attribute, traits_of
from ....ops.processes.sharded import Sharding
from ....ops.traits import RegionSemantics
from ...errors import ProgramError
from ...parse import sharding
from ...parse.attributes import Opaque
from ...program import BARRIER, Function, Location, Operation, Program, Region, Value
from .addends import PLAIN, Emitter, Form, Sum, copied, form_of, is_splittable, is_sum, union
from .propagation import CONSTRAINTS, Known, Propagation


def expanded(
    program: Program, function: Function, takes: Sequence[Sharding | None], gives: Sequence[Sharding | None]
) -> tuple[Program, Function]:
    """Rewrite a program so that each addend of an unreduced value is a value of its own.

    Args:
        program: The program.
        function: The function of it that is to be run.
        takes: The shardings of its arguments. The addends of an unreduced one become arguments.
        gives: The same of its results.

    Returns:
        The new program and its function; the same ones where nothing is unreduced.

    Raises:
        ProgramError: A sharding cannot be read, or an unreduced value has unknown sizes or is in a function that calls
            itself.
    """
    if function.body is None or not (
        any(s is not None and s.unreduced for s in (*takes, *gives)) or _mentions(program)
    ):
        return program, function
    expansion = _Expansion(program)
    made, _ = expansion.function(
        function, function.name, [form_of(s) for s in takes], takes, [form_of(s) for s in gives]
    )
    return Program({**expansion.functions, function.name: made}, program.file, program.attributes), made


def _mentions(program: Program) -> bool:
    """Whether a sharding inside of the program is unreduced."""

    def some(region: Region) -> bool:
        return any(
            any(isinstance(a, Opaque) and "unreduced" in a.text for a in o.attributes.values())
            or any(map(some, o.regions))
            for o in region.operations
        )

    return any(some(f.body) for f in program.functions.values() if f.body is not None)


class _Expansion:
    """The functions of a program, each for the forms of its arguments."""

    def __init__(self, program: Program) -> None:
        self.program, self.propagation = program, Propagation(program)
        self.functions: dict[str, Function] = {}
        self._made: dict[tuple[str, tuple[Form, ...]], tuple[str, list[Form]] | None] = {}

    def callee(
        self, call: Operation, name: str, forms: Sequence[Form], known: Sequence[Sharding | None]
    ) -> tuple[str, list[Form]]:
        """The name of a function for arguments of these forms, and the forms of its results."""
        key = name, tuple(forms)
        if key not in self._made:
            self._made[key] = None
            new = f"{name}.addends{len(self._made)}" if any(f.names for f in forms) else name
            self.functions[new], results = self.function(self.program.functions[name], new, forms, known)
            self._made[key] = new, results
        function = self._made[key]
        if function is None:
            raise ProgramError(
                f"{call.location}: {call.name}: expected no unreduced values in a recursion, got @{name}"
            )
        return function

    def function(
        self,
        function: Function,
        name: str,
        forms: Sequence[Form],
        known: Sequence[Sharding | None],
        gives: Sequence[Form] | None = None,
    ) -> tuple[Function, list[Form]]:
        """A function for arguments of these forms, and the forms of its results, which are `gives` if that is there."""
        if function.body is None:
            return function, [PLAIN] * len(function.result_types)
        block = _Block(self, {}, {})
        arguments = block.enter(function.body, forms, known)
        results = block.run(function.body, gives)
        types = [tuple(v.type for v in values) for values in (arguments, _flat(results))]
        body = Region(arguments, block.operations, _flat(results))
        made = dataclasses.replace(
            function, name=name, argument_types=types[0], result_types=types[1], body=body, attributes={}
        )
        return made, [s.form for s in results]


class _Block(Emitter):
    """A block of the program, written anew."""

    def __init__(self, expansion: _Expansion, sums: dict[Value, Sum], known: Known) -> None:
        """`sums` are what values have become that are known outside of it, `known` how they lie on devices."""
        super().__init__()
        self._expansion, self._program = expansion, expansion.program
        self._sums, self._known = dict(sums), dict(known)

    def enter(self, region: Region, forms: Sequence[Form], known: Sequence[Sharding | None]) -> tuple[Value, ...]:
        """The arguments of the block, which stand for those of a region."""
        for value, form, lying in zip(region.arguments, forms, known, strict=True):
            self._sums[value] = Sum(form, tuple(Value(value.type) for _ in form.places))
            self._known[value] = lying
        return _flat([self._sums[v] for v in region.arguments])

    def run(self, region: Region, forms: Sequence[Form] | None = None) -> list[Sum]:
        """What a region returns, once its ops are written; in some forms, or as it is."""
        for operation in region.operations:
            results = self._operation(operation)
            self._sums.update(zip(operation.results, results, strict=True))
            lying = self._expansion.propagation.operation(operation, self._known)
            self._known.update(zip(operation.results, lying, strict=False))
        returned = [self._sums[v] for v in region.returns]
        if forms is None:
            return returned
        at = region.operations[-1].location if region.operations else Location()
        return [
            self.become(s, form, self._known.get(v), at)
            for v, s, form in zip(region.returns, returned, forms, strict=True)
        ]

    def _operation(self, operation: Operation) -> Iterable[Sum]:
        """What the results of an op become."""
        if operation.name in CONSTRAINTS:
            return self._constraint(operation)
        attribute = call_attribute(operation.name)
        if attribute is not None:
            return self._call(operation, attribute)
        match traits_of(operation.name).regions:
            case RegionSemantics.LOOP:
                return self._loop(operation)
            case RegionSemantics.ONE:
                return self._branches(operation)
            case RegionSemantics.ALL:
                return self._manual(operation)
        if operation.name == BARRIER:
            sums = [self._sums[v] for v in operation.operands]
            return self._made(operation, sums, [s.form for s in sums], operation.attributes, operation.regions)
        return self._linear(operation)

    def _constraint(self, operation: Operation) -> Iterable[Sum]:
        """A change of sharding: of the program it is nothing else than a change of form."""
        (operand,), text = operation.operands, operation.attributes.get("sharding")
        if not isinstance(text, Opaque):
            raise ProgramError(f"{operation.location}: {operation.name}: expected a sharding, got {text}")
        (target,) = sharding.shardings(text.text, self._program)
        return [self.become(self._sums[operand], form_of(target), self._known.get(operand), operation.location)]

    def _call(self, operation: Operation, attribute: str) -> Iterable[Sum]:
        sums = [self._sums[v] for v in operation.operands]
        known = [self._known.get(v) for v in operation.operands]
        callee, forms = self._expansion.callee(
            operation, str(operation.attributes[attribute]), [s.form for s in sums], known
        )
        return self._made(operation, sums, forms, {**operation.attributes, attribute: callee}, ())

    def _loop(self, operation: Operation) -> Iterable[Sum]:
        """A loop carries the axes along which a value is unreduced before it or after a turn."""
        known = [self._known.get(v) for v in operation.operands]
        forms = [self._sums[v].form for v in operation.operands]
        _, body = operation.regions
        while True:
            _, gives_forms = self._inner(body, forms, known)
            wider = [union(pair) for pair in zip(forms, gives_forms, strict=True)]
            if wider == forms:
                break
            forms = wider
        carried = self._become(operation, operation.operands, forms)
        condition, _ = self._inner(operation.regions[0], forms, known, [PLAIN])
        turn, _ = self._inner(body, forms, known, forms)
        return self._made(operation, carried, forms, operation.attributes, (condition, turn))

    def _branches(self, operation: Operation) -> Iterable[Sum]:
        branch_forms = [self._inner(r, (), ())[1] for r in operation.regions]
        forms = [union(each) for each in zip(*branch_forms, strict=True)]
        regions = tuple(self._inner(r, (), (), forms)[0] for r in operation.regions)
        return self._made(
            operation, self._become(operation, operation.operands, [PLAIN]), forms, operation.attributes, regions
        )

    def _manual(self, operation: Operation) -> Iterable[Sum]:
        attributes = sharding.resolve_shardings(operation.attributes, self._program)
        takes, gives = ([form_of(s) for s in attributes[name]] for name in ("in_shardings", "out_shardings"))
        (body,) = operation.regions
        operands = self._become(operation, operation.operands, takes)
        # Each device has one addend, as each has one part.
        region, _ = self._inner(
            body, [PLAIN] * len(body.arguments), [None] * len(body.arguments), [PLAIN] * len(body.returns)
        )
        return self._made(operation, operands, gives, attributes, (region,))

    def _linear(self, operation: Operation) -> Iterable[Sum]:
        """An op that is applied to each addend of its operands, or to their sums where it is not linear in them."""
        sums = [self._sums[v] for v in operation.operands]
        regions = tuple(
            self._inner(r, [PLAIN] * len(r.arguments), [None] * len(r.arguments), [PLAIN] * len(r.returns))[0]
            for r in operation.regions
        )
        some = [i for i, s in enumerate(sums) if s.form.names]
        if not some:
            results = self._made(operation, sums, [PLAIN] * len(operation.results), operation.attributes, regions)
            if is_splittable(operation):
                known = [self._known.get(v) for v in operation.operands]
                self.sources[results[0].addends[0]] = self.operations[-1], known
            return results
        together = _together(operation, self._separate(operation, sums, some))
        some = [i for i in some if i in together]
        if not some:
            plain = self._become(operation, operation.operands, [PLAIN] * len(sums))
            return self._made(operation, plain, [PLAIN] * len(operation.results), operation.attributes, regions)
        form = union(sums[i].form for i in some)
        forms = [form if i in together else PLAIN for i in range(len(sums))]
        sums = self._become(operation, operation.operands, forms)
        rows: list[tuple[Value, ...]] = []
        for i in range(len(form.places)):
            results = tuple(Value(v.type) for v in operation.results)
            operands = tuple(s.addends[i if s.form.names else 0] for s in sums)
            bodies = tuple(copied(r) for r in regions)
            self.operations.append(dataclasses.replace(operation, operands=operands, results=results, regions=bodies))
            rows.append(results)
        return [Sum(form, each) for each in zip(*rows, strict=True)]

    def _separate(self, operation: Operation, sums: Sequence[Sum], some: Sequence[int]) -> Sequence[int]:
        """Of the operands with several addends those that keep them: one of the factors of a product."""
        if len(some) < 2 or not traits_of(operation.name).is_bilinear:
            return some
        # Better not the one that has been one value before it was to be addends.
        return [next((i for i in some if sums[i].addends not in self.wholes), some[0])]

    # -- what they have in common --------------------------------------------------------------------------------------

    def _become(self, operation: Operation, values: Sequence[Value], forms: Sequence[Form]) -> list[Sum]:
        return [
            self.become(self._sums[v], form, self._known.get(v), operation.location)
            for v, form in zip(values, forms, strict=True)
        ]

    def _inner(
        self,
        region: Region,
        forms: Sequence[Form],
        known: Sequence[Sharding | None],
        gives: Sequence[Form] | None = None,
    ) -> tuple[Region, list[Form]]:
        """A region of an op, written anew for arguments of some forms, and the forms of what it returns."""
        block = _Block(self._expansion, self._sums, self._known)
        arguments = block.enter(region, forms, known)
        results = block.run(region, gives)
        return Region(arguments, block.operations, _flat(results)), [s.form for s in results]

    def _made(
        self,
        operation: Operation,
        sums: Sequence[Sum],
        forms: Sequence[Form],
        attributes: dict[str, Any],
        regions: tuple[Region, ...],
    ) -> list[Sum]:
        """The op once, with the addends of its operands as operands and those of its results as results."""
        results = [
            Sum(form, tuple(Value(v.type) for _ in form.places))
            for v, form in zip(operation.results, forms, strict=True)
        ]
        made = dataclasses.replace(
            operation, operands=_flat(sums), results=_flat(results), attributes=attributes, regions=regions
        )
        self.operations.append(made)
        return results


def _flat(sums: Iterable[Sum]) -> tuple[Value, ...]:
    return tuple(v for s in sums for v in s.addends)


# -- which ops are linear ----------------------------------------------------------------------------------------------


def _together(operation: Operation, some: Sequence[int]) -> Iterable[int]:
    """The operands that an op is linear in together: of a product the one in `some`."""
    traits = traits_of(operation.name)
    if traits.is_bilinear:
        return some
    if traits.linear is None or (operation.regions and not is_sum(operation)):
        return ()
    return tuple(traits.linear(len(operation.operands)))
