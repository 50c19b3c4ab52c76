"""`interp.compare`: a function or program on a backend, op by op, against the exact results."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.policy import Policy
from ...ops.types import TensorType, Type
from ..api import contents
from ..backends import PROGRAMS, Backend
from ..backends.own import Minihlo
from ..backends.subjects import subject
from ..errors import InputError
from ..loaded import LoadedProgram
from ..lowered import JaxProgram, of_jax
from ..parse.reader import Locator
from ..parse.spmd import meets_processes
from ..program import all_operations
from ..system.isolate import Stopped
from ..values.values import check_input
from . import walk as whole
from .examiner import Examiner
from .outputs import examine_outputs
from .report import FLUSHES, HOWS, REPORT, Report
from .source import Source, is_movable
from .walk import Walk

#: Number of iterations of a loop that are examined.
ITERATIONS = 100


def compare(
    function: Any,
    /,
    *args: Any,
    backend: Any = "cpu",
    how: str = "op",
    policy: Policy | None = None,
    policies: Sequence[Policy | str] | None = None,
    iterations: int = ITERATIONS,
    flush: str = REPORT,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    **kwargs: Any,
) -> Report:
    """Compare a function or program on a backend with the exact results, operation by operation.

    Each operation gets the operands that the backend has computed, and its result is compared with the exact result on
    the same operands. So an error is reported at the operation that introduces it, without its consequences.

    Args:
        function: A function that JAX can trace (also one of `jax.jit` or `interp.jit`), or a program as `interp.load`
            takes it: a path, MLIR text, bytes or an `ir.Module`.
        *args: The arguments of the function, or one array for each argument of the program.
        backend: A platform of JAX, such as `"cpu"`, which runs in this process; a name that `minihlo conform` takes,
            such as `"reference"`, which runs in a child process; or an object with a method
            `evaluate(text, arrays) -> arrays`.
        how: `"op"` runs each operation alone, so that an error is the operation's own. `"program"` runs the program as
            the backend compiles it and returns every value: this shows the effects of compiling operations together.
        policy: The policy of the exact results. The default is `Policy()`.
        policies: Two policies, or names of chips, to compare with each other instead of a backend: each operation is
            computed by both from the values of the second. `Report.parting` is the first operation where they differ.
        iterations: The number of iterations of each loop that are compared.
        flush: Whether the backend may take subnormal numbers as zero: `"allow"`, `"report"` (DIVERGENT) or `"forbid"`
            (FAIL).
        static_argnums: Static arguments by position, as of `jax.jit`.
        static_argnames: Static arguments by name, as of `jax.jit`.
        **kwargs: Keyword arguments of the function.

    Returns:
        A Report. `print` shows it; `ops` has one entry for each operation, with a verdict. FAIL is a wrong result.
        ACCURACY is within the permitted error of functions and sums. DIVERGENT is a result that the format or the
        operation leaves open.

    Raises:
        InputError: The arguments are not those of the function, or there is no such backend.
        ProgramError: The program cannot be read or is not supported.
    """
    if how not in HOWS:
        raise InputError(f"how: expected one of {', '.join(HOWS)}, got {how!r}")
    if flush not in FLUSHES:
        raise InputError(f"flush: expected one of {', '.join(FLUSHES)}, got {flush!r}")
    if iterations < 1:
        raise InputError(f"iterations: expected at least 1, got {iterations}")
    two = None
    if policies is not None:
        if policy is not None or backend != "cpu":
            raise InputError("policies: expected no policy and no backend beside them, got one")
        two = [_name_policy(p, i) for i, p in enumerate(policies)]
        if len(two) != 2:
            raise InputError(f"policies: expected two, got {len(two)}")
    chosen = subject(backend) if two is None else Minihlo(*two[1])
    try:
        platform = getattr(chosen, "platform", "cpu")
        source, arrays, _ = program_of(function, args, kwargs, static_argnums, static_argnames, platform)
        beside, policy = ("", policy) if two is None else two[0]
        return examine(source, arrays, chosen, how, policy, iterations, beside, flush)
    finally:
        chosen.close()


def examine(
    source: Source,
    arrays: Sequence[Any],
    backend: Backend,
    how: str = "op",
    policy: Policy | None = None,
    iterations: int = ITERATIONS,
    beside: str = "",
    flush: str = REPORT,
) -> Report:
    """The report of a program with the arguments `arrays`; `beside` is the name of the policy if the backend is another
    one.

    Raises InputError for arguments, or a backend, that do not fit.
    """
    values, source = fit_arguments(source, arrays)
    if how == "program" and backend.takes != PROGRAMS:
        raise InputError(f"{backend.name} takes single operations, no programs (how='op')")
    examiner = Examiner(source.inline() if how == "program" else source, backend, policy or Policy(), beside, flush)
    try:
        if how == "program":
            results = whole.run(examiner, values)
        else:
            results = Walk(examiner, iterations).run(source.function, values)
    except Stopped:
        return Report(backend.name, how, list(examiner.reports.values()), [], beside, is_stopped=True)
    report = Report(
        backend.name, how, list(examiner.reports.values()), results, beside, skipped=skipped(examiner.source)
    )
    if not beside and how == "op" and backend.takes == PROGRAMS:
        report.outputs = examine_outputs(examiner, values, results)
    return report


def skipped(source: Source) -> list[str]:
    """The names of the ops of a program that are not compared, as their types cannot be passed to a backend."""
    bodies = [f.body for f in source.program.functions.values() if f.body is not None]
    found = (o for body in bodies for o in all_operations(body))
    return list(dict.fromkeys(
        o.name for o in found if o.results and not whole.gives_nothing_new(o) and not is_movable(o)
    ))  # fmt: skip


def _name_policy(policy: Any, index: int) -> tuple[str, Policy]:
    """A policy with its name: that of its chip, or else its index."""
    if isinstance(policy, Policy):
        return f"policies[{index}]", policy
    if not isinstance(policy, str):
        raise InputError(f"policies: expected a Policy or the name of a chip, got {type(policy).__name__}")
    try:
        return policy, Policy.target(policy)
    except ValueError as error:
        raise InputError(f"policies: {str(error).removeprefix('unit: ')}") from None


def source_of(program: Any) -> Source:
    """A program with its MLIR, from text, a path, bytes or an ir.Module. Raises InputError, ProgramError."""
    if isinstance(program, bytes | bytearray | memoryview):
        return Source.of_text(bytes(program), "<bytes>")
    if isinstance(program, LoadedProgram):
        raise InputError("a loaded program cannot be compared: its MLIR is not kept (pass what it was loaded from)")
    if hasattr(program, "operation"):
        return Source(program, Locator("<module>"), "<module>")
    return Source.of_text(*contents(program))


def program_of(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    platform: str = "cpu",
) -> tuple[Source, list[Any], Callable[[list[Any]], Any]]:
    """The program of a function or program, its arrays, and the conversion of a list of results to the function's.

    A function is lowered for a platform of JAX. Raises InputError for anything else, and for arguments that do not fit.
    """
    if is_program(function):
        if kwargs or static_argnums is not None or static_argnames is not None:
            raise InputError("a program takes arrays only (keywords and static arguments are for functions)")
        return source_of(function), list(args), list
    check_function(function)
    source, arrays, tree = trace(function, args, kwargs, static_argnums, static_argnames, platform)
    return source, arrays, tree.unflatten


def check_function(function: Any) -> None:
    """Raises InputError for anything but a function or a program."""
    if not is_program(function) and not callable(function):
        raise InputError(f"expected a function or a program, got {type(function).__name__}")


def is_program(thing: Any) -> bool:
    """Whether an object is a program for `interp.load`, and not a function."""
    return isinstance(thing, str | bytes | bytearray | memoryview | os.PathLike | LoadedProgram) or hasattr(
        thing, "operation"
    )


def fit_arguments(source: Source, arrays: Sequence[Any], partitions: bool = False) -> tuple[list[Any], Source]:
    """The values of the arguments, and the program specialized to their sizes.

    With `partitions` a program for several partitions is accepted too, with the gathered arguments.

    Raises InputError for arguments that do not fit the program, and for one whose processes meet.
    """
    function = source.function
    types = function.argument_types
    if len(arrays) != len(types):
        takes = ", ".join(map(str, types)) or "none"
        raise InputError(f"{source.file}: @{function.name}: expected {len(types)} inputs ({takes}), got {len(arrays)}")
    meets = meets_processes(source.program, function)
    for name in ("replicas", "partitions")[: 1 if partitions else 2]:
        count = int(source.program.attributes.get(f"mhlo.num_{name}", 1))
        if count > 1 and meets:
            raise InputError(f"{source.file}: expected a program that meets no other {name}, got one of {count}")
    values = [check_input(a, t, f"input {i}") for i, (a, t) in enumerate(zip(arrays, types, strict=True))]
    known: list[Type] = [
        TensorType(v.shape, t.element) if isinstance(t, TensorType) else t for v, t in zip(values, types, strict=True)
    ]
    return values, source.refine(known)


def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Iterable[str] | None,
    platform: str,
) -> tuple[Source, list[Any], Any]:
    """The function lowered for a platform, the values of its `@main`'s arguments, and the pytree of its results.

    Raises InputError without JAX, or for arguments that do not fit.
    """
    try:
        import jax
    except ImportError:
        raise InputError("comparing a function needs JAX, which is not installed (pip install jax)") from None
    if not hasattr(function, "trace"):
        function = jax.jit(function, static_argnums=static_argnums, static_argnames=static_argnames)
    elif static_argnums is not None or static_argnames is not None:
        raise InputError("the function is already jitted, with its own static arguments")
    made: Any = function
    lowered = made.trace(*args, **kwargs).lower(lowering_platforms=(platform,))
    program = of_jax(lowered)
    assert program is not None
    name = program.program.file
    shapes = [tuple(x.shape) for x in jax.tree.leaves(lowered.args_info)]
    arrays = program.arguments(_leaves(program, shapes, args, kwargs))
    return Source(lowered.compiler_ir("stablehlo"), Locator(name), name), arrays, program.out_tree


def _leaves(
    program: JaxProgram, shapes: list[tuple[int, ...]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """The arrays among the arguments. The tree of the others and their shapes show which arguments are static."""
    positional, named = program.in_tree.children()
    kept = {k: v for k, v in kwargs.items() if k in (named.node_data()[1] or ())}
    # If there is a choice, the last ones, and those that are not arrays.
    order = sorted(range(len(args)), key=lambda i: (hasattr(args[i], "shape"), -i))
    for static in itertools.combinations(order, len(args) - len(positional.children())):
        try:
            leaves = program.leaves([a for i, a in enumerate(args) if i not in static], kept)
        except InputError:
            continue
        if [tuple(getattr(x, "shape", None) or np.shape(x)) for x in leaves] == shapes:
            return leaves
    raise InputError(f"{program.program.file}: the arguments are not those of the function")
