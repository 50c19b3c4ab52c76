"""Row programs: each thread takes a few rows at a time through all of their operations."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....ops.engine.fast import opcodes
from ....ops.engine.fast.layouts import Layouts
from ....ops.engine.fast.recipes import Fold as MachineFold
from ....ops.engine.fast.recipes import Lookup as MachineLookup
from ....ops.engine.fast.recipes import Recipe
from ....ops.engine.fast.recipes import Step as MachineStep
from ....ops.engine.fast.row_run import Output, RowRunner
from ....ops.op import traits_of
from ....ops.policy import Policy
from ....ops.traits import Run
from ....ops.types import ELEMENT_TYPES, TensorType
from ..chains.program import Fold, Rank, RowProgram
from ..group import UNRANK, Lookup, Ranked, Reduction, Step
from ..kernels import Kernels
from ..leaf import Compute
from ..reductions import folding_of
from .compiled import lays
from .folds import no_step
from .job import Job
from .tables import Tables, by_laid_table, shared_tables

_F32 = ELEMENT_TYPES["f32"]


def by_steps(_: Job, __: Run | None) -> Run:
    """The kernel that runs the operations of a program one after the other; it takes the function of its region."""
    return lambda regions, *values: regions[0](*values)


def rows_by_machine(job: Job, otherwise: Run | None) -> Run:
    """The kernel of a program that is run by compiled code, and `otherwise` as long as it cannot be."""
    operation = job.operation
    program: RowProgram = operation.attributes["program"]
    places, shape, kept = operation.attributes["places"], program.shape, program.kept
    assert otherwise is not None
    spreads = [leaf.spread(len(shape)) for leaf in program.leaves]
    spreads = [[*s[:kept], math.prod(s[kept:])] for s in spreads]
    sizes = [*shape[:kept], math.prod(shape[kept:])]
    views = [leaf.view(shape) if leaf.is_turned else None for leaf in program.leaves]
    outputs = []
    for value, place in zip(operation.results, program.outputs, strict=True):
        assert isinstance(value.type, TensorType)
        outputs.append(Output(value.type.shape, value.type.element.dtype, program.rows[place]))  # type: ignore[arg-type]
    whole = _Whole(program, job.kernels, job.policy)
    layouts = Layouts(shape, lays(program.leaves, shape), kept)
    runner = RowRunner(whole.recipe, whole.compute, sizes, spreads, views, layouts=layouts)

    are_in_order = tuple(places) == tuple(range(len(operation.operands)))

    def kernel(regions: Sequence[Run], *values: np.ndarray) -> Any:
        results = runner.run_rows(values if are_in_order else [values[i] for i in places], outputs)
        return otherwise(regions, *values) if results is None else tuple(results)

    return kernel


def _there(entries: np.ndarray) -> Callable[[int], np.ndarray]:
    """A table that is there."""
    return lambda _: entries


class _Whole:
    """A program as the machine reads it, and in numpy."""

    def __init__(self, program: RowProgram, kernels: Kernels, policy: Policy) -> None:
        self._program, self._kernels, self._policy = program, kernels, policy
        self._tables: dict[Lookup, Tables] = {}
        for step in program.steps:
            if isinstance(step, Lookup):
                self._tables[step] = shared_tables(policy, step.function, kernels.evaluated(step.function))

    @property
    def recipe(self) -> Recipe:
        """What the machine's program is made of."""
        program, tables = self._program, self._tables
        names = [f"v{i}" for i in range(len(program.rows))]
        after = len(program.leaves)
        leaves = [(name, leaf.type.element) for name, leaf in zip(names, program.leaves, strict=False)]
        constants = {n: (c.array, c.element) for n, c in zip(names[after:], program.constants, strict=False)}
        elements = [leaf.type.element for leaf in program.leaves] + [c.element for c in program.constants]
        steps: list[MachineStep | MachineLookup | MachineFold] = []
        for result, step in zip(names[len(elements) :], program.steps, strict=True):
            operands = [names[i] for i in step.operands]
            elements.append(step.element)
            if isinstance(step, Fold):
                compiled = traits_of(step.name).compiled_fold
                assert compiled is not None
                start = f"start of {result}"
                constants[start] = step.start.array, step.element
                steps.append(MachineFold(compiled, operands[0], start, result, step.element))
            elif isinstance(step, Rank):
                reduction = self._kernels.ranked(step.ranked)
                ranks, start = f"ranks of {result}", "least rank"
                constants[start] = np.array(1, np.float32), _F32
                steps.append(MachineLookup(_there(reduction.words), (8,), operands, ranks, _F32))
                steps.append(MachineFold(opcodes.FOLD_MAXIMUM, ranks, start, result, step.element))
            elif isinstance(step, Step) and step.name == UNRANK:
                entries = self._kernels.ranked(step.attributes["ranked"]).entries
                steps.append(MachineLookup(_there(entries), (8,), operands, result, step.element))
            elif isinstance(step, Lookup):
                made = tables[step]
                steps.append(MachineLookup(made.entries, made.widths, operands, result, step.element))
            else:
                kernel = self._kernels.of_step(step, (None,))
                what = step.name, step.attributes, operands, result, step.elements, kernel.of_bfloat16 or kernel.of_half
                steps.append(MachineStep(*what, kernel.traits.compiled, kernel.traits.compiled_words))
        outputs = [(names[i], elements[i]) for i in program.outputs]
        rows = frozenset(name for name, is_row in zip(names, program.rows, strict=True) if is_row)
        return Recipe(leaves, constants, steps, outputs, self._policy, rows)

    @property
    def compute(self) -> Compute:
        """The outputs of some rows: it takes the leaves' elements, (rows, columns) or (rows, 1)."""
        program, columns = self._program, math.prod(self._program.shape[self._program.kept :])
        calls: list[Run] = []
        for step in program.steps:
            if isinstance(step, Fold):
                calls.append(self._folded(step, columns))
            elif isinstance(step, Rank):
                calls.append(self._ranked(step.ranked))
            elif isinstance(step, Lookup):
                calls.append(by_laid_table(self._tables[step]))
            else:
                calls.append(self._kernels.of_step(step, (None, None)).call)
        constants = [constant.array for constant in program.constants]

        def compute(*leaves: np.ndarray) -> tuple[np.ndarray, ...]:
            values: list[np.ndarray] = [*leaves, *constants]
            for call, step in zip(calls, program.steps, strict=True):
                values.append(call(*[values[i] for i in step.operands]))
            return tuple([values[i] for i in program.outputs])

        return compute

    def _ranked(self, ranked: Ranked) -> Run:
        reduction = self._kernels.ranked(ranked)
        return lambda codes: reduction.rank(codes.shape, (1,))(codes).reshape(-1, 1)

    def _folded(self, step: Fold, columns: int) -> Run:
        folding = folding_of(Reduction(step.name, (0,), step.element), (columns, 1), self._policy)
        assert folding is not None

        def fold(x: np.ndarray) -> np.ndarray:
            rows = np.ascontiguousarray(np.broadcast_to(x, (len(x), columns)).T)
            totals = np.broadcast_to(step.start.array, len(x))
            return np.asarray(folding.fold(no_step, (totals,), [rows])[0]).reshape(-1, 1)

        return fold
