"""Groups of operations on the bits of few ui32: all elements are one integer of Python, each in 64 of its bits.

The rule. Python computes with an integer of some thousand bits in a tenth of the time that a call of numpy takes. Sums
of two elements, and products by a number, have room in 64 bits, so elements do not meet. What stands above an element's
32 bits is dropped before an operation that would be wrong by it. Other operations of a group take and give arrays.

Measured with numpy alone: the bits of a random number for each of 10 elements (Threefry, 150 operations) 75 µs and 20.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.speed import tuning
from ....ops.op import traits_of
from ....ops.traits import Packed
from ....ops.types import ELEMENT_TYPES
from ..generate import KernelOf
from ..group import Function, Group, Lookup, Origin, Step
from ..leaf import Compute
from ..writer import Sources, Writer

_U32, _LANE = ELEMENT_TYPES["ui32"], 64


def in_words(
    group: Group, origins: Sequence[Origin], kernel_of: KernelOf, label: str, sources: Sources, reason: str
) -> Compute | None:
    """The function of a group that computes with packed elements where it can; None where that does not pay."""
    function, size = group.function, math.prod(group.shape)
    if size > tuning().packed_elements or sys.byteorder != "little":
        return None
    packed = _packed_steps(function)
    if len(packed) < tuning().packed_steps:
        return None
    writer = _Words(group, size)
    for i, (step, origin) in enumerate(zip(function.steps, origins, strict=True)):
        value = function.first_step + i
        if value in packed:
            assert isinstance(step, Step)
            writer.put_packed(value, step, packed[value], origin)
        else:
            writer.put(value, step, origin, kernel_of(step, origin).call)
    return writer.finish(label, sources, reason)


def _packed_steps(function: Function) -> dict[int, Packed]:
    """How the steps that are made on packed elements are computed, by their values."""
    numbers = {len(function.leaves) + i: c for i, c in enumerate(function.constants)}
    found: dict[int, Packed] = {}
    for i, step in enumerate(function.steps):
        if isinstance(step, Lookup) or any(e != _U32 for e in step.elements) or not all(t.shape for t in step.types):
            continue
        packed, last = traits_of(step.name).packed, numbers.get(step.operands[-1])
        if packed is None or (packed.most is not None and (last is None or int(last.array) > packed.most)):
            continue
        found[function.first_step + i] = packed
    return found


class _Words:
    """The lines of one function. A value is an array, or packed, or both."""

    def __init__(self, group: Group, size: int) -> None:
        self._group, self._size, self._writer = group, size, Writer({})
        self._ones = sum(1 << (_LANE * i) for i in range(size))
        function, rank = group.function, len(group.shape)
        self._parameters = [self._writer.fresh() for _ in function.leaves]
        self._numbers = {len(function.leaves) + i: c.array for i, c in enumerate(function.constants)}
        self._arrays = dict(enumerate(self._parameters))
        self._single = {i for i, leaf in enumerate(group.leaves) if all(n == 1 for n in leaf.spread(rank))}
        self._packed: dict[int, str] = {}
        self._full = set[str]()  # what may have something above the elements' bits
        self._cleaned: dict[str, str] = {}  # these without it
        self._constants: dict[int | str, str] = {}

    def put_packed(self, value: int, step: Step, packed: Packed, origin: Origin) -> None:
        """A step on packed elements."""
        operands = [self._pack(v, origin) for v in step.operands[:1]]
        if packed.most is not None:
            operands.append(str(int(self._numbers[step.operands[1]])))
        else:
            operands += [self._pack(v, origin) for v in step.operands[1:]]
        if packed.needs_room:
            operands = [self._clean(o, origin) for o in operands]
        mask = self._name("M") if "{M}" in packed.text else ""
        room = self._name("R") if "{R}" in packed.text else ""
        self._packed[value] = result = self._line(packed.text.format(*operands, M=mask, R=room), origin, operands)
        if packed.needs_room or not self._full.isdisjoint(operands):
            self._full.add(result)
        if packed.clears and not self._full.issuperset(operands):
            self._full.discard(result)

    def put(self, value: int, step: Step | Lookup, origin: Origin, call: Callable[..., Any]) -> None:
        """Any other step, on arrays."""
        operands = [self._array(v, origin) for v in step.operands]
        self._arrays[value] = self._writer.apply(call, origin.operation, operands)

    def finish(self, label: str, sources: Sources, reason: str) -> Compute:
        """The function."""
        outputs = self._group.function.outputs
        names = [self._array(v, None) for v in outputs]
        reason = f"{reason}; bits of all elements in one integer"
        return self._writer.function(self._parameters, names, label, sources, False, reason)

    def _name(self, which: str) -> str:
        """The name of ones in all elements' bits, or of what keeps a difference above 0."""
        return self._constant(self._ones * ((1 << 32) - 1 if which == "M" else 1 << 32), which)

    def _constant(self, number: int, key: int | str) -> str:
        if key not in self._constants:
            self._constants[key] = self._writer.name_of(number)
        return self._constants[key]

    def _line(self, text: str, origin: Origin | None, uses: Sequence[str]) -> str:
        name = self._writer.fresh()
        self._writer.line(f"{name} = {text}", None if origin is None else origin.operation, (name,), tuple(uses))
        return name

    def _clean(self, name: str, origin: Origin) -> str:
        """A packed value with nothing above its elements' bits."""
        if name not in self._full:
            return name
        if name not in self._cleaned:
            self._cleaned[name] = self._line(f"{name} & {self._name('M')}", origin, (name,))
        return self._cleaned[name]

    def _pack(self, value: int, origin: Origin) -> str:
        if value not in self._packed:
            if value in self._numbers:
                number = int(self._numbers[value])
                self._packed[value] = self._constant(self._ones * number, number)
            elif value in self._single:
                name = self._arrays[value]
                self._packed[value] = self._line(
                    f"{name}.item() * {self._constant(self._ones, 'ones')}", origin, (name,)
                )
            else:
                pack, name = self._writer.name_of(_packing(self._group.shape)), self._arrays[value]
                self._packed[value] = self._line(f"{pack}({name})", origin, (name,))
        return self._packed[value]

    def _array(self, value: int, origin: Origin | None) -> str:
        if value not in self._arrays:
            if value in self._numbers:
                self._arrays[value] = self._writer.name_of(self._numbers[value])
            else:
                unpack, name = self._writer.name_of(_unpacking(self._group.shape)), self._packed[value]
                self._arrays[value] = self._line(f"{unpack}({name})", origin, (name,))
        return self._arrays[value]


def _packing(shape: tuple[int, ...]) -> Callable[[np.ndarray], int]:
    def pack(x: np.ndarray) -> int:
        whole = x if x.shape == shape else np.broadcast_to(x, shape)
        return int.from_bytes(whole.astype(np.uint64).tobytes(), "little")

    return pack


def _unpacking(shape: tuple[int, ...]) -> Callable[[int], np.ndarray]:
    size = math.prod(shape) * _LANE // 8

    def unpack(word: int) -> np.ndarray:
        return np.frombuffer(word.to_bytes(size, "little"), np.uint64).astype(np.uint32).reshape(shape)

    return unpack
