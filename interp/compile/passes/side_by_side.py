"""Batches inner loops whose numbers of turns differ: they run side by side until the last one has ended.

The rule. The conditions and bodies of all loops are computed at once. A loop whose condition fails has ended: its state
is its result. Once few are left, they are brought together and go on in regions for as many, so that what has ended
costs little; the last ones run one after the other. Until then loops that have ended go on, and what they compute is
left out, if their turns come to an end whatever the state is. Otherwise no loop is entered with a state that it does
not have by itself. So the bits are those of the loops one after the other, and each ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ops.engine.speed import tuning
from ....ops.op import lookup
from ....ops.traits import RegionSemantics
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..group import LOOPS
from ..uses import captures

#: Gives a region for so many loops: of a region of the loop, which of its arguments are stacked, and which of what it
#: returns has to be.
OfWidth = Callable[[int, Region, Sequence[bool], Sequence[bool]], Region | None]


def widths(count: int, last: int, size: int) -> list[int]:
    """For how many loops there are regions, the largest number first; `last` are run one after the other.

    `size` is how many operations a turn has: of long ones there are fewer regions, as each has to be planned.
    """
    found, most = [count], max(min(tuning().loops_widths, tuning().loops_operations // max(size, 1)), 2)
    while len(found) < most and found[-1] // tuning().loops_shrink > last:
        found.append(found[-1] // tuning().loops_shrink)
    return found


def together(
    operation: Operation,
    count: int,
    operands: Sequence[Value],
    taken: Sequence[Value],
    rows: Sequence[Value],
    stacked: Sequence[bool],
    of_width: OfWidth,
) -> Operation | None:
    """All loops as one operation, whose results have a row for each; None where there is no such operation.

    `operands` are what is carried, with rows where it is `stacked`; `taken` are values around the loop that each turn
    has its own of, and `rows` those of all turns.
    """
    condition, body = operation.regions
    is_single = all(isinstance(v.type, TensorType) and v.type.shape == () for v in operation.operands)
    last = tuning().loops_last if is_single else 1
    if count <= last:
        return None
    regions: list[Region] = []
    sizes = widths(count, last, sum(map(_size, operation.regions)))
    for width in sizes:
        test, turn = of_width(width, condition, stacked, [True]), of_width(width, body, stacked, stacked)
        if test is None or turn is None:
            return None
        regions += [test, turn]
    source = operation.origin or operation
    carried, results = ([Value(v.type) for v in values] for values in (operation.operands, operation.results))
    single = Operation(
        operation.name, tuple(carried), tuple(results), operation.attributes, operation.regions, source.location, source
    )
    regions.append(Region((*taken, *carried), [single], tuple(results)))
    types = [v.type for v in operation.results]
    given = tuple([Value(TensorType((count, *t.shape), t.element)) for t in types if isinstance(t, TensorType)])
    certain = all(map(is_certain, operation.regions))
    attributes = {"widths": sizes, "last": last, "taken": len(taken), "stacked": tuple(stacked), "certain": certain}
    return Operation(LOOPS, (*rows, *operands), given, attributes, tuple(regions), source.location, source)


def _size(region: Region) -> int:
    return sum(1 + sum(map(_size, o.regions)) for o in region.operations)


def taken_by(operation: Operation) -> list[Value]:
    """The values around a loop that its regions use."""
    return list(dict.fromkeys(v for region in operation.regions for v in captures(region)))


def is_certain(region: Region) -> bool:
    """Whether its operations have no effects and come to an end, so that it may run where it was not chosen."""
    for operation in region.operations:
        record = lookup(operation.name)
        if record is None or record.has_effects or record.traits.regions is RegionSemantics.LOOP:
            return False
        if not all(map(is_certain, operation.regions)):
            return False
    return True
