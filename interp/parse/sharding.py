"""Shardings as they are written in a program -> the plain values of `ops/processes/sharded.py`.

#sdy.sharding<@mesh, [{"x", "y":(2)4}, {}, {"z", ?}], replicated={"w"}>      of one value
#sdy.sharding<@mesh, [{"x"}], unreduced={"y"}>                               of addends, which differ along "y"
#sdy.sharding<@mesh, [{"x"}], unreduced=max{"y"}>                            of values whose largest counts
#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>                     of several
{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}                       the older form, an attribute mhlo.sharding

Any other form is an error: to pass over a part of a sharding could give wrong numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...ops.processes.sharded import Axis, Mesh, Sharding
from ..errors import ProgramError
from ..program import Program
from .attributes import Opaque

_MESH = re.compile(r"(?:#sdy\.)?mesh<\[(.*?)\](?:, device_ids=\[(.*?)\])?>")
_MESH_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_NAME = r'@(?:[\w.$-]+|"[^"]*")|mesh<\[(?:"[^"]*"|[^"\]])*\](?:, device_ids=\[[\d, ]*\])?>'
#: An axis, or the question mark of a dimension that may be cut further.
_AXIS = r'(?:"[^"]*"(?::\(\d+\)\d+)?|\?)'
#: Axes, and the priority of a dimension.
_AXES = rf"\{{\s*(?:{_AXIS}(?:\s*,\s*{_AXIS})*)?\s*\}}(?:\s*p\d+)?"
_SHARDING = re.compile(
    rf"<\s*(?P<mesh>{_NAME})\s*,\s*\[\s*(?P<dims>(?:{_AXES}(?:\s*,\s*{_AXES})*)?)\s*\]"
    rf"(?P<lists>(?:\s*,\s*(?:replicated|unreduced)=\s*(?:max|min|sum)?\s*{_AXES})*)\s*>"
)
_REPLICATED = re.compile(r"\{(replicated|maximal device=\d+)\}")
#: The last dimensions of a grid of devices may cut nothing: the parts are the same, or manual, along them.
_TILES = re.compile(
    r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))"
    r"(?: (last_tile_dim_replicate)| last_tile_dims=\{((?:replicated|manual)(?:, *(?:replicated|manual))*)\})?\}"
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
    text = text.removeprefix("#sdy.")
    several = re.fullmatch(r"\s*sharding_per_value<\[(.*)\]\s*>\s*", text)
    body = several[1] if several else text.lstrip().removeprefix("sharding")
    matches, between = list(_SHARDING.finditer(body)), _SHARDING.sub("", body).split(",")
    fits = several is not None or len(matches) == 1
    if any(map(str.strip, between)) or len(between) != max(len(matches), 1) or not fits:
        raise ProgramError(f'expected a sharding such as <@mesh, [{{"x"}}, {{}}]>, got {text}')
    return [_sharding(match, text, program) for match in matches]


def _sharding(match: re.Match[str], text: str, program: Program) -> Sharding:
    mesh = _mesh(match["mesh"], program)
    dimensions = [_axes(dim) for dim in re.findall(_AXES, match["dims"])]
    dims = tuple(tuple(a for a in dim if a is not None) for dim in dimensions)
    lists = re.findall(rf"unreduced=\s*(max|min|sum|)\s*({_AXES})", match["lists"])
    unreduced = [a for _, axes in lists for a in _axes(axes) if a is not None]
    sizes = dict(mesh.axes)
    if any(axis.name not in sizes for dim in (*dims, unreduced) for axis in dim):
        raise ProgramError(f"expected axes of the mesh ({', '.join(sizes)}), got sharding {text}")
    if any(axis.size is not None for axis in unreduced):
        raise ProgramError(f"expected whole axes as unreduced ones, got sharding {text}")
    names = {axis.name for axis in unreduced}
    opened = frozenset(i for i, dim in enumerate(dimensions) if None in dim)
    kinds = [kind for kind, _ in lists if kind]
    return Sharding(mesh, dims, tuple(name for name, _ in mesh.axes if name in names), opened, *kinds[:1])


def _axes(text: str) -> list[Axis | None]:
    """The axes in a text, None for a question mark."""
    found = re.finditer(r'"([^"]*)"(?::\((\d+)\)(\d+))?|\?', text)
    return [None if m[0] == "?" else Axis(m[1], int(m[2] or 1), int(m[3]) if m[3] else None) for m in found]


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
    axes = tuple((name, int(size)) for name, size in _MESH_AXIS.findall(match[1]))
    return Mesh(axes, tuple(int(n) for n in match[2].split(",")) if match[2] else None)


#: Axes along which devices have parts of their own already, where a part is cut further.
MANUAL = "manual"


def tiles(text: str, rank: int, devices: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Of an `mhlo.sharding`: into how many parts each dimension is cut, and which part each device has.

    Raises ProgramError where it is of no known form.
    """
    sharding = tiled(text, rank, devices)
    return sharding.parts(), [sharding.part(d) for d in range(devices)]


def tiled(text: str, rank: int, devices: int | None) -> Sharding:
    """An `mhlo.sharding` on a mesh of its own; `devices` is their number where it is known.

    The axes that are manual already have names that begin with `MANUAL`.

    Raises ProgramError where it is of no known form.
    """
    text = text.strip()
    if _REPLICATED.fullmatch(text):
        return Sharding(Mesh((("rest", devices or 1),)), ((),) * rank)
    match = _TILES.fullmatch(text)
    if not match:
        raise ProgramError(f"expected an mhlo.sharding such as {{devices=[2,1]<=[2]}} or {{replicated}}, got {text}")
    sizes = [int(n) for n in match[1].split(",")]
    if match[2]:
        grid = [int(n) for n in match[2].split(",")]
        ids = np.arange(math.prod(grid)).reshape(grid)
        ids = ids.transpose([int(n) for n in match[3].split(",")]) if match[3] else ids
    else:
        ids = np.array([int(n) for n in match[4].split(",")])
    devices = ids.size if devices is None else devices
    if sorted(ids.ravel().tolist()) != list(range(devices)) or ids.size != np.prod(sizes):
        raise ProgramError(f"expected an mhlo.sharding of {devices} devices, got {text}")
    last = ["replicated"] if match[5] else re.findall(r"\w+", match[6] or "")
    if len(sizes) != rank + len(last):
        raise ProgramError(f"expected an mhlo.sharding of {rank} dimensions, got {text}")
    names = [f"{MANUAL if kind == 'manual' else 'd'}{i}" for i, kind in enumerate(["cut"] * rank + last)]
    mesh = Mesh(tuple(zip(names, sizes, strict=True)), tuple(ids.ravel().tolist()))
    return Sharding(mesh, tuple([(Axis(name),) for name in names[:rank]]))
