"""The pass that moves what writes over a part of an array, in a loop, behind what reads the array as it was.

The rule. An update or scatter of an array that others read behind it goes to the end, with all that depends on it, if
none of these reads does. Nothing needs the array then, so it is changed in place.

Measured with numpy, 10**4 turns of `(c.at[i].add(c[j]), c[j])` on 1,000 rows of 10 numbers: 190 ms and 70.
"""

from __future__ import annotations

from ....ops.kernel import Regions
from ....ops.registry import facts_of, lookup
from ...program import Operation, Region
from ..uses import uses_of
from .components import used_by
from .rewriting import with_operations, with_regions


def writes_last(region: Region, is_in_loop: bool = False) -> Region:
    """The region, in whose loops arrays are read before they are changed; the same object where nothing moves."""
    operations: list[Operation] = []
    for operation in region.operations:
        kind = facts_of(operation.name).regions
        if kind in (Regions.LOOP, Regions.ONE):
            inner = is_in_loop or kind is Regions.LOOP
            operation = with_regions(operation, [writes_last(r, inner) for r in operation.regions])
        operations.append(operation)
    last = _movable(Region(region.arguments, operations, region.returns)) if is_in_loop else []
    if last and operations[-len(last) :] != last:
        operations = [o for o in operations if o not in last] + last
    return with_operations(region, operations)


def _movable(region: Region) -> list[Operation]:
    """What changes an array of the region that others read after it, and all that depends on that, in their order."""
    if any((record := lookup(o.name)) is None or record.has_effects for o in region.operations):
        return []
    writes = [o for o in region.operations if o.results and facts_of(o.name).overwrites == 0]
    uses, moved = uses_of(region) if writes else {}, set[Operation]()
    for write in writes:
        users = uses.get(write.operands[0], [])
        if write.operands[0] not in region.arguments or users[-1] is write or None in users:
            continue
        dependent, made = {write}, {*write.results}
        for operation in region.operations:
            if not made.isdisjoint(used_by(operation)):
                dependent.add(operation)
                made.update(operation.results)
        if dependent.isdisjoint(o for o in users if o is not write):
            moved |= dependent
    return [o for o in region.operations if o in moved]
