"""An operation that is to be run in some way, and what the ways to run it derive from it, each when it is asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from ....ops.engine.fast.recipes import Lookup as MachineLookup
from ....ops.engine.fast.recipes import Recipe
from ....ops.engine.fast.recipes import Step as MachineStep
from ....ops.engine.speed import tuning
from ....ops.policy import Policy
from ....ops.reductions.reduce import Folding
from ....ops.traits import Kernel, Run
from ...program import Operation
from ..decision import Chosen, Decision, table_of
from ..generate import generate
from ..group import Group, Lookup, Origin, Reduction, Step
from ..kernels import Kernels
from ..leaf import Compute
from ..reductions import folding_of
from ..writer import Sources
from .tables import Tables, by_laid_table, shared_tables
from .words import in_words


class Job:
    """An operation, the decision how it runs, and what that is made with.

    label: what the group's function is called in listings.
    writes_over: whether that function may write over arrays that it has made.
    """

    def __init__(
        self,
        operation: Operation,
        decision: Decision,
        kernels: Kernels,
        policy: Policy,
        sources: Sources,
        label: str = "",
        writes_over: bool = False,
    ) -> None:
        self.operation, self.decision, self.kernels, self.policy = operation, decision, kernels, policy
        self._sources, self._label, self._writes_over = sources, label, writes_over
        self._made: dict[Callable[[Job], Run], Run] = {}
        self._inside: list[Chosen] = []

    def chosen(self) -> list[Chosen]:
        """The decisions to be listed: for the tables within a group, and for the group; none for a single operation."""
        if "origins" not in self.operation.attributes:
            return []
        origins: tuple[Origin, ...] = self.operation.attributes["origins"]
        operations = [o.operation for o in origins if not o.inside]
        last = self.operation.origin
        if last is not None and last not in [o.operation for o in origins]:
            operations.append(last)
        return [*self._inside, Chosen(self._label, self.decision, tuple(operations))]

    def once(self, make: Callable[[Job], Run]) -> Run:
        """What a function makes of this, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    @property
    def group(self) -> Group:
        """The fused group."""
        return self.operation.attributes["group"]

    @functools.cached_property
    def folding(self) -> Folding:
        """How the group's output is reduced, of one that is."""
        reduction: Reduction = self.operation.attributes["reduction"]
        folding = folding_of(reduction, self.group.shape, self.policy)
        assert folding is not None
        return folding

    @functools.cached_property
    def compute(self) -> Compute:
        """The group's function in Python; of one that is not reduced, see `fills` of `generate`."""
        group = self.group
        rank, origins, reason = len(group.shape), self.operation.attributes["origins"], str(self.decision)
        leaves = [frozenset(d for d, n in enumerate(leaf.spread(rank)) if n > 1) for leaf in group.leaves]
        leaves = leaves if self._writes_over else []
        is_wide = math.prod(group.shape) >= tuning().half_many
        fills = self.operation.attributes["reduction"] is None
        what = self._label, self._sources, leaves, reason, is_wide, fills
        return generate(group.function, origins, self._kernel_of, *what)

    @functools.cached_property
    def compute_few(self) -> Compute:
        """The same of a group of few elements."""
        what = self._label, self._sources, str(self.decision)
        return in_words(self.group, self.operation.attributes["origins"], self._kernel_of, *what) or self.compute

    @functools.cached_property
    def tables(self) -> Tables:
        """The tables of the group's outputs."""
        return shared_tables(self.policy, self.group.function, self.compute)

    @functools.cached_property
    def recipe(self) -> Recipe:
        """The group as the compiled machine reads it."""
        function = self.group.function
        names = [f"v{i}" for i in range(function.first_step + len(function.steps))]
        first = function.first_step
        leaves = list(zip(names, function.leaves, strict=False))
        constants = {
            name: (c.array, c.element) for name, c in zip(names[len(leaves) :], function.constants, strict=False)
        }
        steps: list[MachineStep | MachineLookup] = []
        for i, step in enumerate(function.steps):
            operands, name = [names[j] for j in step.operands], names[first + i]
            if isinstance(step, Lookup):
                tables = self._inner[step]
                steps.append(MachineLookup(tables.entries, tables.widths, operands, name, step.element))
            else:
                kernel = self.kernels.of_step(step, self.group.shape)
                what = step.name, step.attributes, operands, name, step.elements, kernel.of_bfloat16 or kernel.of_half
                steps.append(MachineStep(*what, kernel.traits.compiled, kernel.traits.compiled_words))
        outputs = [(names[i], element) for i, element in zip(function.outputs, function.results, strict=True)]
        return Recipe(leaves, constants, steps, outputs, self.policy)

    @functools.cached_property
    def table_recipe(self) -> Recipe:
        """The same of a group that is a table: a lookup."""
        function, tables = self.group.function, self.tables
        leaves = [(f"v{i}", element) for i, element in enumerate(function.leaves)]
        names, (element,) = [name for name, _ in leaves], function.results
        step = MachineLookup(tables.entries, tables.widths, names, "r", element)
        return Recipe(leaves, {}, [step], [("r", element)], self.policy)

    @functools.cached_property
    def _inner(self) -> dict[Lookup, Tables]:
        """The tables within the group."""
        tables: dict[Lookup, Tables] = {}
        for step, origin in zip(self.group.function.steps, self.operation.attributes["origins"], strict=True):
            if isinstance(step, Lookup) and step not in tables:
                decision, sources = table_of(step.function), self._sources
                compute = generate(step.function, origin.inside, self._kernel_of, "table", sources, (), str(decision))
                self._inside.append(Chosen("table", decision, tuple([o.operation for o in origin.inside])))
                tables[step] = shared_tables(self.policy, step.function, compute)
        return tables

    def _kernel_of(self, step: Step | Lookup, _: Origin) -> Kernel:
        if isinstance(step, Step):
            return self.kernels.of_step(step, self.group.shape)
        tables = self._inner[step]
        return Kernel(by_laid_table(tables))


#: A way to run an operation: gives the kernel, which takes the op's operands. The second argument is the kernel of what
#: it falls back on, None where the decision names nothing.
Executor = Callable[[Job, Run | None], Run]
