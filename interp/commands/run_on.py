"""`minihlo run --on BACKEND`: runs an emulated program on a backend, and evaluates its checks here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.op import Call, CheckError, lookup
from ...ops.types import TensorType
from ..backends import PROGRAMS, BackendError, backend
from ..diff.compare import fit_arguments
from ..diff.examiner import evaluate
from ..diff.source import Source
from ..emulate.program import emulate_text
from ..errors import CheckFailure, ExecutionError, InputError
from ..planner import Plan
from ..program import Operation


def run_on(name: str, text: bytes, file: str, p: Plan, arguments: Sequence[Any]) -> list[Any]:
    """Run the function of a plan on a backend, rewritten so that it computes with no minifloat.

    Raises InputError for a backend that takes no programs or for values other than tensors, UnsupportedError for what
    is not emulated, CheckFailure for a check that does not hold, and ExecutionError where the backend fails.
    """
    runner = backend(name)
    if getattr(runner, "takes", "") != PROGRAMS or not hasattr(runner, "evaluate"):
        raise InputError(f"--on: expected a backend of programs, got {name}")
    values, source = fit_arguments(Source.of_text(text, file, 1, p.function.name), arguments)
    body = source.function.body
    assert body is not None
    checks = [o for o in body.operations if o.name.startswith("check.")]
    wanted = [*body.returns, *(v for o in checks for v in o.operands)]
    if not all(isinstance(v.type, TensorType) for v in (*body.arguments, *wanted)):
        raise InputError(f"{file}: expected arguments and results that are tensors for --on")
    rewritten = emulate_text(source.instrument(wanted), p.policy, file=file)
    try:
        found = evaluate(runner, rewritten, values, wanted)
    except BackendError as error:
        message = str(error) if str(error).startswith(name) else f"{name}: {error}"
        raise ExecutionError(f"{file}: {message}") from None
    finally:
        runner.close()
    results, rest = found[: len(body.returns)], iter(found[len(body.returns) :])
    for operation in checks:
        _check(operation, [next(rest) for _ in operation.operands])
    return results


def _check(operation: Operation, operands: list[np.ndarray]) -> None:
    """Evaluate a check. Raises CheckFailure."""
    record = lookup(operation.name)
    assert record is not None
    kernel = record.function(
        Call(operation.name, tuple([v.type for v in operation.operands]), (), operation.attributes)
    )
    try:
        with np.errstate(all="ignore"):
            kernel(*operands)
    except CheckError as error:
        raise CheckFailure(f"{operation.location}: {operation.name}: {error}") from None
