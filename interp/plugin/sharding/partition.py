"""Programs for several devices: the whole program runs once, on arguments put together of the devices' parts.

Of an unreduced argument or result each addend is a tensor that is put together, or cut, by itself (see `unreduced`).

How they lie on the devices is said by the program's shardings. For results of which it says nothing we choose, and the
framework asks which: by the "optimized program", of which it reads only the shardings.
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
from ...machine import Plan
from ...parse import sharding
from ...parse.attributes import Opaque
from ...program import Function, Operation, Program
from .. import host_callbacks, layouts
from ..layouts import Place
from ..pjrt import protobuf
from . import parts, unreduced
from .propagation import fitting, propagate, refined

Values = Sequence[Any]


@dataclasses.dataclass(frozen=True)
class Tiling:
    """How a tensor lies on devices: into how many parts each dimension is cut, and the part that each device has."""

    whole: tuple[int, ...]
    parts: tuple[int, ...]
    places: tuple[tuple[int, ...], ...]
    #: Of how many addends it is the sum, and which one each device has a part of.
    addends: int = 1
    numbers: tuple[int, ...] = ()
    #: Whether the program takes or gives the parts themselves.
    is_direct: bool = False
    #: Whether it is a device's own part in a manual computation, and no more is said.
    is_manual: bool = False

    @property
    def count(self) -> int:
        """Of how many values of the program it is made."""
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
        """The values that the program takes: the whole tensor, as its addends, or the parts."""
        if self.is_direct:
            return list(parts)
        if self.addends == 1:
            return [self._joined(parts, self.places)]
        joined = []
        for number in range(self.addends):
            devices = [d for d, n in enumerate(self.numbers) if n == number]
            joined.append(self._joined([parts[d] for d in devices], [self.places[d] for d in devices]))
        return joined

    def _joined(self, parts: Sequence[Any], places: Sequence[tuple[int, ...]]) -> Any:
        if not self.is_cut:
            return parts[0]
        whole = np.empty(self.whole, parts[0].dtype)
        for place, part in dict(zip(places, parts, strict=True)).items():
            whole[self.slices[place]] = part
        return whole

    def divide(self, wholes: Sequence[Any]) -> list[Any]:
        """Each device's part of the values that the program gives; what several devices have is one array."""
        if self.is_direct:
            return list(wholes)
        numbers = self.numbers or (0,) * len(self.places)
        if not self.is_cut:
            return [wholes[n] for n in numbers]
        parts: dict[tuple[int, tuple[int, ...]], Any] = {}
        for key in zip(numbers, self.places, strict=True):
            if key not in parts:
                number, place = key
                parts[key] = np.ascontiguousarray(np.asarray(wholes[number])[self.slices[place]])
        return [parts[key] for key in zip(numbers, self.places, strict=True)]

    def message(self) -> bytes:
        """An OpSharding."""
        if self.is_manual:
            return protobuf.message((1, _MANUAL))
        if self.addends == len(self.places) > 1:
            return protobuf.message((1, _UNREDUCED))
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
        return protobuf.message((1, _OTHER), (3, dims), (4, devices), *last)


#: Types of an OpSharding.
_REPLICATED, _OTHER, _MANUAL, _UNREDUCED = 0, 3, 4, 6


