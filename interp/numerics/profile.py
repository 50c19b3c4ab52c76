"""`interp.profile`: the losses of each operation of a program in its formats, by line of code."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...ops.blocks.targets import QUANTIZE
from ...ops.op import call_attribute, traits_of
from ...ops.policy import Policy
from ...ops.traits import RegionSemantics
from ...ops.types import type_of_dtype
from ..blocks.checks import block_format
from ..diff.compare import fit_arguments
from ..diff.judge import rounds
from ..diff.source import Source
from ..errors import OutputError
from ..program import Location, Operation
from ..system import host_floats
from .lines import own_line
from .profile_exact import Exact, target
from .profile_run import ObservedProgram
from .profile_tensors import LineProfile, Step, TensorProfile, lines_of
from .programs import check_policy, lower, program_of
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
    lowered = functools.partial(lower, policy=made.policy)
    made.run(*program_of(function, args, kwargs, lowered, static_argnums, static_argnames)[:2])
    return made


class Profile:
    """The losses of programs in their formats, as `interp.profile` and `interp.profiling` return them. `print` shows
    it.

    Attributes:
        policy: The policy of the evaluation.
        tensors: One TensorProfile for each float result of each operation and each float argument, in order of
            execution.
        results: The results of the last run, a list of arrays.
        steps: The number and the program's name of each run.
    """

    def __init__(self, policy: Policy | None = None, blocks: str | Iterable[str] = ()) -> None:
        """Raises InputError if `policy` is no Policy, or a block format is unknown."""
        self.policy = check_policy(policy)
        self._blocks = tuple(block_format(b).name for b in ([blocks] if isinstance(blocks, str) else blocks))
        self._runs: dict[int, _Run] = {}
        self.tensors: list[TensorProfile] = []
        self.results: list[Any] = []
        self.steps: list[dict[str, Any]] = []

    def run(self, source: Source, arrays: Sequence[Any], step: int | None = None) -> list[Any]:
        """Evaluate a program and count; `step` is the number of the sampled call. Returns its results.

        Raises InputError for arguments that do not fit, and the errors of the evaluation.
        """
        found = self._runs.get(id(source))
        if found is None:
            values, known = fit_arguments(source, arrays, partitions=True)
            found = self._runs[id(source)] = _Run(self, source, known)
        else:
            values, _ = fit_arguments(source, arrays, partitions=True)
        number = len(self.steps) if step is None else step
        self.results = found.run(values, number)
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
        return [f"{t.place}: {t.sentence()}" for t in self.findings]

    def table(self, most: int | None = 20) -> str:
        """The tensors with the largest losses as a table of text; None shows all that may round."""
        from .report_text import table

        return table(self, most)

    def __str__(self) -> str:
        from .report_text import text

        return text(self)

    def data(self) -> dict[str, Any]:
        """The profile as a dictionary; docs/numerics.md describes it."""
        return {
            "schema": SCHEMA,
            "steps": self.steps,
            "findings": self.sentences(),
            "tensors": [t.data() for t in self.tensors],
        }

    def to_json(self, path: Any = None) -> str:
        """The profile as JSON, which is also written to a file if `path` is given. Raises OutputError if that fails."""
        text = json.dumps(self.data(), indent=1, allow_nan=False)
        if path is not None:
            write(path, text)
        return text

    def html(self, path: Any = None) -> str:
        """The profile as one HTML page, also written to `path` if it is given. Raises OutputError if that fails."""
        from .report_html import page

        text = page(self)
        if path is not None:
            write(path, text)
        return text


def write(path: Any, text: str) -> None:
    """Writes a text to a file. Raises OutputError."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


