"""Branches between blocks and the `scf` dialect -> ops with regions: stablehlo.if, case and while.

A region of several blocks becomes a loop over them. Its state is the number of the next block, what that block takes,
the values that blocks other than the first define for each other, and the results:

    state = first block; while (next != end): state = case next of: the operations of that block, and its branch
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxlib.mlir import ir

from ...ops.types import ELEMENT_TYPES, TensorType, TokenType, TupleType, Type
from ..errors import UnsupportedError
from ..program import BARRIER, CONSTANT, Location, Operation, Region, Value
from .attributes import Opaque
from .rewriting import list_operations

if TYPE_CHECKING:
    from .reader import Reader

_INDEX, _FLAG = TensorType((), ELEMENT_TYPES["i32"]), TensorType((), ELEMENT_TYPES["i1"])


class Builder:
    """Collects the operations of a region, all at one place of the source."""

    def __init__(self, location: Location) -> None:
        self.location = location
        self.operations: list[Operation] = []

    def add(
        self, name: str, operands: Sequence[Value], types: Sequence[Type], *regions: Region, **attributes: Any
    ) -> tuple[Value, ...]:
        """Add an operation and return its results."""
        results = tuple([Value(t) for t in types])
        self.define(name, operands, results, *regions, **attributes)
        return results

    def define(
        self, name: str, operands: Sequence[Value], results: Sequence[Value], *regions: Region, **attributes: Any
    ) -> None:
        """Add an operation that gives these results."""
        self.operations.append(Operation(name, tuple(operands), tuple(results), attributes, regions, self.location))

    def number(self, value: int, t: Type = _INDEX) -> Value:
        """Add a constant of one number; of a type of unknown sizes one without elements, of a token a token."""
        if isinstance(t, TokenType):
            return self.add("stablehlo.create_token", (), (t,))[0]
        if isinstance(t, TupleType):
            return self.add("stablehlo.tuple", [self.number(value, e) for e in t.elements], (t,))[0]
        if not isinstance(t, TensorType):
            raise UnsupportedError(f"{self.location}: a value of type {t} between blocks is not supported")
        shape = [n or 0 for n in t.shape]
        zero = np.broadcast_to(np.array(value).astype(t.element.dtype), shape)
        return self.add(CONSTANT, (), (t,), value=zero)[0]

    def same(self, value: Value, result: Value) -> None:
        """Make `result` the value."""
        self.define(BARRIER, (value,), (result,))

    def choose(self, chooser: Value, branches: Sequence[Region], results: Sequence[Value]) -> None:
        """Add the op that runs the branch which a flag (the first if it is true) or an index chooses."""
        name = "stablehlo.if" if chooser.type == _FLAG else "stablehlo.case"
        self.define(name, (chooser,), results, *branches)

    def position(self, number: Value, among: Sequence[int]) -> Value:
        """Add the position of a number in a list, from 1; 0 where it is not there."""
        position = self.number(0)
        for i, case in enumerate(among):
            (is_equal,) = self.add(
                "stablehlo.compare", (number, self.number(case, number.type)), (_FLAG,), comparison_direction="EQ"
            )
            (position,) = self.add("stablehlo.select", (is_equal, self.number(i + 1), position), (_INDEX,))
        return position

    def less(self, x: Value, y: Value) -> Value:
        """Add whether an integer is less than another."""
        return self.add("stablehlo.compare", (x, y), (_FLAG,), comparison_direction="LT")[0]

    def region(self, arguments: Sequence[Value], returns: Sequence[Value]) -> Region:
        """The region of what was added."""
        return Region(tuple(arguments), self.operations, tuple(returns))


# -- scf ---------------------------------------------------------------------------------------------------------------


def _for(build: Builder, op: Operation) -> None:
    lower, upper, step, *initial = op.operands
    body = op.regions[0]
    test = Builder(build.location)
    state = [Value(v.type) for v in body.arguments]
    if op.attributes.get("unsignedCmp"):
        (is_less,) = test.add("arith.cmpi", (state[0], upper), (_FLAG,), predicate=6)
    else:
        is_less = test.less(state[0], upper)
    condition = test.region(state, (is_less,))
    end = Builder(build.location)
    (after,) = end.add("stablehlo.add", (body.arguments[0], step), (lower.type,))
    iteration = Region(body.arguments, [*body.operations, *end.operations], (after, *body.returns))
    build.define("stablehlo.while", (lower, *initial), (Value(lower.type), *op.results), condition, iteration)


def _while(build: Builder, op: Operation) -> None:
    """The state is whether to go on, what the first region takes, and what it passes on, which is the result."""
    before, after = op.regions
    go_on, *passed = before.returns
    nothing = [build.number(0, r.type) for r in op.results]
    forward = Builder(build.location)
    for value, argument in zip(passed, after.arguments, strict=True):
        forward.same(value, argument)
    again = Region((), [*forward.operations, *after.operations], after.returns)
    body = Builder(build.location)
    body.operations += before.operations
    state = [Value(v.type) for v in before.arguments]
    body.choose(go_on, (again, Region((), [], before.arguments)), state)
    flag = Value(_FLAG)
    types = [v.type for v in (*before.arguments, *op.results)]
    condition = Region((flag, *(Value(t) for t in types)), [], (flag,))
    arguments = (Value(_FLAG), *before.arguments, *(Value(r.type) for r in op.results))
    build.define(
        "stablehlo.while",
        (build.number(1, _FLAG), *op.operands, *nothing),
        (Value(_FLAG), *(Value(v.type) for v in before.arguments), *op.results),
        condition,
        body.region(arguments, (go_on, *state, *passed)),
    )


def _named_computation(build: Builder, op: Operation) -> None:
    body = op.regions[0]
    if len(op.operands) != len(body.arguments) or len(op.results) != len(body.returns):
        given = f"{len(body.arguments)} arguments and {len(body.returns)} results"
        raise UnsupportedError(f"{build.location}: expected a region of the op's operands and results, got {given}")
    for operand, argument in zip(op.operands, body.arguments, strict=True):
        build.same(operand, argument)
    build.operations += body.operations
    for value, result in zip(body.returns, op.results, strict=True):
        build.same(value, result)


#: What is added for each op of `scf` and `cf` that is not a branch, and for computations that only have a name.
STRUCTURED: dict[str, Callable[[Builder, Operation], None]] = {
    "scf.if": lambda build, op: build.choose(op.operands[0], op.regions, op.results),
    "scf.index_switch": lambda build, op: build.choose(
        build.position(op.operands[0], op.attributes["cases"]), op.regions, op.results
    ),
    "scf.execute_region": lambda build, op: build.choose(build.number(0), op.regions, op.results),
    "scf.for": _for, "scf.while": _while,
    "cf.assert": lambda build, op: build.operations.append(Operation(
        "stablehlo.custom_call", op.operands, (), {"call_target_name": "shape_assertion",
        "error_message": op.attributes.get("msg", "the assertion does not hold")}, (), build.location, op,
    )),
    "sdy.named_computation": _named_computation,
    "mhlo.add_dependency": lambda build, op: build.same(op.operands[0], op.results[0]),
}  # fmt: skip


# -- blocks ------------------------------------------------------------------------------------------------------------


def read_blocks(reader: Reader, op: ir.Operation, region: ir.Region) -> Region:
    """Read a region of several blocks as one whose operations are a first block and a loop over the others.

    Raises UnsupportedError where a block ends otherwise than by a branch of `cf` or a return.
    """
    return _Blocks(reader, op, list(region.blocks)).read()


class _Blocks:
    def __init__(self, reader: Reader, op: ir.Operation, blocks: list[ir.Block]) -> None:
        self._reader, self._op, self._blocks = reader, op, blocks
        self._numbers = {block: i for i, block in enumerate(blocks)}
        self._homes: dict[ir.Value, int] = {}  # the number of the block that defines each value
        self._location = reader.locate(op.location)

    def read(self) -> Region:
        reader, first = self._reader, self._blocks[0]
        arguments = tuple([reader.define(self._op, v) for v in first.arguments])
        self._shared = self._values_between_blocks()
        results = next(
            (list(t.operands) for b in self._blocks if not list((t := reader.operations_in(b)[-1]).successors)), []
        )
        #: What is passed to each block; the last entry is what the region returns.
        taken = [[reader.type_of(self._op, v.type) for v in b.arguments] for b in self._blocks]
        taken.append([reader.type_of(self._op, v.type) for v in results])
        self._starts = [1]
        for types in taken[1:]:
            self._starts.append(self._starts[-1] + len(types))
        shared = [reader.type_of(self._op, v.type) for v in self._shared]
        types = [_INDEX, *(t for ts in taken[1:] for t in ts), *shared]
        self._size = self._starts[-1]

        entry = Builder(self._location)
        entry.operations += self._body(first)
        initial = [entry.number(0, t) for t in types]
        state = self._branch(entry, first, initial)
        test, last = Builder(self._location), len(self._blocks)
        now = [Value(t) for t in types]
        condition = test.region(now, (test.less(now[0], test.number(last)),))
        loop, state_in = Builder(self._location), [Value(t) for t in types]
        one = loop.number(1)
        (number,) = loop.add("stablehlo.subtract", (state_in[0], one), (_INDEX,))
        branches = [self._iteration(i, state_in) for i in range(1, last)]
        state_out = [Value(t) for t in types]
        loop.define("stablehlo.case", (number,), state_out, *branches)
        ended = entry.add("stablehlo.while", state, types, condition, loop.region(state_in, state_out))
        return entry.region(arguments, ended[self._starts[-2] : self._size])

    def _values_between_blocks(self) -> list[ir.Value]:
        """The values that a block other than the first defines and another one uses."""
        for i, block in enumerate(self._blocks):
            results = [r for op in self._reader.operations_in(block) for r in op.results]
            self._homes.update(dict.fromkeys([*block.arguments, *results], i))
        shared: dict[ir.Value, None] = {}
        for i, block in enumerate(self._blocks):
            for inner in (o for op in self._reader.operations_in(block) for o in list_operations(op)):
                shared.update(dict.fromkeys(v for v in inner.operands if self._homes.get(v, 0) not in (0, i)))
        return list(shared)

    def _body(self, block: ir.Block) -> list[Operation]:
        return [o for op in self._reader.operations_in(block)[:-1] for o in self._reader.read_operation(op)]

    def _iteration(self, number: int, state: Sequence[Value]) -> Region:
        """The branch that runs a block: a region from the state to the next one."""
        block, build = self._blocks[number], Builder(self._location)
        start = self._starts[number - 1]
        for i, argument in enumerate(block.arguments):
            build.same(state[start + i], self._reader.define(self._op, argument))
        for i, value in enumerate(self._shared):
            if self._homes[value] != number:
                build.same(state[self._size + i], self._reader.define(self._op, value))
        build.operations += self._body(block)
        return build.region((), self._branch(build, block, state))

    def _branch(self, build: Builder, block: ir.Block, state: Sequence[Value]) -> list[Value]:
        """Add what a block ends with, and return the state after it."""
        end, result = self._reader.operations_in(block)[-1], list(state)
        for i, value in enumerate(self._shared):
            if self._homes[value] == self._numbers[block]:
                result[self._size + i] = self._reader.value_of(end, value)
        operands = list(self._reader.operands_of(end))
        targets = self._targets(end, operands)
        if len(targets) == 1:
            self._go(build, result, *targets[0])
            return result
        chooser = operands[0]
        if end.name == "cf.switch":
            chooser = build.position(chooser, _integers(self._reader.attributes_of(end).get("case_values")))
        regions, states = [], []
        for number, values in targets:
            region, after = Builder(self._location), list(result)
            self._go(region, after, number, values)
            regions.append(region)
            states.append(after)
        changed = [i for i in range(self._size) if any(s[i] is not result[i] for s in states)]
        chosen = [Value(result[i].type) for i in changed]
        build.choose(
            chooser, [r.region((), [s[i] for i in changed]) for r, s in zip(regions, states, strict=True)], chosen
        )
        for i, value in zip(changed, chosen, strict=True):
            result[i] = value
        return result

    def _go(self, build: Builder, state: list[Value], number: int, values: Sequence[Value]) -> None:
        """Change the state to one in which a block is the next and takes these values."""
        state[0] = build.number(number)
        start = self._starts[number - 1]
        state[start : start + len(values)] = values

    def _targets(self, end: ir.Operation, operands: list[Value]) -> list[tuple[int, list[Value]]]:
        """Return the number of each block that may follow, in the order of `Builder.choose`, and what it takes."""
        numbers = [self._numbers[b] for b in end.successors]
        if not numbers:
            return [(len(self._blocks), operands)]
        if end.name == "cf.br":
            return [(numbers[0], operands)]
        attributes = self._reader.attributes_of(end)
        if end.name not in ("cf.cond_br", "cf.switch"):
            raise self._reader.unsupported(end, "expected cf.br, cf.cond_br, cf.switch or a return as a block's end")
        sizes = list(attributes["operandSegmentSizes"])[1:]
        if end.name == "cf.switch":
            sizes = [sizes[0], *(attributes.get("case_operand_segments") or ())]
        targets, at = [], 1
        for number, size in zip(numbers, sizes, strict=True):
            targets.append((number, operands[at : at + size]))
            at += size
        return targets


def _integers(value: Any) -> list[int]:
    """The numbers of a vector's constant, which is kept as its text."""
    if not isinstance(value, Opaque):
        return []
    numbers = [int(n) for n in re.findall(r"-?\d+", value.text.partition(" : ")[0])]
    count = re.search(r"vector<(\d+)x", value.text)
    return numbers * (int(count[1]) if count and len(numbers) == 1 else 1)
