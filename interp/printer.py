"""What depends on the process: printing, calls of listeners, and meshes of collectives."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..ops.processes.parallel import current
from .parse import sharding
from .parse.attributes import Opaque
from .program import Operation, Program
from .values.printing import format_value

#: Held while something is printed or a listener is called, so that the output of one process stays in one piece.
_output_lock = threading.RLock()

_SDY_MESH = re.compile(r"#sdy\.mesh<\[(.*?)\](?:, device_ids=\[(.*?)\])?>")
_SDY_AXIS = re.compile(r'"([^"]*)"=(\d+)')


def print_operands(operation: Operation, *values: Any) -> None:
    """Print the operands of `interpreter.print`, with the place and, where there are several processes, the process."""
    process = current()
    where = f"{operation.location}" + (f" process {process.id}" if process.grid.shape != (1, 1) else "")
    texts = [f"{where}: {format_value(v, o.type)}" for v, o in zip(values, operation.operands, strict=True)]
    with _output_lock:
        print("\n".join(texts), flush=True)


def one_at_a_time(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function as one that only one process runs at a time."""

    def run(*arguments: Any) -> None:
        with _output_lock:
            function(*arguments)

    return run


def with_mesh(attributes: dict[str, Any], program: Program) -> dict[str, Any]:
    """The attributes of an op, with the mesh in the place of its name where `replica_groups` are axes of one.

    Shardings are read too, which name their meshes in the same way.
    """
    if "in_shardings" in attributes:
        return sharding.resolved(attributes, program)
    groups = attributes.get("replica_groups")
    if not isinstance(groups, Mapping) or not isinstance(groups.get("mesh"), str):
        return attributes
    name = groups["mesh"]
    declared = (program.attributes.get(kind, {}).get(name) for kind in ("stablehlo.mesh", "sdy.mesh"))
    declared_mesh = next((d for d in declared if d is not None), {}).get("mesh")
    mesh = _sdy_mesh(declared_mesh.text) if isinstance(declared_mesh, Opaque) else declared_mesh
    return attributes if mesh is None else {**attributes, "replica_groups": {**groups, "mesh": mesh}}


def _sdy_mesh(text: str) -> dict[str, Any] | None:
    """Shardy's form of a mesh as StableHLO's."""
    match = _SDY_MESH.fullmatch(text)
    if not match:
        return None
    axes = tuple({"name": name, "size": int(size)} for name, size in _SDY_AXIS.findall(match[1]))
    ids = [int(n) for n in match[2].split(",")] if match[2] else None
    return {"axes": axes, "device_ids": ids}
