"""Rewrites programs with unreduced values as programs of plain values: each addend becomes a value of its own.

An op that is linear in unreduced operands is applied to each addend, any other op to their sum; values whose largest or
smallest addend counts are made plain before any op. A change of sharding
adds the addends up, or splits a value into addends. If the value is a product or a sum, they are the results of the
devices' parts of the operands; else they are the devices' parts of the value, with zeros for devices that have the same
part as another.

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
from .addends import ADD, PLAIN, Emitter, Form, Sum, combining_of, copied, form_of, is_splittable, union
from .propagation import CONSTRAINTS, Known, Propagation

Shardings = Sequence[Sharding | None]


def expanded(
    program: Program, function: Function, arguments: Shardings, results: Shardings
) -> tuple[Program, Function]:
    """Rewrite a program so that each addend of an unreduced value is a value of its own.

    Args:
        program: The program.
        function: The function of it that is to be run.
        arguments: The shardings of its arguments. The addends of an unreduced one become arguments.
        results: The shardings of its results.

    Returns:
        The new program and its function; the same ones if no value is unreduced.

    Raises:
        ProgramError: A sharding cannot be read, or an unreduced value has unknown sizes or is in a function that calls
            itself.
    """
    if function.body is None or not (
        any(s is not None and s.unreduced for s in (*arguments, *results)) or _mentions_unreduced(program)
    ):
        return program, function
    expansion = _Expansion(program)
    forms, result_forms = ([form_of(s) for s in each] for each in (arguments, results))
    new, _ = expansion.function(function, function.name, forms, arguments, result_forms)
    return Program({**expansion.functions, function.name: new}, program.file, program.attributes), new


def _mentions_unreduced(program: Program) -> bool:
    """Whether a sharding inside of the program is unreduced."""

    def is_in(region: Region) -> bool:
        return any(
            any(isinstance(a, Opaque) and "unreduced" in a.text for a in o.attributes.values())
            or any(map(is_in, o.regions))
            for o in region.operations
        )

    return any(is_in(f.body) for f in program.functions.values() if f.body is not None)


class _Expansion:
    """The functions of a program, each for the forms of its arguments."""

    def __init__(self, program: Program) -> None:
        self.program, self.propagation = program, Propagation(program)
        self.functions: dict[str, Function] = {}
        self._callees: dict[tuple[str, tuple[Form, ...]], tuple[str, list[Form]] | None] = {}

    def callee(self, call: Operation, name: str, forms: Sequence[Form], known: Shardings) -> tuple[str, list[Form]]:
        """Return the name of a function for arguments of these forms, and the forms of its results."""
        key = name, tuple(forms)
        if key not in self._callees:
            self._callees[key] = None
            new = f"{name}.addends{len(self._callees)}" if any(f.names for f in forms) else name
            self.functions[new], results = self.function(self.program.functions[name], new, forms, known)
            self._callees[key] = new, results
        callee = self._callees[key]
        if callee is None:
            raise ProgramError(
                f"{call.location}: {call.name}: expected no unreduced values in a recursion, got @{name}"
            )
        return callee

    def function(
        self,
        function: Function,
        name: str,
        forms: Sequence[Form],
        known: Shardings,
        result_forms: Sequence[Form] | None = None,
    ) -> tuple[Function, list[Form]]:
        """Return a function for arguments of these forms, and the forms of its results: `result_forms` if given."""
        if function.body is None:
            return function, [PLAIN] * len(function.result_types)
        body, forms = _Block(self, {}, {}).region(function.body, forms, known, result_forms)
        types = [tuple(v.type for v in values) for values in (body.arguments, body.returns)]
        new = dataclasses.replace(
            function, name=name, argument_types=types[0], result_types=types[1], body=body, attributes={}
        )
        return new, list(forms)


class _Block(Emitter):
    """A block of the program, written anew."""

    def __init__(self, expansion: _Expansion, sums: dict[Value, Sum], known: Known) -> None:
        """`sums` are the new values for those of outer blocks, `known` the shardings of the old ones."""
        super().__init__()
        self._expansion, self._program = expansion, expansion.program
        self._sums, self._known = dict(sums), dict(known)

    def region(
        self,
        region: Region,
        forms: Sequence[Form],
        known: Shardings,
        result_forms: Sequence[Form] | None = None,
    ) -> tuple[Region, list[Form]]:
        """Return the new region for arguments of some forms and shardings, and the forms of its results.

        The results have the forms that they get, or `result_forms`.
        """
        for value, form, sharding_ in zip(region.arguments, forms, known, strict=True):
            self._sums[value] = Sum(form, tuple(Value(value.type) for _ in form.places))
            self._known[value] = sharding_
        for operation in region.operations:
            results = self._operation(operation)
            self._sums.update(zip(operation.results, results, strict=True))
            shardings = self._expansion.propagation.operation(operation, self._known)
            self._known.update(zip(operation.results, shardings, strict=False))
        returned = [self._sums[v] for v in region.returns]
        if result_forms is not None:
            at = region.operations[-1].location if region.operations else Location()
            returned = self._convert(region.returns, result_forms, at)
        arguments = _flat(self._sums[v] for v in region.arguments)
        return Region(arguments, self.operations, _flat(returned)), [s.form for s in returned]

    def _operation(self, operation: Operation) -> Iterable[Sum]:
        """Write an op anew and return its results."""
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
            return self._emit_once(operation, sums, [s.form for s in sums], operation.attributes, operation.regions)
        return self._linear(operation)

    def _constraint(self, operation: Operation) -> Iterable[Sum]:
        """A change of sharding, which the new program has as a change of form."""
        text = operation.attributes.get("sharding")
        if not isinstance(text, Opaque):
            raise ProgramError(f"{operation.location}: {operation.name}: expected a sharding, got {text}")
        (target,) = sharding.shardings(text.text, self._program)
        return self._convert(operation.operands, [form_of(target)], operation.location)

    def _call(self, operation: Operation, attribute: str) -> Iterable[Sum]:
        sums = [self._sums[v] for v in operation.operands]
        known = [self._known.get(v) for v in operation.operands]
        callee, forms = self._expansion.callee(
            operation, str(operation.attributes[attribute]), [s.form for s in sums], known
        )
        return self._emit_once(operation, sums, forms, {**operation.attributes, attribute: callee}, ())

    def _loop(self, operation: Operation) -> Iterable[Sum]:
        """A loop carries the axes along which a value is unreduced before it or after an iteration."""
        known = [self._known.get(v) for v in operation.operands]
        forms = [self._sums[v].form for v in operation.operands]
        condition, body = operation.regions
        while True:
            _, after = self._inner(body, forms, known)
            wider = [union(pair) for pair in zip(forms, after, strict=True)]
            if wider == forms:
                break
            forms = wider
        carried = self._convert(operation.operands, forms, operation.location)
        regions = self._inner(condition, forms, known, [PLAIN])[0], self._inner(body, forms, known, forms)[0]
        return self._emit_once(operation, carried, forms, operation.attributes, regions)

    def _branches(self, operation: Operation) -> Iterable[Sum]:
        branch_forms = [self._inner(r, (), ())[1] for r in operation.regions]
        forms = [union(each) for each in zip(*branch_forms, strict=True)]
        regions = tuple(self._inner(r, (), (), forms)[0] for r in operation.regions)
        operands = self._convert(operation.operands, [PLAIN], operation.location)
        return self._emit_once(operation, operands, forms, operation.attributes, regions)

    def _manual(self, operation: Operation) -> Iterable[Sum]:
        """Each device has one addend of a value, as it has one part."""
        attributes = sharding.resolve_shardings(operation.attributes, self._program)
        before, after = ([form_of(s) for s in attributes[name]] for name in ("in_shardings", "out_shardings"))
        operands = self._convert(operation.operands, before, operation.location)
        regions = tuple(map(self._plain_region, operation.regions))
        return self._emit_once(operation, operands, after, attributes, regions)

    def _linear(self, operation: Operation) -> Iterable[Sum]:
        """An op that is applied to each addend of its operands, or to their sums where it is not linear in them."""
        sums = [self._sums[v] for v in operation.operands]
        regions = tuple(map(self._plain_region, operation.regions))
        unreduced = [i for i, s in enumerate(sums) if s.form.names and s.form.combining == ADD]
        linear = _linear_operands(operation, self._separate(operation, sums, unreduced)) if unreduced else ()
        unreduced = [i for i in unreduced if i in linear]
        form = union(sums[i].form for i in unreduced)
        forms = [form if i in linear else PLAIN for i in range(len(sums))]
        sums = self._convert(operation.operands, forms, operation.location)
        if not unreduced:
            results = self._emit_once(operation, sums, [PLAIN] * len(operation.results), operation.attributes, regions)
            if is_splittable(operation):
                known = [self._known.get(v) for v in operation.operands]
                self.sources[results[0].addends[0]] = self.operations[-1], known
            return results
        rows: list[tuple[Value, ...]] = []
        for i in range(len(form.places)):
            rows.append(tuple(Value(v.type) for v in operation.results))
            operands = tuple(s.addends[i if s.form.names else 0] for s in sums)
            bodies = tuple(copied(r) for r in regions)
            self.operations.append(dataclasses.replace(operation, operands=operands, results=rows[-1], regions=bodies))
        return [Sum(form, each) for each in zip(*rows, strict=True)]

    def _separate(self, operation: Operation, sums: Sequence[Sum], unreduced: Sequence[int]) -> Sequence[int]:
        """Of the unreduced operands those that stay so: one of the factors of a product."""
        if len(unreduced) < 2 or not traits_of(operation.name).is_bilinear:
            return unreduced
        # Better not one that was a whole value before it was split into addends.
        return [next((i for i in unreduced if sums[i].addends not in self.wholes), unreduced[0])]

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _convert(self, values: Sequence[Value], forms: Sequence[Form], at: Location) -> list[Sum]:
        return [
            self.convert(self._sums[v], form, self._known.get(v), at) for v, form in zip(values, forms, strict=True)
        ]

    def _inner(
        self,
        region: Region,
        forms: Sequence[Form],
        known: Shardings,
        result_forms: Sequence[Form] | None = None,
    ) -> tuple[Region, list[Form]]:
        return _Block(self._expansion, self._sums, self._known).region(region, forms, known, result_forms)

    def _plain_region(self, region: Region) -> Region:
        """The new region for plain arguments and results."""
        counts = len(region.arguments), len(region.returns)
        return self._inner(region, [PLAIN] * counts[0], [None] * counts[0], [PLAIN] * counts[1])[0]

    def _emit_once(
        self,
        operation: Operation,
        sums: Sequence[Sum],
        forms: Sequence[Form],
        attributes: dict[str, Any],
        regions: tuple[Region, ...],
    ) -> list[Sum]:
        """Write the op once, with the addends of its operands as operands and those of its results as results."""
        results = [
            Sum(form, tuple(Value(v.type) for _ in form.places))
            for v, form in zip(operation.results, forms, strict=True)
        ]
        new = {"operands": _flat(sums), "results": _flat(results), "attributes": attributes, "regions": regions}
        self.operations.append(dataclasses.replace(operation, **new))
        return results


def _flat(sums: Iterable[Sum]) -> tuple[Value, ...]:
    return tuple(v for s in sums for v in s.addends)


def _linear_operands(operation: Operation, unreduced: Sequence[int]) -> Iterable[int]:
    """The operands in which an op is linear together: of a product the one in `unreduced`."""
    traits = traits_of(operation.name)
    if traits.is_bilinear:
        return unreduced
    if traits.linear is None or (operation.regions and combining_of(operation) != ADD):
        return ()
    return tuple(traits.linear(len(operation.operands)))
