"""Batches operations of one turn of a loop to operations on all turns at once, by the rules of their declarations.

A value of a turn that differs from turn to turn becomes one with a leading dimension, which has a row for each turn.
A value that is the same in all turns stays as it is. The bits are those of the turns one after the other.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....ops.batch import Batch, Batched, Shape
from ....ops.op import Op, lookup
from ....ops.policy import Policy
from ....ops.traits import RegionSemantics
from ....ops.types import ELEMENT_TYPES, QuantizedType, TensorType
from ...program import BARRIER, Location, Operation, Region, Value
from ..uses import captures
from .fusible import shape_of
from .side_by_side import is_certain, taken_by, together

_SLICE = "stablehlo.dynamic_slice"


class Batcher:
    """Makes the operations of `count` turns, one after the other; they are collected in `operations`."""

    def __init__(self, count: int, constants: dict[Value, Any], policy: Policy, location: Location) -> None:
        self.count, self._constants, self._policy, self._location = count, constants, policy, location
        self.operations: list[Operation] = []
        self._stacked: dict[Value, Value] = {}
        self._repeated: dict[tuple[Value, Shape], Value] = {}
        self._compared: dict[tuple[Value, int], Value] = {}

    def stack(self, value: Value, stacked: Value) -> None:
        """Say which value has a row for each turn."""
        self._stacked[value] = stacked

    def is_stacked(self, value: Value) -> bool:
        return value in self._stacked

    def stacked(self, value: Value) -> Value:
        """The value of all turns, repeated if it is the same in all of them."""
        return self.laid(value, shape_of(value))

    def take(self, operation: Operation) -> bool:
        """Put in what stands for an operation of all turns; False where there is no such thing."""
        record = lookup(operation.name)
        if record is None or record.has_effects:
            return False
        around = [v for r in operation.regions for v in captures(r)]
        if not any(v in self._stacked for v in (*operation.operands, *around)):
            if not all(map(_is_free_of_effects, operation.regions)):
                return False
            self.operations.append(operation)
            return True
        values = (*operation.operands, *operation.results)
        if not all(isinstance(v.type, TensorType) and v.type.is_static for v in values):
            return False
        if any(isinstance(v.type.element, QuantizedType) for v in values if isinstance(v.type, TensorType)):
            return False
        if operation.name == BARRIER:
            for value, result in zip(operation.operands, operation.results, strict=True):
                self._pass_on(value, result, operation)
            return True
        if record.traits.regions is RegionSemantics.LOOP:
            return self._loop(operation)
        if record.traits.regions is RegionSemantics.ONE:
            return self._branches(operation)
        if any(v in self._stacked for v in around):
            return False
        if record.is_elementwise:
            return self._elementwise(operation, record)
        return self._by_rule(operation, record)

    def put(
        self,
        name: str,
        operands: Sequence[Value],
        result: TensorType | Value,
        attributes: Mapping[str, Any],
        like: Operation,
    ) -> Value:
        """Put in an operation with one result, at the place of another one in the source."""
        value = result if isinstance(result, Value) else Value(result)
        self.operations.append(
            Operation(f"stablehlo.{name}", tuple(operands), (value,), dict(attributes), (), like.location)
        )
        return value

    def constant(self, array: np.ndarray, element: str) -> Value:
        """A value that is known."""
        value = Value(TensorType(array.shape, ELEMENT_TYPES[element]))
        self._constants[value] = array
        return value

    def laid(self, value: Value, shape: Shape) -> Value:
        """The value of all turns; a scalar is repeated as a tensor of that shape."""
        stacked = self._stacked.get(value)
        own = shape_of(value)
        if stacked is not None and own == shape:
            return stacked
        key = value, shape
        if key not in self._repeated:
            assert isinstance(value.type, TensorType)
            places = list(range(1, len(shape) + 1)) if own else []
            dimensions = np.array([0, *places] if stacked is not None else places, np.int64)
            t = TensorType((self.count, *shape), value.type.element)
            new = Value(t)
            attributes = {"broadcast_dimensions": dimensions}
            source = (stacked or value,)
            self.operations.append(
                Operation("stablehlo.broadcast_in_dim", source, (new,), attributes, (), self._location)
            )
            self._repeated[key] = new
        return self._repeated[key]

    def region(self, region: Region) -> Region | None:
        """A region of which all arguments and results are stacked; None where there is no such region."""
        found = self._region(region, [True] * len(region.arguments), [True] * len(region.returns))
        return None if found is None else found[0]

    # -- kinds of operations -------------------------------------------------------------------------------------------

    def _pass_on(self, value: Value, result: Value, operation: Operation) -> None:
        if value in self._stacked:
            self._stacked[result] = self._stacked[value]
        else:
            self.operations.append(Operation(BARRIER, (value,), (result,), {}, (), operation.location))

    def _elementwise(self, operation: Operation, record: Op) -> bool:
        types = [v.type for v in (*operation.operands, *operation.results)]
        elements = [t.element for t in types if isinstance(t, TensorType)]
        is_near = record.accuracy.is_near or not record.takes(v.type for v in operation.operands)
        if len(operation.results) != 1 or (is_near and any(e.is_complex or e.name == "f64" for e in elements)):
            return (
                False  # the host's functions of f64 and of complex numbers can depend on what stands beside an element
            )
        shape = shape_of(operation.results[0])
        operands = [self.laid(v, shape) for v in operation.operands]
        self._put_for(operation, operands, operation.attributes)
        return True

    def _by_rule(self, operation: Operation, record: Op) -> bool:
        rule = record.traits.batch
        if rule is None or not record.takes(v.type for v in operation.operands):
            return False
        types, results = (tuple([v.type for v in values]) for values in (operation.operands, operation.results))
        stacked = tuple([v in self._stacked for v in operation.operands])
        batch = Batch(self.count, types, results, operation.attributes, stacked, self._policy)  # type: ignore[arg-type]
        batched = rule(batch)
        if batched is None:
            return operation.name == _SLICE and self._windows(operation)
        operands = [
            self._stacked.get(v, v) if i in batched.shared else self.stacked(v)
            for i, v in enumerate(operation.operands)
        ]
        self._put_for(operation, self._arranged(operands, batched), {**operation.attributes, **batched.attributes})
        return True

    def _arranged(self, operands: list[Value], batched: Batched) -> list[Value]:
        if batched.zero_at is not None and batched.zero_at < len(operands):
            element = operands[batched.zero_at].type.element.name  # type: ignore[union-attr]
            dtype = ELEMENT_TYPES[element].dtype
            operands.insert(batched.zero_at, self.constant(np.zeros((), dtype), element))
        elif batched.zero_at is not None:
            operands.append(self.constant(np.zeros((), np.int32), "i32"))
        return operands[::-1] if batched.swapped else operands

    def _put_for(self, operation: Operation, operands: Sequence[Value], attributes: Mapping[str, Any]) -> None:
        results = []
        for result in operation.results:
            assert isinstance(result.type, TensorType)
            new = Value(TensorType((self.count, *result.type.shape), result.type.element))
            self._stacked[result] = new
            results.append(new)
        self.operations.append(
            Operation(
                operation.name, tuple(operands), tuple(results), dict(attributes), operation.regions, operation.location
            )
        )

    def _windows(self, operation: Operation) -> bool:
        """Windows at a place of its own for each turn, as a gather."""
        source, *starts = operation.operands
        sizes, rank = np.ravel(operation.attributes["slice_sizes"]), len(starts)
        column = [
            self.put("reshape", [self.stacked(s)], TensorType((self.count, 1), s.type.element), {}, operation)  # type: ignore[union-attr]
            for s in starts
        ]
        t = TensorType((self.count, rank), starts[0].type.element)  # type: ignore[union-attr]
        indices = self.put("concatenate", column, t, {"dimension": 1}, operation) if rank > 1 else column[0]
        own = source in self._stacked
        numbers = {
            "offset_dims": list(range(1, rank + 1)),
            "collapsed_slice_dims": [],
            "operand_batching_dims": [0] if own else [],
            "start_indices_batching_dims": [0] if own else [],
            "start_index_map": list(range(own, rank + own)),
            "index_vector_dim": 1,
        }
        attributes = {
            "dimension_numbers": numbers,
            "slice_sizes": np.append(1, sizes) if own else sizes,
            "indices_are_sorted": False,
        }
        like = dataclasses.replace(operation, name="stablehlo.gather")
        self._put_for(like, [self._stacked.get(source, source), indices], attributes)
        return True

    def _loop(self, operation: Operation) -> bool:
        """A loop within a turn that makes as many turns of its own in all of them."""
        condition, body = operation.regions
        stacked = [v in self._stacked for v in operation.operands]
        while True:
            inner = self._region(body, stacked, stacked)
            if inner is None:
                return False
            region, returned = inner
            wider = [a or b for a, b in zip(stacked, returned, strict=True)]
            if wider == stacked:
                break
            stacked = wider
        test = self._region(condition, stacked, [False])
        if test is None:
            return False
        if any(test[1]):
            return self._loops(operation, stacked)
        results = []
        for result, is_stacked in zip(operation.results, stacked, strict=True):
            results.append(Value(self._type(result)) if is_stacked else result)
            if is_stacked:
                self._stacked[result] = results[-1]
        operands = tuple([self.stacked(v) if s else v for v, s in zip(operation.operands, stacked, strict=True)])
        regions = (test[0], region)
        self.operations.append(
            Operation(operation.name, operands, tuple(results), operation.attributes, regions, operation.location)
        )
        return True

    def _loops(self, operation: Operation, stacked: Sequence[bool]) -> bool:
        """A loop within a turn that makes a number of turns of its own in each of them."""
        operands = [self.stacked(v) if s else v for v, s in zip(operation.operands, stacked, strict=True)]
        taken = [v for v in taken_by(operation) if v in self._stacked]
        of_width = functools.partial(self._of_width, taken)
        rows = [self._stacked[v] for v in taken]
        found = together(operation, self.count, operands, taken, rows, stacked, of_width)
        if found is None:
            return False
        self._stacked.update(zip(operation.results, found.results, strict=True))
        self.operations.append(found)
        return True

    def _of_width(
        self, taken: Sequence[Value], count: int, region: Region, stacked: Sequence[bool], wanted: Sequence[bool]
    ) -> Region | None:
        """A region for so many turns, which takes values from around it as its first arguments.

        `stacked` and `wanted` are as for `_region`; None where there is no such region.
        """
        inner = Batcher(count, self._constants, self._policy, self._location)
        arguments = []
        for value in taken:
            inner.stack(value, Value(inner._type(value)))
            arguments.append(inner.stacked(value))
        found = inner._region(region, stacked, wanted)
        if found is None:
            return None
        return Region((*arguments, *found[0].arguments), found[0].operations, found[0].returns)

    def _branches(self, operation: Operation) -> bool:
        """A choice among branches that each turn makes for itself: all are computed, and then chosen from."""
        if not all(map(is_certain, operation.regions)):
            return False
        for region in operation.regions:
            if not all(map(self.take, region.operations)):
                return False
        index = operation.operands[0]
        for i, result in enumerate(operation.results):
            t, shape = self._type(result), shape_of(result)
            branches = [self.laid(r.returns[i], shape) for r in operation.regions]
            if index.type.element.name == "i1":  # type: ignore[union-attr]
                chosen = self.put("select", [self.laid(index, shape), *branches], t, {}, operation)
            else:  # an index that is none counts as the last
                chosen = branches[-1]
                for number, branch in enumerate(branches[:-1]):
                    where = self.laid(self._equals(index, number, operation), shape)
                    chosen = self.put("select", [where, branch, chosen], t, {}, operation)
            self._stacked[result] = chosen
        return True

    def _equals(self, index: Value, number: int, operation: Operation) -> Value:
        """Whether the index of each turn is this number."""
        t, key = TensorType((self.count,), ELEMENT_TYPES["i1"]), (index, number)
        if key not in self._compared:
            known = self.constant(np.full(self.count, number, np.int32), "i32")
            compared = self.put("compare", [self.stacked(index), known], t, {"comparison_direction": "EQ"}, operation)
            self._compared[key] = Value(TensorType((), ELEMENT_TYPES["i1"]))
            self._stacked[self._compared[key]] = compared
        return self._compared[key]

    def _region(
        self, region: Region, stacked: Sequence[bool], wanted: Sequence[bool]
    ) -> tuple[Region, list[bool]] | None:
        """A region of a turn for all turns, and which of the values that it returns are stacked by themselves.

        `stacked` are the arguments that are, and `wanted` the values that are to be returned so in any case.
        """
        inner = Batcher(self.count, self._constants, self._policy, self._location)
        inner._stacked = dict(self._stacked)
        arguments = []
        for value, is_stacked in zip(region.arguments, stacked, strict=True):
            arguments.append(Value(self._type(value)) if is_stacked else value)
            if is_stacked:
                inner.stack(value, arguments[-1])
        for operation in region.operations:
            if not inner.take(operation):
                return None
        is_own = [v in inner._stacked for v in region.returns]
        returns = [
            inner.stacked(v) if own or s else v for v, own, s in zip(region.returns, is_own, wanted, strict=True)
        ]
        return Region(tuple(arguments), inner.operations, tuple(returns)), is_own

    def _type(self, value: Value) -> TensorType:
        assert isinstance(value.type, TensorType)
        return TensorType((self.count, *value.type.shape), value.type.element)


def _is_free_of_effects(region: Region) -> bool:
    return all(
        (record := lookup(o.name)) is not None and not record.has_effects and all(map(_is_free_of_effects, o.regions))
        for o in region.operations
    )
