"""Manual computations that take and give the devices' own parts of the program's arguments and results.

If a value comes from the devices or from such a computation, and only goes to others or to the devices, its parts are
not joined. So a device keeps its own part of a value that several devices should share, even if the parts differ. In
JAX such a value is a result of a `pmap` with `out_axes=None`, or of a `shard_map` without checks.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence

from ....ops.processes.sharded import Sharding
from ...parse import sharding
from ...parse.attributes import Opaque
from ...program import Function, Operation, Program, Region, Value

Shardings = Sequence[Sharding | None]


@dataclasses.dataclass(frozen=True)
class Parts:
    """A function, and the numbers of the arguments and results that are parts of each device."""

    function: Function
    arguments: frozenset[int] = frozenset()
    results: frozenset[int] = frozenset()


def with_parts(program: Program, function: Function, arguments: Shardings, results: Shardings) -> Parts:
    """Rewrite a function so that the devices' parts are arguments and results where they can be.

    Args:
        program: The program.
        function: A function of it.
        arguments: The shardings of its arguments; None for one that has to be whole.
        results: The shardings of its results.

    Returns:
        The function, and which arguments and results, by their numbers before, have become parts.
    """
    if function.body is None:
        return Parts(function)
    body = _without_repeated(function.body, program)
    uses, manual_uses = _count_uses(body), collections.Counter[Value]()
    shardings: dict[Value, Sharding | None] = dict(zip(body.arguments, arguments, strict=True))
    for operation in body.operations:
        for value, inner in _whole_values(operation, "in_shardings", operation.operands, program):
            manual_uses[value] += _is_same(shardings.get(value), inner, operation, program)
        for value, inner in _whole_values(operation, "out_shardings", operation.results, program):
            shardings[value] = inner if _is_same(inner, inner, operation, program) else None
    returned = {v: [results[i] for i, w in enumerate(body.returns) if w is v] for v in body.returns}
    taken = set(body.arguments)
    chosen = {
        v
        for v, s in shardings.items()
        if s is not None
        and manual_uses[v] == uses[v]
        and all(r is not None and (r.mesh, r.dims, r.addends) == (s.mesh, s.dims, 1) for r in returned.get(v, ()))
        and (manual_uses[v] or v not in taken)
    }
    if not chosen:
        return Parts(function)
    parts: dict[Value, tuple[Value, ...]] = {}
    operations = [_rewrite(o, program, chosen, parts) for o in body.operations]
    lists = [tuple(p for v in values for p in parts.get(v, (v,))) for values in (body.arguments, body.returns)]
    rewritten = dataclasses.replace(
        function,
        argument_types=tuple(v.type for v in lists[0]),
        result_types=tuple(v.type for v in lists[1]),
        body=Region(lists[0], operations, lists[1]),
        attributes={},
    )
    numbers = [[i for i, v in enumerate(values) if v in parts] for values in (body.arguments, body.returns)]
    return Parts(rewritten, *map(frozenset, numbers))


def _without_repeated(body: Region, program: Program) -> Region:
    """The body without constraints that say again how the result of a manual computation lies on the devices."""
    known: dict[Value, Sharding] = {}
    same: dict[Value, Value] = {}
    inner = sum((_count_uses(r) for o in body.operations for r in o.regions), collections.Counter[Value]())
    operations: list[Operation] = []
    for operation in body.operations:
        known.update(_whole_values(operation, "out_shardings", operation.results, program))
        text = operation.attributes.get("sharding")
        if operation.name == "sdy.sharding_constraint" and isinstance(text, Opaque):
            value, result = same.get(operation.operands[0], operation.operands[0]), operation.results[0]
            if value in known and known[value] == sharding.shardings(text.text, program)[0] and not inner[result]:
                same[result] = value
                continue
        operands = tuple(same.get(v, v) for v in operation.operands)
        operations.append(dataclasses.replace(operation, operands=operands) if same else operation)
    return Region(body.arguments, operations, tuple(same.get(v, v) for v in body.returns)) if same else body


def _count_uses(region: Region) -> collections.Counter[Value]:
    """How often values are operands, or returned by regions of ops."""
    counts = collections.Counter(v for o in region.operations for v in o.operands)
    for operation in region.operations:
        for inner in operation.regions:
            counts += _count_uses(inner) + collections.Counter(inner.returns)
    return counts


def _whole_values(
    operation: Operation, name: str, values: Sequence[Value], program: Program
) -> Iterator[tuple[Value, Sharding]]:
    """The operands or results of a manual computation that have one addend, with their shardings."""
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


def _rewrite(
    operation: Operation, program: Program, chosen: set[Value], parts: dict[Value, tuple[Value, ...]]
) -> Operation:
    """Return the op with values for the parts of the `chosen` values; these are added to `parts`."""
    if operation.name != "sdy.manual_computation" or chosen.isdisjoint((*operation.operands, *operation.results)):
        return operation
    attributes = sharding.resolve_shardings(operation.attributes, program)
    (region,) = operation.regions
    lists: list[tuple[Value, ...]] = []
    for name, flag, values, local in (
        ("in_shardings", "takes_parts", operation.operands, region.arguments),
        ("out_shardings", "gives_parts", operation.results, region.returns),
    ):
        flat: list[Value] = []
        number = 0
        flags: list[bool] = []
        for inner, part in zip(attributes[name], local, strict=True):
            value = values[number]
            flags.append(value in chosen)
            if value in chosen:
                flat += parts.setdefault(value, tuple(Value(part.type) for _ in range(inner.mesh.size)))
            else:
                flat += values[number : number + inner.addends]
            number += inner.addends
        attributes[flag] = tuple(flags)
        lists.append(tuple(flat))
    return dataclasses.replace(operation, operands=lists[0], results=lists[1], attributes=attributes)
