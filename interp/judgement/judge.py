"""`interp.judge`: a function or program on a backend, as a whole, against all that is allowed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backends import PROGRAMS, Backend, BackendError
from ..backends.subjects import subject
from ..diff.compare import fit_arguments, is_program, program_of
from ..diff.examiner import evaluate
from ..diff.source import Source
from ..enclose import Allowed
from ..enclose.findings import CRASH, UNSUPPORTED, WRONG, compare, worst
from ..errors import Error, InputError
from . import inputs
from .part import Judge, Trace
from .reduce import find_part
from .verdicts import CHANGES, Judgement

#: The seconds that the search for a wrong part may take.
SECONDS = 60.0
#: How often a program that is wrong runs again, and a part of one whose results change.
_TRIES = 4
#: The sets of inputs that are drawn.
SAMPLES = 4


def judge(
    function: Any,
    /,
    *args: Any,
    backend: Any = "cpu",
    allowed: Allowed | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
    where: bool = True,
    minimize: bool = False,
    seconds: float = SECONDS,
    **kwargs: Any,
) -> Judgement:
    """Judge a function or program as a whole on a backend.

    The backend compiles the program as it stands. Its results are compared with the interpreter's, and with enclosures
    of all results that an implementation may give: sums in any order, contracted products, values kept wider than their
    type, functions within some ULP, subnormal numbers taken as zero.

    Args:
        function: A function that JAX can trace, or a program as `interp.load` takes it: a path, MLIR text, bytes or an
            `ir.Module`.
        *args: The arguments of the function, or one array for each argument of the program. Without any, a program that
            takes arguments gets drawn ones.
        backend: A platform of JAX, a name that `minihlo conform` takes, or an object with a method
            `evaluate(text, arrays) -> arrays`.
        allowed: What an implementation may choose; `Allowed()` by default.
        seed: The seed of drawn arguments.
        samples: How many sets of arguments are drawn.
        where: Whether to look for the smallest part that is wrong by itself, if a result is wrong.
        minimize: Whether to make that part's inputs and shapes smaller.
        seconds: The time that the search may take.
        **kwargs: Keyword arguments of the function.

    Returns:
        A Judgement. `print` shows it; `verdict` is `"EXACT"`, `"WITHIN"`, `"UNDECIDED"`, `"UNSUPPORTED"`, `"WRONG"` or
        `"CRASH"`.

    Raises:
        InputError: The arguments are not those of the function, or there is no such backend.
        ProgramError: The program cannot be read.
    """
    chosen = subject(backend)
    try:
        source, arrays, _ = program_of(function, args, kwargs, platform=getattr(chosen, "platform", "cpu"))
        is_drawn = is_program(function) and not args
        sets = inputs.draw(source, seed, samples) if is_drawn else [("given", arrays)]
        return judge_source(source, sets, chosen, allowed or Allowed(), where, minimize, seconds)
    finally:
        chosen.close()


def judge_source(
    source: Source,
    sets: Sequence[tuple[str, Sequence[Any]]],
    backend: Backend,
    allowed: Allowed,
    where: bool = True,
    minimize: bool = False,
    seconds: float = SECONDS,
) -> Judgement:
    """Return the verdict on a program for some sets of arguments. Raises InputError for arguments that do not fit."""
    if backend.takes != PROGRAMS:
        raise InputError(f"{backend.name}: expected a backend of programs, got one of single operations")
    found = Judgement(source.file, backend.name)
    for name, arrays in sets:
        values, fitted = fit_arguments(source, arrays)
        arguments = [np.asarray(v) for v in values]
        try:
            whole = fitted.inline()
            trace = Trace.of(whole, arguments, allowed)
        except (Error, ArithmeticError, LookupError, TypeError, ValueError) as error:
            found.verdict = worst([found.verdict, UNSUPPORTED])
            found.note(f"minihlo gives no enclosure: {error}")
            continue
        body = fitted.function.body
        assert body is not None
        try:
            theirs = evaluate(backend, fitted.instrument(body.returns), arguments, body.returns)
        except BackendError as error:
            if error.how == "absent":
                raise
            found.verdict = worst([found.verdict, UNSUPPORTED if error.is_lack else CRASH])
            found.note(f"{name}: {' '.join(str(error).split())[:240]}")
            if where and found.part is None and not error.is_lack:
                found.part = find_part(Judge(trace, backend, allowed, CRASH), minimize, time.monotonic() + seconds)
            continue
        findings = [compare(x, got) for x, got in zip(trace.enclosures, theirs, strict=True)]
        found.findings[name] = findings
        found.verdict = worst([found.verdict, *(f.verdict for f in findings)])
        if any(f.flushes for f in findings):
            found.note(f"{backend.name} takes subnormal numbers as zero")
        if where and found.part is None and any(f.verdict == WRONG for f in findings):
            changes = _changes(backend, fitted, arguments, theirs)
            if changes:
                found.note(CHANGES)
            parts = Judge(trace, backend, allowed, tries=_TRIES if changes else 1)
            found.part = find_part(parts, minimize, time.monotonic() + seconds)
            if found.part is None:
                found.note("no smaller part of it was found to be wrong by itself")
    return found


def _changes(backend: Backend, source: Source, arrays: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> bool:
    """Return whether a backend gives other results when it runs a program again."""
    body = source.function.body
    assert body is not None
    try:
        for _ in range(_TRIES):
            again = evaluate(backend, source.instrument(body.returns), arrays, body.returns)
            if any(x.tobytes() != y.tobytes() for x, y in zip(results, again, strict=True)):
                return True
    except BackendError:
        return True
    return False
