"""The dialect of shardings (sdy): how tensors lie on a mesh of devices, and computations on each device's part.

A program of this kind speaks of whole tensors. A sharding does not change what is computed, so most of these ops give
their operand. In manual_computation each device has its own part, and meets the others as processes of a grid do.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .exchange import Share, described
from .interpreter import with_streams
from .parallel import Grid, Process, current
from .registry import BY_BODY, Call, OpError, Run, op
from .types import TensorType, TokenType

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
        return math.prod(n for _, n in self.axes)

    def length(self, axis: Axis) -> int:
        return dict(self.axes)[axis.name] if axis.size is None else axis.size

    def place(self, device: int, axis: Axis) -> int:
        """Where along an axis a device lies."""
        whole, at = dict(self.axes)[axis.name], self._coordinates[device][axis.name]
        return at if axis.size is None else at // (whole // (axis.before * axis.size)) % axis.size

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
    """The axes of a mesh along which each dimension of a tensor is cut, the first axis into the largest parts."""

    mesh: Mesh
    dims: tuple[tuple[Axis, ...], ...]

    def parts(self, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """Into how many parts each dimension is cut; `names` are the axes that count, all where it is None."""
        return tuple(math.prod(self.mesh.length(a) for a in self._of(d, names)) for d in self.dims)

    def part(self, device: int, names: Iterable[str] | None = None) -> tuple[int, ...]:
        """The number of the part that a device has, along each dimension."""
        found = []
        for dim in self.dims:
            number = 0
            for axis in self._of(dim, names):
                number = number * self.mesh.length(axis) + self.mesh.place(device, axis)
            found.append(number)
        return tuple(found)

    @staticmethod
    def _of(dim: tuple[Axis, ...], names: Iterable[str] | None) -> list[Axis]:
        return [a for a in dim if names is None or a.name in names]


def cut(shape: tuple[int, ...], parts: tuple[int, ...], part: tuple[int, ...]) -> tuple[slice, ...]:
    """The slices of a part. Raises OpError where a dimension cannot be cut into equal parts."""
    found = []
    for n, count, i in zip(shape, parts, part, strict=True):
        if n % count:
            raise OpError(f"a dimension of {n} cannot be cut into {count} equal parts")
        found.append(slice(i * (n // count), (i + 1) * (n // count)))
    return tuple(found)


@op("sdy.sharding_constraint", operands=1)
def sharding_constraint(call: Call) -> Run:
    """The operand, which is to lie on the devices in a certain way."""
    return _identity(call)


@op("sdy.reshard", operands=1)
def reshard(call: Call) -> Run:
    """The operand, which is to lie on the devices in a certain way from here on."""
    return _identity(call)


@op("sdy.propagation_barrier", operands=1)
def propagation_barrier(call: Call) -> Run:
    """The operand, whose sharding is not to be learned from what comes after it, or before."""
    return _identity(call)


@op("sdy.sharding_group", operands=1)
def sharding_group(call: Call) -> Run:
    """Nothing: the operand is to lie as others of its group do."""
    if call.results:
        raise OpError(f"{len(call.results)} results (expected none)")
    return lambda _: ()


def _identity(call: Call) -> Run:
    if call.results != call.operands:
        raise OpError(f"the result is {', '.join(map(str, call.results))} (expected {call.operands[0]})")
    return lambda x: x


@op("sdy.manual_computation", values="regions", accuracy=BY_BODY, has_effects=True)
def manual_computation(call: Call) -> Run:
    """The body on each device's part of the operands; the results are put together of those of all devices.

    Parts are cut along the manual axes only, which are those that in_shardings and out_shardings may name first.
    """
    takes, gives = (_shardings(call, name) for name in ("in_shardings", "out_shardings"))
    names = frozenset(call.attribute("manual_axes"))
    if len(takes) != len(call.operands) or len(gives) != len(call.results) or len(call.bodies) != 1:
        raise OpError("it needs one body and a sharding for each operand and result")
    if not takes and not gives:
        return lambda regions, *_: regions[0]()
    mesh = (*takes, *gives)[0].mesh
    shapes = [_shape(t) for t in call.results]
    for shardings, whole, local in (
        (takes, call.operands, call.bodies[0].arguments),
        (gives, call.results, call.bodies[0].results),
    ):
        for sharding, of, part in zip(shardings, whole, local, strict=True):
            _check_part(sharding, names, of, part)

    def own(values: tuple[Any, ...], device: int) -> list[Any]:
        return [
            v[cut(np.shape(v), s.parts(names), s.part(device, names))] if s.dims else v
            for v, s in zip(values, takes, strict=True)
        ]

    def joined(results: list[tuple[Any, ...]], devices: list[int]) -> tuple[Any, ...]:
        return tuple(
            _joined([r[i] for r in results], devices, sharding, names, shapes[i]) for i, sharding in enumerate(gives)
        )

    def kernel(regions: tuple[Callable[..., tuple[Any, ...]]], *values: Any) -> Any:
        process = current()
        if process.grid.shape[1] == mesh.size:
            results = _within(process, mesh, names, lambda d: regions[0](*own(values, d)), joined)
        else:
            devices = list(range(mesh.size))
            tasks = [functools.partial(regions[0], *own(values, d)) for d in devices]
            results = joined(Grid(1, mesh.size).run(with_streams(tasks, call.random)), devices)
        return results[0] if len(shapes) == 1 else results

    return kernel


def _within(
    process: Process,
    mesh: Mesh,
    names: frozenset[str],
    run: Callable[[int], tuple[Any, ...]],
    joined: Callable[[list[tuple[Any, ...]], list[int]], tuple[Any, ...]],
) -> tuple[Any, ...]:
    """The results of a device that is a process of a grid already, put together with those of its group."""
    replica, device = process.id
    mine = run(device)
    others = [Axis(name) for name, _ in mesh.axes if name not in names]
    here = [mesh.place(device, axis) for axis in others]
    group = [d for d in range(mesh.size) if [mesh.place(d, axis) for axis in others] == here]
    if len(group) == 1:
        return joined([mine], group)
    share = Share(
        "sdy.manual_computation", tuple(map(described, mine)), mine, lambda all_, _: [joined(all_, group)] * len(group)
    )
    return process.meet(_CHANNEL, tuple((replica, d) for d in group), share).get()


def _joined(
    parts: list[Any], devices: list[int], sharding: Sharding, names: frozenset[str], shape: tuple[int, ...]
) -> Any:
    counts = sharding.parts(names)
    if math.prod(counts) == 1:
        return parts[0]
    whole = np.empty(shape, parts[0].dtype)
    done = set()
    for value, device in zip(parts, devices, strict=True):
        part = sharding.part(device, names)
        if part not in done:
            whole[cut(shape, counts, part)] = value
            done.add(part)
    return whole


def _shardings(call: Call, name: str) -> tuple[Sharding, ...]:
    found = call.attribute(name)
    if not isinstance(found, tuple) or not all(isinstance(s, Sharding) for s in found):
        raise OpError(f"{name} cannot be read")
    return found


def _shape(t: Any) -> tuple[int, ...]:
    if isinstance(t, TokenType):
        return ()
    if not isinstance(t, TensorType) or not t.is_static:
        raise OpError(f"a result of type {t} (expected a tensor of known sizes)")
    return t.shape  # type: ignore[return-value]


def _check_part(sharding: Sharding, names: frozenset[str], whole: Any, local: Any) -> None:
    if not isinstance(whole, TensorType):
        return
    if len(sharding.dims) != len(whole.shape):
        raise OpError(f"a sharding of {len(sharding.dims)} dimensions for {whole}")
    counts = sharding.parts(names)
    sizes = tuple(n // c if n is not None else None for n, c in zip(whole.shape, counts, strict=True))
    if not isinstance(local, TensorType) or local != TensorType(sizes, whole.element):
        raise OpError(f"the body has {local} for {whole} (expected {TensorType(sizes, whole.element)})")
