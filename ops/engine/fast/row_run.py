"""Runs programs of the machine on blocks of whole rows, with reductions of rows between the other ops.

Only the leaves and the outputs are in memory: what lies between stays in the registers, which the second-level cache
holds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import speed
from ..compiled import machine
from .programs import program
from .run import NO_TABLES, FoldRows, Plan, Runner, parts_of


@dataclasses.dataclass(frozen=True)
class Output:
    """An output of a program on rows: `is_row` if it has one number for each row."""

    shape: Sequence[int]
    dtype: np.dtype
    is_row: bool


class RowRunner(Runner):
    """A program on rows and how its leaves lie; the last of the sizes is the length of a row."""

    def run_rows(self, values: Sequence[np.ndarray], outputs: Sequence[Output]) -> Any:
        """The outputs; None where this is left to numpy."""
        runner, laid = self._placed(values)
        return runner._run_rows(laid, outputs)

    def _run_rows(self, laid: Sequence[np.ndarray], outputs: Sequence[Output]) -> Any:
        plan = self._plan or self._planned_rows()
        if plan is None:
            return None
        tables = self._tables(plan.program) if plan.program.tables else NO_TABLES
        if tables is None:
            return None
        results = [np.empty(o.shape, o.dtype) for o in outputs]
        self._is_row = [o.is_row for o in outputs]
        self.run_blocks(plan, plan.program, tables, laid, results, None, None)
        return results

    def _planned_rows(self) -> Plan | None:
        call = machine(self.size) if self._is_known else None
        if call is None:
            return None
        tuning, rows, columns = speed.tuning(), self._rows, self._columns
        side = tuning.fast_high
        most = tuning.fast_elements
        high = min(max(side, most // columns // side * side), rows)
        pieces = -(-columns // max(most // high, 1))
        # Of a number of whole lines the compiler's loops leave no elements over, which they would do one by one.
        inner = min(-(-columns // pieces // tuning.fast_line) * tuning.fast_line, columns)
        fixed = [rows > high and not any(s[:-1]) for s in self._layout.steps]
        made = program(self._recipe, None, fixed, pieces)
        if made is not None and 4 * high * inner * made.registers > tuning.row_bytes:
            made = None
        self._is_known = made is not None
        if made is None:
            return None
        wheres, weight = parts_of(made, self.size, rows, columns, (high, columns), inner=inner)
        self._plan = Plan(made, call, (high, columns), wheres, weight)
        return self._plan

    def by_numpy(
        self,
        index: int,
        block: tuple[int, int],
        leaves: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        totals: np.ndarray,  # noqa: ARG002
        instead: FoldRows | None,  # noqa: ARG002
    ) -> None:
        """One block that the machine has not done."""
        rows = slice(index * block[0], min((index + 1) * block[0], self._rows))
        parts = self._elements(leaves, rows, slice(0, self._columns), True)
        for whole, part, is_row in zip(outputs, self._compute(*parts), self._is_row, strict=True):
            whole.reshape(self._rows, 1 if is_row else self._columns)[rows] = part
