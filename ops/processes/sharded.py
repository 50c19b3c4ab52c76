"""The dialect of shardings (sdy): tensors distributed over a mesh of devices, and computations on each device's part.

A program of this kind speaks of whole tensors. A sharding does not change what is computed, so most of these ops give
their operand. In manual_computation each device has its own part, and meets the others as processes of a grid do.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..movement.shape import constant
from ..op import Call, OpError, Run, op
from ..require import identity, require, unpack
from ..traits import OpTraits, RegionSemantics, first_operand
from ..types import TensorType, TokenType
from .exchange import Contribution, type_text
from .interpreter import with_streams
from .parallel import Grid, Process, current

#: The channel on which the devices of a nested manual_computation gather its results. No op of a program has it.
_CHANNEL = -(1 << 40)


@dataclasses.dataclass(frozen=True)
class Axis:
    """An axis of a mesh, or the part of it of `size` below the first `before`."""

    name: str
    before: int = 1
    size: int | None = None  #: the whole axis where it is None


@dataclasses.dataclass(frozen=True)
class Mesh:
    """Devices in a grid of named axes. `devices` lists them; None stands for 0, 1, 2, …"""

    axes: tuple[tuple[str, int], ...]
    devices: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """The number of devices."""
        return math.prod(n for _, n in self.axes)

    def length(self, axis: Axis) -> int:
        """The number of devices along an axis, or along the part of one."""
        return dict(self.axes)[axis.name] if axis.size is None else axis.size

    def place(self, device: int, axis: Axis) -> int:
        """Where along an axis a device lies."""
        whole, at = dict(self.axes)[axis.name], self._coordinates[device][axis.name]
        return at if axis.size is None else at // (whole // (axis.before * axis.size)) % axis.size

    def number(self, device: int, axes: Iterable[Axis]) -> int:
        """The number of a device's place along several axes, the last one fastest."""
        number = 0
        for axis in axes:
            number = number * self.length(axis) + self.place(device, axis)
        return number

    def device(self, places: Mapping[str, int]) -> int:
        """The device at these places along axes, at the first one along others."""
        at = [places.get(name, 0) for name, _ in self.axes]
        number = int(np.ravel_multi_index(at, [n for _, n in self.axes])) if at else 0
        return self.devices[number] if self.devices else number

    @functools.cached_property
    def _coordinates(self) -> dict[int, dict[str, int]]:
        sizes, names = [n for _, n in self.axes], [name for name, _ in self.axes]
        devices = self.devices or range(self.size)
        return {
            d: dict(zip(names, map(int, np.unravel_index(i, sizes) if sizes else ()), strict=True))
            for i, d in enumerate(devices)
        }


