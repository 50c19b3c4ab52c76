"""Shardings as they are written in a program -> the plain values of `ops/sharded.py`.

#sdy.sharding<@mesh, [{"x", "y":(2)4}, {}, {"z", ?}], replicated={"w"}>     of one value
#sdy.sharding_per_value<[<@mesh, [{"x"}]>, <@mesh, []>]>                     of several
{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}                       the older form, an attribute mhlo.sharding
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ..ops.sharded import Axis, Mesh, Sharding
from .attributes import Opaque
from .program import Program

_MESH = re.compile(r"mesh<\[(.*?)\](?:, device_ids=\[(.*?)\])?>")
_AXIS = re.compile(r'"([^"]*)"=(\d+)')
_ONE = re.compile(r"<\s*(@(?:[\w.$-]+|\"[^\"]*\")|mesh<\[.*?\](?:, device_ids=\[.*?\])?>)\s*,\s*\[([^\[\]]*)\]")
_DIM = re.compile(r"\{([^{}]*)\}")
_REFERENCE = re.compile(r'"([^"]*)"(?::\((\d+)\)(\d+))?')
_TILES = re.compile(r"\{devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))([^}]*)\}")


def resolved(attributes: dict[str, Any], program: Program) -> dict[str, Any]:
    """The attributes of an op, with shardings and axes for those that are given as text."""
    found = dict(attributes)
    for name in ("in_shardings", "out_shardings"):
        if isinstance(found.get(name), Opaque):
            found[name] = tuple(shardings(found[name].text, program))
    if isinstance(found.get("manual_axes"), Opaque):
        found["manual_axes"] = tuple(re.findall(r'"([^"]*)"', found["manual_axes"].text))
    return found


def shardings(text: str, program: Program) -> list[Sharding]:
    """The shardings in a text of sdy, in order."""
    return [
        Sharding(
            _mesh(mesh, program),
            tuple(
                tuple(Axis(name, int(before or 1), int(size) if size else None) for name, before, size in axes)
                for axes in map(_REFERENCE.findall, _DIM.findall(dims))
            ),
        )
        for mesh, dims in _ONE.findall(text)
    ]


def _mesh(text: str, program: Program) -> Mesh:
    if text.startswith("@"):
        declared = program.attributes.get("sdy.mesh", {}).get(text[1:].strip('"'), {}).get("mesh")
        text = declared.text if isinstance(declared, Opaque) else ""
    found = _MESH.search(text)
    if not found:
        return Mesh(())
    axes = tuple((name, int(size)) for name, size in _AXIS.findall(found[1]))
    return Mesh(axes, tuple(int(n) for n in found[2].split(",")) if found[2] else None)


def tiles(text: str, rank: int, devices: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Of an `mhlo.sharding`: into how many parts each dimension is cut, and which part each device has."""
    found = _TILES.fullmatch(text.strip())
    if not found:  # replicated, or all on one device
        return (1,) * rank, [(0,) * rank] * devices
    sizes = [int(n) for n in found[1].split(",")]
    if found[2]:
        ids = np.arange(devices).reshape([int(n) for n in found[2].split(",")])
        ids = ids.transpose([int(n) for n in found[3].split(",")]) if found[3] else ids
    else:
        ids = np.array([int(n) for n in found[4].split(",")])
    places = dict(zip(ids.ravel().tolist(), np.ndindex(*sizes), strict=True))
    return tuple(sizes[:rank]), [places[d][:rank] for d in range(devices)]
