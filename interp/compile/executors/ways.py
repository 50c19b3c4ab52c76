"""The executors by name."""

from __future__ import annotations

import dataclasses

from .alone import as_view, by_kernel, by_ranks, by_scan, of_ranks
from .blocks import by_blocks
from .columns import by_columns, by_repeated_columns
from .compiled import by_machine, folds_by_machine, table_folds_by_machine
from .composition import by_composition
from .folds import by_folds, by_table_folds
from .job import Executor
from .loops import by_loops
from .recurrence import by_recurrence
from .row_pairs import by_row_pairs
from .row_programs import by_steps, rows_by_machine
from .rows import by_rows
from .table import by_table


@dataclasses.dataclass(frozen=True)
class Way:
    """A way to run operations.

    kernel: makes the kernel of a job.
    label: what the group's function is called in listings, of a way that does not fall back on another one.
    writes_over: whether that function may write over arrays that it has made.
    """

    kernel: Executor
    label: str = ""
    writes_over: bool = False


EXECUTORS = {
    "alone": Way(by_kernel),
    "view": Way(as_view),
    "ranks": Way(by_ranks, "ranks"),
    "values of ranks": Way(of_ranks),
    "scan": Way(by_scan, "scan"),
    "recurrence": Way(by_recurrence),
    "composition": Way(by_composition),
    "loops": Way(by_loops),
    "table": Way(by_table, "table"),
    "rows": Way(by_rows, "rows"),
    "columns": Way(by_columns, "columns"),
    "repeated columns": Way(by_repeated_columns),
    "blocks": Way(by_blocks, "blocks", True),
    "compiled": Way(by_machine, writes_over=True),
    "fold": Way(by_folds, "reduction", True),
    "table fold": Way(by_table_folds, "table"),
    "row pairs": Way(by_row_pairs),
    "compiled fold": Way(folds_by_machine, writes_over=True),
    "compiled table fold": Way(table_folds_by_machine),
    "row steps": Way(by_steps, "row program"),
    "compiled rows": Way(rows_by_machine),
}
