"""The pass that reads an array, in a loop, before a part of it is written over.

The rule. Before an update or a scatter of an array comes all that reads the array and does not depend on what is
written. Nothing needs the array then, so it is changed in place. Where two arrays would each have to wait for the
other, the one that is written first does not wait.

Measured with numpy, 10**4 turns of `(c.at[i].add(c[j]), c[j])` on 1,000 rows of 10 numbers: 190 ms and 70.
"""

from __future__ import annotations

from ....ops.op import lookup, traits_of
from ....ops.traits import RegionSemantics
from ...program import Operation, Region, Value
from ..uses import uses_of
from .components import used_by
from .rewriting import with_operations, with_regions


def writes_last(region: Region, is_in_loop: bool = False) -> Region:
    """The region, in whose loops arrays are read before they are changed; the same object where nothing moves."""
    operations: list[Operation] = []
    for operation in region.operations:
        kind = traits_of(operation.name).regions
        if kind in (RegionSemantics.LOOP, RegionSemantics.ONE):
            inner = is_in_loop or kind is RegionSemantics.LOOP
            operation = with_regions(operation, [writes_last(r, inner) for r in operation.regions])
        operations.append(operation)
    if is_in_loop:
        operations = _Order(Region(region.arguments, operations, region.returns)).operations()
    return with_operations(region, operations)


class _Order:
    """The operations of a region, those that read an array before those that write to it."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._ordered: list[Operation] = []
        self._done = self._begun = 0  # masks of operations: those in order, and writes whose readers come first
        self._needs: list[int] = []  # of each operation, the mask of all that it depends on
        self._readers: dict[int, list[int]] = {}  # of each write, those of the array that do not depend on it

    def operations(self) -> list[Operation]:
        """All in their order."""
        operations = self._region.operations
        writes = [k for k, o in enumerate(operations) if o.results and traits_of(o.name).overwrites == 0]
        if not writes or any((record := lookup(o.name)) is None or record.has_effects for o in operations):
            return operations
        places, users = {o: k for k, o in enumerate(operations)}, uses_of(self._region)
        late = {k: [u for u in users[operations[k].operands[0]] if u is not None and places[u] > k] for k in writes}
        if not any(late.values()):
            return operations
        made: dict[Value, int] = {}
        for k, operation in enumerate(operations):
            needs = 0
            for value in used_by(operation):
                needs |= made.get(value, 0)
            self._needs.append(needs)
            made.update(dict.fromkeys(operation.results, needs | 1 << k))
        self._readers = {k: [places[u] for u in us if not self._needs[places[u]] >> k & 1] for k, us in late.items()}
        for k in range(len(operations)):
            self._put(k)
        return self._ordered

    def _put(self, place: int) -> None:
        """Put an operation into the order, and before it all that comes before it."""
        if self._done >> place & 1:
            return
        self._done |= 1 << place
        self._begun |= 1 << place
        for reader in self._readers.get(place, ()):
            if self._needs[reader] & self._begun or self._done >> reader & 1:
                continue
            missing = self._needs[reader] & ~self._done
            while missing:
                first = missing & -missing
                self._put(first.bit_length() - 1)
                missing = self._needs[reader] & ~self._done
            self._put(reader)
        self._begun &= ~(1 << place)
        self._ordered.append(self._region.operations[place])