class Partition:
    """How the arguments and results of a function lie on devices."""

    def __init__(self, function: Function, program: Program, devices: int) -> None:
        """Raises ProgramError where a sharding, or an op on unreduced values, is not understood."""
        said: list[list[Any]] = [
            [_attribute(a, program) for a in function.attributes.get(name) or ({},) * len(types)]
            for name, types in (("arg_attrs", function.argument_types), ("res_attrs", function.result_types))
        ]
        self.arguments = [_tiling(t, s, devices) for t, s in zip(function.argument_types, said[0], strict=True)]
        #: The program and the function of it that is to be run.
        self.program, self.function = program, function
        if devices > 1:
            chosen = propagate(program, function, functools.partial(_observed, devices))
            said[1] = [
                refined(s, c, t) if s is None or isinstance(s, Sharding) else s
                for s, c, t in zip(said[1], chosen, function.result_types, strict=True)
            ]
            takes, gives = ([s if isinstance(s, Sharding) else None for s in each] for each in said)
            self.program, self.function = unreduced.expanded(program, function, takes, gives)
        self.results = [_tiling(t, s, devices) for t, s in zip(function.result_types, said[1], strict=True)]
        if devices > 1:
            self._take_parts(*said)
        self._devices = devices

    def _take_parts(self, takes: list[Any], gives: list[Any]) -> None:
        """Let the program take and give parts where it can. Addends are whole."""
        lists = (self.arguments, takes), (self.results, gives)
        flat = [
            [
                s if t.count == 1 and isinstance(s, Sharding) else None
                for t, s in zip(*pair, strict=True)
                for _ in range(t.count)
            ]
            for pair in lists
        ]
        rewritten = parts.with_parts(self.program, self.function, *flat)
        if rewritten.function is self.function:
            return
        self.function = rewritten.function
        self.program = dataclasses.replace(
            self.program, functions={**self.program.functions, self.function.name: self.function}
        )
        for tilings, numbers in ((self.arguments, rewritten.takes), (self.results, rewritten.gives)):
            first = 0
            for i, tiling in enumerate(tilings):
                if first in numbers:
                    tilings[i] = dataclasses.replace(tiling, is_direct=True)
                first += tiling.count

    def run(
        self,
        plan: Plan,
        replicas: int,
        arguments: Sequence[Values],
        process: parallel.Process | None,
    ) -> list[Any]:
        """Return the results of each device, replica by replica."""
        n = self._devices
        wholes = [
            [
                whole
                for i, tiling in enumerate(self.arguments)
                for whole in tiling.join([row[i] for row in arguments[r * n : (r + 1) * n]])
            ]
            for r in range(replicas)
        ]
        if replicas > 1:
            results = machine.run_grid(plan, replicas, 1, wholes, process)
        else:
            results = [machine.run(plan, wholes[0], process)]
        flat: list[Any] = []
        for whole in results:
            values = iter(whole)
            divided = [tiling.divide(list(itertools.islice(values, tiling.count))) for tiling in self.results]
            flat += [parts[i] for i in range(n) for parts in divided]
        return flat


def _attribute(attributes: Any, program: Program) -> Sharding | str | None:
    """What the attributes of an argument or result say: a sharding, or the text of one of the older form."""
    for name in ("sdy.sharding", "mhlo.sharding"):
        value = (attributes or {}).get(name)
        if value is not None:
            text = value.text if isinstance(value, Opaque) else str(value)
            return sharding.shardings(text, program)[0] if "#sdy" in text else text
    return None


def _observed(devices: int, operation: Operation, shardings: list[Sharding | None] | None) -> None:
    """Let a Python function that is called learn how the operands lie."""

    def operands() -> list[Tiling]:
        tensors = [(v.type, i) for i, v in enumerate(operation.operands) if isinstance(v.type, TensorType)]
        if shardings is None:
            return [Tiling((), (), ((),), is_manual=True) for _ in tensors]
        whole = [s and dataclasses.replace(s, unreduced=()) for s in shardings]
        return [_tiling(t, fitting(whole[i], t), devices) for t, i in tensors]

    host_callbacks.placed(operation.attributes, operands)


