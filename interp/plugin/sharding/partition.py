"""Programs for several devices: the whole program runs once, on arguments that are joined from the devices' parts.

The shardings of the program say how arguments and results are divided. If they say nothing of a result we choose, and
the framework asks for the choice: in the form of an "optimized program", of which it reads only the types, layouts and
shardings. Each addend of an unreduced argument or result is a tensor of its own (see `unreduced`).
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ops.processes import parallel
from ....ops.processes.sharded import Sharding, cut
from ....ops.types import TensorType, Type
from ... import machine
from ...errors import ProgramError
from ...parse import sharding
from ...parse.attributes import Opaque
from ...planner import Plan
from ...program import Function, Operation, Program
from .. import host_callbacks, layouts
from ..layouts import Place
from ..pjrt import protobuf
from . import parts, unreduced
from .propagation import fitting, propagate, refined


@dataclasses.dataclass(frozen=True)
class Tiling:
    """The division of a tensor over devices.

    Attributes:
        whole: The shape of the tensor.
        parts: The number of parts along each dimension.
        places: Of each device, the number of its part along each dimension.
        addends: The number of tensors of which it is the sum.
        numbers: Of each device, the number of the addend of which it has a part; empty if there is only one.
        is_direct: Whether the program takes or gives the parts themselves.
        is_manual: Whether it is a device's own part in a manual computation, of which no more is known.
        reduction: What the addends are combined by: `sum`, `max` or `min`.
    """

    whole: tuple[int, ...]
    parts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    addends: int = 1
    numbers: tuple[int, ...] = ()
    is_direct: bool = False
    is_manual: bool = False
    reduction: str = "sum"

    @property
    def count(self) -> int:
        """The number of values of the program that it stands for."""
        return len(self.places) if self.is_direct else self.addends

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one part."""
        return tuple(n // c for n, c in zip(self.whole, self.parts, strict=True))

    @functools.cached_property
    def is_cut(self) -> bool:
        """Whether it has more than one part."""
        return math.prod(self.parts) > 1

    @functools.cached_property
    def slices(self) -> dict[tuple[int, ...], tuple[slice, ...]]:
        """Where each part is in the whole."""
        return {place: cut(self.whole, self.parts, place) for place in self.places}

    def join(self, parts: Sequence[Any]) -> list[Any]:
        """Return the values that the program takes for the parts of the devices."""
        if self.is_direct:
            return list(parts)
        if not self.numbers:
            return [self._join_one(parts, range(len(parts)))]
        return [
            self._join_one(parts, [d for d, n in enumerate(self.numbers) if n == number])
            for number in range(self.addends)
        ]

    def _join_one(self, parts: Sequence[Any], devices: Sequence[int]) -> Any:
        """The tensor of which some devices have parts."""
        if not self.is_cut:
            return parts[devices[0]]
        whole = np.empty(self.whole, parts[0].dtype)
        for place, part in {self.places[d]: parts[d] for d in devices}.items():
            whole[self.slices[place]] = part
        return whole

    def divide(self, wholes: Sequence[Any]) -> list[Any]:
        """Return each device's part of the values that the program gives. Devices with the same part share an array."""
        if self.is_direct:
            return list(wholes)
        keys = list(zip(self.numbers or (0,) * len(self.places), self.places, strict=True))
        if not self.is_cut:
            return [wholes[number] for number, _ in keys]
        parts = {
            (number, place): np.ascontiguousarray(np.asarray(wholes[number])[self.slices[place]])
            for number, place in dict.fromkeys(keys)
        }
        return [parts[key] for key in keys]

    def message(self) -> bytes:
        """Return a serialized OpSharding."""
        if self.is_manual:
            return protobuf.message((1, _MANUAL))
        reduction: list[tuple[int, Any]] = []
        if self.reduction != "sum":  # as Shardy writes it
            reduction.append((7, protobuf.message((1, "sdy::reduction_op"), (2, self.reduction.upper()))))
        if self.addends == len(self.places) > 1:
            return protobuf.message((1, _UNREDUCED), *reduction)
        if not self.is_cut and self.addends == 1:
            return b""
        holders: dict[tuple[tuple[int, ...], int], list[int]] = {}
        numbers = self.numbers or (0,) * len(self.places)
        for device, key in enumerate(zip(self.places, numbers, strict=True)):
            holders.setdefault(key, []).append(device)
        order = [(place, number) for place in np.ndindex(*self.parts) for number in range(self.addends)]
        devices = [d for key in order for d in holders[key]]
        copies = len(devices) // len(order)
        dims, kinds = list(self.parts), []
        for kind, count in ((_UNREDUCED, self.addends), (_REPLICATED, copies)):
            if count > 1:
                dims.append(count)
                kinds.append(kind)
        last = [(6, 1)] if kinds == [_REPLICATED] else [(8, kinds)] if kinds else []
        return protobuf.message((1, _OTHER), (3, dims), (4, devices), *last, *reduction)


#: Types of an OpSharding.
_REPLICATED, _TUPLE_SHARDING, _OTHER, _MANUAL, _UNREDUCED = 0, 2, 3, 4, 6


class Partition:
    """The division of the arguments and results of a function over devices.

    Attributes:
        program: The program to run, in which addends and some parts are values of their own.
        function: The function of it to run.
        arguments, results: Their divisions.
    """

    def __init__(self, function: Function, program: Program, devices: int) -> None:
        """Raises ProgramError for a sharding, or an op on unreduced values, that is not supported."""
        self._declared, self._devices = function, devices
        self.program, self.function = program, function
        arguments, results = (
            [_read_sharding(a, program) for a in function.attributes.get(name) or ({},) * len(types)]
            for name, types in (("arg_attrs", function.argument_types), ("res_attrs", function.result_types))
        )
        self.arguments = [_tiling(t, s, devices) for t, s in zip(function.argument_types, arguments, strict=True)]
        if devices > 1:
            chosen = propagate(program, function, functools.partial(_observe, devices))
            results = [
                s if isinstance(s, str) else refined(s, c, t)
                for s, c, t in zip(results, chosen, function.result_types, strict=True)
            ]
        self.results = [_tiling(t, s, devices) for t, s in zip(function.result_types, results, strict=True)]
        if devices > 1:
            known = [[None if isinstance(s, str) else s for s in each] for each in (arguments, results)]
            self.program, self.function = unreduced.expanded(program, function, *known)
            self._use_parts(*known)

    def _use_parts(self, arguments: list[Sharding | None], results: list[Sharding | None]) -> None:
        """Let the program take and give parts where it can. Addends are whole."""
        flat = [
            [s if tiling.count == 1 else None for tiling, s in zip(*pair, strict=True) for _ in range(tiling.count)]
            for pair in ((self.arguments, arguments), (self.results, results))
        ]
        rewritten = parts.with_parts(self.program, self.function, *flat)
        if rewritten.function is self.function:
            return
        self.function = rewritten.function
        functions = {**self.program.functions, self.function.name: self.function}
        self.program = dataclasses.replace(self.program, functions=functions)
        for tilings, numbers in ((self.arguments, rewritten.arguments), (self.results, rewritten.results)):
            first = 0
            for i, tiling in enumerate(tilings):
                if first in numbers:
                    tilings[i] = dataclasses.replace(tiling, is_direct=True)
                first += tiling.count

    def run(
        self, plan: Plan, replicas: int, arguments: Sequence[Sequence[Any]], process: parallel.Process | None
    ) -> list[Any]:
        """Return the results of all devices, replica by replica."""
        n = self._devices
        columns = [list(zip(*arguments[r * n : (r + 1) * n], strict=True)) for r in range(replicas)]
        wholes = [
            [whole for tiling, parts in zip(self.arguments, each, strict=True) for whole in tiling.join(parts)]
            for each in columns
        ]
        if replicas > 1:
            results = machine.run_grid(plan, replicas, 1, wholes, process)
        else:
            results = [machine.run(plan, wholes[0], process)]
        flat: list[Any] = []
        for values in map(iter, results):
            divided = [tiling.divide(list(itertools.islice(values, tiling.count))) for tiling in self.results]
            flat += [parts[i] for i in range(n) for parts in divided]
        return flat

    def optimized_program(self, replicas: int) -> bytes:
        """Return an HloModuleProtoWithConfig of the right types, layouts and shardings, without the computation."""
        message = protobuf.message
        function, (argument_places, result_places) = self._declared, layouts.places(self._declared)
        arguments = list(map(_shape_message, function.argument_types, self.arguments, argument_places))
        results = list(map(_shape_message, function.result_types, self.results, result_places))
        result = message((2, _TUPLE), *[(4, r) for r in results])
        shape = message(*[(1, a) for a in arguments], (2, result), *[(3, f"p{i}") for i in range(len(arguments))])
        count, root = len(arguments), len(arguments) + len(results) + 1
        instructions = [
            *[message((1, f"p{i}"), (2, "parameter"), (3, a), (9, i), (35, i + 1)) for i, a in enumerate(arguments)],
            *[
                message((1, f"r{i}"), (2, "custom-call"), (3, r), (28, "minihlo"), (35, count + i + 1))
                for i, r in enumerate(results)
            ],
            message((1, "root"), (2, "tuple"), (3, result), (35, root), (36, list(range(count + 1, root)))),
        ]
        computation = message((1, "main"), *[(2, i) for i in instructions], (4, shape), (5, 1), (6, root))
        shardings: list[tuple[int, Any]] = []
        if self._devices > 1:
            if results:  # the sharding of no results is not a tuple's
                shardings.append((12, message((1, _TUPLE_SHARDING), *[(5, t.message()) for t in self.results])))
            shardings += [(14, t.message()) for t in self.arguments]
        names = (1, function.name), (2, "main"), (6, 1)
        module = message(*names, (3, computation), (4, shape), (5, 1), *shardings)
        config = message((1, shape), (4, replicas), (5, self._devices), (7, int(self._devices > 1)))
        return message((1, module), (2, config))


def _read_sharding(attributes: Any, program: Program) -> Sharding | str | None:
    """The sharding that the attributes of an argument or result have, or its text if it has the older form."""
    for name in ("sdy.sharding", "mhlo.sharding"):
        value = (attributes or {}).get(name)
        if value is not None:
            text = value.text if isinstance(value, Opaque) else str(value)
            return sharding.shardings(text, program)[0] if "#sdy" in text else text
    return None


def _observe(devices: int, operation: Operation, shardings: list[Sharding | None] | None) -> None:
    """Tell the Python function that an op calls how the operands are divided."""

    def tilings() -> list[Tiling]:
        tensors = [(v.type, i) for i, v in enumerate(operation.operands) if isinstance(v.type, TensorType)]
        if shardings is None:
            return [Tiling((), (), ((),), is_manual=True) for _ in tensors]
        whole = [s and dataclasses.replace(s, unreduced=()) for s in shardings]
        return [_tiling(t, fitting(whole[i], t), devices) for t, i in tensors]

    host_callbacks.observe(operation.attributes, tilings)


def _tiling(t: Type, declared: Sharding | str | None, devices: int) -> Tiling:
    """The division of a value over devices."""
    shape = tuple(n or 0 for n in t.shape) if isinstance(t, TensorType) else (0,)
    if devices > 1 and isinstance(t, TensorType) and declared and isinstance(declared, str):
        parts, places = sharding.tiles(declared, len(shape), devices)
        return Tiling(shape, parts, tuple(places))
    if devices == 1 or not isinstance(t, TensorType) or not isinstance(declared, Sharding) or not declared.mesh.axes:
        return Tiling(shape, (1,) * len(shape), ((0,) * len(shape),) * devices)
    if declared.mesh.size != devices or len(declared.dims) != len(shape):
        raise ProgramError(f"expected a sharding of {t} on {devices} devices, got {declared}")
    each = range(devices)
    numbers = tuple(map(declared.addend, each)) if declared.unreduced else ()
    places, addends = tuple(map(declared.part, each)), declared.addends
    return Tiling(shape, declared.parts(), places, addends, numbers, reduction=declared.reduction)


#: The numbers of XLA's element types, by ours. (Those of buffer types are others.)
_PRIMITIVES = {
    name: number
    for number, name in {
        1: "i1", 26: "i2", 21: "i4", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 27: "ui2", 22: "ui4", 6: "ui8", 7: "ui16",
        8: "ui32", 9: "ui64", 10: "f16", 11: "f32", 16: "bf16", 12: "f64", 19: "f8E5M2", 28: "f8E4M3", 20: "f8E4M3FN",
        23: "f8E4M3B11FNUZ", 29: "f8E3M4", 24: "f8E5M2FNUZ", 25: "f8E4M3FNUZ", 32: "f4E2M1FN", 33: "f8E8M0FNU",
        35: "f6E3M2FN", 36: "f6E2M3FN",
        15: "complex<f32>", 18: "complex<f64>",
    }.items()
}  # fmt: skip
_TUPLE, _TOKEN = 13, 17


def _shape_message(t: Type, tiling: Tiling, place: Place) -> bytes:
    """A ShapeProto of the part of a device."""
    if not isinstance(t, TensorType):
        return protobuf.message((2, _TOKEN))
    shape = tiling.shape
    order = place.order or range(len(shape))[::-1]
    return protobuf.message((2, _PRIMITIVES[t.element.name]), (3, shape), (5, protobuf.message((1, order))))
