"""Finds the groups that run by a lookup table for each row or column; see `executors/rows.py`."""

from __future__ import annotations

from collections.abc import Sequence

from ....ops.engine.speed import tuning
from ...program import Value
from ..executors.columns import trailing_columns
from ..executors.rows import leading_rows
from ..leaf import Leaf
from ..passes.fusible import Root, along, identity, shape_of
from .deferred import Deferred


def has_row_tables(operands: Sequence[Value], deferred: Deferred) -> bool:
    """Whether all that an op on these operands depends on makes tables for rows or columns that pay."""
    shape = max((shape_of(v) for v in operands), key=len)
    roots: dict[Root, None] = {}
    seen: set[Root] = set()
    stack = [(v, identity(v)) for v in operands]
    while stack:
        value, axes = root = stack.pop()
        if root in seen or deferred.number(value) is not None:
            continue
        seen.add(root)
        node = deferred.pending.get(value)
        if node is None:
            roots[root] = None
            if len(roots) > tuning().rows_leaves:
                return False
        elif node.spread is not None:
            stack.append((node.operation.operands[0], along(node.spread, axes)))
        elif node.shape != shape:
            return False
        else:
            stack += [(v, axes if shape_of(v) else ()) for v in node.operation.operands]
    leaves = [Leaf(v.type, axes) for v, axes in roots]  # type: ignore[arg-type]
    return leading_rows(leaves, shape) is not None or trailing_columns(leaves, shape) is not None
