"""What regions use of what is around them, and who uses each value."""

from __future__ import annotations

from ..program import Operation, Region, Value


def captures(region: Region) -> tuple[Value, ...]:
    """The values a region uses and does not define, in the order of use."""
    defined: set[Value] = set()
    used: dict[Value, None] = {}

    def visit(r: Region) -> None:
        defined.update(r.arguments)
        for operation in r.operations:
            used.update(dict.fromkeys(operation.operands))
            for inner in operation.regions:
                visit(inner)
            defined.update(operation.results)
        used.update(dict.fromkeys(r.returns))

    visit(region)
    return tuple(v for v in used if v not in defined)


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