@dataclasses.dataclass(frozen=True)
class Sharding:
    """The axes of a mesh along which each dimension of a tensor is cut, the first axis into the largest parts.

    Along the axes in `unreduced`, which have the order of the mesh, each device has an addend of its own: the tensor is
    the sum of them, or their `max` or `min`. A dimension in `opened` may be cut further.
    """

    mesh: Mesh
    dims: tuple[tuple[Axis, ...], ...]
    unreduced: tuple[str, ...] = ()
    opened: frozenset[int] = frozenset()
    reduction: str = "sum"

    @property
    def addends(self) -> int:
        """Of how many addends the tensor is the sum."""
        return math.prod(self.mesh.length(Axis(name)) for name in self.unreduced)

    def addend(self, device: int) -> int:
        """The number of the addend that a device has: by its place along the unreduced axes, the last one fastest."""
        return self.mesh.number(device, map(Axis, self.unreduced))

    def parts(self, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """Into how many parts each dimension is cut; `names` are the axes that count, all where it is None."""
        return tuple(math.prod(self.mesh.length(a) for a in self._of(d, names)) for d in self.dims)

    def part(self, device: int, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """The number of the part that a device has, along each dimension."""
        return tuple(self.mesh.number(device, self._of(d, names)) for d in self.dims)

    @staticmethod
    def _of(dim: tuple[Axis, ...], names: Iterable[str] | None) -> list[Axis]:
        return [a for a in dim if names is None or a.name in names]


def cut(shape: tuple[int, ...], parts: tuple[int, ...], part: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices of a part. Raises OpError where a dimension cannot be cut into equal parts."""
    slices = []
    for n, count, i in zip(shape, parts, part, strict=True):
        require(n % count == 0, f"expected a dimension that {count} parts divide, got {n}")
        slices.append(slice(i * (n // count), (i + 1) * (n // count)))
    return tuple(slices)


#: Ops that say, or change, how a value lies on the devices. Of a whole value each gives the operand.
_LAYOUTS = {
    "sharding_constraint": "The operand, whose layout on the devices is prescribed.",
    "reshard": "The operand, laid out on the devices in another way.",
    "all_gather": "The operand, gathered along axes of the mesh.",
    "all_slice": "The operand, cut along axes of the mesh.",
    "all_to_all": "The operand, cut along another dimension.",
    "collective_permute": "The operand, whose parts lie on other devices.",
    "all_reduce": "The operand, whose addends are summed.",
    "reduce_scatter": "The operand, whose addends are summed and cut.",
    "sharded_to_unreduced": "The operand, as addends instead of parts.",
    "replicated_to_unreduced": "The operand, as addends of which one is the whole.",
    "data_flow_edge": "The operand. Shardings are propagated along it.",
}


def _declare_layout(name: str, doc: str) -> None:
    def bind(call: Call) -> Run:
        return _identity(call)

    bind.__doc__ = doc
    op(f"sdy.{name}", operands=1)(bind)


for _layout in _LAYOUTS.items():
    _declare_layout(*_layout)

op("sdy.constant", operands=0)(constant)


@op("sdy.propagation_barrier", operands=1, traits=OpTraits(linear=first_operand))
def propagation_barrier(call: Call) -> Run:
    """The operand. Shardings are not propagated across it, in one direction or both."""
    return _identity(call)


@op("sdy.sharding_group", operands=1)
def sharding_group(call: Call) -> Run:
    """No result. The operand gets the layout of the others in its group."""
    require(not call.results, f"{len(call.results)} results (expected none)")
    return lambda _: ()


def _identity(call: Call) -> Run:
    given = ", ".join(map(str, call.results))
    require(call.results == call.operands, f"the result is {given} (expected {call.operands[0]})")
    return identity


@op("sdy.manual_computation", values="regions", has_effects=True, traits=OpTraits(regions=RegionSemantics.ALL))
def manual_computation(call: Call) -> Run:
    """The body applied to each device's part of the operands; the parts of the results are joined.

    Parts are cut along the manual axes only, which are those that in_shardings and out_shardings may name first. An
    unreduced operand or result is given as its addends, each of them an operand or a result; one that takes_parts or
    gives_parts names, as the part of each device.
    """
    takes, gives = (_shardings(call, name) for name in ("in_shardings", "out_shardings"))
    names = frozenset(call.attribute("manual_axes"))
    require(len(call.bodies) == 1, f"has {len(call.bodies)} regions (expected 1, the computation)")
    if not takes and not gives:
        return lambda regions, *_: regions[0]()
    body, mesh = call.bodies[0], (*takes, *gives)[0].mesh
    takes_parts, gives_parts = (
        call.attributes.get(name) or (False,) * len(each)
        for name, each in (("takes_parts", takes), ("gives_parts", gives))
    )
    firsts, _ = _check_parts(takes, takes_parts, names, call.operands, body.arguments)
    _, shapes = _check_parts(gives, gives_parts, names, call.results, body.results)
    results = ", ".join(map(str, call.results))
    require(all(None not in shape for shape in shapes), f"results of type {results} (expected tensors of known sizes)")
    #: Bits that are drawn at random are not the same on each device.
    may_differ = call.policy.rounding == "stochastic"

    def operands_of(device: int, values: tuple[Any, ...]) -> list[Any]:
        parts = []
        for first, s, is_part in zip(firsts, takes, takes_parts, strict=True):
            value = values[first + (device if is_part else s.addend(device))]
            if s.dims and not is_part:
                value = value[cut(np.shape(value), s.parts(names), s.part(device, names))]
            parts.append(value)
        return parts

    def join(results: list[tuple[Any, ...]], devices: list[int]) -> tuple[Any, ...]:
        whole = []
        for i, (s, shape) in enumerate(zip(gives, shapes, strict=True)):
            if gives_parts[i]:
                whole += [results[n][i] for n in np.argsort(devices)]
                continue
            for number in range(s.addends):
                parts = {d: r[i] for d, r in zip(devices, results, strict=True) if s.addend(d) == number}
                whole.append(_join_parts(parts, s, names, shape, may_differ))
        return tuple(whole)

    def kernel(regions: tuple[Callable[..., tuple[Any, ...]]], *values: Any) -> Any:
        process = current()
        if process.grid.shape[1] == mesh.size:
            device = process.id[1]
            return unpack(_gather(process, mesh, names, regions[0](*operands_of(device, values)), join))
        devices = list(range(mesh.size))
        tasks = [functools.partial(regions[0], *operands_of(d, values)) for d in devices]
        return unpack(join(Grid(1, mesh.size).run(with_streams(tasks, call.random)), devices))

    return kernel


def _gather(
    process: Process,
    mesh: Mesh,
    names: frozenset[str],
    own: tuple[Any, ...],
    join: Callable[[list[tuple[Any, ...]], list[int]], tuple[Any, ...]],
) -> tuple[Any, ...]:
    """The results of a device that is a process of a grid already, joined with those of its group."""
    replica, device = process.id
    others = [Axis(name) for name, _ in mesh.axes if name not in names]
    group = [d for d in range(mesh.size) if mesh.number(d, others) == mesh.number(device, others)]
    if len(group) == 1:
        return join([own], group)
    contribution = Contribution(
        "sdy.manual_computation", tuple(map(type_text, own)), own, lambda all_, _: [join(all_, group)] * len(group)
    )
    return process.rendezvous(_CHANNEL, tuple((replica, d) for d in group), contribution).get()


def _join_parts(
    parts: Mapping[int, Any], sharding: Sharding, names: frozenset[str], shape: tuple[Any, ...], may_differ: bool
) -> Any:
    """The whole of the parts that devices have.

    Raises OpError where devices that are to have the same part have not, unless they may.
    """
    counts = sharding.parts(names)
    first: dict[tuple[int, ...], tuple[int, Any]] = {}
    for device, value in parts.items():
        other, known = first.setdefault(sharding.part(device, names), (device, value))
        require(
            may_differ or _is_same(known, value),
            f"devices {other} and {device} have different values of a result that is to be the same on both "
            "(expected a result that out_shardings cut, or that is summed, or gathered, over the devices)",
        )
    values = [value for _, value in first.values()]
    if math.prod(counts) == 1:
        return values[0]
    whole = np.empty(shape, values[0].dtype)
    for part, value in zip(first, values, strict=True):
        whole[cut(shape, counts, part)] = value
    return whole


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values have the same bits."""
    return a is b or np.asarray(a).tobytes() == np.asarray(b).tobytes()


def _shardings(call: Call, name: str) -> tuple[Sharding, ...]:
    shardings = call.attribute(name)
    is_read = isinstance(shardings, tuple) and all(isinstance(s, Sharding) for s in shardings)
    require(is_read, f"{name} cannot be read")
    return shardings


def _check_parts(
    shardings: tuple[Sharding, ...],
    are_parts: tuple[bool, ...],
    names: frozenset[str],
    wholes: tuple[Any, ...],
    parts: tuple[Any, ...],
) -> tuple[list[int], list[tuple[int | None, ...]]]:
    """For each sharding the number of its first operand or result, and the shape of that.

    Raises OpError where they do not fit what the body takes or gives.
    """
    fit = len(parts) == len(shardings) == len(are_parts)
    require(fit, f"expected a sharding for each of {len(parts)} operands or results, got {len(shardings)}")
    counts = [s.mesh.size if is_part else s.addends for s, is_part in zip(shardings, are_parts, strict=True)]
    fits = len(wholes) == sum(counts)
    require(fits, f"expected {sum(counts)} operands or results, as the shardings have devices, got {len(wholes)}")
    firsts = list(itertools.accumulate(counts, initial=0))[:-1]
    shapes = []
    for sharding, part, is_part, first in zip(shardings, parts, are_parts, firsts, strict=True):
        axes = f"{sorted(names)}, got {list(sharding.unreduced)}"
        require(names.issuperset(sharding.unreduced), f"expected manual axes as unreduced ones, {axes}")
        shapes.append(_check_shape(sharding, frozenset() if is_part else names, wholes[first], part))
    return firsts, shapes


def _check_shape(sharding: Sharding, names: frozenset[str], whole: Any, local: Any) -> tuple[int | None, ...]:
    """The shape of an operand or result, () for a token."""
    if isinstance(whole, TokenType) and isinstance(local, TokenType):
        return ()
    if not isinstance(whole, TensorType):
        raise OpError(f"expected a tensor or a token, got {whole}")
    dims = len(sharding.dims)
    require(dims == len(whole.shape), f"expected a sharding of {len(whole.shape)} dimensions for {whole}, got {dims}")
    counts = sharding.parts(names)
    sizes = tuple(n // c if n is not None else None for n, c in zip(whole.shape, counts, strict=True))
    expected = TensorType(sizes, whole.element)
    require(local == expected, f"the body has {local} for {whole} (expected {expected})")
    return whole.shape