class _Run:
    """One program of a profile."""

    def __init__(self, profile: Profile, source: Source, fitted: Source) -> None:
        self._profile, self._kept = profile, source  # so that its id stays its own
        self._source, self._exact = fitted, Exact()
        self._blocks: tuple[str, ...] = profile._blocks
        self._observed = ObservedProgram(fitted.program, fitted.function, profile.policy, self._observe)
        self._tensors: dict[tuple[Operation | None, int], TensorProfile] = {}
        self._now: dict[tuple[Operation | None, int], Statistics] = {}
        self._is_counted: dict[Operation, bool] = {}

    def run(self, values: Sequence[Any], step: int) -> list[Any]:
        self._now = {}
        names = self._source.names()
        for i, (x, t) in enumerate(zip(values, self._source.function.argument_types, strict=True)):
            if (name := _format(x)) is not None:
                key = None, i
                if key not in self._tensors:
                    at = self._source.function.location
                    self._add(key, TensorProfile("argument", i, names[i], str(t), at, at, False, Statistics(name)))
                self._statistics(key, name).add(x)
        results = self._observed.run(values)
        for key, statistics in self._now.items():
            tensor = self._tensors[key]
            tensor.statistics.merge(statistics)
            tensor.steps.append(Step.of(step, statistics))
        self._now = {}
        return results

    def _add(self, key: tuple[Operation | None, int], tensor: TensorProfile) -> None:
        self._tensors[key] = tensor
        self._profile.tensors.append(tensor)

    def _statistics(self, key: tuple[Operation | None, int], name: str) -> Statistics:
        self._tensors[key].executions += 1
        if key not in self._now:
            self._now[key] = Statistics(name)
        return self._now[key]

    def _observe(self, operation: Operation, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if operation not in self._is_counted:
            calls = call_attribute(operation.name) is not None
            runs = operation.regions and traits_of(operation.name).regions is not RegionSemantics.ELEMENTS
            self._is_counted[operation] = not (calls or runs)
        if not self._is_counted[operation]:
            return
        names = [_format(x) for x in results]
        in_blocks = target(operation) == QUANTIZE
        if in_blocks and (element := call_format(operation.attributes).element_format) is not None:
            names[0] = element.name
            results = [results[0].view(element.dtype), *results[1:]]
        if not any(names):
            return
        known = all(x is not None for x in operands)
        exact = self._exact.results(operation, operands, results) if known else [None] * len(results)
        for i, (x, name) in enumerate(zip(results, names, strict=True)):
            if name is None:
                continue
            key = operation, i
            if key not in self._tensors:
                self._add(key, self._new(operation, i, name))
            tensor, statistics = self._tensors[key], self._statistics(key, name)
            before = statistics.nans + statistics.infinities
            statistics.add(x, exact[i])
            made = statistics.nans + statistics.infinities - before
            if made and tensor.rounds and all(_is_finite(o) for o in operands):
                tensor.nonfinite_created += made
            if i == 0 and in_blocks and known:
                of = tensor.blocks.setdefault(call_format(operation.attributes).name, self._in_blocks(operation))
                of.add_call(operation.attributes, np.asarray(operands[0]), results)
            elif (wide := exact[i]) is not None and wide.ndim:
                for block in self._blocks:
                    tensor.blocks.setdefault(block, BlockStatistics(block)).add(wide)

    @staticmethod
    def _in_blocks(operation: Operation) -> BlockStatistics:
        return BlockStatistics(call_format(operation.attributes).name)

    def _new(self, operation: Operation, index: int, name: str) -> TensorProfile:
        scope, lines = self._source.places(operation)
        scope = scope.replace("jit(jaxpr_as_fun)", self._source.file)  # the same function was traced again
        calls = self._observed.calls[operation]
        inner = next((x for x in (*lines, *calls) if x.line), operation.location)
        line = own_line([*lines, *calls], inner)
        kind = str(operation.results[index].type)
        is_rounding = rounds(operation) or target(operation) == QUANTIZE
        return TensorProfile(
            operation.name, index, scope, kind, Location(line.file, line.line), inner, is_rounding, Statistics(name)
        )


def _format(x: Any) -> str | None:
    """The float type of an array by its name, None for others."""
    if not isinstance(x, np.ndarray):
        return None
    try:
        element = type_of_dtype(x.dtype)
    except ValueError:
        return None
    return element.name if element.is_float else None


def _is_finite(x: Any) -> bool:
    if _format(x) is None:
        return True
    statistics = Statistics(str(_format(x)))
    statistics.add(x)
    return not (statistics.nans or statistics.infinities)
