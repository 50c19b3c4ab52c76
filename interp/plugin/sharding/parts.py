"""Manual computations that take and give the devices' own parts of the program's arguments and results.

What comes from the devices or such a computation, and only goes to others or to the devices, is not put together. So
each device keeps what it has of a value that is to be the same on several ones, should it differ there: in JAX a result
of a `pmap` with `out_axes=None`, or of a `shard_map` without checks.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from ....ops.processes.sharded import Sharding
from ...parse import sharding
from ...program import Function, Operation, Program, Region, Value

Shardings = Sequence[Sharding | None]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A function, and the numbers of the arguments and results of which it takes and gives each device's part."""

    function: Function
    takes: frozenset[int] = frozenset()
    gives: frozenset[int] = frozenset()


def with_parts(program: Program, function: Function, takes: Shardings, gives: Shardings) -> Parts:
    """Rewrite a function so that the devices' parts are arguments and results where they can be.

    Args:
        program: The program.
        function: A function of it.
        takes: The shardings of its arguments; None for one that is to be whole.
        gives: The same of its results.

    Returns:
        The function, and which arguments and results, by their numbers before, have become parts.
    """
    body = function.body
    if body is None:
        return Parts(function)
    uses, entering = _uses(body), collections.Counter[Value]()
    lying: dict[Value, Sharding | None] = dict(zip(body.arguments, takes, strict=True))
    for operation in body.operations:
        for value, inner in _whole(operation, "in_shardings", operation.operands, program):
            entering[value] += _is_same(lying.get(value), inner, operation, program)
        for value, inner in _whole(operation, "out_shardings", operation.results, program):
            lying[value] = inner if _is_same(inner, inner, operation, program) else None
    returned = {v: [gives[i] for i, w in enumerate(body.returns) if w is v] for v in body.returns}
    arguments = set(body.arguments)
    chosen = {
        v
        for v, s in lying.items()
        if s is not None
        and entering[v] == uses[v]
        and all(g is not None and (g.mesh, g.dims, g.addends) == (s.mesh, s.dims, 1) for g in returned.get(v, ()))
        and (entering[v] or v not in arguments)
    }
    if not chosen:
        return Parts(function)
    parts: dict[Value, tuple[Value, ...]] = {}
    operations = [_rewritten(o, program, chosen, parts) for o in body.operations]
    takes_each = tuple(p for v in body.arguments for p in parts.get(v, (v,)))
    returns = tuple(p for v in body.returns for p in parts.get(v, (v,)))
    made = dataclasses.replace(
        function,
        argument_types=tuple(v.type for v in takes_each),
        result_types=tuple(v.type for v in returns),
        body=Region(takes_each, operations, returns),
        attributes={},
    )
    numbers = [[i for i, v in enumerate(of) if v in parts] for of in (body.arguments, body.returns)]
    return Parts(made, *map(frozenset, numbers))


def _uses(region: Region) -> collections.Counter[Value]:
    """How often values are operands, or returned by regions of ops."""
    counts = collections.Counter(v for o in region.operations for v in o.operands)
    for operation in region.operations:
        for inner in operation.regions:
            counts += _uses(inner) + collections.Counter(inner.returns)
    return counts


def _whole(
    operation: Operation, name: str, values: Sequence[Value], program: Program
) -> Iterator[tuple[Value, Sharding]]:
    """The operands or results of a manual computation that have one addend, and how they are cut for it."""
    if operation.name != "sdy.manual_computation":
        return
    number = 0
    for inner in sharding.resolve_shardings(operation.attributes, program)[name]:
        if inner.addends == 1:
            yield values[number], inner
        number += inner.addends


def _is_same(outer: Sharding | None, inner: Sharding, operation: Operation, program: Program) -> bool:
    """Whether the devices' parts are those of the computation, which is manual along all axes."""
    manual = set(sharding.resolve_shardings(operation.attributes, program)["manual_axes"])
    return (
        outer is not None
        and bool(outer.mesh.axes)
        and outer.mesh == inner.mesh
        and outer.dims == inner.dims
        and outer.addends == 1
        and manual == {name for name, _ in inner.mesh.axes}
    )


def _rewritten(
    operation: Operation, program: Program, chosen: set[Value], parts: dict[Value, tuple[Value, ...]]
) -> Operation:
    """The op with values for the parts of those that are `chosen`, which are kept in `parts`."""
    if operation.name != "sdy.manual_computation" or chosen.isdisjoint((*operation.operands, *operation.results)):
        return operation
    attributes = sharding.resolve_shardings(operation.attributes, program)
    (region,) = operation.regions
    made = []
    for name, flag, values, local in (
        ("in_shardings", "takes_parts", operation.operands, region.arguments),
        ("out_shardings", "gives_parts", operation.results, region.returns),
    ):
        flat: list[Value] = []
        flags: list[bool] = []
        number = 0
        for inner, part in zip(attributes[name], local, strict=True):
            value = values[number]
            flags.append(value in chosen)
            if value in chosen:
                parts.setdefault(value, tuple(Value(part.type) for _ in range(inner.mesh.size)))
                flat += parts[value]
            else:
                flat += values[number : number + inner.addends]
            number += inner.addends
        attributes[flag] = tuple(flags)
        made.append(tuple(flat))
    return dataclasses.replace(operation, operands=made[0], results=made[1], attributes=attributes)
