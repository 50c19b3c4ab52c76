"""Shardings as they are written in a program -> the plain values of `ops/processes/sharded.py`.

#sdy.sharding<@mesh, [{"x", "y":(2)4}, {}, {"z", ?}], replicated={"w"}>      of one value
#sdy.sharding<@mesh, [{"x"}], unreduced={"y"}>                               of addends, which differ along "y"
#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>                     of several
{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}                       the older form, an attribute mhlo.sharding

Any other form is an error: to pass over a part of a sharding could give wrong numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.processes.sharded import Axis, Mesh, Sharding
from ..errors import ProgramError
from ..program import Program
from .attributes import Opaque

_MESH = re.compile(r"(?:#sdy\.)?mesh<\[(.*?)\](?:, device_ids=\[(.*?)\])?>")
_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_NAME = re.compile(r"@(?:[\w.$-]+|\"[^\"]*\")|mesh<\[.*?\](?:, device_ids=\[.*?\])?>")
_REFERENCE = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')
_PRIORITY = re.compile(r"p\d+")
_LIST = re.compile(r"\w+(?==)")
_REPLICATED = re.compile(r"\{(replicated|maximal device=\d+)\}")
_TILES = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r"( last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}"
)


def resolve_shardings(attributes: dict[str, Any], program: Program) -> dict[str, Any]:
    """The attributes of an op, with shardings and axes for those that are given as text."""
    result = dict(attributes)
    for name in ("in_shardings", "out_shardings"):
        if isinstance(result.get(name), Opaque):
            result[name] = tuple(shardings(result[name].text, program))
    if isinstance(result.get("manual_axes"), Opaque):
        result["manual_axes"] = tuple(re.findall(r'"([^"]*)"', result["manual_axes"].text))
    return result


def with_meshes(attributes: dict[str, Any], program: Program) -> dict[str, Any]:
    """The attributes of an op, with shardings for text, and the mesh where `replica_groups` are axes of one."""
    if "in_shardings" in attributes:
        return resolve_shardings(attributes, program)
    groups = attributes.get("replica_groups")
    if not isinstance(groups, Mapping) or not isinstance(groups.get("mesh"), str):
        return attributes
    declared = (program.attributes.get(kind, {}).get(groups["mesh"]) for kind in ("stablehlo.mesh", "sdy.mesh"))
    mesh = next((d for d in declared if d is not None), {}).get("mesh")
    if isinstance(mesh, Opaque):  # Shardy's form
        found = _mesh_of_text(mesh.text)
        axes = tuple({"name": name, "size": size} for name, size in found.axes) if found else ()
        mesh = {"axes": axes, "device_ids": found.devices} if found else None
    return attributes if mesh is None else {**attributes, "replica_groups": {**groups, "mesh": mesh}}


def shardings(text: str, program: Program) -> list[Sharding]:
    """The shardings in a text of sdy, in order. Raises ProgramError where it is of no known form."""
    reader = _Reader(text.removeprefix("#sdy."), program)
    if reader.skip("sharding_per_value<["):
        result = reader.listed(reader.sharding, "]")
        reader.expect(">")
    else:
        reader.skip("sharding")
        result = [reader.sharding()]
    if reader.text[reader.at :].strip():
        raise reader.error()
    return result


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str, program: Program) -> None:
        self.text, self.at, self._program = text, 0, program

    def sharding(self) -> Sharding:
        self.expect("<")
        mesh = _mesh(self._match(_NAME)[0], self._program)
        self.expect(",")
        self.expect("[")
        dimensions = self.listed(self._dimension, "]")
        dims = tuple(tuple(a for a in dim if a is not None) for dim in dimensions)
        unreduced: list[Axis] = []
        while self.skip(","):
            name = self._match(_LIST)[0]
            self.expect("=")
            axes = self._dimension()
            if name == "unreduced":
                unreduced += [a for a in axes if a is not None]
            elif name != "replicated":
                raise self.error()
        self.expect(">")
        used = [axis for dim in (*dims, unreduced) for axis in dim]
        sizes = dict(mesh.axes)
        if any(axis.name not in sizes for axis in used):
            raise ProgramError(f"expected axes of the mesh ({', '.join(sizes)}), got sharding {self.text}")
        if any(axis.size is not None for axis in unreduced):
            raise ProgramError(f"expected whole axes as unreduced ones, got sharding {self.text}")
        names = {axis.name for axis in unreduced}
        opened = frozenset(i for i, dim in enumerate(dimensions) if None in dim)
        return Sharding(mesh, dims, tuple(name for name, _ in mesh.axes if name in names), opened)

    def _dimension(self) -> list[Axis | None]:
        self.expect("{")
        axes = self.listed(self._axis, "}")
        self._match(_PRIORITY, optional=True)
        return axes

    def _axis(self) -> Axis | None:
        """An axis; None for the question mark of a dimension that may be cut further."""
        if self.skip("?"):
            return None
        name, before, size = self._match(_REFERENCE).groups()
        return Axis(name, int(before or 1), int(size) if size else None)

    def listed(self, item: Any, end: str) -> list[Any]:
        """Items with commas between them, up to `end`."""
        items: list[Any] = []
        while not self.skip(end):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def skip(self, token: str) -> bool:
        self._space()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def expect(self, token: str) -> None:
        if not self.skip(token):
            raise self.error()

    def _match(self, pattern: re.Pattern[str], optional: bool = False) -> Any:
        self._space()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        elif not optional:
            raise self.error()
        return match

    def _space(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def error(self) -> ProgramError:
        return ProgramError(f'expected a sharding such as <@mesh, [{{"x"}}, {{}}]>, got {self.text}')


def _mesh(text: str, program: Program) -> Mesh:
    if text.startswith("@"):
        declared = program.attributes.get("sdy.mesh", {}).get(text[1:].strip('"'), {}).get("mesh")
        if not isinstance(declared, Opaque):
            raise ProgramError(f"expected a sharding on a mesh of the program, got {text}")
        text = declared.text
    mesh = _mesh_of_text(text)
    if mesh is None:
        raise ProgramError(f'expected a mesh such as #sdy.mesh<["x"=2]>, got {text}')
    return mesh


def _mesh_of_text(text: str) -> Mesh | None:
    match = _MESH.fullmatch(text)
    if not match:
        return None
    axes = tuple((name, int(size)) for name, size in _AXIS.findall(match[1]))
    return Mesh(axes, tuple(int(n) for n in match[2].split(",")) if match[2] else None)


def tiles(text: str, rank: int, devices: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Of an `mhlo.sharding`: into how many parts each dimension is cut, and which part each device has.

    Raises ProgramError where it is of no known form.
    """
    text = text.strip()
    if _REPLICATED.fullmatch(text):
        return (1,) * rank, [(0,) * rank] * devices
    match = _TILES.fullmatch(text)
    if not match:
        raise ProgramError(f"expected an mhlo.sharding such as {{devices=[2,1]<=[2]}} or {{replicated}}, got {text}")
    sizes = [int(n) for n in match[1].split(",")]
    if match[2]:
        ids = np.arange(devices).reshape([int(n) for n in match[2].split(",")])
        ids = ids.transpose([int(n) for n in match[3].split(",")]) if match[3] else ids
    else:
        ids = np.array([int(n) for n in match[4].split(",")])
    if sorted(ids.ravel().tolist()) != list(range(devices)) or ids.size != np.prod(sizes):
        raise ProgramError(f"expected an mhlo.sharding of {devices} devices, got {text}")
    if len(sizes) != rank + bool(match[5]):
        raise ProgramError(f"expected an mhlo.sharding of {rank} dimensions, got {text}")
    places = dict(zip(ids.ravel().tolist(), np.ndindex(*sizes), strict=True))
    return tuple(sizes[:rank]), [places[d][:rank] for d in range(devices)]