def _tiling(t: Type, declared: Sharding | str | None, devices: int) -> Tiling:
    shape = tuple(n or 0 for n in t.shape) if isinstance(t, TensorType) else (0,)
    alike = Tiling(shape, (1,) * len(shape), ((0,) * len(shape),) * devices)
    if not declared or devices == 1 or not isinstance(t, TensorType):
        return alike
    if isinstance(declared, str):
        parts, places = sharding.tiles(declared, len(shape), devices)
        return Tiling(shape, parts, tuple(places))
    if not declared.mesh.axes:
        return alike
    if declared.mesh.size != devices or len(declared.dims) != len(shape):
        raise ProgramError(f"expected a sharding of {t} on {devices} devices, got {declared}")
    each = range(devices)
    numbers = tuple(map(declared.addend, each)) if declared.unreduced else ()
    return Tiling(shape, declared.parts(), tuple(map(declared.part, each)), declared.addends, numbers)


#: The numbers of XLA's element types, by ours. (Those of buffer types are others.)
_PRIMITIVES = {
    name: number
    for number, name in {
        1: "i1", 26: "i2", 21: "i4", 2: "i8", 3: "i16", 4: "i32", 5: "i64", 27: "ui2", 22: "ui4", 6: "ui8", 7: "ui16",
        8: "ui32", 9: "ui64", 10: "f16", 11: "f32", 16: "bf16", 12: "f64", 19: "f8E5M2", 28: "f8E4M3", 20: "f8E4M3FN",
        23: "f8E4M3B11FNUZ", 29: "f8E3M4", 24: "f8E5M2FNUZ", 25: "f8E4M3FNUZ", 32: "f4E2M1FN", 33: "f8E8M0FNU",
        15: "complex<f32>", 18: "complex<f64>",
    }.items()
}  # fmt: skip
_TUPLE, _TOKEN = 13, 17


def _shape_message(t: Type, shape: tuple[int, ...], place: Place) -> bytes:
    if not isinstance(t, TensorType):
        return protobuf.message((2, _TOKEN))
    order = place.order or range(len(shape))[::-1]
    return protobuf.message((2, _PRIMITIVES[t.element.name]), (3, shape), (5, protobuf.message((1, order))))


def optimized_program(function: Function, partition: Partition, name: str, replicas: int, partitions: int) -> bytes:
    """An HloModuleProtoWithConfig of the right types, layouts and shardings, whose computation only gives values."""
    takes, gives = (
        [_shape_message(t, c.shape, place) for t, c, place in zip(types, tilings, places, strict=True)]
        for types, tilings, places in zip(
            (function.argument_types, function.result_types),
            (partition.arguments, partition.results),
            layouts.places(function),
            strict=True,
        )
    )
    result = protobuf.message((2, _TUPLE), *[(4, g) for g in gives])
    program_shape = protobuf.message(*[(1, t) for t in takes], (2, result), *[(3, f"p{i}") for i in range(len(takes))])
    parameters = [
        protobuf.message((1, f"p{i}"), (2, "parameter"), (3, t), (9, i), (35, i + 1)) for i, t in enumerate(takes)
    ]
    first = len(takes) + 1
    values = [
        protobuf.message((1, f"r{i}"), (2, "custom-call"), (3, g), (28, "minihlo"), (35, first + i))
        for i, g in enumerate(gives)
    ]
    root_id = first + len(gives)
    root = protobuf.message((1, "root"), (2, "tuple"), (3, result), (35, root_id), (36, list(range(first, root_id))))
    computation = protobuf.message(
        (1, "main"), *[(2, i) for i in (*parameters, *values, root)], (4, program_shape), (5, 1), (6, root_id)
    )
    shardings: list[tuple[int, Any]] = []
    if partitions > 1:
        each = [c.message() for c in partition.results]
        if each:  # of no results it is not a tuple's
            shardings.append((12, protobuf.message((1, 2), *[(5, m) for m in each])))
        shardings += [(14, c.message()) for c in partition.arguments]
    module = protobuf.message((1, name), (2, "main"), (6, 1), (3, computation), (4, program_shape), (5, 1), *shardings)
    config = protobuf.message((1, program_shape), (4, replicas), (5, partitions), (7, int(partitions > 1)))
    return protobuf.message((1, module), (2, config))
