"""`interp.blame`: which operations make the difference between two ways of computing a program."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ops.types import TensorType, type_of_dtype
from ..diff.compare import fit_arguments, program_of
from ..diff.examiner import types_of
from ..diff.source import Source, is_movable
from ..errors import Error, InputError
from ..judging.equality import equal_values
from ..program import Operation
from .blame_report import Blame, BlamedOp, percent
from .evaluators import Choice, Evaluator, choice, convert_to, pair
from .measures import Amount, Measure, Outcome
from .reports import own_line
from .search import Effect, Search
from .substitution import Site, Substitution

#: The share of the difference that a set has to explain. All for ULP, which count the last bit.
_SHARES = {"ulp": 1.0}
_SHARE = 0.95
#: The most iterations of a loop, which ends loops that a fault keeps running.
_ITERATIONS = 100_000
#: The bytes of results that are kept to avoid computing them again.
_MEMORY = 1 << 30
#: Before any effect.
_UNKNOWN = Amount(-1)


def blame(
    function: Any,
    /,
    *args: Any,
    good: Any = "exact",
    bad: Any = "cpu",
    measure: Any = "norm",
    share: float | None = None,
    evaluations: int = 1000,
    iterations: int = _ITERATIONS,
    memory: int = _MEMORY,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    **kwargs: Any,
) -> Blame:
    """Find the operations that cause the difference between two ways of computing the same program.

    The program runs operation by operation in the good way, with a set of its operations computed in the bad way, each
    on the operands that it then has. A search over such sets finds the contribution of each operation to the difference
    of the *outputs*, and a smallest set that explains the difference. An operation in a loop is one for all iterations;
    in a function that is called several times, one for each call.

    Args:
        function: A function that JAX can trace (also one of `jax.jit` or `interp.jit`), or a program as `interp.load`
            takes it: a path, MLIR text, bytes or an `ir.Module`.
        *args: The arguments of the function, or one array for each argument of the program.
        good: One way: a `Policy`; the name of a chip, which stands for `Policy.target(name)`; a backend as
            `interp.compare` takes it (a platform of JAX, a name, an object); `"exact"`, with every sum rounded once;
            or `"f32"` or `"f64"`: every value of a narrower float type is held and computed in that type, so that a
            conversion to FP8 rounds nothing.
        bad: The other way, of the same kinds.
        measure: How the outputs are compared: `"norm"`, the relative norm of the difference, the largest of all
            outputs; `"ulp"`, the largest distance in ULP; `"loss"`, the difference of the first output that is a
            floating-point scalar; or a function of (good output, output), each as `function` returns it (of a program
            a list), which gives a number.
        share: The share of the difference that the set has to explain. The default is 0.95, and 1 for `"ulp"`.
        evaluations: The most runs of the program. With too few the result is not `complete`.
        iterations: The most iterations of a loop.
        memory: The bytes of results of operations that are kept for other runs.
        static_argnums: Static arguments by position, as of `jax.jit`.
        static_argnames: Static arguments by name, as of `jax.jit`.
        **kwargs: Keyword arguments of the function.

    Returns:
        A Blame. `print` shows it. `ranking` has every operation that the two ways compute differently, with its
        contribution; `explains` is the set.

    Raises:
        InputError: An argument is not one of those above, or the arguments are not those of the function.
        ProgramError: The program cannot be read or is not supported.
        ExecutionError: The program fails in the good way.
    """
    if share is not None and not 0 < share <= 1:
        raise InputError(f"share: expected more than 0 and at most 1, got {share}")
    for name, value in (("evaluations", evaluations), ("iterations", iterations), ("memory", memory)):
        if value < 1:
            raise InputError(f"{name}: expected at least 1, got {value}")
    chosen = [choice(good, "good")]
    try:
        chosen.append(choice(bad, "bad"))
        platform = next(filter(None, (getattr(c.backend, "platform", None) for c in reversed(chosen))), "cpu")
        source, arrays, unflatten = program_of(function, args, kwargs, static_argnums, static_argnames, platform)
        return examine(source, arrays, chosen[0], chosen[1], measure, share, evaluations, iterations, memory, unflatten)
    finally:
        for c in chosen:
            c.close()


def examine(
    source: Source,
    arrays: Sequence[Any],
    good: Choice,
    bad: Choice,
    measure: Any = "norm",
    share: float | None = None,
    evaluations: int = 1000,
    iterations: int = _ITERATIONS,
    memory: int = _MEMORY,
    unflatten: Callable[[list[Any]], Any] = list,
) -> Blame:
    """The result for a program with the arguments `arrays`. Raises as `blame`."""
    values, source = fit_arguments(source, arrays)
    evaluators = pair(source, good, bad)
    runs = Substitution(source, values, *evaluators, iterations=iterations, memory=memory)
    seen: defaultdict[Site, dict[str, int]] = defaultdict(dict)

    def observe(site: Site, *both: Sequence[Any]) -> None:
        counts = _differences(site.operation, *both)
        seen[site] = {name: seen[site].get(name, 0) + n for name, n in counts.items()}

    reference = runs.run(frozenset(), observe)
    measured = Measure(measure, reference, source.function.result_types, unflatten)
    outcome = runs.outcome(None, observe)
    required = share if share is not None else _SHARES.get(measured.name, _SHARE)
    sites = [site for site, counts in seen.items() if counts["differing"]]
    search = Search(runs.outcome, sites, measured, outcome, required, evaluations)
    effects = search.effects()
    order = sorted(sites, key=lambda s: effects[s].most if s in effects else _UNKNOWN, reverse=True)
    smallest = search.smallest(order)
    order.sort(key=lambda s: s not in smallest)
    numbers = {s: seen[s] | (effects[s].numbers(search.total) if s in effects else {}) for s in order}
    ranking = [_blame_op(source, s, s in smallest, numbers[s]) for s in order]
    return Blame(
        good.name,
        bad.name,
        measured.name,
        search.total,
        tuple(ranking),
        tuple(ranking[: len(smallest)]),
        search.explained(smallest),
        required,
        (*_notes(search, effects, outcome), *_refusals(evaluators)),
        tuple(search.evaluations.values()),
        search.is_complete,
    )


def _differences(operation: Operation, good: Sequence[Any], bad: Sequence[Any]) -> dict[str, int]:
    """Counts of one execution: the elements that differ between the two ways on the same operands."""
    elements = differing = 0
    for x, y in zip(good, bad, strict=True) if is_movable(operation) else ():
        if x.dtype != y.dtype:  # one of them is held in a wider type
            wide = max(x.dtype, y.dtype, key=lambda d: type_of_dtype(d).bits)
            x, y = (convert_to(v, TensorType(v.shape, type_of_dtype(wide))) for v in (x, y))
        elements += x.size
        differing += int(x.size - np.count_nonzero(equal_values(x, y)))
    return {"executions": 1, "elements": elements, "differing": differing}


def _blame_op(source: Source, site: Site, explains: bool, numbers: Mapping[str, Any]) -> BlamedOp:
    o = site.operation
    line = own_line([line for at in (o, *reversed(site.calls)) for line in source.places(at)[1]], site.location)
    calls = tuple(c.location for c in site.calls)
    return BlamedOp(o.name, line, types_of(o), calls, explains=explains, **numbers)


def _notes(search: Search[Site], effects: dict[Site, Effect], outcome: Outcome) -> list[str]:
    notes = []
    if isinstance(outcome, Error):
        notes.append(f"the bad way ends with an error: {outcome}")
    makers = [e for e in effects.values() if e.alone]
    if makers and not search.total:
        notes.append(f"{len(makers)} operations make a difference alone, but their errors cancel in the output")
    elif makers and search.total and max(e.alone for e in makers).of(search.total) > 2:
        most = percent(max(e.alone for e in makers).of(search.total))
        notes.append(f"alone an operation makes up to {most} of the difference: errors cancel in the output")
    if not search.is_complete:
        tried = sum(e.together == 1 for e in effects.values())
        notes.append(
            f"the search ended after {len(search.evaluations)} evaluations: {tried} of {len(search.candidates)} "
            "operations were tried alone, and the set that explains the difference may not be a smallest one"
        )
    return notes


def _refusals(evaluators: Sequence[Evaluator]) -> Iterator[str]:
    for evaluator in evaluators:
        for o, why in itertools.islice(evaluator.refused.items(), 5):
            yield f"{o.location}: {o.name}: computed exactly, as {evaluator.name} gives no result: {why}"
