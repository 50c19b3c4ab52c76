"""What a plan has made of a program, for people: which ops run as one group, and the Python that was generated."""

from __future__ import annotations

from ..program import Operation
from .planner import Plan
from .writer import label

#: How the generated functions of groups end in their names.
_GROUPS = ("table", "blocks", "reduction", "ranks")


def groups(plan: Plan) -> dict[str, str]:
    """The group that each op is part of, by the op's place, such as `table 1`; ops that run alone have none."""
    parts = [
        (label(file), [o.location for o in operations if o is not None and o.location.line])
        for file, (_, operations) in plan.sources.items()
        if label(file) in _GROUPS
    ]
    parts.sort(key=lambda part: [(p.line, p.column) for p in part[1]])
    return {str(place): f"{label} {i + 1}" for i, (label, places) in enumerate(parts) for place in places}


def listing(plan: Plan) -> str:
    """The generated functions, each line with the op that it runs, and its place."""
    parts = []
    for file, (text, operations) in plan.sources.items():
        lines = [f"# {label(file)}"]
        for line, operation in zip(text.splitlines(), operations, strict=True):
            lines.append(line.rstrip() if _is_plain(line, operation) else f"{line.rstrip()}  # {_told(operation)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _is_plain(line: str, operation: Operation | None) -> bool:
    return operation is None or line.lstrip().startswith("del ")


def _told(operation: Operation | None) -> str:
    return f"{operation.location}: {operation.name}" if operation else ""
