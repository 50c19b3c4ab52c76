"""The names of `ops/processes/parallel.py`, for callers that still import them from here."""

from ..processes.parallel import Grid, Process, current, current_grid, enter, here

__all__ = ["Grid", "Process", "current", "current_grid", "enter", "here"]
