"""`interp.profile`: the losses of each operation of a program in its formats, by line of code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.blocks.targets import QUANTIZE
from ...ops.op import call_attribute
from ...ops.policy import Policy
from ...ops.types import TensorType, type_of_dtype
from ..blocks.checks import block_format
from ..diff.compare import fit_arguments
from ..diff.judge import rounds
from ..diff.source import Source
from ..judging.wide import widen
from ..program import Operation
from ..system import host_floats
from . import profile_report
from .observe import ObservedProgram, runs_operations
from .profile_exact import exact_results, target
from .profile_tensors import LineProfile, Step, TensorProfile, lines_of
from .programs import check_policy, lowered_for
from .reports import Report, own_line, write
from .statistics import Statistics
from .statistics_blocks import BlockStatistics, call_format

#: The version of the JSON of `Profile.to_json`.
SCHEMA = 1


@host_floats.in_default
def profile(
    function: Any,
    /,
    *args: Any,
    policy: Policy | None = None,
    blocks: str | Iterable[str] = (),
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    **kwargs: Any,
) -> Profile:
    """Count the losses of a function or program in its formats, by operation and line of code.

    The program is lowered by JAX and evaluated here. For each float tensor the profile has the share of
    elements that underflow to zero, are subnormal, saturate, overflow or are NaN; the largest and the smallest
    magnitude; a histogram of exponents; and, for types of up to 16 bits, the error against the exact result. The exact
    result is the infinitely precise one of the operation on its actual operands: for a conversion the operand; for
    other operations the result in f64, in which products of such types are exact. Operations in loops and functions
    are counted over all iterations and calls.

    Args:
        function: A function that JAX can trace (also one of `jax.jit` or `interp.jit`), or a program as `interp.load`
            takes it: a path, MLIR text, bytes or an `ir.Module`.
        *args: The arguments of the function, or one array for each argument of the program.
        policy: The policy of the evaluation. The default is `Policy()`.
        blocks: Block formats, such as `"mxfp8_e4m3"`: the losses of the exact results in blocks along their last
            dimension are counted too.
        static_argnums: Static arguments by position, as of `jax.jit`.
        static_argnames: Static arguments by name, as of `jax.jit`.
        **kwargs: Keyword arguments of the function.

    Returns:
        A Profile. `print` shows the largest losses.

    Raises:
        InputError: The arguments are not those of the function, or there is no such block format.
        ProgramError: The program cannot be read or is not supported.
        ExecutionError: An operation failed while it ran.
    """
    made = Profile(policy, blocks)
    made.run(*lowered_for(made.policy, function, args, kwargs, static_argnums, static_argnames)[:2])
    return made


class Profile(Report):
    """The losses of programs in their formats, of `interp.profile` and `interp.profiling`. `print` shows it.

    Attributes:
        policy: The policy of the evaluation.
        blocks: The names of the block formats.
        tensors: One TensorProfile for each float result of each operation and each float argument, in order of
            execution.
        results: The results of the last run, a list of arrays.
        steps: The number and the program's name of each run.
    """

    def __init__(self, policy: Policy | None = None, blocks: str | Iterable[str] = ()) -> None:
        """Raises InputError if `policy` is no Policy, or a block format is unknown."""
        self.policy = check_policy(policy)
        self.blocks = tuple(block_format(b).name for b in ([blocks] if isinstance(blocks, str) else blocks))
        self._runs: dict[Source, _Run] = {}
        self.tensors: list[TensorProfile] = []
        self.results: list[Any] = []
        self.steps: list[dict[str, Any]] = []

    def run(self, source: Source, arrays: Sequence[Any], step: int | None = None) -> list[Any]:
        """Evaluate a program and count; `step` is the number of the sampled call. Returns its results.

        Raises InputError for arguments that do not fit, and the errors of the evaluation.
        """
        values, known = fit_arguments(source, arrays, partitions=True)
        if source not in self._runs:
            self._runs[source] = _Run(self, known)
        number = len(self.steps) if step is None else step
        self.results = self._runs[source].run(values, number)
        self.steps.append({"step": number, "program": source.file})
        return self.results

    @property
    def lines(self) -> list[LineProfile]:
        """The lines of code in the order of their files."""
        return lines_of(self.tensors)

    @property
    def findings(self) -> list[TensorProfile]:
        """The tensors with losses, the worst first: overflows, then by the share lost."""
        return sorted((t for t in self.tensors if t.is_found), key=lambda t: -t.severity)

    def sentences(self) -> list[str]:
        """The losses, the worst first, one sentence for each operation: where, how much, and what would help."""
        return [f"{t.line.file}{f':{t.line.line}' if t.line.line else ''}: {t.sentence()}" for t in self.findings]

    def table(self, most: int | None = 20) -> str:
        """The tensors with the largest losses as a table of text; None shows all that may round."""
        return profile_report.table(self, most)

    def __str__(self) -> str:
        return profile_report.text(self)

    def data(self) -> dict[str, Any]:
        """The profile as a dictionary; docs/numerics.md describes it."""
        return {
            "schema": SCHEMA,
            "steps": self.steps,
            "findings": self.sentences(),
            "tensors": [t.data() for t in self.tensors],
        }

    def html(self, path: Any = None) -> str:
        """The profile as one HTML page, also written to `path` if it is given. Raises OutputError if that fails."""
        return write(path, profile_report.page(self))


class _Run:
    """One program of a profile."""

    def __init__(self, profile: Profile, source: Source) -> None:
        self._profile, self._source = profile, source
        self._observed = ObservedProgram(source.program, source.function, profile.policy, self._observe)
        self._tensors: dict[tuple[Operation | None, int], TensorProfile] = {}
        self._now: dict[tuple[Operation | None, int], Statistics] = {}

    def run(self, values: Sequence[Any], step: int) -> list[Any]:
        self._now = {}
        for i, x in enumerate(values):
            if (name := _format(x)) is not None:
                self._executed(None, i, name)[1].add(x)
        results = self._observed.run(values)
        for key, statistics in self._now.items():
            tensor = self._tensors[key]
            tensor.statistics.merge(statistics)
            tensor.steps.append(Step.of(step, statistics))
        return results

    def _executed(self, operation: Operation | None, i: int, name: str) -> tuple[TensorProfile, Statistics]:
        """The profile of a result, or of an argument of the program, after one more execution, and its counts now."""
        key = operation, i
        if key not in self._tensors:
            self._tensors[key] = self._tensor(operation, i, Statistics(name))
            self._profile.tensors.append(self._tensors[key])
        self._tensors[key].executions += 1
        return self._tensors[key], self._now.setdefault(key, Statistics(name))

    def _tensor(self, operation: Operation | None, index: int, statistics: Statistics) -> TensorProfile:
        function = self._source.function
        if operation is None:
            name, kind, at = self._source.names()[index], str(function.argument_types[index]), function.location
            return TensorProfile("argument", index, name, kind, at, at, False, statistics)
        scope, lines = self._source.places(operation)
        scope = scope.replace("jit(jaxpr_as_fun)", self._source.file)  # the same function was traced again
        lines = [*lines, *self._observed.operations[operation]]
        inner = next((x for x in lines if x.line), operation.location)
        line = dataclasses.replace(own_line(lines, inner), column=0)
        kind = str(operation.results[index].type)
        is_rounding = rounds(operation) or target(operation) == QUANTIZE
        return TensorProfile(operation.name, index, scope, kind, line, inner, is_rounding, statistics)

    def _observe(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if call_attribute(operation.name) is not None or runs_operations(operation):
            return  # their operations are counted
        names = list(map(_format, results))
        blocks = call_format(operation.attributes) if target(operation) == QUANTIZE else None
        if blocks is not None and (element := blocks.element_format) is not None:
            names[0] = element.name
            results = [results[0].view(element.dtype), *results[1:]]
        if not any(names):
            return
        exact = exact_results(operation, operands, results)
        for i, (x, name) in enumerate(zip(results, names, strict=True)):
            if name is None:
                continue
            tensor, statistics = self._executed(operation, i, name)
            before = statistics.nans + statistics.infinities
            statistics.add(x, exact[i])
            made = statistics.nans + statistics.infinities - before
            if made and tensor.rounds and all(map(_is_finite, operands)):
                tensor.nonfinite_created += made
            if blocks is not None and i == 0:
                counts = tensor.blocks.setdefault(blocks.name, BlockStatistics(blocks.name))
                counts.add_call(operation.attributes, np.asarray(operands[0]), results)
            elif (wide := exact[i]) is not None and wide.ndim:
                for block in self._profile.blocks:
                    tensor.blocks.setdefault(block, BlockStatistics(block)).add(wide)


def _format(x: Any) -> str | None:
    """The float type of an array by its name, None for others."""
    try:
        element = type_of_dtype(x.dtype)
    except (AttributeError, ValueError):
        return None
    return element.name if element.is_float else None


def _is_finite(x: Any) -> bool:
    return _format(x) is None or bool(np.isfinite(widen(x, TensorType(x.shape, type_of_dtype(x.dtype)))).all())
