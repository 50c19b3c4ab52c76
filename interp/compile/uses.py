"""What regions use of what is around them, and who uses each value."""

from __future__ import annotations

from ..program import Operation, Region, Value

#: Regions, by their ids, with what they use and do not define.
Known = dict[int, tuple[Region, tuple[Value, ...]]]


def captures(region: Region, known: Known | None = None) -> tuple[Value, ...]:
    """The values a region uses and does not define, in the order of use.

    Regions that are in `known` must not have changed since, and the others are added to it: so regions within regions,
    each of which is asked about, are gone through once.
    """
    if known is not None and id(region) in known:
        return known[id(region)][1]
    defined: set[Value] = set(region.arguments)
    used: dict[Value, None] = {}
    for operation in region.operations:
        used.update(dict.fromkeys(operation.operands))
        for inner in operation.regions:
            used.update(dict.fromkeys(captures(inner, known)))
        defined.update(operation.results)
    used.update(dict.fromkeys(region.returns))
    found = tuple([v for v in used if v not in defined])
    if known is not None:
        known[id(region)] = region, found
    return found


def needed(region: Region) -> set[Value]:
    """The values that what a region returns depends on, those returned among them."""
    values = set(region.returns)
    for operation in reversed(region.operations):
        if operation.regions or not values.isdisjoint(operation.results):
            values.update(operation.operands, *map(captures, operation.regions))
    return values


def uses_of(region: Region) -> dict[Value, list[Operation | None]]:
    """The ops that use each value, themselves or in their regions; None where the region returns it."""
    uses: dict[Value, list[Operation | None]] = {}

    def visit(operation: Operation, user: Operation) -> None:
        for value in dict.fromkeys(operation.operands):
            uses.setdefault(value, []).append(user)
        for region in operation.regions:
            for inner in region.operations:
                visit(inner, user)
            for value in region.returns:
                uses.setdefault(value, []).append(user)

    for operation in region.operations:
        visit(operation, operation)
    for value in region.returns:
        uses.setdefault(value, []).append(None)
    return uses
