"""Describes a plan to people: which ops run as one group, and the Python that was generated."""

from __future__ import annotations

import dataclasses

from ...ops.reductions.folds import PAIRS_FROM
from ...ops.types import TensorType
from ..program import Operation
from .choose import why_alone
from .planner import Plan
from .reductions import sole_operation


@dataclasses.dataclass(frozen=True)
class Part:
    """The group that an op is part of, such as `table 1`, and why that runs as it does."""

    group: str
    reason: str


def groups(plan: Plan) -> dict[str, Part]:
    """The group that each op is part of, by the op's place; ops that run alone have none."""
    parts = [
        (chosen, places)
        for chosen in plan.chosen
        if (places := [o.location for o in chosen.operations if o.location.line])
    ]
    parts.sort(key=lambda part: [(p.line, p.column) for p in part[1]])
    return {
        str(place): Part(f"{chosen.label} {i + 1}", str(chosen.decision))
        for i, (chosen, places) in enumerate(parts)
        for place in places
    }


def listing(plan: Plan) -> str:
    """The generated functions, each line with the op that it runs, and its place; what runs alone with the reason."""
    fused = {operation for chosen in plan.chosen for operation in chosen.operations}
    parts = []
    for source in plan.sources.values():
        lines = [f"# {source.label}{f': {source.reason}' if source.reason else ''}"]
        for line, operation in zip(source.text.splitlines(), source.operations, strict=True):
            comment = "" if operation is None or line.lstrip().startswith("del ") else _comment(operation, fused)
            lines.append(line.rstrip() + comment)
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _comment(operation: Operation, fused: set[Operation]) -> str:
    place = f"  # {operation.location}: {operation.name}"
    arrays = [r for r in operation.results if not isinstance(r.type, TensorType) or r.type.shape]
    if operation.name == "stablehlo.reduce" and sole_operation(operation.regions[0]) is None:
        return f"{place} (a body of several operations reduces {PAIRS_FROM} elements or more in pairs of neighbours)"
    if operation in fused or operation.regions or not arrays:
        return place
    return f"{place} ({why_alone(operation)})"
