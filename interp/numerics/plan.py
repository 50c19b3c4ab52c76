"""`interp.quantize_plan`: for each operand of a matmul the cheapest format that keeps the output within a bound."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...ops.blocks.formats import BLOCK_FORMATS
from ...ops.close import hint
from ...ops.minifloat.formats import FORMATS
from ...ops.policy import Policy
from ...ops.types import TokenType
from .. import machine
from ..diff.compare import check_function, fit_arguments
from ..diff.source import Source
from ..errors import InputError
from ..planner import plan
from ..program import Location, Operation
from ..system import host_floats
from .measures import Measure as NormMeasure
from .observe import ObservedProgram
from .plan_rewrite import Rounding, Roundings, bits_of, products, rewrite
from .plan_search import Operand, Search
from .programs import check_policy, lowered_for
from .reports import Report, own_line, plain, short_place, text_table
from .statistics import scale_for

#: The default formats, and the default bound of the output's relative error.
FORMATS_TRIED = ("mxfp4_e2m1", "nvfp4", "f8E4M3FN", "f8E5M2", "mxfp8_e4m3", "mxfp8_e5m2", "bf16")
BOUND = 0.01
Measure = Callable[[Any, Any], float]


@dataclasses.dataclass(frozen=True)
class Choice:
    """The format of one operand of a matmul.

    Attributes:
        product: The number of the matmul in the program.
        op: The operation.
        operand: 0 or 1.
        type: The type of the operand.
        format: A float type, a block format, or None if the operand is unchanged.
        scale: k of the power of two 2^k by which the operand is multiplied before it is rounded; 0 for blocks.
        error: The measure of the output with this operand alone in its format.
        file: The file of the line.
        line: The line of code, 0 if it is not known.
    """

    product: int
    op: str
    operand: int
    type: str
    format: str | None
    scale: int
    error: float
    file: str
    line: int


@dataclasses.dataclass(frozen=True)
class QuantizePlan(Report):
    """Formats for the operands of a program's matmuls. `print` shows it; `apply` evaluates a function with it.

    Attributes:
        choices: One Choice for each operand of each matmul.
        bound: The largest permitted error of the output.
        error: The measured error of the output with all formats together.
        bits: Mean bits of an element of the operands, weighted by the sizes of their tensors.
        bits_before: The same for the original program.
        evaluations: The number of evaluations of the program.
    """

    choices: tuple[Choice, ...]
    bound: float
    error: float
    bits: float
    bits_before: float
    evaluations: int
    policy: Policy = dataclasses.field(default_factory=Policy)

    def apply(self, function: Any) -> Callable[..., Any]:
        """The function with the operands of its matmuls in the formats of the plan, evaluated here.

        Args:
            function: The function or program that the plan was made for.

        Returns:
            A function of the same arguments (for a program: of its arrays). Results are numpy arrays in the pytree of
            the function's results.

        Raises:
            InputError: `function` is not a function, or has other matmuls than the plan; when it is called.
        """
        check_function(function)

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            source, arrays, unflatten = lowered_for(self.policy, function, args, kwargs)
            values, source = fit_arguments(source, arrays, partitions=True)
            operands = [(o, i) for o in products(source.program, source.function) for i in range(2)]
            if [c.op for c in self.choices] != [o.name for o, _ in operands]:
                counts = f"the {len(self.choices) // 2} matmuls of the plan, got {len(operands) // 2}, or others"
                raise InputError(f"{source.file}: expected {counts}")
            roundings = [Rounding(c.format, c.scale) if c.format else None for c in self.choices]
            return unflatten(_evaluate(source, values, self.policy, dict(zip(operands, roundings, strict=True))))

        return run

    def table(self) -> str:
        """The choices as a table of text."""
        head = ("line", "op", "operand", "type", "format", "scale", "error alone")
        rows = [
            (
                short_place(Location(c.file, c.line)), c.op.rpartition(".")[2], str(c.operand), c.type, c.format or "-",
                f"2^{c.scale}" if c.format in FORMATS and c.scale else "-", f"{c.error:.3g}",
            )
            for c in self.choices
        ]  # fmt: skip
        return text_table([head, *rows])

    def __str__(self) -> str:
        changed = sum(c.format is not None for c in self.choices)
        return (
            f"{changed} of {len(self.choices)} operands of matmuls in other formats: "
            f"{self.bits:.3g} bits an element instead of {self.bits_before:.3g}\n"
            f"error of the output {self.error:.3g}, bound {self.bound:.3g} ({self.evaluations} evaluations)\n\n"
            f"{self.table()}"
        )

    def data(self) -> dict[str, Any]:
        """The plan as a dictionary that `json.dump` takes."""
        return {"schema": 1, **plain({k: v for k, v in vars(self).items() if k != "policy"})}


@host_floats.in_default
def quantize_plan(
    function: Any,
    /,
    *args: Any,
    formats: Iterable[str] = FORMATS_TRIED,
    bound: float = BOUND,
    measure: Measure | None = None,
    policy: Policy | None = None,
    **kwargs: Any,
) -> QuantizePlan:
    """Find for each operand of each matmul the cheapest format with which the output stays within a bound.

    An operand in a format is rounded to it and brought back to its own type; the product is then computed as before. An
    operand in a float type of up to 8 bits is first multiplied by a power of two, the largest with which these
    arguments fit, and saturates. Blocks lie along the dimension that is summed. A format is cheaper than another if an
    element has fewer bits, including its part of the scale of a block.

    The search measures each operand alone, takes the cheapest formats that keep the bound, and then gives better ones
    to the operands that matter most until the whole keeps it. At the end it tries each operand in cheaper formats once
    more. The error is measured on these arguments; others may have larger ones.

    Args:
        function: A function that JAX can trace, or a program as `interp.load` takes it.
        *args: The arguments of the function, or one array for each argument of the program.
        formats: Names of float types of up to 16 bits and of block formats. A format is tried on operands of more bits.
        bound: The largest permitted error of the output.
        measure: A function of (output, output with formats) that returns the error, where both are what `function`
            returns, as numpy arrays. The default is the norm of the difference divided by that of the output, the
            largest over all arrays of the output.
        policy: The policy of the evaluation. The default is `Policy()`.
        **kwargs: Keyword arguments of the function.

    Returns:
        A QuantizePlan. Its error is at most `bound`. `plan.apply(function)` evaluates a function with it.

    Raises:
        InputError: There is no such format, the bound is not valid, or the function has no matmul.
        ProgramError: The program cannot be read or is not supported.
    """
    names = _check_formats(formats)
    if isinstance(bound, bool) or not isinstance(bound, int | float) or not 0 <= bound < math.inf:
        raise InputError(f"bound: expected a number of at least 0, got {bound!r}")
    if measure is not None and not callable(measure):
        raise InputError(f"measure: expected a function, got {type(measure).__name__}")
    chosen = check_policy(policy)
    source, arrays, unflatten = lowered_for(chosen, function, args, kwargs)
    values, source = fit_arguments(source, arrays, partitions=True)
    operands = _operands(source, values, chosen, names)
    if not operands:
        raise InputError(f"{source.file}: expected a program with matmuls, got none")
    error = _error_of(_evaluate(source, values, chosen, {}), unflatten, measure)
    search = Search(operands, lambda roundings: error(_evaluate(source, values, chosen, roundings)), float(bound))
    options = search.run()
    made = []
    for i, (o, n) in enumerate(zip(operands, options, strict=True)):
        line = own_line(source.places(o.product)[1], o.product.location)
        rounding = o.options[n]
        fmt, scale = (rounding.format, rounding.scale) if rounding else (None, 0)
        made.append(
            Choice(i // 2, o.product.name, o.index, str(o.type), fmt, scale, search.alone(i, n), line.file, line.line)
        )
    bits, before = search.bits(options), search.bits([0] * len(operands))
    return QuantizePlan(tuple(made), float(bound), search.error(options), bits, before, len(search.errors), chosen)


def _check_formats(formats: Iterable[str]) -> list[str]:
    names = [formats] if isinstance(formats, str) else list(formats)
    known = {n for n, f in FORMATS.items() if f.bits <= 16 and f.has_zero} | set(BLOCK_FORMATS)
    for name in names:
        if name not in known:
            raise InputError(f"formats: expected a float type of up to 16 bits or a block format, got {name!r}"
                             f"{hint(str(name), known)}")  # fmt: skip
    if not names:
        raise InputError("formats: expected at least one, got none")
    return names


def _evaluate(source: Source, values: Sequence[Any], policy: Policy, roundings: Roundings) -> list[Any]:
    """The results of the program with roundings of the operands of some products."""
    made = plan(rewrite(source.program, roundings), source.function.name, policy)
    results = machine.run(made, values)
    return [r for r, t in zip(results, made.result_types, strict=True) if not isinstance(t, TokenType)]


def _operands(source: Source, values: Sequence[Any], policy: Policy, names: Sequence[str]) -> list[Operand]:
    """Each operand of a product with its possible formats, by the magnitudes it has."""
    found = [Operand(o, i, [None]) for o in products(source.program, source.function) for i in range(2)]
    largest = {o.value: 0.0 for o in found}

    def observe(operation: Operation, operands: Sequence[Any], _: Sequence[Any]) -> None:
        for x, v in zip(operands, operation.operands, strict=True) if operation in wanted else ():
            size = np.abs(x.astype(np.float64))
            largest[v] = max(largest[v], float(np.max(size, initial=0.0, where=np.isfinite(size))))

    wanted = {o.product for o in found}
    ObservedProgram(source.program, source.function, policy, observe).run(values)
    for o in found:
        for name in names:
            has_room = name not in BLOCK_FORMATS or len(o.type.shape) >= len(BLOCK_FORMATS[name].block)
            if has_room and bits_of(name) < o.type.element.bits:
                o.options.append(Rounding(name, _scale(name, largest[o.value])))
    return found


def _scale(name: str, largest: float) -> int:
    """The exponent of the largest power of two with which all magnitudes fit a float type of up to 8 bits."""
    if name in BLOCK_FORMATS or not FORMATS[name].is_minifloat or not largest:
        return 0
    return max(-500, min(500, scale_for(FORMATS[name], largest)))


def _error_of(
    good: list[Any], unflatten: Callable[[list[Any]], Any], measure: Measure | None
) -> Callable[[list[Any]], float]:
    """A function that gives the error of results; it is infinite if it is NaN, or if other elements are finite."""

    def floats(results: list[Any]) -> list[Any]:
        return [x for x in results if x.dtype.kind not in "biu"]

    norm, right = NormMeasure("norm", floats(good), ()), unflatten(list(good))

    def error(results: list[Any]) -> float:
        if measure is not None:
            found = float(measure(right, unflatten(results)))
            return math.inf if math.isnan(found) else found
        amount = norm.of(floats(results))
        return math.inf if amount.lost else amount.size

    return error
