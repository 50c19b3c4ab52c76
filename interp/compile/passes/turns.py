"""The pass that computes for all turns of a loop at once what they do not need from each other.

The rule. A loop counts from a constant to a constant. What a turn computes without what the turn before gave becomes
operations on all turns at once (`batching.py`), before the loop; so does, after it, what no later turn needs. What is
left is a recurrence over rows (`executors/recurrence.py`). Where nothing is left, as of `lax.map`, there is no loop:
the arrays that it carries are those in which each turn writes a row of its own, or into which it scatters. An
operation that cannot be made one of all turns with the same bits stays in the loop. A loop stays as it is where what
lies between would take too much memory.

States that do not hang on each other are handed on by recurrences of their own (`components.py`): the keys of random
numbers before what is computed with them, and sums of gradients after what they are summed of.

Measured against turn by turn: `lax.map` of x * x + 1 over 10**5 numbers 0.3 ms and 219 ms; the backward pass of an
LSTM of 20 turns 1.2 ms with four recurrences and 2.2 with one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from ....ops.engine.speed import tuning
from ....ops.op import lookup, traits_of
from ....ops.policy import Policy
from ....ops.types import TensorType
from ...program import Operation, Region, Value
from ..compiled_loops.types import is_whole, may_be_compiled
from ..executors.recurrence import chunks
from ..group import RECURRENCE, TURNS
from ..numbers.work import is_small
from .affine import affine_turns_of
from .ahead import read_ahead
from .batching import Batcher
from .components import components, used_by, users
from .find_scans import scan_of
from .forward import forwarded
from .fusible import shape_of
from .loops import KernelOf, Loop, has_products
from .rewriting import with_operations, with_regions

_WHILE = "stablehlo.while"


def batch_turns(
    region: Region, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, is_inner: bool = False
) -> Region:
    """A region, valid and with its constants known, in which loops do no more than they have to turn by turn.

    The new operations are not bound yet. `constants` gets those that they need. `is_inner`: the region is in a loop.
    """
    operations: list[Operation] = []
    for operation in region.operations:
        instead = _instead(operation, constants, policy, kernel_of, is_inner) if _has_loops(operation) else None
        if instead is not None and instead[0].name == TURNS:  # loops within it may be taken apart in their turn
            operations += batch_turns(Region((), instead, ()), constants, policy, kernel_of, is_inner).operations
            continue
        is_in_loop = is_inner or operation.name == _WHILE
        inside = [batch_turns(r, constants, policy, kernel_of, is_in_loop) for r in operation.regions]
        new = with_regions(operation, inside)
        instead = None
        if new.name == _WHILE:
            instead = _instead(new, constants, policy, kernel_of, is_inner)
        operations += [new] if instead is None else instead
    return with_operations(region, operations)


def _has_loops(operation: Operation) -> bool:
    """Whether an op is a loop that has others in it."""
    return operation.name == _WHILE and any(o.name == _WHILE for r in operation.regions for o in _all(r))


def _all(region: Region) -> Iterator[Operation]:
    for operation in region.operations:
        yield operation
        for inner in operation.regions:
            yield from _all(inner)


def _instead(
    operation: Operation, constants: dict[Value, Any], policy: Policy, kernel_of: KernelOf, is_inner: bool
) -> list[Operation] | None:
    """What stands for a loop; None where it has to stay."""
    loop = Loop(operation, constants, policy, kernel_of)
    if not loop.read():
        return None
    before: list[Operation] = []
    found = forwarded(loop, constants)
    if found is not None:
        before, operation = found
        loop = Loop(operation, constants, policy, kernel_of)
        loop.read()
    least = tuning().recurrence_products if has_products(loop.turn) else tuning().recurrence_turns
    if loop.states and (loop.count < least or scan_of(operation, constants) is not None):
        return None
    # A turn costs a few nanoseconds where it is compiled, in time.
    is_compiled = bool(loop.states) and may_be_compiled(operation, is_whole)
    if is_compiled and (is_inner or loop.count > tuning().composed_turns):
        return None
    groups = components(loop.turn, loop.states, tuning().recurrences_most) if len(loop.states) > 1 else []
    instead = _parted(loop, groups) if len(groups) > 1 else None
    instead = instead or _parted(loop, [loop.states] if loop.states else [])
    if instead is None or (is_compiled and not _are_composed(instead, constants, policy)):
        return None
    first = 0 if loop.states else 1  # the note that turns are side by side stays in front
    return [*instead[:first], *before, *instead[first:]]


def _are_composed(operations: Iterable[Operation], constants: dict[Value, Any], policy: Policy) -> bool:
    """Whether all recurrences among some operations take no turns one after the other."""
    return all(o.name != RECURRENCE or affine_turns_of(o, constants, policy) is not None for o in operations)


def _parted(loop: Loop, states: list[list[int]]) -> list[Operation] | None:
    """What stands for a loop, with a recurrence for each group of states; None where there is no such thing."""
    inside: set[Operation] = set()
    for _ in range(tuning().recurrence_attempts if states else 1):
        parts = _Parts(loop, states, inside)
        failed = parts.split()
        if failed is None:
            most = max(tuning().between_bytes, loop.count * tuning().between_numbers)
            fits = parts.memory() <= tuning().turns_bytes and parts.between <= most
            return parts.operations() if fits and parts.rows() <= tuning().rows_bytes else None
        inside.add(failed)
    return None


class _Parts:
    """The operations of a loop: before its recurrences, in them, between and after them.

    `states` are the places of what each recurrence hands on; none needs what a later one does. `inside` are some
    operations that are in one of them anyway.
    """

    def __init__(self, loop: Loop, states: list[list[int]], inside: Iterable[Operation]) -> None:
        self._loop, self._states, self._inside = loop, states, set(inside)
        self._batcher = Batcher(loop.count, loop.constants, loop.policy, loop.operation.location)
        self._changed = [v for update, _ in loop.arrays.values() for v in update.operands[1:]]
        self._returns = [[loop.turn.returns[i] for i in places] for places in states]
        self._carried = [[loop.turn.arguments[i] for i in places] for places in states]
        #: In which recurrence operations are that could be in none or in a later one.
        self._placed: dict[Operation, int] = {}
        self.between = 0  #: the bytes of what is kept of all turns because there is more than one recurrence

    def split(self) -> Operation | None:
        """Make all operations; gives one that cannot be made for all turns at once, None if there is none."""
        loop, batcher = self._loop, self._batcher
        loop.name_again(batcher)
        self._sort()
        within, others, masks = self._sort()
        for k in range(len(self._states) + 1):
            for operation in others[k]:
                if not loop.take(operation, batcher):
                    return operation
            if k == len(self._states):
                break
            made = {*self._carried[k], *(r for o in within[k] for r in o.results)}
            later = [*chain(*within[k + 1 :]), *(o for o in chain(*others[k + 1 :]) if o in masks)]
            for_others = [v for o in later for v in used_by(o)] + [*chain(*self._returns[k + 1 :])]
            at_the_end = [v for o in chain(*others[k + 1 :]) if o not in masks for v in used_by(o)] + self._changed
            given = [v for v in dict.fromkeys((*at_the_end, *for_others)) if v in made]
            self.between += loop.count * sum(map(_nbytes, set(given).difference(at_the_end)))
            self._put_recurrence(k, within[k], given)
        loop.finish(batcher)
        return None

    def _sort(self) -> tuple[list[list[Operation]], list[list[Operation]], dict[Operation, int]]:
        """The operations in each recurrence, those before each and after the last, and which recurrences want each.

        It is called twice: what is found to be in a recurrence anyway takes what it needs there.
        """
        loop, count = self._loop, len(self._states)
        wanted = loop.needed([*self._changed, *chain(*self._returns)])
        targets = {k: [*values] for k, values in enumerate(self._returns)}
        for operation, k in self._placed.items():
            targets[k] += operation.results
        masks = users(loop.turn, targets)
        latest = {v: k for k, values in enumerate(self._carried) for v in values}  # the last one that a value needs
        within: list[list[Operation]] = [[] for _ in range(count)]
        others: list[list[Operation]] = [[] for _ in range(count + 1)]
        between: list[Operation] = []
        places: dict[Value, int] = {}  # before which recurrence values are computed
        for operation in loop.turn.operations:
            if operation not in wanted:
                continue
            mask, last = masks.get(operation, 0), max((latest.get(v, -1) for v in used_by(operation)), default=-1)
            is_between = last >= 0 and mask != 0 and not mask >> last & 1
            if operation in self._inside or (is_between and _is_large(operation)):
                first = (mask & -mask).bit_length() - 1 if mask else count - 1
                last = self._placed[operation] = max(last, self._placed.get(operation, first))
                within[last].append(operation)
            elif last >= 0 and _is_part(operation, self._carried[last]):
                self._placed[operation] = last
                within[last].append(operation)
            elif last >= 0 and mask >> last & 1:
                within[last].append(operation)
            else:
                # Not before something needs it: what is made of all turns takes memory until it has been used.
                first = (mask & -mask).bit_length() - 1
                place = max(last + 1, first, *(places.get(v, 0) for v in used_by(operation)))
                places.update(dict.fromkeys(operation.results, place))
                others[place].append(operation)
                between += [operation] * is_between
            latest.update(dict.fromkeys(operation.results, last))
        self.between = loop.count * sum(map(_nbytes, _kept(between, within)))
        return within, others, masks

    def operations(self) -> list[Operation]:
        loop = self._loop
        source = loop.operation.origin or loop.operation
        note = Operation(TURNS, (), (), {"count": loop.count}, (), source.location, source)
        return [*([] if loop.states else [note]), *self._batcher.operations]

    def memory(self) -> int:
        """The bytes of what is computed for all turns at once and kept."""
        return sum(map(self._loop.memory, self._batcher.operations))

    def rows(self) -> int:
        """The bytes of what is computed for all turns and handed to recurrences."""
        operations = self._batcher.operations
        made = {r for o in operations for r in o.results}
        taken = {v for o in operations if o.name == RECURRENCE for v in o.operands}
        return sum(map(_nbytes, taken & made))

    def _put_recurrence(self, k: int, within: list[Operation], given: list[Value]) -> None:
        """Put in a recurrence; `given` are the values of a turn that are wanted after it."""
        loop, batcher, states, returns = self._loop, self._batcher, self._carried[k], self._returns[k]
        made = {*states, *(r for o in within for r in o.results)}
        rows: list[Value] = []
        for value in dict.fromkeys([v for o in within for v in used_by(o)] + returns):
            if value not in made and loop.is_stacked(value, batcher):
                rows.append(value)
        turn = Region((*states, *rows), within, (*returns, *given))
        regions = (turn,)
        settles = all(map(_settles, states)) and all(map(_is_elementwise, within))
        number = chunks(loop.count)[0]
        if settles and number > 1 and loop.count * _worth(within) >= tuning().chunked_turns:
            many = self._batched(number, turn)
            regions = (turn,) if many is None else (turn, many)
        found = None if settles or len(states) != 1 else read_ahead(turn, loop.count, loop.constants, self._batched)
        if found is not None:
            regions = (turn, *found[1])
        stacked = [Value(TensorType((loop.count, *shape_of(v)), v.type.element)) for v in given]  # type: ignore[union-attr]
        operands = (*(loop.operation.operands[i] for i in self._states[k]), *(batcher.stacked(v) for v in rows))
        results = (*(loop.operation.results[i] for i in self._states[k]), *stacked)
        attributes: dict[str, Any] = {"count": loop.count, "states": len(states)}
        if found is not None:
            attributes["ahead"] = found[0]
        source = loop.operation.origin or loop.operation
        batcher.operations.append(
            Operation(RECURRENCE, operands, results, attributes, regions, source.location, source)
        )
        for value, all_turns in zip(given, stacked, strict=True):
            batcher.stack(value, all_turns)

    def _batched(self, count: int, region: Region) -> Region | None:
        """A region of a turn for so many turns."""
        loop = self._loop
        return Batcher(count, loop.constants, loop.policy, loop.operation.location).region(region)


def _kept(between: Sequence[Operation], within: Sequence[Sequence[Operation]]) -> list[Value]:
    """What some operations give for all turns, but what others of them take that are fused with those."""
    taken = {v for o in chain(*within) for v in used_by(o)}
    taken.update(v for o in between if not _is_elementwise(o) for v in used_by(o))
    return [v for o in between for v in o.results if v in taken or not _is_elementwise(o)]


def _settles(state: Value) -> bool:
    """Whether a state is one of floats, or of complex numbers, that is not large."""
    t = state.type
    if not isinstance(t, TensorType):
        return False
    return (t.element.is_float or t.element.is_complex) and t.nbytes <= tuning().chunk_bytes


def _worth(within: Sequence[Operation]) -> float:
    """How much more chunks gain than with a turn of sums of single numbers, by the estimates of `tuning`."""
    now, rows, chunked = tuning(), 0.0, 0.0
    for operation in within:
        t, record = operation.results[0].type, lookup(operation.name)
        assert isinstance(t, TensorType)
        is_near = record is not None and record.accuracy.is_near
        cost = now.array_function_cost if is_near else now.array_cost
        number = now.number_function_cost if is_near else now.number_cost
        rows += min(cost, number * t.size) if is_small(t) else cost
        chunked += cost
    return rows / chunked * now.array_cost / now.number_cost if within else 1.0


def _is_elementwise(operation: Operation) -> bool:
    """Whether an op lets each element of a state settle by itself. Where they are mixed, last bits go on differing."""
    record = lookup(operation.name)
    return record is not None and (record.is_elementwise or record.traits.scalar is not None)


def _nbytes(value: Value) -> int:
    return value.type.nbytes if isinstance(value.type, TensorType) else 0


def _is_part(operation: Operation, states: Sequence[Value]) -> bool:
    """Whether an op takes a part of a state that is so small that keeping the state of all turns costs more."""
    traits, given = traits_of(operation.name), sum(map(_nbytes, operation.results))
    if traits.starts != 1 and not traits.moves:
        return False
    return any(v in states and _nbytes(v) >= tuning().part_of * given for v in operation.operands)


def _is_large(operation: Operation) -> bool:
    """Whether what an op gives is so large that keeping it for all turns costs more than a call in each turn."""
    return sum(map(_nbytes, operation.results)) > tuning().between_large
